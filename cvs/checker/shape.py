"""Shapes the bulk path knows: sums and counts by group, and plain rows, over one table.

A shape turns a base row into the view key it belongs to and what it contributes there; everything is
rewritten to expressions over the base row itself, so that a million rows take seconds.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cvs.model.expressions import Call, Column, Expression, compile_expression, compile_predicate
from cvs.model.identity import key_identity, row_identity
from cvs.model.views import (
    Aggregate,
    AggregateFunction,
    BaseTable,
    Project,
    Relation,
    Scan,
    Select,
    ViewDefinition,
)

Told = tuple[tuple[Any, ...], Hashable] | None


class NotForBulkError(Exception):
    """A value the bulk path does not add up: the exact judge takes the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a view folds: `names` are the output columns of the folds after the row count."""

    table: str
    grouped: bool
    key: tuple[str, ...]
    names: tuple[str, ...] = ()
    contribution: Callable[[Mapping[str, Any]], Told]

    @property
    def folds(self) -> int:
        """Return how many numbers a contribution adds: the row count, then one an aggregate."""
        return 1 + len(self.names) if self.grouped else 0

    def numbers(self, content: Hashable) -> Sequence[int]:
        """Return the numbers of a contribution."""
        return content if self.grouped else ()  # type: ignore[return-value]


def shape_of(view: ViewDefinition, tables: Mapping[str, BaseTable]) -> Shape | None:
    """Recognize a view, or leave it to the exact judge."""
    relation, names = view.relation, {name: name for name in view.key}
    outputs: dict[str, str] | None = None
    if isinstance(relation, Project) and isinstance(relation.source, Aggregate):
        if not all(isinstance(c.expression, Column) for c in relation.columns):
            return None
        outputs = {c.name: c.expression.name for c in relation.columns if isinstance(c.expression, Column)}
        names = {name: outputs.get(name, "") for name in view.key}
        relation = relation.source
    if isinstance(relation, Aggregate):
        return _grouped(view, relation, outputs, names)
    return _plain_rows(view, relation, tables)


def _plain_rows(view: ViewDefinition, relation: Relation, tables: Mapping[str, BaseTable]) -> Shape | None:
    resolved = _resolved(relation, tables)
    if resolved is None or resolved[1] is None:
        return None
    table, columns, keeps = resolved
    assert columns is not None
    computed = [(name, compile_expression(e)) for name, e in columns.items()]

    def contribution(row: Mapping[str, Any]) -> Told:
        if not all(keep(row) for keep in keeps):
            return None
        shown = {name: compute(row) for name, compute in computed}
        return key_identity(shown.get(name) for name in view.key), row_identity(shown)

    return Shape(table=table, grouped=False, key=view.key, contribution=contribution)


def _grouped(
    view: ViewDefinition, relation: Aggregate, outputs: dict[str, str] | None, names: dict[str, str]
) -> Shape | None:
    resolved = _resolved(relation.source, {})
    groups = {named.name: named.expression for named in relation.group}
    if resolved is None or not groups or set(names.values()) != set(groups) or len(names) != len(groups):
        return None
    table, columns, keeps = resolved
    shown = outputs or {name: name for name in (*groups, *(a.name for a in relation.aggregates))}
    by_name = {a.name: a for a in relation.aggregates}
    folded = [(out, by_name[inner]) for out, inner in shown.items() if inner in by_name]
    if len(folded) + len(groups) != len(shown) or not set(shown) >= set(view.key):
        return None
    kinds = (AggregateFunction.COUNT, AggregateFunction.SUM)
    if any(a.distinct or a.function not in kinds for _, a in folded):
        return None
    keys = [compile_expression(_through(groups[names[name]], columns)) for name in view.key]
    arguments = [
        (a.function is AggregateFunction.SUM, compile_expression(_through(a.argument, columns)))
        if a.argument is not None
        else None
        for _, a in folded
    ]

    def contribution(row: Mapping[str, Any]) -> Told:
        if not all(keep(row) for keep in keeps):
            return None
        numbers = [1]
        for argument in arguments:
            value = 1 if argument is None else argument[1](row)
            if argument is not None and not argument[0]:
                value = int(value is not None)
            if type(value) is not int or abs(value) >= 1 << 40:
                raise NotForBulkError
            numbers.append(value)
        return key_identity(key(row) for key in keys), tuple(numbers)

    return Shape(
        table=table,
        grouped=True,
        key=view.key,
        names=tuple(out for out, _ in folded),
        contribution=contribution,
    )


Resolved = tuple[str, dict[str, Expression] | None, list[Callable[[Mapping[str, Any]], bool]]]


def _resolved(relation: Relation, tables: Mapping[str, BaseTable]) -> Resolved | None:
    """Write columns and predicates of a row-wise relation as expressions over the base row itself.

    The columns are None where every column of the table passes through under its scan's prefix.
    """
    if isinstance(relation, Scan):
        return relation.table, None, []
    if not isinstance(relation, Select | Project):
        return None
    inner = _resolved(relation.source, tables)
    if inner is None:
        return None
    table, columns, keeps = inner
    if isinstance(relation, Select):
        return table, columns, [*keeps, compile_predicate(_through(relation.predicate, columns))]
    return table, {c.name: _through(c.expression, columns) for c in relation.columns}, keeps


def _through(expression: Expression, columns: dict[str, Expression] | None) -> Expression:
    """Replace columns by what they stand for; a scan's column loses its prefix."""
    if isinstance(expression, Column):
        if columns is None:
            return Column(expression.name.split(".", 1)[-1])
        return columns[expression.name]
    if isinstance(expression, Call):
        return Call(expression.function, tuple(_through(a, columns) for a in expression.arguments))
    return expression
