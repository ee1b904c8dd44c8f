"""Expressions and stages in words people read; only `explain` uses it, nothing parses it back."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from types import MappingProxyType

from cvs.model.expressions import Column, Expression, Literal
from cvs.model.stages import (
    AggregateStage,
    DistinctStage,
    JoinStage,
    Plan,
    SetStage,
    Stage,
    TopKStage,
    inputs,
)
from cvs.model.views import AggregateColumn

_INFIX = frozenset(["=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or", "like"])


def expression_words(expression: Expression, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return an expression as one reads it; `names` says what its columns mean."""
    if isinstance(expression, Column):
        return names.get(expression.name, expression.name)
    if isinstance(expression, Literal):
        return _value(expression.value)
    parts = [expression_words(a, names) for a in expression.arguments]
    name = expression.function
    if name in _INFIX:
        word = f" {name.upper()} " if name.isalpha() else f" {name} "
        return "(" + word.join(parts) + ")"
    if name in ("is_null", "is_not_null"):
        return f"{parts[0]} {name.replace('_', ' ').upper()}"
    if name == "in":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    if name.startswith("cast_"):
        return f"cast({parts[0]} as {name.removeprefix('cast_')})"
    return f"{name}({', '.join(parts)})"


def _value(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str | date | datetime):
        return f"'{value}'"
    return str(value)


Names = Mapping[str, str]


def stage_words(stage: Stage, names: Names) -> str:
    """Return what a stage does, in one line; `names` says what its columns mean."""

    def listed(columns: Iterable[str]) -> str:
        return ", ".join(names.get(c, c) for c in columns)

    match stage:
        case AggregateStage():
            kept = ", ".join(aggregate_words(a, names) for a in stage.aggregates) or "its rows once"
            return f"aggregate by {listed(stage.group) or 'nothing: one row'}: {kept}"
        case JoinStage():
            keys = zip(stage.left_key, stage.right_key, strict=True)
            pairs = " and ".join(f"{names.get(a, a)} = {names.get(b, b)}" for a, b in keys)
            rest = f", where {expression_words(stage.residual, names)}" if stage.residual is not None else ""
            how = " (right side in every bucket)" if stage.replicated else ""
            return f"{stage.kind} join on {pairs or 'nothing: a product with one row'}{rest}{how}"
        case DistinctStage():
            return f"each different ({listed(name for name, _ in stage.output)}) once"
        case SetStage():
            return f"{stage.kind}{' all' if stage.all else ''}"
        case TopKStage():
            terms = ((o, expression_words(o.expression, names)) for o in stage.order)
            order = ", ".join(words + (" desc" if o.descending else "") for o, words in terms)
            after = f" after {stage.offset}" if stage.offset else ""
            return f"first {stage.limit}{after} by {order}"


def aggregate_words(column: AggregateColumn, names: Names) -> str:
    """Return an aggregate as one reads it."""
    argument = "*" if column.argument is None else expression_words(column.argument, names)
    return f"{column.function.value}({'distinct ' if column.distinct else ''}{argument})"


def meanings(plan: Plan) -> dict[str, dict[str, str]]:
    """Return, for each stage, what its columns mean: base columns, from a join on with the name of their table."""
    found: dict[str, dict[str, str]] = {}
    told = {base.name: {n: f"{base.name.split('.')[-1]}.{n}" for n, _ in base.columns} for base in plan.bases}
    for stage in plan.stages:
        own: dict[str, str] = {}
        for edge in inputs(stage):
            below = found.get(edge.source, told.get(edge.source, {}) if isinstance(stage, JoinStage) else {})
            for column in edge.columns:
                own.setdefault(column.name, expression_words(column.expression, below))
        for name, column in ((a.name, a) for a in getattr(stage, "aggregates", ())):
            own[name] = aggregate_words(column, own)
        found[stage.name] = own
    return found


PROGRAMS = {
    AggregateStage: "stage_aggregate",
    JoinStage: "stage_join",
    DistinctStage: "stage_sets",
    SetStage: "stage_sets",
    TopKStage: "stage_sets",
}
"""Which module of `cvs.programs` runs a kind of stage."""
