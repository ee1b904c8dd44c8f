"""Decode a mutation's payload into changes: Cassandra's partition updates, as 4.0 and 5.0 write them.

    payload   vint count, then each update: table id (16 bytes), vint-length key, flags, header, rows
    header    three vints (least write time, deletion time, ttl: deltas below count from them), column names
    rows      flags byte, clustering, liveness, deletion, column subset, cells; flag 1 ends the partition

One decoder a table definition, prepared from it; column lists are parsed once and looked up by their bytes
after that. Everything is offsets into one bytes object: `update(data, at, ...)` returns where it stopped.
"""

from typing import NamedTuple

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
)
from cvs.capture.values import is_multi_cell, type_of, user_types_of
from cvs.model.cql_bytes import fixed_length

TIMESTAMP_EPOCH = 1_442_880_000_000_000  # Cassandra counts write times from 22 September 2015
DELETION_EPOCH = 1_442_880_000
WRAP, SIGN = 1 << 64, 1 << 63
NO_DELETION = -SIGN  # "live" as a deletion time

END, MARKER, HAS_TIMESTAMP, HAS_TTL = 0x01, 0x02, 0x04, 0x08
HAS_DELETION, ALL_COLUMNS, COMPLEX_DELETION, EXTENSION = 0x10, 0x20, 0x40, 0x80
CELL_DELETED, CELL_EXPIRING, CELL_EMPTY, CELL_ROW_TIME, CELL_ROW_TTL = 0x01, 0x02, 0x04, 0x08, 0x10
ROW_TIME_WITH_VALUE = CELL_ROW_TIME
EMPTY, REVERSED, PARTITION_DELETION, STATIC_ROW, ROW_ESTIMATE = 0x01, 0x02, 0x04, 0x08, 0x10

# Bound kinds by ordinal: (ends a range inclusively?, starts one inclusively?); None: it does not.
BOUNDS: dict[int, tuple[bool | None, bool | None]] = {
    0: (False, None),
    1: (None, True),
    2: (False, True),
    5: (True, False),
    6: (True, None),
    7: (None, False),
}


class ColumnPlan(NamedTuple):
    """What decoding needs of a column."""

    name: str
    length: int  # fixed length of a value, or -1
    is_complex: bool


class Entry:
    """The log entry being decoded, and what came out of it."""

    __slots__ = ("changes", "first", "offset", "segment")

    def __init__(self, segment: int, offset: int, changes: list[Change]) -> None:
        self.segment = segment
        self.offset = offset
        self.changes = changes
        self.first = len(changes)

    @property
    def origin(self) -> tuple[int, int, int]:
        """Return the origin of the next change."""
        return (self.segment, self.offset, len(self.changes) - self.first)


class _Update:
    """One update's header: its key and the values that its deltas count from."""

    __slots__ = ("deletion", "key", "time", "ttl")

    def __init__(self, key: bytes, time: int, deletion: int, ttl: int) -> None:
        self.key = key
        self.time = time
        self.deletion = deletion
        self.ttl = ttl


Columns = tuple[ColumnPlan, ...]


class UndecodableError(ValueError):
    """A payload that the definitions at hand cannot explain; the caller knows the position."""


def vint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned vint: the number of leading one bits says how many bytes follow."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    extra = 8 - (first ^ 0xFF).bit_length()
    end = at + 1 + extra
    return (first & (0xFF >> extra)) << (8 * extra) | int.from_bytes(data[at + 1 : end], "big"), end


def wrapped(value: int) -> int:
    """Bring a sum of 64-bit numbers back into the signed range."""
    value &= WRAP - 1
    return value - WRAP if value >= SIGN else value


class TableDecoder:
    """Decodes the updates of one table definition."""

    def __init__(self, definition: TableDefinition, reference: str) -> None:
        """Prepare plans for all columns, dropped ones included: old payloads may still name them."""
        self.definition = definition
        self.reference = reference
        self.captured = definition.capture
        user_types = user_types_of(definition)
        self._clustering = [fixed_length(type_of(c.type, user_types)) for c in definition.clustering]
        self._plans: dict[bytes, ColumnPlan] = {}
        names = [(name, text) for name, text, _, _ in definition.dropped]
        names += [
            (c.name, c.type) for c in definition.columns if c.kind in (ColumnKind.STATIC, ColumnKind.REGULAR)
        ]
        for name, text in names:
            kind = type_of(text, user_types)
            self._plans[name.encode()] = ColumnPlan(name, fixed_length(kind), is_multi_cell(kind))
        self._last_block = b"\x00"
        self._last_columns: Columns = ()

    def update(self, data: bytes, at: int, entry: Entry) -> int:
        """Decode one update whose table id ends at `at`, append its changes, and return where it ends."""
        size, at = vint(data, at)
        key = data[at : at + size]
        at += size
        flags = data[at]
        at += 1
        if flags & REVERSED:
            raise UndecodableError("an update in reversed order")
        if flags & EMPTY:
            return at
        update, at = _header(key, data, at)
        statics: Columns = ()
        if flags & STATIC_ROW:
            statics, at = self._columns(data, at)
        columns, at = self._columns(data, at)
        if flags & PARTITION_DELETION:
            deletion, at = _deletion(data, at, update)
            change = Change(
                Kind.PARTITION_DELETION, self.reference, key, deletion=deletion, origin=entry.origin
            )
            entry.changes.append(change)
        if flags & STATIC_ROW:
            if data[at] & (EXTENSION | MARKER) != EXTENSION or not data[at + 1] & 1:
                raise UndecodableError("a static row without its flag")
            at = self._row(data, at + 2, data[at], update, columns=statics, entry=entry, is_static=True)
        if flags & ROW_ESTIMATE:
            _, at = vint(data, at)
        return self._rows(data, at, update, columns=columns, entry=entry)

    def _rows(self, data: bytes, at: int, update: _Update, *, columns: Columns, entry: Entry) -> int:
        opened: _Opened | None = None
        while not (flags := data[at]) & END:
            at += 1
            if flags & MARKER:
                opened, at = self._marker(data, at, update, opened=opened, entry=entry)
                continue
            if flags & EXTENSION:
                at += 1  # only native views set its flag (shadowable), and it changes nothing in the layout
            at = self._row(data, at, flags, update, columns=columns, entry=entry, is_static=False)
        if opened:
            raise UndecodableError("a range deletion without its end")
        return at + 1

    def _row(
        self,
        data: bytes,
        at: int,
        flags: int,
        update: _Update,
        *,
        columns: Columns,
        entry: Entry,
        is_static: bool,
    ) -> int:
        clustering: tuple[bytes | None, ...] = ()
        if not is_static and self._clustering:
            clustering, at = _values(data, at, self._clustering)
        liveness = deletion = None
        time = ttl = 0
        expires = None
        if flags & HAS_TIMESTAMP:
            time, at = vint(data, at)
            time = wrapped(time + update.time)
            if flags & HAS_TTL:
                ttl, at = vint(data, at)
                expires, at = vint(data, at)
                ttl, expires = wrapped(ttl + update.ttl), wrapped(expires + update.deletion)
            liveness = Liveness(time, ttl, expires)
        if flags & HAS_DELETION:
            deletion, at = _deletion(data, at, update)
        if not flags & ALL_COLUMNS:
            columns, at = _subset(data, at, columns)
        cells: list[Cell] = []
        dropped: list[tuple[str, Deletion]] = []
        for column in columns:
            name, length, is_complex = column
            if is_complex:
                at = _complex(
                    data, at, update, column=column, liveness=liveness, into=(cells, dropped, flags)
                )
            elif data[at] == ROW_TIME_WITH_VALUE:  # what nearly every cell of an INSERT is
                at += 1
                if length < 0:
                    length, at = vint(data, at)
                cells.append(Cell(name, data[at : at + length], time))
                at += length
            else:
                at = _cell(data, at, update, column=column, liveness=liveness, into=cells)
        kind = Kind.STATIC if is_static else Kind.ROW
        changes = entry.changes
        changes.append(
            Change(
                kind,
                self.reference,
                update.key,
                clustering,
                liveness,
                deletion,
                tuple(cells),
                tuple(dropped),
                None,
                (entry.segment, entry.offset, len(changes) - entry.first),
            )
        )
        return at

    def _marker(
        self, data: bytes, at: int, update: _Update, *, opened: "_Opened | None", entry: Entry
    ) -> "tuple[_Opened | None, int]":
        """Read a bound: it ends the open range, starts another, or both (a boundary)."""
        if data[at] not in BOUNDS:
            raise UndecodableError(f"a bound of kind {data[at]}")
        ends, starts = BOUNDS[data[at]]
        size = int.from_bytes(data[at + 1 : at + 3], "big")
        values, at = _values(data, at + 3, self._clustering[:size])
        if ends is not None:
            end_deletion, at = _deletion(data, at, update)
            if opened is None or opened.deletion != end_deletion:
                raise UndecodableError("a range ends that was not open")
            span = Range(opened.bound, Bound(values, ends))
            change = Change(
                Kind.RANGE_DELETION,
                self.reference,
                update.key,
                deletion=end_deletion,
                range=span,
                origin=entry.origin,
            )
            entry.changes.append(change)
        if starts is None:
            return None, at
        deletion, at = _deletion(data, at, update)
        return _Opened(Bound(values, starts), deletion), at

    def _columns(self, data: bytes, at: int) -> tuple[Columns, int]:
        """Read a column list; most updates of a table have the same one as the update before."""
        if data.startswith(self._last_block, at):
            return self._last_columns, at + len(self._last_block)
        start = at
        count, at = vint(data, at)
        plans = []
        for _ in range(count):
            size, at = vint(data, at)
            name = data[at : at + size]
            at += size
            if name not in self._plans:
                raise UndecodableError(f"a column that {self.definition.full_name} never had: {name!r}")
            plans.append(self._plans[name])
        self._last_block, self._last_columns = data[start:at], tuple(plans)
        return self._last_columns, at


class _Opened(NamedTuple):
    bound: Bound
    deletion: Deletion


def _header(key: bytes, data: bytes, at: int) -> tuple[_Update, int]:
    time, at = vint(data, at)
    deletion, at = vint(data, at)
    ttl, at = vint(data, at)
    return _Update(key, wrapped(time + TIMESTAMP_EPOCH), wrapped(deletion + DELETION_EPOCH), ttl), at


def _deletion(data: bytes, at: int, update: _Update) -> tuple[Deletion, int]:
    time, at = vint(data, at)
    deleted_at, at = vint(data, at)
    return Deletion(wrapped(time + update.time), wrapped(deleted_at + update.deletion)), at


def _values(data: bytes, at: int, lengths: list[int]) -> tuple[tuple[bytes | None, ...], int]:
    """Read clustering values: in front of every 32 of them two bits each say empty (1) or null (2)."""
    values: list[bytes | None] = []
    bits = 0
    for index, length in enumerate(lengths):
        if index % 32 == 0:
            bits, at = vint(data, at)
        state = bits & 3
        bits >>= 2
        if state:
            values.append(b"" if state == 1 else None)
            continue
        if length < 0:
            length, at = vint(data, at)
        values.append(data[at : at + length])
        at += length
    return tuple(values), at


def _subset(data: bytes, at: int, columns: Columns) -> tuple[Columns, int]:
    """Read which of the header's columns a row has: a bitmap of the missing, or (64 and more) a list."""
    encoded, at = vint(data, at)
    if len(columns) < 64:
        if encoded >> len(columns):
            raise UndecodableError("a column subset beyond its columns")
        return tuple(c for i, c in enumerate(columns) if not encoded >> i & 1), at
    present = len(columns) - encoded
    list_present = present < len(columns) // 2
    listed = []
    for _ in range(present if list_present else encoded):
        index, at = vint(data, at)
        listed.append(index)
    if list_present:
        return tuple(columns[i] for i in listed), at
    missing = set(listed)
    return tuple(c for i, c in enumerate(columns) if i not in missing), at


def _cell(
    data: bytes, at: int, update: _Update, *, column: ColumnPlan, liveness: Liveness | None, into: list[Cell]
) -> int:
    """Read one cell with whatever its flags say it has."""
    flags = data[at]
    at += 1
    if flags & ~0x1F:
        raise UndecodableError(f"unknown flags {flags:#x} of a cell of {column.name}")
    if flags & (CELL_ROW_TIME | CELL_ROW_TTL) and liveness is None:
        raise UndecodableError(f"a cell of {column.name} refers to a liveness that its row lacks")
    if flags & CELL_ROW_TIME and liveness:
        time = liveness.write_time
    else:
        time, at = vint(data, at)
        time = wrapped(time + update.time)
    expires, ttl = None, 0
    if flags & CELL_ROW_TTL and liveness:
        expires, ttl = liveness.expires_at, liveness.ttl
    elif flags & (CELL_DELETED | CELL_EXPIRING):
        expires, at = vint(data, at)
        expires = wrapped(expires + update.deletion)
        if flags & CELL_EXPIRING:
            ttl, at = vint(data, at)
            ttl = wrapped(ttl + update.ttl)
    path = None
    if column.is_complex:
        size, at = vint(data, at)
        path = data[at : at + size]
        at += size
    value = b""
    if not flags & CELL_EMPTY:
        size = column.length
        if size < 0:
            size, at = vint(data, at)
        value = data[at : at + size]
        at += size
    into.append(Cell(column.name, None if flags & CELL_DELETED else value, time, expires, ttl, path))
    return at


def _complex(
    data: bytes,
    at: int,
    update: _Update,
    *,
    column: ColumnPlan,
    liveness: Liveness | None,
    into: tuple[list[Cell], list[tuple[str, Deletion]], int],
) -> int:
    """Read a column with a cell an element, and the deletion of all its older elements if there is one."""
    cells, dropped, flags = into
    if flags & COMPLEX_DELETION:
        deletion, at = _deletion(data, at, update)
        if deletion.write_time != NO_DELETION:
            dropped.append((column.name, deletion))
    count, at = vint(data, at)
    for _ in range(count):
        at = _cell(data, at, update, column=column, liveness=liveness, into=cells)
    return at
