"""A zone made ready to run: routes changes of its sources to buckets, runs its stages in order in each.

Both sides of a join, and all stages of a zone, meet in one bucket and leave in one test-and-set (H6).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cvs.errors import SpecificationError
from cvs.model.expressions import Column
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
from cvs.programs.stage_bag import Bag, Changes
from cvs.programs.stage_codec import Value, Values, bucket_of, pack_key, picking
from cvs.programs.stage_combined import Combined
from cvs.programs.stage_edges import columns_of_sources, same
from cvs.programs.stage_join import JoinCompute
from cvs.programs.stage_sets import CountedCompute, TopKCompute
from cvs.programs.stage_state import NeedsError, State

BucketInput = dict[tuple[int, int], Bag]
"""What enters a bucket: changes by (place of the stage in its zone, side)."""

StageCompute = AggregateCompute | JoinCompute | CountedCompute | TopKCompute


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ways:
    """All edges out of one source into a zone, and for each the side of the stage it enters."""

    source: str
    combined: Combined
    places: tuple[tuple[int, int], ...]
    routings: tuple[int, ...]  # equal where equal rows go to the same buckets


class ZoneCompute:
    """What a zone does, bucket by bucket."""

    def __init__(self, zone: Zone, plan: Plan) -> None:
        self.zone = zone
        self.name = zone.name
        self._columns = columns_of_sources(plan)
        own = {stage.name for stage in zone.stages}
        self._computes = [_compute(stage, i) for i, stage in enumerate(zone.stages)]
        self._buckets_of = {
            (number, side): self._bucketing(number, side)
            for number, stage in enumerate(zone.stages)
            for side in range(len(ports(stage)))
        }
        found: dict[str, list[tuple[Edge, tuple[int, int]]]] = {}
        for number, stage in enumerate(zone.stages):
            for side, edges in enumerate(ports(stage)):
                for edge in edges:
                    found.setdefault(edge.source, []).append((edge, (number, side)))
        ways = [self._ways_of(source, entering) for source, entering in found.items()]
        self._outer = [it for it in ways if it.source not in own]
        self._inner = {it.source: it for it in ways if it.source in own}
        self._waits = [{e.source for port in ports(s) for e in port} & own for s in zone.stages]

    def _ways_of(self, source: str, entering: list[tuple[Edge, tuple[int, int]]]) -> _Ways:
        if source not in self._columns:
            raise SpecificationError(f'the plan has no source "{source}"', where="an edge of a stage")
        routings: dict[object, int] = {}
        return _Ways(
            source=source,
            combined=Combined([edge for edge, _ in entering], self._columns[source]),
            places=tuple(place for _, place in entering),
            routings=tuple(
                routings.setdefault(self._routing(*place), len(routings)) for _, place in entering
            ),
        )

    @property
    def sources(self) -> frozenset[str]:
        """Name the sources outside the zone."""
        return frozenset(ways.source for ways in self._outer)

    def route(self, changes: Mapping[str, Changes], *, first: bool = False) -> dict[int, BucketInput]:
        """Carry changes over the edges and to the buckets they belong to."""
        routed: dict[int, BucketInput] = {}
        for ways in self._outer:
            bag = changes.get(ways.source)
            if bag is None or not len(bag):
                continue
            known: dict[int, dict[bytes, Iterable[int]]] = {routing: {} for routing in ways.routings}
            for way, row, count, name in ways.combined.carry(bag):
                place, told = ways.places[way], known[ways.routings[way]]
                buckets = told.get(name)
                if buckets is None:
                    buckets = told[name] = self._buckets_of[place](row)
                for bucket in buckets:
                    entered = routed.get(bucket)
                    if entered is None:
                        entered = routed[bucket] = {}
                    into = entered.get(place)
                    if into is None:
                        into = entered[place] = Bag()
                    into.add(row, count, name)
        if first:
            for number, stage in enumerate(self.zone.stages):
                if isinstance(stage, AggregateStage) and not stage.group:
                    routed.setdefault(bucket_of(pack_key(()), self.zone.buckets), {}).setdefault(
                        (number, 0), Bag()
                    )
        return {
            bucket: entered for bucket, entered in routed.items() if first or any(map(len, entered.values()))
        }

    def _routing(self, number: int, side: int) -> object:
        """Return what a row's buckets follow from: equal for stages that route alike."""
        compute, stage = self._computes[number], self.zone.stages[number]
        if isinstance(compute, AggregateCompute):
            return tuple(compute.places)
        return (number, side) if isinstance(stage, JoinStage) else type(stage)

    def _bucketing(self, number: int, side: int) -> Callable[[Values], Iterable[int]]:
        """Return what gives the buckets of a row that enters a stage: resolved once, asked for every row."""
        compute, stage, buckets = self._computes[number], self.zone.stages[number], self.zone.buckets
        key: Callable[[Values], Values] = same
        if isinstance(compute, AggregateCompute):
            key = compute.group_of
        elif isinstance(stage, TopKStage):
            key = picking(())
        elif isinstance(stage, JoinStage) and stage.replicated and side == 1:
            everywhere = range(buckets)
            return lambda _row: everywhere
        elif isinstance(compute, JoinCompute) and isinstance(stage, JoinStage) and not stage.replicated:
            key = compute.join_key[side]
        return lambda row: (bucket_of(pack_key(key(row)), buckets),)

    def compute(self, state: State, entered: BucketInput) -> dict[str, Bag]:
        """Run the stages in order over one bucket; return the changes of their outputs.

        What several stages need is asked for together: a stage waits only for the outputs it reads, so a zone is
        read as often as its stages are deep, not as often as they are many. Asked again with the same state and more of
        its rows, it goes on where it was: a stage that is done keeps to rows of its own.
        """
        outputs, inside = state.outputs, state.inside
        keys: set[bytes] = set()
        prefixes: set[bytes] = set()
        for number, stage in enumerate(self.zone.stages):
            if stage.name in outputs or not self._waits[number] <= outputs.keys():
                continue  # because it is done, or a stage it reads waits for rows
            try:
                with state.all_or_nothing():
                    outputs[stage.name] = self._stage(number, state, entered, inside)
            except NeedsError as needs:
                keys.update(needs.keys)
                prefixes.update(needs.prefixes)
                continue
            self._pass_on(stage.name, outputs[stage.name], inside)
        if keys or prefixes:
            raise NeedsError(keys, prefixes)
        return outputs

    def _pass_on(self, stage: str, output: Bag, inside: BucketInput) -> None:
        """Carry what a stage puts out to the stages of its zone that read it."""
        ways = self._inner.get(stage)
        if ways is None or not len(output):
            return
        for way, row, count, name in ways.combined.carry(output):
            inside.setdefault(ways.places[way], Bag()).add(row, count, name)

    def _stage(self, number: int, state: State, entered: BucketInput, inside: BucketInput) -> Bag:
        compute, places = self._computes[number], ((number, 0), (number, 1))
        if not any(place in entered or place in inside for place in places):
            return Bag()
        always = places[0] in entered
        if isinstance(compute, AggregateCompute | TopKCompute):
            taken = [entered.get(places[0]) or Bag()]
        else:
            taken = [entered.setdefault(place, Bag()) for place in places]
        for side, place in enumerate(places[: len(taken)]):
            if place in inside:  # what entered stays as it is, because it is needed again in the next attempt
                both = Bag()
                both.extend(taken[side])
                both.extend(inside[place])
                taken[side] = both
        if isinstance(compute, AggregateCompute):
            return compute(state, taken[0], always=always)
        if isinstance(compute, TopKCompute):
            return compute(state, taken[0])
        return compute(state, (taken[0], taken[1]))

    def contents(self, state: State) -> dict[str, Bag]:
        """Return every stage's rows as a whole bucket's state has them."""
        return {s.name: c.contents(state) for s, c in zip(self.zone.stages, self._computes, strict=True)}

    def prefixes(self, stage: str) -> tuple[bytes, ...]:
        """Return what the keys that `rows` of a stage reads begin with: not those of values, or of other stages."""
        return self._compute_of(stage).prefixes

    def rows(self, stage: str, state: State) -> Bag:
        """Return a stage's rows as a whole bucket's state has them."""
        return self._compute_of(stage).contents(state)

    def _compute_of(self, stage: str) -> StageCompute:
        return next(c for s, c in zip(self.zone.stages, self._computes, strict=True) if s.name == stage)

    def place(self, stage: str, known: Mapping[str, Value]) -> tuple[int, tuple[bytes, ...]] | None:
        """Return the bucket, and the rows in it (none: all), from which a stage's rows with these values come.

        None: from any. A stage that reads another of its zone is where that one is, whatever it groups by itself.
        """
        number = next(i for i, it in enumerate(self.zone.stages) if it.name == stage)
        found = self._computes[number].place(known)
        if not self._waits[number]:
            return None if found is None else (bucket_of(found.key, self.zone.buckets), found.prefixes)
        held = [next((name for name in part if name in known), None) for part in self._held(number)]
        if not held or None in held:
            return None
        key = pack_key(known[name] for name in held if name is not None)
        return bucket_of(key, self.zone.buckets), () if found is None else found.prefixes

    def _held(self, number: int) -> list[list[str]]:
        """Return, for each part of what chose the bucket, the output columns of a stage that hold it; [] if unknown."""
        stage = self.zone.stages[number]
        output = [name for name, _ in stage.output]
        inner = [edge for port in ports(stage) for edge in port if edge.source in self._waits[number]]
        if inner:
            names = [it.name for it in self.zone.stages]
            read = {c.name: c.expression.name for c in inner[0].columns if isinstance(c.expression, Column)}
            parts = self._held(names.index(inner[0].source))
            found = [[name for name in output if read.get(name) in part] for part in parts]
            return found if all(found) else []
        if isinstance(stage, AggregateStage):
            return [[name] for name in stage.group]
        if not isinstance(stage, JoinStage) or stage.replicated or stage.kind not in _LEFT_KEPT:
            return []
        pairs = zip(stage.left_key, stage.right_key, strict=True)
        return [[left, right] if stage.kind == "inner" else [left] for left, right in pairs]


_LEFT_KEPT = ("inner", "left", "semi", "anti")
"""Joins whose rows all come from a left row, so that the left key says where they are."""


def ports(stage: Stage) -> tuple[tuple[Edge, ...], ...]:
    """Return the edges into each side of a stage."""
    if isinstance(stage, JoinStage | SetStage):
        return (stage.left, stage.right)
    return (stage.inputs,)


def _compute(stage: Stage, number: int) -> StageCompute:
    if isinstance(stage, AggregateStage):
        return AggregateCompute(stage, number=number, columns=tuple(c.name for c in stage.inputs[0].columns))
    if isinstance(stage, JoinStage):
        return JoinCompute(stage, number=number)
    if isinstance(stage, DistinctStage | SetStage):
        return CountedCompute(stage, number=number)
    return TopKCompute(stage, number=number)
