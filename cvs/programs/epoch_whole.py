"""All rows of a view from what its incarnation keeps: how a view that was built is shown for the first time.

Bucket by bucket, so a view of any size is never in memory as a whole. The epoch that does it is pinned like any
other (`Pin.publishing`), after its own changes are in the state, and may be repeated: the puts carry its number.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import BaseReader, Program, row_of
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import ReadBucket
from cvs.programs.stage_delta import ReadImages, split
from cvs.programs.stage_publish import PublishCompute, Shown
from cvs.programs.stage_state import State
from cvs.programs.stage_zone import ZoneCompute
from cvs.programs.stored import decode_row

SHOWN_MAX = 50_000
"""Rows of which a record is kept: what bounds memory, and what a judged history may begin with."""


@dataclass(slots=True)
class Whole:
    """What was published of a view: how many rows, and the rows themselves unless they are too many."""

    count: int = 0
    shown: list[Shown] = field(default_factory=list)

    def add(self, count: int, shown: list[Shown]) -> None:
        """Add what some more buckets hold; rows that cannot be shown are always kept, for the quarantine."""
        self.count += count
        self.shown += shown
        if self.count > SHOWN_MAX:
            self.shown = [it for it in self.shown if it.refused]


Place = tuple[str, int]
"""A source of a publication (a stage, or a base table) and a bucket of it."""


def places(program: Program, publication: PublishCompute) -> list[Place]:
    """Name every bucket that holds rows of a view."""
    zones = {stage.name: zone for zone in program.zones for stage in zone.zone.stages}
    bases = {base.name: base for base in program.bases}
    sources = sorted({edge.source for edge in publication.publication.inputs})
    return [
        (source, bucket)
        for source in sources
        for bucket in range(zones[source].zone.buckets if source in zones else bases[source].buckets)
    ]


def whole_step(
    program: Program, publication: PublishCompute, pin: Pin, found_in: Iterable[Place]
) -> Generator[list[Any], list[Any], Whole]:
    """Publish what some buckets hold of a view."""
    zones = {stage.name: zone for zone in program.zones for stage in zone.zone.stages}
    bases = {base.name: base for base in program.bases}
    whole = Whole()
    for source, bucket in found_in:
        zone = zones.get(source)
        if zone is None:
            contents = yield from _base_rows(bases[source], bucket)
        else:
            contents = yield from _stage_rows(zone, source, program.tables[zone.name], bucket)
        shown = publication.shown({source: contents})
        if shown:
            whole.add(sum(not it.refused for it in shown), shown)
            yield [publication.request(shown, pin)]
    return whole


def _base_rows(base: BaseReader, bucket: int) -> Generator[list[Any], list[Any], Bag]:
    (images,) = yield [ReadImages(table=base.delta, bucket=bucket, prefixes=(b"",))]
    found = Bag()
    for key, image in images.items():
        partition, clustering = split(key)
        row = None if clustering is None else decode_row(image)
        if row is not None and row.now is not None:
            values, _ = row_of(base, partition, clustering or b"", row.now)
            if values is not None:  # one that cannot be read contributes nothing (H24)
                found.add(values, 1)
    return found


def _stage_rows(
    zone: ZoneCompute, stage: str, table: str, bucket: int
) -> Generator[list[Any], list[Any], Bag]:
    (found,) = yield [ReadBucket(table=table, bucket=bucket, prefixes=zone.prefixes(stage))]
    rows = {key: row.now for key, row in found.rows.items() if row.alive}
    state = State(rows=rows, keys=set(), prefixes=set(), everything=True)
    return zone.rows(stage, state)
