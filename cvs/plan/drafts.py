"""Stages in the making. A draft is found again by what it computes, so equal sub-plans of any views are one.

What a stage must know to exist (inputs, conditions, keys) is its identity; what it merely carries (payload
columns of a join, aggregates of a group) is added when somebody asks for it. So two views over the same join
share its state though they select different columns, and all aggregates of one group live in one record
(paper 004: equal expressions with equal derivation; horizontal merging of a zone).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from cvs.model.expressions import Call, Column, Expression
from cvs.model.stages import (
    AggregateStage,
    DistinctStage,
    Edge,
    JoinStage,
    SetStage,
    Stage,
    TopKStage,
)
from cvs.model.views import AggregateColumn, AggregateFunction, BaseTable, Named, OrderBy
from cvs.plan.inference import aggregate_of, type_of
from cvs.plan.scope import columns_of

Resolve = Callable[[str], Expression]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Rows of one source that pass `where`; `resolve` gives a column as an expression over the source."""

    source: "BaseTable | Draft"
    where: tuple[Expression, ...]
    resolve: Resolve


Flow = tuple[Branch, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Port:
    """One side of a draft: its branches and the columns that enter, each by its expression in every branch."""

    flow: Flow
    prefix: str
    columns: dict[tuple[Expression, ...], str] = field(default_factory=dict)

    def demand(self, expressions: tuple[Expression, ...]) -> str:
        """Return the name under which these expressions (one a branch) enter; equal ones enter once."""
        name = self.columns.get(expressions)
        if name is None:
            name = f"{self.prefix}{len(self.columns)}"
            self.columns[expressions] = name
        return name

    def over_sources(self, expression: Expression) -> tuple[Expression, ...]:
        """Return an expression over the flow's columns as what it is over each branch's source."""
        return tuple(resolved(expression, branch.resolve) for branch in self.flow)

    def column(self, name: str) -> str:
        """Return the entering name of a column of the flow."""
        return self.expression(Column(name))

    def expression(self, expression: Expression) -> str:
        """Return the entering name of an expression over the flow's columns."""
        return self.demand(self.over_sources(expression))

    def type(self, name: str) -> str:
        """Return the type of an entering column."""
        (expressions,) = [e for e, n in self.columns.items() if n == name]
        branch, expression = self.flow[0], expressions[0]
        return type_of(expression, source_types(branch.source))

    def edges(self) -> tuple[Edge, ...]:
        """Return the port as edges of the plan."""
        found: list[Edge] = []
        for index, branch in enumerate(self.flow):
            columns = tuple(Named(name=name, expression=e[index]) for e, name in self.columns.items())
            found.append(Edge(source=branch.source.name, columns=columns, where=_all(branch.where)))
        return tuple(found)

    def identity(self) -> tuple[Any, ...]:
        """Return what makes two ports the same: sources and conditions, in order."""
        return tuple((branch.source.name, branch.where) for branch in self.flow)


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """A stage in the making: kind, ports, and what is fixed about it."""

    name: str
    kind: OneOf["aggregate", "join", "distinct", "set", "top-k"]
    ports: tuple[Port, ...]
    key: tuple[str, ...] = ()
    right_key: tuple[str, ...] = ()
    join: OneOf["inner", "left", "right", "full", "semi", "anti"] = "inner"
    residual: Expression | None = None
    replicated: bool = False
    aggregates: dict[tuple[Any, ...], AggregateColumn] = field(default_factory=dict)
    set_kind: OneOf["intersect", "except"] = "intersect"
    all: bool = False
    order: tuple[OrderBy, ...] = ()
    limit: int = 0
    offset: int = 0
    shape: str = ""
    told: dict[str, Column] = field(default_factory=dict)  # columns in terms of base tables, by name

    def aggregate(self, column: AggregateColumn, asking: Port) -> str:
        """Return the output name of an aggregate; equal ones are kept once.

        The argument is read through the port of who asks: its column names are not those of the first asker.
        """
        (port,) = self.ports
        argument = None if column.argument is None else port.demand(asking.over_sources(column.argument))
        identity = (column.function, argument, column.distinct)
        if identity not in self.aggregates:
            self.aggregates[identity] = AggregateColumn(
                name=f"{_SHORT[column.function]}{len(self.aggregates)}",
                function=column.function,
                argument=None if argument is None else Column(argument),
                distinct=column.distinct,
            )
        return self.aggregates[identity].name

    def output_type(self, name: str) -> str:
        """Return the type of an output column."""
        for kept in self.aggregates.values():
            if kept.name == name:
                return aggregate_of(kept, self.ports[0].type)
        for port in self.ports:
            if name in port.columns.values():
                return port.type(name)
        raise AssertionError(f"{self.name} has no column {name}")

    def output(self) -> tuple[str, ...]:
        """Return the output columns as they are demanded so far."""
        if self.kind == "aggregate":
            return self.key + tuple(a.name for a in self.aggregates.values())
        if self.kind == "join" and self.join not in ("semi", "anti"):
            return tuple(name for port in self.ports for name in port.columns.values())
        return tuple(self.ports[0].columns.values())

    def stage(self) -> Stage:
        """Return the finished stage."""
        output = tuple((name, self.output_type(name)) for name in self.output())
        first = self.ports[0].edges()
        if self.kind == "aggregate":
            return AggregateStage(
                name=self.name,
                inputs=first,
                group=self.key,
                aggregates=tuple(self.aggregates.values()),
                output=output,
            )
        if self.kind == "distinct":
            return DistinctStage(name=self.name, inputs=first, output=output)
        if self.kind == "top-k":
            return TopKStage(
                name=self.name,
                inputs=first,
                order=self.order,
                limit=self.limit,
                offset=self.offset,
                output=output,
            )
        second = self.ports[1].edges()
        if self.kind == "set":
            return SetStage(
                name=self.name, kind=self.set_kind, all=self.all, left=first, right=second, output=output
            )
        return JoinStage(
            name=self.name,
            kind=self.join,
            left=first,
            right=second,
            left_key=self.key,
            right_key=self.right_key,
            residual=self.residual,
            replicated=self.replicated,
            output=output,
        )


_SHORT = {function: function.value + "_" for function in AggregateFunction}


def resolved(expression: Expression, resolve: Resolve) -> Expression:
    """Return an expression with every column replaced by what it is over the source."""
    if isinstance(expression, Column):
        return resolve(expression.name)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(resolved(a, resolve) for a in expression.arguments))
    return expression


def source_types(source: BaseTable | Draft) -> Callable[[str], str]:
    """Return how to look up the type of a source's column."""
    return dict(source.columns).__getitem__ if isinstance(source, BaseTable) else source.output_type


def conjoined(where: tuple[Expression, ...], more: list[Expression]) -> tuple[Expression, ...]:
    """Return conditions as a set in a fixed order, so that equal selections are found equal."""
    return tuple(sorted({*where, *more}, key=repr))


def _all(where: tuple[Expression, ...]) -> Expression | None:
    if not where:
        return None
    return where[0] if len(where) == 1 else Call("and", where)


def reads(expression: Expression) -> tuple[str, ...]:
    """Return the columns an expression reads, in a fixed order."""
    return tuple(sorted(columns_of(expression)))
