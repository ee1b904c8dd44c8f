"""From log entries to changes: which tables count, DDL and truncations in log order, counters of the rest.

Every payload is consumed to its last byte or the decoding stops with the position. What is left out is
counted by reason.
"""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

from cvs.capture.changes import Change, Deletion, Kind, TableDefinition
from cvs.capture.decode import Entry, TableDecoder, UndecodableError, vint
from cvs.capture.schema import SYSTEM_KEYSPACES, SchemaBook
from cvs.capture.segment import DamagedSegmentError, entries

UNKNOWN_TABLE = "updates of tables that no longer exist"
NOT_CAPTURED = "updates of tables without cdc"
SYSTEM = "updates of system tables"

FAULTS = (UndecodableError, IndexError, UnicodeDecodeError, KeyError)


class LogDecoder:
    """Decodes entries with the definitions in force at their place in the log."""

    def __init__(
        self,
        book: SchemaBook,
        *,
        define: Callable[[TableDefinition], str],
        reload: Callable[[], list[TableDefinition]] | None = None,
        wanted: Callable[[TableDefinition], bool] | None = None,
    ) -> None:
        """Use `book` for definitions; `reload` refreshes it when the log names a table it does not know."""
        self.book = book
        self.skipped: Counter[str] = Counter()
        self.decoded = 0
        self._define = define
        self._reload = reload
        self._wanted = wanted or (lambda definition: definition.capture)
        self._single: dict[bytes, TableDecoder | str] = {}  # table id -> decoder, or why it is left out
        self._all: dict[bytes, TableDecoder] = {}
        self._gone: set[bytes] = set()  # ids of tables that were dropped since
        self._special: set[bytes] = set()  # ids of tables whose changes are for us: the schema, truncations

    def decode(self, data: bytes, start: int, end: int, *, segment: int, base: int) -> list[Change]:
        """Decode all entries of `data[start:end]`; `base` + index is the offset in the segment."""
        changes: list[Change] = []
        single, skipped = self._single, self.skipped
        count = 0
        for at, stop in entries(data, start, end, segment=segment, base=base):
            count += 1
            table_id = data[at + 1 : at + 17]
            decoder = single.get(table_id) if data[at] == 1 else None
            if type(decoder) is str:  # most of an idle node's log; the checksum has covered it
                skipped[decoder] += 1
                continue
            entry = Entry(segment, base + at - 8, changes)
            try:
                if type(decoder) is TableDecoder:
                    if decoder.update(data, at + 17, entry) != stop:
                        raise UndecodableError("the payload does not end where its decoding does")
                else:
                    self._slow(data, at, stop, entry)
            except FAULTS as fault:
                del changes[entry.first :]
                self._again(data, at, stop, entry, fault)
        self.decoded += count
        return changes

    def _again(self, data: bytes, at: int, stop: int, entry: Entry, fault: Exception) -> None:
        """Try an entry once more with definitions read anew: the segment with the DDL may have vanished."""
        try:
            if not self._reload:
                raise fault
            self.refresh(entry)
            self._slow(data, at, stop, entry)
        except FAULTS as last:
            raise DamagedSegmentError(
                f"an entry that cannot be decoded: {last}", segment=entry.segment, offset=entry.offset
            ) from last

    def counts(self, beginning: bytes) -> bool:
        """Tell from the first 17 bytes of a payload whether it may hold a change that is captured."""
        return beginning[:1] != b"\x01" or type(self._single.get(beginning[1:17])) is not str

    def refresh(self, entry: Entry) -> None:
        """Read the definitions anew from the node, as after a segment that was never seen."""
        if self._reload:
            self._announce(self._reload(), entry)

    def _slow(self, data: bytes, at: int, stop: int, entry: Entry) -> None:
        """Decode a mutation of several tables, of a new one, or of one that means something to us."""
        count, at = vint(data, at)
        special: list[Change] = []
        seen, whole = 0, True
        while at < stop:
            seen += 1
            table_id = data[at : at + 16]
            decoder = self._decoder(table_id)
            if decoder is None:
                self.skipped[UNKNOWN_TABLE] += 1
                at, whole = self._beyond_unknown(data, at, stop), False
                continue
            before = len(entry.changes)
            at = decoder.update(data, at + 16, entry)
            if table_id in self._special:
                special += entry.changes[before:]
            if not decoder.captured:
                del entry.changes[before:]
                if count > 1 or table_id in self._special:
                    self.skipped[self._reason(decoder.definition)] += 1
        if at != stop or seen > count or (whole and seen < count):
            raise UndecodableError("the payload does not end where its decoding does")
        if special:
            self._notice(special, entry)

    def _beyond_unknown(self, data: bytes, at: int, stop: int) -> int:
        """Return where the next table that is known begins, or the end: updates carry no length.

        All updates of a mutation repeat one partition key behind their table's id, which tells where they begin.
        """
        size, key = vint(data, at + 16)
        frame = data[at + 16 : key + size]
        place = data.find(frame, key + size + 16, stop)
        while place >= 0:
            if str(UUID(bytes=data[place - 16 : place])) in self.book.definitions:
                return place - 16
            place = data.find(frame, place + 1, stop)
        return stop

    def _decoder(self, table_id: bytes) -> TableDecoder | None:
        """Return the decoder of a table, made now if it is the first time."""
        if table_id in self._all:
            return self._all[table_id]
        name = str(UUID(bytes=table_id))
        if name not in self.book.definitions and self._reload and table_id not in self._gone:
            self._reload()  # what else it brings is noticed when the log comes to it
        definition = self.book.definitions.get(name)
        if definition is None:
            self._gone.add(
                table_id
            )  # the node that logged it knew it, and knows it no more: ids do not come back
            self._single.pop(table_id, None)
            return None
        return self._prepare(table_id, definition)

    def _prepare(self, table_id: bytes, definition: TableDefinition) -> TableDecoder:
        is_system = definition.keyspace in SYSTEM_KEYSPACES
        captured = not is_system and self._wanted(definition)
        decoder = TableDecoder(definition, self._define(definition) if captured else definition.id)
        decoder.captured = captured
        self._all[table_id] = decoder
        if definition.keyspace == "system_schema" or definition.full_name == "system.local":
            self._special.add(table_id)
        else:
            self._single[table_id] = decoder if captured else self._reason(definition)
        return decoder

    @staticmethod
    def _reason(definition: TableDefinition) -> str:
        return SYSTEM if definition.keyspace in SYSTEM_KEYSPACES else NOT_CAPTURED

    def _notice(self, special: list[Change], entry: Entry) -> None:
        """Take in DDL and truncations; both become changes of the tables they are about."""
        for change in special:
            if self.book.definitions[change.definition].full_name == "system.local":
                self._truncations(change, entry)
        schema = [c for c in special if self.book.definitions[c.definition].keyspace == "system_schema"]
        self._announce(self.book.absorb(schema), entry)

    def _announce(self, definitions: list[TableDefinition], entry: Entry) -> None:
        for definition in definitions:
            table_id = UUID(definition.id).bytes
            before = self._all.pop(table_id, None)
            self._single.pop(table_id, None)
            decoder = self._prepare(table_id, definition)
            if not decoder.captured and not (before and before.captured):
                continue
            gone = definition.id in self.book.dropped
            kind = Kind.DROPPED if gone else Kind.SCHEMA
            reference = decoder.reference if decoder.captured else self._define(definition)
            text = definition.full_name + ("" if decoder.captured or gone else " is no longer captured")
            entry.changes.append(Change(kind, reference, origin=entry.origin, detail=text))

    def _truncations(self, change: Change, entry: Entry) -> None:
        """Read `system.local.truncated_at`: table id -> (segment i64, offset i32, milliseconds i64)."""
        for cell in change.cells:
            if cell.column != "truncated_at" or not cell.path or not cell.value:
                continue
            entry.changes += self.truncation(cell.path, cell.value, entry.origin)

    def truncation(self, table_id: bytes, value: bytes, origin: tuple[int, int, int]) -> list[Change]:
        """Return the change that a table's entry in `system.local.truncated_at` is; nothing if it is not captured."""
        decoder = self._decoder(table_id)
        if decoder is None or not decoder.captured:
            return []
        segment, offset = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:12], "big")
        moment = truncated_at(value)
        return [
            Change(
                Kind.TRUNCATION,
                decoder.reference,
                deletion=Deletion(moment * 1000, moment // 1000),
                origin=origin,
                detail=f"{segment}:{offset}",
            )
        ]


def truncated_at(value: bytes) -> int:
    """Return when a table was truncated, by its node's clock: milliseconds."""
    return int.from_bytes(value[12:20], "big", signed=True)
