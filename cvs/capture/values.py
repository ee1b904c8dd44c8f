"""Serialized CQL values as Python values: what people read and expressions compute with.

As in `model.functions`: timestamps are aware and in UTC, times are nanoseconds of the day, durations are
(months, days, nanoseconds). A timestamp or date beyond Python's calendar stays its number. Empty bytes are an
empty string or blob; of any other type they are null, as the drivers show them.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from cvs.capture.changes import Cell, TableDefinition
from cvs.capture.decode import vint
from cvs.capture.types import CqlType, parse_type

Value = Any  # because a column may hold any CQL value
Fields = Mapping[str, tuple[tuple[str, str], ...]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ZERO = 1 << 31  # dates are unsigned, with 1970-01-01 in the middle


def _whole(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _timestamp(data: bytes) -> Value:
    milliseconds = _whole(data)
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds


def _date(data: bytes) -> Value:
    days = int.from_bytes(data, "big") - _DAY_ZERO
    try:
        return date(1970, 1, 1) + timedelta(days=days)
    except OverflowError:
        return days


def _decimal(data: bytes) -> Decimal:
    unscaled = _whole(data[4:])
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -_whole(data[:4])))  # exact, whatever the context's precision


def _duration(data: bytes) -> tuple[int, int, int]:
    parts, at = [], 0
    for _ in range(3):
        encoded, at = vint(data, at)
        parts.append((encoded >> 1) ^ -(encoded & 1))
    return parts[0], parts[1], parts[2]


SCALARS: dict[str, Callable[[bytes], Value]] = {
    "ascii": lambda data: data.decode("ascii"),
    "text": bytes.decode,
    "varchar": bytes.decode,
    "blob": bytes,
    "boolean": lambda data: data != b"\x00",
    "tinyint": _whole,
    "smallint": _whole,
    "int": _whole,
    "bigint": _whole,
    "counter": _whole,
    "varint": _whole,
    "float": lambda data: struct.unpack(">f", data)[0],
    "double": lambda data: struct.unpack(">d", data)[0],
    "decimal": _decimal,
    "timestamp": _timestamp,
    "date": _date,
    "time": _whole,
    "duration": _duration,
    "uuid": lambda data: UUID(bytes=data),
    "timeuuid": lambda data: UUID(bytes=data),
    "inet": lambda data: str(ip_address(data)),
}
EMPTY_IS_A_VALUE = {"ascii", "text", "varchar", "blob"}


def python_value(kind: CqlType, data: bytes | None, fields: Fields) -> Value:
    """Return the Python value; `fields` gives the fields of user types by name."""
    if data is None:
        return None
    decode = SCALARS.get(kind.name)
    if decode:
        return decode(data) if data or kind.name in EMPTY_IS_A_VALUE else None
    if not data:
        return None
    if kind.name in ("list", "set", "map"):
        return _collection(kind, data, fields)
    if kind.name == "tuple":
        return tuple(_elements(kind.arguments, data, fields))
    if kind.name == "vector":
        return _vector(kind, data, fields)
    if kind.name in fields:
        names = [name for name, _ in fields[kind.name]]
        types = tuple(parse_type(text) for _, text in fields[kind.name])
        return dict(zip(names, _elements(types, data, fields), strict=True))
    return data  # a custom type: only its owner knows


def _collection(kind: CqlType, data: bytes, fields: Fields) -> Value:
    count, at = _whole(data[:4]), 4
    values = []
    width = len(kind.arguments)
    for index in range(count * width):
        size = _whole(data[at : at + 4])
        element = data[at + 4 : at + 4 + size] if size >= 0 else None
        values.append(python_value(kind.arguments[index % width], element, fields))
        at += 4 + max(size, 0)
    if kind.name == "map":
        return [(values[i], values[i + 1]) for i in range(0, len(values), 2)]
    return values


def _elements(types: tuple[CqlType, ...], data: bytes, fields: Fields) -> list[Value]:
    """Read the fields of a tuple or user type; fields added to the type later are null."""
    values: list[Value] = []
    at = 0
    for kind in types:
        size = _whole(data[at : at + 4]) if at < len(data) else -1
        values.append(python_value(kind, data[at + 4 : at + 4 + size] if size >= 0 else None, fields))
        at += 4 + max(size, 0)
    return values


def _vector(kind: CqlType, data: bytes, fields: Fields) -> list[Value]:
    element, dimension = kind.arguments
    size, at, values = element.fixed_length, 0, []
    for _ in range(int(dimension.name)):
        length = size
        if size < 0:
            length, at = vint(data, at)
        values.append(python_value(element, data[at : at + length], fields))
        at += length
    return values


class Reader:
    """Turns raw values of one table into Python values, by column name."""

    def __init__(self, definition: TableDefinition) -> None:
        """Parse the table's types once."""
        self.fields: Fields = {user_type.name: user_type.fields for user_type in definition.user_types}
        self.types = {name: parse_type(text) for name, text, _, _ in definition.dropped}
        self.types |= {column.name: parse_type(column.type) for column in definition.columns}

    def value(self, column: str, data: bytes | None) -> Value:
        """Return the value of a whole column (also: of a key column)."""
        return python_value(self.types[column], data, self.fields)

    def element(self, cell: Cell) -> tuple[Value, Value]:
        """Return (path, value) of a cell of a non-frozen collection or user type."""
        kind, path = self.types[cell.column], cell.path or b""
        if kind.name == "map":
            key, value = kind.arguments
            return python_value(key, path, self.fields), python_value(value, cell.value, self.fields)
        if kind.name == "set":
            return python_value(kind.arguments[0], path, self.fields), None
        if kind.name == "list":
            return UUID(bytes=path), python_value(kind.arguments[0], cell.value, self.fields)
        name, text = self.fields[kind.name][_whole(path)]
        return name, python_value(parse_type(text), cell.value, self.fields)
