"""COUNT, SUM, AVG, MIN, MAX, COUNT DISTINCT, VARIANCE and STDDEV: all aggregates of a group in one record.

After paper 001, algorithms 1-6, with three repairs (README, "How ours differs"): a row count stands beside
every sum, so a sum that happens to be 0 (or equal to the leaving value) is not an empty group; MIN, MAX and
DISTINCT keep value -> multiplicity rows beside the record and never read the base; an update that stays in
its group is one test-and-set, so no reader sees the group without the row.

A projection that loses the key (algorithms 20-22) and DISTINCT are groups without aggregates; HAVING is a
group that hides its record when the predicate is not true.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cvs.model.views import AggregateFunction
from cvs.programs.machine import (
    HIDDEN,
    MARK_ONLY,
    RECORD,
    Change,
    Entry,
    Key,
    Policy,
    Row,
    Rows,
    Run,
    absorb,
    in_order,
)
from cvs.programs.rows import Compiled, Condition, contribution, everything

ROWS = HIDDEN + "rows"
IN_MULTIPLICITIES = {AggregateFunction.MIN, AggregateFunction.MAX}
SQUARED = {AggregateFunction.VARIANCE, AggregateFunction.STDDEV}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregated:
    """One aggregate: its column, its function, and its argument (none: COUNT of rows)."""

    name: str
    function: AggregateFunction
    argument: Compiled | None = None
    distinct: bool = False

    @property
    def by_value(self) -> bool:
        """Say whether it needs to know the different values, not only their sum."""
        return self.distinct or self.function in IN_MULTIPLICITIES


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateProgram:
    """Keeps one record a group, from the rows of one table for which `where` is true."""

    view: str
    table: str
    group: tuple[tuple[str, Compiled], ...]
    aggregates: tuple[Aggregated, ...] = ()
    where: Condition = everything
    having: Condition = everything

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Take the old row out of its group, put the new one into its own; one test-and-set if they agree."""
        before = contribution(entry.before, self.where)
        after = contribution(entry.after, self.where)
        if before is not None and after is not None and (key := self._key(before)) == self._key(after):
            return in_order(
                () if self._same(before, after) else (self._absorb(entry, key, (before, after), policy),)
            )
        runs = []
        if before is not None:
            runs.append(self._absorb(entry, self._key(before), (before, None), policy))
        if after is not None:
            runs.append(self._absorb(entry, self._key(after), (None, after), policy))
        return in_order(runs)

    def _key(self, row: Row) -> Key:
        return tuple(value(row) for _, value in self.group)

    def _same(self, before: Row, after: Row) -> bool:
        arguments = (a.argument for a in self.aggregates if a.argument)
        return all(argument(before) == argument(after) for argument in arguments)

    def _absorb(self, entry: Entry, key: Key, move: tuple[Row | None, Row | None], policy: Policy) -> Run:
        return absorb(entry, key, lambda rows, _: self._change(rows, key, move), policy=policy)

    def _change(self, rows: Rows, key: Key, move: tuple[Row | None, Row | None]) -> Change:
        before, after = move
        if RECORD not in rows and after is None:
            return MARK_ONLY  # nothing there to take the row out of (algorithm 2, line 12)
        record = {name: value for name, value in rows.get(RECORD, {}).items() if name.startswith(HIDDEN)}
        values: dict[Key, int] = {}
        for row, sign in ((before, -1), (after, 1)):
            if row is not None:
                self._count(record, values, rows, (row, sign))
        if record[ROWS] <= 0 and self.group:
            return Change(deletes=tuple(rows))
        kept = {**{k: r["n"] for k, r in rows.items() if k != RECORD}, **values}
        record |= dict(zip((name for name, _ in self.group), key, strict=True))
        record |= {a.name: _result(a, record, kept) for a in self.aggregates}
        record[HIDDEN + "hidden"] = not self.having(record)
        puts = [(RECORD, record), *((k, {"n": n}) for k, n in values.items() if n > 0)]
        return Change(puts=tuple(puts), deletes=tuple(k for k, n in values.items() if n <= 0 and k in rows))

    def _count(
        self, record: dict[str, Any], values: dict[Key, int], rows: Rows, signed: tuple[Row, int]
    ) -> None:
        """Add (or take out) one row: counts, sums, squares, multiplicities."""
        row, sign = signed
        record[ROWS] = record.get(ROWS, 0) + sign
        for aggregate in self.aggregates:
            if aggregate.argument is None or (value := aggregate.argument(row)) is None:
                continue
            if aggregate.by_value:
                at = (aggregate.name, value)
                already = rows[at]["n"] if at in rows else 0
                values[at] = values.get(at, already) + sign
                continue
            for column, part in _parts(aggregate, value):
                record[column] = record.get(column, 0) + sign * part


def _parts(aggregate: Aggregated, value: Any) -> Iterator[tuple[str, Any]]:
    """Name the accumulators one value goes into."""
    yield f"{HIDDEN}count:{aggregate.name}", 1
    if aggregate.function is not AggregateFunction.COUNT:
        yield f"{HIDDEN}sum:{aggregate.name}", value
    if aggregate.function in SQUARED:
        yield f"{HIDDEN}squares:{aggregate.name}", value * value


def _result(aggregate: Aggregated, record: Mapping[str, Any], kept: Mapping[Key, int]) -> Any:
    """Return the value of one aggregate; SQL's answer for no values is null, for COUNT 0."""
    if aggregate.argument is None:
        return record[ROWS]
    if aggregate.by_value:
        mine = [k[1] for k, n in kept.items() if k[0] == aggregate.name and n > 0]
        return _of_values(aggregate.function, mine)
    count = record.get(f"{HIDDEN}count:{aggregate.name}", 0)
    if aggregate.function is AggregateFunction.COUNT:
        return count
    if not count:
        return None
    total = record[f"{HIDDEN}sum:{aggregate.name}"]
    squares = record.get(f"{HIDDEN}squares:{aggregate.name}")
    return _of_sums(aggregate.function, count, total, squares)


def _of_values(function: AggregateFunction, values: list[Any]) -> Any:
    if function is AggregateFunction.COUNT:
        return len(values)
    if not values:
        return None
    if function is AggregateFunction.MIN:
        return min(values)
    if function is AggregateFunction.MAX:
        return max(values)
    squares = sum(value * value for value in values)
    return _of_sums(function, len(values), sum(values), squares)


def _of_sums(function: AggregateFunction, count: int, total: Any, squares: Any) -> Any:
    """Finish from count, sum and sum of squares; sample variance, null for one value (as SQL engines do)."""
    if function is AggregateFunction.SUM:
        return total
    if function is AggregateFunction.AVG:
        return total / count
    if count == 1:
        return None
    variance = (squares * count - total * total) / (count * (count - 1))
    return variance if function is AggregateFunction.VARIANCE else math.sqrt(variance)
