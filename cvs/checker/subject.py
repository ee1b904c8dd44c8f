"""Subjects: a view record, a whole view, or what snapshots saw of it, each as states and a problem.

A subject keeps only the base records and versions that can matter to it: records that never touch it are left
out, neighbouring versions it cannot tell apart are one (checker plan 5.2). `numbers` leads back from a
compressed version to the first and last real one.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cvs.checker.forms import Forms, Sources, forms_of
from cvs.checker.meaning import IMPOSSIBLE, Meaning
from cvs.checker.problem import Problem, Shown
from cvs.checker.provenance import Versioned
from cvs.checker.replay import ENDLESS, BaseRecord, Key, Row, Run, Timeline
from cvs.checker.verdict import Cut

ROWS_KEPT = 500_000
"""View rows, over all the base states whose view is remembered because every view record hangs on all of them."""


@dataclass(slots=True, kw_only=True)
class State:
    """What the subject showed from some moment on: the frozen value, the event, and when it was there."""

    value: Hashable
    event: int
    called: int
    returned: int
    quiet: bool = True  # certainly shown: no other write was under way
    attempt: int | None = None


@dataclass(slots=True, kw_only=True)
class Subject:
    """One thing to be judged."""

    view: str
    granularity: str
    key: Key | None
    states: list[State]
    ordered: bool = True  # the order of the states is certain
    final_uncertain: bool = False  # an unknown test-and-set could still have followed
    shown: bool = False  # every state was seen for certain, whatever their order
    ambiguous: bool = False  # whether unknown test-and-sets made some of the states is not known
    sampled: bool = False  # there may have been states that nobody read
    gaps: bool = False  # of a partial view: states in which it was not kept are left out
    kept: bool = True  # ... and whether it was kept at the end


@dataclass(slots=True, kw_only=True)
class Lattice:
    """The base records that matter to a subject, with compressed versions."""

    records: list[BaseRecord]
    numbers: list[list[tuple[int, int]]]  # per record, per compressed version: first and last real version
    rows: list[list[Row | None]]
    known: bool = True  # nothing of these time-lines is missing
    uncertain: bool = False  # the last versions of some of them may not have happened

    @property
    def tops(self) -> Cut:
        """Return the last base state."""
        return tuple(len(n) - 1 for n in self.numbers)

    @property
    def size(self) -> int:
        """Return the number of base states."""
        size = 1
        for numbers in self.numbers:
            size *= len(numbers)
        return size

    def compressed(self, cuts: Sequence[Mapping[BaseRecord, int]]) -> list[Cut]:
        """Translate real version numbers, of which few change from one to the next; the first where none is named."""
        before = firsts = [numbers[0][0] for numbers in self.numbers]
        places, found = [0] * len(firsts), list[Cut]()
        for cut in cuts:
            versions = list(map(cut.get, self.records, firsts))
            moved = [n for n, (old, new) in enumerate(zip(before, versions, strict=True)) if old != new]
            for number in moved:
                places[number] = _place(self.numbers[number], versions[number])
            before = versions
            found.append(tuple(places))
        return found

    def base(self, cut: Cut) -> dict[BaseRecord, Row | None]:
        """Return the base state of a cut."""
        return {r: rows[v] for r, rows, v in zip(self.records, self.rows, cut, strict=True)}


def _place(numbers: list[tuple[int, int]], version: int) -> int:
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if numbers[middle][0] <= version:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(slots=True)
class Index:
    """What each base record can touch in one view, computed once a run."""

    meaning: Meaning
    run: Run
    touching: dict[Key, list[BaseRecord]] = field(default_factory=dict)
    known: bool = True  # `touching` names, for every view record, all base records that can matter to it
    sources: dict[Key, Mapping[Hashable, list[frozenset[Versioned]]]] = field(default_factory=dict)
    contributions: dict[BaseRecord, list[Mapping[Key, Hashable]]] = field(default_factory=dict)
    _whole: "Lattice | None" = None
    _views: dict[Cut, Mapping[Key, Hashable]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.meaning.linear:
            versions = (
                ((record, timeline.first + number), version.row)
                for record, timeline in self.run.timelines.items()
                for number, version in enumerate(timeline.versions)
                if version.row is not None
            )
            found = self.meaning.near(versions)
            for key, near in (found or {}).items():
                self.touching[key] = near.records
                if near.rows is not None:
                    self.sources[key] = near.rows
            self.known = found is not None or self._reached()
            return
        for record, timeline in self.run.timelines.items():
            told = [self.meaning.contribution(record, v.row) for v in timeline.versions]
            self.contributions[record] = told
            for key in {key for each in told for key in each}:
                self.touching.setdefault(key, []).append(record)

    def _reached(self) -> bool:
        """Look at rows cut down to what joins and keys read, where all versions are too many; say whether that told."""
        rows = {record: [v.row for v in timeline.versions] for record, timeline in self.run.timelines.items()}
        reach = self.meaning.reach(rows)
        for key, near in (reach.near if reach is not None else {}).items():
            self.touching[key] = sorted(near, key=repr)
        return reach is not None

    def contribution(self, record: BaseRecord, version: int) -> Mapping[Key, Hashable] | None:
        """Return what a version contributes, or None if the version is not known."""
        timeline = self.run.timelines.get(record)
        if timeline is None or timeline.at(version) is None:
            return None
        return self.contributions[record][version - timeline.first]

    def view(self, lattice: Lattice, cut: Cut) -> Mapping[Key, Hashable]:
        """Return the view of a base state; those of all base records serve one view record after another."""
        if lattice is not self._whole:
            return self.meaning.view(lattice.base(cut))
        if cut not in self._views:
            found = self.meaning.view(lattice.base(cut))
            while self._views and (len(self._views) + 1) * (len(found) + 1) > ROWS_KEPT:
                del self._views[next(iter(self._views))]
            self._views[cut] = found
        return self._views[cut]

    def lattice(self, key: Key | None) -> Lattice:
        """Return the base records and versions that matter to a view record, or to the whole view."""
        if self.known and key is not None:
            return self._lattice(self.touching.get(key, []), key)
        if self._whole is not None:
            return self._whole
        whole = self._lattice((it for it in self.run.timelines if self.meaning.reads(it[0])), key)
        if not self.meaning.linear:  # all versions matter, whichever view record is asked for
            self._whole = whole
        return whole

    def _lattice(self, records: Iterable[BaseRecord], key: Key | None) -> Lattice:
        lattice = Lattice(records=[], numbers=[], rows=[])
        for record in sorted(records, key=repr):
            timeline = self.run.timelines[record]
            self._add(lattice, timeline, key)
        return lattice

    def _add(self, lattice: Lattice, timeline: Timeline, key: Key | None) -> None:
        images: list[Hashable] = []
        numbers: list[tuple[int, int]] = []
        rows: list[Row | None] = []
        certain = [v for v in timeline.versions if v.certain]
        for offset, version in enumerate(certain):
            image: Any
            if not self.meaning.linear:
                image = self.meaning.image(timeline.record, version.row)
            else:
                told = self.contributions[timeline.record][offset]
                image = told.get(key) if key is not None else tuple(sorted(told.items(), key=repr))
            number = timeline.first + offset
            if images and images[-1] == image:
                numbers[-1] = (numbers[-1][0], number)
            else:
                images.append(image)
                numbers.append((number, number))
                rows.append(version.row)
        lattice.known = lattice.known and not timeline.missing
        if len(numbers) > 1 or rows[0] is not None or len(certain) < len(timeline.versions):
            lattice.records.append(timeline.record)
            lattice.numbers.append(numbers)
            lattice.rows.append(rows)
            lattice.uncertain = lattice.uncertain or len(certain) < len(timeline.versions)


def problem_of(subject: Subject, lattice: Lattice, index: Index, run: Run) -> Problem:
    """Make the problem whose answer is the level of the subject."""

    def value(cut: Cut) -> Hashable:
        found = index.view(lattice, cut)
        if subject.key is None:
            return frozenset(found.items())
        return IMPOSSIBLE if IMPOSSIBLE in found.values() else found.get(subject.key)

    place = {record: i for i, record in enumerate(lattice.records)}
    starts = [{first for first, _ in numbers[1:]} for numbers in lattice.numbers]
    order = tuple(place[r] for r, v in run.order if r in place and v in starts[place[r]])
    return Problem(
        tops=lattice.tops,
        meaning=value,
        states=tuple(state.value for state in subject.states),
        apart=_parts(subject, lattice, index),
        order=order if len(order) == sum(lattice.tops) else None,
        ceilings=_ceilings(subject, lattice, run),
        settled=run.quiescent and not subject.final_uncertain,
    )


def _parts(subject: Subject, lattice: Lattice, index: Index) -> tuple[Shown, ...] | None:
    """Take what was shown apart, view record by view record; what nothing is known of stays one."""
    if subject.key is not None:
        values = {subject.key: tuple(state.value for state in subject.states)}
        return _shown_of(values, {subject.key: lattice.records}, lattice, index)
    if not index.known:
        return None
    shown = [dict(state.value) for state in subject.states]  # type: ignore[call-overload]
    keys = index.touching.keys() | {key for each in shown for key in each} | index.meaning.view({}).keys()
    values = {key: tuple(each.get(key) for each in shown) for key in sorted(keys, key=repr)}
    return beside(values, lattice, index)


def beside(values: Mapping[Key, tuple[Hashable, ...]], lattice: Lattice, index: Index) -> tuple[Shown, ...]:
    """Put view records side by side that showed these values; it is known what can matter to each."""
    inside = set(lattice.records)
    near = {key: [r for r in index.touching.get(key, ()) if r in inside] for key in values}
    return _shown_of(values, near, lattice, index)


def _shown_of(
    values: Mapping[Key, tuple[Hashable, ...]],
    near: Mapping[Key, list[BaseRecord]],
    lattice: Lattice,
    index: Index,
) -> tuple[Shown, ...]:
    place = {record: i for i, record in enumerate(lattice.records)}
    return tuple(
        Shown(
            key=key,
            places=(places := tuple(place[record] for record in near[key])),
            meaning=_meaning_of(key, places, lattice, index),
            values=told,
            forms=_forms(key, places, lattice, index),
            cost=20 + 5 * len(places),
        )
        for key, told in values.items()
    )


def _meaning_of(key: Key, places: Cut, lattice: Lattice, index: Index) -> Callable[[Cut], Hashable]:
    records, rows = [lattice.records[p] for p in places], [lattice.rows[p] for p in places]

    whole = places == tuple(range(len(lattice.records)))

    def shows(local: Cut) -> Hashable:
        if whole:
            found = index.view(lattice, local)
        else:
            found = index.meaning.view({r: each[v] for r, each, v in zip(records, rows, local, strict=True)})
        return IMPOSSIBLE if IMPOSSIBLE in found.values() else found.get(key)

    return shows


def _forms(key: Key, places: Cut, lattice: Lattice, index: Index) -> Forms | Sources | None:
    """Return what the view's kind says of the versions that can stand in one view record."""
    if key in index.sources:
        return _sources(index.sources[key], places, lattice)
    fold = index.meaning.fold
    if fold is None:
        return None
    told = []
    for place in places:
        versions = (
            index.contribution(lattice.records[place], first) or {} for first, _ in lattice.numbers[place]
        )
        solos: Any = [each.get(key, ()) for each in versions]  # of a linear definition: frozen rows
        told.append([[dict(row) for row in solo] for solo in solos])
    return forms_of(fold, told)


def _sources(
    rows: Mapping[Hashable, list[frozenset[Versioned]]], places: Cut, lattice: Lattice
) -> Sources | None:
    at = {lattice.records[place]: i for i, place in enumerate(places)}
    numbers = [lattice.numbers[place] for place in places]
    found: dict[Hashable, list[dict[int, int]]] = {}
    for row, choices in rows.items():
        for choice in choices:
            inside = [(at[r], number) for r, number in choice if r in at and number <= numbers[at[r]][-1][1]]
            known = [each for each in choice if each[0] in at]
            told = {place: _place(numbers[place], number) for place, number in inside}
            if len(inside) == len(known) and len(told) == len(inside):
                found.setdefault(row, []).append(told)
    return Sources(found)


def _ceilings(subject: Subject, lattice: Lattice, run: Run) -> tuple[Cut, ...]:
    """Say for each state which versions had been called before it was there for certain."""
    moves = sorted(
        (timeline.versions[first - timeline.first].called, i)
        for i, (record, numbers) in enumerate(zip(lattice.records, lattice.numbers, strict=True))
        for timeline in [run.timelines[record]]
        for first, _ in numbers[1:]
    )
    ceilings: list[Cut] = [()] * len(subject.states)
    at, done = [0] * len(lattice.records), 0
    for position in sorted(range(len(subject.states)), key=lambda p: subject.states[p].returned):
        while done < len(moves) and moves[done][0] <= subject.states[position].returned:
            at[moves[done][1]] += 1
            done += 1
        ceilings[position] = tuple(at)
    return tuple(ceilings)


def staleness(subject: Subject, lattice: Lattice, cuts: Iterable[Cut], run: Run) -> tuple[int, int]:
    """Return the most versions, and the most nanoseconds, any state was behind what had been returned."""
    behind_versions = behind_time = 0
    returned = [
        [run.timelines[record].versions[first - run.timelines[record].first].returned for first, _ in numbers]
        for record, numbers in zip(lattice.records, lattice.numbers, strict=True)
    ]
    for state, cut in zip(subject.states, cuts, strict=True):
        when = min(state.called, ENDLESS)
        missed = [t for times, at in zip(returned, cut, strict=True) for t in times[at + 1 :] if t < when]
        behind_versions = max(behind_versions, len(missed))
        behind_time = max(behind_time, when - min(missed, default=when))
    return behind_versions, behind_time


def mark_apart(states: list[State]) -> bool:
    """Mark the reads that overlap no other: their order is certain."""
    soonest, latest = ENDLESS, -ENDLESS
    for state in reversed(states):
        state.quiet = state.returned < soonest
        soonest = min(soonest, state.called)
    for state in states:
        state.quiet = state.quiet and latest < state.called
        latest = max(latest, state.returned)
    return all(state.quiet for state in states)


def mark_quiet(states: list[State]) -> bool:
    """Mark the states that were certainly shown: an instant exists at which no write was under way."""
    soonest = ENDLESS
    for state, following in zip(reversed(states), [None, *reversed(states)], strict=False):
        soonest = min(soonest, following.called) if following else soonest
        state.quiet = state.returned < soonest
    latest = -ENDLESS
    for state in states:
        state.quiet = state.quiet and state.returned >= latest
        latest = max(latest, state.returned)
    return all(state.quiet for state in states)
