"""What tables there are, at each place of the log: `system_schema` as last read, moved on by the log.

A node writes DDL to `system_schema` through its commit log, before the first write that needs it. So the
rows are kept here as cells with write times, and every change of `system_schema` in the log is merged into
them in log order: the definitions are always those of the position being decoded. Definitions of dropped
tables stay known by id: writes that were under way when the table went may still follow.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cvs.capture.changes import (
    Change,
    Column,
    ColumnKind,
    Kind,
    TableDefinition,
    UserType,
    split_key,
)
from cvs.capture.values import Reader
from cvs.model.cql_type import names_in

SYSTEM_KEYSPACES = {
    "system",
    "system_schema",
    "system_auth",
    "system_distributed",
    "system_traces",
}
KEYS = {
    "tables": ("keyspace_name", "table_name"),
    "views": ("keyspace_name", "view_name"),
    "columns": ("keyspace_name", "table_name", "column_name"),
    "types": ("keyspace_name", "type_name"),
    "dropped_columns": ("keyspace_name", "table_name", "column_name"),
}
COLUMN_KINDS = {
    "partition_key": ColumnKind.PARTITION_KEY,
    "clustering": ColumnKind.CLUSTERING,
    "static": ColumnKind.STATIC,
    "regular": ColumnKind.REGULAR,
}

Row = dict[str, Any]
Key = tuple[str, ...]
# because system tables have drop times beyond any calendar, which the driver's timestamps cannot show
QUERIES = {name: f"SELECT * FROM system_schema.{name}" for name in KEYS} | {
    "dropped_columns": "SELECT keyspace_name, table_name, column_name, kind, type, "
    "blobAsBigint(timestampAsBlob(dropped_time)) AS dropped_time FROM system_schema.dropped_columns"
}


class _Stored:
    """A row of a schema table: values with write times, and how far it is deleted."""

    __slots__ = ("cells", "deleted", "written")

    def __init__(self) -> None:
        self.cells: dict[str, tuple[int, Any]] = {}
        self.deleted = self.written = -(1 << 63)

    @property
    def row(self) -> Row | None:
        found = {n: v for n, (time, v) in self.cells.items() if time > self.deleted and v is not None}
        return found if found or self.written > self.deleted else None


class SchemaBook:
    """All definitions by table id, as of the place in the log that was decoded last."""

    def __init__(self) -> None:
        """Start empty; `load` brings what a node shows."""
        self._rows: dict[str, dict[Key, _Stored]] = {name: {} for name in KEYS}
        self._readers: dict[str, Reader] = {}
        self.definitions: dict[str, TableDefinition] = {}
        self.dropped: set[str] = set()

    def load(self, tables: Mapping[str, Collection[Mapping[str, Any]]]) -> list[TableDefinition]:
        """Take the rows of `system_schema` as a node shows them; the log's changes override them.

        Returns the definitions that changed. Columns that the node does not show of a table it shows are gone: what
        deleted them may have stood in a segment that vanished unread, also as those of an older table of that name.
        """
        shown = {(row["keyspace_name"], row["table_name"]) for row in tables["tables"]}
        left = {tuple(row[name] for name in KEYS["columns"]) for row in tables["columns"]}
        for key in [it for it in self._rows["columns"] if it[:2] in shown and it not in left]:
            del self._rows["columns"][key]
        for table, names in KEYS.items():
            for row in tables[table]:
                stored = self._rows[table].setdefault(tuple(row[name] for name in names), _Stored())
                values = {name: value for name, value in row.items() if name not in names}
                if stored.row is None or not _agrees(stored.row, values):
                    stored.deleted, stored.written = -(1 << 63), 0
                    stored.cells = {name: (0, value) for name, value in values.items()}
        keyspaces = {key[0] for key in self._rows["tables"]}
        return [changed for keyspace in sorted(keyspaces) for changed in self._define(keyspace)]

    def absorb(self, changes: list[Change]) -> list[TableDefinition]:
        """Merge changes of `system_schema` tables; return the definitions that changed."""
        touched: dict[str, None] = {}
        for change in changes:
            definition = self.definitions[change.definition]
            keyspace = split_key(definition, change.key)[0].decode()
            # because a node rewrites the definitions of its own tables at each start, deletion first
            if definition.name in KEYS and keyspace not in SYSTEM_KEYSPACES:
                self._merge(keyspace, definition, change)
                touched[keyspace] = None
        return [found for keyspace in touched for found in self._define(keyspace)]

    def _merge(self, keyspace: str, definition: TableDefinition, change: Change) -> None:
        reader = self._readers.setdefault(definition.name, Reader(definition))
        rows = self._rows[definition.name]
        names = [column.name for column in definition.clustering]
        if change.kind == Kind.ROW:
            clustering = tuple(reader.value(n, v) for n, v in zip(names, change.clustering, strict=True))
            stored = rows.setdefault((keyspace, *clustering), _Stored())
            _write(stored, change, reader)
        elif change.deletion:
            for key, stored in rows.items():
                if key[0] == keyspace and _covers(change, key[1:]):
                    stored.deleted = max(stored.deleted, change.deletion.write_time)

    def _define(self, keyspace: str) -> list[TableDefinition]:
        """Rebuild a keyspace's definitions; return those that changed."""
        changed = []
        alive = set()
        user_types = self._user_types(keyspace)
        for key, stored in [*self._rows["tables"].items(), *self._rows["views"].items()]:
            row = stored.row if key[0] == keyspace else None
            if not row or "id" not in row:
                continue
            definition = self._definition(keyspace, key[1], row, user_types)
            alive.add(definition.id)
            if self.definitions.get(definition.id) != definition or definition.id in self.dropped:
                self.dropped.discard(definition.id)
                self.definitions[definition.id] = definition
                changed.append(definition)
        for known in self.definitions.values():
            if known.keyspace == keyspace and known.id not in alive and known.id not in self.dropped:
                self.dropped.add(known.id)
                changed.append(known)
        return changed

    def _definition(
        self, keyspace: str, name: str, row: Row, user_types: dict[str, UserType]
    ) -> TableDefinition:
        columns = [
            Column(
                name=key[2],
                type=found["type"],
                kind=COLUMN_KINDS[found["kind"]],
                position=found["position"],
                descending=str(found.get("clustering_order", "none")).lower() == "desc",
            )
            for key, found in self._of_table("columns", keyspace, name)
        ]
        dropped = [
            (key[2], found["type"], _microseconds(found["dropped_time"]), found.get("kind") == "static")
            for key, found in self._of_table("dropped_columns", keyspace, name)
        ]
        used = _used_types([c.type for c in columns] + [d[1] for d in dropped], user_types)
        return TableDefinition(
            id=str(UUID(str(row["id"]))),
            keyspace=keyspace,
            name=name,
            columns=tuple(sorted(columns, key=lambda c: (c.kind, c.position, c.name))),
            user_types=tuple(user_types[n] for n in sorted(used)),
            dropped=tuple(sorted(dropped)),
            counter="counter" in (row.get("flags") or ()),
            capture=bool(row.get("cdc")),
        )

    def _of_table(self, table: str, keyspace: str, name: str) -> list[tuple[Key, Row]]:
        found = [
            (key, stored.row) for key, stored in self._rows[table].items() if key[:2] == (keyspace, name)
        ]
        return [(key, row) for key, row in found if row]

    def _user_types(self, keyspace: str) -> dict[str, UserType]:
        found = {}
        for key, stored in self._rows["types"].items():
            if key[0] == keyspace and (row := stored.row):
                fields = zip(row["field_names"], row["field_types"], strict=True)
                found[key[1]] = UserType(name=key[1], fields=tuple(fields))
        return found


def _write(stored: _Stored, change: Change, reader: Reader) -> None:
    if change.liveness:
        stored.written = max(stored.written, change.liveness.write_time)
    if change.deletion:
        stored.deleted = max(stored.deleted, change.deletion.write_time)
    for cell in change.cells:  # one cell a column: the schema tables have frozen collections only
        if cell.write_time >= stored.cells.get(cell.column, (-(1 << 63), None))[0]:
            stored.cells[cell.column] = (cell.write_time, reader.value(cell.column, cell.value))


def _agrees(known: Row, shown: Row) -> bool:
    """Tell whether a kept row says what the node shows, so that its write times can stay."""
    names = ("id", "type", "kind", "position", "clustering_order", "cdc", "field_names", "field_types")
    return all(str(known.get(name)) == str(shown.get(name)) for name in names)


def _covers(change: Change, clustering: Key) -> bool:
    """Tell whether a partition or range deletion covers a row (ascending text clusterings)."""
    if change.kind == Kind.PARTITION_DELETION or change.range is None:
        return change.kind == Kind.PARTITION_DELETION
    values = tuple(part.encode() for part in clustering)
    start, end = change.range.start, change.range.end
    low, high = values[: len(start.values)], values[: len(end.values)]
    after = low > start.values or (start.inclusive and low == start.values)
    before = high < end.values or (end.inclusive and high == end.values)
    return after and before


def _used_types(texts: list[str], user_types: dict[str, UserType]) -> set[str]:
    """Name the user types that these types use, directly or through one another."""
    used: set[str] = set()
    pending = list(texts)
    while pending:
        for name in names_in(pending.pop()) & user_types.keys() - used:
            used.add(name)
            pending.extend(text for _, text in user_types[name].fields)
    return used


def _microseconds(moment: Any) -> int:
    if isinstance(moment, int):
        return min(moment * 1000, (1 << 63) - 1)
    aware: datetime = moment if moment.tzinfo else moment.replace(tzinfo=UTC)  # the driver's are naive
    return round(aware.timestamp() * 1000) * 1000
