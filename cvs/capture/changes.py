"""Captured changes: what one commit-log entry did to one row, with all that reconciliation needs.

Values stay the raw serialized bytes of the log: DELTA compares them as Cassandra does (later write time, then
tombstone, then larger unsigned bytes), and any detour over Python values could break a tie the other way.
`cvs.capture.values` turns them into Python values by CQL type. Nothing here reads a clock or a file.

Write times are microseconds as written; deletion times and expiries are whole seconds, as in Cassandra.
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec


class Kind(IntEnum):
    """What a change is."""

    ROW = 1  # liveness, row deletion, cells of one clustering row, in any combination
    STATIC = 2  # the same for the static row of a partition
    RANGE_DELETION = 3  # all rows between two bounds
    PARTITION_DELETION = 4
    TRUNCATION = 5  # the whole table, on this node, as of `write_time`
    SCHEMA = 6  # the table's definition is another one from here on (`definition` names the new one)
    DROPPED = 7  # the table is no more
    GAP = 8  # changes of this stream were lost before this position: views must be verified or rebuilt


class Cell(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One cell: live, expiring (`ttl`, `expires_at`) or a tombstone (`expires_at` = deletion time)."""

    column: str
    value: bytes | None  # serialized; None is a tombstone, b"" an empty value
    write_time: int
    expires_at: int | None = None
    ttl: int = 0
    path: bytes | None = None  # element of a non-frozen collection or field index of a non-frozen UDT

    @property
    def is_tombstone(self) -> bool:
        """Tell whether the cell deletes."""
        return self.value is None


class Liveness(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Row liveness: written by INSERT, not by UPDATE; what keeps a row with no cells alive."""

    write_time: int
    ttl: int = 0
    expires_at: int | None = None


class Deletion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A deletion time: everything it covers with a write time at or below is gone."""

    write_time: int
    deleted_at: int  # seconds; what gc_grace is counted from


class Bound(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One end of a range: a prefix of the clustering values; no values is the partition's end."""

    values: tuple[bytes | None, ...]
    inclusive: bool


class Range(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows between two bounds, in the table's clustering order (so a DESC column is reversed)."""

    start: Bound
    end: Bound


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One captured change. Its position is (stream, number) in the feed; `origin` is where the log had it.

    `definition` names an immutable `TableDefinition` of the feed (`feed.definition(change.definition)`).
    """

    kind: Kind
    definition: str
    key: bytes = b""  # serialized partition key, as Cassandra's token function sees it
    clustering: tuple[bytes | None, ...] = ()  # serialized clustering values of a row
    liveness: Liveness | None = None
    deletion: Deletion | None = None  # of the row, the range or the partition, by `kind`
    cells: tuple[Cell, ...] = ()
    complex_deletions: tuple[tuple[str, Deletion], ...] = ()  # column -> all its elements
    range: Range | None = None
    origin: tuple[int, int, int] = (0, 0, 0)  # segment id, offset of the entry, place in the entry
    detail: str = ""  # reason of a gap, statement-like text of a schema change

    @property
    def write_time(self) -> int:
        """Return the largest write time in the change; 0 if it has none."""
        times = [cell.write_time for cell in self.cells]
        times += [deletion.write_time for _, deletion in self.complex_deletions]
        times += [self.liveness.write_time] if self.liveness else []
        times += [self.deletion.write_time] if self.deletion else []
        return max(times, default=0)


class ColumnKind(IntEnum):
    """Where a column lives."""

    PARTITION_KEY = 0
    CLUSTERING = 1
    STATIC = 2
    REGULAR = 3


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column with its CQL type as `system_schema` spells it."""

    name: str
    type: str
    kind: ColumnKind
    position: int = -1  # place in the partition or clustering key
    descending: bool = False


class UserType(msgspec.Struct, frozen=True, kw_only=True):
    """A user-defined type of the table's keyspace, fields in order."""

    name: str
    fields: tuple[tuple[str, str], ...]


class TableDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A table as it was when a change was made; self-contained, so old changes decode after ALTER."""

    id: str  # the table id, a UUID: DROP and CREATE makes another one
    keyspace: str
    name: str
    columns: tuple[Column, ...]
    user_types: tuple[UserType, ...] = ()
    dropped: tuple[tuple[str, str, int, bool], ...] = ()  # column, type, drop time in µs, static
    counter: bool = False
    capture: bool = True  # the table option `cdc`

    @property
    def full_name(self) -> str:
        """Return `keyspace.table`."""
        return f"{self.keyspace}.{self.name}"

    def of_kind(self, kind: ColumnKind) -> tuple[Column, ...]:
        """Return the columns of a kind: key columns in key order, others by name."""
        found = (column for column in self.columns if column.kind == kind)
        return tuple(sorted(found, key=lambda column: (column.position, column.name)))

    @property
    def partition_key(self) -> tuple[Column, ...]:
        """Return the partition key columns in key order."""
        return self.of_kind(ColumnKind.PARTITION_KEY)

    @property
    def clustering(self) -> tuple[Column, ...]:
        """Return the clustering columns in key order."""
        return self.of_kind(ColumnKind.CLUSTERING)


def join_key(parts: Sequence[bytes]) -> bytes:
    """Join the serialized values of the partition key's columns: what `split_key` takes apart."""
    if len(parts) == 1:
        return parts[0]
    return b"".join(len(part).to_bytes(2, "big") + part + b"\x00" for part in parts)


def split_key(definition: TableDefinition, key: bytes) -> tuple[bytes, ...]:
    """Split a serialized partition key into the serialized values of its columns.

    One column: the bytes themselves. Several: (length u16, bytes, 0x00) each.
    """
    columns = definition.partition_key
    if len(columns) == 1:
        return (key,)
    values, at = [], 0
    for _ in columns:
        size = int.from_bytes(key[at : at + 2], "big")
        values.append(key[at + 2 : at + 2 + size])
        at += 2 + size + 1
    assert at == len(key), f"partition key of {definition.full_name} has {len(key)} bytes, columns take {at}"
    return tuple(values)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Change])


def encode_changes(changes: list[Change]) -> bytes:
    """Write changes as one MessagePack array (arrays of fields inside: the order of the fields above)."""
    return _encoder.encode(changes)


def decode_changes(data: bytes | memoryview) -> list[Change]:
    """Read what `encode_changes` wrote; anything else raises `msgspec.ValidationError`."""
    return _decoder.decode(data)
