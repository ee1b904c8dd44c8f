"""The build: base tables are read, in token order, into the feed as one more stream of changes.

DELTA absorbs the scan and the captured writes in whatever order they come, so writes go on meanwhile. The stream
keeps its own place: each append names the table and the token up to which everything is in, and a scan that was
killed goes on there. The same stream later carries what rows in doubt were found to be (`scanned.py`).
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cassandra import InvalidRequest, Unauthorized
from cassandra.protocol import ResultMessage, _ProtocolHandler, read_int
from cassandra.query import BoundStatement

from cvs.capture.changes import Change, TableDefinition, split_key
from cvs.capture.feed import Feed, Head, Source, of_node
from cvs.errors import SpecificationError, StoreError
from cvs.model.layout import quoted
from cvs.model.values import many
from cvs.programs.epoch_run import RowInDoubt
from cvs.programs.stage_codec import unpack
from cvs.store.outcomes import UNANSWERED
from cvs.store.sending import ROWS_FIRST, answers_of, next_page
from cvs.store.session import CassandraSession, nodes_in
from cvs.stream.scanned import Selection

PREFIX = "build-"
"""What names of build streams begin with: only the pipeline they were made for reads them."""
REPAIR = "repair-"
SCANNED = (PREFIX, REPAIR)
"""Streams of rows that were read from the base, and not captured."""
ALWAYS = 2**62
"""The clock of a build stream: it never holds the watermark; that nothing is claimed while building does. Streams with
such a clock, or a later one, are no node's that still speaks."""
ROWS_A_PAGE = 2_000
AHEAD = 40_000
"""Scanned rows that may wait in the feed: enough that epochs never wait for the scan, and no more."""
TOKENS = 2**64
LOWEST = -(2**63)
RETRY_SECONDS = 1.0


class _RawResult(ResultMessage):  # type: ignore[misc]  # because the driver has no types
    """An answer whose values stay the bytes that came."""

    def recv_results_rows(self, f: Any, *arguments: Any) -> None:
        """Read rows and decode nothing."""
        self.recv_results_metadata(f, arguments[1])
        columns = self.column_metadata or arguments[2]
        self.parsed_rows = [self.recv_row(f, len(columns)) for _ in range(read_int(f))]
        self.column_names = [column[2] for column in columns]
        self.column_types = [column[3] for column in columns]


class _RawHandler(_ProtocolHandler):  # type: ignore[misc]
    message_types_by_opcode: Mapping[int, Any] = {
        **_ProtocolHandler.message_types_by_opcode,
        _RawResult.opcode: _RawResult,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a scan is; epochs follow it by at most `AHEAD` rows."""

    rows: int
    part: float  # of all tables' token rings
    seconds: float  # since this process went on with it
    part_before: float  # what was done by then
    waits: str = ""  # what keeps it from going on

    @property
    def left_seconds(self) -> float | None:
        """Estimate how long the rest takes; None: nothing is known yet."""
        done = self.part - self.part_before
        return None if done <= 0 or self.seconds < 1 else self.seconds / done * (1 - self.part)

    def __str__(self) -> str:
        """Show it as one line."""
        left = self.left_seconds
        estimate = "" if left is None else f", about {left:,.0f} s left"
        waits = f"; waits: {self.waits}" if self.waits else ""
        return f"{100 * self.part:.0f} % of the base tables read, {many(self.rows, 'row')}{estimate}{waits}"


class Build:
    """The build stream of one incarnation: its producer, and what a pipeline asks of it."""

    def __init__(
        self,
        session: CassandraSession,
        feed: Feed,
        definitions: Mapping[str, TableDefinition],
        *,
        stream: str,
        rows_a_second: int = 0,
    ) -> None:
        """`rows_a_second`: the most that is read, 0: as fast as the epochs follow."""
        self.stream = stream
        self._hosts = session
        self._session = CassandraSession(session.address)
        self._feed = feed
        self._tables = [definitions[name] for name in sorted(definitions)]
        self._rows_a_second = rows_a_second
        self._lock = threading.Lock()  # because the scan's thread and the epochs' both append
        self._page: Any = None
        self._partition = b""
        self._waits = ""
        self._first_clocks: dict[str, int] = {}
        self._started: tuple[float, float] | None = None
        self.failure: Exception | None = None  # what ended the scan's thread

    @property
    def head(self) -> Head:
        """Return the durable end; its source says how far the scan is."""
        known = self.stream in self._feed.streams()
        return self._feed.head(self.stream) if known else Head(0, ALWAYS, Source(1, 0))

    @property
    def done(self) -> bool:
        """Say whether every base table was read to its end."""
        return self.head.source.segment > len(self._tables)

    def confirmed(self, heads: Mapping[str, Head]) -> bool:
        """Say whether every node's capture has moved its clock since this was first asked (H18).

        What a node acknowledged before its clock is in the feed, so the scan sees what came before capture. Where
        others fill the feed, each of its partitions.
        """
        nodes = {stream: head.clock for stream, head in heads.items() if head.clock < ALWAYS}
        here = nodes_in(self._hosts.driver, self._hosts.address.local_datacenter)
        wanted = len(here) if any(map(of_node, nodes)) else 1
        if len(nodes) < wanted:
            return False
        for stream, clock in nodes.items():
            self._first_clocks.setdefault(stream, clock)
        return all(clock > self._first_clocks[stream] for stream, clock in nodes.items())

    def run(self, waiting: Callable[[], int | None], ended: threading.Event) -> None:
        """Scan to the end; `waiting` says how many scanned rows no epoch has taken (None: not begun)."""
        try:
            self._run(waiting, ended)
        except Exception as fault:  # noqa: BLE001 -- because the epochs' thread must not go on without the scan
            self.failure = fault

    def _run(self, waiting: Callable[[], int | None], ended: threading.Event) -> None:
        while not ended.is_set() and not self.done:
            ahead = waiting()
            if ahead is None or ahead > AHEAD:
                ended.wait(0.05)
                continue
            started = time.monotonic()
            try:
                count = self.advance()
            except (*UNANSWERED, SpecificationError) as fault:
                if isinstance(fault, InvalidRequest | Unauthorized):
                    raise StoreError(f"a base table cannot be read: {fault}") from fault
                self._page = None  # the node is away, or another process holds the stream: try again
                self._waits = fault.what if isinstance(fault, SpecificationError) else type(fault).__name__
                ended.wait(RETRY_SECONDS)
                continue
            self._waits = ""
            if self._rows_a_second:
                ended.wait(max(0.0, count / self._rows_a_second - (time.monotonic() - started)))

    def advance(self) -> int:
        """Put the next page into the feed; return how many rows it had."""
        source = self.head.source
        if source.segment > len(self._tables):
            return 0
        if self._started is None:
            self._started = (time.monotonic(), self._part(source))
        selection = self.selection(self._tables[source.segment - 1])
        if self._page is None:
            text = f"{selection.select} WHERE {selection.token} > ?"
            bound = self._session.prepared(text).bind((source.offset + LOWEST,))
            bound.fetch_size = min(ROWS_FIRST, self._rows_a_second or ROWS_FIRST)
            self._page, self._partition = self._driver.execute(bound), b""
        else:
            self._page = _next(self._page, min(ROWS_A_PAGE, self._rows_a_second or ROWS_A_PAGE))
        rows = self._page.current_rows
        more = self._page.has_more_pages
        changes = [change for row in rows for change in self._changes(selection, row)]
        after = _after(rows, source) if more else Source(source.segment + 1, 0)
        if not more:
            self._page = None
        self._append(changes, after)
        return len(rows)

    def progress(self) -> Progress:
        """Say how far the scan is."""
        head = self.head
        started, before = self._started or (time.monotonic(), self._part(head.source))
        seconds = time.monotonic() - started
        return Progress(
            rows=head.position,
            part=self._part(head.source),
            seconds=seconds,
            part_before=before,
            waits=self._waits,
        )

    def read_again(self, doubts: Iterable[RowInDoubt]) -> None:
        """Read rows in doubt and put what they are into the feed, before the epoch that doubts is committed."""
        self.put([change for asked in self.ask(doubts) for change in answer(*asked)])

    def ask(self, doubts: Iterable[RowInDoubt]) -> list[tuple[RowInDoubt, Selection, list[Any]]]:
        """Read single base rows as they are now, serialized."""
        asked = [(doubt, *self._question(doubt)) for doubt in doubts]
        if not asked:
            return []
        found = []
        for (doubt, selection, _), rows in zip(
            asked, answers_of(self._driver, [bound for _, _, bound in asked]), strict=True
        ):
            if isinstance(rows, Exception):
                raise StoreError(f"a base row in doubt cannot be read: {rows}", where=doubt.table)
            found.append((doubt, selection, list(rows)))
        return found

    def rows(self, selection: Selection) -> Iterator[Any]:
        """Read a base table from end to end, serialized."""
        bound = self._session.prepared(selection.select).bind(())
        bound.fetch_size = ROWS_FIRST
        page = self._driver.execute(bound)
        yield from page.current_rows
        while page.has_more_pages:
            page = _next(page, ROWS_A_PAGE)
            yield from page.current_rows

    def put(self, changes: list[Change]) -> None:
        """Put changes into the feed; where the scan is stays as it is."""
        if changes:
            self._append(changes, self.head.source)

    def close(self) -> None:
        """End the session."""
        self._session.close()

    @property
    def _driver(self) -> Any:
        driver = self._session.driver
        driver.client_protocol_handler = _RawHandler
        return driver

    def _append(self, changes: list[Change], source: Source) -> None:
        with self._lock:
            self._feed.append(self.stream, changes, source=source, clock=ALWAYS)

    def selection(self, definition: TableDefinition) -> Selection:
        """Return what is asked of a base table."""
        return Selection(definition=definition, reference=self._feed.define(definition))

    def _changes(self, selection: Selection, row: Any) -> Iterable[Change]:
        partition = selection.partition(row)
        fresh, self._partition = partition != self._partition, partition
        return selection.changes(row, statics=fresh)

    def _part(self, source: Source) -> float:
        return (source.segment - 1 + source.offset / TOKENS) / max(1, len(self._tables))

    def _question(self, doubt: RowInDoubt) -> tuple[Selection, Any]:
        definition = next(it for it in self._tables if it.full_name == doubt.table)
        selection = self.selection(definition)
        names = [column.name for column in definition.partition_key]
        values: list[Any] = list(split_key(definition, doubt.partition))
        if doubt.clustering:
            names += [column.name for column in definition.clustering]
            values += unpack(doubt.clustering)
        where = " AND ".join(f"{quoted(name)} = ?" for name in names)
        bound = BoundStatement(self._session.prepared(f"{selection.select} WHERE {where} LIMIT 1"))
        bound.values = values  # as they are: serialized
        return selection, bound


def answer(doubt: RowInDoubt, selection: Selection, rows: list[Any]) -> Iterable[Change]:
    """Return what a row in doubt was found to be."""
    floors = dict(doubt.doubt)
    clustering: tuple[Any, ...] = unpack(doubt.clustering) if doubt.clustering else ()
    statics = bool(selection.definition.clustering) and not doubt.clustering
    if rows and statics:
        return [
            it for it in selection.changes(rows[0], statics=True, floors=floors) if it.kind == it.kind.STATIC
        ]
    found = [it for row in rows for it in selection.changes(row, statics=False, floors=floors)]
    return found or [selection.absent(doubt.partition, clustering, floors)]


def _after(rows: list[Any], before: Source) -> Source:
    """Return the place up to which everything is in: the partition of the last row may go on."""
    tokens = [int.from_bytes(row[0], "big", signed=True) for row in rows]
    whole = [token for token in tokens if token != tokens[-1]]
    return Source(before.segment, whole[-1] - LOWEST) if whole else before


def _next(page: Any, most: int) -> Any:
    """Return the page after one of serialized rows."""
    rows = page.current_rows
    next_page(page.response_future, sum(len(it) for row in rows for it in row if it), len(rows), most=most)
    return page.response_future.result()
