"""Views of any class, accepted by what their certificates say that they hold.

Each write of a view record names the versions that it absorbed. If after every write the row is the view of what is
held, recomputed over the few base records that can matter to it, the record went through rising base states: it
is strong. It is free of the future if nothing was held before it was called, and has converged if the last base state
shows the same. Where epochs were committed, snapshots showed the view of each commit's cut if every view record did,
which is asked again only where it holds something else than the cut has.

Time and memory grow with the certificate lines, times the rows of the group that a write folds. Nothing is refuted
here: what is not accepted is left to the exact judge.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cvs.checker.changes import Stale
from cvs.checker.groups import Folding, Group
from cvs.checker.meaning import IMPOSSIBLE, Meaning, frozen_row
from cvs.checker.provenance import Reach
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
from cvs.checker.signatures import ChainCheck, check_record
from cvs.checker.verdict import Verdict
from cvs.errors import AssumptionError
from cvs.history.events import Absorbed
from cvs.model.identity import key_identity
from cvs.model.outcome import OutcomeKind

SEARCHED = 1
"""Records of a view that absorbed several changes at once that are searched for an order: one speaks for all."""


@dataclass(slots=True, kw_only=True)
class Accepted:
    """What is shown of one view."""

    proved: list[Key] = field(default_factory=list)  # strong, free of the future, converged
    complete: set[Key] = field(default_factory=set)  # ... of which these are complete, in the recorded order
    still: int = 0  # ... and so many nobody wrote: they have no certificates
    others: list[Key] = field(default_factory=list)
    stale: Stale = field(default_factory=Stale)
    snapshots: Stale | None = None  # how stale snapshots were, if they are shown to be strong
    base_of_others: set[BaseRecord] = field(default_factory=set)


def accept(run: Run, view: ViewRun, meaning: Meaning) -> Accepted | None:
    """Return what is shown of a view; None where it is not known what can matter to its records."""
    rows = {record: [v.row for v in timeline.versions] for record, timeline in run.timelines.items()}
    reach = meaning.reach(rows)
    if reach is None:
        return None
    walk = _Walk(run, view, meaning, reach)
    snapshots = _Snapshots(walk).stale() if run.commits else None
    found = Accepted()
    for key in sorted(view.records.keys() | reach.near.keys() | walk.empty.keys(), key=repr):
        walk.judge(key, found)
    found.snapshots = None if found.others else snapshots
    _leave_some(found, walk)
    return found


def _leave_some(found: Accepted, walk: "_Walk") -> None:
    """Leave the smallest of those that may not be complete to whoever searches an order; name what others hang on."""
    unsure = [key for key in found.proved if key not in found.complete and walk.writes.get(key)]
    unsure.sort(key=lambda key: (len(walk.reach.near.get(key, ())) * len(walk.writes[key]), repr(key)))
    found.others += unsure[:SEARCHED]
    left = set(found.others)
    found.proved = [key for key in found.proved if key not in left]
    for key in left:
        found.base_of_others.update(walk.reach.near.get(key, ()))
        record = walk.view.records.get(key)
        for attempt in record.attempts if record is not None else ():
            found.base_of_others.update(name for name, _ in _lines(attempt))


@dataclass(slots=True)
class _Held:
    """What one view record holds: versions, and the rows of those that can matter to it."""

    key: Key
    group: Group | None  # of a fold that can be kept step by step
    versions: dict[BaseRecord, int] = field(default_factory=dict)
    rows: dict[BaseRecord, Row] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)  # versions absorbed by each write, of records that matter
    order: list[tuple[BaseRecord, int]] = field(default_factory=list)  # ... and those versions


@dataclass(slots=True)
class _Walk:
    run: Run
    view: ViewRun
    meaning: Meaning
    reach: Reach
    empty: dict[Key, Hashable] = field(init=False)  # the view of nothing
    writes: dict[Key, list[Attempt]] = field(
        default_factory=dict
    )  # in order, of records of which that is plain
    sure: set[int] = field(
        default_factory=set
    )  # events of writes whose rows are known to be the view of what is held
    place: dict[tuple[BaseRecord, int], int] = field(init=False)
    folding: Folding | None = field(init=False)

    def __post_init__(self) -> None:
        """Look at the view of nothing, at the recorded order, and at what is below a fold."""
        self.folding = self.meaning.folding
        self.empty = dict(self.meaning.view({}))
        self.place = {update: number for number, update in enumerate(self.run.order)}
        for key, record in self.view.records.items():
            check = check_record(record)
            if _plain(record, check):
                self.writes[key] = check.order

    def judge(self, key: Key, found: Accepted) -> None:
        """Accept a view record, or leave it."""
        record, order = self.view.records.get(key, ViewRecord(key=key)), self.writes.get(key, [])
        near = [self.run.timelines[r] for r in self.reach.near.get(key, ())]
        held = _Held(key, None if self.folding is None else Group(self.folding, key))
        plain = key in self.writes or key not in self.view.records
        if not (plain and all(map(_known, near)) and self._trusted(held, record, order)):
            found.others.append(key)
            return
        found.proved.append(key)
        found.still += not order
        if self._complete(held, near):
            found.complete.add(key)
        found.stale = _staleness(found.stale, order, self._changes(held, near, order))

    def shown(self, key: Key, rows: dict[BaseRecord, Row]) -> Hashable:
        """Return what the view shows of some rows, which are all that can matter."""
        if not rows:
            return self.empty.get(key)
        found = self.meaning.view(rows)
        return IMPOSSIBLE if IMPOSSIBLE in found.values() else found.get(key)

    def _shown(self, held: _Held) -> Hashable:
        """Return what the view shows of what a record holds."""
        return self.shown(held.key, held.rows) if held.group is None else held.group.shown()

    def _move(self, held: _Held, rows: Mapping[BaseRecord, Row | None]) -> None:
        """Put the rows of some base records in the place of what is held of them."""
        changes = [(record, held.rows.get(record), row) for record, row in rows.items()]
        if held.group is not None:
            held.group.move([change for change in changes if change[1] is not change[2]])
        for record, _, row in changes:
            if row is None:
                held.rows.pop(record, None)
            else:
                held.rows[record] = row

    def rows(self, key: Key, versions: dict[BaseRecord, int], *, last: bool = False) -> dict[BaseRecord, Row]:
        """Return the rows that matter of some versions; of what has none the first, or the last."""
        found: dict[BaseRecord, Row] = {}
        for record in self.reach.near.get(key, ()):
            timeline = self.run.timelines[record]
            number = versions.get(record, timeline.last if last else timeline.first)
            row = self._row(key, timeline, number)
            if row is not None:
                found[record] = row
        return found

    def _row(self, key: Key, timeline: Timeline, number: int) -> Row | None:
        """Return the row of a version, if it can matter to a view record."""
        place = number - timeline.first
        return timeline.versions[place].row if self.reach.touches(key, timeline.record, place) else None

    def _trusted(self, held: _Held, record: ViewRecord, order: Sequence[Attempt]) -> bool:
        """Say whether all is right; what has no meaning is not."""
        try:
            return self._right(held, record, order)
        except (AssumptionError, ArithmeticError):
            return False

    def _right(self, held: _Held, record: ViewRecord, order: Sequence[Attempt]) -> bool:
        """Say whether each row is the view of what is held, up to the last base state."""
        self._move(held, self.rows(held.key, {}))
        at_first = self._shown(held)
        if self.run.has_checkpoint and frozen_row(record.initial_row) != at_first:
            return False
        row = at_first
        for attempt, returned in zip(order, _settled(order), strict=True):
            if not self._absorb(held, attempt, returned):
                return False
            row = frozen_row(attempt.row)
            if attempt.event not in self.sure and self._shown(held) != row:
                return False
        last = self.rows(held.key, {}, last=True)
        return last == held.rows or self.shown(held.key, last) == row

    def _absorb(self, held: _Held, attempt: Attempt, returned: int) -> bool:
        """Take the lines of a write; say whether they are true."""
        near, steps = self.reach.near.get(held.key, {}), 0
        moved: dict[BaseRecord, Row | None] = {}
        for record, line in _lines(attempt):
            timeline = self.run.timelines.get(record)
            if timeline is None or timeline.at(line.to_version) is None:
                return False
            before = held.versions.get(record, timeline.first)
            if line.from_version != before or line.to_version <= before:
                return False
            if timeline.versions[line.to_version - timeline.first].called > returned:
                return False
            held.versions[record] = line.to_version
            if record in near:
                moved[record] = self._row(held.key, timeline, line.to_version)
                steps += line.to_version - before
                held.order.append((record, line.to_version))
        held.steps.append(steps)
        self._move(held, moved)
        return bool(attempt.absorbed)

    def _complete(self, held: _Held, near: Sequence[Timeline]) -> bool:
        """Say whether every base update that can matter was absorbed alone, and in the recorded order."""
        if any(step > 1 for step in held.steps):
            return False
        if any(held.versions.get(t.record, t.first) != t.last for t in near):
            return False
        places = [self.place[update] for update in held.order]
        return places == sorted(places)

    def _changes(
        self, held: _Held, near: Iterable[Timeline], writes: Sequence[Attempt]
    ) -> Iterator[tuple[int, int]]:
        """Yield of each change that can matter when it had returned, and the state that has it."""
        since: dict[BaseRecord, list[tuple[int, int]]] = {}
        for position, attempt in enumerate(writes, 1):
            for record, line in _lines(attempt):
                since.setdefault(record, []).append((line.to_version, position))
        for timeline in near:
            steps = since.get(timeline.record, [])
            for place in range(1, len(timeline.versions)):
                version, before = timeline.versions[place], timeline.versions[place - 1]
                seen = (self.reach.touches(held.key, timeline.record, p) for p in (place - 1, place))
                if any(seen) and version.row != before.row:
                    at = bisect_left(steps, (timeline.first + place, 0))
                    yield version.returned, steps[at][1] if at < len(steps) else len(writes) + 1


def _plain(record: ViewRecord, check: ChainCheck) -> bool:
    known = all(a.outcome is not OutcomeKind.UNKNOWN for a in record.attempts)
    return check.verdict is Verdict.HOLDS and not check.ambiguous and known and not record.reads


def _known(timeline: Timeline) -> bool:
    return not timeline.missing and all(version.certain for version in timeline.versions)


def _lines(attempt: Attempt | Commit) -> Iterator[tuple[BaseRecord, Absorbed]]:
    return (((line.table, key_identity(line.key)), line) for line in attempt.absorbed)


def _settled(order: Sequence[Attempt]) -> list[int]:
    """Return when each write had taken effect: before whatever follows it returned."""
    found = [attempt.returned for attempt in order]
    for place in range(len(found) - 2, -1, -1):
        found[place] = min(found[place], found[place + 1])
    return found


def _staleness(
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


class _Snapshots:
    """Walks the commits of a view: one recomputation at each tells of all view records that moved."""

    def __init__(self, walk: _Walk) -> None:
        self.walk, self.run = walk, walk.run
        self.commits = sorted(walk.run.commits, key=lambda commit: commit.epoch)
        self.cut: dict[BaseRecord, int] = {}
        self.held: dict[Key, dict[BaseRecord, int]] = {}
        self.apart: dict[
            Key, dict[BaseRecord, None]
        ] = {}  # of what a record holds another version than the cut
        self.row: dict[Key, Hashable] = {}
        self.keys: dict[BaseRecord, list[Key]] = {}
        for key, near in walk.reach.near.items():
            if key in walk.writes or key not in walk.view.records:  # others are left over
                for record in near:
                    self.keys.setdefault(record, []).append(key)

    def stale(self) -> Stale | None:
        """Return how stale snapshots were; None where it is not shown that they were views of their cuts."""
        writes = self._writes()
        if writes is None or not self._in_order():
            return None
        since: dict[BaseRecord, list[tuple[int, int]]] = {}
        right = True
        for position, (commit, own) in enumerate(zip(self.commits, writes, strict=True), 1):
            touched: dict[Key, None] = {}
            for record, line in _lines(commit):
                if not self._goes_on(record, line, commit):
                    return None
                self.cut[record] = line.to_version
                since.setdefault(record, []).append((line.to_version, position))
                for key in self.keys.get(record, ()):
                    self._compare(key, record)
                    touched[key] = None
            if not all(self._take(key, attempt) for key, attempt in own):
                return None
            right &= self._agree(touched, dict(own))
        return _staleness(Stale(), self.commits, self._changes(since)) if right else None

    def _take(self, key: Key, attempt: Attempt) -> bool:
        """Let a view record hold what a write absorbed; say no where there is no such version."""
        for record, line in _lines(attempt):
            timeline = self.run.timelines.get(record)
            if timeline is None or timeline.at(line.to_version) is None:
                return False
            self.held.setdefault(key, {})[record] = line.to_version
            self._compare(key, record)
        self.row[key] = frozen_row(attempt.row)
        return True

    def _agree(self, touched: Iterable[Key], written: Mapping[Key, Attempt]) -> bool:
        """Say whether view records show what the cut does, and note which writes left the view of what is held.

        Who holds all of the cut that matters and was not written shows it; groups are kept step by step when their
        turn comes. All others are recomputed at once.
        """
        apart = {key for key in (*touched, *written) if self.apart.get(key)}
        asked = apart if self.walk.folding is not None else apart.union(written)
        rows: dict[BaseRecord, Row] = {}
        for key in asked:
            rows |= self.walk.rows(key, self.cut)
        found = self.walk.meaning.view(rows)
        if IMPOSSIBLE in found.values():
            return False
        wrong = {key for key in asked if found.get(key) != self._shown(key)}
        refuted = apart | wrong
        known = (attempt for key, attempt in written.items() if key in asked and key not in refuted)
        self.walk.sure.update(attempt.event for attempt in known)
        return not wrong

    def _writes(self) -> list[list[tuple[Key, Attempt]]] | None:
        """Return the writes that each commit is the first to show; None where they have no such order."""
        epochs = [commit.epoch for commit in self.commits]
        found: list[list[tuple[Key, Attempt]]] = [[] for _ in epochs]
        for key, order in self.walk.writes.items():
            if not order:
                continue
            ranks = [bisect_left(epochs, attempt.new[:2]) for attempt in order]
            if ranks != sorted(ranks) or ranks[-1] == len(epochs):
                return None
            for rank, attempt in zip(ranks, order, strict=True):
                found[rank].append((key, attempt))
        return found

    def _in_order(self) -> bool:
        """Say whether one pipeline committed, each epoch once and after those before it, with certificates."""
        one = len({commit.pipeline for commit in self.commits}) == 1
        pairs = list(pairwise(self.commits))
        return (
            one
            and any(c.absorbed for c in self.commits)
            and all(a.epoch < b.epoch and a.time <= b.time for a, b in pairs)
        )

    def _goes_on(self, record: BaseRecord, line: Absorbed, commit: Commit) -> bool:
        timeline = self.run.timelines.get(record)
        version = timeline.at(line.to_version) if timeline is not None else None
        if timeline is None or version is None or version.called > commit.time:
            return False
        before = self.cut.get(record, timeline.first)
        return line.from_version == before < line.to_version

    def _compare(self, key: Key, record: BaseRecord) -> None:
        """Note whether a view record holds of a base record another version than the cut, and one of them matters."""
        first = self.run.timelines[record].first
        held, cut = self.held.get(key, {}).get(record, first), self.cut.get(record, first)
        if held != cut and self._matters(key, record, (held - first, cut - first)):
            self.apart.setdefault(key, {})[record] = None
        elif key in self.apart:
            self.apart[key].pop(record, None)

    def _matters(self, key: Key, record: BaseRecord, places: Iterable[int]) -> bool:
        reach = self.walk.reach
        return key in reach.near and any(reach.touches(key, record, place) for place in places)

    def _shown(self, key: Key) -> Hashable:
        if key not in self.row:  # not written yet
            self.row[key] = self.walk.shown(key, self.walk.rows(key, {}))
        return self.row[key]

    def _changes(self, since: dict[BaseRecord, list[tuple[int, int]]]) -> Iterator[tuple[int, int]]:
        for record in self.keys:
            timeline, steps = self.run.timelines[record], since.get(record, [])
            for place in range(1, len(timeline.versions)):
                version = timeline.versions[place]
                if version.row != timeline.versions[place - 1].row:
                    at = bisect_left(steps, (timeline.first + place, 0))
                    yield version.returned, steps[at][1] if at < len(steps) else len(self.commits) + 1
