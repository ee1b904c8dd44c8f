"""Equal aggregates over different ranges: pre-aggregated once in full cells, summed up a view (paper 000, 5.1.2).

The bounds of all ranges over a column cut it into cells: points and the gaps between them. A row is in exactly
one cell of every column, so a view that sums its cells counts each row once. (The thesis rebuilds a disjunction
over two columns from the pieces of each column and counts a row in both twice; full cells cannot.)

Only what can be put together again exactly is decomposed: COUNT, SUM, AVG, MIN, MAX without DISTINCT, over
numbers that add exactly. A null is in no range, so it has a cell that no view reads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import Aggregate, AggregateColumn, AggregateFunction
from cvs.plan.drafts import Port
from cvs.plan.inference import type_of
from cvs.plan.types import FLOATS

VIEWS_MIN = 2
AXES_MAX = 2
CELLS_MAX = 4096
OUTSIDE = -1

Where = tuple[Expression, ...]
_OPERATORS = ("<", "<=", ">", ">=", "=")
_PARTS = {
    AggregateFunction.COUNT: (AggregateFunction.COUNT,),
    AggregateFunction.SUM: (AggregateFunction.SUM,),
    AggregateFunction.AVG: (AggregateFunction.SUM, AggregateFunction.COUNT),
    AggregateFunction.MIN: (AggregateFunction.MIN,),
    AggregateFunction.MAX: (AggregateFunction.MAX,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One column (or expression) cut at bounds: cell 2i+1 is the point of bound i, cell 2i the gap before it."""

    expression: Expression
    bounds: tuple[Any, ...]

    def cell(self) -> Expression:
        """Return the number of a row's cell, found by halving; null is outside."""
        null = Call("is_null", (self.expression,))
        return Call("case", (null, Literal(OUTSIDE), self._within(0, len(self.bounds))))

    def _within(self, low: int, high: int) -> Expression:
        if low == high:
            return Literal(2 * low)
        middle = (low + high) // 2
        bound = Literal(self.bounds[middle])
        return Call(
            "case",
            (
                Call("<", (self.expression, bound)),
                self._within(low, middle),
                Call("=", (self.expression, bound)),
                Literal(2 * middle + 1),
                self._within(middle + 1, high),
            ),
        )

    def cells(self, where: Where) -> tuple[int, int] | None:
        """Return the first and last cell of the rows that pass the conditions on this axis.

        None if there are none: then rows whose value is null, outside all cells, count too.
        """
        first, last, restricted = 0, 2 * len(self.bounds), False
        for condition in where:
            found = _atom(condition)
            if found is None or found[1] != self.expression:
                continue
            operator, _, value = found
            restricted = True
            point = 2 * self.bounds.index(value) + 1
            first = max(first, {">": point + 1, ">=": point, "=": point}.get(operator, 0))
            last = min(last, {"<": point - 1, "<=": point, "=": point}.get(operator, last))
        return (first, last) if restricted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """What the views over one source and group share: conditions all have, and the axes they differ in."""

    shared: Where
    axes: tuple[Axis, ...]

    def fits(self, where: Where) -> bool:
        """Say whether a selection is the shared one and ranges on the axes."""
        if not all(condition in where for condition in self.shared):
            return False
        known = {axis.expression: axis.bounds for axis in self.axes}
        atoms = [_atom(condition) for condition in where if condition not in self.shared]
        return all(atom is not None and atom[2] in known.get(atom[1], ()) for atom in atoms)


@dataclass(slots=True, kw_only=True)
class Ranges:
    """The selections seen over one source and group."""

    wheres: set[Where] = field(default_factory=set)


def decomposable(relation: Aggregate, port: Port, types: Callable[[str], str]) -> bool:
    """Say whether every aggregate can be put together again exactly from parts."""
    if len(port.flow) != 1:
        return False
    for column in relation.aggregates:
        if column.distinct or column.function not in _PARTS:
            return False
        adds = column.function in (AggregateFunction.SUM, AggregateFunction.AVG)
        if adds and column.argument is not None:
            (argument,) = port.over_sources(column.argument)
            if type_of(argument, types) in FLOATS:
                return False
    return True


def cells_of(seen: Mapping[Any, Ranges]) -> dict[Any, Cells]:
    """Return, for each source and group that several ranges are taken of, how these can be cut."""
    found = ((key, _cut(list(ranges.wheres))) for key, ranges in seen.items())
    return {key: cells for key, cells in found if cells is not None}


def _cut(wheres: list[Where]) -> Cells | None:
    if len(wheres) < VIEWS_MIN:
        return None
    shared = tuple(c for c in wheres[0] if all(c in where for where in wheres))
    bounds: dict[Expression, set[Any]] = {}
    for where in wheres:
        for condition in where:
            atom = _atom(condition)
            if condition in shared or atom is None:
                continue
            bounds.setdefault(atom[1], set()).add(atom[2])
    if not bounds or len(bounds) > AXES_MAX:
        return None
    if any(len({type(v) for v in values}) > 1 for values in bounds.values()):
        return None
    axes = tuple(Axis(expression=e, bounds=tuple(sorted(bounds[e]))) for e in sorted(bounds, key=repr))
    count = 1
    for axis in axes:
        count *= 2 * len(axis.bounds) + 1
    cells = Cells(shared=shared, axes=axes)
    fitting = sum(cells.fits(where) for where in wheres)
    return cells if count <= CELLS_MAX and fitting >= VIEWS_MIN else None


def _atom(condition: Expression) -> tuple[str, Expression, Any] | None:
    """Return (operator, expression, constant) of a range condition, or None."""
    if not isinstance(condition, Call) or condition.function not in _OPERATORS:
        return None
    expression, bound = condition.arguments
    if isinstance(expression, Literal) or not isinstance(bound, Literal) or bound.value is None:
        return None
    return (condition.function, expression, bound.value)


def parts_of(column: AggregateColumn) -> tuple[AggregateColumn, ...]:
    """Return what the pre-aggregate keeps for an aggregate."""
    return tuple(
        AggregateColumn(name="", function=function, argument=column.argument)
        for function in _PARTS[column.function]
    )


def summed(column: AggregateColumn, keep: Callable[[AggregateFunction, int], str]) -> Expression:
    """Return an aggregate from its parts; `keep` names the column that puts part number i together."""
    if column.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return Column(keep(column.function, 0))
    first = Column(keep(AggregateFunction.SUM, 0))
    if column.function is AggregateFunction.COUNT:
        return Call("coalesce", (first, Literal(0)))
    if column.function is AggregateFunction.SUM:
        return first
    return Call("/", (first, Column(keep(AggregateFunction.SUM, 1))))
