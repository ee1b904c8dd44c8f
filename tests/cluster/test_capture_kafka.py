"""The Kafka feed on a real broker keeps the promises of the folder feed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cvs.capture.changes import Cell, Change, Column, ColumnKind, Kind, TableDefinition, encode_changes
from cvs.capture.feed import Feed, Head, Source
from cvs.capture.folder import FolderFeed
from cvs.capture.kafka import KafkaFeed
from cvs.capture.messages import NOTHING
from cvs.capture.outbox import Outbox
from cvs.capture.topics import TopicsFeed
from cvs.errors import HistoryError, SpecificationError
from tests.cluster.broker import broker

pytestmark = pytest.mark.cluster

SECONDS_MAX = 30
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


def seen(reader: Feed, stream: str, head: Head) -> bool:
    """Wait until a reader sees an end: a transaction stands for its producer before readers are shown it."""
    deadline = time.monotonic() + SECONDS_MAX
    while (found := _head_of(reader, stream)) != head:
        assert time.monotonic() < deadline, f"{found} is seen, not {head}"
        time.sleep(0.01)
    return True


def _head_of(reader: Feed, stream: str) -> Head | None:
    try:
        return reader.head(stream)
    except HistoryError:
        return None


def change(number: int) -> Change:
    return Change(Kind.ROW, "ref", b"k", cells=(Cell("v", b"x", number),), origin=(7, number, 0))


def test_positions_are_dense_and_read_again(feeds: tuple[Feed, Feed]) -> None:
    producer, reader = feeds
    for start in range(0, 30, 3):
        head = producer.append(
            "n1", [change(n) for n in range(start, start + 3)], source=Source(7, start), clock=start
        )
    assert head == Head(30, 27, Source(7, 27))
    assert seen(reader, "n1", head)
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
        head = producer.append("n1", [change(n)], source=Source(7, n), clock=n)
    assert seen(reader, "n1", head)
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
    first._send("killed.n1", [(None, encode_changes([change(1)]))])  # killed before the head
    reader = KafkaFeed(bootstrap, "killed")
    assert seen(reader, "n1", Head(1, 1, Source(7, 1))), "the next producer goes on before the lost head"
    assert reader.read("n1", 0, 10) == [change(0)]
    second = KafkaFeed(bootstrap, "killed")
    assert seen(reader, "n1", second.append("n1", [change(1)], source=Source(7, 2), clock=2))
    assert reader.head("n1").position == 3
    assert reader.read("n1", 0, 10) == [change(0), change(1), change(1)]
    for feed in (first, second, reader):
        feed.close()


def test_a_second_producer_of_a_stream_fences_the_first(bootstrap: str) -> None:
    """Two captures of one node: the later goes on, the other ends; nothing either wrote moves a position."""
    first, reader = KafkaFeed(bootstrap, "fenced"), KafkaFeed(bootstrap, "fenced")
    first.append("n1", [change(0)], source=Source(7, 1), clock=1)
    second = KafkaFeed(bootstrap, "fenced")
    second.append("n1", [change(1)], source=Source(7, 2), clock=2)
    with pytest.raises(SpecificationError, match="another process"):
        first.append("n1", [change(9)], source=Source(7, 1), clock=9)
    assert seen(reader, "n1", Head(2, 2, Source(7, 2)))
    last = second.append("n1", [change(2)], source=Source(7, 3), clock=3)
    assert seen(reader, "n1", last), "a fenced head is not seen"
    assert reader.read("n1", 0, 10) == [change(0), change(1), change(9), change(2)]
    for feed in (first, second, reader):
        feed.close()


def send(
    bootstrap: str, topic: str, messages: list[dict[str, Any] | None], *, transaction: bool = False
) -> None:
    """Fill a topic as an application does."""
    settings = {"bootstrap.servers": bootstrap} | ({"transactional.id": "app"} if transaction else {})
    producer = Producer(settings)
    if transaction:
        producer.init_transactions(30)
        producer.begin_transaction()
    for message in messages:
        producer.produce(topic, None if message is None else json.dumps(message).encode(), partition=0)
    producer.commit_transaction(30) if transaction else producer.flush(30)


def outbox(bootstrap: str, topic: str) -> TopicsFeed:
    return TopicsFeed(bootstrap, lambda name: name == topic, {"shop.orders": TABLE}, Outbox)


def write(number: int, at: int) -> dict[str, Any]:
    return {"table": "shop.orders", "time": at, "op": "insert", "key": {"id": number}}


def wait_for_marker(feed: TopicsFeed, position: int) -> None:
    """The end of a transaction is written after the answer to who commits it."""
    end = time.monotonic() + 30
    while feed.head("app.outbox:0").position < position:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_outbox_is_a_feed_with_a_change_a_position(bootstrap: str) -> None:
    """Heartbeats, Kafka tombstones and the markers of a transaction stand at positions too, and change nothing."""
    KafkaFeed(bootstrap)._make("app.outbox", compacted=False)
    send(bootstrap, "app.outbox", [write(1, 10), {"clock": 15}, None])
    send(bootstrap, "app.outbox", [write(2, 20)], transaction=True)
    feed = outbox(bootstrap, "app.outbox")
    wait_for_marker(feed, 5)
    assert feed.head("app.outbox:0") == Head(5, 20, Source(0, 5)), (
        "the marker says no clock: what is before it does"
    )
    send(bootstrap, "app.outbox", [write(3, 30)])
    assert feed.streams() == ["app.outbox:0"]
    assert feed.head("app.outbox:0") == Head(6, 30, Source(0, 6))
    changes = feed.read("app.outbox:0", 0, 100)
    keys = [int.from_bytes(c.key, "big") if c != NOTHING else 0 for c in changes]
    assert keys == [1, 0, 0, 2, 0, 3]
    assert feed.definition(changes[0].definition) == TABLE
    for start in range(6):
        assert feed.read("app.outbox:0", start, 2) == changes[start : start + 2]
    send(bootstrap, "app.outbox", [write(4, 40)], transaction=True)
    wait_for_marker(feed, 8)
    assert feed.head("app.outbox:0").clock == 40
    assert feed.read("app.outbox:0", 6, 10)[1:] == [NOTHING], "also where a marker is the last thing"
    with pytest.raises(SpecificationError, match="filled by others"):
        feed.append("app.outbox:0", [], source=Source(), clock=0)
    feed.close()


def test_a_message_that_cannot_be_read_says_where_it_stands(bootstrap: str) -> None:
    KafkaFeed(bootstrap)._make("bad.outbox", compacted=False)
    send(bootstrap, "bad.outbox", [write(1, 10), {"table": "shop.none", "time": 1, "op": "insert"}])
    feed = outbox(bootstrap, "bad.outbox")
    with pytest.raises(HistoryError, match=r"no table shop.none[\s\S]*bad.outbox:0, offset 1"):
        feed.read("bad.outbox:0", 0, 10)
    KafkaFeed(bootstrap)._make("compacted.outbox", compacted=True)
    with pytest.raises(SpecificationError, match="compacted"):
        outbox(bootstrap, "compacted.outbox").streams()
    feed.close()
