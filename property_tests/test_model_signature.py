"""The laws of signatures; each test bears the name of a line in `model/signature.py`."""

import re

from hypothesis import given
from hypothesis import strategies as st

from cvs.model import signature
from cvs.model.signature import UNTOUCHED, Signature

STREAMS = st.sampled_from(["node1", "node2", "node3"])
ENTRIES = st.integers(0, 50)
STEPS = st.lists(st.tuples(STREAMS, ENTRIES), max_size=8)
STARTS = st.builds(
    Signature,
    incarnation=st.integers(0, 3),
    version=st.integers(0, 9),
    chunk=st.integers(0, 3),
    last=st.booleans(),
)


def after(start: Signature, steps: list[tuple[str, int]]) -> Signature:
    """Absorb one entry after the other."""
    for stream, entry in steps:
        start = start.absorbing(stream, entry)
    return start


@given(STREAMS, ENTRIES)
def test_untouched_processed_nothing(stream: str, entry: int) -> None:
    assert not UNTOUCHED.processed(stream, entry)


@given(STARTS, STEPS, STREAMS, ENTRIES)
def test_absorbing_is_remembered(
    start: Signature, steps: list[tuple[str, int]], stream: str, entry: int
) -> None:
    assert after(start, steps).absorbing(stream, entry).processed(stream, entry)


@given(STARTS, STEPS, STEPS, STREAMS, ENTRIES)
def test_nothing_is_forgotten(
    start: Signature, steps: list[tuple[str, int]], more: list[tuple[str, int]], stream: str, entry: int
) -> None:
    before = after(start, steps)
    if before.processed(stream, entry):
        assert after(before, more).processed(stream, entry)


@given(STARTS, STEPS, STREAMS, st.integers(1, 50))
def test_an_entry_covers_those_before_it(
    start: Signature, steps: list[tuple[str, int]], stream: str, entry: int
) -> None:
    reached = after(start, steps)
    if reached.processed(stream, entry):
        assert reached.processed(stream, entry - 1)


@given(STARTS, STEPS, STREAMS, ENTRIES)
def test_nothing_else_is_claimed(
    start: Signature, steps: list[tuple[str, int]], stream: str, entry: int
) -> None:
    said = after(start, steps).processed(stream, entry)
    assert said == any(own == stream and entry <= other for own, other in steps)


@given(STARTS, st.permutations([("node1", 3), ("node2", 5), ("node1", 7)]))
def test_order_of_streams_does_not_matter(start: Signature, steps: list[tuple[str, int]]) -> None:
    assert after(start, steps).entries == (("node1", 7), ("node2", 5))


@given(STARTS, STREAMS, ENTRIES, STREAMS, ENTRIES)
def test_entries_are_told_apart(start: Signature, stream: str, entry: int, other: str, another: int) -> None:
    mine, theirs = start.absorbing(stream, entry), start.absorbing(other, another)
    assert (mine.scalars == theirs.scalars) == ((stream, entry) == (other, another))


@given(STARTS, STEPS)
def test_no_signature_comes_back(start: Signature, steps: list[tuple[str, int]]) -> None:
    seen = [start.scalars]
    for step in steps:
        start = after(start, [step])
        assert start.scalars > seen[-1]
        seen.append(start.scalars)


@given(STARTS, STEPS)
def test_the_incarnation_stays(start: Signature, steps: list[tuple[str, int]]) -> None:
    assert after(start, steps).incarnation == start.incarnation


def test_every_law_has_its_test_and_every_test_its_law() -> None:
    laws = {
        name.replace(" ", "_") for name in re.findall(r"^- (.+?):", signature.__doc__ or "", re.MULTILINE)
    }
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert laws == tests - {"every_law_has_its_test_and_every_test_its_law"}
