"""The write-time base time-line (PROTOCOL H12): an epoch takes what was written at W or before; the rest waits.

W = the least of all streams' feed clocks - the skew bound, pinned. While clocks are within the bound nothing written at
W or before is still to come, so what an epoch shows is what Cassandra's reconciliation makes of all writes up to W.
What was written later waits *in the feed*: later epochs read it again from where the first of it stands (`held`).
So nothing is kept twice, DELTA and every stage are as they are without a line, and the input of an epoch stays a
function of its pin: positions of the feed, and three moments.

What is written beyond every clock there is (`ahead`) cannot be waited for, and what comes after W has passed it is
late. Both are taken at once; a row that they make to show otherwise has no claim to the line any more (`Untimely`).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from cvs.programs.delta import (
    NEVER,
    PartitionImage,
    RowImage,
)
from cvs.programs.stage_delta import DeltaInput, PartitionChanges
from cvs.programs.untimely import Untimely

Wanted = Callable[[int], bool]
"""Whether what was written at a time (microseconds) is meant."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Which write times an epoch takes: a part of its pin, which absorbs as it comes where there is none."""

    before: int = 0  # W of the epoch before
    upto: int = 0  # W
    ahead: int = NEVER  # what is written later is ahead of every clock
    held: dict[str, int] = {}  # stream -> position below which nothing waits

    def takes(self, written: int, *, fresh: bool) -> bool:
        """Say whether the epoch takes a write; `fresh`: no older epoch had seen its position."""
        if fresh:
            return written <= self.upto or written > self.ahead
        return self.before < written <= self.upto

    def waits(self, written: int) -> bool:
        """Say whether a write that was seen is left to a later epoch."""
        return self.upto < written <= self.ahead

    def untimely(self, written: int, *, claimed: bool) -> bool:
        """Say whether a write that is taken does not come in its order; `claimed`: W of the epoch before was shown."""
        return written > self.ahead or (claimed and written <= self.before)


def admit(
    found: Mapping[bytes, PartitionChanges],
    into: DeltaInput,
    line: Line,
    *,
    fresh: bool,
    scanned: bool = False,
    claimed: bool = True,
) -> None:
    """Add to an epoch's input what it takes of some changes.

    A row that was `scanned` is taken whole, when W passes the last of its writes: it is true as a whole only, and what
    CQL does not tell of it has no time (H18).
    """

    def untimely(written: int) -> bool:
        return line.untimely(written, claimed=claimed)

    for partition, it in found.items():
        taken = PartitionChanges()
        odd = Untimely()
        for header in it.header:
            wanted = _wanted(line, times_of_partition(header), fresh=fresh, scanned=scanned)
            if some := part_of_partition(header, wanted):
                taken.header.append(some)
                if late := part_of_partition(some, untimely):
                    odd.header.append(late)
        for clustering, images in it.rows.items():
            for image in images:
                wanted = _wanted(line, times(image), fresh=fresh, scanned=scanned)
                if part := part_of(image, wanted):
                    taken.rows.setdefault(clustering, []).append(part)
                    if after := part_of(part, untimely):
                        odd.rows.setdefault(clustering, []).append(after)
        if taken.header or taken.rows:
            _add(into.setdefault(partition, PartitionChanges()), taken, odd)


def _add(here: PartitionChanges, taken: PartitionChanges, odd: Untimely) -> None:
    here.header += taken.header
    for clustering, images in taken.rows.items():
        here.rows.setdefault(clustering, []).extend(images)
    if odd.header or odd.rows:
        here.untimely = here.untimely or Untimely()
        here.untimely.header += odd.header
        for clustering, images in odd.rows.items():
            here.untimely.rows.setdefault(clustering, []).extend(images)


def _wanted(line: Line, found: Iterable[int], *, fresh: bool, scanned: bool) -> Wanted:
    if not scanned:
        return lambda written: line.takes(written, fresh=fresh)
    whole = line.takes(max(found, default=line.upto), fresh=fresh)
    return lambda _written: whole


def times(image: RowImage) -> set[int]:
    """Return every write time in an image."""
    found = {cell.written for _, _, cell in image.cells}
    found |= {deletion.written for _, deletion in image.complex_deletions}
    found |= {it.written for it in (image.liveness, image.deletion) if it is not None}
    return found


def times_of_partition(image: PartitionImage) -> set[int]:
    """Return every write time in what a partition has beside its rows."""
    found = times(image.statics) | {it.deletion.written for it in image.ranges}
    return found if image.deletion is None else found | {image.deletion.written}


def part_of(image: RowImage, wanted: Wanted) -> RowImage | None:
    """Return the part of an image that was written at wanted times; the parts merge to the whole."""
    found = {written: wanted(written) for written in times(image)}
    if all(found.values()):
        return image
    if not any(found.values()):
        return None
    return RowImage(
        image.liveness if image.liveness and found[image.liveness.written] else None,
        image.deletion if image.deletion and found[image.deletion.written] else None,
        tuple(entry for entry in image.cells if found[entry[2].written]),
        tuple(entry for entry in image.complex_deletions if found[entry[1].written]),
    )


def part_of_partition(image: PartitionImage, wanted: Wanted) -> PartitionImage | None:
    """Return the part of a partition's own record that was written at wanted times."""
    found = {written: wanted(written) for written in times_of_partition(image)}
    if all(found.values()):
        return image
    if not any(found.values()):
        return None
    return PartitionImage(
        image.deletion if image.deletion and found[image.deletion.written] else None,
        tuple(it for it in image.ranges if found[it.deletion.written]),
        part_of(image.statics, wanted) or RowImage(),
    )
