"""One epoch from its pin to just before its commit, over the whole plan: stage 0, zones, publications.

A machine like the others: it yields rounds of requests and is sent their answers; requests of one round may be
carried out in any order or side by side. Between two steps lies a full barrier: the next round is asked for
only when every answer of the last has come (PROTOCOL section 2).
"""

import zlib
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.errors import CvsError
from cvs.model.stages import Plan
from cvs.programs.delta import Doubt, Inside, Visible, no_ranges
from cvs.programs.epoch import LIVE, Pin
from cvs.programs.stage_bag import Bag, Changes, Unpacked
from cvs.programs.stage_bucket import ALL_RULES, Rules, run_bucket, together
from cvs.programs.stage_codec import Value, Values, bucket_of
from cvs.programs.stage_delta import (
    DeltaInput,
    Moved,
    PartitionChanges,
    drops_between,
    due_between,
    run_delta,
    untimely_rows,
)
from cvs.programs.stage_publish import PublishCompute, Publishing, Shown
from cvs.programs.stage_state import State
from cvs.programs.stage_zone import BucketInput, ZoneCompute

KEY_SHOWN_MAX = 200
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
    publishing: Publishing

    @classmethod
    def of(cls, plan: Plan, bases: Iterable[BaseReader], tables: Mapping[str, str]) -> "Program":
        """Make a plan ready."""
        publications = tuple(PublishCompute(p, plan) for p in plan.publications)
        return cls(
            plan=plan,
            bases=tuple(bases),
            zones=tuple(ZoneCompute(zone, plan) for zone in plan.zones),
            tables=tables,
            publications=publications,
            publishing=Publishing(publications, plan),
        )


@dataclass(frozen=True, slots=True)
class BaseMove:
    """One base row moved; `written` is the latest write in its image."""

    written: int
    before: Values | None
    now: Values | None
    doubt: "RowInDoubt | None" = None
    quarantined: "Quarantined | None" = None
    untimely: bool = False  # it has no claim to the write-time line any more (H12)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A base row that cannot be read, or a view row that cannot be shown: it contributes nothing (H24).

    What is in quarantine follows from the state alone, so a replay finds the same; it leaves when it changes.
    """

    source: str  # the base table, or the view
    key: str
    reason: str  # empty: it is no longer


@dataclass(frozen=True, slots=True)
class RowInDoubt:
    """A base row (or, without clustering, the statics of a partition) that must be read again, and why."""

    table: str
    partition: bytes
    clustering: bytes
    doubt: Doubt


@dataclass(slots=True, kw_only=True)
class EpochResult:
    """What an epoch did: which base rows and which view records moved."""

    epoch: int
    bases: dict[str, list[BaseMove]] = field(default_factory=dict)
    shown: dict[str, list[Shown]] = field(default_factory=dict)
    doubts: list[RowInDoubt] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    untimely: dict[str, int] = field(
        default_factory=dict
    )  # base table -> rows that have no claim any more (H12)
    stopped: dict[str, str] = field(default_factory=dict)  # base tables that nothing can follow any more
    rows: dict[str, int] = field(default_factory=dict)  # view -> rows, where all of it was published

    def take(self, table: str, moves: Iterable[BaseMove]) -> list[BaseMove]:
        """Note what moved in a base table, and what is in doubt."""
        found = list(moves)
        self.doubts += [move.doubt for move in found if move.doubt is not None]
        self.quarantined += [move.quarantined for move in found if move.quarantined is not None]
        if untimely := sum(move.untimely for move in found):
            self.untimely[table] = untimely
        self.bases[table] = [move for move in found if move.before is not None or move.now is not None]
        return self.bases[table]

    def show(self, publication: PublishCompute, found: list[Shown]) -> list[Shown]:
        """Note which rows of a view moved; return those that can be shown."""
        view = publication.publication
        for it in found:
            if it.refused:
                reason = it.refused if it.now is not None else ""
                self.quarantined.append(Quarantined(view.view, told_key(it.key), reason))
        self.shown[view.table] = [it for it in found if not it.refused]
        return self.shown[view.table]


def shortened(text: str) -> str:
    """Return a key as people read it; long ones end in their checksum, so that they stay different."""
    return (
        text if len(text) <= KEY_SHOWN_MAX else f"{text[:KEY_SHOWN_MAX]}... {zlib.crc32(text.encode()):08x}"
    )


def told_key(key: Iterable[Value]) -> str:
    """Return the key of a row as the quarantine tells it."""
    return shortened(repr(tuple(key)))


EpochMachine = Generator[list[Any], list[Any], EpochResult]


def run_epoch(
    program: Program, pin: Pin, changes: Mapping[str, DeltaInput], *, rules: Rules = ALL_RULES
) -> EpochMachine:
    """Bring every state and published table to the pinned epoch; `changes` are the pinned changes by table."""
    result = EpochResult(epoch=pin.epoch)
    flowing: dict[str, Changes] = {}
    steps = [delta_step(base, pin, changes.get(base.name, {})) for base in program.bases]
    for base, moved in zip(program.bases, (yield from together(steps)), strict=True):
        flowing[base.name] = base_bag(result.take(base.name, decoded(base, moved)))
    for level in zone_levels(program.zones):
        machines = []
        for zone in level:
            routed = zone.route(flowing, first=pin.first)
            machines.append(zone_step(zone, program.tables[zone.name], pin, routed, rules=rules))
        for outputs in (yield from together(machines)):
            flowing.update(outputs)
    requests = []
    for publication, moved in shown_by(program, pin, flowing):
        shown = result.show(publication, moved)
        if shown:
            requests.append(publication.request(shown, pin))
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


def shown_by(
    program: Program, pin: Pin, flowing: Mapping[str, Changes]
) -> Iterable[tuple[PublishCompute, list[Shown]]]:
    """Return what moves in the views that show it: not in those that are built, shown as a whole, paused."""
    views = {it.publication.view for it in program.publications}
    live = {view for view in views if pin.views.get(view, LIVE) == LIVE}
    if not live:  # as in a build: what moves would be worked out for nothing
        return
    for it, shown in program.publishing.shown(flowing):
        if it.publication.view in live:
            yield it, shown


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
    if drops := drops_between(base.delta, pin.clock_before, pin.clock, epoch=pin.epoch):
        yield drops
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
            keep=pin.keeps.get(base.name, 0),
            settled=pin.settled,
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
        doubt = None if it.doubt is None else RowInDoubt(base.name, partition, it.clustering, it.doubt)
        if it.before == it.now:
            moves.append(BaseMove(it.written, None, None, doubt, None, it.untimely))
            continue
        before, unread_before = row_of(base, partition, it.clustering, it.before)
        now, unread = row_of(base, partition, it.clustering, it.now)
        quarantined = None
        if unread or unread_before:
            quarantined = Quarantined(base.name, _key(base, partition, it.clustering), unread)
        moves.append(BaseMove(it.written, before, now, doubt, quarantined, it.untimely))
    return moves


def row_of(
    base: BaseReader, partition: bytes, clustering: bytes, visible: Visible | None
) -> tuple[Values | None, str]:
    """Return a row, or why it cannot be read: then it contributes nothing."""
    if visible is None:
        return None, ""
    try:
        return base.decode(partition, clustering, visible), ""
    except (CvsError, ValueError, OverflowError) as fault:
        return None, fault.what if isinstance(fault, CvsError) else str(fault)


def _key(base: BaseReader, partition: bytes, clustering: bytes) -> str:
    key, _ = row_of(base, partition, clustering, {})
    if key is None:  # not even the key can be read
        return shortened(partition.hex())
    return told_key(value for value in key if value is not None)


def without_claim(program: Program) -> Generator[list[Any], list[Any], dict[str, list[Values]]]:
    """Return the keys of the base rows that were shown out of the order of write times, by table (H12)."""
    found: dict[str, list[Values]] = {}
    for base, table in zip(program.bases, program.plan.bases, strict=True):
        names = [name for name, _ in table.columns]
        rows = yield from untimely_rows(base.delta)
        keyed = (row_of(base, partition, clustering, {})[0] for partition, clustering in rows)
        found[base.name] = [
            tuple(row[names.index(name)] for name in table.key) for row in keyed if row is not None
        ]
    return found


def base_bag(moves: Iterable[BaseMove]) -> Unpacked:
    """Return the moves of base rows as changes."""
    pairs: Unpacked = []
    for move in moves:
        if move.before is not None:
            pairs.append((move.before, -1))
        if move.now is not None:
            pairs.append((move.now, 1))
    return pairs


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
