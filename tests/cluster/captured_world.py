"""A writer and a capture beside every node, while tests change the cluster under them; then the reckoning.

The reckoning merges all streams of the feed by Cassandra's rules (later write time wins) and compares with what
the table says at ALL: a change that no stream has makes a difference.
"""

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cassandra import ConsistencyLevel, DriverException, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.policies import RoundRobinPolicy
from cassandra.query import SimpleStatement

from cvs.capture.changes import Change, Kind
from cvs.capture.folder import FolderFeed
from cvs.capture.node import NodeConnection
from cvs.capture.opening import AnyFeed, open_feed
from cvs.capture.runner import Capture
from cvs.embedded.node import Node
from cvs.errors import StoreError

SECONDS_MAX = 120
FAULTS = (DriverException, OperationTimedOut, NoHostAvailable)
WRITES = (Kind.ROW, Kind.PARTITION_DELETION)
Rows = dict[int, int | None]


def wait(condition: Callable[[], bool], what: str, seconds: float = SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)


def connected(*nodes: Node, consistency: int = ConsistencyLevel.QUORUM) -> Cluster:
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(), consistency_level=consistency, request_timeout=10
    )
    return Cluster(
        [node.address for node in nodes],
        port=nodes[0].native_port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
    )


class Captures:
    """A capture thread a node, all into one feed: a folder, or what `feed` names."""

    def __init__(self, folder: Path, keyspace: str, *, feed: str = "") -> None:
        self.folder = folder
        self.feed = feed or str(folder)
        self._keyspace = keyspace
        self._running: dict[str, tuple[threading.Event, threading.Thread]] = {}
        self.streams: dict[str, str] = {}

    def begin(self, node: Node) -> None:
        """Start capturing a node."""
        feed = open_feed(self.feed)
        capture = self._patiently(node, feed)
        stop = threading.Event()

        def run() -> None:
            capture.run(stop)
            capture.close()
            feed.close()

        thread = threading.Thread(target=run)
        thread.start()
        self.streams[node.address] = capture.stream
        self._running[node.address] = (stop, thread)

    def _patiently(self, node: Node, feed: AnyFeed) -> Capture:
        """A node that has just started may let a connection time out on a busy machine."""
        for _ in range(10):
            try:
                return self.of(node, feed)
            except StoreError:
                time.sleep(2)
        return self.of(node, feed)

    def of(self, node: Node, feed: AnyFeed, **options: Any) -> Capture:
        connection = NodeConnection(node.address, node.native_port)
        return Capture(
            connection, feed, delete=False, wanted=lambda d: d.keyspace == self._keyspace, **options
        )

    def end(self, node: Node | None = None) -> None:
        """End one capture, or all."""
        for address in [node.address] if node else list(self._running):
            if address in self._running:
                stop, thread = self._running.pop(address)
                stop.set()
                thread.join()

    def finish(self, gone: Node, asked: Node) -> None:
        """Take the rest of a node that runs no more, as `cvs capture --last` does."""
        self.end(gone)
        feed = FolderFeed(self.folder)
        capture = self.of(asked, feed, folder=gone.cdc_raw, stream=self.streams[gone.address])
        capture.finish()
        capture.close()
        feed.close()


class Writer:
    """Inserts, updates and deletes without end, each with a write time of its own; remembers what it cannot know."""

    def __init__(self, session: Session, table: str, *, pause: float = 0.0) -> None:
        self.acknowledged = self.unknown = 0
        self._pause = pause
        self._session = session
        self._table = table
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def more(self, count: int = 100) -> None:
        """Wait until so many more writes were acknowledged."""
        wanted = self.acknowledged + count
        wait(lambda: self.acknowledged >= wanted, f"{count} more writes")

    def _run(self) -> None:
        session, table = self._session, self._table
        insert = session.prepare(f"INSERT INTO {table} (id, v) VALUES (?, ?) USING TIMESTAMP ?")
        update = session.prepare(f"UPDATE {table} USING TIMESTAMP ? SET v = ? WHERE id = ?")
        delete = session.prepare(f"DELETE FROM {table} USING TIMESTAMP ? WHERE id = ?")
        for n in itertools.count():
            if self._stop.is_set():
                return
            now = time.time_ns() // 1000
            self._write(insert, (n, n, now))
            if n % 3 == 2:
                self._write(update, (now + 1, -n, n - 1))
            if n % 7 == 6:
                self._write(delete, (now + 2, n - 2))

    def _write(self, statement: Any, values: tuple[int, ...]) -> None:
        """Repeat a write until it is acknowledged: the same write time makes that harmless."""
        for _ in range(60):
            try:
                self._session.execute(statement, values)
            except FAULTS:
                self.unknown += 1
                time.sleep(0.2)
            else:
                self.acknowledged += 1
                time.sleep(self._pause)
                return
        raise AssertionError("a write was never acknowledged")


def stored(session: Session, table: str) -> Rows:
    """Read the table at ALL."""
    statement = SimpleStatement(f"SELECT id, v FROM {table}", consistency_level=ConsistencyLevel.ALL)
    return {row.id: row.v for row in session.execute(statement, timeout=60)}


def merged(folder: Path, table: str) -> Rows:
    """Merge all streams of a feed: what the table must say if no change was lost."""
    feed = FolderFeed(folder)
    rows: dict[int, _Row] = {}
    changes = (change for stream in feed.streams() for change in feed.read(stream, 0, 10_000_000))
    for change in changes:
        if change.kind in WRITES and feed.definition(change.definition).full_name == table:
            rows.setdefault(_number(change.key), _Row()).take(change)
    return {key: row.value for key, row in rows.items() if row.is_alive}


class _Row:
    def __init__(self) -> None:
        self.deleted = self.live = self.time = -1
        self._value: bytes | None = None

    def take(self, change: Change) -> None:
        self.deleted = max(self.deleted, change.deletion.write_time if change.deletion else -1)
        self.live = max(self.live, change.liveness.write_time if change.liveness else -1)
        for cell in change.cells:
            if cell.write_time > self.time:
                self.time, self._value = cell.write_time, cell.value

    @property
    def value(self) -> int | None:
        return _number(self._value) if self._value is not None and self.time > self.deleted else None

    @property
    def is_alive(self) -> bool:
        return self.live > self.deleted or self.value is not None


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def gaps(folder: Path) -> list[str]:
    """Name the gaps of all streams."""
    feed = FolderFeed(folder)
    found = (change for stream in feed.streams() for change in feed.read(stream, 0, 10_000_000))
    return [change.detail for change in found if change.kind == Kind.GAP]


def watermark(folder: Path) -> int:
    """Return the least clock of all streams."""
    feed = FolderFeed(folder)
    return min(feed.head(stream).clock for stream in feed.streams())
