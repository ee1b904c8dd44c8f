"""The tail: follow a node's `cdc_raw` folder into a stream of the feed, and lose nothing.

Segments are read in the order of their ids, a whole sync section at a time, up to the offset that
`<segment>_cdc.idx` calls durable; a segment that a newer one has superseded is read to its end. A segment is
deleted when everything in it is durable in the feed. Open files keep vanishing segments readable.

A segment without an index file has no change of a CDC table (yet). Cassandra removes it when it is flushed;
what it said of the schema is then read from the node itself (`LogDecoder.refresh`).
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cvs.capture.changes import Change, Kind
from cvs.capture.clock import StreamClock
from cvs.capture.decode import Entry
from cvs.capture.feed import ENDED, Feed, Head, Source
from cvs.capture.log import LogDecoder
from cvs.capture.segment import MARKER_BYTES, DamagedSegmentError, read_header, section_end, segment_id
from cvs.errors import HistoryError

APPEND_CHANGES_MAX = 20_000
HEADER_BYTES_MAX = 1 << 16
BEFORE_DURABLE = "changes read before they were durable"
SAME_RUN_IDS_MAX = 1000  # a node numbers its segments by one; a restart jumps by the milliseconds since


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What a segment's index file says: how far it is durable, and whether it is closed."""

    durable: int
    closed: bool


def read_index(path: Path) -> Index | None:
    """Read an index file; None if there is none or it is just being rewritten (Cassandra truncates first)."""
    try:
        lines = path.read_text().split("\n")
    except FileNotFoundError:
        return None
    if not lines[0].isdigit():
        return None
    return Index(durable=int(lines[0]), closed=lines[1:2] == ["COMPLETED"])


def index_of(segment: Path) -> Path:
    """Return the path of a segment's index file."""
    return segment.with_name(segment.name.replace(".log", "_cdc.idx"))


def remove(segment: Path) -> None:
    """Remove a segment from the folder, its index first (an index without its segment is litter)."""
    index_of(segment).unlink(missing_ok=True)
    segment.unlink(missing_ok=True)


class OpenSegment:
    """A segment file held open: its name may go, its bytes stay."""

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self.number = number
        self.index_path = index_of(path)
        self.had_index = False
        self._file = os.open(path, os.O_RDONLY)

    @property
    def size(self) -> int:
        """Return the file's size now (a memory-mapped segment has its full size from the start)."""
        return os.fstat(self._file).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes at an offset."""
        return os.pread(self._file, size, offset)

    def start(self) -> int:
        """Return the offset of the first sync marker; 0 while there is no header yet."""
        header = read_header(self.read(0, HEADER_BYTES_MAX), self.number)
        return header.size if header else 0

    def index(self) -> Index | None:
        """Return what its index file says now."""
        found = read_index(self.index_path)
        self.had_index = self.had_index or found is not None or self.index_path.exists()
        return found

    def sections(self, marker: int, limit: int, *, durable: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield (marker, end) of the sections from `marker` on that end at or below `limit`.

        A marker at or behind `durable` (the limit, unless said otherwise) may just be being written.
        """
        while marker + MARKER_BYTES <= self.size and marker < limit:
            try:
                end = section_end(self.read(marker, MARKER_BYTES), 0, segment=self.number, offset=marker)
            except DamagedSegmentError:
                if durable is not None and marker >= durable:
                    return
                raise
            if end is None or end > limit:
                return
            if end > self.size:
                raise HistoryError(
                    f"segment {self.number} ends at {self.size}, inside its section at {marker}",
                    where=str(self.path),
                    next_step="the file was truncated: nothing from this offset on was captured",
                )
            yield marker, end
            marker = end

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Tail:
    """Follows one node's folder. `step` does whatever can be done now."""

    def __init__(
        self,
        folder: Path,
        *,
        feed: Feed,
        stream: str,
        decoder: LogDecoder,
        clock: StreamClock,
        eager: bool = False,
        blocks_writes: bool = True,
        delete: bool = True,
    ) -> None:
        """Go on where the stream's head says; from the oldest segment if it says nothing."""
        self.folder = folder
        self.counters: Counter[str] = Counter()
        self._feed = feed
        self._stream = stream
        self._decoder = decoder
        self._clock = clock
        self._eager = eager
        self._blocks_writes = blocks_writes
        self._delete = delete
        self._open: dict[int, OpenSegment] = {}
        self._consumed = True
        self._missed_schema = False  # a segment was never seen: what it said of the schema must be asked for
        self.head: Head = feed.append(stream, [], source=_known_source(feed, stream), clock=0)
        self._at = self.head.source
        self._resumed = self._at.offset > 0
        self._is_last = False
        if self.head.clock == ENDED:
            raise HistoryError(
                f"stream {stream!r} has ended: its node was said to have left the cluster",
                next_step="if this node is back, capture it under another name (--stream)",
            )
        if delete:
            self._remove_left_over()

    def finish(self) -> int:
        """Take everything of a node that runs no more, to the end of its log, and end the stream."""
        self._is_last = True
        found = self.step(0)
        if self._at.segment not in self._open:
            raise HistoryError(
                f"segment {self._at.segment}, where the stream stands, is not in this folder",
                where=str(self.folder),
                next_step="name the node's own cdc_raw with --cdc-raw; if it is lost: `cvs feed end`",
            )
        self.head = self._feed.append(self._stream, [], source=self._at, clock=ENDED)
        self._leave(self._open.pop(self._at.segment))
        return found

    def step(self, now: int) -> int:
        """Read what is there, append it, move the clock to `now` if nothing older is missing."""
        self._look()
        if self._at.segment not in self._open and not self._arrive():
            # what was begun and is gone may still be written to: only the next segment tells, by a gap
            return self._beat(now, consumed=not self._at.offset)
        before = self.head.position
        while self._read_current() and self._advance():
            pass
        return self.head.position - before + self._beat(now, consumed=self._consumed)

    def note(self, changes: list[Change]) -> None:
        """Append what was learnt beside the log."""
        if changes:
            self._append(changes, self._at)

    def behind(self) -> int:
        """Return the bytes of segments that wait to be read or deleted."""
        return sum(path.stat().st_size for path in self.folder.glob("CommitLog-*.log"))

    def close(self) -> None:
        """Let go of all files."""
        for segment in self._open.values():
            segment.close()
        self._open.clear()

    def _look(self) -> None:
        for name in os.listdir(self.folder):  # noqa: PTH208 -- because this runs hundreds of times a second
            number = segment_id(name)
            if number is not None and number >= self._at.segment and number not in self._open:
                try:
                    self._open[number] = OpenSegment(self.folder / name, number)
                except FileNotFoundError:  # it vanished while we looked: it had no change of a CDC table
                    self.counters["segments that vanished before they were opened"] += 1

    def _arrive(self) -> bool:
        """Come to the first segment there is; notice what is missing before it."""
        if not self._open:
            return False
        first = min(self._open)
        if self._at.segment and (self._at.offset or first - self._at.segment > 0):
            partly = self._at.offset > 0
            self._missed(self._at.segment - (not partly), first, partly=partly)
        self._at = Source(first, 0)
        self._missed_schema = True
        return True

    def _missed(self, before: int, following: int, *, partly: bool, none_dropped: bool = False) -> None:
        """Say what it means that segments between two ids were never seen."""
        count = following - before - (0 if partly else 1)
        if partly or (not self._blocks_writes and count > 0 and not none_dropped):
            reason = f"segments {before} to {following - 1} are gone unread"
            self.counters["gaps"] += 1
            gap = Change(Kind.GAP, "", origin=(following, 0, 0), detail=reason)
            self._append([gap], Source(following, 0))
        elif 0 < count < SAME_RUN_IDS_MAX:
            self.counters["segments without cdc data, gone unread"] += count

    def _ask_for_schema(self) -> None:
        """Read the definitions from the node; while it is down this raises, and the next step asks again."""
        changes: list[Change] = []
        self._decoder.refresh(Entry(self._at.segment, 0, changes))
        self._missed_schema = False
        if changes:
            self._append(changes, self._at)

    def _read_current(self) -> bool:
        """Read the current segment as far as allowed; tell whether it is finished."""
        if self._missed_schema:
            self._ask_for_schema()
        segment = self._open[self._at.segment]
        if self._resumed:
            self._resumed = False
            self._check_resumed(segment)
        newer = [number for number in self._open if number > segment.number]
        superseded = any(self._open[number].index() for number in newer)  # before the index below is read
        vanished = not segment.path.exists()
        index = segment.index()
        closed = self._is_last or superseded or vanished or (index is not None and index.closed)
        self._consumed = index is not None or not segment.had_index
        limit = segment.size if closed or self._eager else index.durable if index else 0
        marker = begin = self._at.offset or segment.start()
        if not marker:
            return bool(closed and newer)
        pending: list[Change] = []
        durable = limit if closed or not self._eager else index.durable if index else 0
        try:
            for start, end in segment.sections(marker, limit, durable=durable):
                data = segment.read(start, end - start)
                found = self._decoder.decode(
                    data, MARKER_BYTES, len(data), segment=segment.number, base=start
                )
                if found and end > durable:
                    self.counters[BEFORE_DURABLE] += len(found)
                pending += found
                marker = end
                if len(pending) >= APPEND_CHANGES_MAX:
                    pending = self._flush(pending, Source(segment.number, marker))
        except (
            DamagedSegmentError
        ):  # a place in the segment says it was begun: whoever deletes it makes a gap
            self._flush(pending, Source(segment.number, marker))
            raise
        # because an offset makes a gap of what is gone later; without an index it had no change, and may go at any time
        if pending or (marker != begin and segment.had_index):
            self._flush(pending, Source(segment.number, marker))
        return bool(closed and newer)

    def _check_resumed(self, segment: OpenSegment) -> None:
        """Find out whether a crash of the machine took back what was read before it was durable (eager mode)."""
        reached = segment.start()
        for _, end in segment.sections(reached, self._at.offset):
            reached = end
        if reached < self._at.offset:
            taken = f"segment {segment.number} was cut back from {self._at.offset} to {reached}"
            reason = f"{taken}: changes that were read before they were durable never happened"
            self.counters["gaps"] += 1
            self._at = Source(segment.number, reached)
            self._append([Change(Kind.GAP, "", origin=(segment.number, reached, 0), detail=reason)], self._at)

    def _flush(self, changes: list[Change], after: Source) -> list[Change]:
        """Append in portions; only the last one may name the place after them all."""
        for start in range(0, len(changes), APPEND_CHANGES_MAX):
            portion = changes[start : start + APPEND_CHANGES_MAX]
            is_last = start + APPEND_CHANGES_MAX >= len(changes)
            self._append(portion, after if is_last else self._at)
        self._at = after
        return []

    def _append(self, changes: list[Change], source: Source) -> None:
        self.head = self._feed.append(self._stream, changes, source=source, clock=self.head.clock)
        self.counters["changes"] += len(changes)

    def _advance(self) -> bool:
        """Leave a finished segment for the next one, durably, then delete it."""
        done = self._open.pop(self._at.segment)
        following = min(self._open)
        missing = following - done.number - 1
        self._append([], Source(following, 0))
        self._at = Source(following, 0)
        if missing:
            # because a node that drops segments drops the oldest first: while this one stands, none behind it went
            self._missed(done.number, following, partly=False, none_dropped=done.path.exists())
            self._missed_schema = True
        self._leave(done)
        return True

    def _leave(self, done: OpenSegment) -> None:
        done.close()
        if self._delete:
            remove(done.path)
            self.counters["segments deleted"] += 1

    def _remove_left_over(self) -> None:
        """Delete what a killed process had left for the next segment but not yet removed: nobody opens it again.

        Only where the stream's own segment stands too: beside another log, older ids tell nothing.
        """
        found = {segment_id(path.name): path for path in self.folder.glob("CommitLog-*.log")}
        if self._at.segment in found:
            for number in sorted(n for n in found if n is not None and n < self._at.segment):
                remove(found[number])
                self.counters["segments deleted"] += 1

    def _beat(self, now: int, *, consumed: bool) -> int:
        """Move the stream's clock if it is due and everything older than `now` is in."""
        moment = self._clock.reading(now, self._at, self._open) if consumed else 0
        if moment > self.head.clock:
            self.head = self._feed.append(self._stream, [], source=self._at, clock=moment)
        return 0


def _known_source(feed: Feed, stream: str) -> Source:
    return feed.head(stream).source if stream in feed.streams() else Source()
