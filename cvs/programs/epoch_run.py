"""One epoch from its pin to just before its commit, over the whole plan: stage 0, zones, publications.

A machine like the others: it yields rounds of requests and is sent their answers; requests of one round may be
carried out in any order or side by side. Between two steps lies a full barrier: the next round is asked for
only when every answer of the last has come (PROTOCOL section 2).
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.model.stages import Plan
from cvs.programs.delta import Inside, Visible, no_ranges
from cvs.programs.epoch import Pin
from cvs.programs.stage_bucket import ALL_RULES, Bag, Rules, State, run_bucket, together
from cvs.programs.stage_codec import Values, bucket_of
from cvs.programs.stage_delta import DeltaInput, Moved, PartitionChanges, due_between, run_delta
from cvs.programs.stage_publish import PublishCompute, Shown
from cvs.programs.stage_zone import BucketInput, ZoneCompute

DecodeRow = Callable[[bytes, bytes, Visible], Values]
"""From (partition, clustering, visible columns) to a row in the order of the base table's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseReader:
    """What only the schema of a base table knows."""

    name: str
    delta: str  # name of its DELTA table
    buckets: int
    decode: DecodeRow
    headers: bool = False
    inside: Inside = no_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A plan made ready to run."""

    plan: Plan
    bases: tuple[BaseReader, ...]
    zones: tuple[ZoneCompute, ...]
    tables: Mapping[str, str]  # zone -> state table
    publications: tuple[PublishCompute, ...]

    @classmethod
    def of(cls, plan: Plan, bases: Iterable[BaseReader], tables: Mapping[str, str]) -> "Program":
        """Make a plan ready."""
        return cls(
            plan=plan,
            bases=tuple(bases),
            zones=tuple(ZoneCompute(zone, plan) for zone in plan.zones),
            tables=tables,
            publications=tuple(PublishCompute(p, plan) for p in plan.publications),
        )


@dataclass(frozen=True, slots=True)
class BaseMove:
    """One base row moved; `written` is the latest write in its image."""

    written: int
    before: Values | None
    now: Values | None


@dataclass(slots=True, kw_only=True)
class EpochResult:
    """What an epoch did: which base rows and which view records moved."""

    epoch: int
    bases: dict[str, list[BaseMove]] = field(default_factory=dict)
    shown: dict[str, list[Shown]] = field(default_factory=dict)
    buckets: int = 0


EpochMachine = Generator[list[Any], list[Any], EpochResult]


def run_epoch(
    program: Program, pin: Pin, changes: Mapping[str, DeltaInput], *, rules: Rules = ALL_RULES
) -> EpochMachine:
    """Bring every state and published table to the pinned epoch; `changes` are the pinned changes by table."""
    result = EpochResult(epoch=pin.epoch)
    flowing: dict[str, Bag] = {}
    steps = [delta_step(base, pin, changes.get(base.name, {})) for base in program.bases]
    for base, moved in zip(program.bases, (yield from together(steps)), strict=True):
        result.bases[base.name] = moves = decoded(base, moved)
        flowing[base.name] = base_bag(moves)
    for level in zone_levels(program.zones):
        machines = []
        for zone in level:
            routed = zone.route(flowing, first=pin.first)
            machines.append(zone_step(zone, program.tables[zone.name], pin, routed, rules=rules))
            result.buckets += len(routed)
        for outputs in (yield from together(machines)):
            flowing.update(outputs)
    requests = []
    for publication in program.publications:
        shown = result.shown[publication.publication.table] = publication.shown(flowing)
        if shown:
            requests.append(publication.request(shown, pin.epoch))
    if requests:
        yield requests
    return result


def zone_levels(zones: Iterable[ZoneCompute]) -> list[list[ZoneCompute]]:
    """Group zones, in their order, so that none needs what another of its group makes: those run side by side."""
    levels: list[list[ZoneCompute]] = []
    made: dict[str, int] = {}
    for zone in zones:
        level = max((made[source] + 1 for source in zone.sources if source in made), default=0)
        made |= {stage.name: level for stage in zone.zone.stages}
        if level == len(levels):
            levels.append([])
        levels[level].append(zone)
    return levels


def delta_step(
    base: BaseReader, pin: Pin, changes: DeltaInput
) -> Generator[list[Any], list[Any], list[Moved]]:
    """Run stage 0 of one base table, with what expires."""
    everything = yield from with_expiring(base, pin, changes)
    return (yield from absorb_step(base, pin, everything))


def with_expiring(
    base: BaseReader, pin: Pin, changes: DeltaInput
) -> Generator[list[Any], list[Any], DeltaInput]:
    """Add the rows of which something expires in this epoch: once an epoch, whoever absorbs them."""
    due = yield from due_between(base.delta, pin.clock_before, pin.clock)
    everything = dict(changes)
    for partition, clustering in due:
        it = everything.setdefault(partition, PartitionChanges())
        it.rows.setdefault(clustering, [])
    return everything


def absorb_step(
    base: BaseReader, pin: Pin, changes: DeltaInput
) -> Generator[list[Any], list[Any], list[Moved]]:
    """Absorb the changes of some partitions, all buckets side by side."""
    machines = []
    for bucket, part in sorted(_by_bucket(base, changes).items()):
        machine = run_delta(
            part,
            table=base.delta,
            bucket=bucket,
            epoch=pin.epoch,
            clock=pin.clock,
            headers=base.headers,
            inside=base.inside,
        )
        machines.append(machine)
    moved = yield from together(machines)
    return [one for part in moved for one in part]


def _by_bucket(base: BaseReader, changes: DeltaInput) -> dict[int, DeltaInput]:
    buckets: dict[int, DeltaInput] = {}
    for partition, it in changes.items():
        buckets.setdefault(bucket_of(partition, base.buckets), {})[partition] = it
    return buckets


def decoded(base: BaseReader, moved: Iterable[Moved]) -> list[BaseMove]:
    """Read the rows of what moved."""
    moves = []
    for partition, it in moved:
        before = None if it.before is None else base.decode(partition, it.clustering, it.before)
        now = None if it.now is None else base.decode(partition, it.clustering, it.now)
        moves.append(BaseMove(it.written, before, now))
    return moves


def base_bag(moves: Iterable[BaseMove]) -> Bag:
    """Return the moves of base rows as changes of a bag."""
    bag = Bag()
    for move in moves:
        if move.before is not None:
            bag.add(move.before, -1)
        if move.now is not None:
            bag.add(move.now, 1)
    return bag


def zone_step(
    zone: ZoneCompute, table: str, pin: Pin, routed: Mapping[int, BucketInput], *, rules: Rules = ALL_RULES
) -> Generator[list[Any], list[Any], dict[str, Bag]]:
    """Run one zone, its touched buckets side by side; one test-and-set a bucket."""
    machines = [
        run_bucket(
            _with(zone, entered),
            table=table,
            bucket=bucket,
            incarnation=pin.incarnation,
            epoch=pin.epoch,
            rules=rules,
        )
        for bucket, entered in sorted(routed.items())
    ]
    outputs: dict[str, Bag] = {stage.name: Bag() for stage in zone.zone.stages}
    for out in (yield from together(machines)):
        for name, bag in out.items():
            outputs[name].extend(bag)
    return outputs


def _with(zone: ZoneCompute, entered: BucketInput) -> Callable[[State], dict[str, Bag]]:
    return lambda state: zone.compute(state, entered)
