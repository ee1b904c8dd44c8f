"""What range deletions cover, found by order: the same as when each row is held against each range."""

import random
from collections import Counter
from typing import Any

import pytest

from cvs.programs.delta import Deletion, PartitionImage, RangeDeletion, deletion_over
from cvs.programs.slices import FEW_ROWS, Ordered, covering

COMPONENTS = 3


class Letters(Ordered):
    """Clusterings of three letters, the second column in descending order."""

    def __init__(self) -> None:
        self.asked: Counter[bytes] = Counter()

    def sorted_by(self, clustering: bytes) -> Any:
        self.asked[clustering] += 1
        return tuple((0, -it if place == 1 else it) for place, it in enumerate(clustering))


def plainly(it: RangeDeletion, row: bytes) -> bool:
    """Compare a bound with as many letters of the row."""
    low, high = _compare(row, it.start), _compare(row, it.end)
    return (low > 0 or (low == 0 and it.start_inclusive)) and (high < 0 or (high == 0 and it.end_inclusive))


def _compare(row: bytes, bound: bytes) -> int:
    for place, (a, b) in enumerate(zip(row, bound, strict=False)):
        if a != b:
            return (a - b) * (-1 if place == 1 else 1)
    return 0


@pytest.mark.parametrize("seed", range(40))
def test_order_finds_what_each_range_covers(seed: int) -> None:
    """Bounds of all lengths, also ones that cover nothing, and equal write times."""
    chance = random.Random(seed)

    def bound() -> bytes:
        return bytes(chance.randrange(4) for _ in range(chance.randrange(COMPONENTS + 1)))

    ranges = tuple(
        RangeDeletion(
            bound(), chance.random() < 0.5, bound(), chance.random() < 0.5,
            Deletion(chance.randrange(6), chance.randrange(2)),
        )
        for _ in range(chance.randrange(30))
    )  # fmt: skip
    partition = PartitionImage(chance.choice([None, Deletion(2, 1)]), ranges)
    rows = [bytes((a, b, c)) for a in range(4) for b in range(4) for c in range(4)]
    by_order, few = (covering(partition, Letters(), rows=n) for n in (len(rows), FEW_ROWS))
    expected = [deletion_over(partition, row, plainly) for row in rows]
    assert [by_order(row) for row in rows] == [few(row) for row in rows] == expected


def test_each_row_and_each_range_is_looked_at_once() -> None:
    """A thousand ranges over thousands of rows took an epoch a minute: each row was held against each range."""
    table = Letters()
    ranges = tuple(
        RangeDeletion(bytes((n, n)), True, bytes((n, n + 1)), True, Deletion(n, n)) for n in range(200)
    )
    over = covering(PartitionImage(ranges=ranges), table, rows=1_000)
    for row in (bytes((n % 200, n // 200)) for n in range(1_000)):
        over(row)
    assert table.asked.total() == 1_000 + 2 * 200
