"""Constants: folded when all arguments are known, and brought to the type of what they meet."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from sqlglot import exp

from cvs.errors import CvsError
from cvs.model.expressions import Call, Expression, Literal, compile_expression
from cvs.plan.refusal import refused
from cvs.plan.types import FLOATS, INTEGERS, family


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and the CQL type of its value."""

    expression: Expression
    type: str


TRUE = Typed(Literal(True), "boolean")


def integer_type(value: int) -> str:
    """Return the smallest of int, bigint and varint that holds a constant."""
    if -(2**31) <= value < 2**31:
        return "int"
    return "bigint" if -(2**63) <= value < 2**63 else "varint"


def decimal_literal(text: str) -> Typed:
    """Return a constant with a decimal point, exactly."""
    return Typed(Literal(Decimal(text)), "decimal")


def is_null(expression: Expression) -> Expression:
    """Return the test for null."""
    return Call("is_null", (expression,))


def folded(typed: Typed) -> Typed:
    """Return the value instead of a call whose arguments are all constants."""
    call = typed.expression
    if not isinstance(call, Call) or not all(isinstance(a, Literal) for a in call.arguments):
        return typed
    try:
        return Typed(Literal(compile_expression(call)({})), typed.type)
    except (CvsError, ArithmeticError, ValueError):
        return typed  # because the error belongs to the run: a branch of CASE may never be taken


def fitting(typed: Typed) -> Typed:
    """Return a computed value within its type: integers beyond 64 bits are null, as casts are; floats have 32 bits."""
    if typed.type not in ("bigint", "float"):
        return typed
    return folded(Typed(Call(f"cast_{typed.type}", (typed.expression,)), typed.type))


def meeting(node: exp.Expr, value: Typed, other: Typed) -> Typed:
    """Return a value as it is compared with another: constants in the type of what they meet."""
    if (value.type, other.type) == ("date", "timestamp"):  # the beginning of the day, as in Spark
        return folded(Typed(Call("cast_timestamp", (value.expression,)), "timestamp"))
    if value.type == "decimal" and other.type in FLOATS:  # as in Spark: 0.1 is not exactly the double 0.1
        return as_type(value, "double")
    if not isinstance(value.expression, Literal) or value.expression.value is None:
        return value
    if value.type == other.type or family(other.type) == "null":
        return value
    if value.type == "text" and other.type in _FROM_TEXT:
        return literal_as(node, value, other.type)
    return as_type(value, other.type) if other.type in FLOATS else value


def as_type(value: Typed, wanted: str) -> Typed:
    """Return a value in a wider type of its family; only numbers of different kinds need a step."""
    if value.type == wanted or family(wanted) != "number" or family(value.type) != "number":
        return value
    if _kind(value.type) == _kind(wanted):
        return value
    if isinstance(value.expression, Literal):
        return Typed(Literal(_NUMBERS[_kind(wanted)](value.expression.value)), wanted)
    return Typed(Call(f"cast_{wanted}", (value.expression,)), wanted)


def castable(left: str, right: str) -> str:
    """Say what makes two types that do not compare meet."""
    for wanted, other in ((left, right), (right, left)):
        if wanted in _EXAMPLES and family(other) == "number":
            return f"write the {wanted} as {_EXAMPLES[wanted]}"
    for wanted, other in ((left, right), (right, left)):
        if family(wanted) == "text" and family(other) in ("number", "boolean"):
            return f"CAST(... AS {other.upper()}), or write the constant as a text: '...'"
    return "cast one side"


def literal_as(node: exp.Expr, value: Typed, wanted: str) -> Typed:
    """Return a constant converted to another type, or refuse it where it stands."""
    assert isinstance(value.expression, Literal)
    raw = value.expression.value
    if raw is None:
        return Typed(Literal(None), wanted)
    try:
        if value.type == "text":
            return Typed(Literal(_FROM_TEXT[wanted](raw) if wanted in _FROM_TEXT else raw), wanted)
        if family(wanted) == "number":
            return Typed(Literal(_NUMBERS[_kind(wanted)](raw)), wanted)
        if family(wanted) == "text":
            return Typed(Literal(str(raw)), wanted)
        if wanted == "timestamp" and isinstance(raw, date):
            return Typed(Literal(datetime(raw.year, raw.month, raw.day, tzinfo=UTC)), wanted)
    except (ValueError, InvalidOperation, KeyError):
        pass
    raise refused(node, f"{raw!r} is no {wanted}", f"write it as {_EXAMPLES.get(wanted, 'a ' + wanted)}")


def _nanoseconds(text: str) -> int:
    """Times of day are nanoseconds since midnight, as Cassandra keeps them."""
    clock, _, fraction = text.partition(".")
    moment = time.fromisoformat(clock)
    whole = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return whole * 10**9 + int(f"{fraction:0<9}"[:9] or 0)


def _timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _number(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        if not _DIGITS.fullmatch(text.strip()):  # Python would take 1_000, and a decimal that is no number
            raise ValueError(text)
        return kind(text)

    return number


_DIGITS = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "date": date.fromisoformat,
    "timestamp": _timestamp,
    "time": _nanoseconds,
    "uuid": UUID,
    "timeuuid": UUID,
    "inet": ip_address,
    "decimal": _number(Decimal),
    **dict.fromkeys(INTEGERS, _number(int)),
    **dict.fromkeys(FLOATS, float),
}

_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "integer": int,
    "decimal": lambda value: Decimal(repr(value)) if isinstance(value, float) else Decimal(value),
    "float": float,
}

_EXAMPLES = {"date": "'2026-01-31'", "timestamp": "'2026-01-31 12:00:00'", "uuid": "a uuid in quotes"}


def _kind(cql_type: str) -> str:
    if cql_type in FLOATS:
        return "float"
    return "decimal" if cql_type == "decimal" else "integer"
