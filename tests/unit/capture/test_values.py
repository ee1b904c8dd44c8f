"""CQL types parse; serialized values decode to what the driver, an outsider, serialized."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from cassandra import cqltypes, util
from hypothesis import given
from hypothesis import strategies as st

from cvs.capture.types import parse_type
from cvs.capture.values import python_value


def serialized(kind: str, value: Any) -> bytes:
    found: bytes = cqltypes.lookup_casstype(kind).serialize(value, 4)
    return found


@pytest.mark.parametrize(
    ("cql", "casstype", "written", "read"),
    [
        ("text", "UTF8Type", "h\u00e9", "h\u00e9"),
        ("boolean", "BooleanType", True, True),
        ("inet", "InetAddressType", "10.0.0.1", "10.0.0.1"),
        ("inet", "InetAddressType", "2001:db8::1", "2001:db8::1"),
        ("timestamp", "TimestampType", datetime(2020, 1, 2, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)),
        ("date", "SimpleDateType", util.Date(date(1969, 12, 31)), date(1969, 12, 31)),
        ("time", "TimeType", util.Time(5), 5),
        ("duration", "DurationType", util.Duration(-1, -2, -3), (-1, -2, -3)),
        ("uuid", "UUIDType", UUID(int=7), UUID(int=7)),
        ("list<int>", "ListType(Int32Type)", [1, None, 3], [1, None, 3]),
        (
            "frozen<map<text, frozen<list<int>>>>",
            "MapType(UTF8Type, ListType(Int32Type))",
            {"a": [1]},
            [("a", [1])],
        ),
        ("tuple<int, text>", "TupleType(Int32Type, UTF8Type)", (1, None), (1, None)),
    ],
)
def test_what_the_driver_writes_is_read_back(cql: str, casstype: str, written: Any, read: Any) -> None:
    assert python_value(parse_type(cql), serialized(casstype, written), {}) == read


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_decimals_of_any_size_are_exact(value: Decimal) -> None:
    read = python_value(parse_type("decimal"), serialized("DecimalType", value), {})
    assert read.as_tuple() == (value if value else abs(value)).as_tuple()


@given(st.integers())
def test_varints_of_any_size(value: int) -> None:
    assert python_value(parse_type("varint"), serialized("IntegerType", value), {}) == value


def test_null_and_empty_are_two_things() -> None:
    assert python_value(parse_type("text"), b"", {}) == ""
    assert python_value(parse_type("text"), None, {}) is None
    assert python_value(parse_type("int"), b"", {}) is None


def test_a_user_type_shorter_than_its_definition_ends_in_nulls() -> None:
    fields = {"addr": (("street", "text"), ("zip", "int"), ("added", "int"))}
    data = b"\x00\x00\x00\x01s\x00\x00\x00\x04\x00\x00\x00\x05"
    assert python_value(parse_type("frozen<addr>"), data, fields) == {"street": "s", "zip": 5, "added": None}


def test_a_timestamp_beyond_the_calendar_stays_a_number() -> None:
    assert python_value(parse_type("timestamp"), (1 << 62).to_bytes(8, "big"), {}) == 1 << 62


@pytest.mark.parametrize(
    ("text", "length"),
    [("int", 4), ("date", -1), ("vector<float, 3>", 12), ("vector<text, 3>", -1), ("frozen<list<int>>", -1)],
)
def test_lengths_on_the_wire(text: str, length: int) -> None:
    assert parse_type(text).fixed_length == length


@pytest.mark.parametrize("text", ["", "list<", "list<int", "int>", "<int>"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="CQL type"):
        parse_type(text)


def test_only_unfrozen_collections_and_user_types_have_many_cells() -> None:
    users = frozenset({"Addr"})
    assert parse_type("list<int>").is_multi_cell(users)
    assert parse_type('"Addr"').is_multi_cell(users)
    assert not parse_type('frozen<"Addr">').is_multi_cell(users)
    assert not parse_type("tuple<int, text>").is_multi_cell(users)
