"""Components of clusterings are sorted as Cassandra sorts them, whatever bytes they have."""

import struct
from typing import Any
from uuid import UUID

import pytest

from cvs.model.cql_bytes import encode_cql
from cvs.model.cql_type import parse_type
from cvs.stream.clusterings import component_of

FIRST, SECOND, THIRD = (UUID(int=0x00000001_0000_1000_8000_000000000000 + end) for end in (0x80, 0, 0x7F))
LATER = UUID(int=0x00000000_0001_1000_8000_000000000000)
ORDERS: dict[str, list[Any]] = {
    "int": [None, b"", -(2**31), -1, 0, 1, 2**31 - 1],
    "varint": [None, b"", -(2**70), -300, -1, 0, 255, 2**70],
    "timestamp": [struct.pack(">q", at) for at in (-(2**63), -1, 0, 2**63 - 1)],
    "date": [b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff"],
    "double": [float("-inf"), -1.5, -0.0, 0.0, 1e-300, 2.0, float("inf"), float("nan")],
    "float": [None, b"", -2.0, -1.0, -0.0, 0.0, 1.0, float("nan")],
    "decimal": [None, b"", b"\x7f\xff\xff\xff\xff", b"\0\0\0\0\0", b"\x80\0\0\1\1"],
    "text": [None, "", "\0", "a", "b", "\uffff", "\U0001f600"],
    "boolean": [None, b"", False, True],
    "inet": ["10.0.0.1", "127.0.0.1", "200.0.0.1"],
    "timeuuid": [FIRST, SECOND, THIRD, LATER],  # signed bytes
    "uuid": [SECOND, THIRD, FIRST, LATER, UUID(int=0x00000000_0000_4000_8000_000000000000)],
    "tuple<int, text>": [None, b"", (None, None), (None, "a"), (-1, None), (-1, "b"), (3, "")],
    "frozen<list<int>>": [None, b"", (), (-1,), (-1, 5), (2,)],
    "frozen<set<text>>": [None, frozenset(), frozenset("a"), frozenset("ab"), frozenset("b")],
    "frozen<map<int, text>>": [None, {}, {-1: "a"}, {-1: "a", 2: "a"}, {-1: "b"}, {0: ""}],
}


@pytest.mark.parametrize("kind", ORDERS)
def test_values_are_in_order(kind: str) -> None:
    """Bounds of slices were compared as Python compares values: no number was unequal to itself, maps could not be."""
    cql = parse_type(kind)
    found = [it if isinstance(it, bytes) else encode_cql(cql, it) for it in ORDERS[kind]]
    sorted_by = [component_of(cql, data) for data in found]
    for place, left in enumerate(sorted_by):
        for later, right in enumerate(sorted_by):
            assert (left < right, left == right) == (place < later, place == later), (kind, place, later)
