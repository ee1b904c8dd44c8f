"""The aggregate stage: one row a group, with all that is needed to take any input row back out of it.

COUNT, SUM, AVG, VARIANCE and STDDEV keep exact accumulators; a row count always stands beside them, so a sum
of 0 is not an empty group (paper 001 algorithm 5 deletes it; we do not). Binary floats are summed as exact
integers of the smallest float's size, with NaN and the infinities counted apart (H25), so the order in which
rows come and go never shows.

MIN, MAX and DISTINCT keep a bag of the group's values beside the group's row, never reading the base (paper 001
algorithms 7-9 read it, and lose *strong*). The group's row also lists the few best values; only when the last
listed one leaves are the group's values read again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.model.expressions import Column
from cvs.model.functions import ordered
from cvs.model.identity import canonical
from cvs.model.stages import AggregateStage
from cvs.model.views import AggregateColumn, AggregateFunction
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import Place
from cvs.programs.stage_cells import KeptBags
from cvs.programs.stage_codec import Value, Values, framed, named, pack, pack_key, picking, unpack
from cvs.programs.stage_numbers import Sums
from cvs.programs.stage_state import NeedsError, State

BEST_KEPT = 16
"""How many of the best values the group's row lists; longer lists cost bytes, shorter ones cost scans."""

BEST_BYTES = 64 * 1024
"""How long texts and blobs that it lists may be together: each change of the group writes them, twice."""

SQUARED = {AggregateFunction.VARIANCE, AggregateFunction.STDDEV}
EXTREMES = {AggregateFunction.MIN, AggregateFunction.MAX}


@dataclass(frozen=True, slots=True)
class _Kept:
    """One aggregate, resolved to a place in the input row."""

    number: int
    column: AggregateColumn
    place: int | None

    @property
    def by_value(self) -> bool:
        return self.column.distinct or self.column.function in EXTREMES


@dataclass(slots=True)
class _Coming:
    """What an epoch does to the values of one column in a group."""

    root: bytes  # where they are kept
    values: dict[bytes, Value] = field(default_factory=dict)
    counts: dict[bytes, int] = field(default_factory=dict)  # how often each comes (goes, if negative)


@dataclass(slots=True)
class _Moves:
    """What an epoch does to a group: input rows that come or leave, and the same by value, column by column."""

    group: Values
    rows: list[tuple[Values, int]] = field(default_factory=list)
    values: dict[int, _Coming] = field(default_factory=dict)


class AggregateCompute:
    """What an `AggregateStage` does to a bucket."""

    def __init__(self, stage: AggregateStage, *, number: int, columns: tuple[str, ...]) -> None:
        self.stage = stage
        self._group_prefix = framed(b"%d" % number, b"g")
        self._value_prefix = framed(b"%d" % number, b"v")
        self.places = [columns.index(name) for name in stage.group]
        self.group_of = picking(self.places)  # the group an input row belongs to
        self._kept = [_Kept(i, a, _place(a, columns)) for i, a in enumerate(stage.aggregates)]
        self._by_value = sorted({k.place for k in self._kept if k.by_value and k.place is not None})
        self._shown = _shown(stage)
        self._bags = KeptBags()
        self.prefixes = (self._group_prefix,)

    def __call__(self, state: State, changes: Bag, *, always: bool = False) -> Bag:
        """Carry the changes into the groups; `always` runs the one group of an ungrouped stage without any."""
        if changes.sorted is None:
            changes.sorted = self._groups(changes, always=always)
        groups: dict[bytes, _Moves] = changes.sorted
        coming = (values for moves in groups.values() for values in moves.values.values())
        names = [self._group_prefix + named(name) for name in groups]
        self._bags.want(state, {it.root: it.counts for it in coming}, keys=names)
        out, unread = Bag(), []
        for name in sorted(groups):
            try:
                self._move(state, name, groups[name], out)
            except NeedsError as needs:  # of one group whose best values all left; others may need the same
                unread.append(needs)
        if unread:
            raise NeedsError((k for it in unread for k in it.keys), (p for it in unread for p in it.prefixes))
        return out

    def _groups(self, changes: Bag, *, always: bool) -> dict[bytes, _Moves]:
        groups: dict[bytes, _Moves] = {}
        for row, count in changes:
            group = self.group_of(row)
            name = pack_key(group)
            moves = groups.get(name)
            if moves is None:
                moves = groups[name] = _Moves(tuple(map(canonical, group)))
            moves.rows.append((row, count))
        if always and not self.places:
            groups.setdefault(pack_key(()), _Moves(()))
        for name, moves in groups.items():
            for place in self._by_value:
                moves.values[place] = self._by_values(name, place, moves.rows)
        return groups

    def _by_values(self, group: bytes, place: int, rows: list[tuple[Values, int]]) -> _Coming:
        found = _Coming(self._value_prefix + named(group) + framed(b"%d" % place))
        for row, count in rows:
            value = row[place]
            if value is not None:
                name = pack_key((value,))
                found.values[name] = canonical(value)
                found.counts[name] = found.counts.get(name, 0) + count
        return found

    def contents(self, state: State) -> Bag:
        """Return the stage's rows as the state has them: what a snapshot reader needs."""
        out = Bag()
        for value in state.under(self._group_prefix).values():
            record = unpack(value)
            out.add(self._output(record), 1)
        return out

    def place(self, known: Mapping[str, Value]) -> Place | None:
        """Return where output rows with these values come from, if the values say it."""
        if not known.keys() >= set(self.stage.group):
            return None
        group = pack_key(known[name] for name in self.stage.group)
        return Place(key=group, prefixes=(self._group_prefix + named(group),))

    def _move(self, state: State, name: bytes, moves: _Moves, out: Bag) -> None:
        key = self._group_prefix + named(name)
        stored = state.get(key)
        record: list[Any] = (
            list(unpack(stored))
            if stored is not None
            else [moves.group, 0, *(self._empty(k) for k in self._kept)]
        )
        if stored is not None:
            out.add(self._output(tuple(record)), -1)
        for _, count in moves.rows:
            record[1] += count
        turns = {
            place: [
                (coming.values[name], step)
                for name, step in self._bags.carry(state, coming.root, coming.counts)
            ]
            for place, coming in moves.values.items()
        }
        for kept in self._kept:
            stood = record[2 + kept.number]
            if kept.place is None or not kept.by_value:
                found = self._take(kept, stood, moves)
            elif kept.column.function in EXTREMES:
                root = moves.values[kept.place].root
                found = self._take_extreme(state, root, kept, stood, turns=turns[kept.place])
            else:
                found = self._take_distinct(kept, stood, turns[kept.place])
            record[2 + kept.number] = found
        assert record[1] >= 0, "a group lost more rows than it had: a change came in twice or never"
        if record[1] == 0 and self.places:
            state.put(key, None)
            return
        out.add(self._output(tuple(record)), 1)
        state.put(key, pack(record))

    def _empty(self, kept: _Kept) -> Values:
        return (0, (), True) if kept.by_value else Sums().stored()

    def _take(self, kept: _Kept, stored: Values, moves: _Moves) -> Values:
        """Keep exact sums over all values."""
        place = kept.place
        if place is None:
            return stored
        sums, squares = Sums.of(stored), kept.column.function in SQUARED
        for row, count in moves.rows:
            value = row[place]
            if value is not None:
                sums.take(value, count, squares=squares)
        return sums.stored()

    def _take_extreme(
        self, state: State, root: bytes, kept: _Kept, stored: Values, *, turns: list["_Turn"]
    ) -> Values:
        """Keep (number of different values, the best of them in order, whether these are all)."""
        different, best, complete = stored
        came = [value for value, step in turns if step > 0]
        went = [value for value, step in turns if step < 0]
        different += len(came) - len(went)
        kept_best = [value for value in best if not any(_same(value, w) for w in went)] if went else [*best]
        if different and not kept_best and not complete:
            kept_best = [unpack(packed)[0] for packed in self._bags.rows(state, root)]
            complete = True
        else:
            edge = kept_best[-1] if kept_best else None
            better = self._order(kept)
            kept_best += [v for v in came if complete or (kept_best and better(v) < better(edge))]
        kept_best = sorted(kept_best, key=self._order(kept))
        listed = _listed(kept_best)
        return (different, tuple(kept_best[:listed]), complete and len(kept_best) <= listed)

    def _take_distinct(self, kept: _Kept, stored: Values, turns: list["_Turn"]) -> Values:
        """Keep exact sums over the different values."""
        different, inner, _ = stored
        sums = Sums.of(inner) if inner else Sums()
        for value, step in turns:
            sums.take(value, step, squares=kept.column.function in SQUARED)
        return (different, sums.stored(), True)

    def _order(self, kept: _Kept) -> Callable[[Value], Any]:
        return ordered if kept.column.function is AggregateFunction.MIN else _downwards

    def _output(self, record: Values) -> Values:
        group, rows, *accumulators = record
        results = [_result(kept, rows, accumulators[kept.number]) for kept in self._kept]
        return tuple(group[place] if of_group else results[place] for of_group, place in self._shown)


_Turn = tuple[Value, int]
"""A value that was not in its group and is now (1), or was and is not (-1)."""


def _result(kept: _Kept, rows: int, stored: Values) -> Value:
    if kept.place is None:
        return rows
    if kept.column.function in EXTREMES:
        return stored[1][0] if stored[1] else None
    inner = (stored[1] or Sums().stored()) if kept.by_value else stored
    return Sums.of(inner).finish(kept.column.function)


def _listed(best: list[Value]) -> int:
    """Return how many of the best values the group's row lists: of large ones fewer, but one."""
    size = 0
    for number, value in enumerate(best[:BEST_KEPT]):
        size += len(value) if isinstance(value, str | bytes) else 0
        if number and size > BEST_BYTES:
            return number
    return BEST_KEPT


def _same(a: Value, b: Value) -> bool:
    return bool(a == b or (a != a and b != b))


class _Downwards:
    """The opposite order."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: "_Downwards") -> bool:
        return bool(other.key < self.key)


def _downwards(value: Value) -> _Downwards:
    return _Downwards(ordered(value))


def _place(aggregate: AggregateColumn, columns: tuple[str, ...]) -> int | None:
    if aggregate.argument is None:
        return None
    assert isinstance(aggregate.argument, Column), "arguments of aggregates are plain columns of the input"
    return columns.index(aggregate.argument.name)


def _shown(stage: AggregateStage) -> list[tuple[bool, int]]:
    """Resolve each output column to a group column or an aggregate."""
    aggregates = {a.name: i for i, a in enumerate(stage.aggregates)}
    groups = {name: i for i, name in enumerate(stage.group)}
    return [
        (False, aggregates[name]) if name in aggregates else (True, groups[name]) for name, _ in stage.output
    ]
