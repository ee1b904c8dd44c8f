"""What both of `held.py` and `committed.py` ask of a view: its writes in order, its rows, what it shows of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cvs.checker.changes import Stale
from cvs.checker.groups import Folding
from cvs.checker.meaning import IMPOSSIBLE, Meaning
from cvs.checker.reach import Reach
from cvs.checker.replay import (
    ENDLESS,
    Attempt,
    BaseRecord,
    Commit,
    Key,
    Row,
    Run,
    Timeline,
    ViewRecord,
    ViewRun,
)
from cvs.checker.signatures import ChainCheck, check_record, loose_ends
from cvs.checker.verdict import Verdict
from cvs.history.events import Absorbed
from cvs.model.identity import key_identity
from cvs.model.outcome import OutcomeKind


@dataclass(slots=True)
class Holding:
    """One view of a run."""

    run: Run
    view: ViewRun
    meaning: Meaning
    reach: Reach
    empty: dict[Key, Hashable] = field(init=False)  # the view of nothing
    writes: dict[Key, list[Attempt]] = field(
        default_factory=dict
    )  # in order, of records of which that is plain
    ready: dict[Key, list[int]] = field(default_factory=dict)  # ... and when each had taken effect
    sure: set[int] = field(
        default_factory=set
    )  # events of writes whose rows are known to be the view of what is held
    place: dict[tuple[BaseRecord, int], int] = field(init=False)
    folding: Folding | None = field(init=False)
    _told: dict[BaseRecord, list[Mapping[Key, Hashable]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at the view of nothing, at the recorded order, and at what is below a fold."""
        self.folding = self.meaning.folding
        self.empty = dict(self.meaning.view({}))
        self.place = {update: number for number, update in enumerate(self.run.order)}
        for key, record in self.view.records.items():
            if not record.attempts and not record.reads:
                self.writes[key] = []  # as most are of a large view of which little moved
                continue
            check = check_record(record)
            if _plain(record, check):
                self.writes[key] = check.order
        self.ready = {key: _settled(order) for key, order in self.writes.items()}

    def shown(self, key: Key, rows: dict[BaseRecord, Row]) -> Hashable:
        """Return what the view shows of some rows, which are all that can matter."""
        if not rows:
            return self.empty.get(key)
        found = self.meaning.view(rows)
        return IMPOSSIBLE if IMPOSSIBLE in found.values() else found.get(key)

    def rows(self, key: Key, versions: dict[BaseRecord, int], *, last: bool = False) -> dict[BaseRecord, Row]:
        """Return the rows that matter of some versions; of what has none the first, or the last."""
        found: dict[BaseRecord, Row] = {}
        for record in self.reach.near.get(key, ()):
            timeline = self.run.timelines[record]
            number = versions.get(record, timeline.last if last else timeline.first)
            row = self.row_of(key, timeline, number)
            if row is not None:
                found[record] = row
        return found

    def row_of(self, key: Key, timeline: Timeline, number: int) -> Row | None:
        """Return the row of a version, if it can matter to a view record."""
        place = number - timeline.first
        return timeline.versions[place].row if self.reach.touches(key, timeline.record, place) else None

    def told(self, timeline: Timeline) -> list[Mapping[Key, Hashable]]:
        """Return what each version gives to view records, of a view of single base rows or their folds."""
        if timeline.record not in self._told:
            self._told[timeline.record] = [
                self.meaning.contribution(timeline.record, version.row) for version in timeline.versions
            ]
        return self._told[timeline.record]

    def changes(self, timeline: Timeline, place: int) -> bool:
        """Say whether the version at a place can show something else than the one before it."""
        one, two = timeline.versions[place - 1 : place + 1]
        if one.row == two.row or not self.meaning.linear:
            return one.row != two.row
        told = self.told(timeline)
        return told[place - 1] != told[place]

    def changes_at(self, key: Key, timeline: Timeline, place: int) -> bool:
        """... can show it in a view record."""
        one, two = timeline.versions[place - 1 : place + 1]
        if one.row == two.row or not self.reach.moves(key, timeline.record, place - 1, place):
            return False
        if not self.meaning.linear:
            return True
        told = self.told(timeline)
        return told[place - 1].get(key) != told[place].get(key)


def _plain(record: ViewRecord, check: ChainCheck) -> bool:
    """Say whether it is certain which writes took effect, in which order: an unanswered one if another built on it."""
    in_order = check.verdict is Verdict.HOLDS and not check.ambiguous and not record.reads
    answered = not check.order or check.order[-1].outcome is OutcomeKind.APPLIED
    return in_order and answered and not loose_ends(record, check)


def lines_of(attempt: Attempt | Commit) -> Iterator[tuple[BaseRecord, Absorbed]]:
    """Return the certificate lines, by base record."""
    return (((line.table, key_identity(line.key)), line) for line in attempt.absorbed)


def known(timeline: Timeline) -> bool:
    """Say whether all versions of a base record are there, for certain."""
    return not timeline.missing and all(version.certain for version in timeline.versions)


def _settled(order: Sequence[Attempt]) -> list[int]:
    """Return when each write had taken effect: before whatever follows it returned."""
    found = [attempt.returned for attempt in order]
    for place in range(len(found) - 2, -1, -1):
        found[place] = min(found[place], found[place + 1])
    return found


Since = dict[BaseRecord, list[tuple[int, int]]]
"""Of base records the versions that states were the first to have, each with the number of its state, from 1 on."""


def changes_of(
    timeline: Timeline, since: Since, states: int, changes: Callable[[Timeline, int], bool]
) -> Iterator[tuple[int, int]]:
    """Yield of each change of a base record when it had returned, and the first of so many states that has it.

    `changes`: whether the version at a place shows something else than the one before it.
    """
    steps = since.get(timeline.record, [])
    for place in range(1, len(timeline.versions)):
        if changes(timeline, place):
            at = bisect_left(steps, (timeline.first + place, 0))
            yield timeline.versions[place].returned, steps[at][1] if at < len(steps) else states + 1


def staleness_of(
    so_far: Stale, states: Sequence[Attempt | Commit], changes: Iterable[tuple[int, int]]
) -> Stale:
    """Measure changes that had returned before a state was called that did not have them."""
    latest = -ENDLESS
    called = [latest := max(latest, s.called if isinstance(s, Attempt) else s.time) for s in states]
    behind = [0] * (len(called) + 2)
    gap = 0
    for returned, has in changes:
        since = bisect_right(called, returned) + 1  # the first state after it; states are numbered from 1
        if since < has:
            behind[since] += 1
            behind[has] -= 1
            gap = max(gap, called[has - 2] - returned)
    most = running = 0
    for step in behind:
        running += step
        most = max(most, running)
    return Stale(versions=max(so_far.versions, most), nanoseconds=max(so_far.nanoseconds, gap))
