"""`cvs audit`: which consistency a recorded run really had."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cvs.checker.verdict import NOTHING
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json, talk
from cvs.errors import ExitCode, HistoryError, SpecificationError
from cvs.model.values import many
from cvs.programs.epoch import place
from cvs.report.audit import audit, require_levels
from cvs.report.hand import BUDGET
from cvs.report.load import ready_for_pieces
from cvs.report.summary import Document, difference, summarize
from cvs.report.text import screen
from cvs.stream.recording import LAST, is_recording


@click.command(
    help="""Judge a recorded run: linearizability, converged, weak, strong, complete; each with evidence.

    RUN is a history of ours (files of all its processes, or a folder), or one history of another system:
    Jepsen EDN or console log, elle-cli JSON, Porcupine's logs. The folder into which `cvs run` records ([recording])
    is a RUN too: the cluster of the settings says what its views are and what was there before its first epoch.

    \b
    Examples:
      cvs audit run.ndjson --expect strong
      cvs audit /var/lib/cvs/runs --expect strong --settings /etc/cvs/cvs.toml
    """
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--expect", metavar="LEVEL", help="The level every view record must have.")
@click.option("--expect-view", metavar="LEVEL", help="The level every whole view must have.")
@click.option("--expect-snapshots", metavar="LEVEL", help="The level snapshots of a whole view must have.")
@click.option(
    "--from", "start", type=float, help="Seconds from the first event: begin at the last rest before."
)
@click.option("--to", "end", type=float, help="Seconds from the first event: what came later is not there.")
@click.option("--view", "views", multiple=True, metavar="V", help="Judge this view only; may be repeated.")
@click.option(
    "--partial",
    multiple=True,
    metavar="V",
    help="V keeps only some of its records: an absent one is unknown. May be repeated.",
)
@click.option("--finding", metavar="F", help="Tell all about one property.")
@click.option(
    "--reference",
    default="writers",
    show_default=True,
    help="Base time-line: writers, write-time or absorbed.",
)
@click.option(
    "--budget", default=BUDGET, show_default=True, type=click.IntRange(1), help="Steps per question."
)
@click.option(
    "--engine", default="local", show_default=True, help="local, or spark: parts of any size in tasks."
)
@click.option("--master", default="local[2]", show_default=True, help="Spark master, with --engine spark.")
@click.option(
    "--last",
    default=LAST,
    show_default=True,
    type=click.IntRange(1),
    help="Of a recording: about so many base changes.",
)
@settings_option
@click.option("--diff", is_flag=True, help="Compare the verdicts of two runs.")
@json_option
def command(
    runs: tuple[Path, ...],
    expect: str | None,
    expect_view: str | None,
    expect_snapshots: str | None,
    start: float | None,
    end: float | None,
    views: tuple[str, ...],
    partial: tuple[str, ...],
    finding: str | None,
    reference: str,
    budget: int,
    engine: str,
    master: str,
    last: int,
    settings_file: str | None,
    diff: bool,
    as_json: bool,
) -> int:
    """Judge, print, and leave with the code of the verdict."""
    wanted = (("record", expect), ("view", expect_view), ("snapshots", expect_snapshots))
    expected = {granularity: level for granularity, level in wanted if level}
    options: dict[str, Any] = {
        "expected": expected,
        "views": views or None,
        "reference": reference,
        "budget": budget,
        "window": (start, end),
    }
    if engine not in ("local", "spark"):
        raise SpecificationError(f"no engine is called {engine!r}", next_step="local or spark")
    if engine == "spark" and ((start, end) != (None, None) or partial):
        raise SpecificationError(
            "the Spark engine judges whole runs of whole views", next_step="--engine local"
        )

    def judged(run: tuple[Path, ...]) -> Document:
        if is_recording(run):
            if partial:
                raise SpecificationError(
                    "a pipeline keeps every record of its views", next_step="leave --partial out"
                )
            return _recording(run, options, settings_file=settings_file, engine=engine, last=last)
        if engine == "spark":
            return _on_spark(run, expected, reference=reference, budget=budget, master=master, views=views)
        return audit(run, **options, partial=partial)[0]

    if diff:
        return _diff(runs, judged, as_json=as_json)
    document = judged(runs)
    code = ExitCode(document["exit_code"])
    if as_json:
        print_json("audit", document, exit_code=code)
    else:
        text = screen(document, paths=" ".join(map(str, runs)), finding=finding)
        console().print(text)
    return code


def _recording(
    runs: tuple[Path, ...], options: dict[str, Any], *, settings_file: str | None, engine: str, last: int
) -> Document:
    """Judge what a sidecar recorded, by the base time-line that it absorbed: it knows no other."""
    # because a history of files needs no cluster, whose parts take as long to load as all others
    from cvs.cli.recorded import judged
    from cvs.sidecar.recordings import note_levels

    if engine == "spark" or options["reference"] not in ("writers", "absorbed"):
        raise SpecificationError(
            "a recording is judged here, by the base time-line that its pipeline absorbed",
            next_step="cvs convert RUN --to run.ndjson, then cvs audit run.ndjson",
        )
    settings = read_settings(settings_file)
    with talk().status("reading the recording and what DELTA holds"):
        document, judgement, found = judged(settings, runs, last=last, **options)
    earlier = f"; {many(found.left_out, 'recorded epoch')} before, not judged" if found.left_out else ""
    still = f"; paused or broken, not judged: {', '.join(found.unshown)}" if found.unshown else ""
    built = "; nothing moved since the views were built: that is judged" if found.built else ""
    first = place(found.first).split(" of ")[0]
    talk().print(f"epochs {first} to {place(found.last)}{earlier}{built}{still}")
    levels = {view: judgement.level("record", view) for view in judgement.run.views}
    decided = {view: it.proved for view, it in levels.items() if NOTHING not in (it.proved, it.not_refuted)}
    refuted = {view: NOTHING for view, it in levels.items() if it.not_refuted == NOTHING}
    note_levels(settings, decided | refuted, found)
    return document


def _on_spark(
    runs: tuple[Path, ...],
    expected: dict[str, str],
    *,
    reference: str,
    budget: int,
    master: str,
    views: tuple[str, ...],
) -> Document:
    """Judge in Spark's tasks, with a progress line on a terminal."""
    from cvs.stream import audit as engine
    from cvs.stream.spark import spark_session

    if reference != "writers" or views:
        raise SpecificationError(
            "the Spark engine judges all views, by the writers' own log", next_step="--engine local"
        )
    require_levels(expected)
    files = ready_for_pieces(runs)
    session = spark_session(master)
    session.sparkContext.setLogLevel("OFF")  # because what a task refuses is told below, without its stack
    try:
        with talk().status("starting") as status:

            def progress(done: int, known: int) -> None:
                status.update(f"{done:,} of {known:,} tasks")

            judgement = engine.audit(session, runs, budget=budget, progress=progress)
    except HistoryError as refusal:
        where = refusal.where or " ".join(map(str, runs))
        raise HistoryError(refusal.what, where=where, next_step=refusal.next_step) from None
    finally:
        session.stop()
    return summarize(judgement, files, expected)


def _diff(runs: tuple[Path, ...], judged: Callable[[tuple[Path, ...]], Document], *, as_json: bool) -> int:
    if len(runs) != 2:
        raise SpecificationError("--diff takes two runs", next_step="cvs audit --diff A B")
    one, other = (judged((run,)) for run in runs)
    lines = difference(one, other)
    code = ExitCode.VIOLATED if lines else ExitCode.MET
    if as_json:
        print_json("audit", {"differences": lines}, exit_code=code)
    else:
        console().print("\n".join(lines) or "the two verdicts are the same")
    return code
