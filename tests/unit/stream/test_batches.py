"""Puts are packed into few statements, each within what Cassandra takes without a warning."""

from types import SimpleNamespace
from typing import Any

import pytest

from cvs.stream.batches import BYTES_A_PUT, BYTES_APART, PARTITIONS_A_PUT, ROWS_A_PUT, batches, weight_of


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
        (10, 10, 400),
        (30, 1, 900),
        (2, 2, 10**6),
    ],
)
def test_every_put_leaves_once_within_the_bounds(partitions: int, rows: int, size: int) -> None:
    """By rows, by bytes and by partitions; what alone is too large goes alone."""
    puts = [[put(p, n, size) for n in range(rows)] for p in range(partitions)]
    found = list(batches(puts))
    assert [it for batch in found for it in batch] == [it for part in puts for it in part]
    for batch in found:
        among = len({it.partition for it in batch})
        assert len(batch) <= ROWS_A_PUT
        assert among <= PARTITIONS_A_PUT
        assert len(batch) == 1 or sum(map(weight_of, batch)) <= (BYTES_APART if among > 1 else BYTES_A_PUT)


def test_small_puts_share_statements() -> None:
    """Ten partitions of one row each are one statement, not ten."""
    assert len(list(batches([[put(p, 0, 10)] for p in range(PARTITIONS_A_PUT)]))) == 1
