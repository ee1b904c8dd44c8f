"""The whole of a view of any class, told by what its records held beside each other.

Where no base record that moved can matter to two view records, their chains together are one. Where one can, plain
readers may have met two of them between the writes that brought it to both: two rows that no base state has together.
Of folds the certificates tell it; of other views, whose rows may hold what they no longer show, a search over the few
base records that can matter to the two.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from cvs.checker import cuts as search
from cvs.checker.holding import Holding, known, lines_of
from cvs.checker.meaning import frozen_row
from cvs.checker.problem import Problem
from cvs.checker.replay import ENDLESS, BaseRecord, Key, Row
from cvs.checker.subject import Index, beside
from cvs.checker.verdict import Budget, Cut, Exhausted, Witness
from cvs.checker.wholes import WholeView, Window
from cvs.model.identity import key_identity
from cvs.model.recompute import bag

PAIRS = 500
"""Pairs of view records that are searched, at most."""

SHARES = 10
"""... of which one may take such a part of the budget that is left, or half of it."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A base record came into a view record: by which of its writes, and from which version to which."""

    returned: int
    called: int
    key: Key
    write: int
    before: int
    after: int


def whole_of(holding: Holding, budget: int) -> WholeView | None:
    """Return what is known of a whole view whose records are strong; None: nothing."""
    keys = _moving(holding)
    shared = {record for record, own in keys.items() if len(own) > 1}
    if not shared:
        return WholeView(complete=None, in_recorded_order=_in_recorded_order(holding))
    return _Meetings(holding, keys, shared).torn(budget)


def _moving(holding: Holding) -> dict[BaseRecord, set[Key]]:
    """Name the view records to which a change of a base record can matter."""
    found: dict[BaseRecord, set[Key]] = {}
    for key, near in holding.reach.near.items():
        for record in near:
            timeline = holding.run.timelines[record]
            if any(holding.changes_at(key, timeline, place) for place in range(1, len(timeline.versions))):
                found.setdefault(record, set()).add(key)
    return found


def _in_recorded_order(holding: Holding) -> bool:
    """Say whether what view records absorbed one after another was recorded in that order."""
    taken = sorted(
        (at, holding.place[record, line.to_version])
        for key, order in holding.writes.items()
        for attempt, at in zip(order, holding.ready[key], strict=True)
        for record, line in lines_of(attempt)
        if record in holding.reach.near.get(key, ())
    )
    return all(a[1] <= b[1] for a, b in pairwise(taken))


@dataclass(slots=True)
class _Meetings:
    """Moments at which one view record held a base record in another version than a second one did."""

    holding: Holding
    keys: dict[BaseRecord, set[Key]]
    shared: set[BaseRecord]

    def torn(self, budget: int) -> WholeView | None:
        """Return a window in which two of them cannot stand beside each other; None where none is found."""
        meaning, purse = self.holding.meaning, Budget(budget)
        folds = meaning.linear or meaning.folding is not None
        met = ((*pair, self._window(*pair[1:])) for pair in self._pairs())
        open_ = [(record, one, other, window) for record, one, other, window in met if window is not None]
        if not folds:
            return self._searched([(one, other, window) for _, one, other, window in open_], purse)
        open_.sort(key=lambda each: each[3])
        try:
            for record, one, other, window in open_:
                if self._told(record, one, other, purse):
                    return WholeView(torn=[window], evidence=Witness(kind="held", events=window[:1]))
        except Exhausted:
            pass
        return None

    def _searched(self, met: list[tuple[_Step, _Step, Window]], purse: Budget) -> WholeView | None:
        """Search the base states for one that has both rows: where both are there first, and of few base records."""
        near = self.holding.reach.near
        rows = [
            {one.key: self._row(one.key, one.write), other.key: self._row(other.key, other.write - 1)}
            for one, other, _ in met
        ]

        def promise(place: int) -> tuple[bool, int]:
            return None in rows[place].values(), sum(len(near[key]) for key in rows[place])

        for place in sorted(range(len(met)), key=promise)[:PAIRS]:
            share = purse.share(SHARES)
            if _never(self.holding, rows[place], share):
                window = met[place][2]
                facts = {"rows": frozenset(rows[place].items())}
                return WholeView(
                    torn=[window], evidence=Witness(kind="beside", events=window[:1], facts=facts)
                )
            purse.left -= share.spent
        return None

    def _pairs(self) -> Iterator[tuple[BaseRecord, _Step, _Step]]:
        """Yield where one view record had taken a base record's version, and the next one to do so had not yet."""
        steps: dict[BaseRecord, list[_Step]] = {record: [] for record in self.shared}
        for key, order in self.holding.writes.items():
            for write, (attempt, at) in enumerate(zip(order, self.holding.ready[key], strict=True)):
                for record, line in lines_of(attempt):
                    if record in steps and key in self.keys[record]:
                        step = _Step(at, attempt.called, key, write, line.from_version, line.to_version)
                        steps[record].append(step)
        for record, own in steps.items():
            timeline = self.holding.run.timelines[record]
            rows = [version.row for version in timeline.versions]
            own.sort(key=lambda step: (step.returned, step.called, repr(step.key)))
            for one, other in pairwise(own):
                held = rows[one.after - timeline.first], rows[other.before - timeline.first]
                if one.key != other.key and held[0] != held[1]:
                    yield record, one, other

    def _window(self, one: _Step, other: _Step) -> Window | None:
        """Return the time in which the rows of both certainly stood: after the first write, before the second."""
        mine, theirs = self.holding.writes[one.key], self.holding.writes[other.key]
        since = max(one.returned, self.holding.ready[other.key][other.write - 1] if other.write else -ENDLESS)
        until = min(other.called, mine[one.write + 1].called if one.write + 1 < len(mine) else ENDLESS)
        return (theirs[other.write].event, until - since) if since < until else None

    def _row(self, key: Key, write: int) -> Hashable:
        """Return what a view record showed after one of its writes; -1: before the first."""
        if write >= 0:
            return frozen_row(self.holding.writes[key][write].row)
        if self.holding.run.has_checkpoint:
            return frozen_row(self.holding.view.records[key].initial_row)
        return self.holding.shown(key, self.holding.rows(key, {}))

    def _told(self, record: BaseRecord, one: _Step, other: _Step, budget: Budget) -> bool:
        """Say whether no version of a base record gives to both groups what they held of it."""
        timeline, touches = self.holding.run.timelines[record], self.holding.reach.touches
        budget.spend(len(timeline.versions))
        if not self.holding.meaning.linear:
            places = range(len(timeline.versions))
            both = any(touches(one.key, record, at) and touches(other.key, record, at) for at in places)
            before = replace(other, write=other.write - 1)
            return not both and all(self._gives(record, step, budget) for step in (one, before))
        told = self.holding.told(timeline)
        first = told[one.after - timeline.first].get(one.key)
        second = told[other.before - timeline.first].get(other.key)
        return not any(each.get(one.key) == first and each.get(other.key) == second for each in told)

    def _gives(self, record: BaseRecord, step: _Step, budget: Budget) -> bool:
        """Say whether a base record makes a row of a group with what else the group holds after one of its writes."""
        holding, folding, writes = self.holding, self.holding.folding, self.holding.writes[step.key]
        if folding is None:
            return False
        near = {
            record,
            *(other for other in holding.reach.partners(step.key, record) if other[0] != record[0]),
        }
        budget.spend(len(near) + sum(len(attempt.absorbed) for attempt in writes[: step.write + 1]))
        held = {
            name: line.to_version
            for it in writes[: step.write + 1]
            for name, line in lines_of(it)
            if name in near
        }
        base: dict[str, list[Row]] = {}
        for name in near:
            timeline = holding.run.timelines[name]
            row = holding.row_of(step.key, timeline, held.get(name, timeline.first))
            if row is not None:
                base.setdefault(name[0], []).append(row)
        made = bag(folding.relation, base, folding.tables) if record[0] in base else ()
        return any(key_identity(row[name] for name in folding.key) == step.key for row in made)


def _never(holding: Holding, rows: dict[Key, Hashable], budget: Budget) -> bool:
    """Say whether no base state shows these rows of view records together."""
    near = {record for key in rows for record in holding.reach.near[key]}
    timelines = {record: holding.run.timelines[record] for record in near}
    index = Index(holding.meaning, replace(holding.run, timelines=timelines))
    lattice = index.lattice(None)
    if not index.known or not all(map(known, timelines.values())):
        return False
    parts = beside({key: (row,) for key, row in rows.items()}, lattice, index)
    state = frozenset(rows.items())
    problem = Problem(tops=lattice.tops, meaning=_no_whole, states=(state,), apart=parts)
    try:
        return search.explanation(problem, 0, budget) is None
    except Exhausted:
        return False


def _no_whole(cut: Cut) -> Hashable:
    raise AssertionError(f"what the whole view shows of {cut} is asked part by part")
