"""Whole runs against brute force: several views in one history, of one table and of two, from the start or from a
checkpoint.

What every view means is written out here once more, by hand; the judge has the definitions. Nothing overlaps and
nothing is unknown, so every level of every view record and of every whole view must be decided, and as the
definitions of the levels say (`brute.py`).
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import msgspec
import pytest

from cvs.checker import brute
from cvs.checker.classify import judge
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.replay import replay
from cvs.checker.verdict import LEVELS, Verdict
from cvs.history import events as ev
from cvs.history.checkpoint import rolled
from tests.agree.problems import Recorder
from tests.stories.views import VIEWS

Rows = dict[tuple[str, str], dict[str, Any] | None]
View = dict[Hashable, dict[str, Any]]

ASKED = (brute.converged, brute.weak, brute.chain, brute.complete)
MOST_UPDATES = 5


def _of(rows: Rows, table: str) -> list[dict[str, Any]]:
    return [row for (name, _), row in sorted(rows.items()) if name == table and row is not None]


def _grouped(name: str, fold: Callable[[list[int]], int], rows: Rows) -> View:
    groups: dict[int, list[int]] = {}
    for row in _of(rows, "r"):
        groups.setdefault(row["x"], []).append(row["y"])
    return {x: {"x": x, name: fold(values)} for x, values in groups.items()}


def _join(rows: Rows) -> View:
    names = {row["k"]: row["z"] for row in _of(rows, "s")}
    return {r["k"]: {"k": r["k"], "y": r["y"], "z": names[r["y"]]} for r in _of(rows, "r") if r["y"] in names}


def _both(rows: Rows) -> View:
    return {x: {"x": x} for x in {r["x"] for r in _of(rows, "r")} & {s["x"] for s in _of(rows, "s")}}


MEANT: dict[str, Callable[[Rows], View]] = {
    "sum": lambda rows: _grouped("sum", sum, rows),
    "count": lambda rows: _grouped("count", len, rows),
    "min": lambda rows: _grouped("min", min, rows),
    "rows": lambda rows: {row["k"]: row for row in _of(rows, "r")},
    "small": lambda rows: {r["k"]: {"k": r["k"], "y": r["y"]} for r in _of(rows, "r") if r["y"] < 25},
    "join": _join,
    "both": _both,
}


@dataclass
class Kept:
    """One view as it is maintained, well or not, and all that it showed."""

    kind: str
    name: str
    shown: View = field(default_factory=dict)
    signed: dict[Hashable, int] = field(default_factory=dict)
    held: dict[Hashable, dict[tuple[str, str], int]] = field(default_factory=dict)


def made(chance: random.Random) -> tuple[list[Any], dict[str, str]]:
    """A run of some views, most writes right, with a rest somewhere; the kinds of its views by name."""
    kinds = [chance.choice(list(MEANT)) for _ in range(chance.randint(1, 3))]
    views = [Kept(kind, f"v{number}") for number, kind in enumerate(kinds)]
    run = Recorder()
    run.events = [
        ev.RunStarted(process=p, time=0, run="runs", views=tuple({"name": v.name} for v in views))
        for p in "wm"
    ]
    rows: Rows = {}
    old: Rows = {}
    care = chance.choice((0.0, 0.1, 0.3))  # how often a write goes wrong
    late = chance.choice((0.0, 0.3))  # ... or is left for later
    for _ in range(chance.randint(1, MOST_UPDATES)):
        table, key = ("s", chance.choice("01")) if chance.random() < 0.25 else ("r", chance.choice("pq"))
        if table == "s":
            row: Any = {"k": int(key), "x": chance.randrange(2), "z": chance.randrange(2)}
        else:
            row = {"k": key, "x": chance.randrange(2), "y": chance.choice((0, 1, 2, 30))}
        old = dict(rows)
        rows[table, key] = None if rows.get((table, key)) and chance.random() < 0.25 else row
        run.base(int(key) if table == "s" else key, rows[table, key], table=table)
        for view in views:
            _maintain(chance, run, view, rows, old, care=care, late=late)
        if chance.random() < 0.25:
            run.rest()
    for view in views:
        _maintain(chance, run, view, rows, old, care=care / 2, late=late / 2)
    return run.rest(), {view.name: view.kind for view in views}


def _maintain(
    chance: random.Random, run: Recorder, view: Kept, rows: Rows, old: Rows, *, care: float, late: float
) -> None:
    if chance.random() < late:
        return
    meant = MEANT[view.kind](old if chance.random() < care / 2 else rows)
    for key in sorted(meant.keys() | view.shown.keys(), key=repr):
        row = meant.get(key)
        if row is not None and chance.random() < care / 2:
            name = sorted(row)[-1]
            row = {**row, name: row[name] + 1 if isinstance(row[name], int) else row[name]}
        if row == view.shown.get(key) and chance.random() < 0.9:
            continue
        held = view.held.setdefault(key, {})
        lines = []
        for table, name in sorted(rows):
            base = int(name) if table == "s" else name
            last = run.versions[table, base]
            if held.get((table, name), 0) < last and chance.random() < 0.9:
                lines.append((base, held.get((table, name), 0), last, table))
                held[table, name] = last
        last_one = view.signed.get(key, 0)
        view.signed[key] = last_one + 1
        run.write_record(
            (key,), row, lines if chance.random() < 0.8 else [],
            expected=(0, last_one, 0, True) if last_one else None, new=(0, last_one + 1, 0, True),
        )  # fmt: skip
        run.events[-2] = msgspec.structs.replace(run.events[-2], view=view.name)
        if row is None:
            view.shown.pop(key, None)
        else:
            view.shown[key] = row


@dataclass
class Told:
    """What a history says, read here once more: base time-lines, and the states of every view."""

    images: dict[tuple[str, str], list[dict[str, Any] | None]] = field(default_factory=dict)
    first: dict[str, View] = field(default_factory=dict)
    writes: dict[str, list[tuple[Hashable, dict[str, Any] | None]]] = field(default_factory=dict)


def read(events: list[Any], names: list[str]) -> Told:
    told = Told(first={n: {} for n in names}, writes={n: [] for n in names})
    for event in events:
        match event:
            case ev.Checkpoint():
                told.images |= {(table, str(key[0])): [row] for table, key, _, row in event.base}
                for view, key, _, row in event.views:
                    if row is not None:
                        told.first[view][key[0]] = row
            case ev.BaseUpdateCalled():
                told.images.setdefault((event.table, str(event.key[0])), [None]).append(event.row)
            case ev.TestAndSetCalled():
                told.writes[event.view].append((event.view_key[0], event.row))
    return told


def truths(told: Told, name: str, kind: str, key: Hashable | None) -> list[bool]:
    """Say of each level whether it holds, by the definitions; `key` None: of the whole view."""
    records = sorted(told.images)

    def of(view: View) -> Hashable:
        if key is not None:
            return frozenset(view[key].items()) if key in view else None
        return frozenset((k, frozenset(row.items())) for k, row in view.items())

    def meaning(cut: tuple[int, ...]) -> Hashable:
        return of(MEANT[kind]({r: told.images[r][v] for r, v in zip(records, cut, strict=True)}))

    shown = dict(told.first[name])
    states = [of(shown)]
    for written, row in told.writes[name]:
        shown.pop(written, None)
        shown |= {} if row is None else {written: row}
        if key is None or written == key:
            states.append(of(shown))
    tops = tuple(len(told.images[record]) - 1 for record in records)
    known = cache(meaning)  # brute force asks for the same cuts again and again
    own = [question(tops, known, tuple(states)) for question in ASKED]
    return [all(own[: level + 1]) for level in range(len(own))]


def agree(seed: int, number: int) -> Counter[str]:
    chance = random.Random(seed)
    count: Counter[str] = Counter()
    for _ in range(number):
        events, kinds = made(chance)
        begun = "from the start"
        if chance.random() < 0.5 and sum(isinstance(e, ev.Quiescent) for e in events) > 1:
            events, begun = rolled(events), "from a checkpoint"
        told = read(events, list(kinds))
        meanings = {name: DefinitionMeaning(replace(VIEWS[kind], name=name)) for name, kind in kinds.items()}
        judgement = judge(replay(events), lambda view, known=meanings: known[view.name], budget=1_000_000)
        for finding in judgement.findings:
            if finding.property not in LEVELS:
                continue
            key = None if finding.key is None else finding.key[0]
            holds = truths(told, finding.view, kinds[finding.view], key)[LEVELS.index(finding.property)]
            case = (finding, kinds, "\n".join(map(str, events)))
            assert finding.verdict is (Verdict.HOLDS if holds else Verdict.VIOLATED), case
            count[f"{finding.granularity} {finding.verdict.value}"] += 1
            count[begun] += 1
            count["of several views"] += len(kinds) > 1
    return count


def test_whole_runs_and_brute_force_agree(told: Callable[[str], None]) -> None:
    count = agree(seed=1, number=150)
    told(f"agreed on {count['from the start'] + count['from a checkpoint']:,} verdicts: {dict(count)}")
    assert min(count["record violated"], count["view violated"], count["view holds"]) > 60, count
    assert min(count["from a checkpoint"], count["of several views"]) > 200, count


@pytest.mark.slow
def test_thousands_of_whole_runs_and_brute_force_agree(told: Callable[[str], None]) -> None:
    number = int(os.environ.get("CVS_EXAMPLES", "2000"))
    count = agree(seed=int(os.environ.get("CVS_SEED", "2")), number=number)
    told(f"agreed on {count['from the start'] + count['from a checkpoint']:,} verdicts: {dict(count)}")
    assert count["from a checkpoint"] > number, count
