"""DELTA at its edges: the second at which something is gone, the write time a deletion still hides, rows in doubt."""

from typing import Any

import pytest

from cvs.programs.delta import (
    ASSUMED,
    CONFIRMED,
    EXPIRED_TTL,
    NEVER,
    NOTHING,
    SNAPSHOT,
    Cell,
    Deletion,
    Liveness,
    PartitionImage,
    RangeDeletion,
    RowImage,
    StaleDriverError,
    deletion_over,
    hide,
    in_doubt,
    last_write,
    lists_in_doubt,
    live,
    merge,
    merge_partition,
    next_expiry,
    no_ranges,
    visible,
)
from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import BaseReader, delta_step
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_codec import framed
from cvs.programs.stage_delta import PartitionChanges, due_between, expiry_bucket, run_delta, split
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stored import Emitted, StoredPartition, StoredRow, absorb


def cells(*some: tuple[str, bytes, Cell]) -> tuple[tuple[str, bytes, Cell], ...]:
    return some


PLAIN = Cell(5, b"x")


def test_what_images_are_when_nothing_more_is_said() -> None:
    assert (Deletion(5), Liveness(5)) == (Deletion(5, 0), Liveness(5, 0, NEVER))
    assert (Cell(5, b"x"), Emitted(b"", None, None)) == (
        Cell(5, b"x", 0, NEVER),
        Emitted(b"", None, None, 0, None),
    )
    assert ASSUMED == -(2**62)
    assert CONFIRMED == ASSUMED + 1


def test_a_deletion_hides_what_was_written_at_its_own_time() -> None:
    image = RowImage(
        Liveness(5), None, cells(("a", b"", PLAIN), ("m", b"k", Cell(7, b"y"))), (("m", Deletion(6)),)
    )
    assert hide(image, Deletion(5)) == RowImage(
        None, None, cells(("m", b"k", Cell(7, b"y"))), (("m", Deletion(6)),)
    )
    assert hide(image, Deletion(4)) == image
    assert hide(image, Deletion(6)).complex_deletions == ()
    assert hide(RowImage(None, None, image.cells, (("m", Deletion(7)),)), None).cells == image.cells[:1]
    own = RowImage(Liveness(5), Deletion(5), cells(("a", b"", PLAIN)))
    assert merge(NOTHING, own) == RowImage(None, Deletion(5)), (
        "a change may bring what its own deletion hides"
    )
    listed = RowImage(None, None, cells(("m", b"k", Cell(7, b"y"))), (("m", Deletion(7)),))
    assert merge(NOTHING, listed) == RowImage(None, None, (), (("m", Deletion(7)),))
    assert merge(NOTHING, own) == merge(RowImage(), own)


def test_one_side_that_says_nothing_takes_nothing_away() -> None:
    lively, dead = RowImage(Liveness(5)), RowImage(None, Deletion(3))
    assert merge(lively, dead) == merge(dead, lively) == RowImage(Liveness(5), Deletion(3))
    both = merge(
        RowImage(None, None, cells(("b", b"", PLAIN))), RowImage(None, None, cells(("a", b"", PLAIN)))
    )
    assert [name for name, _, _ in both.cells] == ["a", "b"], "sorted, so equal images have equal bytes"


def test_ranges_of_one_place_keep_the_stronger_deletion_and_those_above_the_partitions() -> None:
    def image(written: int, local: int = 0, whole: Deletion | None = None) -> PartitionImage:
        return PartitionImage(whole, (RangeDeletion(b"a", True, b"b", False, Deletion(written, local)),))

    kept = merge_partition(image(5), image(7))
    assert kept == merge_partition(image(7), image(5)) == image(7)
    assert merge_partition(image(5, 1), image(5, 2)) == image(5, 2)
    assert merge_partition(image(5), image(4, whole=Deletion(5))) == PartitionImage(Deletion(5))
    assert merge_partition(image(6), image(4, whole=Deletion(5))).ranges == image(6).ranges
    assert deletion_over(image(7, whole=Deletion(5)), b"aa", lambda *_: True) == Deletion(7)
    assert deletion_over(image(7, whole=Deletion(5)), b"aa", no_ranges) == Deletion(5)


@pytest.mark.parametrize(("clock", "seen"), [(9, True), (10, False), (11, False)])
def test_a_cell_and_a_liveness_are_gone_at_their_second(clock: int, seen: bool) -> None:
    cell = Cell(5, b"x", 5, 10)
    assert live(cell, clock) is seen
    assert not live(Cell(5, None, 0, 99), clock)
    assert visible(RowImage(None, None, cells(("a", b"", cell))), NOTHING, clock) == (
        {"a": b"x"} if seen else None
    )
    assert visible(RowImage(Liveness(5, 5, 10)), NOTHING, clock) == ({} if seen else None)
    assert visible(RowImage(Liveness(CONFIRMED, 5, 10)), NOTHING, clock) == {}, "until it was read again"
    assert visible(RowImage(Liveness(5, EXPIRED_TTL, NEVER)), NOTHING, clock) is None
    assert next_expiry(RowImage(None, None, cells(("a", b"", cell))), clock) == (10 if seen else None)
    assert next_expiry(RowImage(Liveness(5, 5, 10)), clock) == (10 if seen else None)


def test_statics_show_beside_a_live_row_only() -> None:
    statics = RowImage(None, None, cells(("s", b"", PLAIN), ("m", b"k", PLAIN)))
    assert visible(RowImage(Liveness(5)), statics, 0) == {"s": b"x", "m": [(b"k", b"x")]}
    assert visible(NOTHING, statics, 0) is None


def test_the_latest_write_of_an_image() -> None:
    assert last_write(NOTHING) == 0
    assert last_write(RowImage(Liveness(3), Deletion(2), cells(("a", b"", Cell(1, b"x"))))) == 3
    assert last_write(RowImage(Liveness(1), Deletion(2), cells(("a", b"", Cell(3, b"x"))))) == 3
    assert last_write(RowImage(Liveness(1), Deletion(3), cells(("a", b"", Cell(2, b"x"))))) == 3


@pytest.mark.parametrize(
    ("liveness", "cell", "doubt"),
    [
        (None, None, None),
        (Liveness(5), None, None),
        (Liveness(ASSUMED), None, ()),
        (Liveness(ASSUMED), PLAIN, None),
        (Liveness(ASSUMED), Cell(5, b"x", 1, 10), ()),
        (Liveness(ASSUMED, EXPIRED_TTL), None, None),
        (Liveness(CONFIRMED, 1, 11), None, None),
        (Liveness(CONFIRMED, 1, 10), None, ()),
        (Liveness(CONFIRMED, 1, 10), PLAIN, None),
    ],
)
def test_a_row_whose_existence_is_a_guess_is_in_doubt_when_nothing_else_shows_it(
    liveness: Any, cell: Any, doubt: Any
) -> None:
    image = RowImage(liveness, None, () if cell is None else cells(("a", b"", cell)))
    assert in_doubt(image, 10) == doubt


def test_a_list_read_as_a_whole_is_in_doubt_when_something_was_written_to_it() -> None:
    whole, other = ("l", SNAPSHOT, Cell(5, b"x", 0, 20)), ("l", b"p", Cell(7, b"y"))
    assert lists_in_doubt(RowImage(None, None, cells(("a", b"", PLAIN), whole)), 10) == ()
    assert lists_in_doubt(RowImage(None, None, cells(("a", b"", PLAIN), whole)), 20) == (("l", 5),)
    assert lists_in_doubt(RowImage(None, None, cells(("a", b"", Cell(9, b"x")), whole, other)), 10) == (
        ("l", 7),
    )
    image = RowImage(Liveness(5), None, cells(whole, other))
    assert in_doubt(image, 10) == (("l", 7),)


def test_absorbing_tells_of_doubt_of_expiry_and_of_nothing_twice() -> None:
    guessed = RowImage(Liveness(ASSUMED), None, cells(("a", b"", Cell(5, b"x", 1, 10))))
    first = absorb(1, 5, header=None, rows={}, row_changes={b"r": [guessed]})
    assert first.emitted == [Emitted(b"r", None, {"a": b"x"}, 5)]
    assert first.expiries == [(10, b"r")]
    due = absorb(2, 10, header=None, rows=first.rows, row_changes={b"r": []})
    assert due.emitted == [Emitted(b"r", {"a": b"x"}, {}, 5, ())], "the row stays until it was read again"
    again = absorb(3, 11, header=None, rows=due.rows, row_changes={b"r": []})
    assert again.emitted == [Emitted(b"r", None, None, 0, ())], "nothing moved; it is still in doubt"
    assert again.rows == {}
    replay = absorb(2, 10, header=None, rows=due.rows, row_changes={b"r": []})
    assert (replay.emitted, replay.rows) == (due.emitted, due.rows)


def test_statics_that_expire_are_noted_with_every_row_that_shows_them() -> None:
    statics = RowImage(
        None, None, cells(("l", SNAPSHOT, Cell(5, b"x", 0, 4)), ("s", b"", Cell(5, b"x", 1, 10)))
    )
    row = RowImage(Liveness(5))
    done = absorb(
        1,
        5,
        header=None,
        rows={},
        header_changes=[PartitionImage(statics=statics)],
        row_changes={b"r": [row]},
    )
    assert (10, b"r") in done.expiries
    assert Emitted(b"", None, None, 0, (("l", 5),)) in done.emitted
    assert done.header == StoredPartition(1, PartitionImage(statics=statics))
    later = absorb(2, 6, header=done.header, rows=done.rows, row_changes={b"r": [RowImage(Liveness(6))]})
    assert later.expiries == [(10, b"r")]
    assert all(it.clustering for it in later.emitted), "what did not come again is not told again"
    untouched = absorb(2, 6, header=done.header, rows=done.rows, row_changes={b"r": []})
    assert (untouched.header, untouched.rows, untouched.emitted, untouched.expiries) == (None, {}, [], [])
    both = absorb(2, 6, header=done.header, rows=done.rows, header_changes=[PartitionImage()], row_changes={})
    assert both.expiries == [(10, b"r")], "its statics changed, so when they end is noted anew"


def test_a_record_of_a_later_epoch_stops_the_driver() -> None:
    header = StoredPartition(3, PartitionImage())
    row = StoredRow(3, NOTHING, None, None)
    absorb(3, 0, header=header, rows={b"r": row}, row_changes={})
    with pytest.raises(StaleDriverError, match="partition at epoch 3 seen by a driver of 2"):
        absorb(2, 0, header=header, rows={}, row_changes={})
    with pytest.raises(StaleDriverError, match="row at epoch 3 seen by a driver of 2"):
        absorb(2, 0, header=None, rows={b"r": row}, row_changes={})


def test_what_expires_is_found_by_the_epoch_whose_clock_passes_it() -> None:
    """Whatever slots lie between: in (before, now], once, whichever row of the partition it is."""
    door = MemoryDoor()
    changes = {
        b"p%d" % at: PartitionChanges(
            rows={b"c": [RowImage(None, None, cells(("a", b"", Cell(5, b"x", 1, at))))]}
        )
        for at in (59, 60, 61, 119, 120, 300)
    }
    drive(run_delta(changes, table="d", bucket=0, epoch=1, clock=1, headers=False), door)

    def due(before: int, now: int) -> list[bytes]:
        return [
            partition
            for partition, clustering in drive(due_between("d", before, now), door)
            if clustering == b"c"
        ]

    assert due(1, 58) == []
    assert due(1, 59) == [b"p59"]
    assert due(59, 60) == [b"p60"]
    assert due(60, 120) == [b"p61", b"p119", b"p120"]
    assert due(1, 10_000) == list(changes)
    assert due(300, 10_000) == due(0, 10_000) == due(60, 60) == due(61, 60) == []
    assert (expiry_bucket(0), expiry_bucket(59), expiry_bucket(60)) == (-1, -1, -2)
    assert (split(framed(b"p")), split(framed(b"p", b""))) == ((b"p", None), (b"p", b""))


def test_a_partitions_own_record_is_read_where_it_can_be_and_kept() -> None:
    door = MemoryDoor()
    statics = RowImage(None, None, cells(("s", b"", PLAIN)))
    made = {
        b"p": PartitionChanges(header=[PartitionImage(statics=statics)], rows={b"c": [RowImage(Liveness(5))]})
    }
    moved = drive(run_delta(made, table="d", bucket=0, epoch=1, clock=1, headers=True), door)
    assert moved == [(b"p", Emitted(b"c", None, {"s": b"x"}, 5))]
    more = {b"p": PartitionChanges(rows={b"e": [RowImage(Liveness(6))]})}
    moved = drive(run_delta(more, table="d", bucket=0, epoch=2, clock=1, headers=True), door)
    assert moved == [(b"p", Emitted(b"e", None, {"s": b"x"}, 6))]
    gone = {b"p": PartitionChanges(header=[PartitionImage(deletion=Deletion(9))])}
    moved = drive(run_delta(gone, table="d", bucket=0, epoch=3, clock=1, headers=True), door)
    assert [(it.clustering, it.now) for _, it in moved] == [(b"c", None), (b"e", None)]
    assert drive(run_delta({}, table="d", bucket=0, epoch=4, clock=1, headers=True), door) == []


def test_an_epoch_takes_in_what_expires_without_any_change_of_it() -> None:
    """And asks for nothing of a partition's own unless its table can have it."""
    door, asked = MemoryDoor(), []

    def noted(requests: list[Any]) -> list[Any]:
        asked.extend(requests)
        return door(requests)

    base = BaseReader(name="t", delta="d", buckets=1, decode=lambda *_: ())
    row = RowImage(None, None, cells(("a", b"", Cell(5, b"x", 1, 59))))
    changes = {b"p": PartitionChanges(rows={b"c": [row]})}
    drive(delta_step(base, Pin(epoch=1, clock=1), changes), noted)
    assert asked[0].keys == (framed(b"p", b"c"),)
    moved = drive(delta_step(base, Pin(epoch=2, clock_before=1, clock=60), {}), noted)
    assert moved == [(b"p", Emitted(b"c", {"a": b"x"}, None, 5))]
