"""`cvs capture` as a loop: one node, one tail, one stream; ends cleanly, can be killed anywhere."""

import fcntl
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cvs.capture.changes import TableDefinition
from cvs.capture.clock import StreamClock
from cvs.capture.feed import Feed, Head, TakenError
from cvs.capture.log import LogDecoder, truncated_at
from cvs.capture.node import NodeConnection, NodeSettings, fullness
from cvs.capture.schema import SchemaBook
from cvs.capture.tail import Tail
from cvs.errors import MissingEnvironmentError, StoreError

POLL_SECONDS = 0.005
COLLECT_SECONDS = 10.0
RETRY_SECONDS = 1.0
ASK_SECONDS = 2.0
KNOWN_SECONDS = 60
"""A truncation that much older than a stream's clock was said by an earlier process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a capture is doing."""

    stream: str
    head: Head
    counters: dict[str, int]
    cdc_bytes: int
    alarm: str  # what needs a person, or nothing


class Capture:
    """Captures one node's log into a feed."""

    def __init__(
        self,
        connection: NodeConnection,
        feed: Feed,
        *,
        stream: str = "",
        folder: Path | None = None,
        eager: bool = False,
        delete: bool = True,
        wanted: Callable[[TableDefinition], bool] | None = None,
    ) -> None:
        """Check the node's settings, load its schema, and go on where the stream ended."""
        self._connection = connection
        self._feed = feed
        self.settings = connection.settings()
        folder = folder or self.settings.cdc_raw
        check(self.settings, folder)
        self._claim = claimed(folder) if delete else None
        self.stream = stream or self.settings.host_id
        self._book = SchemaBook()
        self._book.load(connection.schema())
        self.decoder = LogDecoder(self._book, define=feed.define, reload=self._reload, wanted=wanted)
        acknowledges_after_sync = self.settings.sync in ("group", "batch") and not eager
        self.tail = Tail(
            folder,
            feed=feed,
            stream=self.stream,
            decoder=self.decoder,
            clock=StreamClock(acknowledges_after_sync=acknowledges_after_sync, counts=self.decoder.counts),
            eager=eager,
            blocks_writes=self.settings.blocks_writes,
            delete=delete,
        )
        clock = self.tail.head.clock // 1000
        self._truncations = {
            table: value
            for table, value in connection.truncations().items()
            if not clock or truncated_at(value) < clock - KNOWN_SECONDS * 1000
        }

    def run(self, stop: threading.Event, *, each: Callable[[Status], None] | None = None) -> None:
        """Follow the log until `stop` is set; tell `each` the status every few seconds."""
        due = ask = time.monotonic()
        while not stop.is_set():
            self._step(stop)
            if time.monotonic() >= ask:
                ask = time.monotonic() + ASK_SECONDS
                self._ask_for_truncations()
            if time.monotonic() >= due:
                due = time.monotonic() + COLLECT_SECONDS
                self._feed.collect()
                if each:
                    each(self.status())
            stop.wait(POLL_SECONDS)  # after changes too: what comes meanwhile shares an append and its fsync

    def _step(self, stop: threading.Event) -> None:
        try:
            self.tail.step(time.time_ns() // 1000)
        except StoreError:  # the node is down: its log stands still, and goes on when it is back
            self.tail.counters["questions the node did not answer"] += 1
            stop.wait(RETRY_SECONDS)

    def _ask_for_truncations(self) -> None:
        """Say those that the log did not: a segment without a captured change goes unread, the entry of one in it."""
        with suppress(StoreError):  # the node is down: it is asked again
            for table, value in self._connection.truncations().items():
                if self._truncations.get(table) != value:
                    source = self.tail.head.source
                    self.tail.note(self.decoder.truncation(table, value, (source.segment, source.offset, 0)))
                    self._truncations[table] = value

    def catch_up(self) -> int:
        """Take what the log has now; return how many changes it had."""
        total = 0
        while found := self.tail.step(time.time_ns() // 1000):
            total += found
        return total

    def finish(self) -> int:
        """Take the rest of a node that runs no more and has left the cluster; end its stream."""
        return self.tail.finish()

    def status(self) -> Status:
        """Say how it is doing."""
        return Status(
            stream=self.stream,
            head=self.tail.head,
            counters=dict(self.tail.counters + self.decoder.skipped),
            cdc_bytes=self.tail.behind(),
            alarm=fullness(self.settings, self.tail.behind()),
        )

    def close(self) -> None:
        """Let go of files and the connection; the feed stays with whoever opened it."""
        self.tail.close()
        self._connection.close()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def _reload(self) -> list[TableDefinition]:
        return self._book.load(self._connection.schema())


def claimed(folder: Path) -> int:
    """Claim a cdc_raw folder, whatever feed it goes to: two that delete what they have read would lose changes."""
    claim = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as taken:
        os.close(claim)
        raise TakenError(
            "another process captures this node already",
            where=str(folder),
            next_step="end one of the two, or let this one --keep the segments",
        ) from taken
    return claim


def check(settings: NodeSettings, folder: Path) -> None:
    """Refuse a node whose log cannot be captured rightly, and a folder that is not here."""
    for what, next_step in settings.complaints():
        raise MissingEnvironmentError(what, where=f"node {settings.host_id}", next_step=next_step)
    if not folder.is_dir():
        raise MissingEnvironmentError(
            "the node's cdc_raw folder is not here",
            where=str(folder),
            next_step="capture runs on the node's own machine; or name the folder with --cdc-raw",
        )
