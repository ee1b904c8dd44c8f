"""Shapes the bulk path knows: sums and counts by group, and plain rows, over one table.

A shape turns a base row into the view key it belongs to and what it contributes there; everything is
rewritten to expressions over the base row itself, so that a million rows take seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from cvs.model.expressions import (
    Call,
    Column,
    Compiled,
    Expression,
    Row,
    columns_of,
    compile_expression,
    compile_predicate,
)
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

DECIMAL_UNITS = 10_000
"""Of a decimal, the units it is added up in: prices fit, and what does not is for the exact judge."""


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """An expression over a base row, and the columns it reads."""

    names: tuple[str, ...]
    of: Compiled
    plain: str | None  # the column that it is, if it is no more

    @classmethod
    def from_expression(cls, expression: Expression) -> "Computed":
        """Compile; a plain column is looked up without a frame of Python, because a million rows are."""
        names = tuple(sorted(set(columns_of(expression))))
        if isinstance(expression, Column):
            return cls(names, methodcaller("get", expression.name), expression.name)
        return cls(names, compile_expression(expression), None)


@dataclass(frozen=True, slots=True, eq=False)
class Keep:
    """A predicate over a base row: 1 if it is true."""

    names: tuple[str, ...]
    of: Callable[[Row], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a view folds: `names` are the output columns of its sums and counts."""

    table: str
    key: tuple[str, ...]
    keeps: tuple[Keep, ...]
    keys: tuple[Computed, ...]
    grouped: bool
    names: tuple[str, ...] = ()
    arguments: tuple[Computed | None, ...] = ()  # of each name; None: count rows
    counts: tuple[bool, ...] = ()  # whether the name counts or adds
    scales: tuple[int, ...] = ()  # of each name: one is so many units; decimals are added up as whole units
    shown: tuple[tuple[str, Computed], ...] = ()  # columns of plain rows

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the base columns that say which view record a row belongs to."""
        return tuple(dict.fromkeys(name for key in self.keys for name in key.names))

    def kept(self, row: Row | None) -> bool:
        """Say whether a base row is in the view."""
        return row is not None and all(keep.of(row) for keep in self.keeps)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """Return the key of the view record a row belongs to."""
        return tuple(key.of(row) for key in self.keys)


def shape_of(view: ViewDefinition, tables: Mapping[str, BaseTable]) -> Shape | None:
    """Recognize a view, or leave it to the exact judge."""
    relation, above = view.relation, list[Expression]()
    while isinstance(relation, Select):
        above.append(relation.predicate)
        relation = relation.source
    outputs: dict[str, str] | None = None
    if isinstance(relation, Project) and isinstance(relation.source, Aggregate):
        folded = {a.name for a in relation.source.aggregates}
        outputs = {c.name: _column_of(c.expression, folded) for c in relation.columns}
        relation = relation.source
    if isinstance(relation, Aggregate):
        return _grouped(view, relation, outputs, above, tables)
    return _plain_rows(view, view.relation, tables)


def _column_of(expression: Expression, folded: set[str]) -> str:
    """Return the column that is shown; a fold may stand there as a bigint, which whole numbers of ordinary size are."""
    if isinstance(expression, Column):
        return expression.name
    if isinstance(expression, Call) and expression.function == "cast_bigint":
        (inner,) = expression.arguments
        if isinstance(inner, Column) and inner.name in folded:
            return inner.name
    return ""


def _plain_rows(view: ViewDefinition, relation: Relation, tables: Mapping[str, BaseTable]) -> Shape | None:
    resolved = _resolved(relation, tables)
    if resolved is None or resolved[1] is None:
        return None
    table, columns, keeps = resolved
    assert columns is not None
    shown = tuple((name, Computed.from_expression(e)) for name, e in columns.items())
    by_name = dict(shown)
    if not view.key or not set(view.key) <= by_name.keys():
        return None
    keys = tuple(by_name[name] for name in view.key)
    return Shape(table=table, key=view.key, keeps=tuple(keeps), keys=keys, grouped=False, shown=shown)


def _grouped(
    view: ViewDefinition,
    relation: Aggregate,
    outputs: dict[str, str] | None,
    above: list[Expression],
    tables: Mapping[str, BaseTable],
) -> Shape | None:
    """Recognize sums and counts; what is asked of groups `above` them is asked of their rows, if of their keys only."""
    names = {name: name if outputs is None else outputs.get(name, "") for name in view.key}
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
    of_group = {out: groups[inner] for out, inner in shown.items() if inner in groups}
    if not all(set(columns_of(predicate)) <= of_group.keys() for predicate in above):
        return None
    keeps = [*keeps, *(_keep(_through(_through(predicate, of_group), columns)) for predicate in above)]
    kinds = (AggregateFunction.COUNT, AggregateFunction.SUM)
    if any(a.distinct or a.function not in kinds for _, a in folded):
        return None
    arguments = [
        None if a.argument is None else Computed.from_expression(_through(a.argument, columns))
        for _, a in folded
    ]
    counts = [a.function is AggregateFunction.COUNT for _, a in folded]
    decimals = (
        {name for name, kind in tables[table].columns if kind == "decimal"} if table in tables else set()
    )
    return Shape(
        table=table,
        key=view.key,
        keeps=tuple(keeps),
        keys=tuple(Computed.from_expression(_through(groups[names[name]], columns)) for name in view.key),
        grouped=True,
        names=tuple(out for out, _ in folded),
        arguments=tuple(arguments),
        counts=tuple(counts),
        scales=tuple(
            DECIMAL_UNITS if argument is not None and argument.plain in decimals and not count else 1
            for argument, count in zip(arguments, counts, strict=True)
        ),
    )


Resolved = tuple[str, dict[str, Expression] | None, list[Keep]]


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
        return table, columns, [*keeps, _keep(_through(relation.predicate, columns))]
    return table, {c.name: _through(c.expression, columns) for c in relation.columns}, keeps


def _keep(predicate: Expression) -> Keep:
    holds = compile_predicate(predicate)
    return Keep(tuple(sorted(set(columns_of(predicate)))), lambda row: int(holds(row)))


def _through(expression: Expression, columns: dict[str, Expression] | None) -> Expression:
    """Replace columns by what they stand for; a scan's column loses its prefix."""
    if isinstance(expression, Column):
        if columns is None:
            return Column(expression.name.split(".", 1)[-1])
        return columns[expression.name]
    if isinstance(expression, Call):
        return Call(expression.function, tuple(_through(a, columns) for a in expression.arguments))
    return expression
