"""One bucket of DELTA, request by request: what is asked for, put, noted and forgotten."""

import pytest

from cvs.programs.delta import (
    NO_PARTITION,
    NOTHING,
    Cell,
    Deletion,
    PartitionImage,
    RowImage,
    forget,
    forget_partition,
)
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_codec import framed
from cvs.programs.stage_delta import (
    UNTIMELY_BUCKET,
    DropBucket,
    PartitionChanges,
    ReadImages,
    _by_partition,
    drops_between,
    due_between,
    run_delta,
    untimely_rows,
)
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stored import StoredPartition, StoredRow, decode_row, encode_stored

ROW = framed(b"p", b"c")
GONE = Deletion(5, 0)
"""Written a few microseconds after 1970 began."""


def written(image: RowImage) -> dict[bytes, PartitionChanges]:
    return {b"p": PartitionChanges(rows={b"c": [image]})}


def kept(door: MemoryDoor) -> StoredRow | None:
    _, image = door.images["d", 0].get(ROW, (0, None))
    return None if image is None else decode_row(image)


def test_without_a_time_to_keep_nothing_is_forgotten_and_nothing_dropped() -> None:
    door = MemoryDoor()
    drive(
        run_delta(written(RowImage(deletion=GONE)), table="d", bucket=0, epoch=1, clock=5, headers=False),
        door,
    )
    older = RowImage(cells=(("a", b"", Cell(3, b"old")),))
    moved = drive(run_delta(written(older), table="d", bucket=0, epoch=2, clock=10, headers=False), door)
    assert moved == [], "hidden, however long ago it was deleted"
    row = kept(door)
    assert row is not None
    assert row.image == RowImage(deletion=GONE)


def test_what_is_forgotten_is_dropped_only_where_no_driver_is_left_that_may_put_it() -> None:
    door, looked_at = MemoryDoor(), {b"p": PartitionChanges(rows={b"c": []})}
    drive(
        run_delta(written(RowImage(deletion=GONE)), table="d", bucket=0, epoch=1, clock=5, headers=False),
        door,
    )
    for epoch, settled in ((2, None), (3, 0), (4, 1)):
        more = {} if settled is None else {"settled": settled}
        machine = run_delta(
            looked_at, table="d", bucket=0, epoch=epoch, clock=100, headers=False, keep=50, **more
        )
        drive(machine, door)
        assert (kept(door) is None) is (epoch == 4)


@pytest.mark.parametrize(("epoch", "until", "forgotten"), [(3, 0, False), (3, 1, True), (2, 1, False)])
def test_what_this_epoch_put_is_read_as_it_stands_of_older_ones_what_must_be_remembered(
    epoch: int, until: int, forgotten: bool
) -> None:
    """A replay puts the same bytes again."""
    row = StoredRow(2, RowImage(deletion=GONE), None, {"a": b"x"})
    header = StoredPartition(2, PartitionImage(deletion=GONE))
    found = {framed(b"p"): encode_stored(header), ROW: encode_stored(row)}
    stands, rows = _by_partition(found, epoch, until)[b"p"]
    if forgotten:
        assert forget(row.image, until) == NOTHING
        assert forget_partition(header.image, until) == NO_PARTITION
        row = StoredRow(2, NOTHING, None, {"a": b"x"})
        header = StoredPartition(2, NO_PARTITION)
    assert (stands, rows) == (header, {b"c": row})


def test_rows_out_of_their_order_are_named_in_the_least_bucket_there_is() -> None:
    """The least CQL int: no second of expiry comes to it, and state of older versions has it."""
    assert UNTIMELY_BUCKET == -(2**31)
    door = MemoryDoor()
    door.images["d", UNTIMELY_BUCKET] = {ROW: (1, b""), framed(b"q", b""): (1, b"")}
    assert drive(untimely_rows("d"), door) == [(b"p", b"c"), (b"q", b"")]


def test_what_is_due_is_looked_for_in_the_minutes_that_passed_and_no_others() -> None:
    def minutes(before: int, now: int) -> list[int]:
        machine = due_between("d", before, now)
        try:
            requests = next(machine)
        except StopIteration as stop:
            return list(stop.value)
        assert requests == [
            ReadImages(table="d", bucket=request.bucket, prefixes=(b"",)) for request in requests
        ]
        return [-1 - request.bucket for request in requests]

    assert minutes(60, 119) == [1]
    assert minutes(60, 120) == [1, 2]
    assert minutes(119, 180) == [1, 2, 3]
    assert minutes(120, 120) == minutes(121, 120) == minutes(0, 120) == []


def test_notes_of_the_first_minute_go_too() -> None:
    day = 24 * 3600
    assert drops_between("d", day, day + 60, epoch=7) == [DropBucket(table="d", bucket=-1, write_time=7)]
