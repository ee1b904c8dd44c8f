"""Large epochs in slices of the buckets, the same machines side by side: in Spark's tasks, or in threads.

Each step is one job: stage 0 of all base tables, each level of zones, the publications; between two lies the
full barrier that the protocol asks for, since a job ends when its last slice has. What flows between steps goes
through the driver: it is bounded by the size of an epoch.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

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
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import drive, together
from cvs.programs.stage_codec import bucket_of
from cvs.programs.stage_delta import DeltaInput
from cvs.programs.stage_publish import PutRows
from cvs.stream.door import CassandraDoor
from cvs.stream.recipe import Recipe, made

Item = TypeVar("Item")
Found = TypeVar("Found")
Job = list[tuple[int, list[Any]]]
"""A slice's work: (number of the base table or zone, its part)."""
Spread = Callable[[Callable[[Sequence[Item]], Found], Sequence[Sequence[Item]]], list[Found]]
"""Runs a function on each slice, somewhere, and returns what each returned."""
Door = Callable[[list[Any]], list[Any]]
Ready = Callable[[], tuple[Program, Door]]
"""Program and door of whoever runs a slice; what goes to Spark's tasks travels there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Into how many slices an epoch is cut, who runs them, and what they need there."""

    count: int
    spread: Any  # a `Spread`
    ready: Ready


def in_threads(function: Callable[[Sequence[Item]], Found], slices: Sequence[Sequence[Item]]) -> list[Found]:
    """Run slices in threads of this process: while one waits for the cluster, another computes."""
    with ThreadPoolExecutor(len(slices)) as threads:  # it waits for all of them, if one fails too
        return list(threads.map(function, slices))


def run_spread(
    program: Program,
    pin: Pin,
    changes: dict[str, DeltaInput],
    *,
    door: Door,
    slices: Slices,
) -> EpochResult:
    """Run one epoch with its buckets spread over slices."""
    spread, ready = slices.spread, slices.ready
    result = EpochResult(epoch=pin.epoch)
    flowing: dict[str, Bag] = {}
    looked = drive(
        together([with_expiring(base, pin, changes.get(base.name, {})) for base in program.bases]), door
    )
    parts = [
        _by_slice(it, base.buckets, slices.count) for base, it in zip(program.bases, looked, strict=True)
    ]
    moved: list[list[BaseMove]] = [[] for _ in program.bases]
    jobs = _shared(parts, range(len(parts)))
    for moves in spread(_DeltaTask(ready, pin), jobs) if jobs else ():
        for number, some in moves:
            moved[number] += some
    for base, found in zip(program.bases, moved, strict=True):
        flowing[base.name] = base_bag(result.take(base.name, found))
    for level in zone_levels(program.zones):
        tasks = []
        for zone in level:
            routed = sorted(zone.route(flowing, first=pin.first).items())
            for stage in zone.zone.stages:
                flowing[stage.name] = Bag()
            tasks.append([routed[i :: slices.count] for i in range(slices.count)])
        numbers = [program.zones.index(zone) for zone in level]
        jobs = _shared(tasks, numbers)
        for outputs in spread(_ZoneTask(ready, pin), jobs) if jobs else ():
            for name, bag in outputs.items():
                flowing[name].extend(bag)
    _publish(slices, program, pin, flowing, result)
    return result


def _publish(
    slices: Slices, program: Program, pin: Pin, flowing: dict[str, Bag], result: EpochResult
) -> None:
    count, requests = slices.count, []
    for publication, moved in shown_by(program, pin, flowing):
        shown = result.show(publication, moved)
        requests += [publication.request(shown[i::count], pin) for i in range(count) if shown[i::count]]
    if requests:
        slices.spread(
            _PublishTask(slices.ready), [requests[i::count] for i in range(count) if requests[i::count]]
        )


def publish_spread(slices: Slices, pin: Pin, view: str, found_in: Sequence[Place]) -> Whole:
    """Publish all of a view, its buckets spread over slices."""
    whole, parts = Whole(), [found_in[i :: slices.count] for i in range(slices.count)]
    for part in slices.spread(_WholeTask(slices.ready, pin, view), parts):
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


class Elsewhere:
    """Makes a recipe ready where a task runs, which like the driver sends nothing when it has slept too long (H27)."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def __call__(self) -> tuple[Program, CassandraDoor]:
        """Return program and door of this process."""
        program, door = made(self.recipe)
        deadline = Deadline(read_at=time.monotonic())
        door.check = lambda: deadline.check(time.monotonic())
        return program, door


class _DeltaTask:
    """Stage 0 over some partitions of the base tables."""

    def __init__(self, ready: Ready, pin: Pin) -> None:
        self.ready, self.pin = ready, pin

    def __call__(self, job: Job) -> list[tuple[int, list[BaseMove]]]:
        program, door = self.ready()
        bases = [program.bases[number] for number, _ in job]
        steps = [absorb_step(base, self.pin, dict(part)) for base, (_, part) in zip(bases, job, strict=True)]
        moved = drive(together(steps), door)
        return [
            (number, decoded(base, some)) for (number, _), base, some in zip(job, bases, moved, strict=True)
        ]


class _ZoneTask:
    """Zones that do not need each other, over some buckets of each."""

    def __init__(self, ready: Ready, pin: Pin) -> None:
        self.ready, self.pin = ready, pin

    def __call__(self, job: Job) -> dict[str, Bag]:
        program, door = self.ready()
        zones = [(program.zones[number], dict(part)) for number, part in job]
        steps = [zone_step(zone, program.tables[zone.name], self.pin, routed) for zone, routed in zones]
        return {name: bag for outputs in drive(together(steps), door) for name, bag in outputs.items()}


class _WholeTask:
    """All rows that some buckets hold of a view."""

    def __init__(self, ready: Ready, pin: Pin, view: str) -> None:
        self.ready, self.pin, self.view = ready, pin, view

    def __call__(self, part: Sequence[Place]) -> Whole:
        program, door = self.ready()
        publication = next(it for it in program.publications if it.publication.view == self.view)
        whole: Whole = drive(whole_step(program, publication, self.pin, part), door)
        return whole


class _PublishTask:
    """Puts of published rows."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready

    def __call__(self, part: Iterable[PutRows]) -> None:
        _, door = self.ready()
        door(list(part))
