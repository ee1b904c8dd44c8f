"""Changes as people and JSON show them: Python values by column name, positions, times."""

from typing import Any

from cvs.capture.changes import Change, Column, Kind, TableDefinition, split_key
from cvs.capture.values import Reader

Shown = dict[str, Any]


def describe(position: int, change: Change, definition: TableDefinition | None) -> Shown:
    """Return a change as a plain object; `definition` is None only where a change is about no table."""
    shown: Shown = {"position": position, "kind": Kind(change.kind).name.lower().replace("_", " ")}
    if definition:
        shown["table"] = definition.full_name
        reader = Reader(definition)
        if change.key:
            values = split_key(definition, change.key)
            shown["key"] = _named(definition.partition_key, values, reader)
        if change.clustering:
            shown["clustering"] = _named(definition.clustering, change.clustering, reader)
        if change.range:
            shown["from"] = _bound(definition, change.range.start, reader)
            shown["to"] = _bound(definition, change.range.end, reader)
        shown |= _cells(change, reader)
    if change.liveness:
        shown["written"] = change.liveness.write_time
        shown |= {"expires": change.liveness.expires_at} if change.liveness.ttl else {}
    if change.deletion:
        shown["deleted"] = change.deletion.write_time
    shown |= {"detail": change.detail} if change.detail else {}
    return shown | {"origin": f"{change.origin[0]}:{change.origin[1]}"}


def _named(columns: tuple[Column, ...], values: tuple[bytes | None, ...], reader: Reader) -> Shown:
    return {c.name: reader.value(c.name, v) for c, v in zip(columns, values, strict=False)}


def _bound(definition: TableDefinition, bound: Any, reader: Reader) -> Shown:
    return _named(definition.clustering, bound.values, reader) | {"inclusive": bound.inclusive}


def _cells(change: Change, reader: Reader) -> Shown:
    values: Shown = {}
    elements: dict[str, list[Shown]] = {}
    for cell in change.cells:
        if cell.path is None:
            values[cell.column] = reader.value(cell.column, cell.value)
            continue
        path, value = reader.element(cell)
        element: Shown = {"element": path, "value": value, "time": cell.write_time}
        if cell.is_tombstone:
            element = {"element": path, "removed": True, "time": cell.write_time}
        elements.setdefault(cell.column, []).append(element)
    shown: Shown = {"values": values} if values else {}
    shown |= {"elements": elements} if elements else {}
    times = {c.column: c.write_time for c in change.cells if c.path is None}
    if times and (not change.liveness or set(times.values()) != {change.liveness.write_time}):
        shown["times"] = times
    if change.complex_deletions:
        shown["emptied"] = {name: deletion.write_time for name, deletion in change.complex_deletions}
    return shown
