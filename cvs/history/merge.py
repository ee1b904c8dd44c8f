"""Files of several processes as one history.

Clocks differ: events of two processes are ordered only where their times are further apart than both clocks'
declared errors together; closer ones are concurrent. The merged list is in order of time, and within a process
in the order in which the process saw things, whatever its clock did.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cvs.errors import CvsError
from cvs.history import events as ev
from cvs.history.validate import Checked, Complaint
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.definitions import table_from_json
from cvs.model.types import normal, normal_row
from cvs.model.views import BaseTable


def merged(files: Sequence[Checked]) -> tuple[list[ev.AnyEvent], list[Complaint]]:
    """Return the events of all files in order of time, and what is wrong between the files."""
    histories = [_in_time(file.events) for file in files]
    ordered = [
        event for _, _, event in heapq.merge(*map(_numbered, histories, range(len(files))), key=_first_two)
    ]
    return ordered, list(_between(files))


def _first_two(item: tuple[int, int, ev.AnyEvent]) -> tuple[int, int]:
    return item[0], item[1]


def _numbered(
    history: Iterable[tuple[int, ev.AnyEvent]], number: int
) -> Iterator[tuple[int, int, ev.AnyEvent]]:
    return ((time, number, event) for time, event in history)


def _in_time(events: Iterable[ev.AnyEvent]) -> Iterator[tuple[int, ev.AnyEvent]]:
    """Pair events with a time that never goes back, so that a file keeps its own order."""
    latest = None
    for event in events:
        latest = event.time if latest is None else max(latest, event.time)
        yield latest, event


def clock_errors(events: Iterable[ev.AnyEvent]) -> dict[str, int]:
    """Return the declared error of each process's clock, in nanoseconds."""
    return {event.process: event.clock_error for event in events if isinstance(event, ev.RunStarted)}


def surely_before(earlier: ev.AnyEvent, later: ev.AnyEvent, errors: dict[str, int]) -> bool:
    """Say whether one event came before another under the declared clock errors."""
    if earlier.process == later.process:
        return earlier.time < later.time
    slack = errors.get(earlier.process, 0) + errors.get(later.process, 0)
    return later.time - earlier.time > slack


def _between(files: Sequence[Checked]) -> Iterator[Complaint]:
    first: ev.RunStarted | None = None
    owners: dict[str, str] = {}
    for file in files:
        for line, event in zip(file.lines, file.events, strict=True):
            if not isinstance(event, ev.RunStarted):
                continue
            if owners.setdefault(event.process, file.file) != file.file:
                yield Complaint(
                    file=file.file,
                    line=line,
                    what=f'process "{event.process}" also wrote {owners[event.process]}: name no file together with '
                    "one made of it, and give each process a name of its own",
                )
            if first is not None and event.run != first.run:
                yield Complaint(file=file.file, line=line, what=f'run "{event.run}", not "{first.run}"')
            first = first or event


PLAIN = frozenset(
    {"ascii", "text", "varchar", "boolean", "tinyint", "smallint", "int", "bigint", "varint", "counter"}
)
"""Types whose JSON is their value."""


def plain(tables: Iterable[BaseTable]) -> bool:
    """Say whether values of these tables are in their types as they stand in a history."""
    return all(kind in PLAIN for table in tables for _, kind in table.columns)


def typed(events: Iterable[ev.AnyEvent]) -> Iterator[ev.AnyEvent]:
    """Yield events with the values of base keys and rows in the types that the header's tables declare.

    So a person may write a date as `"2026-01-31"`; what has no declared type stays as it is.
    """
    schema = Schema()
    for event in events:
        if isinstance(event, ev.RunStarted):
            for definition in event.tables:
                schema.take(table_from_json(definition))
        yield schema.typed(event) if schema.columns else event


def typed_views(
    events: Iterable[ev.AnyEvent],
    columns: Mapping[str, Mapping[str, CqlType]],
    keys: Mapping[str, Sequence[str]],
) -> Iterator[ev.AnyEvent]:
    """Yield events with texts in view keys and records in the types that the views' columns have."""
    asked: dict[tuple[str, int], str] = {}

    def key_of(view: str, key: ev.Key | None) -> ev.Key | None:
        if key is None or len(key) != len(keys.get(view, ())):
            return key
        types = map(columns[view].get, keys[view])
        return tuple(_as(kind, value) for kind, value in zip(types, key, strict=True))

    def row_of(view: str, row: ev.Row | None) -> ev.Row | None:
        types = columns.get(view, {})
        return row and {name: _as(types.get(name), value) for name, value in row.items()}

    for event in events:
        changes: dict[str, object] = {}
        if isinstance(event, ev.TestAndSetCalled | ev.ViewReadCalled):
            changes["view_key"] = key_of(event.view, event.view_key)
        if isinstance(event, ev.TestAndSetCalled):
            changes["row"] = row_of(event.view, event.row)
        if isinstance(event, ev.ViewReadCalled):
            asked[event.process, event.operation] = event.view
        if isinstance(event, ev.ViewReadReturned):
            view = asked.get((event.process, event.operation), "")
            changes["rows"] = tuple((key_of(view, key), row_of(view, row)) for key, row in event.rows)
        if isinstance(event, ev.Checkpoint):
            changes["views"] = tuple((v, key_of(v, k), s, row_of(v, r)) for v, k, s, r in event.views)
        yield msgspec.structs.replace(event, **changes) if changes else event


def _as(kind: CqlType | None, value: Any) -> Any:
    """Return a text in its type; what is none of it stays what somebody saw."""
    try:
        return normal(kind, value) if kind is not None and isinstance(value, str) else value
    except CvsError:
        return value


@dataclass(slots=True)
class Schema:
    """The declared columns of base tables, and the columns of their keys; what nobody declared stays as it is."""

    columns: dict[str, dict[str, CqlType]] = field(default_factory=dict)
    keys: dict[str, tuple[CqlType, ...]] = field(default_factory=dict)

    def take(self, table: BaseTable) -> None:
        """Learn the columns of a table."""
        types = {name: parse_type(kind) for name, kind in table.columns}
        self.columns[table.name] = types
        self.keys[table.name] = tuple(types[name] for name in table.key)

    def key(self, table: str, key: ev.Key) -> ev.Key:
        """Return the key of a base record in its types."""
        types = self.keys.get(table, ())
        if len(types) != len(key):
            return key
        return tuple(normal(kind, value) for kind, value in zip(types, key, strict=True))

    def row(self, table: str, row: ev.Row | None) -> ev.Row | None:
        """Return a base row in its types."""
        return None if row is None else normal_row(self.columns.get(table, {}), row)

    def typed(self, event: ev.AnyEvent) -> ev.AnyEvent:
        """Return an event with its base keys and rows in their types."""
        changes: dict[str, object] = {}
        if isinstance(event, ev.BaseUpdateCalled | ev.UpdateReceived):
            changes["key"] = self.key(event.table, event.key)
        if isinstance(event, ev.BaseUpdateCalled):
            changes["row"] = self.row(event.table, event.row)
        if isinstance(event, ev.TestAndSetCalled | ev.EpochCommitted):
            changes["absorbed"] = tuple(
                msgspec.structs.replace(line, key=self.key(line.table, line.key)) for line in event.absorbed
            )
        if isinstance(event, ev.Checkpoint):
            changes["base"] = tuple((t, self.key(t, k), v, self.row(t, r)) for t, k, v, r in event.base)
        return msgspec.structs.replace(event, **changes) if changes else event
