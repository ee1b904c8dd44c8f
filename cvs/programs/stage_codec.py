"""Values as bytes: rows of state, keys of buckets, identity of rows in a bag.

MessagePack, with an extension type for what it lacks. Two rows are the same row of a bag if their bytes are
equal; two values are the same *key* if SQL calls them equal, so `pack_key` makes 1.0 and 1.00, 0.0 and -0.0
and every NaN one (H25).
"""

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from operator import itemgetter
from typing import Any
from uuid import UUID

import msgspec

from cvs.model.identity import canonical
from cvs.model.values import Duration, duration_of

Value = Any  # because a column may hold any CQL value
Values = tuple[Value, ...]

_PLAIN = frozenset({type(None), bool, float, str, bytes, datetime})
_PLAIN_OR_INT = _PLAIN | {int}
_SAME_FOR_SQL = frozenset({type(None), bool, int, str, bytes})
_SMALL = 2**63
NAME_MAX = 65_000  # Cassandra's keys have 65,535 bytes, the frames around a name are among them
NO_VALUE = b"\xc1"  # begins nothing in MessagePack
_encode = msgspec.msgpack.Encoder().encode
_extension = msgspec.msgpack.Ext
_length = struct.Struct(">I").pack


def _text(make: Callable[[str], Value]) -> Callable[[bytes], Value]:
    return lambda data: make(data.decode())


def _tuple(data: bytes) -> Value:
    return unpack(data)


def _frozenset(data: bytes) -> Value:
    return frozenset(unpack(data))


def _dict(data: bytes) -> Value:
    flat = unpack(data)
    return dict(zip(flat[0::2], flat[1::2], strict=True))


_DECODERS: dict[int, Callable[[bytes], Value]] = {
    1: _text(Decimal),
    2: lambda data: UUID(bytes=data),
    3: _text(date.fromisoformat),
    4: _text(int),
    5: _text(IPv4Address),
    6: _text(IPv6Address),
    7: _tuple,
    8: _frozenset,
    9: _dict,
    10: _text(duration_of),
}


def _wrap(value: Value) -> Value:
    """Return what MessagePack can hold for a value that it lacks."""
    if isinstance(value, Decimal):
        return _extension(1, str(value).encode())
    if isinstance(value, int):
        return _extension(4, str(value).encode())
    if isinstance(value, UUID):
        return _extension(2, value.bytes)
    if isinstance(value, date):
        return _extension(3, value.isoformat().encode())
    if isinstance(value, IPv4Address | IPv6Address):
        return _extension(5 if value.version == 4 else 6, str(value).encode())
    if isinstance(value, Duration):
        return _extension(10, str(value).encode())
    if isinstance(value, list | tuple):
        return _extension(7, pack(value))
    if isinstance(value, set | frozenset):
        return _extension(8, _sorted(value))
    if isinstance(value, dict):
        keys = unpack(_sorted(value))
        return _extension(9, pack([part for key in keys for part in (key, value[key])]))
    raise TypeError(f"no bytes for a {type(value).__name__}")


def _sorted(values: Iterable[Value]) -> bytes:
    return pack([v for _, v in sorted(((pack((v,)), v) for v in values), key=lambda pair: pair[0])])


def _hook(code: int, data: memoryview) -> Value:
    return _DECODERS[code](bytes(data))


_decode = msgspec.msgpack.Decoder(tuple[Any, ...], ext_hook=_hook).decode


def pack(values: Iterable[Value]) -> bytes:
    """Return the bytes of some values; equal bytes give equal values back."""
    values = tuple(values)
    if _PLAIN_OR_INT.issuperset(map(type, values)):
        try:
            return _encode(values)  # as most rows are; which way a row goes depends on its values alone
        except OverflowError:
            pass
    return _encode(
        [
            value
            if (kind := type(value)) in _PLAIN or (kind is int and -_SMALL <= value < _SMALL)
            else _extension(1, str(value).encode())  # most of what is wrapped
            if kind is Decimal
            else _wrap(value)
            for value in values
        ]
    )


def unpack(data: bytes) -> Values:
    """Return the values."""
    return _decode(data)


def pack_key(values: Iterable[Value]) -> bytes:
    """Return bytes that are equal exactly if the values are equal for SQL."""
    values = tuple(values)
    if _SAME_FOR_SQL.issuperset(map(type, values)):
        try:
            return _encode(values)
        except OverflowError:
            return pack(values)
    return pack(map(canonical, values))


def picking(places: Sequence[int]) -> Callable[[Values], Values]:
    """Return what picks the values at some places of a row."""
    if len(places) > 1:
        return itemgetter(*places)
    if not places:
        return lambda _row: ()
    (only,) = places
    return lambda row: (row[only],)


def framed(*parts: bytes) -> bytes:
    """Join parts so that one part list is a prefix of another exactly if its bytes are."""
    joined = b""
    for part in parts:
        joined += _length(len(part)) + part
    return joined


def named(name: bytes) -> bytes:
    """Return the frame of what a row of state is named by: of a name longer than Cassandra's keys its digest."""
    return framed(
        name if len(name) <= NAME_MAX else NO_VALUE + hashlib.blake2b(name, digest_size=32).digest()
    )


def beyond(prefix: bytes) -> bytes:
    """Return the smallest bytes greater than everything that begins with a prefix."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def bucket_of(key: bytes, buckets: int) -> int:
    """Return the bucket of a key; the same everywhere and for ever."""
    return zlib.crc32(key) % buckets
