"""Which part of a change an epoch on the write-time line takes, and what is noted of what comes out of its order."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from cvs.model.signature import Signature
from cvs.model.views import BaseTable
from cvs.programs.delta import (
    ASSUMED,
    NO_PARTITION,
    NOTHING,
    Cell,
    Deletion,
    Liveness,
    PartitionImage,
    RangeDeletion,
    RowImage,
    merge,
    merge_partition,
    no_ranges,
)
from cvs.programs.epoch import PINNED, Control, Pin
from cvs.programs.epoch_run import BaseReader, without_claim
from cvs.programs.line import Line, admit, part_of, part_of_partition, times
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_delta import DeltaInput, PartitionChanges, run_delta, untimely_rows
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stored import absorb
from cvs.programs.untimely import Untimely

LINE = Line(before=10, upto=20, ahead=100)
MIXED = RowImage(
    Liveness(5),
    Deletion(4),
    (("a", b"", Cell(15, b"x")), ("b", b"", Cell(25, b"y")), ("c", b".1", Cell(200, b"z"))),
    (("c", Deletion(12)),),
)


def taken(image: RowImage, *, fresh: bool, **how: Any) -> tuple[set[int], set[int]]:
    """Return the write times that an epoch takes of a row, and those of them that are out of their order."""
    found: DeltaInput = {}
    admit({b"p": PartitionChanges(rows={b"": [image]})}, found, LINE, fresh=fresh, **how)
    it = found.get(b"p", PartitionChanges())
    odd = it.untimely or Untimely()
    return set().union(*map(times, it.rows.get(b"", []))), set().union(*map(times, odd.rows.get(b"", [])))


def test_the_bounds_of_an_epoch_are_exact() -> None:
    """W itself is this epoch's, W of the one before was that one's; nobody's clock is later than `ahead`."""
    moments = (10, 11, 20, 21, 100, 101)
    assert [it for it in moments if LINE.takes(it, fresh=False)] == [11, 20]
    assert [it for it in moments if LINE.takes(it, fresh=True)] == [10, 11, 20, 101]
    assert [it for it in moments if LINE.waits(it)] == [21, 100]
    assert [it for it in moments if LINE.untimely(it, claimed=True)] == [10, 101]
    assert [it for it in moments if LINE.untimely(it, claimed=False)] == [101]


@pytest.mark.parametrize("seen", range(5))
def test_every_write_is_taken_once(seen: int) -> None:
    """By the epoch that first sees it, or by the one whose moment passes it; what waits is taken by none yet."""
    bounds = [0, 10, 20, 30, 40, 50]
    lines = [Line(before=before, upto=upto, ahead=60) for before, upto in pairwise(bounds)]
    for written in range(1, 70):
        takers = [n for n in range(seen, len(lines)) if lines[n].takes(written, fresh=n == seen)]
        assert len(takers) == (0 if lines[-1].waits(written) else 1)
    assert not Line().takes(1, fresh=False), "before the first moment"


def taken_of_partition(*, fresh: bool, **how: Any) -> tuple[list[PartitionImage], list[PartitionImage]]:
    """Return what an epoch takes of a partition's own record, and what of it is out of its order."""
    found: DeltaInput = {}
    admit({b"p": PartitionChanges(header=[PARTITION])}, found, LINE, fresh=fresh, **how)
    it = found.get(b"p", PartitionChanges())
    return it.header, (it.untimely or Untimely()).header


def statics(*moments: int) -> RowImage:
    return RowImage(cells=tuple((f"s{at}", b"", Cell(at, b"")) for at in moments))


def ranges(*moments: int) -> tuple[RangeDeletion, ...]:
    return tuple(RangeDeletion(b"", True, b"x", True, Deletion(at)) for at in moments)


PARTITION = PartitionImage(Deletion(5), ranges(15, 25), statics(12, 200))


def test_a_partitions_record_is_taken_in_parts_too() -> None:
    """Its deletion, its range deletions and its statics each have their own moment."""
    assert taken_of_partition(fresh=False) == ([PartitionImage(None, ranges(15), statics(12))], [])
    assert taken_of_partition(fresh=True) == (
        [PartitionImage(Deletion(5), ranges(15), statics(12, 200))],
        [PartitionImage(Deletion(5), (), statics(200))],
    )
    assert part_of_partition(PARTITION, lambda _: True) is PARTITION
    assert part_of_partition(PARTITION, lambda _: False) is None


@pytest.mark.parametrize(
    "late",
    [
        PartitionImage(Deletion(25)),
        PartitionImage(None, ranges(15, 25)),
        PartitionImage(None, (), statics(12, 25)),
    ],
)
def test_a_scanned_partitions_record_waits_for_the_last_of_it(late: PartitionImage) -> None:
    found: DeltaInput = {}
    admit({b"p": PartitionChanges(header=[late])}, found, LINE, fresh=True, scanned=True)
    assert not found
    admit(
        {b"p": PartitionChanges(header=[late])},
        found,
        Line(before=20, upto=25, ahead=100),
        fresh=False,
        scanned=True,
    )
    assert found[b"p"].header == [late]


def test_an_epoch_takes_what_was_written_up_to_its_moment_each_part_once() -> None:
    assert taken(MIXED, fresh=False) == ({12, 15}, set())
    assert taken(MIXED, fresh=True) == ({4, 5, 12, 15, 200}, {4, 5, 200})


def test_what_is_late_while_nothing_is_claimed_is_in_time_but_nobodys_clock_is_ahead() -> None:
    assert taken(MIXED, fresh=True, claimed=False) == ({4, 5, 12, 15, 200}, {200})


def test_a_scanned_row_is_taken_whole_when_the_last_of_it_is_due() -> None:
    scanned = RowImage(Liveness(ASSUMED), None, (("a", b"", Cell(15, b"x")), ("b", b"", Cell(25, b"y"))))
    assert taken(scanned, fresh=True, scanned=True) == (set(), set())
    later = Line(before=20, upto=30, ahead=100)
    found: DeltaInput = {}
    admit(
        {b"p": PartitionChanges(rows={b"": [scanned]})},
        found,
        later,
        fresh=False,
        scanned=True,
        claimed=False,
    )
    assert found[b"p"].rows == {b"": [scanned]}


@pytest.mark.parametrize("cut", [0, 4, 5, 12, 15, 25, 200])
def test_the_parts_of_a_change_merge_to_the_whole(cut: int) -> None:
    early, late = part_of(MIXED, lambda at: at <= cut), part_of(MIXED, lambda at: at > cut)
    assert merge(early or NOTHING, late or NOTHING) == merge(NOTHING, MIXED)


@pytest.mark.parametrize("cut", [0, 4, 5, 7, 9, 200])
def test_the_parts_of_a_partitions_record_merge_to_the_whole(cut: int) -> None:
    whole = PartitionImage(
        Deletion(3),
        (RangeDeletion(b"", True, b"x", True, Deletion(7)),),
        RowImage(cells=(("s", b"", Cell(9, b"")),)),
    )
    early, late = (part_of_partition(whole, it) for it in (lambda at: at <= cut, lambda at: at > cut))
    assert merge_partition(early or NO_PARTITION, late or NO_PARTITION) == merge_partition(
        NO_PARTITION, whole
    )


def row(*cells: tuple[str, int]) -> RowImage:
    return RowImage(Liveness(1), None, tuple((name, b"", Cell(at, b"%d" % at)) for name, at in sorted(cells)))


@pytest.mark.parametrize(
    ("late", "counted"),
    [
        (row(("a", 8)), False),  # a copy of what is known, as another replica's log brings it
        (row(("a", 7)), False),  # it was overwritten before it came
        (row(("b", 6)), True),
        (RowImage(deletion=Deletion(9)), True),
        (RowImage(deletion=Deletion(0)), False),
    ],
)
def test_late_changes_are_counted_if_they_show(late: RowImage, counted: bool) -> None:
    stood = absorb(1, 1, header=None, rows={}, row_changes={b"": [row(("a", 8))]}).rows[b""]
    odd = Untimely(rows={b"": [late]}).showing(None, {b"": stood}, epoch=2, clock=1, inside=no_ranges)
    assert (odd == [b""]) == counted


def test_a_late_deletion_of_the_partition_counts_for_every_row_that_it_hides() -> None:
    """A row at this epoch was looked at before it was put: a replay asks again for the others only."""
    stood = {
        name: absorb(at, 1, header=None, rows={}, row_changes={name: [row(("a", 8))]}).rows[name]
        for name, at in ((b"1", 2), (b"2", 1), (b"3", 1))
    }
    late = Untimely(header=[PartitionImage(Deletion(9))])
    assert late.showing(None, stood, epoch=2, clock=1, inside=no_ranges) == [b"2", b"3"]
    early = Untimely(header=[PartitionImage(Deletion(0))])
    assert early.showing(None, stood, epoch=2, clock=1, inside=no_ranges) == []


def test_rows_without_a_claim_are_named_before_they_are_put_and_a_replay_names_the_same() -> None:
    door = MemoryDoor()
    late = {
        b"p": PartitionChanges(rows={b"": [row(("a", 5))]}, untimely=Untimely(rows={b"": [row(("a", 5))]}))
    }
    how: dict[str, Any] = {"table": "d", "bucket": 0, "clock": 1, "headers": False}
    for _ in range(2):
        died = run_delta(late, epoch=3, **how)
        died.send(door(next(died)))  # read; what it puts first never arrives
    assert not drive(untimely_rows("d"), door)
    first, named = drive(run_delta(late, epoch=3, **how), door)
    assert (first[1].untimely, named[1].untimely) == (False, True)
    assert drive(run_delta(late, epoch=3, **how), door) == [first]
    assert drive(untimely_rows("d"), door) == [(b"p", b"")]


def test_what_another_incarnation_may_have_shown() -> None:
    """On the write-time line positions that were read say nothing of what was shown: W does, or that nothing waits."""
    absorbed = Pin(epoch=1, until={"n": 7, "build-1": 9}, build="build-1")
    waiting = Pin(epoch=1, until={"n": 7}, line=Line(upto=20, held={"n": 3}))
    assert absorbed.has_all(absorbed)
    assert absorbed.has_all(waiting)
    assert not waiting.has_all(absorbed)
    assert Pin(epoch=1, until={"n": 8}, line=Line(upto=20, held={"n": 7})).has_all(absorbed)
    assert waiting.has_all(Pin(epoch=1, until={"n": 7}, line=Line(upto=20)))
    assert not waiting.has_all(Pin(epoch=1, until={"n": 7}, line=Line(upto=21)))
    assert not Pin(epoch=1).has_all(Pin(epoch=1, until={"n": 1})), (
        "of a stream it does not know it has nothing"
    )


@pytest.mark.parametrize(
    ("chunk", "line", "positions"),
    [
        (PINNED, None, {"n": 3}),  # what is pinned may not be there yet
        (0, None, {"n": 7}),
        (PINNED, Line(upto=20, held={"n": 1}), {"n": 1}),  # what waits was pinned to be read again
        (0, Line(upto=20, held={"n": 5}), {"n": 5}),
    ],
)
def test_below_which_positions_everything_is_committed(
    chunk: int, line: Line | None, positions: dict[str, int]
) -> None:
    pin = Pin(epoch=2, since={"n": 3}, until={"n": 7}, line=line)
    control = Control(signature=Signature(incarnation=1, version=1, chunk=chunk, last=True), pin=pin)
    assert control.committed_positions == positions


def test_rows_without_a_claim_are_told_by_their_keys() -> None:
    """Of one whose key cannot be read nothing is told."""

    def decode(partition: bytes, clustering: bytes, _visible: Any) -> tuple[Any, ...]:
        if partition == b"bad":
            raise ValueError("no such date")
        return (None, partition.decode(), clustering.decode())

    door = MemoryDoor()
    for partition in (b"bad", b"p"):
        change = [row(("a", 5))]
        late = {partition: PartitionChanges(rows={b"c": change}, untimely=Untimely(rows={b"c": change}))}
        drive(run_delta(late, table="d", bucket=0, epoch=3, clock=1, headers=False), door)
    base = BaseReader(name="k.t", delta="d", buckets=1, decode=decode)
    columns = (("v", "text"), ("p", "text"), ("c", "text"))
    table = BaseTable(name="k.t", columns=columns, partition_key=("p",), clustering_key=("c",))
    program: Any = SimpleNamespace(bases=(base,), plan=SimpleNamespace(bases=(table,)))
    assert drive(without_claim(program), door) == {"k.t": [("p", "c")]}
