"""Large epochs in Spark's tasks: the same machines, over slices of the buckets.

Each step is one Spark job: stage 0, each zone, the publications; between two lies the full barrier that the
protocol asks for, since a job ends when its last task has. What flows between steps goes through the driver:
it is bounded by the size of an epoch.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import BaseMove, EpochResult, Program, base_bag, decoded, delta_step, zone_step
from cvs.programs.stage_bucket import Bag, drive
from cvs.programs.stage_codec import Values, bucket_of
from cvs.programs.stage_delta import DeltaInput
from cvs.programs.stage_publish import PutRows
from cvs.programs.stage_zone import BucketInput
from cvs.stream.recipe import Recipe, made

Item = TypeVar("Item")
Found = TypeVar("Found")
Pairs = list[tuple[Values, int]]
Spread = Callable[[Callable[[Sequence[Item]], Found], Sequence[Sequence[Item]]], list[Found]]
"""Runs a function on each slice, somewhere, and returns what each returned."""


def run_spread(
    recipe: Recipe, pin: Pin, changes: dict[str, DeltaInput], *, spread: Any, slices: int
) -> EpochResult:
    """Run one epoch with its buckets spread over tasks; `spread` is a `Spread`."""
    program, _ = made(recipe)
    result = EpochResult(epoch=pin.epoch)
    flowing: dict[str, Bag] = {}
    for number, base in enumerate(program.bases):
        parts = _by_slice(changes.get(base.name, {}), base.buckets, slices)
        moves: list[list[BaseMove]] = spread(_DeltaTask(recipe, pin, number), parts)
        result.bases[base.name] = [move for part in moves for move in part]
        flowing[base.name] = base_bag(result.bases[base.name])
    for number, zone in enumerate(program.zones):
        routed = sorted(zone.route(flowing, first=pin.first).items())
        result.buckets += len(routed)
        for stage in zone.zone.stages:
            flowing[stage.name] = Bag()
        if routed:
            tasks = [
                [(bucket, _pairs(entered)) for bucket, entered in routed[i::slices]] for i in range(slices)
            ]
            for outputs in spread(_ZoneTask(recipe, pin, number), [task for task in tasks if task]):
                for name, pairs in outputs.items():
                    flowing[name].extend(Bag(pairs))
    _publish(recipe, program, pin, flowing, result, spread=spread, slices=slices)
    return result


def _publish(
    recipe: Recipe,
    program: Program,
    pin: Pin,
    flowing: dict[str, Bag],
    result: EpochResult,
    *,
    spread: Any,
    slices: int,
) -> None:
    requests = []
    for publication in program.publications:
        shown = result.shown[publication.publication.table] = publication.shown(flowing)
        requests += [
            publication.request(shown[i::slices], pin.epoch) for i in range(slices) if shown[i::slices]
        ]
    if requests:
        spread(_PublishTask(recipe), [requests[i::slices] for i in range(slices) if requests[i::slices]])


def _by_slice(changes: DeltaInput, buckets: int, slices: int) -> list[list[tuple[bytes, Any]]]:
    parts: list[list[tuple[bytes, Any]]] = [[] for _ in range(slices)]
    for partition, it in changes.items():
        parts[bucket_of(partition, buckets) % slices].append((partition, it))
    parts[0] = parts[0] or []
    return [part for i, part in enumerate(parts) if part or i == 0]


def _pairs(entered: BucketInput) -> dict[tuple[int, int], Pairs]:
    return {place: list(bag) for place, bag in entered.items()}


class _DeltaTask:
    """Stage 0 over some partitions of one base table; what expires is looked for by the first slice only."""

    def __init__(self, recipe: Recipe, pin: Pin, number: int) -> None:
        self.recipe, self.pin, self.number = recipe, pin, number

    def __call__(self, part: Sequence[tuple[bytes, Any]]) -> list[BaseMove]:
        program, door = made(self.recipe)
        base = program.bases[self.number]
        return decoded(base, drive(delta_step(base, self.pin, dict(part)), door))


class _ZoneTask:
    """One zone over some buckets."""

    def __init__(self, recipe: Recipe, pin: Pin, number: int) -> None:
        self.recipe, self.pin, self.number = recipe, pin, number

    def __call__(self, part: Sequence[tuple[int, dict[tuple[int, int], Pairs]]]) -> dict[str, Pairs]:
        program, door = made(self.recipe)
        zone = program.zones[self.number]
        routed = {bucket: {place: Bag(pairs) for place, pairs in sides.items()} for bucket, sides in part}
        outputs = drive(zone_step(zone, program.tables[zone.name], self.pin, routed), door)
        return {name: list(bag) for name, bag in outputs.items()}


class _PublishTask:
    """Puts of published rows."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def __call__(self, part: Iterable[PutRows]) -> None:
        _, door = made(self.recipe)
        door(list(part))
