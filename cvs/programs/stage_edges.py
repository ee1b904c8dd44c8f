"""Edges: selection and projection on the way from a source into a stage, row by row, without state.

A row travels as a tuple in the order of its source's columns. An edge that only picks columns never builds a
dictionary; one that computes does, once a row.
"""

from collections.abc import Callable, Iterable

from cvs.model.expressions import (
    Column,
    Expression,
    Row,
    columns_of,
    compile_expression,
    compile_predicate,
)
from cvs.model.stages import Edge, Plan, Stage
from cvs.model.views import Named
from cvs.programs.stage_bag import Bag, Changes
from cvs.programs.stage_codec import Values, picking

RowMap = Callable[[Values], Values | None]
"""What an edge does to one row; None: not selected."""


def columns_of_sources(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the columns of every source of a plan, in the order in which rows carry them."""
    found = {base.name: tuple(name for name, _ in base.columns) for base in plan.bases}
    return found | {stage.name: output_columns(stage) for stage in plan.stages}


def output_columns(stage: Stage) -> tuple[str, ...]:
    """Return the columns a stage's rows have."""
    return tuple(name for name, _ in stage.output)


def compile_edge(edge: Edge, source_columns: tuple[str, ...]) -> RowMap:
    """Return the edge as a function from a source's row to a row of its port."""
    project = projection(edge.columns, source_columns)
    if edge.where is None:
        return project
    chosen, named = compile_predicate(edge.where), naming((edge.where,), source_columns)
    return lambda row: project(row) if chosen(named(row)) else None


def projection(columns: tuple[Named, ...], source_columns: tuple[str, ...]) -> Callable[[Values], Values]:
    """Return the columns of an edge as a function of a source's row."""
    expressions = [named.expression for named in columns]
    if all(isinstance(it, Column) and it.name in source_columns for it in expressions):
        places = [source_columns.index(it.name) for it in expressions if isinstance(it, Column)]
        if places == list(range(len(source_columns))):
            return same
        return picking(places)
    compiled, named = [compile_expression(it) for it in expressions], naming(expressions, source_columns)

    def compute(row: Values) -> Values:
        values = named(row)
        return tuple(expression(values) for expression in compiled)

    return compute


def naming(expressions: Iterable[Expression], source_columns: tuple[str, ...]) -> Callable[[Values], Row]:
    """Return what names the columns of a source's row that some expressions read."""
    read = {name for expression in expressions for name in columns_of(expression)}
    names = [name for name in source_columns if name in read]
    pick = picking([source_columns.index(name) for name in names])
    return lambda row: dict(zip(names, pick(row), strict=True))


def same(row: Values) -> Values:
    """Return the row."""
    return row


def through(edge: RowMap, changes: Changes, into: Bag) -> None:
    """Carry changes of a source over an edge into a bag."""
    if edge is same:
        into.extend(changes)
        return
    into.take(changes, edge)
