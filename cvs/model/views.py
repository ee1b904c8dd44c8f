"""View definitions: a small algebra over base tables, and its plain, slow meaning.

Every relation has named output columns. A `Scan` prefixes its columns with its alias (`o.total`), so the
columns of a join never collide; a `Project` on top gives the names people see. Relations are bags; nulls
follow SQL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal as OneOf

from cvs.model.expressions import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTable:
    """A base table: its full name (`keyspace.table`), columns with CQL types, and its primary key."""

    name: str
    columns: tuple[tuple[str, str], ...]
    partition_key: tuple[str, ...]
    clustering_key: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Return the whole primary key, partition key first."""
        return self.partition_key + self.clustering_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An expression with the name of the column it makes."""

    name: str
    expression: Expression


class AggregateFunction(Enum):
    """The aggregate functions a view can keep."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    VARIANCE = "variance"
    STDDEV = "stddev"


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateColumn:
    """One aggregate of a group; no argument means COUNT(*)."""

    name: str
    function: AggregateFunction
    argument: Expression | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """All rows of a base table (or of another view); columns are named `alias.column`."""

    table: str
    alias: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """Rows for which the predicate is true (not false, not null)."""

    source: "Relation"
    predicate: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Computed columns; a bag: equal rows keep their multiplicity."""

    source: "Relation"
    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Each different row once."""

    source: "Relation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One row a group; with no group columns exactly one row, also of nothing."""

    source: "Relation"
    group: tuple[Named, ...]
    aggregates: tuple[AggregateColumn, ...]


JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti", "null-aware-anti"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Pairs whose `on` expressions are equal (null equals nothing) and for which `residual` is true.

    `semi` and `anti` keep left columns only; `null-aware-anti` is NOT IN. An empty `on` is a product, which
    is maintained only where one side has at most one row (a scalar subquery).
    """

    kind: JoinKind
    left: "Relation"
    right: "Relation"
    on: tuple[tuple[Expression, Expression], ...]
    residual: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation:
    """UNION, INTERSECT, EXCEPT, as sets or (`all`) as bags; columns by position, names of the left."""

    kind: OneOf["union", "intersect", "except"]
    all: bool
    left: "Relation"
    right: "Relation"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBy:
    """One term of an order."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The first `limit` rows after `offset` in a total order (ties broken by all columns)."""

    source: "Relation"
    order: tuple[OrderBy, ...]
    limit: int
    offset: int = 0


Relation = Scan | Select | Project | Distinct | Aggregate | Join | SetOperation | TopK


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    """A named relation and the columns that key its view records.

    `partition`: how many of them, the first, are the partition key of the view's table; 0: not known.
    """

    name: str
    relation: Relation
    key: tuple[str, ...]
    partition: int = 0


def output_columns(
    relation: Relation, tables: Mapping[str, BaseTable] | None = None
) -> tuple[str, ...] | None:
    """Return the names of a relation's columns; None if they hang on a table that `tables` does not know."""
    match relation:
        case Scan():
            table = (tables or {}).get(relation.table)
            return None if table is None else tuple(f"{relation.alias}.{name}" for name, _ in table.columns)
        case Project():
            return tuple(column.name for column in relation.columns)
        case Aggregate():
            groups = tuple(column.name for column in relation.group)
            return groups + tuple(column.name for column in relation.aggregates)
        case SetOperation():
            return output_columns(relation.left, tables)
        case Join():
            left, right = output_columns(relation.left, tables), output_columns(relation.right, tables)
            if left is None or relation.kind in ("semi", "anti", "null-aware-anti"):
                return left
            return None if right is None else left + right
        case Select() | Distinct() | TopK():
            return output_columns(relation.source, tables)
