"""What the expressions of a view may read and compute: a column that is nowhere below is a mistake, not a null."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cvs.errors import SpecificationError
from cvs.model.expressions import Expression, columns_of, compile_expression
from cvs.model.views import (
    Aggregate,
    BaseTable,
    Distinct,
    Join,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    TopK,
    ViewDefinition,
)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Names of columns, and aliases of tables whose columns are not known: any may be there."""

    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def __add__(self, other: "_Scope") -> "_Scope":
        return _Scope(self.names + other.names, self.aliases + other.aliases)

    def require(self, names: Iterable[str]) -> None:
        """Refuse a column that is not there."""
        for name in names:
            if name not in self.names and not any(name.startswith(f"{alias}.") for alias in self.aliases):
                there = [*self.names, *(f"{alias}.COLUMN" for alias in self.aliases)]
                raise SpecificationError(
                    f"no column {name!r} is below", next_step=f"there are {', '.join(there)}"
                )

    def read(self, *expressions: Expression | None) -> None:
        """Refuse expressions that read a column that is not there, or that nobody can compute."""
        for expression in expressions:
            if expression is not None:
                compile_expression(expression)
                self.require(columns_of(expression))


def require_columns(view: ViewDefinition, tables: Mapping[str, BaseTable] | None = None) -> None:
    """Refuse a view that reads columns that nothing below has, or is keyed by one that it does not show."""
    try:
        _scope(view.relation, tables or {}).require(view.key)
    except SpecificationError as refusal:
        raise SpecificationError(
            refusal.what, where=f'view "{view.name}"', next_step=refusal.next_step
        ) from None


def tables_read(relation: Relation) -> frozenset[str]:
    """Return the tables that a relation reads."""
    match relation:
        case Scan():
            return frozenset((relation.table,))
        case Join() | SetOperation():
            return tables_read(relation.left) | tables_read(relation.right)
    return tables_read(relation.source)


def _scope(relation: Relation, tables: Mapping[str, BaseTable]) -> _Scope:
    match relation:
        case Scan():
            table = tables.get(relation.table)
            if table is None:
                return _Scope(aliases=(relation.alias,))
            return _Scope(tuple(f"{relation.alias}.{name}" for name, _ in table.columns))
        case Join():
            return _joined(relation, tables)
        case SetOperation():
            return _beside(relation, _scope(relation.left, tables), _scope(relation.right, tables))
    below = _scope(relation.source, tables)
    match relation:
        case Select():
            below.read(relation.predicate)
        case TopK():
            below.read(*(term.expression for term in relation.order))
        case Project():
            below.read(*(column.expression for column in relation.columns))
            return _Scope(tuple(column.name for column in relation.columns))
        case Aggregate():
            below.read(*(c.expression for c in relation.group), *(a.argument for a in relation.aggregates))
            return _Scope(tuple(c.name for c in relation.group) + tuple(a.name for a in relation.aggregates))
        case Distinct():
            pass
    return below


def _beside(relation: SetOperation, left: _Scope, right: _Scope) -> _Scope:
    if not left.aliases and not right.aliases and len(left.names) != len(right.names):
        what = f"the sides of a {relation.kind} have {len(left.names)} and {len(right.names)} columns"
        raise SpecificationError(what, next_step="columns are matched by position: give both as many")
    return left


def _joined(relation: Join, tables: Mapping[str, BaseTable]) -> _Scope:
    left, right = _scope(relation.left, tables), _scope(relation.right, tables)
    left.read(*(one for one, _ in relation.on))
    right.read(*(other for _, other in relation.on))
    (left + right).read(relation.residual)
    return left if relation.kind in ("semi", "anti", "null-aware-anti") else left + right
