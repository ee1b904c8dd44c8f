"""How far the next epoch on the write-time line goes, over a feed in a folder."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cvs.capture.changes import Cell, Change, Deletion, Kind, Liveness
from cvs.capture.feed import ENDED, Source
from cvs.capture.folder import FolderFeed
from cvs.programs.delta import ASSUMED
from cvs.programs.epoch import Pin, next_pin
from cvs.stream.build import ALWAYS
from cvs.stream.waiting import Waiting
from tests.unit.stream.memory_shop import DEFINITIONS

BOUND = 100
HOUR = 3600 * 1_000_000


def change(at: int, *, written: int | None = None) -> Change:
    """A write of one column at a time, to a row of its own; `written`: of the row's liveness."""
    liveness = None if written is None else Liveness(written)
    return Change(
        kind=Kind.ROW,
        definition="shop.customers",
        key=at.to_bytes(8, "big"),
        liveness=liveness,
        cells=(Cell("name", b"x", at),),
    )


class Line:
    """A feed, what waits of it, and the pin that stands."""

    def __init__(self, folder: Path, **pin: Any) -> None:
        self.feed = FolderFeed(folder)
        self.now = HOUR
        self.pin = Pin(epoch=0, **pin)
        self.taken: list[int] = []
        self.waiting = self.started()

    def started(self) -> Waiting:
        return Waiting(self.feed, bound=BOUND, now=lambda: self.now)

    def append(self, stream: str, *changes: Change, clock: int) -> None:
        self.feed.append(stream, changes, source=Source(), clock=clock)

    def step(self, *, limit: int = 1000) -> bool:
        """Pin the next epoch and take its input; False: there is nothing to take."""
        heads = {stream: self.feed.head(stream) for stream in self.feed.streams()}
        positions, line, due = self.waiting.proposed(self.pin, heads, limit=limit)
        if not due and self.pin.until:
            return False
        found = next_pin(
            self.pin,
            heads={s: h.position for s, h in positions.items()},
            watermark=line.upto,
            limit=limit,
            always=True,
        )
        assert found is not None
        self.pin = structs.replace(found, line=line)
        changes, stopped, _ = self.waiting.input(self.pin, DEFINITIONS, tables=DEFINITIONS, reads={})
        self.taken += [int.from_bytes(key, "big") for key in changes.get("shop.customers", {})]
        self.late = [it for it in changes.get("shop.customers", {}).values() if it.untimely]
        self.stopped = stopped
        return True


def test_what_is_younger_than_the_least_clock_by_less_than_the_bound_waits(tmp_path: Path) -> None:
    line = Line(tmp_path)
    line.append("a", change(1000), change(2000), change(2450), clock=2500)
    line.append("b", change(1500), clock=2300)
    assert line.step()
    assert line.taken == [1000, 2000, 1500]
    assert not line.step(), "a node whose clock stands still stalls the line"
    line.append("b", clock=2700)
    assert not line.step()
    line.append("a", clock=2700)
    line.waiting = line.started()  # a restart reads again what waits
    assert line.step()
    assert line.taken[3:] == [2450]
    assert dict(line.pin.taken) == {"a": 2, "b": 1}
    line.append("a", clock=ENDED)  # its node left the cluster
    line.append("b", change(2900), clock=3100)
    assert line.step()
    assert line.taken[4:] == [2900]


def test_what_is_ahead_of_every_clock_is_taken_at_once_and_so_is_what_comes_late(tmp_path: Path) -> None:
    line = Line(tmp_path)
    line.append("a", change(HOUR + 50), change(HOUR + BOUND + 1), clock=HOUR)
    assert line.step()
    assert (line.taken, len(line.late)) == ([HOUR + BOUND + 1], 1)
    line.append("a", change(HOUR - 500), clock=HOUR + 1)
    assert line.step()
    assert (line.taken[1:], len(line.late)) == ([HOUR - 500], 1)
    assert dict(line.pin.taken) == {"a": 0}, (
        "what is within the bound of the clock waits, and the feed is kept for it"
    )


def test_a_change_of_several_times_is_taken_part_by_part(tmp_path: Path) -> None:
    line = Line(tmp_path)
    line.append("a", change(2450, written=1000), clock=2500)
    assert line.step()
    assert line.taken == [2450]
    assert line.pin.line is not None
    assert line.waiting.proposed(line.pin, {"a": line.feed.head("a")}, limit=9)[1].held == {"a": 0}
    line.append("a", clock=2700)
    assert line.step()
    assert line.taken == [2450, 2450]


def test_a_gap_breaks_tables_at_once_and_only_once(tmp_path: Path) -> None:
    line = Line(tmp_path)
    line.append("a", change(2450), Change(kind=Kind.GAP, definition="", detail="lost"), clock=2500)
    assert line.step()
    assert line.stopped.keys() == DEFINITIONS.keys()
    line.append("a", clock=2700)
    assert line.step()
    assert not line.stopped


def test_a_build_begins_at_the_heads_and_its_rows_are_taken_whole(tmp_path: Path) -> None:
    line = Line(tmp_path, build="build-1", views={"v": "building"})
    line.append("a", change(1000), clock=5000)
    assert line.step()
    assert line.pin.line is not None
    assert line.pin.line.held == {"a": 1}
    assert not line.taken
    line.pin = structs.replace(line.pin, until={"a": 1})  # as `begun` pins it
    line.append("build-1", change(4950, written=ASSUMED), change(4000, written=ASSUMED), clock=ALWAYS)
    line.append("a", clock=5010)
    assert line.step()
    assert (line.taken, line.late) == ([4000], [])
    assert line.pin.taken["build-1"] == 0
    line.append("a", clock=5100)
    assert line.step()
    assert line.taken == [4000, 4950]
    line.append("a", change(5100), clock=5300)
    assert line.step()
    assert line.pin.taken["build-1"] == 2, "only now all of it is shown for certain"


@pytest.mark.parametrize("limit", [10, 64])
def test_after_an_outage_streams_are_read_evenly_and_memory_is_bounded(tmp_path: Path, limit: int) -> None:
    """One stream was behind by everything, and one carries ten times as much as the other."""
    line = Line(tmp_path)
    line.append("a", *(change(at) for at in range(1000, 41_000, 20)), clock=50_000)
    line.append("b", *(change(at) for at in range(1001, 41_000, 200)), clock=50_000)
    line.append("c", clock=50_000)
    kept, before = [], 0
    while line.step(limit=limit):
        assert line.pin.line is not None
        assert line.pin.line.upto >= before
        assert all(at <= line.pin.line.upto for at in line.taken)
        assert not line.late
        before = line.pin.line.upto
        kept.append(sum(len(it.seen) for it in line.waiting._streams.values()))
    assert sorted(line.taken) == sorted([*range(1000, 41_000, 20), *range(1001, 41_000, 200)])
    assert max(kept) <= 3 * limit + 4 * BOUND / 20


def test_a_deletion_waits_like_a_write(tmp_path: Path) -> None:
    line = Line(tmp_path)
    gone = Change(
        kind=Kind.PARTITION_DELETION, definition="shop.customers", key=bytes(8), deletion=Deletion(2450, 1)
    )
    line.append("a", gone, change(2000), clock=2500)
    assert line.step()
    assert line.taken == [2000]
    line.append("a", clock=2700)
    assert line.step()
    assert line.taken == [2000, 0]
