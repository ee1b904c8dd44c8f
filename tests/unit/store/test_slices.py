"""Slices are cut in two between any two keys."""

from cassandra import ReadFailure, ReadTimeout
from hypothesis import given
from hypothesis import strategies as st

from cvs.store.slices import given_up, middle

keys = st.binary(max_size=8)


@given(low=keys, high=keys)
def test_the_middle_lies_between(low: bytes, high: bytes) -> None:
    """Halving ends, since each half is narrower; only zero bytes more leave nothing between."""
    low, high = sorted((low, high))
    between = middle(low, high)
    assert low <= between <= high
    if low.rstrip(b"\0") != high.rstrip(b"\0"):
        assert low < between < high


def test_only_too_many_tombstones_are_given_up() -> None:
    """A replica that fails otherwise is asked again."""
    assert given_up(ReadFailure("", error_code_map={"127.0.0.1": 1}))
    assert given_up(ReadFailure("", error_code_map={"127.0.0.1": 0, "127.0.0.2": 1}))
    assert not given_up(ReadFailure("", error_code_map={"127.0.0.1": 0}))
    assert not given_up(ReadFailure(""))
    assert not given_up(ReadTimeout(""))
    assert not given_up([])
