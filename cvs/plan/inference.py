"""The CQL type of an expression over typed columns, for state and published columns of any relation."""

from collections.abc import Callable, Mapping

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import AggregateColumn, AggregateFunction
from cvs.plan.constants import integer_type
from cvs.plan.types import FLOATS, INTEGERS, NULL, arithmetic, common

Types = Callable[[str], str]

_BOOLEAN = frozenset(
    ["=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "in", "between", "is_null", "is_not_null",
     "like", "starts_with", "ends_with", "contains"]
)  # fmt: skip
_TEXT = frozenset(
    ["concat", "upper", "lower", "trim", "ltrim", "rtrim", "substring", "left", "right", "replace"]
)
_INT = frozenset(
    ["length", "position", "year", "quarter", "month", "day", "day_of_week", "day_of_year", "hour", "minute",
     "second", "days_between"]
)  # fmt: skip
_FIRST = frozenset(["negate", "abs", "round", "nullif", "add_days", "add_months"])
_CHOICE = frozenset(["coalesce", "greatest", "least"])


def type_of(expression: Expression, types: Types) -> str:
    """Return the type of an expression."""
    if isinstance(expression, Column):
        return types(expression.name)
    if isinstance(expression, Literal):
        return _literal(expression.value)
    return _call(expression, types)


def _call(call: Call, types: Types) -> str:
    name = call.function
    if name in _BOOLEAN:
        return "boolean"
    if name in _TEXT:
        return "text"
    if name in _INT:
        return "int"
    if name.startswith("cast_"):
        return name.removeprefix("cast_")
    kinds = [type_of(argument, types) for argument in call.arguments]
    if name in _FIRST:
        return kinds[0]
    if name in _CHOICE:
        return common(kinds) or kinds[0]
    if name == "case":
        values = [*kinds[1::2], *(kinds[-1:] if len(kinds) % 2 else [])]
        return common(values) or values[0]
    if name in ("floor", "ceil"):
        return "decimal" if kinds[0] == "decimal" else "bigint"
    if name == "date_trunc":
        return "timestamp"
    return arithmetic(name, kinds[0], kinds[-1]) or "blob"


_PYTHON_TYPES: Mapping[str, str] = {
    "bool": "boolean",
    "float": "double",
    "Decimal": "decimal",
    "str": "text",
    "bytes": "blob",
    "date": "date",
    "datetime": "timestamp",
    "UUID": "uuid",
    "IPv4Address": "inet",
    "IPv6Address": "inet",
}


def _literal(value: object) -> str:
    if value is None:
        return NULL
    if type(value) is int:
        return integer_type(value)
    return _PYTHON_TYPES.get(type(value).__name__, "blob")


def aggregate_type(function: AggregateFunction, kind: str) -> str:
    """Return the type of an aggregate over values of a type."""
    if function is AggregateFunction.COUNT:
        return "bigint"
    if function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return kind
    if function is AggregateFunction.SUM and kind not in FLOATS:
        return "bigint" if kind in INTEGERS and kind != "varint" else kind
    return "decimal" if function is AggregateFunction.AVG and kind == "decimal" else "double"


def aggregate_of(column: AggregateColumn, types: Types) -> str:
    """Return the type of an aggregate column."""
    return aggregate_type(column.function, type_of(column.argument, types) if column.argument else "bigint")
