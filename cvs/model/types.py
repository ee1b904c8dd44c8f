"""The one table of types: what a CQL type is in Python, JSON, Parquet, Spark and DuckDB.

Every value that enters cvs is brought to its canonical Python form by `normal`; nothing else ever meets a
driver's own classes. All canonical values are immutable and hashable. Unset and null are both None.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from uuid import UUID

from cvs.errors import SpecificationError
from cvs.model.casts import INTEGER_BITS, single
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.functions import ordered
from cvs.model.values import Duration, duration_of, encode_value, fitting, spelled, timestamp_of

Value = Any  # because a column may hold any CQL value
TOLD_MAX = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRow:
    """One line of the table; Parquet's column names Arrow's type, as pyarrow spells it."""

    python: str
    json: str
    parquet: str
    spark: str
    duckdb: str
    note: str = ""


def _row(python: str, json: str, parquet: str, others: tuple[str, str], note: str = "") -> TypeRow:
    return TypeRow(python=python, json=json, parquet=parquet, spark=others[0], duckdb=others[1], note=note)


_TEXT = _row("str", '"a"', "string", ("string", "VARCHAR"), "ordered by code points")
_SINGLE = "rounded to 32 bits on entry; NaN and zeros as double"
_UUID = _row("UUID", '{"$uuid": "0b6f…"}', "string", ("string", "UUID"), "ordered as its hexadecimal text")

TYPES: dict[str, TypeRow] = {
    "ascii": _TEXT,
    "text": _TEXT,
    "varchar": _TEXT,
    "boolean": _row("bool", "true", "bool", ("boolean", "BOOLEAN")),
    "tinyint": _row("int", "1", "int8", ("tinyint", "TINYINT")),
    "smallint": _row("int", "1", "int16", ("smallint", "SMALLINT")),
    "int": _row("int", "1", "int32", ("int", "INTEGER")),
    "bigint": _row("int", "1", "int64", ("bigint", "BIGINT")),
    "counter": _row("int", "1", "int64", ("bigint", "BIGINT"), "cannot be a base of a view"),
    "varint": _row(
        "int", '1, beyond 64 bits {"$int": "…"}', "string", ("decimal(38,0)", "HUGEINT"), "to 1,000 digits"
    ),
    "float": _row("float", '1.5, {"$float": "NaN"}', "float", ("float", "FLOAT"), _SINGLE),
    "double": _row(
        "float",
        '1.5, {"$float": "NaN"}',
        "double",
        ("double", "DOUBLE"),
        "NaN equals NaN and is the greatest; -0.0 equals 0.0",
    ),
    "decimal": _row(
        "Decimal",
        '{"$decimal": "1.10"}',
        "string",
        ("decimal(38,18)", "DECIMAL(38,18)"),
        "scale kept; 1.0 equals 1.00; to 1,000 digits",
    ),
    "date": _row("date", '{"$date": "2026-01-31"}', "date32[day]", ("date", "DATE"), "years 1 to 9999"),
    "time": _row("int", "36000000000000", "int64", ("bigint", "BIGINT"), "nanoseconds since midnight"),
    "timestamp": _row(
        "datetime",
        '{"$timestamp": "2026-01-31T10:00:00.5Z"}',
        "timestamp[ms, tz=UTC]",
        ("timestamp", "TIMESTAMPTZ"),
        "aware, UTC, milliseconds; a naive one is taken as UTC",
    ),
    "uuid": _UUID,
    "timeuuid": _UUID,
    "blob": _row("bytes", '{"$blob": "0aff"}', "binary", ("binary", "BLOB"), "ordered by unsigned bytes"),
    "inet": _row(
        "IPv4Address or IPv6Address", '{"$inet": "::1"}', "string", ("string", "VARCHAR"), "no order"
    ),
    "duration": _row(
        "Duration", '{"$duration": "1mo2d3ns"}', "string", ("string", "VARCHAR"), "no order; never a key"
    ),
    "list": _row("tuple", "[1, 2]", "string", ("string", "VARCHAR"), "carried as a value"),
    "set": _row("sorted tuple", "[1, 2]", "string", ("string", "VARCHAR"), "carried as a value"),
    "map": _row("sorted tuple of pairs", '[["a", 1]]', "string", ("string", "VARCHAR"), "carried as a value"),
    "tuple": _row("tuple", '[1, "a", null]', "string", ("string", "VARCHAR"), "carried as a value"),
    "udt": _row(
        "tuple of fields",
        '[1, "a", null]',
        "string",
        ("string", "VARCHAR"),
        "by position; carried as a value",
    ),
    "vector": _row("tuple", "[1.5, 2.5]", "string", ("string", "VARCHAR"), "carried as a value"),
}
"""The table; "string" in Parquet of a value that is no text is its JSON form."""


def normal(kind: CqlType | str, value: Value) -> Value:
    """Return a value in the canonical form of its type, whatever driver, file or person it came from."""
    if value is None:
        return None
    cql = parse_type(kind) if isinstance(kind, str) else kind
    try:
        return _NORMAL[cql.name](cql, value)
    except (ValueError, TypeError, ArithmeticError, InvalidOperation, AttributeError) as error:
        reason = f": {error}" if str(error) and not isinstance(error, InvalidOperation) else ""
        raise SpecificationError(f"{_told(value)} is no {cql.name}{reason}") from error


def _told(value: Value) -> str:
    text = spelled(value)
    return text if len(text) <= TOLD_MAX else f"{text[:TOLD_MAX]}..."


def normal_row(types: Mapping[str, CqlType], row: Mapping[str, Value]) -> dict[str, Value]:
    """Return a row with the columns that have a type in canonical form; the others stay."""
    return {name: normal(types[name], v) if name in types else v for name, v in row.items()}


def native(kind: CqlType | str, value: Value) -> Value:
    """Return what a Cassandra driver takes for a canonical value."""
    cql = parse_type(kind) if isinstance(kind, str) else kind
    if value is None:
        return None
    if cql.name == "map":
        return {native(cql.parts[0], k): native(cql.parts[1], v) for k, v in value}
    if cql.name == "set":
        return {native(cql.parts[0], item) for item in value}
    if cql.name in ("list", "vector"):
        return [native(cql.parts[0], item) for item in value]
    if cql.name in ("tuple", "udt"):
        return tuple(native(part, item) for part, item in zip(cql.parts, value, strict=True))
    return str(value) if cql.name == "inet" else value


def _integer(cql: CqlType, value: Value) -> int:
    if isinstance(value, bool):
        raise TypeError("a boolean is no number")
    number = int(value) if isinstance(value, str) else operator.index(value)
    bits = INTEGER_BITS.get(cql.name, 64)
    if bits is not None and not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"beyond {bits} bits")
    return fitting(number) if bits is None else number


def _floating(cql: CqlType, value: Value) -> float:
    if isinstance(value, bool):
        raise TypeError("a boolean is no number")
    number = float(value)
    return single(number) if cql.name == "float" else number


def _decimal(_: CqlType, value: Value) -> Decimal:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite() or isinstance(value, bool):
        raise ValueError("a decimal is a finite number")
    return fitting(number)


def _text(_: CqlType, value: Value) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return str(value)


def _boolean(_: CqlType, value: Value) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not true or false")
    return value


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _timestamp(_: CqlType, value: Value) -> datetime:
    if isinstance(value, str):
        value = timestamp_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = EPOCH + timedelta(milliseconds=value)
    if not isinstance(value, datetime):
        raise TypeError("not a timestamp")
    moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _date(_: CqlType, value: Value) -> date:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return date(1970, 1, 1) + timedelta(days=value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    found = value.date()  # a datetime, or the Cassandra driver's own class
    assert isinstance(found, date)
    return found


DAY_NANOSECONDS = 86_400_000_000_000


def _time(_: CqlType, value: Value) -> int:
    if isinstance(value, str):
        head, _dot, fraction = value.partition(".")
        whole = time.fromisoformat(head)
        if len(fraction) > 9:
            raise ValueError("finer than nanoseconds")
        nanoseconds = _nanoseconds(whole) + int(fraction.ljust(9, "0"))
    elif isinstance(value, time):
        nanoseconds = _nanoseconds(value)
    else:
        driver_time: Any = getattr(value, "nanosecond_time", value)  # the Cassandra driver's own class
        nanoseconds = operator.index(driver_time)
    if not 0 <= nanoseconds < DAY_NANOSECONDS:
        raise ValueError("not within a day")
    return nanoseconds


def _nanoseconds(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000_000 + value.microsecond * 1000


def _uuid(_: CqlType, value: Value) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _blob(_: CqlType, value: Value) -> bytes:
    if isinstance(value, str):
        return bytes.fromhex(value.removeprefix("0x"))
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("not bytes")
    return bytes(value)


def _inet(_: CqlType, value: Value) -> IPv4Address | IPv6Address:
    return value if isinstance(value, IPv4Address | IPv6Address) else ip_address(str(value))


def _duration(_: CqlType, value: Value) -> Duration:
    if isinstance(value, str):
        return duration_of(value)
    return Duration(value.months, value.days, value.nanoseconds)


def _list(cql: CqlType, value: Value) -> tuple[Value, ...] | None:
    items = tuple(normal(cql.parts[0], item) for item in _items(value))
    return items if items or cql.frozen or cql.name == "vector" else None


def _set(cql: CqlType, value: Value) -> tuple[Value, ...] | None:
    items = {encode_value(item): item for item in (normal(cql.parts[0], item) for item in _items(value))}
    return _in_order(items.values(), lambda item: item) or (() if cql.frozen else None)


def _map(cql: CqlType, value: Value) -> tuple[Value, ...] | None:
    given = value.items() if hasattr(value, "items") else value
    pairs = [(normal(cql.parts[0], k), normal(cql.parts[1], v)) for k, v in given]
    return _in_order(pairs, lambda pair: pair[0]) or (() if cql.frozen else None)


def _tuple(cql: CqlType, value: Value) -> tuple[Value, ...]:
    if cql.fields and isinstance(value, Mapping):
        value = [value.get(name) for name in cql.fields]
    items = tuple(_items(value))
    if len(items) > len(cql.parts):
        raise ValueError(f"{len(items)} parts, not {len(cql.parts)}")
    padded = items + (None,) * (len(cql.parts) - len(items))
    return tuple(normal(part, item) for part, item in zip(cql.parts, padded, strict=True))


def _items(value: Value) -> list[Value]:
    if isinstance(value, str | bytes | Mapping):
        raise TypeError("not a collection")
    return list(value)


def _in_order(items: Iterable[Value], key: Callable[[Value], Value]) -> tuple[Value, ...]:
    listed = list(items)
    try:
        return tuple(sorted(listed, key=lambda item: ordered(key(item))))
    except TypeError:  # because addresses of two families and tuples with nulls have no order of their own
        return tuple(sorted(listed, key=lambda item: encode_value(key(item))))


_NORMAL: dict[str, Callable[[CqlType, Value], Value]] = {
    **dict.fromkeys(("ascii", "text", "varchar"), _text),
    **dict.fromkeys((*INTEGER_BITS, "counter"), _integer),
    **dict.fromkeys(("float", "double"), _floating),
    **dict.fromkeys(("uuid", "timeuuid"), _uuid),
    **dict.fromkeys(("list", "vector"), _list),
    **dict.fromkeys(("tuple", "udt"), _tuple),
    "boolean": _boolean,
    "decimal": _decimal,
    "timestamp": _timestamp,
    "date": _date,
    "time": _time,
    "blob": _blob,
    "inet": _inet,
    "duration": _duration,
    "set": _set,
    "map": _map,
}
