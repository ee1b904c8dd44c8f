"""From named values to a change: what the feeds that others fill (outbox, Debezium) have in common.

Values are taken in any form that `model.types.normal` knows and become the bytes Cassandra would keep.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from cvs.capture.changes import (
    Bound,
    Cell,
    Change,
    ColumnKind,
    Deletion,
    Kind,
    Liveness,
    Range,
    TableDefinition,
    join_key,
)
from cvs.capture.values import is_multi_cell, type_of, user_types_of
from cvs.errors import HistoryError
from cvs.model.cql_bytes import encode_cql
from cvs.model.cql_type import CqlType
from cvs.model.types import normal

Values = Mapping[str, Any]

NOTHING = Change(Kind.ROW, "")  # stands at a position that says nothing of any table
_TIMEUUID_EPOCH = 0x01B21DD213814000  # 1970 in the 100 ns steps since 1582 that a time UUID counts


class ChangeMaker:
    """Makes changes of one table."""

    def __init__(self, definition: TableDefinition, reference: str) -> None:
        """Parse the table's types once."""
        self.definition = definition
        self.reference = reference
        user_types = user_types_of(definition)
        self.types = {column.name: type_of(column.type, user_types) for column in definition.columns}
        self._statics = {column.name for column in definition.of_kind(ColumnKind.STATIC)}

    def write(
        self,
        key: Values,
        values: Values,
        *,
        time: int,
        inserts: bool,
        expiries: Mapping[str, tuple[int, int]],
        origin: tuple[int, int, int],
    ) -> Change:
        """Make an insert or update; `expiries` gives (ttl, second of expiry) of columns that have them."""
        clustering = self._clustering(key)
        is_static = bool(self.definition.clustering) and not clustering
        if is_static and not values.keys() <= self._statics:
            raise HistoryError(
                "a write of a row names its whole primary key", where=self.definition.full_name
            )
        if self.definition.clustering and not is_static and len(clustering) < len(self.definition.clustering):
            raise HistoryError(
                "a write names only a part of its clustering key", where=self.definition.full_name
            )
        ttl, expiry = next(iter(expiries.values()), (0, None))
        dropped, cells = [], []
        for name, value in sorted(values.items()):
            if is_multi_cell(self._type(name)):
                dropped.append((name, Deletion(time - 1, time // 1_000_000)))
                cells += self._elements(name, value, time, expiries.get(name))
            else:
                cells.append(_cell(name, encode_cql(self._type(name), value), time, expiries.get(name)))
        return Change(
            Kind.STATIC if is_static else Kind.ROW,
            self.reference,
            self._key(key),
            () if is_static else clustering,
            Liveness(time, ttl, expiry) if inserts and not is_static else None,
            cells=tuple(cells),
            complex_deletions=tuple(dropped),
            origin=origin,
        )

    def deletion(self, key: Values, *, time: int, origin: tuple[int, int, int]) -> Change:
        """Make the deletion of a row, of the rows under a clustering prefix, or of a partition."""
        clustering = self._clustering(key)
        deletion = Deletion(time, time // 1_000_000)
        if not clustering:
            return Change(
                Kind.PARTITION_DELETION, self.reference, self._key(key), deletion=deletion, origin=origin
            )
        if len(clustering) == len(self.definition.clustering):
            return Change(
                Kind.ROW, self.reference, self._key(key), clustering, deletion=deletion, origin=origin
            )
        return self.range_deletion(
            key, Range(Bound(clustering, True), Bound(clustering, True)), time=time, origin=origin
        )

    def range_deletion(self, key: Values, span: Range, *, time: int, origin: tuple[int, int, int]) -> Change:
        """Make the deletion of a range of rows."""
        return Change(
            Kind.RANGE_DELETION,
            self.reference,
            self._key(key),
            deletion=Deletion(time, time // 1_000_000),
            range=span,
            origin=origin,
        )

    def bound(self, values: Values, *, inclusive: bool) -> Bound:
        """Make an end of a range from the clustering values it names."""
        return Bound(self._clustering(values), inclusive)

    def _type(self, name: str) -> CqlType:
        if name not in self.types:
            raise HistoryError(f"there is no column {name!r}", where=self.definition.full_name)
        return self.types[name]

    def _key(self, key: Values) -> bytes:
        parts = []
        for column in self.definition.partition_key:
            part = encode_cql(self._type(column.name), key.get(column.name))
            if part is None:
                raise HistoryError(f"the key lacks {column.name}", where=self.definition.full_name)
            parts.append(part)
        return join_key(parts)

    def _clustering(self, key: Values) -> tuple[bytes | None, ...]:
        """Return the leading clustering values that a key has."""
        given = [key.get(column.name) for column in self.definition.clustering]
        while given and given[-1] is None:
            given.pop()
        names = [column.name for column in self.definition.clustering]
        if None in given:
            raise HistoryError("a clustering key has a hole", where=self.definition.full_name)
        return tuple(encode_cql(self._type(n), v) for n, v in zip(names, given, strict=False))

    def _elements(self, name: str, value: Any, time: int, expiry: tuple[int, int] | None) -> list[Cell]:
        """Spread a whole collection or user type over its cells."""
        kind = self._type(name)
        whole = normal(kind, value)
        if whole is None:
            return []
        match kind.name:
            case "map":
                pairs = [(encode_cql(kind.parts[0], k), encode_cql(kind.parts[1], v)) for k, v in whole]
            case "set":
                pairs = [(encode_cql(kind.parts[0], item), b"") for item in whole]
            case "list":
                pairs = [
                    (_list_path(time, place), encode_cql(kind.parts[0], v)) for place, v in enumerate(whole)
                ]
            case _:
                fields = zip(kind.parts, whole, strict=True)
                pairs = [(n.to_bytes(2, "big"), encode_cql(part, v)) for n, (part, v) in enumerate(fields)]
        return [_cell(name, data, time, expiry, path) for path, data in pairs]


def _cell(
    name: str, data: bytes | None, time: int, expiry: tuple[int, int] | None, path: bytes | None = None
) -> Cell:
    if data is None:
        return Cell(name, None, time, time // 1_000_000, 0, path)
    ttl, expires_at = expiry or (0, None)
    return Cell(name, data, time, expires_at, ttl, path)


def _list_path(time: int, place: int) -> bytes:
    """Make the time UUID that orders a list element: its write's time, then its place."""
    steps = time * 10 + _TIMEUUID_EPOCH
    low, middle, high = steps & 0xFFFFFFFF, steps >> 32 & 0xFFFF, steps >> 48 & 0x0FFF
    return UUID(fields=(low, middle, high | 0x1000, 0x80 | place >> 8 & 0x3F, place & 0xFF, 0)).bytes
