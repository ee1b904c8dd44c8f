"""Base tables: from captured changes to DELTA's input, and from DELTA's images to rows.

Only here are serialized values read: DELTA itself compares bytes. Clusterings travel as packed tuples of
serialized values; paths of collection elements carry a leading dot, so that an empty one is still a path.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, timedelta
from functools import partial
from operator import itemgetter
from uuid import UUID

from cvs.capture import changes as captured
from cvs.capture.changes import Change, Kind, TableDefinition, split_key
from cvs.capture.values import type_of, user_types_of
from cvs.errors import SpecificationError
from cvs.model.cql_bytes import decimal_of, decode_cql
from cvs.model.cql_type import CqlType
from cvs.model.types import EPOCH, normal
from cvs.model.values import fitting
from cvs.model.views import BaseTable
from cvs.programs.delta import (
    NEVER,
    ROW_BYTES_MAX,
    SNAPSHOT,
    TOO_LARGE,
    Cell,
    Deletion,
    Liveness,
    PartitionImage,
    RangeDeletion,
    RowImage,
    Visible,
    no_ranges,
)
from cvs.programs.epoch_run import BaseReader
from cvs.programs.stage_codec import Value, Values, pack, unpack
from cvs.programs.stage_delta import DeltaInput, PartitionChanges
from cvs.stream.clusterings import Inside

PATH = b"."
COLUMN_AND_PATH = itemgetter(0, 1)
STOPS = {
    Kind.TRUNCATION: "the table was truncated",
    Kind.DROPPED: "the table was dropped",
    Kind.GAP: "changes were lost before they could be captured",
}
"""What no epoch can follow: the views of the table are broken until they are built anew."""
MADE_ANEW = "the table was dropped and made anew"
UNLIKE_ROWS = {Kind.SCHEMA, *STOPS}


def base_table(definition: TableDefinition) -> BaseTable:
    """Return a captured table as the model's words have it."""
    return BaseTable(
        name=definition.full_name,
        columns=tuple((name, str(kind)) for name, kind in types_of(definition).items()),
        partition_key=tuple(column.name for column in definition.partition_key),
        clustering_key=tuple(column.name for column in definition.clustering),
    )


def types_of(definition: TableDefinition) -> dict[str, CqlType]:
    """Return the parsed type of each column, user types spelled out."""
    user_types = user_types_of(definition)
    return {column.name: type_of(column.type, user_types) for column in definition.columns}


def base_reader(
    definition: TableDefinition,
    table: BaseTable,
    *,
    delta: str,
    buckets: int,
    read: Collection[str] | None = None,
) -> BaseReader:
    """Return what only the schema knows: how to decode rows and to compare clusterings.

    `read`: the columns that are decoded beside the key (None: all); the others are null in every row.
    """
    decoder = _RowDecoder(definition, table, read)
    clustered = bool(definition.clustering)
    return BaseReader(
        name=table.name,
        delta=delta,
        buckets=buckets,
        decode=decoder.row,
        headers=clustered,
        inside=Inside(definition, decoder.types) if clustered else no_ranges,
    )


def delta_input(
    changes: Iterable[Change],
    definitions: Mapping[str, TableDefinition],
    *,
    tables: Iterable[str] = (),
    reads: Mapping[str, Collection[str]] | None = None,
    begun: int = 0,
    identities: Mapping[str, str] | None = None,
) -> tuple[dict[str, DeltaInput], dict[str, str]]:
    """Sort captured changes by base table, partition and row; `definitions` by the references in them.

    Of columns that no view reads (`reads`) DELTA learns when they were written, which says whether a row is there, and
    not what: values that nobody asks for can be large.

    Beside it: which tables nothing can follow any more, and why; of a column that the views read and that
    went, `table.column`. A gap may have lost changes of any table; a table that was truncated before the build began
    (`begun`, microseconds) was scanned as it is. Of a table with another id than the one that is followed
    (`identities`: it had the name before, and what is left of it in the log may come late) nothing counts.
    """
    identities = identities or {}
    found: dict[str, DeltaInput] = {}
    stopped: dict[str, str] = {}
    followed: dict[str, tuple[DeltaInput, bool, Collection[str] | None]] = {}  # by definition: asked once
    for change in changes:
        if change.kind is Kind.GAP:
            stopped.update({table: _reason(change) for table in tables})
            continue
        known = followed.get(change.definition)
        if known is None or change.kind in UNLIKE_ROWS:
            definition = definitions.get(change.definition)
            if definition is None or identities.get(definition.full_name, definition.id) != definition.id:
                continue
            if change.kind is Kind.SCHEMA:
                stopped |= _gone(definition, (reads or {}).get(definition.full_name, ()))
                continue
            if change.kind is Kind.TRUNCATION and change.deletion and _surely_before(change.deletion, begun):
                continue
            if change.kind in STOPS:
                stopped[definition.full_name] = _reason(change)
                continue
            read = None if reads is None else reads.get(definition.full_name)
            known = (found.setdefault(definition.full_name, {}), bool(definition.clustering), read)
            followed[change.definition] = known
        partitions, clustered, read = known
        partition = partitions.get(change.key)
        if partition is None:
            partition = partitions[change.key] = PartitionChanges()
        _take(change, partition, clustered=clustered, read=read)
    return found, stopped


def made_anew(built: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return which tables have another id than those that were built from, and why that stops them."""
    return {name: MADE_ANEW for name, id_ in built.items() if now.get(name, id_) != id_}


def _gone(definition: TableDefinition, read: Iterable[str]) -> dict[str, str]:
    """Return the columns that views read and a table has no more."""
    left = {column.name for column in definition.columns}
    return {f"{definition.full_name}.{name}": "the column was dropped" for name in read if name not in left}


def _surely_before(truncation: captured.Deletion, moment: int) -> bool:
    return truncation.write_time + 1000 <= moment  # because the node says it in whole milliseconds


def _reason(change: Change) -> str:
    return f"{STOPS[change.kind]}{': ' if change.detail else ''}{change.detail}"


def _take(change: Change, into: PartitionChanges, *, clustered: bool, read: Collection[str] | None) -> None:
    match change.kind:
        case Kind.ROW:
            clustering = pack(change.clustering) if clustered else b""
            into.rows.setdefault(clustering, []).append(image_of(change, read))
        case Kind.STATIC:
            into.header.append(PartitionImage(statics=image_of(change, read)))
        case Kind.PARTITION_DELETION:
            deletion = _deletion(change.deletion)
            if clustered:
                into.header.append(PartitionImage(deletion=deletion))
            else:  # because without clustering the partition is the row, and needs no record of its own
                into.rows.setdefault(b"", []).append(RowImage(deletion=deletion))
        case Kind.RANGE_DELETION:
            into.header.append(PartitionImage(ranges=(_range(change),)))
        case _:
            raise AssertionError(f"a change of kind {change.kind.name} is no change of rows")


def image_of(change: Change, read: Collection[str] | None = None) -> RowImage:
    """Return what a change wrote of its row, or its partition's statics; `read`: whose values are kept (None: all)."""
    whole = (
        change.detail.split("\0") if change.detail else ()
    )  # lists that a scan read as a whole (`scanned.py`)
    cells = [
        (
            it.column,
            PATH + it.path if it.path is not None else SNAPSHOT if it.column in whole else b"",
            _cell(it, it.value if read is None or it.column in read else it.value and b""),
        )
        for it in change.cells
    ]
    complex_deletions = [(column, _deletion(it)) for column, it in change.complex_deletions]
    liveness = change.liveness
    return RowImage(
        None if liveness is None else Liveness(liveness.write_time, liveness.ttl, _end(liveness.expires_at)),
        _deletion(change.deletion) if change.deletion else None,
        tuple(sorted(cells, key=COLUMN_AND_PATH)),
        tuple(sorted(complex_deletions)),
    )


def _cell(it: captured.Cell, value: bytes | None) -> Cell:
    return Cell(it.write_time, value, it.ttl, _end(it.expires_at))


def _end(second: int | None) -> int:
    return NEVER if second is None else second


def _deletion(it: captured.Deletion | None) -> Deletion:
    assert it is not None, "a deletion without its time"
    return Deletion(it.write_time, it.deleted_at)


def _range(change: Change) -> RangeDeletion:
    assert change.range is not None, "a range deletion without its range"
    start, end = change.range.start, change.range.end
    return RangeDeletion(
        pack(start.values), start.inclusive, pack(end.values), end.inclusive, _deletion(change.deletion)
    )


Decode = Callable[[bytes], Value]
DAY_ZERO = (1 << 31) - date(1970, 1, 1).toordinal()
"""What CQL's count of days is ahead of Python's."""

FAST: dict[str, Decode] = {
    "text": bytes.decode,
    "varchar": bytes.decode,
    "ascii": bytes.decode,
    "int": lambda data: int.from_bytes(data, "big", signed=True) if data else None,
    "bigint": lambda data: int.from_bytes(data, "big", signed=True) if data else None,
    "boolean": lambda data: data != b"\x00" if data else None,
    "date": lambda data: date.fromordinal(int.from_bytes(data, "big") - DAY_ZERO) if data else None,
    "timestamp": lambda data: (
        EPOCH + timedelta(milliseconds=int.from_bytes(data, "big", signed=True)) if data else None
    ),
    "decimal": lambda data: fitting(decimal_of(data)) if data else None,
}
"""Short cuts past the general decoder, for what most columns are; what they cannot read is left to it."""


class _RowDecoder:
    """Decodes keys and visible columns of one table."""

    def __init__(
        self, definition: TableDefinition, table: BaseTable, read: Collection[str] | None = None
    ) -> None:
        self.types = types_of(definition)
        names = [name for name, _ in table.columns]
        if unknown := [name for name in names if name not in self.types]:
            raise SpecificationError(f"{table.name} has no column {unknown[0]}", where=table.name)
        self._partition = [column.name for column in definition.partition_key]
        self._key_parts = (
            (lambda key: (key,)) if len(self._partition) == 1 else partial(split_key, definition)
        )
        self.clustering = [column.name for column in definition.clustering]
        self._place = {name: i for i, name in enumerate(names)}
        self._width = len(names)
        self._general: dict[str, Decode] = {name: partial(decode_cql, self.types[name]) for name in names}
        self._fast = {
            name: FAST.get(self.types[name].name, general) for name, general in self._general.items()
        }
        self._read = [name for name in names if name not in table.key and (read is None or name in read)]

    def row(self, partition: bytes, clustering: bytes, visible: Visible) -> Values:
        """Return a row in the order of the table's columns."""
        if TOO_LARGE in visible:
            size = int(bytes(visible[TOO_LARGE]))  # type: ignore[arg-type]  # as it was put
            raise SpecificationError(
                f"{size:,} bytes are in the columns that views read; rows of up to {ROW_BYTES_MAX:,} are kept"
            )
        try:
            return self._row(partition, clustering, visible, self._fast)
        except (ValueError, OverflowError):
            return self._row(partition, clustering, visible, self._general)  # which says what is wrong

    def _row(
        self, partition: bytes, clustering: bytes, visible: Visible, decoders: Mapping[str, Decode]
    ) -> Values:
        row: list[Value] = [None] * self._width
        for name, data in zip(self._partition, self._key_parts(partition), strict=True):
            row[self._place[name]] = decoders[name](data)
        if clustering:
            for name, part in zip(self.clustering, unpack(clustering), strict=True):
                row[self._place[name]] = None if part is None else decoders[name](part)
        for name in self._read:
            stored = visible.get(name)
            if stored is not None:
                row[self._place[name]] = (
                    decoders[name](stored) if isinstance(stored, bytes) else self._elements(name, stored)
                )
        return tuple(row)

    def _elements(self, name: str, cells: Iterable[tuple[bytes, bytes]]) -> Value:
        """Return a non-frozen collection or user type from its live cells."""
        kind = self.types[name]
        found = [(path[len(PATH) :], value) for path, value in cells]
        if kind.name == "list":
            whole = [item for path, value in found if not path for item in decode_cql(kind, value) or ()]
            later = sorted((cell for cell in found if cell[0]), key=lambda cell: UUID(bytes=cell[0]).time)
            return (*whole, *(decode_cql(kind.parts[0], value) for _, value in later))
        if kind.name == "set":
            return normal(kind, [decode_cql(kind.parts[0], path) for path, _ in found])
        if kind.name == "map":
            key, value = kind.parts
            return normal(kind, {decode_cql(key, path): decode_cql(value, data) for path, data in found})
        fields = {int.from_bytes(path, "big"): data for path, data in found}
        return tuple(decode_cql(part, fields.get(i)) for i, part in enumerate(kind.parts))
