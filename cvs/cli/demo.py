"""`cvs demo`: the whole of cvs in one play on a real node, every number real."""

import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from cvs.checker.verdict import Verdict, worst
from cvs.cli.output import console
from cvs.embedded.cluster import EmbeddedCluster
from cvs.errors import ExitCode
from cvs.history.codec import event_of
from cvs.report.hand import judge_events
from cvs.report.page import run_page
from cvs.report.summary import summarize
from cvs.store.session import ClusterAddress
from cvs.stream.demo import Compared, Stage, on_stage, write_history
from cvs.stream.play import Play


@click.command(
    help="""Show everything once: a shop on a real node, views live, kill -9, a zombie, the judge's verdict.

    \b
    Example:
      cvs demo --folder demo
    """
)
@click.option("--folder", type=click.Path(path_type=Path), help="Where to leave history and report.")
@click.option("--spark/--no-spark", default=True, show_default=True, help="Drive the epochs with Spark.")
@click.option("--seconds", default=6.0, show_default=True, help="How long each scene writes.")
def command(folder: Path | None, spark: bool, seconds: float) -> int:
    """Run the play, judge it, and say where the report is."""
    screen = console(markup=True)
    started = time.monotonic()
    place = (folder or Path(tempfile.mkdtemp(prefix="cvs-demo-"))).absolute()
    place.mkdir(parents=True, exist_ok=True)

    def say(text: str) -> None:
        screen.print(f"[dim]{time.monotonic() - started:5.1f} s[/dim]  {text}")

    say("booting one Cassandra node (embedded, from pinned artifacts)")
    with EmbeddedCluster(size=1) as cluster:
        node = cluster.nodes[0]
        address = ClusterAddress(contact_points=(node.address,), port=node.native_port)
        with on_stage(place, address) as stage:
            play = Play(stage, say, spark=spark, seconds=seconds)
            right = play.with_signatures()
            _compared(screen, play.compared)
            verdicts = _judged(screen, stage, "views")
            play.without_signatures()
            _compared(screen, play.compared)
            _judged(screen, stage, "naive")
    say(f"done; everything it left: {place}")
    return ExitCode.MET if right and verdicts else ExitCode.VIOLATED


def _compared(screen: Console, compared: list[Compared]) -> None:
    table = Table("view", "rows", "wrong rows", title="views against the base tables, recomputed")
    for it in compared:
        table.add_row(it.view, str(it.rows), f"[red]{it.wrong}[/red]" if it.wrong else "[green]0[/green]")
    screen.print(table)


def _judged(screen: Console, stage: Stage, views: str) -> bool:
    """Judge the recorded history; print what it says of each view; write the page."""
    history = write_history(stage, views)
    columns = ("view", "converged", "strong, each record", "refuted", "strong, whole view in snapshots")
    table = Table(*columns, title=f"the judge on {history.name}")
    table.columns[0].no_wrap = True  # because in 80 columns headings may be broken, names may not
    events = [event_of(line) for line in history.read_bytes().splitlines()]
    judgement = judge_events(events)
    proved = True
    for view in sorted(judgement.run.views):
        findings = [f for f in judgement.findings if f.view == view and f.granularity == "record"]
        said = {
            name: worst(f.verdict for f in findings if f.property == name) for name in ("converged", "strong")
        }
        refuted = sum(f.verdict is Verdict.VIOLATED for f in findings if f.property in said)
        whole = worst(f.verdict for f in judgement.of("strong", "snapshots") if f.view == view)
        proved = proved and all(verdict is Verdict.HOLDS for verdict in (*said.values(), whole))
        table.add_row(
            view, *(_coloured(verdict) for verdict in said.values()), str(refuted), _coloured(whole)
        )
    page = history.with_suffix(".html")
    document = summarize(judgement, [{"file": str(history)}], {})
    page.write_text(run_page(judgement, document), encoding="utf-8")
    screen.print(table)
    screen.print(f"        {len(events):,} events; report: {page}; ask more: cvs audit {history}")
    return proved


def _coloured(verdict: Verdict) -> str:
    colour = {Verdict.HOLDS: "green", Verdict.VIOLATED: "red"}.get(verdict, "yellow")
    return f"[{colour}]{verdict.value}[/{colour}]"
