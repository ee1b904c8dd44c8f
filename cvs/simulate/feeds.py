"""What surrounds a pipeline in a world of epochs: its door, its tables' names, the log its base writes leave."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cvs.model.stages import Publication
from cvs.model.views import BaseTable
from cvs.programs.delta import Cell, Deletion, Liveness, RowImage
from cvs.programs.epoch_run import BaseReader
from cvs.programs.machine import Key, Row
from cvs.programs.stage_codec import Values, pack, unpack

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
