"""The aggregate stage: one row a group, with all that is needed to take any input row back out of it.

COUNT, SUM, AVG, VARIANCE and STDDEV keep exact accumulators; a row count always stands beside them, so a sum
of 0 is not an empty group (paper 001 algorithm 5 deletes it; we do not). Binary floats are summed as exact
integers of the smallest float's size, with NaN and the infinities counted apart (H25), so the order in which
rows come and go never shows.

MIN, MAX and DISTINCT keep one row a value with its multiplicity beside the group's row, never reading the base
(paper 001 algorithms 7-9 read it, and lose *strong*). The group's row also lists the few best values; only when
the last listed one leaves are the group's values read again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cvs.model.expressions import Column
from cvs.model.functions import ordered
from cvs.model.identity import canonical
from cvs.model.stages import AggregateStage
from cvs.model.views import AggregateColumn, AggregateFunction
from cvs.programs.stage_bucket import Bag, Place, State
from cvs.programs.stage_codec import Value, Values, framed, pack, pack_key, unpack
from cvs.programs.stage_numbers import Sums

BEST_KEPT = 16
"""How many of the best values the group's row lists; longer lists cost bytes, shorter ones cost scans."""

_Moves = tuple[Values, list[tuple[Values, int]]]
"""A group's values, and the input rows that come to it or leave it."""

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


class AggregateCompute:
    """What an `AggregateStage` does to a bucket."""

    def __init__(self, stage: AggregateStage, *, number: int, columns: tuple[str, ...]) -> None:
        self.stage = stage
        self._group_prefix = framed(b"%d" % number, b"g")
        self._value_prefix = framed(b"%d" % number, b"v")
        self._places = [columns.index(name) for name in stage.group]
        self._kept = [_Kept(i, a, _place(a, columns)) for i, a in enumerate(stage.aggregates)]
        self._by_value = [(k, k.place) for k in self._kept if k.by_value and k.place is not None]
        self._shown = _shown(stage)

    def group_of(self, row: Values) -> Values:
        """Return the group an input row belongs to."""
        return tuple(row[place] for place in self._places)

    def _keys(self, groups: Mapping[bytes, _Moves]) -> Iterable[bytes]:
        """Return the rows of state that changes surely touch."""
        for group, (_, changes) in groups.items():
            yield self._group_prefix + framed(group)
            for kept, place in self._by_value:
                prefix = self._values_of(group, kept)
                values = (row[place] for row, _ in changes)
                yield from (prefix + framed(pack_key((value,))) for value in values if value is not None)

    def __call__(self, state: State, changes: Bag, *, always: bool = False) -> Bag:
        """Carry the changes into the groups; `always` runs the one group of an ungrouped stage without any."""
        groups: dict[bytes, _Moves] = {}
        for row, count in changes:
            group = self.group_of(row)
            name = pack_key(group)
            if name not in groups:
                groups[name] = (tuple(map(canonical, group)), [])
            groups[name][1].append((row, count))
        if always and not self._places:
            groups.setdefault(pack_key(()), ((), []))
        state.want(keys=self._keys(groups), prefixes=())
        out = Bag()
        for name in sorted(groups):
            self._move(state, name, *groups[name], out)
        return out

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
        return Place(key=group, prefixes=(self._group_prefix + framed(group),))

    def _values_of(self, group: bytes, kept: _Kept) -> bytes:
        return self._value_prefix + framed(group, b"%d" % kept.number)

    def _move(
        self, state: State, name: bytes, group: Values, changes: list[tuple[Values, int]], out: Bag
    ) -> None:
        key = self._group_prefix + framed(name)
        stored = state.get(key)
        record: list[Any] = (
            list(unpack(stored)) if stored is not None else [group, 0, *(self._empty(k) for k in self._kept)]
        )
        if stored is not None:
            out.add(self._output(tuple(record)), -1)
        for _, count in changes:
            record[1] += count
        for kept in self._kept:
            record[2 + kept.number] = self._take(state, name, kept, record[2 + kept.number], changes)
        assert record[1] >= 0, "a group lost more rows than it had: a change came in twice or never"
        if record[1] == 0 and self._places:
            state.put(key, None)
            return
        out.add(self._output(tuple(record)), 1)
        state.put(key, pack(record))

    def _empty(self, kept: _Kept) -> Values:
        return (0, (), True) if kept.by_value else Sums().stored()

    def _take(
        self, state: State, group: bytes, kept: _Kept, stored: Values, changes: list[tuple[Values, int]]
    ) -> Values:
        if kept.place is None:
            return stored
        if kept.by_value:
            return self._take_values(state, group, kept, stored, changes)
        sums = Sums.of(stored)
        squares = kept.column.function in SQUARED
        for row, count in changes:
            if row[kept.place] is not None:
                sums.take(row[kept.place], count, squares=squares)
        return sums.stored()

    def _take_values(
        self, state: State, group: bytes, kept: _Kept, stored: Values, changes: list[tuple[Values, int]]
    ) -> Values:
        """Keep (number of different values, the best of them in order, whether these are all)."""
        different, best, complete = stored
        assert kept.place is not None
        moves: dict[bytes, tuple[Value, int]] = {}
        prefix = self._values_of(group, kept)
        for row, count in changes:
            value = row[kept.place]
            if value is not None:
                at = prefix + framed(pack_key((value,)))
                moves[at] = (canonical(value), moves.get(at, (None, 0))[1] + count)
        if kept.column.distinct and kept.column.function not in EXTREMES:
            return self._take_distinct(state, kept, stored, moves)
        came, went = [], []
        for at, (value, count) in sorted(moves.items()):
            had = unpack(known)[1] if (known := state.get(at)) is not None else 0
            has = had + count
            assert has >= 0, "a value left a group more often than it came"
            if count:
                state.put(at, pack((value, has)) if has else None)
            came += [value] if has and not had else []
            went += [value] if had and not has else []
        different += len(came) - len(went)
        kept_best = [value for value in best if not any(_same(value, w) for w in went)]
        if different and not kept_best and not complete:
            kept_best = [unpack(v)[0] for v in state.under(self._values_of(group, kept)).values()]
            complete = True
        else:
            edge = kept_best[-1] if kept_best else None
            better = self._order(kept)
            kept_best += [v for v in came if complete or (kept_best and better(v) < better(edge))]
        kept_best = sorted(kept_best, key=self._order(kept))
        return (different, tuple(kept_best[:BEST_KEPT]), complete and len(kept_best) <= BEST_KEPT)

    def _take_distinct(
        self, state: State, kept: _Kept, stored: Values, moves: dict[bytes, tuple[Value, int]]
    ) -> Values:
        """Keep exact sums over the different values."""
        different, inner, _ = stored
        sums = Sums.of(inner) if inner else Sums()
        for at, (value, count) in sorted(moves.items()):
            had = unpack(known)[1] if (known := state.get(at)) is not None else 0
            has = had + count
            assert has >= 0, "a value left a group more often than it came"
            if count:
                state.put(at, pack((value, has)) if has else None)
            step = bool(has) - bool(had)
            if step:
                sums.take(value, step, squares=kept.column.function in SQUARED)
        return (different, sums.stored(), True)

    def _order(self, kept: _Kept) -> Callable[[Value], Any]:
        return ordered if kept.column.function is AggregateFunction.MIN else _downwards

    def _output(self, record: Values) -> Values:
        group, rows, *accumulators = record
        results = [_result(kept, rows, accumulators[kept.number]) for kept in self._kept]
        return tuple(group[place] if of_group else results[place] for of_group, place in self._shown)


def _result(kept: _Kept, rows: int, stored: Values) -> Value:
    if kept.place is None:
        return rows
    if kept.column.function in EXTREMES:
        return stored[1][0] if stored[1] else None
    inner = (stored[1] or Sums().stored()) if kept.by_value else stored
    return Sums.of(inner).finish(kept.column.function)


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
    return [(name not in aggregates, aggregates.get(name, groups.get(name, -1))) for name, _ in stage.output]
