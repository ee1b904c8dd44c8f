"""The tail over a folder that a test fills: durable offsets, empty index files, resume at every point, gaps."""

import random
from pathlib import Path

import pytest

from cvs.capture import tail as tail_module
from cvs.capture.changes import Kind
from cvs.capture.clock import StreamClock
from cvs.capture.feed import ENDED, Source
from cvs.capture.folder import FolderFeed
from cvs.capture.segment import DamagedSegmentError
from cvs.capture.tail import BEFORE_DURABLE, Tail
from cvs.errors import HistoryError
from tests.unit.capture.segments import PAYLOADS, RECORDED, SEGMENT, decode, decoder, header, segment

CHANGES = len(RECORDED["expected"])


class Folder:
    """A cdc_raw folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def put(self, number: int, data: bytes, index: str | None) -> None:
        (self.path / f"CommitLog-7-{number}.log").write_bytes(data)
        self.index(number, index)

    def index(self, number: int, text: str | None) -> None:
        if text is not None:
            (self.path / f"CommitLog-7-{number}_cdc.idx").write_text(text)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "cdc_raw")


def tail_of(folder: Folder, feed: FolderFeed, *, acknowledges: bool = True, **options: bool) -> Tail:
    log = decoder()
    clock = StreamClock(acknowledges_after_sync=acknowledges, counts=log.counts)
    return Tail(folder.path, feed=feed, stream="n1", decoder=log, clock=clock, **options)


def data_of(number: int, *payloads: bytes) -> bytes:
    return segment([[payload] for payload in payloads], number=number)


def test_only_what_the_index_calls_durable_is_read(folder: Folder, tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path / "feed")
    data = data_of(SEGMENT, *PAYLOADS[:3])
    first_end = len(data_of(SEGMENT, PAYLOADS[0])) - 64
    folder.put(SEGMENT, data, None)
    tail = tail_of(folder, feed)
    assert tail.step(1_000_000) == 0
    folder.index(SEGMENT, str(first_end))
    one = tail.step(2_000_000)
    assert one >= 1
    folder.index(SEGMENT, "")  # being rewritten: nothing is known, the clock stands
    clock = tail.head.clock
    assert (tail.step(3_000_000), tail.head.clock) == (0, clock)
    folder.index(SEGMENT, str(len(data) - 64))
    assert tail.step(4_000_000) > 0
    assert tail.head.clock == 4_000_000


def test_a_superseded_segment_is_read_to_its_end_and_deleted(folder: Folder, tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT, *PAYLOADS[:7]), "30")
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1, *PAYLOADS[7:]), "999999")
    tail = tail_of(folder, feed)
    assert tail.step(1) == CHANGES
    assert folder.names() == [f"CommitLog-7-{SEGMENT + 1}.log", f"CommitLog-7-{SEGMENT + 1}_cdc.idx"]
    assert tail.head.source.segment == SEGMENT + 1


def test_what_a_killed_process_had_read_and_not_removed_is_removed_by_the_next(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the head that names the next segment and the deletion of the one before it."""
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT, *PAYLOADS[:7]), "30\nCOMPLETED")
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1, *PAYLOADS[7:]), "999999")

    def killed(_: Path) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(tail_module, "remove", killed)
        with pytest.raises(InterruptedError):
            tail_of(folder, feed).step(1)
    assert len(folder.names()) == 4
    kept = tail_of(folder, feed, delete=False)
    kept.close()
    assert len(folder.names()) == 4, "who keeps segments removes none"
    again = tail_of(folder, feed)
    assert folder.names() == [f"CommitLog-7-{SEGMENT + 1}.log", f"CommitLog-7-{SEGMENT + 1}_cdc.idx"]
    read = again.head.position
    assert (again.step(2), again.head.position) == (CHANGES - read, CHANGES)


def test_older_segments_of_another_log_are_not_taken_for_read(folder: Folder, tmp_path: Path) -> None:
    """The stream's own segment is not there: nothing says that what is older was read."""
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT, PAYLOADS[0]), "999999")
    first = tail_of(folder, feed)
    first.step(1)
    first.close()
    (folder.path / f"CommitLog-7-{SEGMENT}.log").rename(folder.path / f"CommitLog-7-{SEGMENT - 5}.log")
    tail_of(folder, feed).close()
    assert f"CommitLog-7-{SEGMENT - 5}.log" in folder.names()


@pytest.mark.parametrize("seed", range(15))
def test_ended_anywhere_and_started_again_every_change_comes_in_order(
    folder: Folder, tmp_path: Path, seed: int
) -> None:
    """The log grows bit by bit; capture ends and starts at random: nothing lost, first appearances in order."""
    chooser = random.Random(seed)
    feed = FolderFeed(tmp_path / "feed")
    tail = tail_of(folder, feed)
    for count in range(1, len(PAYLOADS) + 1):
        number = SEGMENT + (count - 1) // 5
        since = (count - 1) // 5 * 5
        data = data_of(number, *PAYLOADS[since:count])
        folder.put(number, data, f"{len(data) - 64}")
        if count % 5 == 0:
            folder.index(number, f"{len(data) - 64}\nCOMPLETED")
        if chooser.random() < 0.6:
            tail.step(count)
        if chooser.random() < 0.4:
            tail.close()
            feed.close()
            feed = FolderFeed(tmp_path / "feed")
            tail = tail_of(folder, feed)
    tail.step(99)
    origins = [change.origin for change in feed.read("n1", 0, 1000)]
    assert len(origins) == CHANGES
    assert origins == sorted(origins)


def test_a_segment_without_cdc_data_may_vanish(folder: Folder, tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT), None)
    tail = tail_of(folder, feed)
    tail.step(1)
    (folder.path / f"CommitLog-7-{SEGMENT}.log").unlink()
    folder.put(SEGMENT + 3, data_of(SEGMENT + 3, PAYLOADS[0]), "9999")
    assert tail.step(2) == 1
    assert tail.counters["segments without cdc data, gone unread"] == 2
    assert tail.counters["gaps"] == 0


def test_a_segment_without_cdc_data_that_was_read_is_not_missed(folder: Folder, tmp_path: Path) -> None:
    """Read to its end when it vanished, then capture is killed before it has seen the next one."""
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, segment([[], []], number=SEGMENT), None)
    killed = tail_of(folder, feed)
    killed.step(1_000_000)
    (folder.path / f"CommitLog-7-{SEGMENT}.log").unlink()
    killed.step(2_000_000)
    killed.close()
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1, PAYLOADS[0]), "9999")
    again = tail_of(folder, feed)
    assert (again.step(3_000_000), again.counters["gaps"]) == (1, 0)


@pytest.mark.parametrize(("blocks_writes", "gaps"), [(True, 0), (False, 1)])
def test_what_vanishes_while_capture_is_down(
    folder: Folder, tmp_path: Path, blocks_writes: bool, gaps: int
) -> None:
    """An unread segment is gone after a restart: without CDC data if the node never drops any, else unknown."""
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT), None)
    first = tail_of(folder, feed, blocks_writes=blocks_writes)
    first.step(1)
    assert first.head.source.segment in (0, SEGMENT)
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1), None)
    folder.put(SEGMENT + 2, data_of(SEGMENT + 2, PAYLOADS[0]), "9999")
    (folder.path / f"CommitLog-7-{SEGMENT}.log").unlink()
    first.step(2)
    first.close()
    assert first.head.source.segment == SEGMENT + 2
    position = first.head.position
    for path in folder.path.iterdir():
        path.unlink()
    feed.append("n1", [], source=Source(SEGMENT + 5, 0), clock=0)  # it had come to 5, and read nothing of it
    folder.put(SEGMENT + 6, data_of(SEGMENT + 6, PAYLOADS[0]), "9999")
    second = tail_of(folder, feed, blocks_writes=blocks_writes)
    second.step(3)
    kinds = [change.kind for change in feed.read("n1", position, 10)]
    assert kinds.count(Kind.GAP) == gaps
    assert kinds[-1] == Kind.ROW


@pytest.mark.parametrize("stands", [True, False])
def test_missing_ids_are_a_gap_where_the_node_may_have_dropped_segments(
    folder: Folder, tmp_path: Path, stands: bool
) -> None:
    """A full node drops the oldest first: while the segment before the hole stands, nothing in it was dropped."""
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT, PAYLOADS[0]), "9999")
    tail = tail_of(folder, feed, blocks_writes=False)
    tail.step(1)
    if not stands:
        (folder.path / f"CommitLog-7-{SEGMENT}.log").unlink()
    folder.put(SEGMENT + 3, data_of(SEGMENT + 3, PAYLOADS[0]), "9999")
    tail.step(2)
    kinds = [change.kind for change in feed.read("n1", 0, 10)]
    assert kinds == [Kind.ROW, *([] if stands else [Kind.GAP]), Kind.ROW]


def test_damage_stops_the_tail_before_it_and_stays(folder: Folder, tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path / "feed")
    data = bytearray(data_of(SEGMENT, PAYLOADS[0], PAYLOADS[0]))
    data[-64 - 20] ^= 4
    folder.put(SEGMENT, bytes(data), "9999")
    tail = tail_of(folder, feed)
    for _ in range(2):
        with pytest.raises(DamagedSegmentError, match="checksum"):
            tail.step(1)
    assert len(folder.names()) == 2, "nothing of a damaged segment is deleted"
    tail.close()
    for path in folder.path.iterdir():  # an operator gives it up
        path.unlink()
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1, PAYLOADS[0]), "9999")
    tail_of(folder, feed).step(2)
    kinds = [change.kind for change in feed.read("n1", 0, 10)]
    assert kinds == [Kind.ROW, Kind.GAP, Kind.ROW], "what is right before the damage came, once"


def test_under_periodic_sync_the_clock_waits_for_what_is_visible(folder: Folder, tmp_path: Path) -> None:
    """A write can be acknowledged before it is durable: the clock must not pass it before it is read."""
    feed = FolderFeed(tmp_path / "feed")
    one = data_of(SEGMENT, PAYLOADS[0])
    two = data_of(SEGMENT, PAYLOADS[0], PAYLOADS[1])
    durable = str(len(one) - 64)
    folder.put(SEGMENT, one, durable)
    tail = tail_of(folder, feed, acknowledges=False)
    tail.step(1_000_000)
    tail.step(2_000_000)
    assert tail.head.clock == 2_000_000
    log = folder.path / f"CommitLog-7-{SEGMENT}.log"
    with log.open("r+b") as file:  # in place, as the node's memory map does
        file.write(two[: len(two) - 64])
    assert tail.step(3_000_000) == 0
    assert tail.step(4_000_000) == 0
    assert tail.head.clock == 2_000_000, "what is visible at 3 and 4 is not consumed"
    folder.index(SEGMENT, str(len(two) - 64))
    assert tail.step(5_000_000) >= 1
    assert tail.head.clock >= 3_000_000


def test_a_folder_without_segments_waits(folder: Folder, tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path / "feed")
    tail = tail_of(folder, feed)
    assert tail.step(1) == 0
    folder.put(SEGMENT, header() + bytes(100), None)
    assert tail.step(2) == 0


def test_the_clock_stands_while_what_was_begun_is_gone(folder: Folder, tmp_path: Path) -> None:
    """The node may still write to it, unseen; the next segment tells, by a gap."""
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT, PAYLOADS[0]), "9999")
    first = tail_of(folder, feed)
    first.step(1_000_000)
    first.close()
    clock = first.head.clock
    for path in folder.path.iterdir():
        path.unlink()
    second = tail_of(folder, feed)
    second.step(9_000_000)
    assert (second.head.clock, second.head.source) == (clock, first.head.source)
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1, PAYLOADS[0]), "9999")
    second.step(10_000_000)
    assert second.head.clock == 10_000_000
    assert second.counters["gaps"] == 1


def test_the_rest_of_a_node_that_left_is_taken_and_its_stream_ends(folder: Folder, tmp_path: Path) -> None:
    """Nobody moves the index any more: the log is read to its end, and no watermark waits for the stream."""
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT, *PAYLOADS[:7]), "30\nCOMPLETED")
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1, *PAYLOADS[7:]), "0")
    tail = tail_of(folder, feed)
    tail.step(5)
    assert tail.head.position < CHANGES
    tail.finish()
    assert (tail.head.position, tail.head.clock) == (CHANGES, ENDED)
    assert folder.names() == []
    with pytest.raises(HistoryError, match="has ended"):
        tail_of(folder, feed)


def test_a_stream_is_not_ended_from_another_folder(folder: Folder, tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path / "feed")
    folder.put(SEGMENT, data_of(SEGMENT, PAYLOADS[0]), "9999")
    tail = tail_of(folder, feed)
    tail.step(1)
    tail.close()
    empty = tail_of(Folder(tmp_path / "other"), feed)
    with pytest.raises(HistoryError, match="not in this folder"):
        empty.finish()
    assert feed.head("n1").clock < ENDED


@pytest.mark.parametrize("synced", range(4))
def test_what_eager_mode_loses_when_the_machine_crashes_is_said(
    folder: Folder, tmp_path: Path, synced: int
) -> None:
    """The window of eager mode: what was read behind the last fsync. A crash takes it back; a gap says so."""
    feed = FolderFeed(tmp_path / "feed")
    whole = data_of(SEGMENT, *PAYLOADS[:3])
    durable = data_of(SEGMENT, *PAYLOADS[:synced])
    folder.put(SEGMENT, whole, str(len(durable) - 64) if synced else None)
    eager = tail_of(folder, feed, eager=True)
    eager.step(1)
    before = eager.head.position
    ahead = eager.counters[BEFORE_DURABLE]
    assert before == len(decode(whole))
    assert ahead == before - len(decode(durable)), "the window is counted while it stands"
    eager.close()
    folder.put(
        SEGMENT, durable[:-64] + bytes(len(whole) - len(durable) + 64), None
    )  # cut back to the last fsync
    folder.put(SEGMENT + 1, data_of(SEGMENT + 1, PAYLOADS[4]), "9999")
    again = tail_of(folder, feed, eager=True)
    again.step(2)
    kinds = [change.kind for change in feed.read("n1", before, 100)]
    assert kinds.count(Kind.GAP) == again.counters["gaps"] == (ahead > 0)
    assert len(kinds) - kinds.count(Kind.GAP) == len(
        decode(data_of(SEGMENT + 1, PAYLOADS[4]), number=SEGMENT + 1)
    )


@pytest.mark.parametrize("eager", [False, True])
def test_a_marker_that_is_just_being_written_is_no_damage(
    folder: Folder, tmp_path: Path, eager: bool
) -> None:
    """A node writes the next offset first, its checksum then: whoever reads between sees half a marker."""
    feed = FolderFeed(tmp_path / "feed")
    one, two = data_of(SEGMENT, PAYLOADS[0]), data_of(SEGMENT, *PAYLOADS[:2])
    at = len(one) - 64
    torn = two[: at + 4] + bytes(4) + two[at + 8 :]
    folder.put(SEGMENT, torn, str(at))
    tail = tail_of(folder, feed, eager=eager)
    tail.step(1)
    before = tail.head.position
    assert before == len(decode(one))
    folder.put(SEGMENT, two, str(len(two) - 64))
    tail.step(2)
    assert tail.head.position == len(decode(two)) > before
    tail.close()
    folder.put(SEGMENT, torn, str(len(two) - 64))
    again = tail_of(folder, FolderFeed(tmp_path / "feed2"), eager=eager)
    with pytest.raises(DamagedSegmentError, match="marker"):
        again.step(3)
