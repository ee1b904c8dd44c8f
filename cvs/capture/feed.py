"""The feed: replayable streams of captured changes. One stream a node, in that node's order.

Positions are dense integers from 0. A reader sees a position only after it is durable, and always the same
change at it. A reader that pins positions must `hold` them: whatever no consumer holds may be collected.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from cvs.capture.changes import Change, TableDefinition
from cvs.errors import SpecificationError

ENDED = (1 << 63) - 1
"""The clock of a stream after which nothing comes: its node left the cluster. No watermark waits for it."""


def of_node(stream: str) -> bool:
    """Say whether a stream is a node's or a build's: a partition of a topic that others fill is `topic:3`."""
    return ":" not in stream


class TakenError(SpecificationError):
    """Another process captures this node, or writes this stream, already."""


class Source(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a stream's producer goes on after a restart: everything before it is durable in the feed."""

    segment: int = 0
    offset: int = 0


class Head(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream's durable end and its clock.

    `clock` (microseconds since 1970 by the node's clock): every write the node acknowledged before it
    is below `position`. The minimum over streams is the watermark; one that stands still is a stalled stream,
    one at `ENDED` will never say more.
    """

    position: int  # the next position to be written
    clock: int = 0
    source: Source = Source()


class Feed(Protocol):
    """What a consumer reads and a producer appends to. One producer a stream; consumers as many as like."""

    @property
    def silence(self) -> float:
        """Return for how many seconds somebody has waited for an answer now; other threads ask that."""

    def streams(self) -> list[str]:
        """Name the streams, sorted."""

    def head(self, stream: str) -> Head:
        """Return the durable end; raises `HistoryError` for an unknown stream."""

    def first(self, stream: str) -> int:
        """Return the oldest position still kept."""

    def read(self, stream: str, start: int, limit: int) -> list[Change]:
        """Return up to `limit` durable changes at positions `start`, `start + 1`, ...; fewer only at the end.

        Raises `HistoryError` if `start` was already collected, or if what is stored is damaged.
        """

    def definition(self, reference: str) -> TableDefinition:
        """Return the definition a change names."""

    def hold(self, consumer: str, positions: Mapping[str, int]) -> None:
        """Declare that a consumer still needs these positions and all after them (durable, monotone)."""

    def knows(self, consumer: str) -> bool:
        """Say whether a consumer held something here; yes where nobody keeps that."""

    def release(self, consumer: str) -> None:
        """Take back what a consumer held: it is no more."""

    def define(self, definition: TableDefinition) -> str:
        """Store a definition (idempotent, durable) and return its reference."""

    def append(self, stream: str, changes: Sequence[Change], *, source: Source, clock: int) -> Head:
        """Append durably; with no changes it only moves the clock and the source. Returns the new head."""

    def collect(self) -> int:
        """Delete what every consumer has passed; with no consumer, nothing. Returns bytes freed."""
