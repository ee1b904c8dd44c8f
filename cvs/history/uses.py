"""Which columns a view computes with, and which it only shows, groups by, joins on or compares for equality.

The latter may be replaced by any other values that keep equality (`redact.py`), and the view means the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from cvs.model.expressions import Call, Column, Expression, Literal, columns_of
from cvs.model.views import (
    Aggregate,
    AggregateFunction,
    BaseTable,
    Distinct,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    TopK,
    ViewDefinition,
    output_columns,
)

Owner = tuple[str, str]
"""A column: of which table or view, and its name there."""

_CONNECTIVES = frozenset({"and", "or", "not"})
_EQUALITIES = frozenset({"=", "<>", "<=>", "in", "is_null", "is_not_null"})


@dataclass(slots=True)
class Uses:
    """What several views do with columns; names inside a view are made apart by the view's own."""

    tables: Mapping[str, BaseTable]
    kept: set[Owner] = field(default_factory=set)
    links: list[tuple[Owner, Owner]] = field(default_factory=list)

    def of_view(self, view: ViewDefinition) -> None:
        """Look at one view; its output columns belong to it under their own names."""
        self._relation(view.name + "/", view.relation)
        for name in output_columns(view.relation, self.tables) or ():
            self.links.append(((view.name + "/", name), (view.name, name)))

    def close(self) -> None:
        """Keep what is equal to something kept: values on both sides of an equality must stay alike."""
        neighbours: dict[Owner, list[Owner]] = {}
        for one, other in self.links:
            neighbours.setdefault(one, []).append(other)
            neighbours.setdefault(other, []).append(one)
        waiting = list(self.kept)
        while waiting:
            for neighbour in neighbours.get(waiting.pop(), ()):
                if neighbour not in self.kept:
                    self.kept.add(neighbour)
                    waiting.append(neighbour)

    def _keep(self, scope: str, expression: Expression) -> None:
        self.kept.update((scope, name) for name in columns_of(expression))

    def _relation(self, scope: str, relation: Relation) -> None:
        for source in _sources(relation):
            self._relation(scope, source)
        match relation:
            case Scan():
                for name, kind in self.tables[relation.table].columns:
                    self.links.append(((scope, f"{relation.alias}.{name}"), (relation.table, name)))
                    if kind == "boolean":  # because two values hide nothing
                        self.kept.add((relation.table, name))
            case Select():
                self._condition(scope, relation.predicate)
            case Project():
                self._shown(scope, relation.columns)
            case Aggregate():
                self._shown(scope, relation.group)
                self._aggregated(scope, relation)
            case Join():
                self._joined(scope, relation)
            case SetOperation():
                sides = [output_columns(s, self.tables) or () for s in (relation.left, relation.right)]
                self.links.extend(((scope, a), (scope, b)) for a, b in zip(*sides, strict=True))
            case TopK():  # because ties are broken by all columns
                self.kept.update((scope, n) for n in output_columns(relation.source, self.tables) or ())
                for term in relation.order:
                    self._keep(scope, term.expression)
            case Distinct():
                pass
            case _:
                assert_never(relation)

    def _shown(self, scope: str, columns: Iterable[Named]) -> None:
        for column in columns:
            if isinstance(column.expression, Column):
                self.links.append(((scope, column.name), (scope, column.expression.name)))
            else:
                self.kept.add((scope, column.name))
                self._keep(scope, column.expression)

    def _aggregated(self, scope: str, relation: Aggregate) -> None:
        for column in relation.aggregates:
            self.kept.add((scope, column.name))
            counted = column.function is AggregateFunction.COUNT and isinstance(column.argument, Column)
            if column.argument is not None and not counted:
                self._keep(scope, column.argument)

    def _joined(self, scope: str, join: Join) -> None:
        for mine, other in join.on:
            self._condition(scope, Call("=", (mine, other)))
        if join.residual is not None:
            self._condition(scope, join.residual)

    def _condition(self, scope: str, condition: Expression) -> None:
        if isinstance(condition, Call) and condition.function in _CONNECTIVES:
            for part in condition.arguments:
                self._condition(scope, part)
        elif _is_equality(condition):
            columns = list(columns_of(condition))
            self.links.extend(((scope, columns[0]), (scope, other)) for other in columns[1:])
        else:
            self._keep(scope, condition)


def _sources(relation: Relation) -> Iterator[Relation]:
    if isinstance(relation, Join | SetOperation):
        yield relation.left
        yield relation.right
    elif not isinstance(relation, Scan):
        yield relation.source


def _is_equality(condition: Expression) -> bool:
    """Say whether a condition only compares columns and constants for equality."""
    return (
        isinstance(condition, Call)
        and condition.function in _EQUALITIES
        and not any(isinstance(argument, Call) for argument in condition.arguments)
        and any(isinstance(argument, Column) for argument in condition.arguments)
    )


def with_constants(view: ViewDefinition, kept: set[Owner], hide: Any) -> ViewDefinition:
    """Return the view with the constants hidden that are compared with hidden columns."""
    return replace(view, relation=_rebuilt(view.relation, view.name + "/", kept, hide))


def _rebuilt(relation: Relation, scope: str, kept: set[Owner], hide: Any) -> Any:
    def of(inner: Relation) -> Any:
        return _rebuilt(inner, scope, kept, hide)

    def condition(tree: Expression) -> Expression:
        return _hidden(tree, scope, kept, hide)

    if isinstance(relation, Scan):
        return relation
    if isinstance(relation, Join):
        residual = None if relation.residual is None else condition(relation.residual)
        on = tuple((_side(a, b, scope, kept, hide), _side(b, a, scope, kept, hide)) for a, b in relation.on)
        return replace(relation, left=of(relation.left), right=of(relation.right), on=on, residual=residual)
    if isinstance(relation, SetOperation):
        return replace(relation, left=of(relation.left), right=of(relation.right))
    if isinstance(relation, Select):
        return replace(relation, source=of(relation.source), predicate=condition(relation.predicate))
    return replace(relation, source=of(relation.source))


def _side(own: Expression, other: Expression, scope: str, kept: set[Owner], hide: Any) -> Expression:
    """Return one side of an equality as it is when its constants are hidden."""
    pair = _hidden(Call("=", (own, other)), scope, kept, hide)
    return pair.arguments[0] if isinstance(pair, Call) else own


def _hidden(tree: Expression, scope: str, kept: set[Owner], hide: Any) -> Expression:
    if isinstance(tree, Call) and tree.function in _CONNECTIVES:
        return Call(tree.function, tuple(_hidden(part, scope, kept, hide) for part in tree.arguments))
    if not isinstance(tree, Call) or not _is_equality(tree):
        return tree
    if any((scope, name) in kept for name in columns_of(tree)):
        return tree
    arguments = (Literal(hide(a.value)) if isinstance(a, Literal) else a for a in tree.arguments)
    return Call(tree.function, tuple(arguments))
