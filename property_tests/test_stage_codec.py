"""Values as bytes: what is stored comes back, the same for SQL is the same key, and stored bytes never change."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cvs.model.identity import canonical, identity
from cvs.model.values import duration_of
from cvs.programs.stage_codec import beyond, bucket_of, framed, pack, pack_key, picking, unpack
from property_tests import strategies

TYPED = strategies.cql_types().flatmap(
    lambda kind: st.tuples(strategies.values_of(kind), strategies.values_of(kind))
)
PARTS = st.lists(st.binary(max_size=3), max_size=3)


def respelled(value: Any) -> Any:
    """The same value for SQL, written otherwise wherever it can be."""
    if type(value) is float:
        return -0.0 if value == 0 else value
    if type(value) is Decimal:
        return Decimal((value.is_signed(), (*value.as_tuple().digits, 0), value.as_tuple().exponent - 1))
    if isinstance(value, dict):
        return type(value)((respelled(k), respelled(v)) for k, v in value.items())
    if isinstance(value, tuple | list | frozenset | set):
        return type(value)(map(respelled, value))
    return value


@given(TYPED)
def test_what_is_packed_comes_back(two: tuple[Any, Any]) -> None:
    assert repr(unpack(pack(two))) == repr(two) or identity(unpack(pack(two))) == identity(two)
    assert pack(unpack(pack(two))) == pack(two)


@given(TYPED)
@example(([Decimal("1.0")], [Decimal("1.00")]))
@example(((0.0, 1), (-0.0, 1)))
@example((math.nan, -math.nan))
def test_two_values_are_one_key_exactly_if_sql_calls_them_equal(two: tuple[Any, Any]) -> None:
    """Inside collections too: the state of a view grouped by list<decimal> had two groups under one key."""
    one, other = two
    assert pack_key((one,)) == pack_key((respelled(one),))
    assert (pack_key((one,)) == pack_key((other,))) == (identity(one) == identity(other))
    assert pack((canonical(one),)) == pack((canonical(respelled(one)),))
    assert identity(canonical(one)) == identity(one)


EDGES = [0, 1, -1, 2**63 - 1, 2**63, 2**63 + 1, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**40]


@pytest.mark.parametrize("beside", [(), (None,), (Decimal(1),)])
@pytest.mark.parametrize("number", EDGES)
def test_whole_numbers_of_any_size_come_back(number: int, beside: tuple) -> None:
    assert unpack(pack((number, *beside))) == (number, *beside)
    assert pack_key((number, *beside)) == pack_key([number, *beside])
    if -(2**63) <= number < 2**63:
        assert pack((number, *beside))[1:].startswith(pack((number,))[1:]), "whatever stands beside it"


STORED = (
    (None, "91c0"),
    (7, "9107"),
    (2**64, "91c714043138343436373434303733373039353531363136"),
    ("a", "91a161"),
    (b"a", "91c40161"),
    (0.5, "91cb3fe0000000000000"),
    (datetime(2026, 1, 31, tzinfo=UTC), "91d6ff697d4600"),
    (Decimal("1.50"), "91d601312e3530"),
    (UUID(int=1), "91d80200000000000000000000000000000001"),
    (date(2026, 1, 31), "91c70a03323032362d30312d3331"),
    (ip_address("10.0.0.1"), "91d70531302e302e302e31"),
    (ip_address("::1"), "91c703063a3a31"),
    ((1, "a"), "91d6079201a161"),
    (frozenset({"b", "a"}), "91c7050892a161a162"),
    (frozenset({-1, 1}), "91c703089201ff"),
    ({"b": 2, "a": 1}, "91c7070994a16101a16202"),
    (duration_of("1mo2d3ns"), "91d70a316d6f3264336e73"),
)


def test_stored_bytes_never_change() -> None:
    """State tables of older versions hold them, and a key's bytes choose its bucket."""
    assert [(value, pack((value,)).hex()) for value, _ in STORED] == list(STORED)
    assert [unpack(bytes.fromhex(data)) for _, data in STORED] == [(value,) for value, _ in STORED]
    assert [bucket_of(key, 7) for key in (b"", b"a", b"b")] == [0, 4, 4]


@given(PARTS, PARTS)
def test_frames_are_prefixes_exactly_if_their_parts_are(short: list[bytes], long: list[bytes]) -> None:
    assert framed(*long).startswith(framed(*short)) == (long[: len(short)] == short)


@given(st.binary(min_size=1, max_size=4).filter(lambda it: it.strip(b"\xff")), st.binary(max_size=4))
@example(b"a", b"b")
def test_beyond_a_prefix_lies_nothing_that_begins_with_it(prefix: bytes, other: bytes) -> None:
    assert prefix + other < beyond(prefix)
    if prefix <= other < beyond(prefix):
        assert other.startswith(prefix)


def test_picking_takes_places_in_their_order() -> None:
    row = ("a", "b", "c")
    assert [picking(places)(row) for places in ((), (1,), (2, 0))] == [(), ("b",), ("c", "a")]
