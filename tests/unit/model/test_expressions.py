"""Scalar expressions follow SQL: nulls, NaN, exact decimals, Spark's ways with texts and dates."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from cvs.errors import HistoryError, SpecificationError
from cvs.model.expressions import (
    Call,
    Column,
    Literal,
    columns_of,
    compile_expression,
    compile_predicate,
    function_names,
)
from cvs.model.functions import STRICT
from cvs.model.types import normal
from cvs.model.values import from_json, too_long
from cvs.programs.stage_codec import pack, pack_key

NAN = math.nan


def value_of(function: str, *arguments: object) -> object:
    """Evaluate one function, with its arguments once as constants and once as columns; both must agree."""
    constant = compile_expression(Call(function, tuple(map(Literal, arguments))))({})
    row = {str(i): argument for i, argument in enumerate(arguments)}
    columns = compile_expression(Call(function, tuple(map(Column, row))))(row)
    assert repr(constant) == repr(columns)
    return constant


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("=", (1, 1), True),
        ("=", (1, None), None),
        ("=", (NAN, NAN), True),
        ("<", (1.0, NAN), True),
        ("<", (NAN, 1.0), False),
        ("<", (Decimal(1), NAN), True),
        (">=", (NAN, NAN), True),
        ("<=", (2, 2), True),
        ("<=>", (None, None), True),
        ("<=>", (None, 1), False),
        ("and", (False, None), False),
        ("and", (True, None), None),
        ("or", (True, None), True),
        ("or", (False, None), None),
        ("not", (None,), None),
        ("not", (True,), False),
        ("in", (1, 2, None), None),
        ("in", (1, 1, None), True),
        ("in", (1, 2, 3), False),
        ("between", (5, None, 4), False),
        ("between", (5, 1, None), None),
        ("between", (5, 1, 9), True),
        ("case", (False, "a", None, "b", "c"), "c"),
        ("case", (False, "a"), None),
        ("coalesce", (None, 2, 3), 2),
        ("nullif", (1, 1), None),
        ("nullif", (1, 2), 1),
        ("is_null", (None,), True),
        ("is_not_null", (None,), False),
        ("greatest", (1, None, 3), 3),
        ("greatest", (1.0, NAN), NAN),
        ("least", (None, None), None),
    ],
)
def test_null_logic(function: str, arguments: tuple[object, ...], expected: object) -> None:
    """Three-valued logic, and floats with NaN as the greatest."""
    assert repr(value_of(function, *arguments)) == repr(expected)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("+", (2**62, 2**62), 2**63),
        ("+", (Decimal("0.1"), Decimal("0.2")), Decimal("0.3")),
        ("+", (Decimal("0.5"), 0.25), 0.75),
        ("*", (Decimal("1.1"), 3), Decimal("3.3")),
        ("/", (1, 2), 0.5),
        ("/", (1, 0), None),
        ("/", (1.0, 0.0), None),
        ("/", (Decimal(1), Decimal(3)), Decimal("0." + "3" * 38)),
        ("%", (-7, 3), -1),
        ("%", (7, 0), None),
        ("%", (-7.5, 2.0), -1.5),
        ("negate", (Decimal("1.5"),), Decimal("-1.5")),
        ("abs", (-3,), 3),
        ("round", (Decimal("2.5"),), Decimal(3)),
        ("round", (-2.5,), -3.0),
        ("round", (1.005, 2), 1.01),
        ("round", (1250, -2), 1300),
        ("floor", (-1.5,), -2),
        ("ceil", (Decimal("1.2"),), Decimal(2)),
        ("ceil", (NAN,), None),
    ],
)
def test_arithmetic(function: str, arguments: tuple[object, ...], expected: object) -> None:
    """Integers and decimals are exact, nothing divides by zero, halves round away from zero."""
    assert repr(value_of(function, *arguments)) == repr(expected)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("like", ("a%b", "a\\%b"), True),
        ("like", ("axb", "a\\%b"), False),
        ("like", ("PROMO\nTIN", "PROMO%"), True),
        ("like", ("cat", "c_t"), True),
        ("like", ("cats", "c_t"), False),
        ("like", ("a.c", "abc"), False),
        ("concat", ("a", None), None),
        ("concat", ("a", "b", "c"), "abc"),
        ("substring", ("Spark", 2, 3), "par"),
        ("substring", ("Spark", -3), "ark"),
        ("substring", ("Spark", 0, 2), "Sp"),
        ("substring", ("Spark", -7, 3), "S"),
        ("substring", ("Spark", 2, -1), ""),
        ("trim", ("  a\t ",), "a\t"),
        ("length", ("äöü",), 3),
        ("position", ("c", "abc"), 3),
        ("right", ("abc", 2), "bc"),
        ("right", ("abc", 0), ""),
        ("replace", ("aXbX", "X", "-"), "a-b-"),
        ("replace", ("ab", "", "-"), "ab"),
    ],
)
def test_texts(function: str, arguments: tuple[object, ...], expected: object) -> None:
    """Texts follow Spark: positions from 1, backslash escapes, trimming of spaces only."""
    assert value_of(function, *arguments) == expected


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("year", (date(1998, 12, 1),), 1998),
        ("quarter", (date(1998, 12, 1),), 4),
        ("day_of_week", (date(2026, 11, 15),), 1),
        ("day_of_year", (date(2024, 12, 31),), 366),
        ("add_days", (date(1998, 12, 1), -90), date(1998, 9, 2)),
        ("add_days", (date(9999, 12, 31), 1), None),
        ("add_months", (date(2024, 1, 31), 1), date(2024, 2, 29)),
        ("add_months", (date(2023, 3, 31), -1), date(2023, 2, 28)),
        ("add_months", (date(9999, 12, 1), 1), None),
        ("days_between", (date(2026, 3, 1), date(2026, 2, 1)), 28),
        ("date_trunc", ("quarter", date(2026, 11, 18)), datetime(2026, 10, 1, tzinfo=UTC)),
        ("date_trunc", ("week", date(2026, 11, 18)), datetime(2026, 11, 16, tzinfo=UTC)),
        (
            "date_trunc",
            ("hour", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
            datetime(2026, 1, 2, 3, tzinfo=UTC),
        ),
        ("date_trunc", ("aeon", date(2026, 11, 18)), None),
    ],
)
def test_dates(function: str, arguments: tuple[object, ...], expected: object) -> None:
    """Months end where they end; beyond the calendar is null."""
    assert value_of(function, *arguments) == expected


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("cast_int", " 12.9 ", 12),
        ("cast_int", "x", None),
        ("cast_int", 2**31, None),
        ("cast_bigint", Decimal("-1.9"), -1),
        ("cast_bigint", True, 1),
        ("cast_tinyint", NAN, None),
        ("cast_double", "Infinity", math.inf),
        ("cast_double", Decimal("0.5"), 0.5),
        ("cast_double", 10**400, math.inf),
        ("cast_float", -(10**400), -math.inf),
        ("cast_float", 0.1, 0.10000000149011612),
        ("cast_decimal", 0.1, Decimal("0.1")),
        ("cast_decimal", "1e3", Decimal("1E+3")),
        ("cast_text", Decimal("1E+3"), "1000"),
        ("cast_text", True, "true"),
        ("cast_text", datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=UTC), "2026-01-02 03:04:05.5"),
        ("cast_boolean", "Yes", True),
        ("cast_boolean", "maybe", None),
        ("cast_date", datetime(2026, 1, 2, 23, tzinfo=UTC), date(2026, 1, 2)),
        ("cast_date", "2026-02-30", None),
        ("cast_timestamp", date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC)),
        ("cast_uuid", "no", None),
    ],
)
def test_casts(function: str, value: object, expected: object) -> None:
    """A value without counterpart becomes null; one bad row never stops a view."""
    assert repr(value_of(function, value)) == repr(expected)


LONG = (10**999, -(10**999), Decimal("9E+999"), Decimal("-1E-999"), Decimal("-" + "9" * 999))
NUMBERS = (
    0, -7, 2**63, 0.0, -0.0, 1.5, -1e308, 5e-324, math.nan, math.inf, -math.inf, *LONG,
    Decimal(0), Decimal("0E-900"), Decimal("1.10"), Decimal("9" * 38),
)  # fmt: skip
PLACES = (0, 2, -3, 400, -400, 10**6, -(10**6))


NUMERIC = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "negate",
    "abs",
    "round",
    "floor",
    "ceil",
)


@pytest.mark.parametrize("name", [*NUMERIC, *(name for name in STRICT if name.startswith("cast_"))])
def test_no_number_stops_a_view(name: str) -> None:
    """Whatever a column may hold has an answer that is a value again, and no longer than what a column may hold."""
    function = STRICT[name]
    many = {1: [(a,) for a in NUMBERS], 2: list(product(NUMBERS, PLACES if name == "round" else NUMBERS))}
    for arguments in many[function.most or 2]:
        found = function.apply(*arguments)
        pack((found,))
        pack_key((found,))
        assert not (isinstance(found, int | Decimal) and too_long(found)), (name, arguments)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("+", 10**400, 1.0), math.inf),
        (("-", 1.0, 10**400), -math.inf),
        (("*", -(10**400), 2.0), -math.inf),
        (("*", Decimal("1E+600"), Decimal("1E+600")), None),
        (("*", 10**600, 10**600), None),
        (("/", Decimal("1E+600"), Decimal("1E-600")), None),
        (("%", Decimal("1E+600"), Decimal(7)), Decimal(1)),
        (("round", Decimal("1.5"), -(10**6)), Decimal(0)),
        (("cast_decimal", "1E+2000000000"), None),
    ],
)
def test_what_is_too_long_is_null_or_infinite(call: tuple[Any, ...], expected: object) -> None:
    assert STRICT[call[0]].apply(*call[1:]) == expected


def test_a_number_is_too_long_from_a_thousand_digits_on() -> None:
    told = {"9" * 1000: False, "1E+1000": True, "1E-999": False, "1E-1000": True, "1." + "1" * 1000: True}
    assert {text: too_long(Decimal(text)) for text in told} == told
    assert [too_long(10**digits) for digits in (999, 1001)] == [False, True]
    with pytest.raises(HistoryError, match="is no value of kind decimal"):
        from_json({"$decimal": "1E+2000000000"})
    for kind, value in (("decimal", Decimal("1E+1000")), ("varint", 10**1001)):
        with pytest.raises(SpecificationError, match="more than 1,000 digits"):
            normal(kind, value)


def test_an_absent_column_is_null() -> None:
    """Unset and null are one."""
    assert compile_expression(Column("x"))({}) is None


def test_a_predicate_is_only_true_if_true() -> None:
    """Null is not true."""
    assert not compile_predicate(Call("=", (Column("x"), Literal(1))))({})
    assert compile_predicate(Call("=", (Column("x"), Literal(1))))({"x": 1})


@pytest.mark.parametrize(
    "call", [Call("cosine", (Literal(1),)), Call("=", (Literal(1),)), Call("length", ())]
)
def test_what_the_table_does_not_have_is_refused_before_it_runs(call: Call) -> None:
    """Unknown names and wrong counts of arguments are mistakes of the definition."""
    with pytest.raises(SpecificationError):
        compile_expression(call)


def test_columns_of_lists_what_is_read() -> None:
    """Each use of a column, in order."""
    tree = Call("and", (Call("=", (Column("a"), Column("b"))), Call("is_null", (Column("a"),))))
    assert list(columns_of(tree)) == ["a", "b", "a"]


def test_every_name_of_the_table_is_listed() -> None:
    """The list that messages print has lazy and strict functions."""
    assert {"and", "like", "cast_int", "date_trunc"} <= set(function_names())
