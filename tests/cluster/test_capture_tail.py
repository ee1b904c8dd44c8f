"""The tail on a real node: nothing is lost over kills of capture and of the node, DDL, TRUNCATE and deletion."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from cassandra import WriteFailure
from cassandra.cluster import Cluster, Session

from cvs.capture.changes import Change, Kind
from cvs.capture.folder import FolderFeed
from cvs.capture.node import NodeConnection
from cvs.capture.runner import Capture
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.embedded.processes import end_with_owner
from cvs.errors import HistoryError

pytestmark = pytest.mark.cluster

SECONDS_MAX = 60
SMALL = {"commitlog_segment_size": "1MiB", "cdc_total_space": "32MiB"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node of our own: its segments are deleted, and it is killed."""
    with EmbeddedCluster(size=1, yaml=SMALL) as cluster:
        yield cluster.nodes[0]


@pytest.fixture
def session(node: Node) -> Iterator[Session]:
    with Cluster([node.address], port=node.native_port) as cluster:
        found = cluster.connect()
        found.execute(
            "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        yield found


Opens = Callable[[FolderFeed], Capture]


@pytest.fixture
def capture_of(node: Node) -> Iterator[Opens]:
    """Captures that end with the test, however it ends: a claim of the folder would fail all that follow."""
    with ExitStack() as opened:

        def capture_of(feed: FolderFeed) -> Capture:
            capture = Capture(NodeConnection(node.address, node.native_port), feed)
            opened.callback(capture.close)
            return capture

        yield capture_of


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


def changes_of(feed: FolderFeed, table: str) -> list[Change]:
    (stream,) = feed.streams()
    found = feed.read(stream, 0, 10_000_000)
    return [c for c in found if c.definition and feed.definition(c.definition).name == table]


def number(data: bytes | None) -> int:
    assert data is not None
    return int.from_bytes(data, "big", signed=True)


def test_kill_minus_9_of_capture_loses_nothing_and_segments_go(
    node: Node, session: Session, tmp_path: Path, capture_of: Opens
) -> None:
    """Writers run; capture is killed again and again at any moment; every write is in the feed, in order."""
    session.execute("CREATE TABLE shop.kills (id int PRIMARY KEY, body text) WITH cdc = true")
    insert = session.prepare("INSERT INTO shop.kills (id, body) VALUES (?, ?)")
    written: list[int] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            session.execute(insert, (len(written), "x" * 2000))
            written.append(len(written))

    writer = threading.Thread(target=write)
    writer.start()
    command = [sys.executable, "-m", "cvs", "capture", "--feed", str(tmp_path / "feed")]
    command += ["--node", node.address, "--port", str(node.native_port)]
    feed = FolderFeed(tmp_path / "feed")

    def position() -> int:
        try:
            return sum(feed.head(stream).position for stream in feed.streams())
        except HistoryError:  # its first head is just being written
            return 0

    try:
        for pause in (0.0, 0.3, 1.0, 0.1):
            before = position()
            with subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=end_with_owner) as process:
                try:
                    wait(lambda: position() > before, "capture to come to work")  # noqa: B023
                    time.sleep(pause)
                finally:
                    process.send_signal(signal.SIGKILL)
    finally:
        stop.set()
        writer.join()
    capture = capture_of(feed)
    wait(lambda: capture.catch_up() == 0 and len(changes_of(feed, "kills")) >= len(written), "all writes")
    ids = [number(change.key) for change in changes_of(feed, "kills") if change.kind == Kind.ROW]
    assert list(dict.fromkeys(ids)) == written, "order of first appearance is the order of the log"
    segments = sorted(path.name for path in node.cdc_raw.glob("*.log"))
    assert capture.tail.head.source.segment == int(segments[0].split("-")[-1].removesuffix(".log"))
    assert len(segments) <= 3, "consumed segments are deleted"
    feed.close()


def test_ddl_and_truncate_come_in_log_order(
    node: Node, session: Session, tmp_path: Path, capture_of: Opens
) -> None:
    feed = FolderFeed(tmp_path)
    capture = capture_of(feed)
    capture.catch_up()
    for statement in (
        "CREATE TABLE shop.ddl (id int PRIMARY KEY, a int) WITH cdc = true",
        "INSERT INTO shop.ddl (id, a) VALUES (1, 1)",
        "ALTER TABLE shop.ddl ADD b map<text, int>",
        "INSERT INTO shop.ddl (id, a, b) VALUES (2, 2, {'k': 2})",
        "ALTER TABLE shop.ddl DROP a",
        "INSERT INTO shop.ddl (id, b) VALUES (3, {'k': 3})",
        "TRUNCATE shop.ddl",
        "ALTER TABLE shop.ddl WITH cdc = false",
        "INSERT INTO shop.ddl (id) VALUES (4)",
        "ALTER TABLE shop.ddl WITH cdc = true",
        "INSERT INTO shop.ddl (id) VALUES (5)",
        "DROP TABLE shop.ddl",
        "CREATE TABLE shop.ddl (id int PRIMARY KEY, a int) WITH cdc = true",
        "INSERT INTO shop.ddl (id, a) VALUES (6, 6)",
    ):
        session.execute(statement)

    def seen() -> list[Change]:
        capture.catch_up()
        return changes_of(feed, "ddl")

    wait(lambda: any(c.kind == Kind.ROW and number(c.key) == 6 for c in seen()), "the last insert")
    story = [(Kind(c.kind).name, number(c.key) if c.kind == Kind.ROW else 0) for c in seen()]
    assert story == [
        ("SCHEMA", 0),
        ("ROW", 1),
        ("SCHEMA", 0),
        ("ROW", 2),
        ("SCHEMA", 0),
        ("ROW", 3),
        ("TRUNCATION", 0),
        ("SCHEMA", 0),
        ("SCHEMA", 0),
        ("ROW", 5),
        ("DROPPED", 0),
        ("SCHEMA", 0),
        ("ROW", 6),
    ]
    rows = [c for c in seen() if c.kind == Kind.ROW]
    assert [sorted(cell.column for cell in row.cells) for row in rows] == [
        ["a"],
        ["a", "b"],
        ["b"],
        [],
        ["a"],
    ]
    assert feed.definition(rows[0].definition).id != feed.definition(rows[-1].definition).id
    assert capture.status().counters["updates of tables without cdc"] >= 1
    feed.close()


def test_kill_minus_9_of_the_node_loses_no_acknowledged_write(
    node: Node, session: Session, tmp_path: Path, capture_of: Opens
) -> None:
    session.execute("CREATE TABLE shop.crash (id int PRIMARY KEY) WITH cdc = true")
    feed = FolderFeed(tmp_path)
    capture = capture_of(feed)
    for n in range(120):
        session.execute("INSERT INTO shop.crash (id) VALUES (%s)", (n,))
        if n == 40:
            capture.catch_up()
    node.kill()
    capture.catch_up()
    node.restart()
    with Cluster([node.address], port=node.native_port) as cluster:
        again = cluster.connect()
        for n in range(120, 160):
            again.execute("INSERT INTO shop.crash (id) VALUES (%s)", (n,))

    def ids() -> list[int]:
        capture.catch_up()
        return [number(c.key) for c in changes_of(feed, "crash") if c.kind == Kind.ROW]

    wait(lambda: 159 in ids(), "the last insert")
    assert list(dict.fromkeys(ids())) == list(range(160))
    assert capture.status().counters.get("gaps", 0) == 0
    feed.close()


def test_the_clock_moves_while_nothing_is_written_and_never_ahead(
    node: Node, session: Session, tmp_path: Path, capture_of: Opens
) -> None:
    session.execute("CREATE TABLE shop.clock (id int PRIMARY KEY) WITH cdc = true")
    feed = FolderFeed(tmp_path)
    capture = capture_of(feed)
    stop = threading.Event()
    runner = threading.Thread(target=capture.run, args=(stop,))
    runner.start()
    (stream,) = feed.streams()
    reader = FolderFeed(tmp_path)
    try:
        for n in range(25):
            session.execute("INSERT INTO shop.clock (id) VALUES (%s)", (n,))
            acknowledged = time.time_ns() // 1000
            wait(lambda: reader.head(stream).clock > acknowledged, "the clock to pass a write")  # noqa: B023
            assert number(changes_of(reader, "clock")[-1].key) == n, "it passed a write that is not there"
        before = reader.head(stream).clock
        wait(lambda: reader.head(stream).clock > before, "the clock of an idle node")
    finally:
        stop.set()
        runner.join()
    feed.close()


def test_a_vanished_segment_is_a_gap_that_is_said(
    node: Node, session: Session, tmp_path: Path, capture_of: Opens
) -> None:
    """Somebody deletes what capture had begun to read: the stream says so, views can be rebuilt."""
    session.execute("CREATE TABLE shop.gap (id int PRIMARY KEY, body text) WITH cdc = true")
    insert = session.prepare("INSERT INTO shop.gap (id, body) VALUES (?, ?)")
    session.execute(insert, (0, "first"))
    feed = FolderFeed(tmp_path)
    first = capture_of(feed)
    wait(lambda: first.catch_up() == 0 and len(changes_of(feed, "gap")) > 0, "the first insert")
    segment = first.tail.head.source.segment
    first.close()
    feed.close()
    for n in range(1, 200):
        session.execute(insert, (n, "x" * 15_000))
    for path in node.cdc_raw.glob(f"*-{segment}*"):
        os.unlink(path)  # noqa: PTH108 -- because this is what an operator's rm does
    again = FolderFeed(tmp_path)
    second = capture_of(again)
    second.catch_up()
    (stream,) = again.streams()
    kinds = [c.kind for c in again.read(stream, 0, 10_000)]
    assert kinds.count(Kind.GAP) == 1
    assert second.status().counters["gaps"] == 1
    again.close()


def write_until(session: Session, condition: Callable[[], bool]) -> list[int]:
    """Write large rows until something holds; returns the ids of those acknowledged, the last one first."""
    insert = session.prepare("INSERT INTO shop.filled (id, body) VALUES (?, ?)")
    acknowledged: list[int] = []
    while not condition():
        assert len(acknowledged) < 1000, "it never held"
        session.execute(insert, (len(acknowledged), "x" * 200_000))
        acknowledged.append(len(acknowledged))
    return acknowledged


def test_a_full_folder_is_said_before_writes_are_refused_and_emptied_without_loss(
    node: Node, session: Session, tmp_path: Path, capture_of: Opens
) -> None:
    """The policy of `cdc_block_writes: true`: alarm, then the node refuses; capture drains it, nothing is lost."""
    session.execute("CREATE TABLE shop.filled (id int PRIMARY KEY, body text) WITH cdc = true")
    feed = FolderFeed(tmp_path)
    capture = capture_of(feed)
    capture.catch_up()
    written = write_until(session, lambda: bool(capture.status().alarm))
    assert "refuses writes" in capture.status().alarm
    with pytest.raises(WriteFailure):
        write_until(session, lambda: False)

    def seen() -> set[int]:
        capture.catch_up()
        return {number(c.key) for c in changes_of(feed, "filled") if c.kind == Kind.ROW}

    wait(lambda: seen() >= set(written), "every acknowledged write")
    assert capture.status().alarm == ""
    wait(lambda: writes_again(session), "the node to take writes again")
    assert capture.status().counters.get("gaps", 0) == 0
    feed.close()


def writes_again(session: Session) -> bool:
    try:
        session.execute("INSERT INTO shop.filled (id) VALUES (-1)")
    except WriteFailure:
        return False
    return True


def test_a_node_that_drops_changes_when_full_leaves_a_gap_that_is_said(
    node: Node, session: Session, tmp_path: Path, capture_of: Opens
) -> None:
    """The policy of `cdc_block_writes: false`: writes go on, the oldest changes go, the stream names the gap."""
    node.settings = replace(node.settings, yaml=SMALL | {"cdc_block_writes": False})
    node.restart()
    with Cluster([node.address], port=node.native_port) as cluster:
        again = cluster.connect()
        again.execute("INSERT INTO shop.filled (id) VALUES (-2)")
        feed = FolderFeed(tmp_path)
        capture = capture_of(feed)
        wait(lambda: capture.catch_up() == 0 and len(changes_of(feed, "filled")) > 0, "the first insert")
        first = capture.tail.head.source.segment
        capture.close()
        feed.close()
        write_until(again, lambda: not list(node.cdc_raw.glob(f"*-{first}.log")))
        feed = FolderFeed(tmp_path)
        capture = capture_of(feed)
        assert "deletes the oldest changes" in capture.status().alarm
        capture.catch_up()
        (stream,) = feed.streams()
        gaps = [c for c in feed.read(stream, 0, 10_000) if c.kind == Kind.GAP]
        assert [gap.detail for gap in gaps] == [
            f"segments {first} to {gaps[0].origin[0] - 1} are gone unread"
        ]
        feed.close()
