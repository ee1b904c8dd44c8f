"""Shapes the bulk path knows: sums and counts by group, and plain rows, over one table.

A shape turns a base row into the view key it belongs to and what it contributes there; everything is
rewritten to expressions over the base row itself, so that a million rows take seconds.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import methodcaller
from typing import Any

from cvs.history.columns import NotColumnarError
from cvs.model.expressions import (
    Call,
    Column,
    Compiled,
    Expression,
    Row,
    compile_expression,
    compile_predicate,
)
from cvs.model.identity import row_identity
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a view folds: `names` are the output columns of its sums and counts."""

    table: str
    key: tuple[str, ...]
    keeps: tuple[Callable[[Row], bool], ...]
    keys: tuple[Compiled, ...]
    grouped: bool
    names: tuple[str, ...] = ()
    arguments: tuple[Compiled | None, ...] = ()  # of each name; None: count rows
    counts: tuple[bool, ...] = ()  # whether the name counts or adds
    shown: tuple[tuple[str, Compiled], ...] = ()  # columns of plain rows

    def kept(self, rows: Sequence[Row | None]) -> list[bool]:
        """Say which base rows are in the view."""
        kept = [row is not None for row in rows]
        for keep in self.keeps:
            kept = [yes and row is not None and keep(row) for yes, row in zip(kept, rows, strict=True)]
        return kept

    def names_of(self, view: str, rows: Sequence[Row]) -> Iterable[tuple[str, tuple[Any, ...]]]:
        """Return the view record each row belongs to."""
        return zip(repeat(view), zip(*(map(key, rows) for key in self.keys), strict=True))

    def numbers(self, place: int, rows: Sequence[Row]) -> Iterable[int]:
        """Return what each row adds to one of the names; whatever is no small whole number is not for
        bulk.
        """
        argument = self.arguments[place]
        if argument is None:
            return repeat(1, len(rows))
        values = list(map(argument, rows))
        if self.counts[place]:
            return [int(value is not None) for value in values]
        if any(type(value) is not int or not -_MOST < value < _MOST for value in values):
            raise NotColumnarError("values that are no whole numbers of ordinary size")
        return values

    def content(self, row: Row) -> Hashable:
        """Return the row a plain view shows of a base row."""
        return row_identity({name: compute(row) for name, compute in self.shown})


_MOST = 1 << 40


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
    shown = tuple((name, _compiled(e)) for name, e in columns.items())
    by_name = dict(shown)
    if not view.key or not set(view.key) <= by_name.keys():
        return None
    keys = tuple(by_name[name] for name in view.key)
    return Shape(table=table, key=view.key, keeps=tuple(keeps), keys=keys, grouped=False, shown=shown)


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
    return Shape(
        table=table,
        key=view.key,
        keeps=tuple(keeps),
        keys=tuple(_compiled(_through(groups[names[name]], columns)) for name in view.key),
        grouped=True,
        names=tuple(out for out, _ in folded),
        arguments=tuple(
            None if a.argument is None else _compiled(_through(a.argument, columns)) for _, a in folded
        ),
        counts=tuple(a.function is AggregateFunction.COUNT for _, a in folded),
    )


def _compiled(expression: Expression) -> Compiled:
    """Compile; a plain column is looked up without a frame of Python, because a million rows are."""
    return (
        methodcaller("get", expression.name)
        if isinstance(expression, Column)
        else compile_expression(expression)
    )


Resolved = tuple[str, dict[str, Expression] | None, list[Callable[[Row], bool]]]


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
