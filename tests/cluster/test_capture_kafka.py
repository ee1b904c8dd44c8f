"""The Kafka feed on a real broker keeps the promises of the folder feed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cvs.capture.changes import Cell, Change, Column, ColumnKind, Kind, TableDefinition
from cvs.capture.feed import Feed, Head, Source
from cvs.capture.folder import FolderFeed
from cvs.capture.kafka import KafkaFeed
from cvs.errors import HistoryError
from tests.cluster.broker import broker

pytestmark = pytest.mark.cluster

TABLE = TableDefinition(
    id="6c6f2a80-0000-11ef-8000-000000000001",
    keyspace="shop",
    name="orders",
    columns=(Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),),
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(params=["folder", "kafka"])
def feeds(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Feed, Feed]]:
    """A feed opened twice: by its producer and by a reader."""
    if request.param == "folder":
        yield FolderFeed(tmp_path, segment_bytes=100), FolderFeed(tmp_path)
        return
    bootstrap, topic = request.getfixturevalue("bootstrap"), f"t-{tmp_path.name[-30:].strip('_[]')}"
    producer, reader = KafkaFeed(bootstrap, topic), KafkaFeed(bootstrap, topic)
    yield producer, reader
    producer.close()
    reader.close()


def change(number: int) -> Change:
    return Change(Kind.ROW, "ref", b"k", cells=(Cell("v", b"x", number),), origin=(7, number, 0))


def test_positions_are_dense_and_read_again(feeds: tuple[Feed, Feed]) -> None:
    producer, reader = feeds
    for start in range(0, 30, 3):
        head = producer.append(
            "n1", [change(n) for n in range(start, start + 3)], source=Source(7, start), clock=start
        )
    assert head == reader.head("n1") == Head(30, 27, Source(7, 27))
    assert reader.streams() == ["n1"]
    for start in (0, 5, 6, 29, 30, 0):
        assert reader.read("n1", start, 4) == [change(n) for n in range(start, min(30, start + 4))]


def test_heartbeats_definitions_and_a_second_producer(feeds: tuple[Feed, Feed]) -> None:
    producer, reader = feeds
    producer.append("n1", [change(0)], source=Source(7, 1), clock=5)
    assert producer.append("n1", [], source=Source(7, 2), clock=9) == Head(1, 9, Source(7, 2))
    reference = producer.define(TABLE)
    assert reader.definition(reference) == TABLE
    with pytest.raises(HistoryError, match="no definition"):
        reader.definition("other")
    with pytest.raises(HistoryError, match=r"no stream|no topic"):
        reader.head("other")


def test_what_is_held_stays_and_the_rest_goes(feeds: tuple[Feed, Feed]) -> None:
    producer, reader = feeds
    for n in range(10):
        producer.append("n1", [change(n)], source=Source(7, n), clock=n)
    producer.collect()
    assert reader.first("n1") == 0
    reader.hold("a", {"n1": 6})
    reader.hold("b", {"n1": 4})
    producer.collect()
    assert 0 < reader.first("n1") <= 4
    assert reader.read("n1", 4, 100) == [change(n) for n in range(4, 10)]
    with pytest.raises(HistoryError, match="no longer kept"):
        reader.read("n1", 0, 1)


def test_what_a_killed_producer_appended_without_a_head_is_not_seen_until_its_successor(
    bootstrap: str,
) -> None:
    first = KafkaFeed(bootstrap, "killed")
    first.append("n1", [change(0)], source=Source(7, 1), clock=1)
    first._send("killed.n1", [(None, b"\x91" + _body(change(1)))])  # killed before the head
    reader = KafkaFeed(bootstrap, "killed")
    assert reader.read("n1", 0, 10) == [change(0)]
    assert reader.head("n1").source == Source(7, 1), "the next producer goes on before the lost head"
    second = KafkaFeed(bootstrap, "killed")
    assert second.append("n1", [change(1)], source=Source(7, 2), clock=2).position == 3
    assert reader.read("n1", 0, 10) == [change(0), change(1), change(1)]
    for feed in (first, second, reader):
        feed.close()


def _body(found: Change) -> bytes:
    from cvs.capture.changes import encode_changes

    return encode_changes([found])[1:]
