"""The combined selection: all edges out of one source, taken together row by row (paper 000 section 5.1.1).

Thousands of views that select from one table differ in a few bounds. So a row's value on each expression that is
compared with constants is looked up once among all of them, which gives a bit for each edge; other conditions are
evaluated once however many edges have them. What is left of the AND of those **bit vectors** are the edges the row
passes. Edges that project the same make one row, packed once.

A null passes no comparison, so it has a vector of its own: of the edges that do not compare the expression.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any

from cvs.model.expressions import Call, Expression, Literal, Row, compile_expression, compile_predicate
from cvs.model.stages import Edge
from cvs.programs.stage_bag import Bag, Changes
from cvs.programs.stage_codec import Values, pack
from cvs.programs.stage_edges import compile_edge, naming, projection, through

TOGETHER_MIN = 4  # because a few edges are evaluated sooner than looked up
_COMPARED = ("<", "<=", ">", ">=", "=")
_KINDS: tuple[tuple[type, ...], ...] = ((int, Decimal, float), (str,), (date,), (datetime,))

Carried = tuple[int, Values, int, bytes]
"""Which edge, the row it makes, how often, the row's bytes."""


class Combined:
    """Edges out of one source."""

    def __init__(self, edges: Sequence[Edge], columns: tuple[str, ...]) -> None:
        self._maps = [] if len(edges) >= TOGETHER_MIN else [compile_edge(edge, columns) for edge in edges]
        if self._maps:
            return
        self._all = (1 << len(edges)) - 1
        self._axes, self._others = _sorted(edges)
        self._named = naming([edge.where for edge in edges if edge.where is not None], columns)
        known: dict[Any, int] = {}
        self._projection_of = [known.setdefault(edge.columns, len(known)) for edge in edges]
        self._projections = [projection(columns_, columns) for columns_ in known]

    def carry(self, changes: Changes) -> Iterator[Carried]:
        """Carry changes of the source over every edge they pass."""
        for number, run in enumerate(self._maps):
            arrived = Bag()
            through(run, changes, arrived)
            for name, (row, count) in arrived.named():
                yield number, row, count, name
        if not self._maps:
            yield from self._together(changes)

    def _together(self, changes: Changes) -> Iterator[Carried]:
        selects = bool(self._axes or self._others)
        for row, count in changes:
            left = self.passing(self._named(row)) if selects else self._all
            made: dict[int, tuple[Values, bytes]] = {}
            while left:
                lowest = left & -left
                left ^= lowest
                number = lowest.bit_length() - 1
                place = self._projection_of[number]
                if place not in made:
                    projected = self._projections[place](row)
                    made[place] = (projected, pack(projected))
                yield number, made[place][0], count, made[place][1]

    def passing(self, row: Row) -> int:
        """Return a bit for each edge that a row passes."""
        left = self._all
        for axis in self._axes:
            left &= axis(row)
            if not left:
                return 0
        for chosen, having in self._others:
            if left & having and not chosen(row):
                left &= ~having
        return left


Vectors = Callable[[Row], int]


def _sorted(edges: Sequence[Edge]) -> tuple[list[Vectors], list[tuple[Callable[[Row], bool], int]]]:
    """Return what gives vectors by comparing, and the other conditions with the edges that have them."""
    compared: dict[tuple[Expression, int], list[tuple[int, str, Any]]] = {}
    others: dict[Expression, int] = {}
    for number, edge in enumerate(edges):
        for condition in _conditions(edge.where):
            atom = _atom(condition)
            if atom is None:
                others[condition] = others.get(condition, 0) | 1 << number
            else:
                compared.setdefault(atom[:2], []).append((number, *atom[2:]))
    everything = (1 << len(edges)) - 1
    axes = [_axis(expression, atoms, everything) for (expression, _), atoms in compared.items()]
    return axes, [(compile_predicate(condition), having) for condition, having in others.items()]


def _conditions(where: Expression | None) -> tuple[Expression, ...]:
    if where is None:
        return ()
    if isinstance(where, Call) and where.function == "and":
        return tuple(part for argument in where.arguments for part in _conditions(argument))
    return (where,)


def _atom(condition: Expression) -> tuple[Expression, int, str, Any] | None:
    """Return (expression, kind of its values, operator, constant) of a comparison with a constant, or None."""
    if not isinstance(condition, Call) or condition.function not in _COMPARED:
        return None
    expression, bound = condition.arguments
    if isinstance(expression, Literal) or not isinstance(bound, Literal) or bound.value != bound.value:
        return None
    value = bound.value
    kind = next((i for i, types in enumerate(_KINDS) if type(value) in types), None)
    return None if kind is None else (expression, kind, condition.function, value)


def _axis(expression: Expression, atoms: list[tuple[int, str, Any]], everything: int) -> Vectors:
    """Return the vector of a row by where its value lies: cell 2i+1 is the point of bound i, cell 2i the gap before."""
    bounds = sorted({value for _, _, value in atoms})
    places = {value: 2 * place + 1 for place, value in enumerate(bounds)}
    passed: dict[int, tuple[int, int]] = {}  # the cells an edge's comparisons leave are a range
    for number, operator, value in atoms:
        first, last = passed.get(number, (0, 2 * len(bounds)))
        point = places[value]
        first = max(first, {">": point + 1, ">=": point, "=": point}.get(operator, 0))
        last = min(last, {"<": point - 1, "<=": point, "=": point}.get(operator, last))
        passed[number] = (first, last)
    unread = everything & ~reduce(or_, (1 << number for number in passed), 0)
    vectors = _swept(passed, 2 * len(bounds) + 1, unread)
    compute = compile_expression(expression)

    def vector(row: Row) -> int:
        value = compute(row)
        if value is None:
            return unread
        if value != value:
            return vectors[-1]  # because NaN is the greatest
        at = bisect_left(bounds, value)
        return vectors[2 * at + 1 if at < len(bounds) and bounds[at] == value else 2 * at]

    return vector


def _swept(passed: Mapping[int, tuple[int, int]], cells: int, unread: int) -> list[int]:
    """Return the vector of every cell."""
    begins, ends = [0] * cells, [0] * cells
    for number, (first, last) in passed.items():
        if first <= last:
            begins[first] |= 1 << number
            ends[last] |= 1 << number
    vectors, current = [], unread
    for begin, end in zip(begins, ends, strict=True):
        current |= begin
        vectors.append(current)
        current &= ~end
    return vectors
