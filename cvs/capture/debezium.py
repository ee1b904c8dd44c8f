"""Topics of Debezium's Cassandra connector: `<prefix>.<keyspace>.<table>`, JSON with or without its schema.

    {"ts_ms": .., "op": "i" | "u" | "d" | "r",
     "source": {"ts_us": .., "keyspace": .., "table": .., "file": .., "pos": .., ..},
     "after": {"<column>": {"value": .., "deletion_ts": .., "set": true} | null, "_range_start": ..}}

What these messages cannot say is refused, not guessed: columns with a cell an element (the message has the
touched elements without saying whether they replace the others), static columns (never sent), connectors before
2.6 (their times are cut to milliseconds, so the order of two writes is lost). `source.ts_us` is the largest write
time of the partition update: cells written with other times in one batch come out with that one. The TTL of a
cell is counted from it.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from cvs.capture.changes import Change, ColumnKind, Range
from cvs.capture.messages import NOTHING, ChangeMaker
from cvs.capture.values import is_multi_cell
from cvs.errors import HistoryError
from cvs.model.cql_type import CqlType

Json = Any


class Debezium:
    """Reads change events of Debezium's Cassandra connector."""

    def __init__(self, makers: dict[str, ChangeMaker]) -> None:
        """Know the tables by full name."""
        self._makers = makers

    def change(self, data: bytes | None, offset: int) -> Change:
        """Return what an event changes; a Kafka tombstone (no value) changes nothing."""
        event = _payload(data)
        if not event:
            return NOTHING
        maker, time, after = self._maker(event), _time(event), event["after"]
        given = {name: cell for name, cell in after.items() if cell is not None and name in maker.types}
        keys = {column.name for column in (*maker.definition.partition_key, *maker.definition.clustering)}
        values = {name: _value(maker.types[name], cell["value"]) for name, cell in given.items()}
        key = {name: value for name, value in values.items() if name in keys}
        origin = (0, offset, 0)
        match event["op"]:
            case "d":
                return maker.deletion(key, time=time, origin=origin)
            case "r":
                return maker.range_deletion(key, _range(maker, after), time=time, origin=origin)
            case "i" | "u":
                return maker.write(
                    key,
                    {name: value for name, value in values.items() if name not in keys},
                    time=time,
                    inserts=event["op"] == "i",
                    expiries=_expiries(given, keys, time),
                    origin=origin,
                )
        raise HistoryError(f"no operation of Debezium's Cassandra connector: {event['op']!r}")

    def clock(self, data: bytes | None) -> int:
        """Return the time of an event: the connector does not say up to which moment it has read."""
        event = _payload(data)
        return _time(event) if event else 0

    def _maker(self, event: Mapping[str, Json]) -> ChangeMaker:
        source = event["source"]
        name = f"{source['keyspace']}.{source['table']}"
        maker = self._makers.get(name)
        if maker is None:
            raise HistoryError(f"there is no table {name}")
        if maker.definition.of_kind(ColumnKind.STATIC) or any(map(is_multi_cell, maker.types.values())):
            raise HistoryError(
                f"{name} has static columns or collections that are not frozen: Debezium's events cannot tell "
                "what happens to them",
                next_step="capture the commit log, or use an outbox",
            )
        return maker


def _payload(data: bytes | None) -> dict[str, Json]:
    try:
        found = msgspec.json.decode(data or b"null") or {}
        event: dict[str, Json] = found.get("payload", found) if "schema" in found else found
        if event and not {"op", "source", "after"} <= event.keys():
            raise HistoryError("not an event of Debezium's Cassandra connector")
    except (msgspec.DecodeError, AttributeError, TypeError) as fault:
        raise HistoryError(f"not an event of Debezium's Cassandra connector: {fault}") from fault
    return event


def _time(event: Mapping[str, Json]) -> int:
    moment = event["source"].get("ts_us")
    if not isinstance(moment, int):
        raise HistoryError(
            "the event has no source.ts_us: milliseconds lose the order of writes",
            next_step="use Debezium 2.6 or newer",
        )
    return moment


def _value(kind: CqlType, json: Json) -> Json:
    """Undo what Kafka Connect's JSON does to a value and `normal` does not know."""
    if json is None:
        return None
    if kind.name == "blob":
        return base64.b64decode(json)
    if kind.name in ("list", "set", "vector"):
        return [_value(kind.parts[0], item) for item in json]
    if kind.name == "map":  # an object where keys are texts, else pairs
        pairs = json.items() if isinstance(json, dict) else json
        return [(_value(kind.parts[0], key), _value(kind.parts[1], value)) for key, value in pairs]
    if kind.name in ("tuple", "udt"):
        parts = [json.get(field) for field in kind.fields] if kind.fields else list(json.values())
        return [_value(part, item) for part, item in zip(kind.parts, parts, strict=True)]
    if kind.name == "duration":
        raise HistoryError("Debezium writes a duration as nanoseconds: its months and days are lost")
    return json


def _expiries(given: Mapping[str, Json], keys: set[str], time: int) -> dict[str, tuple[int, int]]:
    found = {}
    for name, cell in given.items():
        if name not in keys and cell["deletion_ts"] is not None and cell["value"] is not None:
            expires_at = cell["deletion_ts"] // 1_000_000
            found[name] = (max(1, expires_at - time // 1_000_000), expires_at)
    return found


def _range(maker: ChangeMaker, after: Mapping[str, Json]) -> Range:
    """Read the bounds: `{"method": "INCL_START_BOUND", "values": {"<column>": "<CQL text>"}}`."""
    ends = []
    for name in ("_range_start", "_range_end"):
        bound = after.get(name)
        if not isinstance(bound, dict) or not all(isinstance(v, str) for v in bound["values"].values()):
            raise HistoryError(f"a range deletion whose {name} is none that is known: {bound!r}")
        values = {
            column.strip('"'): _text(maker.types[column.strip('"')], v)
            for column, v in bound["values"].items()
        }
        ends.append(maker.bound(values, inclusive=bound["method"].startswith("INCL_")))
    return Range(*ends)


def _text(kind: CqlType, text: str) -> Json:
    if kind.name == "boolean":
        return text == "true"
    return float(text) if kind.name in ("float", "double") else text
