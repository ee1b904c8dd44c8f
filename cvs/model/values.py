"""Values as JSON and as bytes, so that what was written is what is read, types included.

What JSON has stays plain; everything else is an object with one `$` name: `{"$decimal": "1.10"}`. Tuples are
arrays. The same value always gives the same bytes.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from cvs.errors import HistoryError

Value = Any  # because a column may hold any CQL value
Json = Any  # because JSON nests
Number = TypeVar("Number", int, Decimal)

_PLAIN = frozenset({str, bool, type(None)})
DIGITS_MAX = 1_000
BITS_MAX = 3_322  # of a whole number with as many digits
_INT_LEAST, _INT_MOST = -(2**63), 2**63 - 1  # because readers of JSON keep 64 bits


@dataclass(frozen=True, slots=True)
class Duration:
    """CQL's duration: three numbers that cannot be turned into each other, hence no order."""

    months: int
    days: int
    nanoseconds: int

    def __str__(self) -> str:
        """Write it as CQL reads it: `1mo2d3ns`; all parts have one sign."""
        parts = f"{abs(self.months)}mo{abs(self.days)}d{abs(self.nanoseconds)}ns"
        return ("-" if min(self.months, self.days, self.nanoseconds) < 0 else "") + parts


def too_long(number: int | Decimal) -> bool:
    """Say whether a number has more than 1,000 digits in all, or on one side of its point.

    Cassandra keeps 1E+2000000000 in a few bytes; to add, round or spell it takes the memory of the machine.
    """
    if isinstance(number, int):
        return number.bit_length() > BITS_MAX
    return abs(number.adjusted()) >= DIGITS_MAX or len(number.as_tuple().digits) > DIGITS_MAX


def fitting(number: Number) -> Number:
    """Return a number, and refuse one that is too long."""
    if too_long(number):
        raise ValueError(f"more than {DIGITS_MAX:,} digits")
    return number


def spelled(value: Value) -> str:
    """Spell a value for people; Python has no decimal digits for a whole number of more than 4,300."""
    return hex(value) if isinstance(value, int) and too_long(value) else repr(value)


def many(number: int, one: str, more: str = "") -> str:
    """Write a number of things: one of them, or `more`."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


_DURATION = re.compile(r"(-?)(\d+)mo(\d+)d(\d+)ns")


def duration_of(text: str) -> Duration:
    """Read what `str` of a duration wrote."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration like 1mo2d3ns")
    sign = -1 if found[1] else 1
    return Duration(*(sign * int(part) for part in found.groups()[1:]))


def timestamp_text(moment: datetime) -> str:
    """Write a timestamp in UTC with as many digits as it has."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def timestamp_of(text: str) -> datetime:
    """Read an ISO timestamp; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _float_json(value: float) -> Json:
    if math.isfinite(value):
        return value
    return {"$float": "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"}


_WRITERS: dict[type, Callable[[Any], Json]] = {
    int: lambda v: v if _INT_LEAST <= v <= _INT_MOST else {"$int": str(v)},
    float: _float_json,
    Decimal: lambda v: {"$decimal": str(v)},
    datetime: lambda v: {"$timestamp": timestamp_text(v)},
    date: lambda v: {"$date": v.isoformat()},
    UUID: lambda v: {"$uuid": str(v)},
    bytes: lambda v: {"$blob": v.hex()},
    IPv4Address: lambda v: {"$inet": str(v)},
    IPv6Address: lambda v: {"$inet": str(v)},
    Duration: lambda v: {"$duration": str(v)},
    tuple: lambda v: [to_json(item) for item in v],
    list: lambda v: [to_json(item) for item in v],
    frozenset: lambda v: {"$set": _sorted([to_json(item) for item in v])},
    set: lambda v: {"$set": _sorted([to_json(item) for item in v])},
    dict: lambda v: {"$map": _sorted([[to_json(key), to_json(item)] for key, item in v.items()])},
}

_READERS: dict[str, Callable[[Any], Value]] = {
    "$int": int,
    "$float": _SPECIAL_FLOATS.__getitem__,
    "$decimal": lambda text: fitting(Decimal(text)),
    "$timestamp": timestamp_of,
    "$date": date.fromisoformat,
    "$uuid": UUID,
    "$blob": bytes.fromhex,
    "$inet": ip_address,
    "$duration": duration_of,
    "$set": lambda items: frozenset(from_json(item) for item in items),
    "$map": lambda pairs: {from_json(key): from_json(item) for key, item in pairs},
}


def _sorted(items: list[Json]) -> list[Json]:
    return sorted(items, key=msgspec.json.encode)


def to_json(value: Value) -> Json:
    """Return the JSON form of a value."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    writer = _WRITERS.get(kind)
    if writer is None:
        for base, candidate in _WRITERS.items():
            if isinstance(value, base):
                return candidate(value)
        raise TypeError(f"a value of type {kind.__name__} has no JSON form: bring it to its type first")
    return writer(value)


def from_json(json: Json) -> Value:
    """Return the value of a JSON form; arrays become tuples."""
    kind = type(json)
    if kind is list:
        return tuple(map(from_json, json))
    if kind is not dict:
        return json
    if len(json) == 1:
        ((name, inner),) = json.items()
        reader = _READERS.get(name)
        if reader is not None:
            try:
                return reader(inner)
            except (
                ValueError,
                KeyError,
                TypeError,
                InvalidOperation,
                OverflowError,
                RecursionError,
            ) as error:
                raise HistoryError(f"{inner!r} is no value of kind {name[1:]}") from error
    raise HistoryError(
        f"an object with the names {', '.join(sorted(map(str, json)))} is no value",
        next_step=f"a value is plain JSON or an object with one of {', '.join(_READERS)}",
    )


def row_to_json(row: Mapping[str, Value]) -> dict[str, Json]:
    """Return a row with its values in JSON form."""
    return {name: value if type(value) in _PLAIN else to_json(value) for name, value in row.items()}


def row_from_json(row: Mapping[str, Json]) -> dict[str, Value]:
    """Return a row of values."""
    return {name: from_json(value) if type(value) in (dict, list) else value for name, value in row.items()}


def encode_value(value: Value) -> bytes:
    """Return the bytes of a value, always the same for the same value."""
    return msgspec.json.encode(to_json(value))


def decode_value(data: bytes) -> Value:
    """Return the value of such bytes."""
    return from_json(_json(data))


def encode_row(row: Mapping[str, Value]) -> bytes:
    """Return the bytes of a row; columns in the order of their names."""
    return msgspec.json.encode(row_to_json(row), order="deterministic")


def decode_row(data: bytes) -> dict[str, Value]:
    """Return the row of such bytes."""
    row = _json(data)
    if not isinstance(row, dict):
        raise HistoryError("a row is not a JSON object", where=repr(data[:60]))
    return row_from_json(row)


def _json(data: bytes) -> Json:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise HistoryError(f"not JSON: {error}", where=repr(data[:60])) from error
