"""What surrounds a pipeline in a world of epochs: its door, its tables' names, the log its base writes leave."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cvs.model.stages import Publication
from cvs.model.views import BaseTable
from cvs.programs.delta import Cell, Deletion, Liveness, RowImage
from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import BaseReader
from cvs.programs.line import Line, admit, times
from cvs.programs.machine import Key, Row
from cvs.programs.stage_codec import Values, pack, unpack
from cvs.programs.stage_delta import DeltaInput, PartitionChanges

DELTA_BUCKETS = 2


class Door(Protocol):
    """Where requests go: `programs.stage_memory` or `stream.door`, with a look at what people see."""

    def __call__(self, requests: list[Any], /) -> list[Any]:
        """Carry out a round."""
        ...

    def showing(self, table: str, /) -> Mapping[Values, Values]:
        """Return the rows of a published table, by key."""
        ...


class Naming(Protocol):
    """Names of the tables of a pipeline."""

    def state(self, zone: str, /) -> str:
        """Return the table of a zone's state."""
        ...

    def delta(self, base: str, /) -> str:
        """Return the table of a base table's DELTA."""
        ...


class PlainNames:
    """Names in memory."""

    def state(self, zone: str) -> str:
        """Return the zone's own name."""
        return zone

    def delta(self, base: str) -> str:
        """Return a name no zone has."""
        return f"delta {base}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One base write as a replica's log has it."""

    table: str
    partition: bytes
    clustering: bytes
    image: RowImage


def logged(base: BaseTable, key: Key, before: Row | None, after: Row | None, *, written: int) -> Written:
    """Return what a base write leaves in a replica's log."""
    return Written(
        table=base.name,
        partition=pack(key[: len(base.partition_key)]),
        clustering=pack(key[len(base.partition_key) :]) if base.clustering_key else b"",
        image=image_of(base, before, after, written=written),
    )


class Apart:
    """Two replicas whose logs differ: a write is in one of them first, and logs come into the feed when they come.

    Numbers of writes are their times; clocks agree, so the skew bound is nothing.
    """

    def __init__(self, feed: dict[str, list[Written]], *, off: tuple[str, ...]) -> None:
        """Begin with what is in the feed, of both replicas; `off`: rules turned off."""
        self._feed, self.on_line = feed, "write-time-line" not in off
        self._behind: dict[str, list[Written]] = {stream: [] for stream in feed}  # logged, not in the feed
        self._copies: list[tuple[str, Written]] = []  # that a replica has not got yet
        self.last = len(feed["a"])

    @property
    def quiet(self) -> bool:
        """Say whether everything is in the feed."""
        return not self._copies and not any(self._behind.values())

    def write(self, written: Written) -> None:
        """Let the replicas take turns in having a write first."""
        self.last += 1
        first, other = ("a", "b") if self.last % 2 else ("b", "a")
        self._behind[first].append(written)
        self._copies.append((other, written))

    def go_on(self, turn: int) -> bool:
        """Let one log go on into the feed, or one copy come to the other replica's log; False: all is done."""
        return any(self._goes_on((turn + one) % 3) for one in range(3))

    def _goes_on(self, which: int) -> bool:
        if which == 2:
            if not self._copies:
                return False
            stream, copy = self._copies.pop(0)
            self._behind[stream].append(copy)
            return True
        stream = "ab"[which]
        if not self._behind[stream]:
            return False
        self._feed[stream].append(self._behind[stream].pop(0))
        return True

    def next_pin(self, last: Pin) -> Pin | None:
        """Pin what is in the feed, up to the last write before which all are; None: no further than before."""
        before = last.line.upto if last.line else 0
        behind = [max(times(it.image)) for log in self._behind.values() for it in log]
        upto = min(behind, default=self.last + 1) - 1
        if upto <= before:
            return None
        held = {}
        for stream, log in self._feed.items():
            until = last.until.get(stream, 0)
            waiting = (at for at, it in enumerate(log[:until]) if max(times(it.image)) > before)
            held[stream] = next(waiting, until)
        return Pin(
            epoch=last.epoch + 1,
            first=last.epoch == 0,
            since=last.until,
            until={stream: len(log) for stream, log in self._feed.items()},
            line=Line(before=before, upto=upto, held=held),
        )

    def input(self, line: Line, pin: Pin) -> dict[str, DeltaInput]:
        """Return what an epoch takes of the feed."""
        found: dict[str, DeltaInput] = {}
        for stream, log in self._feed.items():
            for at in range(line.held.get(stream, 0), pin.until.get(stream, 0)):
                it, fresh = log[at], at >= pin.since.get(stream, 0)
                change = {it.partition: PartitionChanges(rows={it.clustering: [it.image]})}
                admit(change, found.setdefault(it.table, {}), line, fresh=fresh)
        return found


def key_places(publication: Publication) -> tuple[int, ...]:
    """Return where the primary key stands in the rows of a published table."""
    names = [name for name, _ in publication.columns]
    return tuple(names.index(name) for name in publication.key)


def image_of(base: BaseTable, before: Row | None, after: Row | None, *, written: int) -> RowImage:
    """Return what a write leaves in the log: a whole row for an insert, the changed cells for an update."""
    if after is None:
        return RowImage(deletion=Deletion(written))
    names = [name for name, _ in base.columns if name not in base.key]
    changed = [n for n in names if before is None or pack((before[n],)) != pack((after[n],))] or names
    cells = tuple(
        (name, b"", Cell(written, None if after[name] is None else pack((after[name],))))
        for name in sorted(changed)
    )
    return RowImage(Liveness(written) if before is None or not cells else None, None, cells)


def base_reader(base: BaseTable, delta: str) -> BaseReader:
    """Return how rows of a base table are read back from the world's own bytes."""
    names = [name for name, _ in base.columns]

    def decode(partition: bytes, clustering: bytes, visible: Any) -> Values:
        key = (*unpack(partition), *(unpack(clustering) if clustering else ()))
        values = dict(zip(base.key, key, strict=True)) | {c: unpack(v)[0] for c, v in visible.items()}
        return tuple(values.get(name) for name in names)

    return BaseReader(name=base.name, delta=delta, buckets=DELTA_BUCKETS, decode=decode)
