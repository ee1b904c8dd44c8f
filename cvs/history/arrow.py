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
from cvs.history.parquet import SCALARS, Arrow, events_of_rows, schema
from cvs.history.rows import Objects, Rows
from cvs.history.texts import Places, plain_values
from cvs.model.values import row_from_json

COLUMNS = (
    *("event", "process", "time", "run", "views", "tables", "settings", "format", "clock_error", "operation"),
    *("table", "key", "version", "row", "outcome", "view", "view_key", "expected", "new", "absorbed"),
    *("returned", "base", "pipeline", "incarnation", "epoch"),
)
"""What `gather` reads: a reader of Parquet may skip all others, and of these what is null everywhere."""

DICTIONARIES = ("event", "process", "table", "view", "outcome")
"""Columns of few texts: a reader of Parquet need not write them out."""

_DECODE_ROWS = msgspec.json.Decoder(list[dict[str, Any] | None]).decode
_KINDS = {str(kind.__struct_config__.tag): kind for kind in ev.AnyEvent.__args__}


class ArrowFields:
    """Fields of some rows of a record batch, or of a column of structs: only what is asked for is copied."""

    def __init__(self, batch: Arrow, at: Integers, memory: Memory) -> None:
        self.batch, self.at, self.many, self.memory = batch, at, len(at), memory

    def _column(self, name: str) -> Arrow:
        import pyarrow as pa

        if isinstance(self.batch, pa.StructArray):
            return self.batch.field(name)
        if name in self.batch.schema.names:
            return self.batch[name]
        # a reader of Parquet skips what is null everywhere
        return pa.nulls(self.batch.num_rows, schema().field(name).type)

    def whole(self, name: str) -> Integers:
        """Take the numbers."""
        return _integers(self._column(name), self.at)

    def named(self, name: str, names: Names) -> Integers:
        """Number the texts, or those of the dictionary that are used."""
        import pyarrow as pa

        column = self._column(name)
        if not isinstance(column, pa.DictionaryArray):
            return self.memory.named(names, _places(column, self.at))
        codes = _integers(column.indices, self.at)
        numbers = np.zeros(len(column.dictionary), np.int64)
        used = np.flatnonzero(np.bincount(codes, minlength=len(numbers)))
        numbers[used] = self.memory.named(names, _places(column.dictionary, used))
        return numbers[codes]

    def keyed(self, owners: Owners, key: str, numbering: Numbering) -> Integers:
        """Number the texts of the keys of each owner."""
        column, found = self._column(key), np.zeros(self.many, np.int64)
        for name, which in owners.parts():
            found[which] = self.memory.keyed(numbering, name, _places(column, self.at[which]))
        return found

    def signatures(self, name: str) -> Integers:
        """Pack the numbers."""
        import pyarrow as pa

        column = self._column(name)
        absent = _nulls(column)[self.at]
        if absent.all():
            return np.full(self.many, NONE)
        parts = [_integers(column.field(n).cast(pa.int64()), self.at, 0) for n in SCALARS]
        return np.where(absent, NONE, packed_parts([np.where(absent, 0, part) for part in parts]))

    def absorbed(self) -> tuple[Integers, "ArrowFields"]:
        """Put all into one list."""
        column, every = self._column("absorbed"), np.arange(self.many)
        counts = _integers(column.value_lengths(), self.at, 0)
        begins = _integers(column.offsets, self.at) - (np.cumsum(counts) - counts)
        lines = np.arange(counts.sum()) + begins[np.repeat(every, counts)]
        return counts, ArrowFields(column.values, lines, self.memory)

    def rows(self, name: str, which: Integers, owner: tuple[str, str]) -> Rows:
        """Read the texts as columns, or decode them where they are of too many forms."""
        column, at = self._column(name), self.at[which]
        there = np.flatnonzero(~_nulls(column)[at])
        scanned = Scanned.of(*_places(column, at[there]), self.memory.known)
        forms = scanned.by_form() if len(there) else []
        if forms is None:
            rows: list[Any] = [None] * len(which)
            texts = [scanned.text(line) for line in range(len(there))]
            for place, row in zip(there.tolist(), _rows(texts), strict=True):
                rows[place] = row
            return Objects(rows)
        groups = [Group(scanned, lines, scanned.node(int(lines[0]), self.memory.known)) for _, lines in forms]
        # because all others are as valid as these
        _rows([scanned.text(int(group.lines[0])) for group in groups])
        return Columned(len(which), [(there[g.lines], g, g.root) for g in groups], self.memory.seen(owner))


def gather(gathered: Gathered, batches: Iterable[Arrow]) -> None:
    """Add a history from record batches to columns."""
    gathered.begin()
    memory, tags = Memory(plain_values), Names()
    for batch in batches:
        whole = ArrowFields(batch, np.arange(batch.num_rows), memory)
        codes = whole.named("event", tags)
        kinds: list[tuple[Any, Integers, Fields]] = []
        for tag, at in sorted(Owners(codes, tags).parts(), key=lambda part: int(part[1][0])):
            kind = _KINDS.get(tag)
            if kind is None:
                raise HistoryError(f"no kind of event: {tag!r}")
            if kind is ev.RunStarted:
                headers = _chosen(batch, at)
                gathered.headers += [event for event in headers if isinstance(event, ev.RunStarted)]
            elif kind is ev.Checkpoint:
                kinds.append((kind, at, EventFields(_chosen(batch, at))))
                continue
            kinds.append((kind, at, ArrowFields(batch, at, memory)))
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


def _chosen(batch: Arrow, at: Integers) -> list[Any]:
    """Return the events of some rows."""
    import pyarrow as pa

    rows = pa.Table.from_batches([batch.slice(place, 1) for place in at.tolist()])
    return list(events_of_rows(rows))


def _integers(column: Arrow, at: Integers, missing: int | None = None) -> Integers:
    """Return whole numbers by their bytes, because Arrow's own ways import all of pandas; a null is `missing`."""
    if not len(at):
        return np.zeros(0, dtype=np.int64)
    whole = np.frombuffer(column.buffers()[1], dtype=np.dtype(str(column.type)))[column.offset :]
    values: Integers = whole[at].astype(np.int64)
    if not column.null_count:
        return values
    absent = _nulls(column)[at]
    if missing is None and absent.any():
        raise HistoryError("a whole number is missing", next_step="`cvs convert` writes Parquet from lines")
    return np.where(absent, missing, values) if missing is not None else values


def _nulls(column: Arrow) -> Flags:
    """Say where a column is null."""
    bits = column.buffers()[0]
    if bits is None or not column.null_count:
        return np.zeros(len(column), np.bool_)
    packed = np.frombuffer(bits, dtype=np.uint8)
    there = np.unpackbits(packed, bitorder="little")[column.offset : column.offset + len(column)]
    absent: Flags = there == 0
    return absent


def _places(column: Arrow, at: Integers) -> Places:
    """Return where some texts of a column stand."""
    if column.null_count and _nulls(column)[at].any():
        raise HistoryError("a text is missing", next_step="`cvs convert` writes Parquet from lines")
    if not len(at):
        empty = np.zeros(0, np.int64)
        return np.zeros(0, np.uint8), empty, empty
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[column.offset :]
    begins, ends = bounds[at].astype(np.int64), bounds[1:][at].astype(np.int64)
    return np.frombuffer(data or b"", dtype=np.uint8), begins, ends
