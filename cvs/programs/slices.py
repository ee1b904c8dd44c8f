"""Which rows of a partition its range deletions cover, found by the order of the rows: (rows + ranges) log ranges.

Held against each range one by one, 23,000 rows and 1,000 ranges kept an epoch busy for a minute.
"""

from bisect import bisect
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any

from cvs.programs.delta import (
    Deletion,
    Inside,
    PartitionImage,
    RangeDeletion,
    deletion_over,
    later_deletion,
)

FEW_ROWS = 6
"""Up to so many rows are held against each range: to sort the ranges costs as much."""
BEFORE, AT, AFTER = (-1,), (0,), (1,)
Place = tuple[tuple[Any, ...], ...]
"""Where rows and bounds stand: what a clustering is sorted by; then whether before, at or after all that begins so."""


class Ordered:
    """Whether a row lies in a range, for tables that can say what clusterings are sorted by."""

    def sorted_by(self, clustering: bytes) -> Place:
        """Return, for each component of a clustering or of a prefix, what sorts it: greater than `AFTER`[0] never."""
        raise NotImplementedError

    def __call__(self, deletion: RangeDeletion, clustering: bytes) -> bool:
        """Say whether a range covers a row."""
        start, end = self.bounds(deletion)
        return start < (*self.sorted_by(clustering), AT) < end

    def bounds(self, it: RangeDeletion) -> tuple[Place, Place]:
        """Return the places between which a range covers rows."""
        return (
            (*self.sorted_by(it.start), BEFORE if it.start_inclusive else AFTER),
            (*self.sorted_by(it.end), AFTER if it.end_inclusive else BEFORE),
        )


def covering(partition: PartitionImage, inside: Inside, *, rows: int) -> Callable[[bytes], Deletion | None]:
    """Return what tells the strongest deletion of a partition that covers a row; as many rows will be asked for."""
    if rows <= FEW_ROWS or not partition.ranges or not isinstance(inside, Ordered):
        return lambda clustering: deletion_over(partition, clustering, inside)
    places, strongest = _swept((*inside.bounds(it), it.deletion) for it in partition.ranges)
    strongest = [later_deletion(partition.deletion, it) for it in strongest]

    def over(clustering: bytes) -> Deletion | None:
        return strongest[bisect(places, (*inside.sorted_by(clustering), AT))]

    return over


def _swept(
    ranges: Iterable[tuple[Place, Place, Deletion]],
) -> tuple[list[Place], list[Deletion | None]]:
    """Return where something begins or ends, in order, and the strongest deletion before each place and at the end."""
    begun = sorted((it for it in ranges if it[0] < it[1]), key=_start)
    places = sorted({place for start, end, _ in begun for place in (start, end)})
    strongest: list[Deletion | None] = [None]
    open_: list[tuple[int, int, Place]] = []  # the strongest first; some have ended already
    following = 0
    for place in places:
        while following < len(begun) and begun[following][0] == place:
            _, end, deletion = begun[following]
            heappush(open_, (-deletion.written, -deletion.local, end))
            following += 1
        while open_ and not place < open_[0][2]:
            heappop(open_)
        strongest.append(Deletion(-open_[0][0], -open_[0][1]) if open_ else None)
    return places, strongest


def _start(it: tuple[Place, Place, Deletion]) -> Place:
    return it[0]
