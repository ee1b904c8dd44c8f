"""A node returns the rows of a partition in the order by which we find what a deleted slice covers."""

import random
import struct
from collections.abc import Callable, Iterable
from itertools import pairwise
from uuid import UUID

import pytest

from cvs.embedded.node import Node
from cvs.model.cql_type import parse_type
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.clusterings import component_of

ROWS = 120
CHANCE = random.Random(3)
TEXTS = ["", "a", "b", "ab", "\0", "\uffff", "\N{GRINNING FACE}"]


def some(size: int) -> bytes:
    return bytes(CHANCE.choice((0, 1, 127, 128, 255, CHANCE.randrange(256))) for _ in range(size))


def element(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def text() -> bytes:
    return CHANCE.choice(TEXTS).encode()


def uuid(versions: Iterable[int]) -> bytes:
    moment = CHANCE.choice([b"\0\0\0\0\0\0", b"\0\0\0\1\0\0", b"\0\0\0\0\0\1", b"\xff\0\0\0\xff\0"])
    data = bytearray(moment + some(10))
    data[6], data[8] = CHANCE.choice(list(versions)) << 4 | data[6] & 1, 0x80 | data[8] & 0x3F
    return UUID(bytes=bytes(data)).bytes


def collection(items: list[bytes], width: int = 1) -> bytes:
    return struct.pack(">i", len(items) // width) + b"".join(map(element, items))


def entries() -> bytes:
    keys = sorted(CHANCE.sample(range(-3, 3), CHANCE.randrange(3)))
    return collection([part for key in keys for part in (struct.pack(">i", key), text())], 2)


VALUES: dict[str, Callable[[], bytes]] = {
    "int": lambda: CHANCE.choice([b"", some(4)]),
    "tinyint": lambda: some(1),
    "varint": lambda: some(CHANCE.randrange(4)),
    "timestamp": lambda: some(8),
    "date": lambda: some(4),
    "double": lambda: some(8),
    "float": lambda: some(4),
    "decimal": lambda: struct.pack(">i", CHANCE.randrange(-3, 4)) + some(CHANCE.randrange(1, 3)),
    "text": text,
    "blob": lambda: some(CHANCE.randrange(3)),
    "boolean": lambda: CHANCE.choice([b"\0", b"\1"]),
    "inet": lambda: some(CHANCE.choice([4, 16])),
    "uuid": lambda: uuid((1, 1, 3, 4)),
    "timeuuid": lambda: uuid((1,)),
    "frozen<tuple<int, text>>": lambda: element(CHANCE.choice([None, some(4)])) + CHANCE.choice([b"", element(text())]),
    "frozen<list<int>>": lambda: collection([some(4) for _ in range(CHANCE.randrange(3))]),
    "frozen<set<text>>": lambda: collection([it.encode() for it in sorted(CHANCE.sample("abcd", CHANCE.randrange(3)))]),
    "frozen<map<int, text>>": entries,
}  # fmt: skip


@pytest.mark.cluster
def test_clusterings_are_ordered_as_a_node_orders_them(cassandra_node: Node) -> None:
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE ordered WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    for number, (kind, value) in enumerate(VALUES.items()):
        session.define(f"CREATE TABLE ordered.t{number} (p int, c {kind}, n int, PRIMARY KEY (p, c))")
        put = session.prepared(f"INSERT INTO ordered.t{number} (p, c, n) VALUES (1, ?, ?)")
        written = [value() for _ in range(ROWS)]
        for n, data in enumerate(written):
            bound = put.bind((None, n))
            bound.values[0] = data
            session.driver.execute(bound)
        found = [n for (n,) in session.driver.execute(f"SELECT n FROM ordered.t{number} WHERE p = 1")]
        sorted_by = [component_of(parse_type(kind), written[n]) for n in found]
        assert all(one < other for one, other in pairwise(sorted_by)), kind
    session.define("DROP KEYSPACE ordered")
    session.close()
