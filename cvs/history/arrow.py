"""Record batches into columns without making events of them."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.columned import Columned, Memory
from cvs.history.columns import Gathered
from cvs.history.fields import EventFields, Fields, Names, Numbering, Owners
from cvs.history.forms import Group, Scanned
from cvs.history.packing import NONE, Flags, Integers, packed_parts
from cvs.history.parquet import SCALARS, Arrow, events_of_rows
from cvs.history.rows import Objects, Rows
from cvs.history.texts import Places, plain_values
from cvs.model.values import row_from_json

_OF_KIND: dict[type, tuple[str, ...]] = {
    ev.BaseUpdateCalled: ("operation", "table", "key", "version", "row"),
    ev.BaseUpdateReturned: ("operation", "outcome"),
    ev.TestAndSetCalled: ("operation", "view", "view_key", "expected", "new", "row", "absorbed"),
    ev.TestAndSetReturned: ("operation", "outcome", "returned"),
    ev.ViewReadReturned: ("operation",),
    ev.UpdateReceived: ("table", "key"),
    ev.Checkpoint: ("base", "views"),
    ev.EpochCommitted: ("pipeline", "incarnation", "epoch", "absorbed"),
}
_OF_HEADERS = ("run", "views", "tables", "settings", "format", "clock_error")
COLUMNS = tuple(
    dict.fromkeys(("event", "process", "time", *_OF_HEADERS, *(n for own in _OF_KIND.values() for n in own)))
)
"""What `gather` reads: a reader of Parquet may skip all others."""

DICTIONARIES = ("event", "process", "table", "view", "outcome")
"""Columns of few texts: a reader of Parquet need not write them out."""

_DECODE_ROWS = msgspec.json.Decoder(list[dict[str, Any] | None]).decode
_KINDS = {str(kind.__struct_config__.tag): kind for kind in ev.AnyEvent.__args__}


class ArrowFields:
    """Fields of a record batch, or of a column of structs."""

    def __init__(self, batch: Arrow, many: int, memory: Memory) -> None:
        self.batch, self.many, self.memory = batch, many, memory

    def _column(self, name: str) -> Arrow:
        import pyarrow as pa

        return self.batch.field(name) if isinstance(self.batch, pa.StructArray) else self.batch[name]

    def whole(self, name: str) -> Integers:
        """Take the numbers."""
        return _integers(self._column(name))

    def named(self, name: str, names: Names) -> Integers:
        """Number the texts, or those of the dictionary that are used."""
        import pyarrow as pa

        column = self._column(name)
        if not isinstance(column, pa.DictionaryArray):
            return self.memory.named(names, _places(column))
        codes = _integers(column.indices)
        numbers = np.zeros(len(column.dictionary), np.int64)
        used = np.flatnonzero(np.bincount(codes, minlength=len(numbers)))
        data, begins, ends = _places(column.dictionary)
        numbers[used] = self.memory.named(names, (data, begins[used], ends[used]))
        return numbers[codes]

    def keyed(self, owners: Owners, key: str, numbering: Numbering) -> Integers:
        """Number the texts of the keys of each owner."""
        data, begins, ends = _places(self._column(key))
        found = np.zeros(self.many, np.int64)
        for name, which in owners.parts():
            found[which] = self.memory.keyed(numbering, name, (data, begins[which], ends[which]))
        return found

    def signatures(self, name: str) -> Integers:
        """Pack the numbers."""
        import pyarrow as pa

        column = self._column(name)
        absent = _nulls(column)
        parts = [_integers(column.field(n).cast(pa.int64()), 0) for n in SCALARS]
        return np.where(absent, NONE, packed_parts([np.where(absent, 0, part) for part in parts]))

    def absorbed(self) -> tuple[Integers, "ArrowFields"]:
        """Put all into one list."""
        column = self._column("absorbed")
        lines = column.flatten()
        return _integers(column.value_lengths(), 0), ArrowFields(lines, len(lines), self.memory)

    def rows(self, name: str, which: Integers, owner: tuple[str, str]) -> Rows:
        """Read the texts as columns, or decode them where they are of too many forms."""
        column = self._column(name)
        there = np.flatnonzero(~_nulls(column)[which])
        data, begins, ends = _places(column, nulls=True)
        scanned = Scanned.of(data, begins[which][there], ends[which][there], self.memory.known)
        forms = scanned.by_form() if len(there) else []
        if forms is None:
            rows: list[Any] = [None] * len(which)
            texts = [scanned.text(line) for line in range(len(there))]
            for place, row in zip(there.tolist(), _rows(texts), strict=True):
                rows[place] = row
            return Objects(rows)
        groups = [Group(scanned, lines, scanned.node(int(lines[0]), self.memory.known)) for _, lines in forms]
        _rows(
            [scanned.text(int(group.lines[0])) for group in groups]
        )  # because all others are as valid as these
        return Columned(len(which), [(there[g.lines], g, g.root) for g in groups], self.memory.seen(owner))


def gather(gathered: Gathered, batches: Iterable[Arrow]) -> None:
    """Add a history from record batches to columns."""
    gathered.begin()
    memory, tags = Memory(plain_values), Names()
    for batch in batches:
        whole = ArrowFields(batch, batch.num_rows, memory)
        codes = whole.named("event", tags)
        kinds: list[tuple[Any, Integers, Fields]] = []
        for tag, at in sorted(Owners(codes, tags).parts(), key=lambda part: int(part[1][0])):
            kind = _KINDS.get(tag)
            if kind is None:
                raise HistoryError(f"no kind of event: {tag!r}")
            if kind is ev.RunStarted:
                headers = events_of_rows(_chosen(batch, batch.schema.names, at, batch.num_rows))
                gathered.headers += [event for event in headers if isinstance(event, ev.RunStarted)]
            if kind is ev.Checkpoint:
                begun = events_of_rows(_chosen(batch, batch.schema.names, at, batch.num_rows))
                kinds.append((kind, at, EventFields(list(begun))))
                continue
            part = _chosen(batch, list(_OF_KIND.get(kind, ())), at, batch.num_rows)
            kinds.append((kind, at, ArrowFields(part, len(at), memory)))
        gathered.add(whole, kinds)


def _rows(texts: list[bytes]) -> list[Any]:
    """Return rows in their types."""
    try:
        rows = _DECODE_ROWS(b"[%s]" % b",".join(texts))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"a row is no object: {error}") from error
    if len(rows) != len(texts):
        raise HistoryError("a row is no object: more than one stands there")
    return [None if row is None else row_from_json(row) for row in rows]


def _chosen(batch: Arrow, names: list[str], at: Integers, many: int) -> Arrow:
    """Return some columns of some rows."""
    import pyarrow as pa

    mask = np.zeros(many, np.bool_)
    mask[at] = True
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return batch.select(names).filter(pa.Array.from_buffers(pa.bool_(), many, [None, bits]))


def _integers(column: Arrow, missing: int | None = None) -> Integers:
    """Return whole numbers by their bytes, because Arrow's own ways import all of pandas; a null is `missing`."""
    if not len(column):
        return np.zeros(0, dtype=np.int64)
    whole = np.frombuffer(column.buffers()[1], dtype=np.dtype(str(column.type)))
    values = whole[column.offset : column.offset + len(column)].astype(np.int64)
    if not column.null_count:
        return values
    if missing is None:
        raise HistoryError("a whole number is missing", next_step="`cvs convert` writes Parquet from lines")
    return np.where(_nulls(column), missing, values)


def _nulls(column: Arrow) -> Flags:
    """Say where a column is null."""
    bits = column.buffers()[0]
    if bits is None or not column.null_count:
        return np.zeros(len(column), np.bool_)
    packed = np.frombuffer(bits, dtype=np.uint8)
    there = np.unpackbits(packed, bitorder="little")[column.offset : column.offset + len(column)]
    absent: Flags = there == 0
    return absent


def _places(column: Arrow, *, nulls: bool = False) -> Places:
    """Return where the texts of a column stand."""
    if column.null_count and not nulls:
        raise HistoryError("a text is missing", next_step="`cvs convert` writes Parquet from lines")
    if not len(column):
        empty = np.zeros(0, np.int64)
        return np.zeros(0, np.uint8), empty, empty
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1].astype(
        np.int64
    )
    return np.frombuffer(data or b"", dtype=np.uint8), ends[:-1], ends[1:]
