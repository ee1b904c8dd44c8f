"""Rows of a base table, read with write times and expiries, as captured changes: what a build puts into the feed.

Values stay the bytes Cassandra sent, so DELTA merges them with captured cells byte for byte, in any order (H17).
CQL hides two things. *Row liveness* (H18): a row with live cells gets one older than anything, `ASSUMED`; a row
without any was there by its own, `CONFIRMED`. *Paths of list elements*: a list comes as one cell, `SNAPSHOT`.
Deletions are not readable at all, and need not be: what they hid is not in the answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cvs.capture.changes import (
    Cell,
    Change,
    Column,
    ColumnKind,
    Deletion,
    Kind,
    Liveness,
    TableDefinition,
    join_key,
)
from cvs.capture.values import EMPTY, is_multi_cell, type_of, user_types_of
from cvs.model.layout import quoted
from cvs.programs.delta import ASSUMED, CONFIRMED, EXPIRED_TTL, Doubt, RowImage

RawRow = Sequence[bytes | None]
ASKED_AGAIN_SECONDS = 3600
"""How long a row without any live cell is believed: CQL does not tell whether its liveness will expire."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is asked of a base table, and how a row of the answer becomes changes."""

    definition: TableDefinition
    reference: str  # the definition's name in the feed

    @cached_property
    def key(self) -> tuple[Column, ...]:
        """Return partition and clustering columns."""
        return (*self.definition.partition_key, *self.definition.clustering)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that have cells, statics first."""
        kinds = (ColumnKind.STATIC, ColumnKind.REGULAR)
        found = (column for kind in kinds for column in self.definition.of_kind(kind))
        return tuple(column for column in found if column.type != EMPTY)  # no statement may name a hidden one

    @cached_property
    def select(self) -> str:
        """Return the statement up to its condition: token, now, key, then (value, write times, lives) a column."""
        asked = [self.token, "to_unix_timestamp(now())", *(quoted(column.name) for column in self.key)]
        for name in (quoted(column.name) for column in self.columns):
            asked += [name, f"writetime({name})", f"ttl({name})"]
        table = f"{quoted(self.definition.keyspace)}.{quoted(self.definition.name)}"
        return f"SELECT {', '.join(asked)} FROM {table}"

    @cached_property
    def token(self) -> str:
        """Return the expression that orders a scan."""
        return f"token({', '.join(quoted(column.name) for column in self.definition.partition_key)})"

    def partition(self, row: RawRow) -> bytes:
        """Return the serialized partition key of a row."""
        return join_key([part or b"" for part in row[2 : 2 + len(self.definition.partition_key)]])

    def second(self, row: RawRow) -> int:
        """Return the moment at which a row was read."""
        return _number(row[1]) // 1000

    def list_floors(self, image: RowImage) -> Doubt:
        """Name the lists of an image with the latest write known of each, by which they are read as a whole."""
        lists = {column.name for column in self.columns if self._split.get(column.name) == "list"}
        latest: dict[str, int] = {}
        for column, _, cell in image.cells:
            if column in lists:
                latest[column] = max(cell.written, latest.get(column, cell.written))
        return tuple(sorted(latest.items()))

    def changes(
        self, row: RawRow, *, statics: bool, floors: Mapping[str, int] | None = None
    ) -> Iterator[Change]:
        """Return a row as changes: its own, and (if `statics`) those of its partition.

        `floors`: lists in doubt, with the latest write known of each: what is read now is newer.
        """
        found = _Cells(row, floors or {})
        place = 2 + len(self.key)
        for column in self.columns:
            if statics or column.kind != ColumnKind.STATIC:
                found.take(column, self._split.get(column.name, ""), place)
            place += 3
        key = self.partition(row)
        if statics and found.statics.any:
            yield self._change(Kind.STATIC, key, (), found.statics, None)
        first = 2 + len(self.definition.partition_key)
        clustering = tuple(row[first : 2 + len(self.key)])
        if clustering and clustering[0] is None:
            return  # because a partition that has only statics answers with one row of nulls
        yield self._change(Kind.ROW, key, clustering, found.regulars, found.liveness())

    def absent(self, key: bytes, clustering: tuple[bytes | None, ...], floors: Mapping[str, int]) -> Change:
        """Return what is known of a row that was read again and is not there."""
        none = _Part(deletions=[(name, Deletion(floor, 0)) for name, floor in floors.items()])
        return self._change(Kind.ROW, key, clustering, none, Liveness(CONFIRMED, EXPIRED_TTL, 0))

    def _change(
        self,
        kind: Kind,
        key: bytes,
        clustering: tuple[bytes | None, ...],
        part: "_Part",
        liveness: Liveness | None,
    ) -> Change:
        return Change(
            kind=kind,
            definition=self.reference,
            key=key,
            clustering=clustering,
            liveness=liveness,
            cells=tuple(part.cells),
            detail="\0".join(part.wholes),
            complex_deletions=tuple(part.deletions),
        )

    @cached_property
    def _split(self) -> Mapping[str, str]:
        """Return the columns whose value is kept in several cells: as a list, set, map or user type."""
        types = user_types_of(self.definition)
        kinds = ((column.name, type_of(column.type, types)) for column in self.columns)
        return {name: kind.name for name, kind in kinds if is_multi_cell(kind)}


class _Part:
    """Cells of a row, or of the statics of a partition."""

    def __init__(self, deletions: list[tuple[str, Deletion]] | None = None) -> None:
        self.cells: list[Cell] = []
        self.deletions = deletions or []
        self.wholes: list[str] = []  # lists that are one cell

    @property
    def any(self) -> bool:
        return bool(self.cells or self.deletions)


class _Cells:
    """The cells of one answered row."""

    def __init__(self, row: RawRow, floors: Mapping[str, int]) -> None:
        self._row, self._floors = row, floors
        self._now = _number(row[1]) // 1000
        self.statics, self.regulars = _Part(), _Part()

    def take(self, column: Column, split: str, place: int) -> None:
        """Take one column's value, write times and lives."""
        part = self.statics if column.kind == ColumnKind.STATIC else self.regulars
        value, times, lives = self._row[place : place + 3]
        if split == "list":
            self._list(part, column.name, value, times, lives)
        elif value is None:
            return
        elif not split:
            part.cells.append(self._cell(column.name, value, _number(times), lives, None))
        else:
            elements = _elements(split, value)
            written, left = items(times), items(lives)
            for (path, data), at, ttl in zip(elements, written, left, strict=True):
                if data is not None and at is not None:
                    part.cells.append(self._cell(column.name, data, _number(at), ttl, path))

    def _list(
        self, part: _Part, name: str, value: bytes | None, times: bytes | None, lives: bytes | None
    ) -> None:
        written = [_number(at) for at in items(times)] if value is not None else []
        known = [*written, *([self._floors[name]] if name in self._floors else [])]
        if not known:
            return
        part.deletions.append((name, Deletion(max(known), 0)))
        if value is not None:
            shortest = min((ttl for ttl in items(lives) if ttl is not None), key=_number, default=None)
            part.cells.append(self._cell(name, value, max(known) + 1, shortest, None))
            part.wholes.append(name)

    def _cell(self, name: str, value: bytes, written: int, ttl: bytes | None, path: bytes | None) -> Cell:
        left = 0 if ttl is None else _number(ttl)
        return Cell(name, value, written, self._now + left if left else None, left, path)

    def liveness(self) -> Liveness:
        """Return the row's liveness as far as it can be guessed: without any cell it is certain."""
        cells = self.regulars.cells
        if not cells:
            return Liveness(CONFIRMED, 1, self._now + ASKED_AGAIN_SECONDS)
        ends = [cell.expires_at for cell in cells]
        if None in ends:
            return Liveness(ASSUMED)
        return Liveness(ASSUMED, max(cell.ttl for cell in cells), max(end or 0 for end in ends))


def items(data: bytes | None) -> list[bytes | None]:
    """Split a serialized collection into its values."""
    return [] if data is None else _values(data, 4)  # because its first four bytes say how many there are


def _values(data: bytes, at: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        found.append(None if size < 0 else data[at : at + size])
        at += max(size, 0)
    return found


def _elements(split: str, value: bytes) -> list[tuple[bytes, bytes | None]]:
    """Return (path, value) of each cell of a set, map or user type."""
    if split == "udt":
        return [(i.to_bytes(2, "big"), data) for i, data in enumerate(_values(value, 0))]
    if split == "set":
        return [(path or b"", b"") for path in items(value)]
    flat = items(value)
    return [(path or b"", data) for path, data in zip(flat[0::2], flat[1::2], strict=True)]


def _number(data: bytes | None) -> int:
    assert data is not None, "a live cell without its write time"
    return int.from_bytes(data, "big", signed=True)
