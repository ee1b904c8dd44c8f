"""The folder feed: dense durable positions, torn writes, holds, one producer."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from cvs.capture.changes import Cell, Change, Column, ColumnKind, Kind, Liveness, TableDefinition, split_key
from cvs.capture.feed import Feed, Head, Source
from cvs.capture.folder import FolderFeed
from cvs.errors import HistoryError, SpecificationError

TABLE = TableDefinition(
    id="6c6f2a80-0000-11ef-8000-000000000001",
    keyspace="shop",
    name="orders",
    columns=(
        Column(name="b", type="int", kind=ColumnKind.PARTITION_KEY, position=1),
        Column(name="a", type="text", kind=ColumnKind.PARTITION_KEY, position=0),
        Column(name="v", type="int", kind=ColumnKind.REGULAR),
    ),
)


def change(number: int) -> Change:
    cell = Cell("v", number.to_bytes(4, "big"), 1000 + number)
    return Change(Kind.ROW, "ref", b"k", (b"c", None), Liveness(1000), None, (cell,), origin=(7, number, 0))


def test_what_is_appended_is_read_back_from_any_position(tmp_path: Path) -> None:
    feed: Feed = FolderFeed(tmp_path, segment_bytes=200)
    for start in range(0, 30, 3):
        head = feed.append(
            "n1", [change(n) for n in range(start, start + 3)], source=Source(7, start), clock=start
        )
    assert head == Head(30, 27, Source(7, 27))
    reader = FolderFeed(tmp_path)
    assert reader.streams() == ["n1"]
    assert reader.head("n1") == head
    assert len(list((tmp_path / "streams" / "n1").glob("*.feed"))) > 3
    for start in (0, 1, 29, 13, 30):
        assert reader.read("n1", start, 5) == [change(n) for n in range(start, min(30, start + 5))]


def test_a_stream_whose_producer_makes_ready_is_none_yet(tmp_path: Path) -> None:
    """Its folder and an empty head are there while what it holds is made durable: who asked then ended."""
    producer, reader = FolderFeed(tmp_path), FolderFeed(tmp_path)
    producer.append("n1", [change(0)], source=Source(), clock=1)
    for name, files in (("n2", ()), ("n3", ("head",))):
        folder = tmp_path / "streams" / name
        folder.mkdir()
        for file in files:
            (folder / file).touch()
    assert {stream: reader.head(stream).position for stream in reader.streams()} == {"n1": 1}
    producer.append("n3", [], source=Source(), clock=1)
    assert reader.streams() == ["n1", "n3"]


def test_a_heartbeat_moves_the_clock_but_no_position(tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path)
    feed.append("n1", [change(0)], source=Source(7, 50), clock=10)
    assert feed.append("n1", [], source=Source(7, 60), clock=20) == Head(1, 20, Source(7, 60))
    feed.close()
    again = FolderFeed(tmp_path)
    assert again.append("n1", [], source=Source(7, 60), clock=5).clock == 20


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_append_is_cut_and_whole_ones_are_kept(tmp_path: Path, seed: int) -> None:
    """A producer killed at any byte of its last write: the next one goes on after the last whole frame."""
    feed = FolderFeed(tmp_path)
    feed.append("n1", [change(0), change(1)], source=Source(7, 1), clock=1)
    head = (tmp_path / "streams" / "n1" / "head").read_bytes()
    path = tmp_path / "streams" / "n1" / f"{0:020d}.feed"
    before = path.stat().st_size
    feed.append("n1", [change(2)], source=Source(7, 2), clock=2)
    feed.close()
    (tmp_path / "streams" / "n1" / "head").write_bytes(head)  # the crash came before the head moved
    cut = random.Random(seed).randrange(before, path.stat().st_size + 1)
    whole = cut == path.stat().st_size
    os.truncate(path, cut)
    assert FolderFeed(tmp_path).head("n1").position == 2
    again = FolderFeed(tmp_path)
    again.append("n1", [change(9)], source=Source(7, 9), clock=3)
    expected = [change(0), change(1), *([change(2)] if whole else []), change(9)]
    assert again.read("n1", 0, 10) == expected


def test_damage_below_the_durable_end_is_never_read_nor_repaired(tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path)
    feed.append("n1", [change(0)], source=Source(7, 1), clock=1)
    feed.append("n1", [change(1)], source=Source(7, 2), clock=1)
    feed.close()
    path = tmp_path / "streams" / "n1" / f"{0:020d}.feed"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(HistoryError, match="damaged frame"):
        FolderFeed(tmp_path).read("n1", 0, 10)
    with pytest.raises(HistoryError, match="lost frames"):
        FolderFeed(tmp_path).append("n1", [change(2)], source=Source(7, 3), clock=1)


def test_nothing_held_is_collected(tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path, segment_bytes=1)
    for n in range(6):
        feed.append("n1", [change(n)], source=Source(7, n), clock=n)
    assert feed.collect() == 0, "without a consumer nothing may go"
    feed.hold("orders", {"n1": 4})
    feed.hold("customers", {"n1": 2})
    assert feed.collect() > 0
    assert feed.first("n1") == 2
    assert feed.read("n1", 2, 9) == [change(n) for n in range(2, 6)]
    with pytest.raises(HistoryError, match="no longer kept"):
        feed.read("n1", 1, 1)
    feed.hold("customers", {"n1": 1})
    feed.hold("customers", {"n1": 6})
    feed.collect()
    assert feed.first("n1") == 4


def test_definitions_are_named_by_their_content(tmp_path: Path) -> None:
    feed = FolderFeed(tmp_path)
    reference = feed.define(TABLE)
    assert reference == feed.define(TABLE)
    assert FolderFeed(tmp_path).definition(reference) == TABLE
    with pytest.raises(HistoryError, match="no definition"):
        feed.definition("other")


def test_a_stream_has_one_producer(tmp_path: Path) -> None:
    """The lock belongs to the open file, so a second opener of the same process is refused like any other."""
    feed = FolderFeed(tmp_path)
    feed.append("n1", [], source=Source(), clock=0)
    with pytest.raises(SpecificationError, match="another process"):
        FolderFeed(tmp_path).append("n1", [], source=Source(), clock=0)
    feed.close()
    assert FolderFeed(tmp_path).append("n1", [], source=Source(), clock=3).clock == 3


def test_a_partition_key_of_several_columns_splits() -> None:
    assert [c.name for c in TABLE.partition_key] == ["a", "b"]
    assert split_key(TABLE, b"\x00\x02hi\x00\x00\x04\x00\x00\x00\x05\x00") == (b"hi", b"\x00\x00\x00\x05")
    assert change(5).write_time == 1005


def test_one_definition_stored_by_many_at_once(tmp_path: Path) -> None:
    """Captures of several nodes meet the same new table at the same moment."""
    for number in range(20):
        table = structs.replace(TABLE, name=f"orders{number}")
        start = threading.Barrier(4)

        def define(table: TableDefinition = table, start: threading.Barrier = start) -> str:
            feed = FolderFeed(tmp_path)
            start.wait()
            return feed.define(table)

        with ThreadPoolExecutor(4) as pool:
            (reference,) = {future.result() for future in [pool.submit(define) for _ in range(4)]}
        assert FolderFeed(tmp_path).definition(reference) == table
    assert not list(tmp_path.glob("definitions/.*"))
