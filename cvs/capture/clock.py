"""A stream's clock: up to which moment every acknowledged write is in the feed.

With commit-log sync `group` or `batch` a write is acknowledged after the index file named it durable. So
whoever asked for the time, then read the index and consumed all it allows, has all that was acknowledged
before that time. With `periodic` sync acknowledgements come earlier, but a write's bytes are in the
(memory-mapped) file before its acknowledgement: the clock then moves to a moment only when what the file
showed at that moment has been consumed, or holds no change that counts.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from cvs.capture.feed import Source
from cvs.capture.segment import ENTRY_OVERHEAD_BYTES, MARKER_BYTES

HEARTBEAT_MICROSECONDS = 100_000
WINDOW = 1 << 20  # bytes searched behind the last visible entry: one being written may hide complete ones


class Readable(Protocol):
    """What the clock needs of an open segment."""

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes at an offset."""

    def start(self) -> int:
        """Return where the first marker stands, 0 without a header."""


class StreamClock:
    """Decides which moment a stream has reached."""

    def __init__(self, *, acknowledges_after_sync: bool, counts: Callable[[bytes], bool]) -> None:
        """Know whether the node syncs before it acknowledges (`group`, `batch`) or not (`periodic`).

        `counts` tells from the first 17 bytes of a payload whether its change would be captured.
        """
        self._exact = acknowledges_after_sync
        self._counts = counts
        self._next = 0
        self._quiet = Source()  # nothing that counts stands between what is consumed and here
        self._seen: tuple[int, tuple[int, int]] | None = None  # (moment, end of what was visible then)

    def reading(self, now: int, consumed: Source, segments: Mapping[int, Readable]) -> int:
        """Return the moment reached, 0 if a reading is not due; `consumed`: everything before it is in."""
        if now < self._next:
            return 0
        self._next = now + HEARTBEAT_MICROSECONDS
        if self._exact:
            return now
        if self._all_quiet(consumed, segments):
            self._seen = None
            return now
        reached = 0
        if self._seen and (consumed.segment, consumed.offset) >= self._seen[1]:
            reached, self._seen = self._seen[0], None
        if not self._seen:
            newest = max(segments)
            marker = self._quiet.offset if newest == self._quiet.segment else segments[newest].start()
            self._seen = (now, (newest, marker + len(_written(segments[newest], marker))))
        return reached

    def _all_quiet(self, consumed: Source, segments: Mapping[int, Readable]) -> bool:
        """Tell whether nothing that counts stands behind what is consumed, in any segment."""
        if (self._quiet.segment, self._quiet.offset) < (consumed.segment, consumed.offset):
            self._quiet = consumed
        for number in sorted(n for n in segments if n >= self._quiet.segment):
            segment = segments[number]
            marker = (self._quiet.offset if number == self._quiet.segment else 0) or segment.start()
            if not marker:
                continue
            walked, is_quiet = self._walk(_written(segment, marker), marker)
            self._quiet = Source(number, marker + walked)
            if not is_quiet:
                return False
        return True

    def _walk(self, data: bytes, base: int) -> tuple[int, bool]:
        """Walk sections of `data` (from `base` on); return where the last begins, and whether none counts.

        Bytes behind a hole are entries that were written while an older one still is: not quiet.
        """
        marker = 0
        while marker < len(data):
            end = int.from_bytes(data[marker : marker + 4], "big")
            at = marker + MARKER_BYTES
            section = end - base if end else len(data)
            while at < section and (size := int.from_bytes(data[at : at + 4], "big")):
                if self._counts(data[at + 8 : at + 25]):
                    return marker, False
                at += size + ENTRY_OVERHEAD_BYTES
            if not end:
                return marker, at >= len(data)
            marker = section
        return marker, True


def _written(segment: Readable, marker: int) -> bytes:
    """Read what is written from a marker on, up to a window of nothing but zeros."""
    found = b""
    while (window := segment.read(marker + len(found), WINDOW)).strip(b"\x00"):
        found += window
    return found.rstrip(b"\x00")
