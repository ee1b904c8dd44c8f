"""Sums that values are taken into and out of again equal the aggregate of the values that are left, bit for bit."""

import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from cvs.model.aggregates import aggregate
from cvs.model.views import AggregateFunction
from cvs.programs.stage_codec import pack, unpack
from cvs.programs.stage_numbers import Sums

F = AggregateFunction
SUMMED = (F.COUNT, F.SUM, F.AVG, F.VARIANCE, F.STDDEV)
INFINITE = (math.inf, -math.inf, math.nan)
KINDS: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, -7, 2**62, -(2**70)),
    "float": (0.1, 0.2, -0.0, 1e300, -1e-300, 3.5),
    "special": (0.1, *INFINITE, -2.5),
    "Decimal": (
        Decimal("1.50"),
        Decimal("-0.1"),
        Decimal("1e-30"),
        Decimal("123456789012345678901234567890"),
    ),
    "text": ("a", "b"),
}


def exact(value: Any) -> str:
    return repr(value)  # because NaN is not equal to itself, and 1.50 is equal to 1.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_is_aggregated_after_every_change(kind: str, seed: int) -> None:
    chance, there, stored = random.Random(seed), Counter[Any](), Sums().stored()
    functions = (F.COUNT,) if kind == "text" else SUMMED
    for _ in range(40):
        sums = Sums.of(unpack(pack(stored)))
        value, times = chance.choice(KINDS[kind]), chance.choice((1, 1, 2))
        if there[value] and chance.random() < 0.5:
            times = -chance.randint(1, there[value])
        sums.take(value, times, squares=True)
        there[value] += times
        stored = sums.stored()
        left = list(there.elements())
        for function in functions:
            assert exact(sums.finish(function)) == exact(aggregate(function, left)), (function, left)


@pytest.mark.parametrize(
    "special", [*((it,) for it in INFINITE), (math.inf, -math.inf), (math.inf, math.inf)]
)
def test_what_is_no_finite_number_is_counted_apart_and_leaves_without_a_trace(
    special: tuple[float, ...],
) -> None:
    sums = Sums()
    for value in (0.5, *special):
        sums.take(value, 3, squares=True)
    count = 3 * (1 + len(special))
    assert (sums.count, sums.total, sums.squares) == (count, 1.5, 0.75)
    nan, up, down = (
        3 * sum(map(repr(it).__eq__, map(repr, special))) for it in (math.nan, math.inf, -math.inf)
    )
    assert sums.special == (nan, up, down)
    for value in special:
        sums.take(value, -3, squares=True)
    assert sums.special == (0, 0, 0)
    assert exact(sums.finish(F.SUM)) == "1.5"


def test_squares_are_kept_only_where_they_are_asked_for() -> None:
    for value in (3, 0.5, Decimal("0.5")):
        plain, squared = Sums(), Sums()
        plain.take(value, 2)
        squared.take(value, 2, squares=True)
        assert (plain.squares, squared.squares) == (0, 2 * value * value)


def test_nothing_is_null_but_for_its_count() -> None:
    assert [Sums().finish(function) for function in SUMMED] == [0, None, None, None, None]
    one = Sums()
    one.take(5, 1, squares=True)
    assert [one.finish(function) for function in SUMMED] == [1, 5, 5.0, None, None]
    assert Sums().stored() == (0, 0, 0, (0, 0, 0), "")
