"""Changes that wait until the write-time line has come to them (H12, `programs/line.py`): they stay in the feed.

What was read of them is kept here, so that an epoch does not read them again; a driver that starts reads them where
the pin says that something waits. How far the next epoch goes is decided here and then pinned: with all streams read to
their ends, W is the least of their clocks - the bound. Behind a backlog, as after a node was away, streams are
read evenly by write time, the one furthest behind first, and W goes on as far as the changes read allow: a stream
whose latest write so far is at t will show nothing older than t - 2 bounds, one of the writer's clock and one of
the writers' after it. So memory is bounded by the changes an epoch takes, whatever waits.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter

from cvs.capture.changes import Change, TableDefinition
from cvs.capture.feed import Feed, Head
from cvs.programs.epoch import Pin
from cvs.programs.line import Line, admit
from cvs.programs.stage_delta import DeltaInput
from cvs.stream.bases import UNLIKE_ROWS, delta_input
from cvs.stream.build import SCANNED
from cvs.stream.pinned import FEED_PAGE

Known = Mapping[str, TableDefinition]


@dataclass(frozen=True, slots=True)
class Seen:
    """A change that was read, and when what it says was written, first and last."""

    position: int
    first: int
    last: int
    change: Change


@dataclass(slots=True)
class _Stream:
    """What is known of one stream between two positions."""

    start: int
    end: int
    seen: list[Seen] = field(default_factory=list)
    latest: int = 0  # write time, of those that are not ahead of every clock

    def between(self, start: int, end: int) -> list[Seen]:
        """Return what was read between two positions and may still wait."""
        low, high = (bisect_left(self.seen, at, key=lambda it: it.position) for at in (start, end))
        return self.seen[low:high]


class Waiting:
    """One pipeline's changes that no epoch has taken."""

    def __init__(
        self, feed: Feed, *, bound: int, now: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        """`bound`: microseconds by which the clocks of writers, nodes and drivers may differ."""
        self._feed, self.bound, self._now = feed, bound, now
        self._streams: dict[str, _Stream] = {}

    def proposed(
        self, last: Pin, heads: Mapping[str, Head], *, limit: int
    ) -> tuple[dict[str, Head], Line, bool]:
        """Return what the next epoch can be made of, its line, and whether there is anything for it to take."""
        known = last.line or Line()
        clock = min((head.clock for head in heads.values()), default=0) - self.bound - 1
        ahead = max(self._now() + self.bound, known.ahead if last.line else 0)
        if last.begins:  # the build begins here: what is older, the scan sees
            begin = {s: 0 if s == last.build else head.position for s, head in heads.items()}
            line = Line(before=known.upto, upto=max(clock, known.upto), ahead=ahead, held=begin)
            return {s: Head(at, line.upto) for s, at in begin.items()}, line, False
        for stream in {*heads, *last.until}:
            self._known_to(stream, last.taken.get(stream, 0), last.until.get(stream, 0))
        upto = max(known.upto, self._read_on(last, heads, clock, ahead, limit))
        line = Line(
            before=known.upto, upto=upto, ahead=ahead, held={s: self._held(s, last) for s in self._streams}
        )
        due = self._read_beyond(last) >= limit  # else nothing would ever be taken of it
        due = due or any(self._due(stream, last.until.get(stream, 0), line) for stream in self._streams)
        at = {s: it.end for s, it in self._streams.items()} if due else last.until
        return {s: Head(at.get(s, 0), upto) for s in self._streams}, line, due

    def input(
        self, pin: Pin, known: Known, *, tables: Iterable[str], reads: Mapping[str, Collection[str]]
    ) -> tuple[dict[str, DeltaInput], dict[str, str], int]:
        """Return an epoch's input, which tables nothing can follow any more, and how many changes that took."""
        assert pin.line is not None
        timely: list[Change] = []
        others: list[tuple[list[Change], bool, bool]] = []
        for stream in sorted(pin.until):
            since, scanned = pin.since.get(stream, 0), stream.startswith(SCANNED)
            self._known_to(stream, pin.taken.get(stream, since), pin.until[stream])
            mine = self._streams[stream]
            mine.seen = [it for it in mine.seen if it.position >= since or _waited(it, pin.line)]
            for fresh, (start, end) in ((False, (0, since)), (True, (since, pin.until[stream]))):
                rest: list[Change] = []
                for it in mine.between(start, end):
                    whole = pin.line.before < it.first and it.last <= pin.line.upto
                    (timely if whole else rest).append(it.change)
                others.append((rest, fresh, scanned))
        sort = partial(
            delta_input,
            definitions=known,
            tables=tables,
            reads=reads,
            begun=pin.begun,
            identities=pin.tables,
        )
        found, stopped = sort(timely)
        for changes, fresh, scanned in others:
            some, gone = sort(changes)
            stopped |= gone if fresh else {}
            for table, partitions in some.items():
                into = found.setdefault(table, {})
                claimed = not pin.building
                admit(partitions, into, pin.line, fresh=fresh, scanned=scanned, claimed=claimed)
        return found, stopped, len(timely) + sum(len(changes) for changes, _, _ in others)

    def _known_to(self, stream: str, start: int, end: int) -> None:
        """Have read everything between two positions that may wait."""
        mine = self._streams.get(stream)
        if mine is None or mine.start > start or mine.end < start:
            mine = self._streams[stream] = _Stream(start, start)
        while mine.end < end:
            self._read(stream, min(FEED_PAGE, end - mine.end), ahead=self._now() + self.bound)

    def _read(self, stream: str, count: int, *, ahead: int) -> int:
        mine = self._streams[stream]
        changes = self._feed.read(stream, mine.end, count)
        assert changes, f"stream {stream} ends at {mine.end}"
        for change in changes:
            written = times_of(change)
            first, last = (min(written), max(written)) if written else (0, 0)
            mine.seen.append(Seen(mine.end, first, last, change))
            mine.end += 1
            if mine.latest < last <= ahead:
                mine.latest = last
        return len(changes)

    def _read_on(self, last: Pin, heads: Mapping[str, Head], clock: int, ahead: int, limit: int) -> int:
        """Read streams, the furthest behind first; return up to which write time everything is in."""
        nodes = [stream for stream in heads if not stream.startswith(SCANNED)]
        left = limit - self._read_beyond(last)

        def reached(stream: str) -> int:
            mine = self._streams[stream]
            if mine.end >= heads[stream].position:
                return clock
            return min(clock, mine.latest - 2 * self.bound - 1)

        while left > 0:
            behind = [(reached(s), s) for s in nodes if self._streams[s].end < heads[s].position]
            furthest = min(behind, default=(clock, ""), key=itemgetter(0))
            if furthest[0] >= clock:
                break
            left -= self._more(furthest[1], heads, left, ahead)
        for stream in heads.keys() - nodes:
            while left > 0 and self._streams[stream].end < heads[stream].position:
                left -= self._more(stream, heads, left, ahead)
        return min((reached(stream) for stream in nodes), default=clock)

    def _read_beyond(self, last: Pin) -> int:
        return sum(it.end - last.until.get(stream, 0) for stream, it in self._streams.items())

    def _more(self, stream: str, heads: Mapping[str, Head], left: int, ahead: int) -> int:
        there = heads[stream].position - self._streams[stream].end
        return self._read(stream, min(FEED_PAGE, left, there), ahead=ahead)

    def _held(self, stream: str, last: Pin) -> int:
        """Return the position below which nothing waits after an epoch."""
        until = last.until.get(stream, 0)
        if last.line is None:
            return until
        line, scanned = last.line, stream.startswith(SCANNED)
        for it in self._streams[stream].between(last.taken.get(stream, 0), until):
            if line.waits(it.last) or (not scanned and _any(it, line.waits)):
                return it.position
        return until

    def _due(self, stream: str, since: int, line: Line) -> bool:
        """Say whether an epoch takes anything of what was read of a stream."""
        scanned = stream.startswith(SCANNED)
        for it in self._streams[stream].seen:
            fresh = it.position >= since
            if fresh and it.change.kind in UNLIKE_ROWS:
                return True
            if line.takes(it.last, fresh=fresh) or (
                not scanned and _any(it, lambda at, fresh=fresh: line.takes(at, fresh=fresh))  # type: ignore[misc]
            ):
                return True
        return False


def _waited(it: Seen, line: Line) -> bool:
    """Say whether something of a change may have waited when the epoch began."""
    return it.first <= line.ahead and it.last > line.before


def _any(it: Seen, wanted: Callable[[int], bool]) -> bool:
    return it.first != it.last and any(map(wanted, times_of(it.change)))


def times_of(change: Change) -> list[int]:
    """Return every write time in a change."""
    found = [cell.write_time for cell in change.cells]
    if change.complex_deletions:
        found += [deletion.write_time for _, deletion in change.complex_deletions]
    if change.liveness is not None:
        found.append(change.liveness.write_time)
    if change.deletion is not None:
        found.append(change.deletion.write_time)
    return found
