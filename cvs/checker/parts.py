"""A run in parts, each judged by itself: some view records, and all base records that can matter to them.

What is said of one view record depends on its own operations and on the time-lines of the base records that
touch it or that its certificates name: so parts can be judged anywhere, in any order. Of the whole view follows
what its records decide (`crosses`): it has converged if they all have, and lacks what one of them lacks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cvs.checker.bulk import bulk_of
from cvs.checker.classify import UNDEFINED, UNLOGGED, Judgement, Meanings, judge, nothing_shown
from cvs.checker.large import judge_large
from cvs.checker.meaning import Meaning
from cvs.checker.replay import Run, ViewRun, replay
from cvs.checker.shape import Shape, shape_of
from cvs.checker.verdict import LEVELS, Finding, Verdict, Witness, worst
from cvs.errors import AssumptionError, HistoryError
from cvs.history import events as ev
from cvs.history.carried import Arrow, Headers, arrowed, events_of, gather, whole_of
from cvs.history.columns import Gathered, Reader
from cvs.history.declared import declared
from cvs.history.merge import plain
from cvs.history.operations import ENDLESS
from cvs.history.packing import NONE, Integers, NotColumnarError
from cvs.history.router import number_of
from cvs.history.rows import Compute, Rows
from cvs.model.identity import key_identity
from cvs.model.views import BaseTable, ViewDefinition

KEPT = 200
"""Findings of one property that one part names one by one; beyond, they are counted."""

PLACE_BITS = 32
"""A place in the history: the number of a piece, then that of an event in it."""

Owned = Callable[[str, Sequence[Any]], bool]

WHOLE = "the engine in parts does not search whole views: ask --engine local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true of the whole run and every part must know."""

    headers: tuple[ev.RunStarted, ...]
    commits: tuple[ev.EpochCommitted, ...] = ()  # without their certificates
    rest: int | None = None  # when the run came to rest for good
    has_base_log: bool = False
    written: frozenset[str] = frozenset()  # views whose test-and-sets are recorded, somewhere
    parts: int = 1
    before: tuple[int, ...] = ()  # of several files: the latest time in each one before each of their pieces


def part_of(view: str, key: Sequence[Any], parts: int) -> int:
    """Return the part of a view record."""
    return number_of(view, key) % parts


class Touched(Reader):
    """Reads the rows of a base table: the part of the view record that each belongs to."""

    def __init__(self, part: Callable[[Sequence[Any]], int], shape: Shape) -> None:
        self.shape = shape
        self.found = [np.zeros(0, np.int64)]
        self._part: Compute = lambda row: part(shape.key_of(row))

    def take(self, rows: Rows, owners: Integers | None) -> None:
        """Ask once for each combination of values."""
        where = rows.present.copy()
        for keep in self.shape.keeps:
            where[where] = rows.computed(keep.names, keep.of, where) > 0
        column = np.full(rows.many, NONE)
        column[where] = rows.computed(self.shape.key_columns, self._part, where)
        self.found.append(column)


class Parts:
    """Knows which parts a record belongs to, and judges one."""

    def __init__(
        self,
        facts: Facts,
        meanings: Meanings,
        definition: Callable[[dict[str, Any]], ViewDefinition],
        tables: Mapping[str, BaseTable],
    ) -> None:
        self.facts, self.meanings, self.definition, self.tables = facts, meanings, definition, tables
        self.headers = () if plain(tables.values()) else facts.headers
        """Of declared tables, where values are not in their types as they stand."""
        self._known: dict[tuple[str, Any], int] = {}
        self._shapes: list[tuple[str, Shape]] = []
        self._meanings: list[tuple[str, Meaning]] = []
        self.beyond: set[str] = set()  # views whose records can touch any base record
        for view in {str(v.get("name", "")): v for h in facts.headers for v in h.views}.values():
            name = str(view.get("name", ""))
            meaning = meanings(ViewRun(name=name, definition=view))
            shape = shape_of(definition(view), tables) if meaning is not None else None
            if shape is not None:
                self._shapes.append((name, shape))
            elif meaning is not None and meaning.linear:
                self._meanings.append((name, meaning))
            elif meaning is not None:
                self.beyond.add(name)

    def of_record(self, view: str, key: Sequence[Any]) -> int:
        """Return the part of a view record; each is computed once."""
        name = (view, tuple(key))
        if name not in self._known:
            self._known[name] = part_of(view, key, self.facts.parts)
        return self._known[name]

    def of_row(self, table: str, key: Sequence[Any], row: ev.Row | None) -> list[int]:
        """Return the parts that an image touches, by views of no shape."""
        found = set[int]()
        for view, meaning in self._meanings if row is not None else ():
            told = meaning.contribution((table, key_identity(key)), row)
            found.update(self.of_record(view, k) for k in told)
        return sorted(found)

    def touching(self) -> dict[str, list[Touched]]:
        """Return readers of the parts that images touch, by table."""
        found: dict[str, list[Touched]] = {}
        for view, shape in self._shapes:
            found.setdefault(shape.table, []).append(Touched(partial(self.of_record, view), shape))
        return found

    @property
    def shaped(self) -> bool:
        """Say whether these readers tell all."""
        return not self._meanings


class Carried:
    """What was carried to one part, and its order: by place, or, of several files, by time, file and place."""

    def __init__(self, tables: Sequence[Arrow], facts: Facts) -> None:
        self.tables = tables
        at = np.concatenate([np.zeros(0, np.int64), *(whole_of(table, "at") for table in tables)])
        latest = np.zeros(len(at), np.int64)
        if facts.before:
            latest = np.concatenate([latest[:0], *(whole_of(table, "latest") for table in tables)])
            latest = np.maximum(latest, np.array(facts.before)[at >> PLACE_BITS])
        order = np.lexsort((at, latest))
        self.at = at[order]
        self.numbers = np.empty(len(at), np.int64)
        self.numbers[order] = np.arange(1, len(at) + 1)

    def events(self, headers: Headers, numbers: Sequence[int] | None = None) -> Iterator[Any]:
        """Yield the events of some numbers, or all, in order."""
        wanted = self.numbers if numbers is None else np.array(numbers, np.int64)
        found, before = dict[int, Any](), 0
        for table in self.tables:
            own = self.numbers[before : before + table.num_rows]
            before += table.num_rows
            rows = np.flatnonzero(np.isin(own, wanted))
            found.update(zip(own[rows].tolist(), events_of(table.take(arrowed(rows)), headers), strict=True))
        return (found[number] for number in sorted(found))


def judge_part(tables: Sequence[Arrow], part: int, parts: Parts, *, budget: int) -> list[Finding]:
    """Judge the view records of one part; what holds is counted, what does not is named."""
    carried = Carried(tables, parts.facts)

    def owned(view: str, key: Sequence[Any]) -> bool:
        return parts.of_record(view, key) == part

    def near(view: ViewRun) -> Meaning | None:
        return None if view.name in parts.beyond else parts.meanings(view)

    found = _in_bulk(carried, owned, near, parts, budget=budget)
    if found is None:
        found = _exactly(carried, owned, near, parts, budget=budget)
    return [
        renumbered(finding, {event: carried.at.item(event - 1) for event in cited(finding)})
        for finding in folded(_of_views_beyond(found, parts.beyond))
    ]


def _exactly(carried: Carried, owned: Owned, near: Meanings, parts: Parts, *, budget: int) -> list[Finding]:
    facts = parts.facts
    own = list(carried.events(parts.headers))
    _require_once(own)
    events = [*facts.headers, *own, *facts.commits]
    many = len(carried.at)
    run = replay(events, [*([0] * len(facts.headers)), *range(1, many + 1), *([0] * len(facts.commits))])
    run.rest, run.has_base_log = facts.rest, facts.has_base_log
    run.written |= facts.written
    return judge(run, near, budget=budget, whole=False, owned=owned).findings


def _require_once(events: Iterable[Any]) -> None:
    """Refuse an operation that stands there twice, which columns have no place for."""
    seen = set[tuple[type, str, int]]()
    for event in events:
        name = (type(event), event.process, getattr(event, "operation", -1))
        if name in seen and name[2] != -1:
            raise HistoryError.one_of_many(f'operation {name[2]} of "{name[1]}" stands there twice')
        seen.add(name)


def _in_bulk(
    carried: Carried, owned: Owned, near: Meanings, parts: Parts, *, budget: int
) -> list[Finding] | None:
    facts = parts.facts
    bulk = bulk_of(facts.headers, parts.definition, parts.tables, owned, facts.written)
    readers, bases = declared(bulk.readers, parts.tables)
    gathered = Gathered(readers, bases=bases, several=False)
    gathered.headers = list(facts.headers)
    gathered.rest = ENDLESS if facts.rest is not None else 0
    try:
        for table in carried.tables:
            gather(gathered, table)
        columns = gathered.columns(carried.numbers)
        found = judge_large(
            columns, bulk, partial(carried.events, parts.headers), near, budget=budget, whole=False
        )
    except NotColumnarError:
        return None
    return None if found is None else [f for f in found.findings if f.granularity == "record"]


def _of_views_beyond(findings: Iterable[Finding], beyond: set[str]) -> Iterable[Finding]:
    for finding in findings:
        if finding.view in beyond and finding.property in LEVELS:
            yield replace(finding, reason="its records can touch any base record: ask --engine local")
        else:
            yield finding


def cited(finding: Finding) -> list[int]:
    """Return the events that a finding names."""
    named = [] if finding.event is None else [finding.event]
    return [event for event in (*named, *(finding.witness.events if finding.witness else ())) if event > 0]


def renumbered(finding: Finding, numbers: Mapping[int, int]) -> Finding:
    """Name its events by other numbers."""
    witness = finding.witness
    if witness is not None:
        witness = replace(witness, events=tuple(numbers.get(event, event) for event in witness.events))
    event = finding.event
    return replace(finding, event=event if event is None else numbers.get(event, event), witness=witness)


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Count what holds, and what is beyond the first of a property; keep the largest of each measure."""
    kept: list[Finding] = []
    counted: dict[tuple[str, str, str, Verdict], Finding] = {}
    named: dict[tuple[str, str], int] = {}
    for finding in findings:
        place = (finding.property, finding.view)
        if finding.verdict is not Verdict.HOLDS and named.get(place, 0) < KEPT:
            named[place] = named.get(place, 0) + finding.count
            kept.append(finding)
            continue
        name = (finding.property, finding.view, finding.granularity, finding.verdict)
        old = counted.get(name)
        measure = _larger(old.witness if old else None, finding.witness)
        counted[name] = replace(
            finding, count=finding.count + (old.count if old else 0), witness=measure, key=None, event=None
        )
    return [*kept, *counted.values()]


def _larger(one: Witness | None, other: Witness | None) -> Witness | None:
    measures = [w for w in (one, other) if w is not None and w.kind == "measure"]
    if not measures:
        return None
    return replace(
        measures[0], facts={name: max(w.facts[name] for w in measures) for name in measures[0].facts}
    )


def together(parts: Iterable[Sequence[Finding]], run: Run) -> Judgement:
    """Return the judgement of the whole run."""
    judgement = Judgement(run=run, reference="writers")
    judgement.findings = folded(_once(finding for findings in parts for finding in findings))
    for view in run.views:
        records = [f for f in judgement.findings if f.view == view and f.granularity == "record"]
        for name in LEVELS:
            judgement.findings.append(_of_whole(view, name, [f for f in records if f.property == name]))
    return judgement


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Let pass once what each part says of a whole view."""
    told = set[tuple[str, str]]()
    for finding in findings:
        name = (finding.view, finding.property)
        if finding.reason not in (UNDEFINED, UNLOGGED):
            yield finding
        elif name not in told:
            told.add(name)
            yield finding


def _of_whole(view: str, name: str, records: list[Finding]) -> Finding:
    verdict = worst(f.verdict for f in records) if records else Verdict.UNDECIDED
    if verdict is Verdict.HOLDS and name != "converged":
        verdict = Verdict.UNDECIDED
    first = next((f for f in records if f.verdict is verdict), None)
    reason = "" if verdict is Verdict.HOLDS else WHOLE
    if verdict is Verdict.VIOLATED:
        reason = f"record {list(first.key)} is not" if first and first.key is not None else "a record is not"
    return Finding(
        property=name, verdict=verdict, view=view, granularity="view", tier="lineage", reason=reason,
        event=first.event if first and verdict is Verdict.VIOLATED else None,
    )  # fmt: skip


def refused(kinds: Mapping[str, int]) -> None:
    """Refuse what cannot be judged in parts."""
    if kinds.get("checkpoint"):
        raise AssumptionError(
            "a history that begins with a checkpoint is not judged in parts",
            next_step="cvs audit RUN --engine local",
        )
    if not kinds.get("test_and_set_called") and not kinds.get("view_read_returned"):
        raise nothing_shown()
