"""Values as the bytes Cassandra keeps in a cell (native protocol, section 6), both ways.

DELTA carries cells as such bytes and compares them as such (PROTOCOL H17); stages see values.
"""

import struct
from collections.abc import Callable
from datetime import date, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from cvs.errors import HistoryError, SpecificationError
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.types import EPOCH, normal
from cvs.model.values import Duration

Value = Any  # because a column may hold any CQL value

_DAY_ZERO = date(1970, 1, 1)
_DATE_SHIFT = 1 << 31  # because CQL counts days from -5877641-06-23
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def decode_cql(kind: CqlType | str, data: bytes | None) -> Value:
    """Return the canonical value of a cell's bytes; no bytes at all are null."""
    if data is None:
        return None
    cql = parse_type(kind) if isinstance(kind, str) else kind
    try:
        return normal(cql, _decode(cql, bytes(data)))
    except (struct.error, ValueError, IndexError, OverflowError, SpecificationError) as error:
        raise HistoryError(f"{data[:32]!r} is no {cql.name}: {error}") from error


def encode_cql(kind: CqlType | str, value: Value) -> bytes | None:
    """Return the bytes Cassandra would keep for a value; null is none."""
    cql = parse_type(kind) if isinstance(kind, str) else kind
    canonical = normal(cql, value)
    return None if canonical is None else _ENCODERS[cql.name](cql, canonical)


def _decode(cql: CqlType, data: bytes) -> Value:
    if not data and cql.name not in _MAY_BE_EMPTY:
        return None  # because Cassandra's old empty values mean nothing for these types
    return _DECODERS[cql.name](cql, data)


_MAY_BE_EMPTY = frozenset({"ascii", "text", "varchar", "blob", "tuple", "udt"})


def _signed(_: CqlType, data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _sized(length: int) -> Callable[[CqlType, int], bytes]:
    return lambda _, value: value.to_bytes(length, "big", signed=True)


def _varint(_: CqlType, value: int) -> bytes:
    bits = value.bit_length() if value >= 0 else (value + 1).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def decimal_of(data: bytes) -> Decimal:
    """Return the decimal of a cell's bytes."""
    scale = int.from_bytes(data[:4], "big", signed=True)
    unscaled = int.from_bytes(data[4:], "big", signed=True)
    return _EXACT.scaleb(Decimal(unscaled), -scale)


def _decimal(cql: CqlType, value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return (-int(exponent)).to_bytes(4, "big", signed=True) + _varint(cql, unscaled)


def _date_of(_: CqlType, data: bytes) -> date:
    return _DAY_ZERO + timedelta(days=int.from_bytes(data, "big") - _DATE_SHIFT)


def _vint_of(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    extra = 8 - (first ^ 0xFF).bit_length()
    end = at + 1 + extra
    raw = (first & (0xFF >> extra)) << (8 * extra) | int.from_bytes(data[at + 1 : end], "big")
    if end > len(data):
        raise IndexError("the bytes end within a number")
    return raw, end


def _signed_vint_of(data: bytes, at: int) -> tuple[int, int]:
    raw, end = _vint_of(data, at)
    return (raw >> 1) ^ -(raw & 1), end


def _signed_vint(value: int) -> bytes:
    return _vint(value << 1 if value >= 0 else (-value << 1) - 1)


def _vint(raw: int) -> bytes:
    extra = max(0, (raw.bit_length() - 1) // 7) if raw else 0
    if extra >= 8:
        return b"\xff" + raw.to_bytes(8, "big")
    body = bytearray(raw.to_bytes(extra + 1, "big"))
    body[0] |= (0xFF00 >> extra) & 0xFF
    return bytes(body)


def _duration_of(_: CqlType, data: bytes) -> Duration:
    months, at = _signed_vint_of(data, 0)
    days, at = _signed_vint_of(data, at)
    nanoseconds, _end = _signed_vint_of(data, at)
    return Duration(months, days, nanoseconds)


def _take(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", data, at)
    if length < 0:
        return None, at + 4
    if at + 4 + length > len(data):
        raise IndexError("the bytes end within an element")
    return data[at + 4 : at + 4 + length], at + 4 + length


def _give(cql: CqlType, value: Value) -> bytes:
    inner = encode_cql(cql, value)
    return struct.pack(">i", -1) if inner is None else struct.pack(">i", len(inner)) + inner


def _collection_of(cql: CqlType, data: bytes) -> list[Value]:
    (count,) = struct.unpack_from(">i", data, 0)
    width, at, items = len(cql.parts), 4, []
    if count * width * 4 > len(data):
        raise IndexError("more elements than bytes")
    for number in range(count * width):
        raw, at = _take(data, at)
        items.append(decode_cql(cql.parts[number % width], raw))
    return items if width == 1 else list(zip(items[0::2], items[1::2], strict=True))


def _collection(cql: CqlType, value: tuple[Value, ...]) -> bytes:
    flat = value if len(cql.parts) == 1 else [part for pair in value for part in pair]
    kinds = cql.parts * len(value)
    return struct.pack(">i", len(value)) + b"".join(
        _give(kind, item) for kind, item in zip(kinds, flat, strict=True)
    )


def _tuple_of(cql: CqlType, data: bytes) -> list[Value]:
    at, items = 0, []
    for part in cql.parts:
        raw, at = _take(data, at) if at < len(data) else (None, at)
        items.append(decode_cql(part, raw))
    return items


def _tuple(cql: CqlType, value: tuple[Value, ...]) -> bytes:
    return b"".join(_give(part, item) for part, item in zip(cql.parts, value, strict=True))


def fixed_length(cql: CqlType) -> int:
    """Return the bytes every value of a type has, or -1 (`AbstractType.valueLengthIfFixed`).

    `date`, `time`, `smallint` and `tinyint` are, for historical reasons, not of fixed length.
    """
    if cql.name == "vector":
        element = fixed_length(cql.parts[0])
        return element * cql.size if element > 0 else -1
    return _FIXED_BYTES.get(cql.name, -1)


def _vector_of(cql: CqlType, data: bytes) -> list[Value]:
    size, at, items = fixed_length(cql.parts[0]), 0, []
    for _ in range(cql.size):
        length, at = (size, at) if size > 0 else _vint_of(data, at)
        if at + length > len(data):
            raise IndexError("the bytes end within an element")
        items.append(decode_cql(cql.parts[0], data[at : at + length]))
        at += length
    return items


def _vector(cql: CqlType, value: tuple[Value, ...]) -> bytes:
    items = [encode_cql(cql.parts[0], item) or b"" for item in value]
    return b"".join(items if fixed_length(cql.parts[0]) > 0 else [_vint(len(item)) + item for item in items])


_FIXED_BYTES = {"boolean": 1, "uuid": 16, "timeuuid": 16}
_FIXED_BYTES |= dict.fromkeys(("int", "float"), 4) | dict.fromkeys(("bigint", "double", "timestamp"), 8)
_INTEGER_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "counter": 8, "time": 8}

_DECODERS: dict[str, Callable[[CqlType, bytes], Value]] = {
    **dict.fromkeys((*_INTEGER_BYTES, "varint", "timestamp"), _signed),
    **dict.fromkeys(("ascii", "text", "varchar"), lambda _, data: data.decode("utf-8")),
    **dict.fromkeys(("uuid", "timeuuid"), lambda _, data: UUID(bytes=data)),
    **dict.fromkeys(("list", "set", "map"), _collection_of),
    **dict.fromkeys(("tuple", "udt"), _tuple_of),
    "boolean": lambda _, data: data != b"\x00",
    "float": lambda _, data: struct.unpack(">f", data)[0],
    "double": lambda _, data: struct.unpack(">d", data)[0],
    "decimal": lambda _, data: decimal_of(data),
    "date": _date_of,
    "blob": lambda _, data: data,
    "inet": lambda _, data: ip_address(data),
    "duration": _duration_of,
    "vector": _vector_of,
}

_ENCODERS: dict[str, Callable[[CqlType, Any], bytes]] = {
    **{name: _sized(length) for name, length in _INTEGER_BYTES.items()},
    **dict.fromkeys(("ascii", "text", "varchar"), lambda _, value: value.encode("utf-8")),
    **dict.fromkeys(("uuid", "timeuuid"), lambda _, value: value.bytes),
    **dict.fromkeys(("list", "set", "map"), _collection),
    **dict.fromkeys(("tuple", "udt"), _tuple),
    "varint": _varint,
    "boolean": lambda _, value: b"\x01" if value else b"\x00",
    "float": lambda _, value: struct.pack(">f", value),
    "double": lambda _, value: struct.pack(">d", value),
    "decimal": _decimal,
    "date": lambda _, value: ((value - _DAY_ZERO).days + _DATE_SHIFT).to_bytes(4, "big"),
    "timestamp": lambda _, v: ((v - EPOCH) // timedelta(milliseconds=1)).to_bytes(8, "big", signed=True),
    "blob": lambda _, value: value,
    "inet": lambda _, value: value.packed,
    "duration": lambda _, v: _signed_vint(v.months) + _signed_vint(v.days) + _signed_vint(v.nanoseconds),
    "vector": _vector,
}
