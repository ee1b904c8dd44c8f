"""A snapshot read: a whole view as of one committed epoch, as a machine (PROTOCOL section 5).

A state row keeps its image before the epoch that wrote it, so the state as of the committed epoch can be read
while the next one is being written. The committed epoch is read before and after; only if it did not move is
what was read a snapshot: a row may have been collected, or moved on twice, under a slow reader (H20, H21).
"""

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from cvs.programs.epoch import read_control
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import SENTINEL, BucketRead, ReadBucket
from cvs.programs.stage_codec import Value, Values
from cvs.programs.stage_publish import PublishCompute
from cvs.programs.stage_state import State
from cvs.programs.stage_zone import ZoneCompute

SnapshotMachine = Generator[list[Any], list[Any], dict[Values, Values] | None]
RowsMachine = Generator[list[ReadBucket], list[BucketRead], dict[Values, Values]]


class MovedOnError(Exception):
    """The pipeline went on under the reader."""


class SnapshotReader:
    """Reads one view from the state of the zones it is published from."""

    def __init__(
        self, publication: PublishCompute, zones: Iterable[ZoneCompute], tables: Mapping[str, str]
    ) -> None:
        """`tables`: zone -> state table."""
        self.publication = publication
        of_stage = {stage.name: zone for zone in zones for stage in zone.zone.stages}
        sources = dict.fromkeys(edge.source for edge in publication.publication.inputs)
        self.possible = all(source in of_stage for source in sources)
        self._sources = [(s, of_stage[s], tables[of_stage[s].name]) for s in sources if s in of_stage]

    def read(self, *, reread: bool = True) -> SnapshotMachine:
        """Read bucket by bucket; None: the pipeline moved on, or the view keeps no state to read."""
        if not self.possible:
            return None
        epoch = (yield from read_control()).committed
        try:
            rows = yield from self.rows(epoch, strict=reread)
        except MovedOnError:
            return None
        if reread and (yield from read_control()).committed != epoch:
            return None
        return rows

    def rows(self, epoch: int, *, key: Values | None = None, strict: bool = True) -> RowsMachine:
        """Return the view's rows as of an epoch; with a key, perhaps only some of them, that one surely.

        They are a snapshot only if the epoch still is the committed one afterwards.
        """
        contents: dict[str, Bag] = {}
        for source, zone, table in self._sources:
            known = {} if key is None else self._known(source, key)
            place = zone.place(source, known) if known else None
            buckets, prefixes = (range(zone.zone.buckets), ()) if place is None else ((place[0],), place[1])
            bag = contents[source] = Bag()
            for bucket in buckets:
                (found,) = yield [
                    ReadBucket(table=table, bucket=bucket, prefixes=prefixes or zone.prefixes(source))
                ]
                rows = _as_of(found, epoch, strict=strict)
                state = State(rows=rows, keys=set(), prefixes=set(), everything=True)
                bag.extend(zone.rows(source, state))
        return {self.publication.key_of(row): row for row, _ in self.publication.rows(contents)}

    def _known(self, source: str, key: Values) -> dict[str, Value]:
        """Return what a key says of a source's columns, where all edges from it say the same."""
        edges = (edge for edge in self.publication.publication.inputs if edge.source == source)
        first, *others = (self.publication.known(edge, key) for edge in edges)
        return {
            name: value
            for name, value in first.items()
            if all(name in other and other[name] is value for other in others)
        }


def _as_of(found: BucketRead, epoch: int, *, strict: bool) -> dict[bytes, bytes]:
    """Return the live values of a bucket as of a committed epoch."""
    rows = {}
    for key, row in found.rows.items():
        if key == SENTINEL:
            continue
        if strict and row.epoch > epoch + 1:
            raise MovedOnError
        value, there = (row.now, row.alive) if row.epoch <= epoch else (row.before, row.alive_before)
        if there:
            rows[key] = value
    return rows
