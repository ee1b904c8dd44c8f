"""The table of strict functions: null in, null out, so no function here ever sees a null.

The reference is Spark SQL with ANSI mode off, because `views.sql` is written in its dialect: division by zero
and casts that fail are null, so one bad row can never stop a view. Floats compare as in Spark, PostgreSQL and
DuckDB: NaN equals NaN and is greater than everything, and -0.0 equals 0.0. Times of day are integers of
nanoseconds, timestamps are aware and in UTC.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any

from cvs.model.casts import CASTS
from cvs.model.values import DIGITS_MAX, too_long

Value = Any  # because a column may hold any CQL value
Operation = Callable[[Value, Value], Value]

DECIMALS = Context(prec=100)  # because sums and products of 38-digit decimals must be exact
_REMAINDERS = Context(prec=3 * DIGITS_MAX)  # because the whole quotient must fit, of any two numbers
QUOTIENTS = Context(prec=38, rounding=ROUND_HALF_UP)  # because Spark's widest decimal has 38 digits


def equal(left: Value, right: Value) -> bool:
    """Say whether two values are equal: NaN equals NaN, 0.0 equals -0.0, 1.0 equals 1.00."""
    return bool(left == right or (left != left and right != right))


def less(left: Value, right: Value) -> bool:
    """Say whether one value is less than another; NaN is the greatest."""
    if left != left:
        return False
    return bool(right != right or left < right)


def not_less(left: Value, right: Value) -> bool:
    """Say whether one value is not less than another."""
    return not less(left, right)


def ordered(value: Value) -> tuple[int, Value]:
    """Return what to sort a value by: nulls first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)


def greatest(values: list[Value]) -> Value:
    """Return the greatest of some values that are not null."""
    return max(values, key=ordered)


def least(values: list[Value]) -> Value:
    """Return the least of some values that are not null."""
    return min(values, key=ordered)


def _meeting(left: Value, right: Value) -> tuple[Value, Value]:
    """Bring what meets a double to its kind; Python refuses to mix it with a decimal, or with a huge whole number."""
    if isinstance(left, float):
        return left, right if isinstance(right, float) else CASTS["double"](right)
    return (CASTS["double"](left), right) if isinstance(right, float) else (left, right)


def _bounded(number: Value) -> Value:
    """Return a number; null if it is longer than any a column may hold, as decimals beyond 38 digits are in Spark."""
    return None if isinstance(number, int | Decimal) and too_long(number) else number


def _arithmetic(exact: Operation, plain: Operation) -> Operation:
    """Return an operation on two numbers, decimals exactly."""

    def of(left: Value, right: Value) -> Value:
        left, right = _meeting(left, right)
        decimals = isinstance(left, Decimal) or isinstance(right, Decimal)
        return _bounded(exact(left, right) if decimals else plain(left, right))

    return of


add = _arithmetic(DECIMALS.add, operator.add)
subtract = _arithmetic(DECIMALS.subtract, operator.sub)
multiply = _arithmetic(DECIMALS.multiply, operator.mul)


def divide(left: Value, right: Value) -> Value:
    """Return the quotient: null by zero; integers divide as doubles, decimals to 38 digits."""
    left, right = _meeting(left, right)
    if right == 0:
        return None
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _bounded(QUOTIENTS.divide(left, right))
    try:
        return left / right
    except OverflowError:
        return None


def remainder(left: Value, right: Value) -> Value:
    """Return the remainder with the sign of the dividend; null by zero."""
    left, right = _meeting(left, right)
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _REMAINDERS.remainder(left, right)
    if left - left != 0 or right != right:
        return float("nan")
    return left if right - right != 0 else _float_remainder(left, right)


def _float_remainder(left: float, right: float) -> float:
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def rounded(value: Value, places: int = 0) -> Value:
    """Return the value rounded to places, halves away from zero; infinities and NaN as they are."""
    if value != value or value in (float("inf"), float("-inf")):
        return value
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    places = max(-DIGITS_MAX + 1, min(places, DIGITS_MAX - 1))
    with localcontext(DECIMALS):
        try:
            result = exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
        except InvalidOperation:
            return value
    if isinstance(value, Decimal):
        return result
    return float(result) if isinstance(value, float) else int(result)


def floor(value: Value) -> Value:
    """Return the greatest whole number not above; null of NaN and infinities."""
    if isinstance(value, float) and value - value != 0:
        return None
    whole = value.__floor__()
    return Decimal(whole) if isinstance(value, Decimal) else whole


def ceiling(value: Value) -> Value:
    """Return the least whole number not below; null of NaN and infinities."""
    if isinstance(value, float) and value - value != 0:
        return None
    whole = value.__ceil__()
    return Decimal(whole) if isinstance(value, Decimal) else whole


@lru_cache(maxsize=1024)
def _pattern(pattern: str, escape: str) -> re.Pattern[str]:
    parts, position = [], 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == escape and position + 1 < len(pattern):
            position += 1
            parts.append(re.escape(pattern[position]))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter, re.escape(letter)))
        position += 1
    return re.compile("".join(parts), re.DOTALL)


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """Say whether the whole text fits a pattern of `%` and `_`."""
    return _pattern(pattern, escape).fullmatch(text) is not None


def _like_constant(pattern: str) -> Callable[[str], bool]:
    fullmatch = _pattern(pattern, "\\").fullmatch
    return lambda text: fullmatch(text) is not None


def substring(text: str, start: int, length: int | None = None) -> str:
    """Return part of a text: positions from 1, negative ones from the end, 0 as 1 (Spark)."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def add_days(moment: date, days: int) -> date | None:
    """Return the date or timestamp some days later; null beyond the calendar."""
    try:
        return moment + timedelta(days=days)
    except OverflowError:
        return None


def add_months(moment: date, months: int) -> date | None:
    """Return the date or timestamp some months later, at the latest the last day of that month."""
    number = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(number, 12)
    if not 1 <= year <= 9999:
        return None
    return moment.replace(year=year, month=month + 1, day=min(moment.day, _days_in(year, month + 1)))


def _days_in(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def days_between(end: date, start: date) -> int:
    """Return the days from one date to another; of timestamps, the days of their dates."""
    return _date(end).toordinal() - _date(start).toordinal()


def _date(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def truncated(unit: str, moment: date) -> date | None:
    """Return the timestamp at the start of its year, quarter, month, week, day, hour, minute or second."""
    full = (
        moment
        if isinstance(moment, datetime)
        else datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    )
    name = unit.lower()
    if name == "quarter":
        full, name = full.replace(month=full.month - (full.month - 1) % 3, day=1), "month"
    if name == "week":
        full, name = full - timedelta(days=full.weekday()), "day"
    if name not in _UNITS:
        return None
    kept = _UNITS.index(name)
    lowest: dict[str, int] = dict(zip(_UNITS[kept + 1 :], _LOWEST[kept + 1 :], strict=True))
    return full.replace(microsecond=0, **lowest)  # type: ignore[arg-type]  # because the names are fields


_UNITS = ("year", "month", "day", "hour", "minute", "second")
_LOWEST = (1, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Strict:
    """A function of values that are not null; `prepare` makes a faster one when the second is constant."""

    apply: Callable[..., Value]
    least: int
    most: int | None
    prepare: Callable[[Value], Callable[[Value], Value]] | None = None


def _one(apply: Callable[..., Value]) -> Strict:
    return Strict(apply, 1, 1)


def _two(apply: Callable[..., Value]) -> Strict:
    return Strict(apply, 2, 2)


_OPERATORS: dict[str, Strict] = {
    "=": _two(equal),
    "<>": _two(lambda left, right: not equal(left, right)),
    "<": _two(less),
    "<=": _two(lambda left, right: not less(right, left)),
    ">": _two(lambda left, right: less(right, left)),
    ">=": _two(not_less),
    "not": _one(lambda value: not value),
    "+": _two(add),
    "-": _two(subtract),
    "*": _two(multiply),
    "/": _two(divide),
    "%": _two(remainder),
    "negate": _one(lambda value: value.copy_negate() if isinstance(value, Decimal) and value else -value),
    "abs": _one(lambda value: value.copy_abs() if isinstance(value, Decimal) else abs(value)),
    "round": Strict(rounded, 1, 2),
    "floor": _one(floor),
    "ceil": _one(ceiling),
}

_TEXTS: dict[str, Strict] = {
    "like": Strict(like, 2, 3, _like_constant),
    "concat": Strict(lambda *texts: "".join(texts), 1, None),
    "upper": _one(str.upper),
    "lower": _one(str.lower),
    "length": _one(len),
    "trim": _one(lambda text: text.strip(" ")),
    "ltrim": _one(lambda text: text.lstrip(" ")),
    "rtrim": _one(lambda text: text.rstrip(" ")),
    "substring": Strict(substring, 2, 3),
    "left": _two(lambda text, count: text[: max(count, 0)]),
    "right": _two(lambda text, count: text[max(len(text) - count, 0) :] if count > 0 else ""),
    "replace": Strict(lambda text, old, new: text.replace(old, new) if old else text, 3, 3),
    "position": _two(lambda part, text: text.find(part) + 1),
    "starts_with": _two(str.startswith),
    "ends_with": _two(str.endswith),
    "contains": _two(lambda text, part: part in text),
}

_TIMES: dict[str, Strict] = {
    "year": _one(lambda moment: moment.year),
    "quarter": _one(lambda moment: (moment.month + 2) // 3),
    "month": _one(lambda moment: moment.month),
    "day": _one(lambda moment: moment.day),
    "day_of_week": _one(lambda moment: moment.isoweekday() % 7 + 1),
    "day_of_year": _one(lambda moment: moment.timetuple().tm_yday),
    "hour": _one(lambda moment: moment.hour),
    "minute": _one(lambda moment: moment.minute),
    "second": _one(lambda moment: moment.second),
    "date_trunc": _two(truncated),
    "days_between": _two(days_between),
    "add_days": _two(add_days),
    "add_months": _two(add_months),
}

STRICT: dict[str, Strict] = {
    **_OPERATORS,
    **_TEXTS,
    **_TIMES,
    **{f"cast_{name}": _one(cast) for name, cast in CASTS.items()},
}
