"""Messages of others become the changes that Cassandra's own log would have had: an outbox, Debezium's events."""

import base64
import json
from datetime import date
from typing import Any

import pytest

from cvs.capture.changes import Bound, Column, ColumnKind, Deletion, Kind, Range, TableDefinition, UserType
from cvs.capture.debezium import Debezium
from cvs.capture.describe import describe
from cvs.capture.messages import NOTHING, ChangeMaker
from cvs.capture.outbox import Outbox
from cvs.errors import CvsError, HistoryError

KEY, CLUSTERING, STATIC, REGULAR = ColumnKind
TIME = 1_700_000_000_123_456
SECOND = TIME // 1_000_000


def table(name: str, *columns: tuple[str, str, ColumnKind]) -> TableDefinition:
    made = [
        Column(name=n, type=t, kind=k, position=place if k in (KEY, CLUSTERING) else -1)
        for place, (n, t, k) in enumerate(columns)
    ]
    addr = UserType(name="addr", fields=(("street", "text"), ("zip", "int")))
    return TableDefinition(id=name, keyspace="shop", name=name, columns=tuple(made), user_types=(addr,))


ORDERS = table(
    "orders",
    ("shop", "text", KEY),
    ("day", "date", KEY),
    ("line", "int", CLUSTERING),
    ("part", "int", CLUSTERING),
    ("note", "text", STATIC),
    ("amount", "decimal", REGULAR),
    ("tags", "set<text>", REGULAR),
    ("by", "map<text, int>", REGULAR),
    ("log", "list<int>", REGULAR),
    ("home", "addr", REGULAR),
)
PLAIN = table(
    "plain",
    ("id", "int", KEY),
    ("at", "timestamp", CLUSTERING),
    ("v", "text", REGULAR),
    ("raw", "blob", REGULAR),
    ("day", "date", REGULAR),
    ("u", "uuid", REGULAR),
    ("both", "frozen<map<int, frozen<list<blob>>>>", REGULAR),
    ("home", "frozen<addr>", REGULAR),
    ("how_long", "duration", REGULAR),
)
MAKERS = {d.full_name: ChangeMaker(d, d.name) for d in (ORDERS, PLAIN)}


def outbox(**message: Any) -> Any:
    return Outbox(MAKERS).change(json.dumps(message).encode(), 7)


def shown(change: Any, definition: TableDefinition) -> dict[str, Any]:
    return describe(7, change, definition)


ROW = {"shop": "a", "day": "2026-01-02", "line": 1, "part": 2}


def test_an_outbox_insert_has_liveness_values_and_expiries() -> None:
    change = outbox(
        table="shop.orders",
        time=TIME,
        op="insert",
        key=ROW,
        set={"amount": "9.90", "tags": ["x", "y"], "by": {"k": 1}, "log": [5, 6], "home": {"zip": 3}},
        ttl=60,
    )
    assert (change.kind, change.origin) == (Kind.ROW, (0, 7, 0))
    assert (change.liveness.write_time, change.liveness.ttl, change.liveness.expires_at) == (
        TIME,
        60,
        SECOND + 60,
    )
    assert {cell.write_time for cell in change.cells} == {TIME}
    assert {(c.ttl, c.expires_at) for c in change.cells if c.value is not None} == {(60, SECOND + 60)}
    assert change.complex_deletions == tuple(
        (n, Deletion(TIME - 1, SECOND)) for n in ("by", "home", "log", "tags")
    )
    found = shown(change, ORDERS)
    assert found["key"] == {"shop": "a", "day": date(2026, 1, 2)}
    assert str(found["values"]["amount"]) == "9.90"
    elements = {n: [(e["element"], e.get("value")) for e in es] for n, es in found["elements"].items()}
    assert elements["tags"] == [("x", None), ("y", None)]
    assert elements["by"] == [("k", 1)]
    assert [value for _, value in elements["log"]] == [5, 6]
    first, second = (element for element, _ in elements["log"])
    assert first.version == second.version == 1
    assert (first.time, first.bytes) < (second.time, second.bytes)
    assert elements["home"] == [("street", None), ("zip", 3)]


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("shop", "day"), Kind.PARTITION_DELETION),
        (("shop", "day", "line"), Kind.RANGE_DELETION),
        (("shop", "day", "line", "part"), Kind.ROW),
    ],
)
def test_an_outbox_delete_covers_what_its_key_names(names: tuple[str, ...], kind: Kind) -> None:
    change = outbox(table="shop.orders", time=TIME, op="delete", key={name: ROW[name] for name in names})
    assert (change.kind, change.deletion, change.cells) == (kind, Deletion(TIME, SECOND), ())
    if kind == Kind.RANGE_DELETION:
        bound = Bound((b"\x00\x00\x00\x01",), True)
        assert change.range == Range(bound, bound)


def test_an_outbox_update_of_the_partition_is_of_its_static_row() -> None:
    key = {"shop": "a", "day": "2026-01-02"}
    change = outbox(table="shop.orders", time=TIME, op="update", key=key, set={"note": None})
    assert (change.kind, change.liveness, change.clustering) == (Kind.STATIC, None, ())
    assert change.cells[0].is_tombstone


def test_a_heartbeat_says_how_far_its_partition_is() -> None:
    assert outbox(clock=TIME) == NOTHING
    assert Outbox(MAKERS).clock(json.dumps({"clock": TIME}).encode()) == TIME
    assert Outbox(MAKERS).clock(json.dumps({"table": "t", "time": 5}).encode()) == 5


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"table": "shop.none", "time": 1, "op": "update"}, "no table"),
        ({"table": "shop.orders", "op": "update"}, "its time"),
        ({"table": "shop.orders", "time": 1, "op": "merge"}, "not an outbox message"),
        ({"table": "shop.orders", "time": 1, "op": "delete", "key": {"shop": "a"}}, "lacks day"),
        ({"table": "shop.orders", "time": 1, "op": "delete", "key": ROW | {"line": None}}, "hole"),
        ({"table": "shop.orders", "time": 1, "op": "update", "key": ROW, "set": {"x": 1}}, "no column"),
        (
            {"table": "shop.orders", "time": 1, "op": "update", "key": ROW, "set": {"amount": "x"}},
            "no decimal",
        ),
        ({"table": "shop.orders", "tiem": 1}, "not an outbox message"),
    ],
)
def test_what_is_no_write_is_refused(message: dict[str, Any], said: str) -> None:
    with pytest.raises(CvsError, match=said):
        outbox(**message)


SOURCE = {
    "version": "3.0.0.Final",
    "connector": "cassandra",
    "name": "test",
    "ts_ms": TIME // 1000,
    "snapshot": "false",
    "db": "NULL",
    "sequence": None,
    "ts_us": TIME,
    "ts_ns": TIME * 1000,
    "cluster": "cvs",
    "file": "CommitLog-7-1700000000000.log",
    "pos": 4711,
    "keyspace": "shop",
    "table": "plain",
}


def cell(value: Any, deletion_ts: int | None = None) -> dict[str, Any]:
    return {"value": value, "deletion_ts": deletion_ts, "set": True}


def event(op: str, after: dict[str, Any], **source: Any) -> Any:
    columns = dict.fromkeys(column.name for column in PLAIN.columns)
    ranges = {"_range_start": None, "_range_end": None}
    payload = {"ts_ms": 1, "op": op, "source": SOURCE | source, "after": columns | ranges | after}
    message = {
        "schema": {"type": "struct", "name": "io.debezium.connector.cassandra.test.shop.plain.Envelope"}
    }
    whole, bare = (json.dumps(m).encode() for m in (message | {"payload": payload}, payload))
    found = Debezium(MAKERS).change(whole, 7)
    assert Debezium(MAKERS).change(bare, 7) == found, "schemas.enable or not"
    return found


def test_a_debezium_insert() -> None:
    raw = base64.b64encode(b"\x00\xff").decode()
    after = {
        "id": cell(1),
        "at": cell(1_700_000_000_000),
        "v": cell("hi", (SECOND + 60) * 1_000_000),
        "raw": cell(raw),
        "day": cell(19_000),
        "u": cell("0b6f9a1e-0000-4000-8000-000000000001"),
        "both": cell([[1, [raw]]]),
        "home": cell({"street": "s", "zip": None}),
    }
    change = event("i", after)
    assert (change.kind, change.key, change.liveness.write_time) == (Kind.ROW, b"\x00\x00\x00\x01", TIME)
    values = shown(change, PLAIN)["values"]
    assert (values["v"], values["raw"], str(values["day"])) == ("hi", b"\x00\xff", "2022-01-08")
    assert values["both"] == ((1, (b"\x00\xff",)),)
    assert values["home"] == {"street": "s", "zip": None}
    expiring = {c.column: (c.ttl, c.expires_at) for c in change.cells if c.expires_at}
    assert expiring == {"v": (60, SECOND + 60)}


def test_a_debezium_update_touches_only_what_it_names() -> None:
    change = event("u", {"id": cell(1), "at": cell(0), "v": cell(None)})
    assert (change.liveness, [c.column for c in change.cells]) == (None, ["v"])
    assert change.cells[0].is_tombstone


def test_debezium_deletions() -> None:
    gone = {name: cell(None, TIME) for name in ("v", "raw", "day", "u", "both", "home", "how_long")}
    row = event("d", {"id": cell(1), "at": cell(5)} | gone)
    assert (row.kind, row.deletion, len(row.clustering), row.cells) == (
        Kind.ROW,
        Deletion(TIME, SECOND),
        1,
        (),
    )
    partition = event("d", {"id": cell(1), "at": cell(None, TIME)} | gone)
    assert (partition.kind, partition.deletion) == (Kind.PARTITION_DELETION, Deletion(TIME, SECOND))
    start = {"method": "INCL_START_BOUND", "values": {"at": "2026-01-02T00:00:00Z"}}
    rows = event(
        "r", {"id": cell(1), "_range_start": start, "_range_end": {"method": "INCL_END_BOUND", "values": {}}}
    )
    assert rows.kind == Kind.RANGE_DELETION
    assert (len(rows.range.start.values), rows.range.start.inclusive, rows.range.end.values) == (1, True, ())


def test_a_kafka_tombstone_changes_nothing() -> None:
    assert Debezium(MAKERS).change(None, 7) == NOTHING


@pytest.mark.parametrize(
    ("op", "after", "source", "said"),
    [
        ("i", {"id": cell(1), "at": cell(0)}, {"ts_us": None}, "milliseconds lose the order"),
        ("i", {"id": cell(1), "at": cell(0)}, {"table": "orders"}, "cannot tell"),
        ("i", {"id": cell(1), "at": cell(0)}, {"table": "none"}, "no table"),
        ("i", {"id": cell(1), "at": cell(0), "how_long": cell(5)}, {}, "months and days are lost"),
        ("c", {"id": cell(1), "at": cell(0)}, {}, "no operation"),
        ("r", {"id": cell(1), "_range_start": "x"}, {}, "_range_start"),
    ],
)
def test_what_debezium_cannot_say_is_refused(op: str, after: Any, source: Any, said: str) -> None:
    with pytest.raises(HistoryError, match=said):
        event(op, after, **source)


@pytest.mark.parametrize("data", [b"[1]", b'"x"', b"{", b'{"op": "i"}'])
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(HistoryError, match="not an event"):
        Debezium(MAKERS).change(data, 7)
