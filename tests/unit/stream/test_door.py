"""Puts are packed into few statements, each within what Cassandra takes without a warning."""

from types import SimpleNamespace
from typing import Any

import pytest

from cvs.programs.stage_codec import beyond, framed
from cvs.stream.door import BYTES_A_PUT, PARTITIONS_A_PUT, ROWS_A_PUT, _batches, spans


def put(partition: int, number: int, size: int) -> Any:
    return SimpleNamespace(partition=partition, number=number, values=[bytes(size), None])


@pytest.mark.parametrize(
    ("partitions", "rows", "size"),
    [
        (1, 1, 10),
        (1, 3 * ROWS_A_PUT + 1, 10),
        (35, 1, 10),
        (7, 40, 10),
        (3, 9, BYTES_A_PUT // 4),
        (2, 2, 10**6),
    ],
)
def test_every_put_leaves_once_within_the_bounds(partitions: int, rows: int, size: int) -> None:
    """By rows, by bytes and by partitions; what alone is too large goes alone."""
    puts = [[put(p, n, size) for n in range(rows)] for p in range(partitions)]
    batches = list(_batches(puts))
    assert [it for batch in batches for it in batch] == [it for part in puts for it in part]
    for batch in batches:
        assert len(batch) <= ROWS_A_PUT
        assert len({it.partition for it in batch}) <= PARTITIONS_A_PUT
        assert len(batch) == 1 or sum(len(it.values[0]) for it in batch) <= BYTES_A_PUT


def test_small_puts_share_statements() -> None:
    """Ten partitions of one row each are one statement, not ten."""
    assert len(list(_batches([[put(p, 0, 10)] for p in range(PARTITIONS_A_PUT)]))) == 1


def test_prefixes_of_one_side_are_one_span_and_no_row_between_is_of_another_side() -> None:
    """A span begins at its first prefix and ends beyond its last; other stages and sides are spans of their own."""
    sides = [framed(b"0", side) for side in (b"l", b"r")]
    names = [bytes([n]) * n for n in (3, 1, 200, 2)]
    found = spans(side + framed(name) for side in sides for name in names)
    assert [len(span) for span in found] == [4, 4]
    for side, span in zip(sides, found, strict=True):
        assert list(span) == sorted(side + framed(name) for name in names)
        assert side <= span[0]
        assert beyond(span[-1]) <= beyond(side)
    assert spans([b""]) == [(b"",)]
