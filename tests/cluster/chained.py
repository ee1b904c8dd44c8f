"""Recorded runs of views whose records are many rows (the rows of a join key, of a top-k): proved by a witness.

The judge of histories knows records of one row each. Here what a record's signatures chain is gone through: each state
must be the view of the base versions that its certificates name, and what lies between two states one or the other of
both. That shows every version of every base record, in an order that the view could have seen: *complete*.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.history.codec import event_of
from cvs.history.events import (
    Absorbed,
    BaseUpdateCalled,
    RunStarted,
    TestAndSetCalled,
    TestAndSetReturned,
    ViewReadCalled,
    ViewReadReturned,
)
from cvs.suite.classes import ViewClass
from cvs.suite.judged import View, form, view_of

BaseKey = tuple[str, tuple[Any, ...]]


@dataclass(slots=True)
class Run:
    """What a folder of histories says."""

    lines: dict[BaseKey, list[Any]] = field(default_factory=dict)  # a base record's rows, by version
    sets: dict[Any, TestAndSetCalled] = field(default_factory=dict)  # by view key and new signature
    ends: dict[Any, Any] = field(default_factory=dict)  # view key -> signature at the end
    shown: dict[Any, Any] = field(default_factory=dict)  # view key -> what it showed at the end
    perhaps: Counter[Any] = field(default_factory=Counter)  # how many attempts at one were not refused


def run_of(folder: Path) -> Run:
    """Read a run."""
    run = Run()
    for file in sorted(folder.glob("*.ndjson")):
        calls: dict[int, Any] = {}
        for line in file.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                continue  # torn by a kill
            match event_of(line):
                case RunStarted(views=views):
                    assert not views, "a view that is named is judged as one of single rows"
                case BaseUpdateCalled(table=table, key=key, row=row):
                    run.lines.setdefault((table, key), [None]).append(row)
                case TestAndSetCalled() | ViewReadCalled() as call:
                    calls[call.operation] = call
                    if isinstance(call, TestAndSetCalled):
                        at = (call.view_key, call.new)
                        assert run.sets.setdefault(at, call).row == call.row, f"{at} is of two rows"
                        run.perhaps[at] += 1
                case TestAndSetReturned(operation=operation, outcome="rejected" | "not_sent"):
                    run.perhaps[calls[operation].view_key, calls[operation].new] -= 1
                case ViewReadReturned(operation=operation, rows=rows, signature=signature):
                    key = calls[operation].view_key
                    if file.name == "end.ndjson":
                        run.ends[key], run.shown[key] = signature, rows[0][1] if rows else None
    return run


def chain(run: Run, key: Any) -> list[TestAndSetCalled]:
    """Return the test-and-sets of a view record that took effect: backwards from the signature it ended with.

    One may be refused and stand: an attempt of before, whose answer was lost, was there already.
    """
    found: list[TestAndSetCalled] = []
    at = run.ends[key]
    while at is not None:
        assert run.perhaps[key, at], f"record {key}: {at} was refused each time and stands"
        found.append(run.sets[key, at])
        at = found[-1].expected
    return found[::-1]


def steps(absorbed: tuple[Absorbed, ...], versions: dict[BaseKey, int]) -> Iterator[None]:
    """Move versions forward, one at a time."""
    for it in absorbed:
        at = (it.table, it.key)
        assert versions.get(at, 0) <= it.from_version < it.to_version, f"{at} goes back"
        while versions.get(at, 0) < it.to_version:
            versions[at] = versions.get(at, 0) + 1
            yield


def proved_complete(shape: ViewClass, run: Run) -> int:
    """Prove every view record of a run complete; return how many states they showed."""

    def at_versions(versions: Mapping[BaseKey, int]) -> View:
        rows: dict[str, list[Any]] = {table: [] for table in shape.domains}
        for at, version in versions.items():
            if (row := run.lines[at][version]) is not None:
                rows[at[0]].append(row)
        return view_of(shape, rows)

    count = 0
    wanted = at_versions({at: len(line) - 1 for at, line in run.lines.items()})
    for key in {**run.ends, **wanted}:
        sets = chain(run, key) if key in run.ends else []
        versions: dict[BaseKey, int] = {}
        shown = None
        for it in sets:
            after = None if it.row is None or not it.row["rows"] else form({"rows": it.row["rows"]})
            between = [at_versions(versions).get(key) for _ in steps(it.absorbed, versions)]
            assert between[-1:] == [after], f"record {key}: {it.new} shows {after}, its base states {between}"
            flips = sum(a != b for a, b in zip([shown, *between], between, strict=False))
            assert flips == (shown != after), f"record {key}: between {shown} and {after} were {between}"
            shown, count = after, count + (after != shown)
        ended = run.shown.get(key)
        assert shown == (None if ended is None else form(ended)) == wanted.get(key), f"record {key}: the end"
    return count
