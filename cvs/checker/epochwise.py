"""Views whose records hang on whole tables (a comparison with an average, the first rows of all), accepted by epochs.

Of such a view nothing can be computed record by record. But a pipeline commits epochs, each with the cut that it
took in: if at every commit a view record shows what the view of that cut has for it, it went through rising base
states, so it is strong. One recomputation a commit tells that of all records, where the exact judge needs some for each
of them. What the certificates of single writes say is not looked at, and nothing is refuted.
"""

from collections.abc import Hashable

from cvs.checker.committed import Committed
from cvs.checker.held import Accepted
from cvs.checker.holding import Holding, known
from cvs.checker.meaning import IMPOSSIBLE, Meaning, frozen_row
from cvs.checker.reach import Reach
from cvs.checker.replay import ENDLESS, Attempt, BaseRecord, Commit, Key, Row, Run, ViewRun
from cvs.checker.wholes import Snapshots

DOUBTS = 8
"""Records in doubt that are judged exactly, at most: each takes recomputations of the whole view."""


def accept(run: Run, view: ViewRun, meaning: Meaning) -> Accepted | None:
    """Return which view records showed at each commit what its cut has; None where commits tell nothing."""
    walk = _Walk(run, view, meaning)
    if not all(map(known, run.timelines.values())) or not walk.commits.in_order():
        return None
    writes = walk.commits.writes()
    if writes is None or any(len(dict(own)) < len(own) for own in writes):
        return None  # an epoch that ran twice
    walk.begin()
    if not all(walk.step(commit, own) for commit, own in zip(walk.commits.commits, writes, strict=True)):
        return None
    walk.end()
    return walk.found()


class _Walk:
    """Goes from commit to commit."""

    def __init__(self, run: Run, view: ViewRun, meaning: Meaning) -> None:
        self.run, self.view, self.meaning = run, view, meaning
        self.writes = Holding(run, view, meaning, Reach())
        self.commits = Committed(self.writes)
        self.ready = {
            id(it): at
            for key, order in self.writes.writes.items()
            for it, at in zip(order, self.writes.ready[key], strict=True)
        }
        self.base: dict[BaseRecord, Row | None] = {}
        self.newest = -ENDLESS  # when the last update of the cut had been called
        self.shown: dict[Key, Hashable] = {}
        self.doubtful = view.records.keys() - self.writes.writes.keys()
        self.place = 0

    def begin(self) -> None:
        """Look at what was there before the first commit."""
        self.base = {it.record: it.versions[0].row for it in self.run.timelines.values()}
        if self.run.has_checkpoint:
            self.shown = {key: frozen_row(it.initial_row) for key, it in self.view.records.items()}
            self._compare()
        else:
            self.shown = dict(self.meaning.view(self.base))

    def step(self, commit: Commit, own: list[tuple[Key, Attempt]]) -> bool:
        """Take a cut, and the writes that show it; say no where a line of it is not true."""
        self.place += 1
        moved = self.commits.advance(commit, self.place)
        if moved is None:
            return False
        for record in moved:
            timeline = self.run.timelines[record]
            version = timeline.versions[self.commits.cut[record] - timeline.first]
            self.base[record], self.newest = version.row, max(self.newest, version.called)
        for key, attempt in own:
            self.shown[key] = frozen_row(attempt.row)
            if self.newest > self.ready[id(attempt)]:
                self.doubtful.add(key)  # it may show what had not been called
        self._compare()
        return True

    def end(self) -> None:
        """Look at the last base state."""
        last = {it.record: it.versions[-1].row for it in self.run.timelines.values()}
        if last != self.base:
            self.base = last
            self._compare()

    def _compare(self) -> None:
        found = self.meaning.view(self.base)
        impossible = IMPOSSIBLE in found.values()
        keys = self.shown.keys() if impossible else self.shown.keys() | found.keys()
        self.doubtful |= {key for key in keys if impossible or self.shown.get(key) != found.get(key)}

    def found(self) -> Accepted:
        """Return what was shown."""
        keys = sorted(self.view.records.keys() | self.shown.keys() | self.doubtful, key=repr)
        proved = [key for key in keys if key not in self.doubtful]
        stale = self.commits.staleness(self.run.timelines.values())
        return Accepted(
            proved=proved,
            still=sum(not self.writes.writes.get(key) for key in proved),
            others=[key for key in keys if key in self.doubtful],
            stale=stale,
            snapshots=None if self.doubtful else Snapshots(stale=stale),
            certified=False,
            searched=DOUBTS,
        )
