"""Values survive every encoding, and the Cassandra driver agrees with ours about bytes."""

from decimal import Decimal
from typing import Any

from cassandra import cqltypes
from hypothesis import given, settings
from hypothesis import strategies as st

from cvs.model.cql_bytes import decode_cql, encode_cql
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.definitions import definition_from_json, definition_to_json, table_from_json, view_from_json
from cvs.model.expressions import compile_expression
from cvs.model.identity import canonical, identity, plain_decimal, row_identity, same_row
from cvs.model.types import native, normal
from cvs.model.values import decode_row, decode_value, encode_row, encode_value
from property_tests import strategies

DRIVER = {
    "ascii": cqltypes.AsciiType,
    "bigint": cqltypes.LongType,
    "blob": cqltypes.BytesType,
    "boolean": cqltypes.BooleanType,
    "counter": cqltypes.CounterColumnType,
    "date": cqltypes.SimpleDateType,
    "decimal": cqltypes.DecimalType,
    "double": cqltypes.DoubleType,
    "duration": cqltypes.DurationType,
    "float": cqltypes.FloatType,
    "inet": cqltypes.InetAddressType,
    "int": cqltypes.Int32Type,
    "smallint": cqltypes.ShortType,
    "text": cqltypes.UTF8Type,
    "time": cqltypes.TimeType,
    "timestamp": cqltypes.TimestampType,
    "timeuuid": cqltypes.TimeUUIDType,
    "tinyint": cqltypes.ByteType,
    "uuid": cqltypes.UUIDType,
    "varchar": cqltypes.UTF8Type,
    "varint": cqltypes.IntegerType,
}


def driver_type(cql: CqlType) -> Any:
    """Build the driver's class of a type; tuples stand for user types, whose bytes are the same."""
    if cql.name in DRIVER:
        return DRIVER[cql.name]
    parts = [driver_type(part) for part in cql.parts]
    whole = {"list": cqltypes.ListType, "set": cqltypes.SetType, "map": cqltypes.MapType}.get(cql.name)
    if cql.name == "vector":
        return cqltypes.VectorType.apply_parameters([parts[0], cql.size], None)
    return (whole or cqltypes.TupleType).apply_parameters(parts)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[CqlType, Any]:
    """A type and a canonical value of it."""
    cql = draw(strategies.cql_types())
    return cql, draw(strategies.values_of(cql))


@settings(max_examples=60, deadline=None)
@given(typed_values())
def test_a_value_survives_json_and_bytes(typed: tuple[CqlType, Any]) -> None:
    """What was written is what is read, and the same value gives the same bytes."""
    cql, value = typed
    data = encode_value(value)
    assert identity(decode_value(data)) == identity(value)
    assert encode_value(decode_value(data)) == data
    assert identity(normal(cql, value)) == identity(value)


@settings(max_examples=60, deadline=None)
@given(typed_values())
def test_a_value_survives_cassandras_bytes_and_the_driver_agrees(typed: tuple[CqlType, Any]) -> None:
    """Ours decode the driver's bytes, and for all but unordered collections the bytes are equal."""
    cql, value = typed
    data = encode_cql(cql, value)
    assert data is not None
    assert identity(decode_cql(cql, data)) == identity(value)
    theirs = driver_type(cql).serialize(native(cql, value), 5)
    assert identity(decode_cql(cql, theirs)) == identity(value)
    if cql.name in DRIVER:
        assert theirs == data


@settings(max_examples=40, deadline=None)
@given(typed_values())
def test_a_type_survives_its_text(typed: tuple[CqlType, Any]) -> None:
    """Parsing what was written gives the type."""
    cql, _ = typed
    assert parse_type(str(cql)) == cql


@settings(max_examples=40, deadline=None)
@given(strategies.bases())
def test_rows_survive_and_rows_are_the_same_as_themselves(base: dict[str, list[dict[str, Any]]]) -> None:
    """Row bodies as the store keeps them."""
    for row in [row for rows in base.values() for row in rows]:
        assert same_row(decode_row(encode_row(row)), row)
        assert same_row({n: v for n, v in row.items() if v is not None}, row)
        assert row_identity(row) != row_identity({**row, "k": row["k"] + 100})


@settings(max_examples=40, deadline=None)
@given(strategies.relations())
def test_definitions_survive_json(typed: strategies.Typed) -> None:
    """Relations of every shape, their expressions and constants included."""
    json = definition_to_json(typed.relation)
    assert repr(definition_from_json(json)) == repr(typed.relation)


@settings(max_examples=40, deadline=None)
@given(strategies.views())
def test_views_survive_json(view: Any) -> None:
    """A view definition in a history's header means what it meant."""
    assert view_from_json(definition_to_json(view)) == view
    assert table_from_json(definition_to_json(strategies.R)) == strategies.R


@settings(max_examples=40, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=3))
def test_canonical_decimals_are_equal_and_plain(value: Decimal) -> None:
    """One form a number: no trailing zero after the point, no exponent."""
    plain = plain_decimal(value)
    assert plain == value == canonical(value)
    assert "E" not in str(plain) or abs(value) < Decimal("0.000001")
    assert plain_decimal(value * 10) * 1 == value * 10


@settings(max_examples=50, deadline=None)
@given(strategies.predicates((("k", "int"), ("x", "text"))), strategies.rows_of(strategies.R))
def test_a_predicate_is_true_false_or_null(tree: Any, rows: list[dict[str, Any]]) -> None:
    """Three values, and the same ones after JSON."""
    compiled = compile_expression(tree)
    again = compile_expression(definition_from_json(definition_to_json(tree)))
    for row in rows:
        assert compiled(row) in (True, False, None)
        assert compiled(row) is again(row)
