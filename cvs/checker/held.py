"""Views of any class, accepted by what their certificates say that they hold.

Each write of a view record names the versions that it absorbed. If after every write the row is the view of what is
held, recomputed over the few base records that can matter to it, the record went through rising base states: it
is strong. It is free of the future if nothing was held before it was called, and has converged if the last base state
shows the same. Where epochs were committed, snapshots showed the view of each commit's cut if every view record did,
which is asked again only where it holds something else than the cut has.

Time and memory grow with the certificate lines, times the rows of the group that a write folds. Nothing is refuted
here: what is not accepted is left to the exact judge.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from cvs.checker.beside import whole_of
from cvs.checker.changes import Stale
from cvs.checker.committed import Committed
from cvs.checker.groups import Group
from cvs.checker.holding import Holding, Since, changes_of, known, lines_of, staleness_of
from cvs.checker.meaning import IMPOSSIBLE, Meaning, frozen_row
from cvs.checker.replay import (
    Attempt,
    BaseRecord,
    Key,
    Row,
    Run,
    Timeline,
    ViewRecord,
    ViewRun,
)
from cvs.checker.wholes import Snapshots, WholeView
from cvs.errors import AssumptionError

DOUBTS = 500
"""Records of a view that are judged exactly, at most: minutes where all of them are in doubt."""


@dataclass(slots=True, kw_only=True)
class Accepted:
    """What is shown of one view."""

    proved: list[Key] = field(default_factory=list)  # strong, free of the future, converged
    complete: set[Key] = field(default_factory=set)  # ... of which these are complete, in the recorded order
    still: int = 0  # ... and so many nobody wrote: they have no certificates
    others: list[Key] = field(default_factory=list)
    stale: Stale = field(default_factory=Stale)
    snapshots: Snapshots | None = None  # if they are shown to be strong
    whole: WholeView | None = None  # what is known of the whole view
    unsure: list[Key] = field(
        default_factory=list
    )  # proved, but absorbed several changes at once: small ones first
    near: Mapping[Key, Iterable[BaseRecord]] | None = None  # what can matter to each; None: everything
    certified: bool = True  # the certificates of their writes are true
    searched: int = DOUBTS  # so many of the others are judged exactly, at most


def accept(run: Run, view: ViewRun, meaning: Meaning, *, budget: int = 0) -> Accepted | None:
    """Return what is shown of a view; None where it is not known what can matter to its records."""
    rows = {record: [v.row for v in timeline.versions] for record, timeline in run.timelines.items()}
    reach = meaning.reach(rows)
    if reach is None:
        return None
    walk = _Walk(run, view, meaning, reach)
    walk.begin()
    snapshots = Committed(walk).snapshots() if run.commits else None
    found = Accepted()
    for key in sorted(view.records.keys() | reach.near.keys() | walk.empty.keys(), key=repr):
        walk.judge(key, found)
    if not found.others:
        found.snapshots, found.whole = snapshots, whole_of(walk, budget)
        if found.whole is not None and not found.complete.issuperset(found.proved):
            found.whole.in_recorded_order = False
    found.near = walk.reach.near
    found.unsure = [key for key in found.proved if key not in found.complete and walk.writes.get(key)]
    found.unsure.sort(key=lambda key: (len(reach.near.get(key, ())) * len(walk.writes[key]), repr(key)))
    return found


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
class _Walk(Holding):
    first: Mapping[Key, Hashable] | None = None  # the view of the first base state, if it has one

    def begin(self) -> None:
        """Compute at once what the many view records that nothing moved were at first."""
        base = {it.record: it.versions[0].row for it in self.run.timelines.values()}
        found = self.meaning.view(base)
        self.first = None if IMPOSSIBLE in found.values() else found

    def _stood_still(self, record: ViewRecord, order: Sequence[Attempt], near: Sequence[Timeline]) -> bool:
        """Say whether nobody wrote a view record and nothing that matters to it moved, and it was right at first."""
        if self.first is None or order or any(len(timeline.versions) > 1 for timeline in near):
            return False
        return not self.run.has_checkpoint or frozen_row(record.initial_row) == self.first.get(record.key)

    def judge(self, key: Key, found: Accepted) -> None:
        """Accept a view record, or leave it."""
        record, order = self.view.records.get(key, ViewRecord(key=key)), self.writes.get(key, [])
        near = [self.run.timelines[r] for r in self.reach.near.get(key, ())]
        sure = (key in self.writes or key not in self.view.records) and all(map(known, near))
        if sure and self._stood_still(record, order, near):
            found.proved.append(key)
            found.complete.add(key)
            found.still += 1
            return
        held = _Held(key, None if self.folding is None else Group(self.folding, key, self.reach.partners))
        if not (sure and self._trusted(held, record, order)):
            found.others.append(key)
            return
        found.proved.append(key)
        found.still += not order
        if self._complete(held, near):
            found.complete.add(key)
        found.stale = staleness_of(found.stale, order, self._changes(held, near, order))

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
        for attempt, returned in zip(order, self.ready.get(held.key, ()), strict=True):
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
        for record, line in lines_of(attempt):
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
                moved[record] = self.row_of(held.key, timeline, line.to_version)
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
        since: Since = {}
        for position, attempt in enumerate(writes, 1):
            for record, line in lines_of(attempt):
                since.setdefault(record, []).append((line.to_version, position))
        for timeline in near:
            yield from changes_of(timeline, since, len(writes), partial(self.changes_at, held.key))
