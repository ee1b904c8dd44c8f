"""A run in parts, each judged by itself: some view records, and all base records that can matter to them.

What is said of one view record depends on its own operations and on the time-lines of the base records that
touch it or that its certificates name: so parts can be judged anywhere, in any order. Of the whole view follows
what its records decide (`crosses`): it has converged if they all have, and lacks what one of them lacks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from zlib import crc32

from cvs.checker.bulk import bulk_of
from cvs.checker.classify import Judgement, Meanings, judge
from cvs.checker.large import LARGE, judge_large
from cvs.checker.meaning import Meaning
from cvs.checker.replay import Run, ViewRun, replay
from cvs.checker.shape import Shape, shape_of
from cvs.checker.verdict import LEVELS, Finding, Verdict, Witness, worst
from cvs.errors import AssumptionError
from cvs.history import events as ev
from cvs.history.columns import Gathered
from cvs.history.packing import NotColumnarError
from cvs.model.identity import key_identity
from cvs.model.views import BaseTable, ViewDefinition

KEPT = 200
"""Findings of one property that one part names one by one; beyond, they are counted."""

WHOLE = "the engine in parts does not search whole views: ask --engine local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true of the whole run and every part must know."""

    headers: tuple[ev.RunStarted, ...]
    commits: tuple[ev.EpochCommitted, ...] = ()  # without their certificates
    rest: ev.Quiescent | None = None
    has_base_log: bool = False
    written: frozenset[str] = frozenset()  # views whose test-and-sets are recorded, somewhere
    parts: int = 1


def name_of(owner: str, key: Sequence[Any]) -> str:
    """Return one text for equal names, in every process; different names may share one."""
    told = (hash(v) if isinstance(v, int | float | Decimal) else v for v in key_identity(key))
    return f"{owner} {tuple(told)!r}"


def part_of(view: str, key: Sequence[Any], parts: int) -> int:
    """Return the part of a view record."""
    return crc32(name_of(view, key).encode()) % parts


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
        """Return the parts that an image touches."""
        if row is None:
            return []
        found = set[int]()
        for view, shape in self._shapes:
            if shape.table == table and shape.kept(row):
                found.add(self.of_record(view, shape.key_of(row)))
        for view, meaning in self._meanings:
            told = meaning.contribution((table, key_identity(key)), row)
            found.update(self.of_record(view, k) for k in told)
        return sorted(found)


def judge_part(numbered: Iterable[tuple[int, Any]], part: int, parts: Parts, *, budget: int) -> list[Finding]:
    """Judge the view records of one part; what holds is counted, what does not is named."""
    facts = parts.facts
    several = sorted(numbered, key=lambda item: item[0])
    events = [*facts.headers, *(event for _, event in several), *facts.commits]
    numbers = [*([0] * len(facts.headers)), *(number for number, _ in several), *([0] * len(facts.commits))]
    if facts.rest is not None:
        events.append(facts.rest)
        numbers.append(several[-1][0] + 1 if several else 0)

    def owned(view: str, key: Sequence[Any]) -> bool:
        return parts.of_record(view, key) == part

    def near(view: ViewRun) -> Meaning | None:
        return None if view.name in parts.beyond else parts.meanings(view)

    found = None
    if len(events) > LARGE and not facts.commits:
        found = _in_bulk(events, owned, near, parts, budget=budget)
    if found is None:
        run = replay(events)
        run.quiescent, run.has_base_log = facts.rest is not None, facts.has_base_log
        run.written |= facts.written
        found = judge(run, near, budget=budget, whole=False, owned=owned).findings
    return folded(_renumbered(finding, numbers) for finding in _of_views_beyond(found, parts.beyond))


def _in_bulk(
    events: list[Any],
    owned: Callable[[str, Sequence[Any]], bool],
    meanings: Meanings,
    parts: Parts,
    *,
    budget: int,
) -> list[Finding] | None:
    bulk = bulk_of(parts.facts.headers, parts.definition, parts.tables, owned)
    gathered = Gathered(bulk.readers)
    try:
        gathered.take(events)
        found = judge_large(gathered.columns(), bulk, lambda: events, meanings, budget=budget)
    except NotColumnarError:
        return None
    return None if found is None else [f for f in found.findings if f.granularity == "record"]


def _of_views_beyond(findings: Iterable[Finding], beyond: set[str]) -> Iterable[Finding]:
    for finding in findings:
        if finding.view in beyond and finding.property in LEVELS:
            yield replace(finding, reason="its records can touch any base record: ask --engine local")
        else:
            yield finding


def _renumbered(finding: Finding, numbers: Sequence[int]) -> Finding:
    def of(event: int) -> int:
        return numbers[event - 1] if 0 < event <= len(numbers) else event

    witness = finding.witness
    if witness is not None:
        witness = replace(witness, events=tuple(map(of, witness.events)))
    return replace(finding, event=None if finding.event is None else of(finding.event), witness=witness)


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
    judgement.findings = folded(finding for findings in parts for finding in findings)
    for view in run.views:
        records = [f for f in judgement.findings if f.view == view and f.granularity == "record"]
        for name in LEVELS:
            judgement.findings.append(_of_whole(view, name, [f for f in records if f.property == name]))
    return judgement


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
