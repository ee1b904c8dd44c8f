"""The table of types: what comes in, in which form it stays, what is refused."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from cassandra import cqltypes

from cvs.errors import HistoryError, SpecificationError
from cvs.model.cql_bytes import decode_cql, encode_cql
from cvs.model.cql_type import SCALARS, CqlType, parse_type
from cvs.model.definitions import definition_from_json, view_from_json
from cvs.model.types import TYPES, native, normal, normal_row
from cvs.model.values import Duration, decode_row, from_json, to_json

ANY_UUID = UUID("0b6f9a1e-0000-4000-8000-000000000001")


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("int", "7", 7),
        ("varint", 10**40, 10**40),
        ("float", 0.1, 0.10000000149011612),
        ("double", "NaN", "nan"),
        ("decimal", 1.5, Decimal("1.5")),
        ("decimal", "1.10", Decimal("1.10")),
        ("timestamp", datetime.fromisoformat("2026-01-02T03:00"), datetime(2026, 1, 2, 3, tzinfo=UTC)),
        (
            "timestamp",
            datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 1, 2, 1, tzinfo=UTC),
        ),
        ("timestamp", "2026-01-02T03:04:05.123456Z", datetime(2026, 1, 2, 3, 4, 5, 123000, tzinfo=UTC)),
        ("timestamp", 1000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("date", "2026-01-02", date(2026, 1, 2)),
        ("date", SimpleNamespace(date=lambda: date(2026, 1, 2)), date(2026, 1, 2)),
        ("time", "10:00:00.000000001", 36_000_000_000_001),
        ("time", time(10), 36_000_000_000_000),
        ("time", SimpleNamespace(nanosecond_time=5), 5),
        ("uuid", str(ANY_UUID), ANY_UUID),
        ("blob", bytearray(b"\x00\xff"), b"\x00\xff"),
        ("blob", "0x00ff", b"\x00\xff"),
        ("inet", "::1", ip_address("::1")),
        ("duration", "-1mo2d3ns", Duration(-1, -2, -3)),
        ("duration", SimpleNamespace(months=1, days=0, nanoseconds=0), Duration(1, 0, 0)),
        ("list<int>", [1, 2], (1, 2)),
        ("list<int>", [], None),
        ("frozen<list<int>>", [], ()),
        ("set<text>", {"b", "a"}, ("a", "b")),
        ("map<text, int>", {"b": 2, "a": 1}, (("a", 1), ("b", 2))),
        ("tuple<int, text>", (1,), (1, None)),
        ("udt<street:text, zip:int>", {"zip": 1}, (None, 1)),
        ("vector<float, 2>", [1, 2], (1.0, 2.0)),
    ],
)
def test_what_comes_in_gets_one_form(kind: str, given: object, expected: object) -> None:
    """Drivers, JSON and people write values differently; inside there is one form."""
    found = normal(kind, given)
    assert (repr(found) if expected == "nan" else found) == expected


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("decimal", "four"),
        ("int", 2**31),
        ("int", True),
        ("int", 1.5),
        ("int", "x"),
        ("boolean", 1),
        ("text", 1),
        ("decimal", "NaN"),
        ("date", 10**9),
        ("time", -1),
        ("uuid", "x"),
        ("blob", 7),
        ("inet", "300.1.1.1"),
        ("duration", "soon"),
        ("list<int>", "12"),
        ("tuple<int>", (1, 2)),
    ],
)
def test_what_is_no_value_of_a_type_is_refused(kind: str, given: object) -> None:
    """The message names value and type."""
    with pytest.raises(SpecificationError, match=r"^((?!<class).)* is no ((?!<class).)*$"):
        normal(kind, given)


@pytest.mark.parametrize(
    "text", ["", "integer", "list", "list<int", "map<int>", "list<int>>", "vector<float, 0>", "int; drop"]
)
def test_what_is_no_type_is_refused(text: str) -> None:
    """Unknown names, wrong counts, left-overs."""
    with pytest.raises(SpecificationError, match="is no CQL type"):
        parse_type(text)


def test_a_user_type_is_found_by_its_name() -> None:
    """As `system_schema` writes columns."""
    address = {"address": (("street", "text"), ("zip", "int"))}
    found = parse_type("frozen<map<text, frozen<address>>>", address)
    assert found.parts[1].fields == ("street", "zip")
    assert found.parts[1].parts[1] == CqlType(name="int")


def test_the_driver_gets_what_it_takes() -> None:
    """Sets and maps as Python's own, addresses as text."""
    assert native("map<text, frozen<set<int>>>", (("a", (1, 2)),)) == {"a": {1, 2}}
    assert native("inet", ip_address("::1")) == "::1"
    assert native("tuple<int, inet>", (1, None)) == (1, None)
    assert native("list<int>", None) is None


def test_rows_are_brought_to_their_types() -> None:
    """Columns without a type stay as they are."""
    types = {"d": CqlType(name="date")}
    assert normal_row(types, {"d": "2026-01-02", "x": "2026-01-02"}) == {
        "d": date(2026, 1, 2),
        "x": "2026-01-02",
    }


def test_every_scalar_type_is_in_the_table_and_in_the_readme() -> None:
    """One table; the document cannot go stale."""
    assert set(TYPES) >= SCALARS
    readme = (Path(__file__).parents[3] / "cvs/model/README.md").read_text()
    for name, row in TYPES.items():
        line = f"| {name} | {row.python} | `{row.json}` | {row.parquet} | {row.spark} | {row.duckdb} | {row.note} |"
        assert line in readme, line


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text", b"\xff"),
        ("uuid", b"123"),
        ("list<int>", b"\x00\x00\x00\x05"),
        ("list<int>", b"\x7f\xff\xff\xff\x00"),
        ("tuple<int>", b"\x00\x00\x00\x09\x00"),
        ("date", b"\xff\xff\xff\xff"),
        ("duration", b"\xf0\x00"),
        ("double", b"\x00"),
    ],
)
def test_bytes_that_are_no_value_are_refused(kind: str, data: bytes) -> None:
    """Never a wrong value, never another error."""
    with pytest.raises(HistoryError):
        decode_cql(kind, data)


def test_null_and_empty_bytes() -> None:
    """No bytes are null; empty bytes are the empty text, and nothing for a number."""
    assert decode_cql("int", None) is None
    assert decode_cql("int", b"") is None
    assert decode_cql("text", b"") == ""
    assert encode_cql("int", None) is None


def test_vectors_agree_with_the_driver() -> None:
    """Elements of no fixed length carry theirs (`date` and `smallint` among them)."""
    kinds = {"float": "FloatType", "text": "UTF8Type", "smallint": "ShortType"}
    for name, values in {"float": (1.5, 2.5), "text": ("", "x" * 200), "smallint": (1, -1)}.items():
        vector = cqltypes.VectorType.apply_parameters([kinds[name], 2], None)
        assert encode_cql(f"vector<{name}, 2>", values) == vector.serialize(list(values), 4)
        assert decode_cql(f"vector<{name}, 2>", vector.serialize(list(values), 4)) == values
    with pytest.raises(HistoryError, match="within an element"):
        decode_cql("vector<text, 2>", b"\x01a\x05b")


@pytest.mark.parametrize("json", [{"$date": "x"}, {"$nothing": 1}, {"a": 1, "b": 2}, {}, {"$decimal": []}])
def test_json_that_is_no_value_is_refused(json: object) -> None:
    """A typing error in a history is named."""
    with pytest.raises(HistoryError):
        from_json(json)


def test_json_forms() -> None:
    """What JSON has stays plain; the rest is tagged."""
    assert to_json((1, "a", None, 1.5, True)) == [1, "a", None, 1.5, True]
    assert to_json(2**70) == {"$int": str(2**70)}
    assert to_json({"b": 1, "a": {2, 1}}) == {"$map": [["a", {"$set": [1, 2]}], ["b", 1]]}
    assert from_json({"$map": [["a", 1]]}) == {"a": 1}
    with pytest.raises(TypeError, match="no JSON form"):
        to_json(object())
    with pytest.raises(HistoryError):
        decode_row(b"[1]")


@pytest.mark.parametrize(
    "json",
    [
        {"is": "Scan"},
        {"is": "Scan", "table": "t", "alias": "t", "x": 1},
        {"is": "Table"},
        {"is": "AggregateColumn", "name": "a", "function": "median"},
        {},
    ],
)
def test_definitions_that_are_none_are_refused(json: object) -> None:
    """What is missing or unknown is named."""
    with pytest.raises(SpecificationError):
        definition_from_json(json)


def test_a_part_is_no_view() -> None:
    """A header must hold views where views belong."""
    with pytest.raises(SpecificationError, match="no ViewDefinition"):
        view_from_json({"is": "Scan", "table": "t", "alias": "t"})
