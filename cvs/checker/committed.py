"""What snapshots saw of a view of any class: at each commit the view of its cut, if every view record shows that."""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise

from cvs.checker.changes import Stale
from cvs.checker.holding import Holding, Since, changes_of, lines_of, staleness_of
from cvs.checker.meaning import IMPOSSIBLE, frozen_row
from cvs.checker.replay import Attempt, BaseRecord, Commit, Key, Row, Timeline
from cvs.checker.verdict import Witness
from cvs.checker.wholes import Snapshots
from cvs.history.events import Absorbed


class Committed:
    """Walks the commits of a view: one recomputation at each tells of all view records that moved."""

    def __init__(self, holding: Holding) -> None:
        self.holding, self.run = holding, holding.run
        self.commits = sorted(holding.run.commits, key=lambda commit: commit.epoch)
        self.cut: dict[BaseRecord, int] = {}
        self.held: dict[Key, dict[BaseRecord, int]] = {}
        self.apart: dict[
            Key, dict[BaseRecord, None]
        ] = {}  # of what a record holds another version than the cut
        self.row: dict[Key, Hashable] = {}
        self.since: Since = {}
        self.jump: int | None = None  # a commit that shows at once what no one base update changes
        self.single = True  # no commit took in two base updates
        self.keys: dict[BaseRecord, list[Key]] = {}
        for key, near in holding.reach.near.items():
            if key in holding.writes or key not in holding.view.records:  # others are left over
                for record in near:
                    self.keys.setdefault(record, []).append(key)

    def snapshots(self) -> Snapshots | None:
        """Return what snapshots showed; None where it is not shown that they were views of their cuts."""
        stale = self.stale()
        if stale is None:
            return None
        refuted = None if self.jump is None else Witness(kind="jump", events=(self.jump,))
        taken = self._one_by_one()
        places = [self.holding.place[update] for update in taken or ()]
        return Snapshots(
            stale=stale,
            refuted=refuted,
            complete=taken is not None,
            in_recorded_order=places == sorted(places),
        )

    def stale(self) -> Stale | None:
        """Return how stale snapshots were; None where it is not shown that they were views of their cuts."""
        writes = self.writes()
        if writes is None or not self.in_order():
            return None
        right = True
        for position, (commit, own) in enumerate(zip(self.commits, writes, strict=True), 1):
            touched: dict[Key, list[BaseRecord]] = {}
            moved = self.advance(commit, position)
            if moved is None:
                return None
            if self.jump is None and not self._by_one(dict(own)):
                self.jump = commit.event
            for record in moved:
                for key in self.keys.get(record, ()):
                    touched.setdefault(key, []).append(record)
            if not all(self._take(key, attempt, touched.setdefault(key, [])) for key, attempt in own):
                return None
            for key, records in touched.items():
                for record in dict.fromkeys(records):
                    self._compare(key, record)
            right &= self._agree(touched, dict(own))
        return self.staleness(self.run.timelines[it] for it in self.keys) if right else None

    def advance(self, commit: Commit, position: int) -> list[BaseRecord] | None:
        """Move the cut on by what a commit took in; return what moved, or None where a line of it is not true."""
        moved, alone = [], True
        for record, line in lines_of(commit):
            if not self.goes_on(record, line, commit):
                return None
            if record in self.keys:
                self.single &= alone and line.to_version == line.from_version + 1
                alone = False
            self.cut[record] = line.to_version
            self.since.setdefault(record, []).append((line.to_version, position))
            moved.append(record)
        return moved

    def staleness(self, timelines: Iterable[Timeline]) -> Stale:
        """Measure how long changes of some base records had returned before a commit had them."""
        states, differs = len(self.commits), self.holding.changes
        changes = (each for it in timelines for each in changes_of(it, self.since, states, differs))
        return staleness_of(Stale(), self.commits, changes)

    def _one_by_one(self) -> list[tuple[BaseRecord, int]] | None:
        """Return the base updates that can matter as the commits took them in, where each took in one, of all."""
        timelines = [self.run.timelines[record] for record in self.keys]
        whole = all(self.cut.get(it.record, it.first) == it.last for it in timelines)
        if not self.single or not whole:
            return None
        taken = (
            (position, record, version)
            for record in self.keys
            for version, position in self.since.get(record, ())
        )
        return [(record, version) for _, record, version in sorted(taken, key=lambda each: each[0])]

    def _by_one(self, written: Mapping[Key, Attempt]) -> bool:
        """Say whether some base record can matter to all view records that a commit changed."""
        common: set[BaseRecord] | None = None
        for key, attempt in written.items():
            if frozen_row(attempt.row) != self._shown(key):
                near = self.holding.reach.near.get(key, {}).keys()
                common = set(near) if common is None else common & near
                if not common:
                    return False
        return True

    def _take(self, key: Key, attempt: Attempt, touched: list[BaseRecord]) -> bool:
        """Let a view record hold what a write absorbed; say no where there is no such version."""
        for record, line in lines_of(attempt):
            timeline = self.run.timelines.get(record)
            if timeline is None or timeline.at(line.to_version) is None:
                return False
            self.held.setdefault(key, {})[record] = line.to_version
            touched.append(record)
        self.row[key] = frozen_row(attempt.row)
        return True

    def _agree(self, touched: Iterable[Key], written: Mapping[Key, Attempt]) -> bool:
        """Say whether view records show what the cut does, and note which writes left the view of what is held.

        Who holds all of the cut that matters and was not written shows it; groups are kept step by step when their
        turn comes. All others are recomputed at once.
        """
        apart = {key for key in touched if self._apart(key)}
        asked = apart if self.holding.folding is not None else apart.union(written)
        rows: dict[BaseRecord, Row] = {}
        for key in asked:
            rows |= self.holding.rows(key, self.cut)
        found = self.holding.meaning.view(rows)
        if IMPOSSIBLE in found.values():
            return False
        wrong = {key for key in asked if found.get(key) != self._shown(key)}
        refuted = apart | wrong
        known = (attempt for key, attempt in written.items() if key in asked and key not in refuted)
        self.holding.sure.update(attempt.event for attempt in known)
        return not wrong

    def _apart(self, key: Key) -> bool:
        """Say whether something that a view record holds in another version than the cut makes a row in either."""
        held = self.held.get(key, {})

        def places(record: BaseRecord) -> tuple[int, int]:
            first = self.run.timelines[record].first
            return held.get(record, first) - first, self.cut.get(record, first) - first

        reach = self.holding.reach
        return any(reach.meets(key, record, places) for record in self.apart.get(key, ()))

    def writes(self) -> list[list[tuple[Key, Attempt]]] | None:
        """Return the writes that each commit is the first to show; None where they have no such order."""
        epochs = [commit.epoch for commit in self.commits]
        found: list[list[tuple[Key, Attempt]]] = [[] for _ in epochs]
        for key, order in self.holding.writes.items():
            if not order:
                continue
            ranks = [bisect_left(epochs, attempt.new[:2]) for attempt in order]
            if ranks != sorted(ranks) or ranks[-1] == len(epochs):
                return None
            for rank, attempt in zip(ranks, order, strict=True):
                found[rank].append((key, attempt))
        return found

    def in_order(self) -> bool:
        """Say whether one pipeline committed, each epoch once and after those before it, with certificates."""
        one = len({commit.pipeline for commit in self.commits}) == 1
        pairs = list(pairwise(self.commits))
        return (
            one
            and any(c.absorbed for c in self.commits)
            and all(a.epoch < b.epoch and a.time <= b.time for a, b in pairs)
        )

    def goes_on(self, record: BaseRecord, line: Absorbed, commit: Commit) -> bool:
        """Say whether a line of a commit is true, and goes on from the cut."""
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
        if held != cut and self._matters(key, record, held - first, cut - first):
            self.apart.setdefault(key, {})[record] = None
        elif key in self.apart:
            self.apart[key].pop(record, None)

    def _matters(self, key: Key, record: BaseRecord, held: int, cut: int) -> bool:
        reach = self.holding.reach
        return key in reach.near and reach.moves(key, record, held, cut)

    def _shown(self, key: Key) -> Hashable:
        if key not in self.row:  # not written yet
            self.row[key] = self.holding.shown(key, self.holding.rows(key, {}))
        return self.row[key]
