"""Large epochs in Spark's tasks: the same machines, over slices of the buckets.

Each step is one Spark job: stage 0 of all base tables, each level of zones, the publications; between two lies the
full barrier that the protocol asks for, since a job ends when its last task has. What flows between steps goes
through the driver: it is bounded by the size of an epoch.
"""

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from cvs.programs.epoch import Deadline, Pin
from cvs.programs.epoch_run import (
    BaseMove,
    EpochResult,
    Program,
    absorb_step,
    base_bag,
    decoded,
    shown_by,
    with_expiring,
    zone_levels,
    zone_step,
)
from cvs.programs.epoch_whole import Place, Whole, whole_step
from cvs.programs.stage_bag import Bag, Changes
from cvs.programs.stage_bucket import drive, together
from cvs.programs.stage_codec import bucket_of
from cvs.programs.stage_delta import DeltaInput, PartitionChanges
from cvs.programs.stage_publish import PutRows
from cvs.stream.door import CassandraDoor
from cvs.stream.recipe import Recipe, made

Item = TypeVar("Item")
Found = TypeVar("Found")
Job = list[tuple[int, list[Any]]]
"""A slice's work: (number of the base table or zone, its part)."""
Spread = Callable[[Callable[[Sequence[Item]], Found], Sequence[Sequence[Item]]], list[Found]]
"""Runs a function on each slice, somewhere, and returns what each returned."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[bytes, PartitionChanges]]).decode


def uncollected(function: Callable[[Item], Found]) -> Callable[[Item], Found]:
    """Return a function that runs without a search for cycles: rows make none, and it took a third of the time."""

    def run(item: Item) -> Found:
        gc.disable()
        try:
            return function(item)
        finally:
            gc.enable()

    return run


def run_spread(
    recipe: Recipe,
    pin: Pin,
    changes: dict[str, DeltaInput],
    *,
    door: Callable[[list[Any]], list[Any]],
    spread: Any,
    slices: int,
) -> EpochResult:
    """Run one epoch with its buckets spread over tasks; `spread` is a `Spread`."""
    program, _ = made(recipe)
    result = EpochResult(epoch=pin.epoch)
    flowing: dict[str, Changes] = {}
    looked = drive(
        together([with_expiring(base, pin, changes.get(base.name, {})) for base in program.bases]), door
    )
    parts = [_by_slice(it, base.buckets, slices) for base, it in zip(program.bases, looked, strict=True)]
    moved: list[list[BaseMove]] = [[] for _ in program.bases]
    shared = _shared(parts, range(len(parts)))
    packed = [[(number, _encode(part)) for number, part in job] for job in shared]
    for moves in spread(_DeltaTask(recipe, pin), packed) if packed else ():
        for number, some in moves:
            moved[number] += some
    for base, found in zip(program.bases, moved, strict=True):
        flowing[base.name] = base_bag(result.take(base.name, found))
    for level in zone_levels(program.zones):
        tasks = []
        made_here = {stage.name: Bag() for zone in level for stage in zone.zone.stages}
        for zone in level:
            routed = sorted(zone.route(flowing, first=pin.first).items())
            tasks.append([routed[i::slices] for i in range(slices)])
        numbers = [program.zones.index(zone) for zone in level]
        jobs = _shared(tasks, numbers)
        for outputs in spread(_ZoneTask(recipe, pin), jobs) if jobs else ():
            for name, bag in outputs.items():
                made_here[name].extend(bag)
        flowing |= made_here
    _publish(recipe, program, pin, flowing, result, spread=spread, slices=slices)
    return result


def _publish(
    recipe: Recipe,
    program: Program,
    pin: Pin,
    flowing: dict[str, Changes],
    result: EpochResult,
    *,
    spread: Any,
    slices: int,
) -> None:
    requests = []
    for publication, moved in shown_by(program, pin, flowing):
        shown = result.show(publication, moved)
        requests += [publication.request(shown[i::slices], pin) for i in range(slices) if shown[i::slices]]
    if requests:
        spread(_PublishTask(recipe), [requests[i::slices] for i in range(slices) if requests[i::slices]])


def publish_spread(
    recipe: Recipe, pin: Pin, view: str, slices: Sequence[Sequence[Place]], *, spread: Any
) -> Whole:
    """Publish all of a view, its buckets spread over tasks."""
    whole = Whole()
    for part in spread(_WholeTask(recipe, pin, view), slices):
        whole.add(part.count, part.shown)
    return whole


def _by_slice(changes: DeltaInput, buckets: int, slices: int) -> list[list[Any]]:
    parts: list[list[Any]] = [[] for _ in range(slices)]
    for partition, it in changes.items():
        parts[bucket_of(partition, buckets) % slices].append((partition, it))
    return parts


def _shared(parts: Sequence[list[list[Any]]], numbers: Sequence[int]) -> list[Job]:
    """Give each slice its part of every table: one Spark job for all of them; empty slices are left out."""
    named = list(zip(numbers, parts, strict=True))
    jobs = [[(number, part[i]) for number, part in named if part[i]] for i in range(len(parts[0]))]
    return [job for job in jobs if job]


def _ready(recipe: Recipe) -> tuple[Program, CassandraDoor]:
    """Return program and door of a task, which like the driver sends nothing when it has slept too long (H27)."""
    program, door = made(recipe)
    deadline = Deadline(read_at=time.monotonic())
    door.check = lambda: deadline.check(time.monotonic())
    return program, door


class _DeltaTask:
    """Stage 0 over some partitions of the base tables: as MessagePack, which costs a tenth of pickling them."""

    def __init__(self, recipe: Recipe, pin: Pin) -> None:
        self.recipe, self.pin = recipe, pin

    def __call__(self, job: list[tuple[int, bytes]]) -> list[tuple[int, list[BaseMove]]]:
        program, door = _ready(self.recipe)
        bases = [program.bases[number] for number, _ in job]
        parts = [dict(_decode(part)) for _, part in job]
        steps = [absorb_step(base, self.pin, part) for base, part in zip(bases, parts, strict=True)]
        moved = drive(together(steps), door)
        return [
            (number, decoded(base, some)) for (number, _), base, some in zip(job, bases, moved, strict=True)
        ]


class _ZoneTask:
    """Zones that do not need each other, over some buckets of each."""

    def __init__(self, recipe: Recipe, pin: Pin) -> None:
        self.recipe, self.pin = recipe, pin

    def __call__(self, job: Job) -> dict[str, Bag]:
        program, door = _ready(self.recipe)
        zones = [(program.zones[number], dict(part)) for number, part in job]
        steps = [zone_step(zone, program.tables[zone.name], self.pin, routed) for zone, routed in zones]
        return {name: bag for outputs in drive(together(steps), door) for name, bag in outputs.items()}


class _WholeTask:
    """All rows that some buckets hold of a view."""

    def __init__(self, recipe: Recipe, pin: Pin, view: str) -> None:
        self.recipe, self.pin, self.view = recipe, pin, view

    def __call__(self, part: Sequence[Place]) -> Whole:
        program, door = _ready(self.recipe)
        publication = next(it for it in program.publications if it.publication.view == self.view)
        whole = Whole()
        for place in part:
            found = drive(whole_step(program, publication, self.pin, [place]), door)
            whole.add(found.count, found.shown)
            gc.collect(0)  # because the driver leaves its requests in cycles: 100,000 for a million rows
        return whole


class _PublishTask:
    """Puts of published rows."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def __call__(self, part: Iterable[PutRows]) -> None:
        _, door = _ready(self.recipe)
        door(list(part))
