"""Serialized values of captured changes, by column name, against what the driver, an outsider, serialized."""

import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from cassandra import cqltypes
from hypothesis import given
from hypothesis import strategies as st

from cvs.capture.changes import Column, ColumnKind, TableDefinition, UserType
from cvs.capture.decode import TableDecoder
from cvs.capture.values import Reader, type_of
from cvs.errors import SpecificationError
from cvs.model.cql_bytes import fixed_length
from cvs.model.cql_type import parse_type

ADDR = UserType(name="Addr", fields=(("street", "text"), ("zip", "int"), ("added", "int")))
ID = UUID(int=7)


def reader_of(kind: str) -> Reader:
    return Reader(table(kind))


def table(kind: str, *, counter: bool = False) -> TableDefinition:
    columns = (
        Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),
        Column(name="v", type=kind, kind=ColumnKind.REGULAR),
    )
    return TableDefinition(
        id=str(ID), keyspace="k", name="t", columns=columns, user_types=(ADDR,), counter=counter
    )


def serialized(kind: str, value: Any) -> bytes:
    found: bytes = cqltypes.lookup_casstype(kind).serialize(value, 4)
    return found


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_decimals_of_any_size_are_exact(value: Decimal) -> None:
    read = reader_of("decimal").value("v", serialized("DecimalType", value))
    assert read.as_tuple() == (value if value else abs(value)).as_tuple()


def test_null_and_empty_are_two_things() -> None:
    assert reader_of("text").value("v", b"") == ""
    assert reader_of("text").value("v", None) is None
    assert reader_of("int").value("v", b"") is None


def test_a_user_type_shorter_than_its_definition_ends_in_nulls() -> None:
    data = b"\x00\x00\x00\x01s\x00\x00\x00\x04\x00\x00\x00\x05"
    assert reader_of('frozen<"Addr">').value("v", data) == {"street": "s", "zip": 5, "added": None}


@pytest.mark.parametrize("kind", ["timestamp", "'org.apache.cassandra.db.marshal.DynamicCompositeType'"])
def test_what_has_no_python_value_stays_bytes(kind: str) -> None:
    data = (1 << 62).to_bytes(8, "big")
    assert reader_of(kind).value("v", data) == data


def test_a_counter_is_the_sum_of_the_shards_in_its_context() -> None:
    """Header: how many entries of two bytes; body: (id, clock, count) a shard."""
    shards = [(UUID(int=1), 3, 40), (UUID(int=2), 9, -7)]
    body = b"".join(one.bytes + struct.pack(">qq", clock, count) for one, clock, count in shards)
    for entries in (0, 1, -2):
        context = struct.pack(">h", entries) + bytes(2 * abs(entries)) + body
        assert reader_of("counter").value("v", context) == 33
    assert reader_of("counter").value("v", None) is None


@pytest.mark.parametrize(
    ("text", "length"),
    [("int", 4), ("date", -1), ("vector<float, 3>", 12), ("vector<text, 3>", -1), ("frozen<list<int>>", -1)],
)
def test_lengths_on_the_wire(text: str, length: int) -> None:
    assert fixed_length(parse_type(text)) == length


@pytest.mark.parametrize("text", ["", "list<", "list<int", "int>", "<int>"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(SpecificationError, match="CQL type"):
        type_of(text, {})


@pytest.mark.parametrize(
    ("kind", "many"),
    [("list<int>", True), ('"Addr"', True), ('frozen<"Addr">', False), ("tuple<int, text>", False)],
)
def test_only_unfrozen_collections_and_user_types_have_many_cells(kind: str, many: bool) -> None:
    assert TableDecoder(table(kind), "ref")._plans[b"v"].is_complex is many
