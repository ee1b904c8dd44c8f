"""DELTA forgets what is gone, and views never show it: not too early, nor under a replay or a driver that woke up."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvs.programs.delta import (
    CONFIRMED,
    FARTHEST,
    NEVER,
    NO_PARTITION,
    NOTHING,
    SNAPSHOT,
    Cell,
    Deletion,
    Liveness,
    PartitionImage,
    RangeDeletion,
    RowImage,
    StaleDriverError,
    Visible,
    deletion_over,
    forget,
    forget_partition,
    hide,
    last_end,
    merge,
    merge_partition,
    visible,
)
from cvs.programs.epoch import Pin, settled
from cvs.programs.epoch_run import BaseReader, delta_step
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_delta import SLOTS_KEPT, DropBucket, PartitionChanges, drops_between
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stored import StoredPartition, StoredRow, absorb
from tests.unit.programs.test_delta import IMAGES

SECOND = 1_000_000
ROWS = (b"1", b"2", b"3")
PARTITION = b"p"
HINTED = 15
"""Seconds for which a copy may be kept; with a jump of the clock it is behind it by less than twice as much."""
KEEP = 2 * HINTED
SLEEPS = 4
"""Epochs for which a driver may sleep."""

Write = tuple[bytes | None, Any]
"""A row's image, or (None, what the partition has beside its rows)."""


def inside(deletion: RangeDeletion, clustering: bytes) -> bool:
    return deletion.start <= clustering <= deletion.end


BASE = BaseReader(name="t", delta="d", buckets=1, decode=lambda *_: (), headers=True, inside=inside)


@dataclass(slots=True)
class Base:
    """What Cassandra would show: every write merged, nothing ever forgotten."""

    partition: PartitionImage = NO_PARTITION
    rows: dict[bytes, RowImage] = field(default_factory=dict)

    def take(self, clustering: bytes | None, image: Any) -> None:
        if clustering is None:
            self.partition = merge_partition(self.partition, image)
        else:
            self.rows[clustering] = merge(self.rows.get(clustering, NOTHING), image)

    def shown(self, clock: int) -> dict[bytes, Visible]:
        found = {}
        for clustering, image in self.rows.items():
            left = hide(image, deletion_over(self.partition, clustering, inside))
            seen = visible(left, self.partition.statics, clock)
            if seen is not None:
                found[clustering] = seen
        return found


@dataclass(slots=True)
class Ran:
    """An epoch, and what it emitted."""

    pin: Pin
    writes: list[Write]
    emitted: dict[bytes, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """Writes, their late copies, and epochs over DELTA alone, run again and woken up again at random."""

    chance: random.Random
    keep: int
    sleeps: int = SLEEPS
    door: MemoryDoor = field(default_factory=MemoryDoor)
    base: Base = field(default_factory=Base)
    shown: dict[bytes, Visible] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)
    late: list[tuple[int, Write]] = field(default_factory=list)
    clock: int = 1000
    written: int = 0

    def write(self) -> Write:
        """Insert, update, delete: a row, some rows, the partition; some of it with a time to live."""
        self.written += 1
        at, local = self.clock * SECOND + self.written, self.clock
        row = self.chance.choice(ROWS)
        ttl = self.chance.choice([0, 0, 5, 30])
        ends = local + ttl if ttl else NEVER
        cell = Cell(at, b"v%d" % self.written, ttl, ends)
        gone = Deletion(at, local)
        match self.chance.randrange(9):
            case 0 | 1 | 2:
                return row, RowImage(Liveness(at, ttl, ends), None, (("a", b"", cell),))
            case 3:
                return row, RowImage(None, None, ((self.chance.choice("ab"), b"", cell),))
            case 4:
                return row, RowImage(None, None, (("a", b"", Cell(at, None, 0, local)),))
            case 5:
                return row, RowImage(deletion=gone)
            case 6:
                ends_at = self.chance.choice(ROWS)
                return None, PartitionImage(ranges=(RangeDeletion(row, True, max(row, ends_at), True, gone),))
            case 7:
                return None, PartitionImage(statics=RowImage(None, None, (("s", b"", cell),)))
            case _:
                return None, PartitionImage(deletion=gone)

    def input(self) -> list[Write]:
        """Return some new writes, and copies that come as late as they may."""
        fresh = [self.write() for _ in range(self.chance.randrange(3))]
        self.late += [(self.clock, it) for it in fresh if self.chance.random() < 0.5]
        self.clock += self.chance.choice([0, 1, 3, 10, HINTED])
        copies = [it for at, it in self.late if self.clock - at >= HINTED or self.chance.random() < 0.2]
        self.late = [(at, it) for at, it in self.late if it not in copies]
        for it in fresh:
            self.base.take(*it)
        return fresh + copies

    def epoch(self, writes: list[Write]) -> str:
        """Run an epoch; return what is wrong with what it emitted."""
        last = self.ran[-1].pin if self.ran else Pin(epoch=0, clock=self.clock)
        number = last.epoch + 1
        pin = Pin(
            epoch=number,
            clock_before=last.clock,
            clock=self.clock,
            keeps={"t": self.keep} if self.keep else {},
            settled=max(number - self.sleeps, 0),
        )
        it = Ran(pin, writes)
        while self.chance.random() < 0.4:
            self.halfway(it)
        self.ran.append(it)
        it.emitted = self.run(it)
        for clustering, (before, now) in it.emitted.items():
            if self.shown.get(clustering) != before:
                return (
                    f"epoch {number}: {clustering!r} was {self.shown.get(clustering)}, emitted from {before}"
                )
            self.shown[clustering] = now
        self.shown = {clustering: row for clustering, row in self.shown.items() if row is not None}
        if self.shown != self.base.shown(self.clock):
            return f"epoch {number}: {self.shown}, in the base {self.base.shown(self.clock)}"
        return self.woken() if self.chance.random() < 0.5 else ""

    def machine(self, it: Ran) -> Any:
        changes: dict[bytes, PartitionChanges] = {}
        for clustering, image in it.writes:
            into = changes.setdefault(PARTITION, PartitionChanges())
            if clustering is None:
                into.header.append(image)
            else:
                into.rows.setdefault(clustering, []).append(image)
        return delta_step(BASE, it.pin, changes)

    def run(self, it: Ran) -> dict[bytes, tuple[Any, Any]]:
        moved = drive(self.machine(it), self.door)
        return {one.clustering: (one.before, one.now) for _, one in moved if one.before != one.now}

    def halfway(self, it: Ran) -> None:
        """Run an epoch until only some of its puts are done."""
        machine, answers = self.machine(it), None
        try:
            while True:
                requests = next(machine) if answers is None else machine.send(answers)
                if self.chance.random() < 0.5:
                    for request in requests:
                        for image in getattr(request, "images", ()):
                            if self.chance.random() < 0.5:
                                some = type(request)(
                                    table=request.table,
                                    bucket=request.bucket,
                                    images=(image,),
                                    write_time=request.write_time,
                                )
                                self.door([some])
                    return
                answers = self.door(requests)
        except StopIteration:
            pass

    def woken(self) -> str:
        """Let a driver wake up that slept since an epoch of before: what it finds to do it did then already."""
        it = self.chance.choice(self.ran[-SLEEPS:])
        try:
            emitted = self.run(it)
        except StaleDriverError:
            return ""
        other = {key: move for key, move in emitted.items() if it.emitted.get(key) != move}
        return f"woken in epoch {it.pin.epoch}: {other}, then {it.emitted}" if other else ""

    def remembered(self) -> int:
        """Count what DELTA holds of rows and partitions."""
        return sum(
            image is not None
            for (_, bucket), images in self.door.images.items()
            for _, image in images.values()
            if bucket >= 0
        )


def followed(seed: int, keep: int, *, sleeps: int = SLEEPS, epochs: int = 60) -> tuple[str, World]:
    """Follow a base for some epochs, then delete all of it and let time pass; return what was wrong."""
    world = World(random.Random(seed), keep, sleeps)
    for _ in range(epochs):
        if wrong := world.epoch(world.input()):
            return wrong, world
    gone = (None, PartitionImage(deletion=Deletion((world.clock + 1) * SECOND, world.clock + 1)))
    world.base.take(*gone)
    copies = [it for _, it in world.late]
    world.late = []
    for writes in ([*copies, gone], *([],) * 12):
        world.clock += HINTED
        if wrong := world.epoch(writes):
            return wrong, world
    return "", world


@pytest.mark.parametrize("seed", range(25))
def test_what_is_gone_is_forgotten_and_never_shows(seed: int) -> None:
    """H16: copies come late, epochs are run in part and again, drivers wake up; in the end DELTA is empty."""
    wrong, world = followed(seed, KEEP)
    assert not wrong
    assert world.remembered() == 0
    wrong, world = followed(seed, 0)
    assert not wrong
    assert world.remembered() > 0, "without a time to keep nothing is ever forgotten"


def test_forgetting_too_early_shows_what_was_deleted() -> None:
    """A copy of an older write finds nothing against it."""
    assert any("in the base" in followed(seed, 2)[0] for seed in range(60))


def test_dropping_what_a_sleeper_may_still_put_lets_it_emit_something_else() -> None:
    """Whoever wakes up finds no row of a later epoch to stop it."""
    assert any("woken" in followed(seed, KEEP, sleeps=1)[0] for seed in range(200))


@given(IMAGES, IMAGES, st.integers(0, 4), st.integers(0, 2))
@settings(max_examples=300, deadline=None)
def test_nobody_sees_what_was_forgotten(a: RowImage, b: RowImage, until: int, later: int) -> None:
    """Neither now nor beside anything written since."""
    clock = until + later
    assert visible(forget(a, until), NOTHING, clock) == visible(a, NOTHING, clock)
    since = RowImage(
        b.liveness and Liveness(b.liveness.written + until * SECOND, b.liveness.ttl, b.liveness.gone_at),
        None,
        tuple(
            (c, p, Cell(it.written + until * SECOND, it.value, it.ttl, it.gone_at)) for c, p, it in b.cells
        ),
    )
    assert visible(merge(forget(a, until), since), NOTHING, clock) == visible(merge(a, since), NOTHING, clock)
    assert forget(forget(a, until), until) == forget(a, until)


def test_what_is_forgotten_ended_and_was_written_before() -> None:
    def cells(*some: Cell) -> tuple[tuple[str, bytes, Cell], ...]:
        return tuple((name, b"", it) for name, it in zip("abcd", some, strict=False))

    ended, early = Cell(SECOND, None, 0, 9), Cell(SECOND, b"x")
    image = RowImage(
        Liveness(SECOND, 5, 9), Deletion(SECOND, 9), cells(ended, early), (("m", Deletion(SECOND, 9)),)
    )
    assert forget(image, 9) is image
    assert forget(image, 10) == RowImage(cells=image.cells[1:])
    dated_later = RowImage(
        Liveness(10 * SECOND, 5, 9), Deletion(10 * SECOND, 9), cells(Cell(10 * SECOND, None, 0, 9))
    )
    assert forget(dated_later, 10) is dated_later, "a writer's clock may be ahead: the later of both counts"
    assert last_end(dated_later) == 10
    assert (last_end(image), last_end(NOTHING), last_end(RowImage(Liveness(SECOND)))) == (9, 0, 0)
    assert last_end(RowImage(Liveness(SECOND, 5, 9))) == 9
    confirmed = RowImage(Liveness(CONFIRMED, 5, 9))
    assert forget(confirmed, 10) is confirmed, "what a scan saw is asked again when its time is over"
    listed = RowImage(cells=(("m", SNAPSHOT, early), ("m", b".k", ended)))
    assert forget(listed, 10) is listed, "what was written to a list since it was read puts it in doubt"
    beside = RowImage(None, Deletion(SECOND, 9), (("m", SNAPSHOT, early),))
    assert forget(beside, 10) == RowImage(cells=beside.cells), (
        "what puts no list in doubt is forgotten beside one"
    )
    ranged = RangeDeletion(b"1", True, b"2", True, Deletion(SECOND, 9))
    whole = PartitionImage(Deletion(SECOND, 9), (ranged,), RowImage(cells=cells(ended)))
    assert (forget_partition(whole, 9), forget_partition(whole, 10)) == (whole, NO_PARTITION)


def test_what_is_dated_later_than_any_clock_is_kept_for_good() -> None:
    """A note of its end would have no bucket."""
    some = [(FARTHEST - 1, b"r")]
    for written, noted in (
        ((FARTHEST - 1) * SECOND - 1, some),
        ((FARTHEST - 1) * SECOND, []),
        (FARTHEST * SECOND, []),
    ):
        gone = RowImage(deletion=Deletion(written, 5))
        done = absorb(1, 5, header=None, rows={}, row_changes={b"r": [gone]}, keep=1)
        assert [(at - 1, row) for at, row in done.expiries] == noted


def test_notes_are_deleted_a_day_after_their_minute_and_never_before_they_were_read() -> None:
    day = SLOTS_KEPT * 60
    assert drops_between("d", 0, 10 * day, epoch=7) == []
    assert drops_between("d", day + 60, day + 119, epoch=7) == []
    assert drops_between("d", day + 60, day + 120, epoch=7) == [
        DropBucket(table="d", bucket=-2, write_time=7)
    ]
    jump = drops_between("d", 3 * day, 9 * day, epoch=7)
    assert {it.bucket for it in jump} == {-1 - slot for slot in range(2 * SLOTS_KEPT, 3 * SLOTS_KEPT)}
    door = MemoryDoor()
    door.images["d", -2] = {b"note": (6, b""), b"later": (8, b"")}
    door(list(drops_between("d", day + 60, day + 120, epoch=7)))
    assert {key for key, (_, image) in door.images["d", -2].items() if image is not None} == {b"later"}


def test_an_epoch_is_settled_hours_after_it_was_committed() -> None:
    first = settled(Pin(epoch=5), 1_000_000)
    assert (first.settled, first.settling) == (0, (4, 1_000_000))
    soon = settled(Pin(epoch=9, settling=first.settling), 1_000_000 + 3 * 3600 - 1)
    assert (soon.settled, soon.settling) == (0, (4, 1_000_000))
    then = settled(Pin(epoch=10, settling=first.settling), 1_000_000 + 3 * 3600)
    assert (then.settled, then.settling) == (4, (9, 1_000_000 + 3 * 3600))


@pytest.mark.parametrize(("keeps", "noted"), [({}, False), ({"other": 5}, False), ({"t": 5}, True)])
def test_a_table_that_is_not_named_remembers_for_good(keeps: dict[str, int], noted: bool) -> None:
    door = MemoryDoor()
    gone = {PARTITION: PartitionChanges(rows={b"1": [RowImage(deletion=Deletion(SECOND, 1))]})}
    drive(delta_step(BASE, Pin(epoch=1, clock=1, keeps=keeps), gone), door)
    assert any(bucket < 0 for _, bucket in door.images) == noted


@pytest.mark.parametrize(("header_epoch", "gone"), [(3, True), (4, False)])
def test_a_partitions_empty_record_goes_when_the_epoch_that_put_it_is_settled(
    header_epoch: int, gone: bool
) -> None:
    stood = StoredPartition(header_epoch, NO_PARTITION)
    done = absorb(9, 5, header=stood, rows={}, row_changes={}, settled=3)
    assert done.dropped == ([()] if gone else [])


def test_nothing_goes_while_no_epoch_is_known_to_be_settled() -> None:
    stood, empty = StoredPartition(1, NO_PARTITION), StoredRow(1, NOTHING, None, None)
    assert absorb(9, 5, header=stood, rows={b"r": empty}, row_changes={}).dropped == []


def test_a_partitions_record_is_noted_where_it_was_looked_at() -> None:
    """That is when its own note is due; a table without clustering columns has its one row under the same name."""
    stood, live = StoredPartition(1, NO_PARTITION), RowImage(Liveness(SECOND))

    def noted(header: StoredPartition | None, clustering: bytes) -> list[tuple[int, bytes]]:
        how: dict[str, Any] = {"keep": 7, "row_changes": {clustering: [live]}, "rows": {}}
        return absorb(9, 5, header=header, **how).expiries

    assert noted(stood, b"") == [(13, b"")]
    assert noted(stood, b"r") == noted(None, b"") == noted(None, b"r") == []


def test_a_row_that_goes_is_not_looked_at_again_when_the_statics_beside_it_expire() -> None:
    statics = RowImage(None, None, (("s", b"", Cell(6 * SECOND, b"x", 4, 10)),))
    stood = {b"r": StoredRow(1, NOTHING, None, None)}
    done = absorb(
        9,
        6,
        header=None,
        rows=stood,
        header_changes=[PartitionImage(statics=statics)],
        row_changes={},
        settled=3,
    )
    assert (done.dropped, done.expiries) == ([(b"r",)], [])
