"""A zone made ready to run: routes changes of its sources to buckets, runs its stages in order in each.

Both sides of a join, and all stages of a zone, meet in one bucket and leave in one test-and-set (H6).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cvs.errors import SpecificationError
from cvs.model.stages import (
    AggregateStage,
    DistinctStage,
    Edge,
    JoinStage,
    Plan,
    SetStage,
    Stage,
    TopKStage,
    Zone,
)
from cvs.programs.stage_aggregate import AggregateCompute
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import NeedsError, State
from cvs.programs.stage_codec import Value, Values, bucket_of, pack_key
from cvs.programs.stage_edges import RowMap, columns_of_sources, compile_edge, through
from cvs.programs.stage_join import JoinCompute
from cvs.programs.stage_sets import CountedCompute, TopKCompute

BucketInput = dict[tuple[int, int], Bag]
"""What enters a bucket: changes by (place of the stage in its zone, side)."""

StageCompute = AggregateCompute | JoinCompute | CountedCompute | TopKCompute


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One edge into one side of one stage."""

    source: str
    stage: int
    side: int
    run: RowMap


class ZoneCompute:
    """What a zone does, bucket by bucket."""

    def __init__(self, zone: Zone, plan: Plan) -> None:
        self.zone = zone
        self.name = zone.name
        columns = columns_of_sources(plan)
        own = {stage.name for stage in zone.stages}
        self._computes = [_compute(stage, i) for i, stage in enumerate(zone.stages)]
        self._ways: list[_Way] = []
        self._inner: list[_Way] = []
        for number, stage in enumerate(zone.stages):
            for side, edges in enumerate(ports(stage)):
                for edge in edges:
                    run = compile_edge(edge, _columns(columns, edge))
                    way = _Way(source=edge.source, stage=number, side=side, run=run)
                    (self._inner if edge.source in own else self._ways).append(way)

    @property
    def sources(self) -> frozenset[str]:
        """Name the sources outside the zone."""
        return frozenset(way.source for way in self._ways)

    def route(self, changes: Mapping[str, Bag], *, first: bool = False) -> dict[int, BucketInput]:
        """Carry changes over the edges and to the buckets they belong to."""
        routed: dict[int, BucketInput] = {}
        for way in self._ways:
            bag = changes.get(way.source)
            if bag is None or not len(bag):
                continue
            arrived = Bag()
            through(way.run, bag, arrived)
            place = (way.stage, way.side)
            for name, (row, count) in arrived.named():
                for bucket in self._buckets(way, row):
                    entered = routed.setdefault(bucket, {})
                    if place not in entered:
                        entered[place] = Bag()
                    entered[place].add(row, count, name)
        if first:
            for number, stage in enumerate(self.zone.stages):
                if isinstance(stage, AggregateStage) and not stage.group:
                    routed.setdefault(bucket_of(pack_key(()), self.zone.buckets), {}).setdefault(
                        (number, 0), Bag()
                    )
        return {
            bucket: entered for bucket, entered in routed.items() if first or any(map(len, entered.values()))
        }

    def _buckets(self, way: _Way, row: Values) -> Iterable[int]:
        compute, stage = self._computes[way.stage], self.zone.stages[way.stage]
        buckets = self.zone.buckets
        if isinstance(stage, JoinStage):
            assert isinstance(compute, JoinCompute)
            if not stage.replicated:
                return (bucket_of(pack_key(compute.join_key(way.side, row)), buckets),)
            return range(buckets) if way.side == 1 else (bucket_of(pack_key(row), buckets),)
        if isinstance(compute, AggregateCompute):
            return (bucket_of(pack_key(compute.group_of(row)), buckets),)
        if isinstance(stage, TopKStage):
            return (bucket_of(pack_key(()), buckets),)
        return (bucket_of(pack_key(row), buckets),)

    def compute(self, state: State, entered: BucketInput) -> dict[str, Bag]:
        """Run the stages in order over one bucket; return the changes of their outputs.

        What several stages need is asked for together: a stage waits only for the outputs it reads, so a zone is
        read as often as its stages are deep, not as often as they are many.
        """
        outputs: dict[str, Bag] = {}
        keys: set[bytes] = set()
        prefixes: set[bytes] = set()
        for number, stage in enumerate(self.zone.stages):
            inner = [way for way in self._inner if way.stage == number]
            if any(way.source not in outputs for way in inner):
                continue  # because a stage it reads waits for rows
            try:
                outputs[stage.name] = self._stage(
                    number, state, entered, [(way, outputs[way.source]) for way in inner]
                )
            except NeedsError as needs:
                keys.update(needs.keys)
                prefixes.update(needs.prefixes)
        if keys or prefixes:
            raise NeedsError(keys, prefixes)
        return outputs

    def _stage(self, number: int, state: State, entered: BucketInput, inside: list[tuple[_Way, Bag]]) -> Bag:
        compute = self._computes[number]
        always = (number, 0) in entered
        taken = [entered.setdefault((number, side), Bag()) for side in (0, 1)]
        for side in {
            way.side for way, _ in inside
        }:  # because what entered is needed again in the next attempt
            entered_too, taken[side] = taken[side], Bag()
            taken[side].extend(entered_too)
        for way, bag in inside:
            through(way.run, bag, taken[way.side])
        if isinstance(compute, AggregateCompute | TopKCompute):
            return compute(state, taken[0], always=always)
        return compute(state, (taken[0], taken[1]))

    def contents(self, state: State) -> dict[str, Bag]:
        """Return every stage's rows as a whole bucket's state has them."""
        return {s.name: c.contents(state) for s, c in zip(self.zone.stages, self._computes, strict=True)}

    def place(self, stage: str, known: Mapping[str, Value]) -> tuple[int, tuple[bytes, ...]] | None:
        """Return the bucket, and the rows in it, from which a stage's rows with these values come; None: any."""
        computes = {s.name: compute for s, compute in zip(self.zone.stages, self._computes, strict=True)}
        found = computes[stage].place(known)
        return None if found is None else (bucket_of(found.key, self.zone.buckets), found.prefixes)


def ports(stage: Stage) -> tuple[tuple[Edge, ...], ...]:
    """Return the edges into each side of a stage."""
    if isinstance(stage, JoinStage | SetStage):
        return (stage.left, stage.right)
    return (stage.inputs,)


def _columns(columns: Mapping[str, tuple[str, ...]], edge: Edge) -> tuple[str, ...]:
    if edge.source not in columns:
        raise SpecificationError(f'the plan has no source "{edge.source}"', where="an edge of a stage")
    return columns[edge.source]


def _compute(stage: Stage, number: int) -> StageCompute:
    if isinstance(stage, AggregateStage):
        return AggregateCompute(stage, number=number, columns=tuple(c.name for c in stage.inputs[0].columns))
    if isinstance(stage, JoinStage):
        return JoinCompute(stage, number=number)
    if isinstance(stage, DistinctStage | SetStage):
        return CountedCompute(stage, number=number)
    return TopKCompute(stage, number=number)
