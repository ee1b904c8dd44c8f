"""The order of clusterings, by Cassandra's comparators: by it rows lie inside a deleted slice or not."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from cvs.capture.changes import TableDefinition
from cvs.model.cql_bytes import decimal_of, decode_cql
from cvs.model.cql_type import CqlType
from cvs.programs.slices import Ordered, Place
from cvs.programs.stage_codec import unpack

NULL, EMPTY = (0,), (0, 1)
"""Null and no bytes stand before everything, whatever the type."""
KNOWN_AT_MOST = 20_000
"""Clusterings and bounds of which it is remembered what sorts them, a table."""
Component = tuple[Any, ...]


class Inside(Ordered):
    """Whether a row lies in a range deletion of a table."""

    def __init__(self, definition: TableDefinition, types: dict[str, CqlType]) -> None:
        self._columns = [(types[column.name], column.descending) for column in definition.clustering]
        self._known: dict[bytes, Place] = {}

    def sorted_by(self, clustering: bytes) -> Place:
        """Return what sorts each component, DESC columns the other way round."""
        found = self._known.get(clustering)
        if found is None:
            if len(self._known) >= KNOWN_AT_MOST:
                self._known.clear()
            found = self._known[clustering] = tuple(self._read(clustering))
        return found

    def _read(self, clustering: bytes) -> Iterator[Component]:
        for (kind, descending), data in zip(self._columns, unpack(clustering), strict=False):
            component = component_of(kind, data)
            yield (0, _Descending(component)) if descending else (0, component)


class _Descending:
    """What is greater stands before."""

    __slots__ = ("component",)

    def __init__(self, component: Component) -> None:
        self.component = component

    def __lt__(self, other: "_Descending") -> bool:
        return other.component < self.component

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.component == other.component

    def __hash__(self) -> int:
        return hash(self.component)


def component_of(kind: CqlType, data: bytes | None) -> Component:
    """Return what a value of a type is sorted by."""
    if data is None:
        return NULL
    if not data:
        return EMPTY
    return 1, _SORTED_BY.get(kind.name, _bytes)(kind, data)


def _bytes(_: CqlType, data: bytes) -> bytes:
    return data


def _number(_: CqlType, data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _double(_: CqlType, data: bytes) -> tuple[int, int]:
    """Order by the bits, as Java does: -0.0 is before 0.0, and all that is no number is one, after the others."""
    value = struct.unpack(">d" if len(data) == 8 else ">f", data)[0]
    if value != value:
        return 1, 0
    bits = int.from_bytes(data, "big")
    sign = 1 << 8 * len(data) - 1
    return 0, -(bits - sign) - 1 if bits & sign else bits


def _uuid(_: CqlType, data: bytes) -> tuple[int, int, bytes]:
    version = data[6] >> 4
    return version, _time(data) if version == 1 else 0, data


def _timeuuid(_: CqlType, data: bytes) -> tuple[int, bytes]:
    """Order what is of one moment by signed bytes, as Cassandra does for compatibility with its own past."""
    return _time(data), bytes(byte ^ 0x80 for byte in data[8:])


def _time(data: bytes) -> int:
    return int.from_bytes(bytes([data[6] & 0x0F, data[7]]) + data[4:6] + data[:4], "big")


def _fields(kind: CqlType, data: bytes) -> tuple[Component, ...]:
    """Order tuples field by field; what was left out at the end is null."""
    found = [component_of(part, raw) for part, raw in zip(kind.parts, _split(data, 0), strict=False)]
    return *found, *(NULL,) * (len(kind.parts) - len(found))


def _elements(kind: CqlType, data: bytes) -> tuple[Component, ...]:
    """Order collections element by element: of a map, key and value in turn."""
    width = len(kind.parts)
    return tuple(component_of(kind.parts[n % width], raw) for n, raw in enumerate(_split(data, 4)))


def _split(data: bytes, at: int) -> Iterator[bytes | None]:
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        yield None if size < 0 else data[at : at + size]
        at += max(size, 0)


_SORTED_BY: dict[str, Callable[[CqlType, bytes], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "varint", "timestamp"), _number),
    **dict.fromkeys(("float", "double"), _double),
    **dict.fromkeys(("tuple", "udt"), _fields),
    **dict.fromkeys(("list", "set", "map"), _elements),
    "decimal": lambda _, data: decimal_of(data),
    "uuid": _uuid,
    "timeuuid": _timeuuid,
    "vector": decode_cql,
}
"""All others (texts, blobs, dates, times, addresses) by their bytes."""
