"""The maintenance plan as data: what the planner makes and the epoch executes.

    base table --edge--> zone --edge--> zone --edge--> publication

A **source** is a base table (its rows have plain column names) or a stage (its output columns). What flows is
always changes of a bag: a row with a multiplicity, negative for rows that went. An **edge** selects and
projects them on the way, row by row and without state (paper 000 section 2.2 and 2.3: fused into the round
before). Several edges into one port are a UNION ALL. A **stage** keeps state keyed by its distribution
attribute; a **zone** is one or more stages with the same key that share one table, so that a bucket of it
takes one read and one test-and-set an epoch (PROTOCOL H6; paper 004, horizontal merging).

The law of every stage: the sum of all changes it ever emitted is its relation over the sum of all changes it
ever took. Changes of one epoch are combined per row before they go on; what nets to zero is not emitted.
"""

from dataclasses import dataclass
from typing import Literal as OneOf

from cvs.model.expressions import Expression, columns_of
from cvs.model.views import AggregateColumn, BaseTable, Named, OrderBy

Typed = tuple[tuple[str, str], ...]
"""Columns with their CQL types, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Rows of `source` for which `where` is true (None: all), as `columns` computed from them."""

    source: str
    columns: tuple[Named, ...]
    where: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateStage:
    """One output row a group; arguments of the aggregates are always plain input columns.

    With `group` empty there is exactly one row, also of nothing: the first epoch of an incarnation runs such
    a stage even without input and emits that row (COUNT 0, the others null). Otherwise a group without rows
    has no output row, so a row count is always part of the state, whatever the aggregates are.
    """

    name: str
    inputs: tuple[Edge, ...]
    group: tuple[str, ...]
    aggregates: tuple[AggregateColumn, ...]
    output: Typed

    @property
    def key(self) -> tuple[str, ...]:
        """Return the input columns whose values choose the bucket."""
        return self.group


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStage:
    """Reverse-join: rows of both sides under the join value, matched or not (paper 000 section 2.5).

    `left_key` and `right_key` pair up by position; null equals nothing, yet a left row with a null key still
    is a row of a left, full or anti join. `residual` sees the columns of both sides, whose names never
    collide. `replicated`: every right row is kept in *every* bucket and left rows are spread over buckets by
    all their columns, for small right sides and for products (`left_key` may then be empty).
    """

    name: str
    kind: OneOf["inner", "left", "right", "full", "semi", "anti"]
    left: tuple[Edge, ...]
    right: tuple[Edge, ...]
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    output: Typed
    residual: Expression | None = None
    replicated: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """Return the left columns whose values choose the bucket."""
        return tuple(c.name for c in self.left[0].columns) if self.replicated else self.left_key


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctStage:
    """Each different row once, however often it came in; UNION is this over several edges."""

    name: str
    inputs: tuple[Edge, ...]
    output: Typed

    @property
    def key(self) -> tuple[str, ...]:
        """Return all columns: equal rows meet in one bucket."""
        return tuple(name for name, _ in self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStage:
    """INTERSECT or EXCEPT, as sets or (`all`) as bags; both sides have the same column names."""

    name: str
    kind: OneOf["intersect", "except"]
    all: bool
    left: tuple[Edge, ...]
    right: tuple[Edge, ...]
    output: Typed

    @property
    def key(self) -> tuple[str, ...]:
        """Return all columns: equal rows meet in one bucket."""
        return tuple(name for name, _ in self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKStage:
    """The first `limit` rows after `offset`, ties broken by all columns; one bucket holds all rows."""

    name: str
    inputs: tuple[Edge, ...]
    order: tuple[OrderBy, ...]
    limit: int
    offset: int
    output: Typed

    @property
    def key(self) -> tuple[str, ...]:
        """Return no columns: a total order needs all rows in one place."""
        return ()


Stage = AggregateStage | JoinStage | DistinctStage | SetStage | TopKStage


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """Stages, in order, over one state table keyed the same: one read and one test-and-set a bucket an epoch.

    A later stage of a zone may take the changes of an earlier one; they stay in the bucket.
    """

    name: str
    stages: tuple[Stage, ...]
    buckets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One published table: exactly `columns`, keyed by `partition_key` + `clustering` (name, descending).

    The key is unique over the rows of `inputs` by the planner's proof, so of one key at most one row goes
    and at most one comes in an epoch.
    """

    view: str
    table: str
    inputs: tuple[Edge, ...]
    columns: Typed
    partition_key: tuple[str, ...]
    clustering: tuple[tuple[str, bool], ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Return the whole primary key."""
        return self.partition_key + tuple(name for name, _ in self.clustering)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Base tables (each with one DELTA), zones in an order in which inputs come first, publications."""

    bases: tuple[BaseTable, ...]
    zones: tuple[Zone, ...]
    publications: tuple[Publication, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Return all stages in order."""
        return tuple(stage for zone in self.zones for stage in zone.stages)


def inputs(stage: Stage) -> tuple[Edge, ...]:
    """Return every edge that enters a stage, left side first."""
    if isinstance(stage, JoinStage | SetStage):
        return stage.left + stage.right
    return stage.inputs


def columns_read(plan: Plan) -> dict[str, frozenset[str]]:
    """Name the columns of each base table that leave it over some edge: what its rows must hold for this plan."""
    found: dict[str, set[str]] = {base.name: set() for base in plan.bases}
    edges = [edge for stage in plan.stages for edge in inputs(stage)]
    edges += [edge for publication in plan.publications for edge in publication.inputs]
    for edge in edges:
        if edge.source in found:
            where = () if edge.where is None else (edge.where,)
            for expression in (*(column.expression for column in edge.columns), *where):
                found[edge.source].update(columns_of(expression))
    return {name: frozenset(columns) for name, columns in found.items()}
