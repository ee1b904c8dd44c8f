"""Subjects: a view record, a whole view, or what snapshots saw of it, each as states and a problem.

A subject keeps only the base records and versions that can matter to it: records that never touch it are left
out, neighbouring versions it cannot tell apart are one (checker plan 5.2). `numbers` leads back from a
compressed version to the first and last real one.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.checker.cuts import Problem
from cvs.checker.evaluation import WholeView
from cvs.checker.meaning import Meaning
from cvs.checker.replay import ENDLESS, BaseRecord, Key, Row, Run, Timeline
from cvs.checker.verdict import Cut


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

    def compress(self, versions: Mapping[BaseRecord, int]) -> Cut:
        """Translate real version numbers; a record not named stands at its first version."""
        return tuple(
            _place(numbers, versions.get(record, numbers[0][0]))
            for record, numbers in zip(self.records, self.numbers, strict=True)
        )

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
    contributions: dict[BaseRecord, list[Mapping[Key, Hashable]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.meaning.linear:
            return
        for record, timeline in self.run.timelines.items():
            told = [self.meaning.contribution(record, v.row) for v in timeline.versions]
            self.contributions[record] = told
            for key in {key for each in told for key in each}:
                self.touching.setdefault(key, []).append(record)

    def contribution(self, record: BaseRecord, version: int) -> Mapping[Key, Hashable] | None:
        """Return what a version contributes, or None if the version is not known."""
        timeline = self.run.timelines.get(record)
        if timeline is None or timeline.at(version) is None:
            return None
        return self.contributions[record][version - timeline.first]

    def lattice(self, key: Key | None) -> Lattice:
        """Return the base records and versions that matter to a view record, or to the whole view."""
        if self.meaning.linear and key is not None:
            records: Iterable[BaseRecord] = self.touching.get(key, [])
        else:
            records = self.run.timelines
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
    whole = WholeView(index.meaning, lattice.records, lattice.rows, index.touching)

    def value(cut: Cut) -> Hashable:
        if subject.key is None:
            return whole.value(cut)
        return index.meaning.view(lattice.base(cut)).get(subject.key)

    place = {record: i for i, record in enumerate(lattice.records)}
    starts = [{first for first, _ in numbers[1:]} for numbers in lattice.numbers]
    order = tuple(place[r] for r, v in run.order if r in place and v in starts[place[r]])
    return Problem(
        tops=lattice.tops,
        meaning=value,
        states=tuple(state.value for state in subject.states),
        order=order if len(order) == sum(lattice.tops) else None,
        ceilings=_ceilings(subject, lattice, run),
        settled=run.quiescent and not subject.final_uncertain,
    )


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
