"""How many rows one read asks for follows from what rows of its table weighed."""

import pytest

from cvs.stream.weights import (
    BYTES_A_READ,
    KEYS_A_READ,
    ROWS_A_PAGE,
    ROWS_A_PAGE_UNKNOWN,
    SIZE_UNKNOWN,
    Weights,
)


@pytest.mark.parametrize(
    ("sizes", "at_once", "page"),
    [
        ((10, 30), KEYS_A_READ, ROWS_A_PAGE),
        ((1_000, 3_000), BYTES_A_READ // 2_000, BYTES_A_READ // 2_000),
        ((3_000_000,), 1, 1),
    ],
)
def test_large_rows_come_few_at_a_time(sizes: tuple[int, ...], at_once: int, page: int) -> None:
    weights = Weights()
    weights.note("t", [None, b"", *map(bytes, sizes)])
    assert (weights.at_once("t"), weights.page("t")) == (at_once, page)


def test_of_a_table_that_nobody_read_something_is_assumed_once() -> None:
    weights = Weights()
    assert (weights.at_once("t"), weights.page("t")) == (BYTES_A_READ // SIZE_UNKNOWN, ROWS_A_PAGE_UNKNOWN)
    assert weights.unknown(["t", "t", "u"]) == {"t", "u"}
    assert weights.unknown(["t"]) == set()
    weights.note("t", [])
    assert weights.at_once("t") == BYTES_A_READ // SIZE_UNKNOWN
