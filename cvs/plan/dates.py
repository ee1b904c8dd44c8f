"""Dates and timestamps in SQL: their parts, their beginnings, days between them, and days or months added."""

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from cvs.model.expressions import Call, Literal
from cvs.plan.constants import Typed
from cvs.plan.refusal import refused, shown

DATED = ("date", "timestamp")
PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "day_of_week",
    exp.DayOfYear: "day_of_year",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_OF_CLOCKS = ("hour", "minute", "second")
_EXTRACTED = {
    **{name: name for name in ("year", "quarter", "month", "day", "hour", "minute")},
    **dict.fromkeys(("dow", "dayofweek"), "day_of_week"),
    **dict.fromkeys(("doy", "dayofyear"), "day_of_year"),
}
"""Without SECOND: Spark extracts a decimal there, and SECOND(x) is whole."""
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


class Translator(Protocol):
    """What these functions need of the translator of scalars."""

    def translate(self, node: exp.Expr) -> Typed:
        """Translate an argument."""
        ...

    def whole(self, node: exp.Expr, name: str) -> Typed:
        """Translate an argument that must be a whole number."""
        ...


def part(scalars: Translator, node: exp.Expr) -> Typed:
    """Translate EXTRACT, YEAR, MONTH, HOUR and the like."""
    if isinstance(node, exp.Extract):
        name, inner = _EXTRACTED.get(str(node.this.name).lower(), ""), node.expression
    else:
        name, inner = PARTS[type(node)], node.this
    value = scalars.translate(inner.this if isinstance(inner, exp.TsOrDsToDate) else inner)
    if not name or value.type not in (DATED[1:] if name in _OF_CLOCKS else DATED):
        raise refused(
            node,
            f"`{shown(node)}` takes no such part of {value.type}",
            "YEAR, QUARTER, MONTH, DAY, DAYOFWEEK, DAYOFYEAR of a date; HOUR, MINUTE, SECOND of a timestamp",
        )
    return Typed(Call(name, (value.expression,)), "int")


def beginning(scalars: Translator, node: exp.TimestampTrunc) -> Typed:
    """Translate DATE_TRUNC('month', x): a timestamp, as in Spark."""
    unit, value = str(node.args["unit"].name).lower(), dated(scalars, node.this)
    if unit not in _UNITS:
        raise refused(node, f"`{shown(node)}` has no such unit", f"one of {', '.join(_UNITS)}")
    return Typed(Call("date_trunc", (Literal(unit), value.expression)), "timestamp")


def difference(scalars: Translator, node: exp.DateDiff) -> Typed:
    """Translate DATEDIFF(end, start): days."""
    end, start = (dated(scalars, it) for it in (node.this, node.expression))
    return Typed(Call("days_between", (end.expression, start.expression)), "int")


def day(scalars: Translator, node: exp.TsOrDsToDate) -> Typed:
    """Translate TO_DATE and what Spark takes for a date silently."""
    value = scalars.translate(node.this)
    if value.type not in (*DATED, "text", "null"):
        raise refused(node, f"{value.type} is no date", "a date, a timestamp or a text")
    return value if value.type == "date" else Typed(Call("cast_date", (value.expression,)), "date")


def later(scalars: Translator, node: exp.TsOrDsAdd | exp.AddMonths) -> Typed:
    """Translate DATE_ADD, DATE_SUB and ADD_MONTHS: a date, also of a timestamp, as in Spark."""
    name = "add_months" if isinstance(node, exp.AddMonths) else "add_days"
    start, count = day(scalars, exp.TsOrDsToDate(this=node.this)), scalars.whole(node.expression, shown(node))
    return Typed(Call(name, (start.expression, count.expression)), "date")


def dated(scalars: Translator, node: exp.Expr) -> Typed:
    """Translate an argument that must be a date or a timestamp."""
    inner = node.this if isinstance(node, exp.TsOrDsToDate) else node
    value = scalars.translate(inner)
    if value.type not in DATED:
        instead = "CAST(x AS date)" if value.type == "text" else "store the date in a column of its own"
        raise refused(node, f"`{shown(inner)}` is {value.type}, not a date or timestamp", instead)
    return value


def moved(node: exp.Expr, value: Typed, interval: exp.Interval, sign: int) -> Typed:
    """Translate `x + INTERVAL '3' MONTH`."""
    unit = str(interval.unit.name if interval.unit is not None else "").upper().rstrip("S")
    amount = interval.this
    if value.type not in DATED or unit not in ("DAY", "WEEK", "MONTH", "YEAR"):
        raise refused(
            node, f"{value.type} and an interval of {unit or 'no unit'}", "a date and DAY, MONTH or YEAR"
        )
    if not isinstance(amount, exp.Literal) or not str(amount.this).lstrip("-").isdigit():
        raise refused(node, "the interval is not a whole constant", "write INTERVAL '3' MONTH")
    count = sign * int(amount.this) * {"WEEK": 7, "YEAR": 12}.get(unit, 1)
    name = "add_days" if unit in ("DAY", "WEEK") else "add_months"
    return Typed(Call(name, (value.expression, Literal(count))), value.type)


METHODS: tuple[tuple[tuple[type[exp.Expr], ...], Callable[[Any, Any], Typed]], ...] = (
    ((exp.Extract, *PARTS), part),
    ((exp.TimestampTrunc,), beginning),
    ((exp.DateDiff,), difference),
    ((exp.TsOrDsToDate,), day),
    ((exp.TsOrDsAdd, exp.AddMonths), later),
)
