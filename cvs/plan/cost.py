"""What a plan costs: per stage and base table, CPU milliseconds a base update and rows kept.

Changes flow through the plan in its order (papers 004 and 000 section 5.2: rates through the DAG in topological
order). One base update is two changes, the row as it was and as it is. What an epoch touches is counted once:
a group that many changes fall on is read, written and passed on once, a bucket takes one test-and-set however
many rows it carries. So a larger epoch is cheaper a row, and an aggregate of few groups silences what follows it.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cvs.model.expressions import Call, Column
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
    inputs,
)
from cvs.plan.sizes import CHANGES_AN_UPDATE, COMPUTED_VALUES, met, touched
from cvs.plan.statistics import Known, Statistics, Weights, selectivity
from cvs.programs.stage_combined import TOGETHER_MIN

ANSWERS_MOVE = 0.01  # because whether there are any changes seldom, however often their count does
BYTES_A_ROW = 120.0  # because a state row is two images, an epoch each, and a key


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """Of one stage: rows it keeps and shows; per base table changes in and out, test-and-sets, milliseconds."""

    stage: str
    rows: float
    state_rows: float
    changes: Mapping[str, float]
    output: Mapping[str, float]
    rounds: Mapping[str, float]
    ms: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCost:
    """Of a plan: its stages, and sums per base table."""

    stages: tuple[StageCost, ...]
    delta_ms: float
    publish_ms: Mapping[str, float]
    per_update_ms: Mapping[str, float]
    total_ms: float
    storage_bytes: float
    base_rows: Mapping[str, float]

    def stage(self, name: str) -> StageCost:
        """Return the cost of a stage by name."""
        return next(s for s in self.stages if s.stage == name)


def plan_cost(plan: Plan, statistics: Statistics | None = None, weights: Weights | None = None) -> PlanCost:
    """Estimate a plan; the total weighs base tables by their rates (all equal if none are known)."""
    return Estimate(plan, statistics or Statistics(), weights or Weights()).cost()


def _only_answers(edge: Edge) -> bool:
    """Say whether an edge carries only yes or no, as for NOT IN and EXISTS: most changes leave that as it is."""
    kinds = [it.expression.function if isinstance(it.expression, Call) else "" for it in edge.columns]
    return bool(kinds) and all(kind in ("=", "<>", ">", "<") for kind in kinds)


@dataclass(slots=True, kw_only=True)
class _Work:
    """What one stage does, per base table and base update."""

    changes: dict[str, float]
    output: dict[str, float]
    written: dict[str, float]
    looked: dict[str, float]
    kept: float  # state rows in all
    shown: float  # output rows in all
    keys: float  # different values of its key


class Estimate:
    """Rows, changes and work of a plan's stages, in its order; each is estimated once."""

    def __init__(self, plan: Plan, statistics: Statistics, weights: Weights) -> None:
        """Take a plan and what is known of its tables."""
        self.plan, self.statistics, self.weights = plan, statistics, weights
        self.bases = {base.name: base for base in plan.bases}
        self.mix = statistics.mix(self.bases) if self.bases else {}
        self.rows: dict[str, float] = {b: statistics.rows_of(b) for b in self.bases}
        self.changes: dict[str, dict[str, float]] = {b: {b: CHANGES_AN_UPDATE} for b in self.bases}
        self.stages = {stage.name: stage for stage in plan.stages}
        self.works: dict[str, _Work] = {}
        self.edges = Counter(edge.source for stage in plan.stages for edge in inputs(stage))
        self.edges.update(edge.source for publication in plan.publications for edge in publication.inputs)

    def cost(self) -> PlanCost:
        """Return what the whole plan costs."""
        found = [cost for zone in self.plan.zones for cost in self.zone(zone)]
        publish: dict[str, float] = dict.fromkeys(self.bases, 0.0)
        for publication in self.plan.publications:
            for base, count in self.entering(publication.inputs).items():
                publish[base] += count / CHANGES_AN_UPDATE * self.weights.published_row
            for base, count in self.offered(publication.inputs).items():
                publish[base] += count * self.weights.edge_row
        per_update = {
            base: self.weights.delta_row + publish[base] + sum(s.ms.get(base, 0.0) for s in found)
            for base in self.bases
        }
        return PlanCost(
            stages=tuple(found),
            delta_ms=self.weights.delta_row,
            publish_ms=publish,
            per_update_ms=per_update,
            total_ms=sum(per_update[b] * self.mix[b] for b in self.bases),
            storage_bytes=sum(s.state_rows for s in found) * BYTES_A_ROW
            + sum(self.rows[b] for b in self.bases) * BYTES_A_ROW,
            base_rows={base: self.rows[base] for base in self.bases},
        )

    def zone(self, zone: Zone) -> list[StageCost]:
        """Cost the stages of a zone; its test-and-sets are counted with the first."""
        inside = {stage.name for stage in zone.stages}
        works, outside = [], dict.fromkeys(self.bases, 0.0)
        keys = 0.0
        for stage in zone.stages:
            work = self.work(stage, zone)
            works.append(work)
            if any(edge.source not in inside for edge in inputs(stage)):
                keys = max(keys, work.keys)
                entering = self.outside(stage, inside, work, zone)
                outside = {b: max(outside[b], entering.get(b, 0.0)) for b in self.bases}
        rounds = self.rounds(outside, keys, zone)
        return [
            self.stage(stage, work, rounds if number == 0 else dict.fromkeys(rounds, 0.0))
            for number, (stage, work) in enumerate(zip(zone.stages, works, strict=True))
        ]

    def outside(self, stage: Stage, inside: Collection[str], work: _Work, zone: Zone) -> Mapping[str, float]:
        """Return what enters a stage from outside its zone: of a replicated join inside it, the right side alone."""
        if isinstance(stage, JoinStage) and stage.replicated and stage.left[0].source in inside:
            return {base: count * zone.buckets for base, count in self.entering(stage.right).items()}
        return work.changes

    def work(self, stage: Stage, zone: Zone) -> _Work:
        """Estimate a stage once: what it does is the same in every zone of as many buckets."""
        if stage.name not in self.works:
            found = self.join(stage, zone) if isinstance(stage, JoinStage) else self.single(stage)
            self.rows[stage.name], self.changes[stage.name] = found.shown, found.output
            self.works[stage.name] = found
        return self.works[stage.name]

    def stage(self, stage: Stage, work: _Work, rounds: Mapping[str, float]) -> StageCost:
        """Return the cost of a stage whose zone takes so many test-and-sets."""
        offered = self.offered(inputs(stage))
        ms = {
            base: work.written[base] * self.weights.state_row
            + work.looked[base] * self.weights.read_row
            + rounds.get(base, 0.0) * self.weights.test_and_set
            + (count + work.output[base]) * self.weights.compute_row
            + offered[base] * self.weights.edge_row
            for base, count in work.changes.items()
        }
        return StageCost(
            stage=stage.name,
            rows=work.shown,
            state_rows=work.kept,
            changes=work.changes,
            output=work.output,
            rounds=rounds,
            ms=ms,
        )

    def rounds(self, changes: Mapping[str, float], keys: float, zone: Zone) -> dict[str, float]:
        """Return test-and-sets an update: an epoch's changes fall on keys, keys on buckets, at random."""
        updates = self.statistics.epoch_updates
        mean = self.mean(changes)
        if not mean:
            return dict.fromkeys(changes, 0.0)
        buckets = touched(touched(mean * updates, max(1.0, keys)), touched(max(1.0, keys), zone.buckets))
        if any(isinstance(stage, JoinStage) and stage.replicated for stage in zone.stages):
            buckets = touched(mean * updates, zone.buckets)
        return {base: count / mean * buckets / updates for base, count in changes.items()}

    def mean(self, changes: Mapping[str, float]) -> float:
        """Return the changes of an update of the mix."""
        return sum(self.mix[base] * count for base, count in changes.items())

    def once(self, changes: Mapping[str, float], keys: float) -> float:
        """Return keys touched a change: of an epoch's changes on one key, only the first touches it anew."""
        total = self.mean(changes) * self.statistics.epoch_updates
        return touched(total, max(1.0, keys)) / total if total else 1.0

    def entering(self, edges: tuple[Edge, ...]) -> dict[str, float]:
        """Return changes an update of each base table sends over some edges."""
        total: dict[str, float] = {}
        for edge in edges:
            share = self.share(edge) * (ANSWERS_MOVE if _only_answers(edge) else 1.0)
            for base, count in self.changes[edge.source].items():
                total[base] = total.get(base, 0.0) + count * share
        return total

    def offered(self, edges: tuple[Edge, ...]) -> dict[str, float]:
        """Return changes an update of each base table has some edges evaluate, whether or not they let them through."""
        total: dict[str, float] = {}
        for edge in edges:
            each = min(1.0, TOGETHER_MIN / self.edges[edge.source])
            for base, count in self.changes[edge.source].items():
                total[base] = total.get(base, 0.0) + count * each
        return total

    def rows_in(self, edges: tuple[Edge, ...]) -> float:
        """Return the rows that some edges carry in all."""
        return sum(self.rows[edge.source] * self.share(edge) for edge in edges)

    def share(self, edge: Edge) -> float:
        """Return the share of rows an edge lets through."""
        if edge.where is None:
            return 1.0
        return selectivity(
            edge.where, Known(partial(self.counted, edge.source), partial(self.bounds, edge.source))
        )

    def single(self, stage: AggregateStage | DistinctStage | SetStage | TopKStage) -> _Work:
        """Return the work of a stage without a join."""
        changes, rows = self.entering(inputs(stage)), self.rows_in(inputs(stage))
        if isinstance(stage, AggregateStage):
            return self.aggregate(stage, changes, rows)
        if isinstance(stage, TopKStage):
            shown = min(rows, float(stage.limit))
            share = shown / max(1.0, rows)
            output = {b: 2.0 * c * share for b, c in changes.items()}
            keys = 1.0
        else:
            different = self.different(inputs(stage), stage.key)
            keys = self.places(inputs(stage), stage.key, different)
            once = self.once(changes, keys)
            shown = different * (0.5 if isinstance(stage, SetStage) else 1.0)
            output = {b: c * once * shown / max(1.0, rows) for b, c in changes.items()}
        return _Work(
            changes=changes,
            output=output,
            written={b: c * 0.9 for b, c in changes.items()},
            looked=dict(changes),
            kept=rows if isinstance(stage, TopKStage) else keys,
            shown=shown,
            keys=keys,
        )

    def aggregate(self, stage: AggregateStage, changes: dict[str, float], rows: float) -> _Work:
        """Return the work of an aggregate: a group is written once an epoch, each of its kept values as it moves."""
        groups = min(max(1.0, rows), self.different(stage.inputs, stage.group))
        values = sum(1 for a in stage.aggregates if a.distinct or a.function.value in ("min", "max"))
        places = self.places(stage.inputs, stage.group, groups)
        once = self.once(changes, places)
        each = {b: c * once for b, c in changes.items()}
        return _Work(
            changes=changes,
            output={b: min(2.0 * c, 2.0 * changes[b]) for b, c in each.items()},
            written={b: c + values * changes[b] * 0.9 for b, c in each.items()},
            looked={b: c + values * changes[b] for b, c in each.items()},
            kept=groups + values * rows,
            shown=groups,
            keys=places,
        )

    def join(self, stage: JoinStage, zone: Zone) -> _Work:
        """Return the work of a join: rows of a touched key are read once an epoch, of the side that must be."""
        left, right = self.entering(stage.left), self.entering(stage.right)
        left_rows, right_rows = self.rows_in(stage.left), self.rows_in(stage.right)
        keys = (
            self.different(stage.left, stage.left_key),
            self.different(stage.right, stage.right_key),
        )
        keep = selectivity(stage.residual)
        found = met(stage.kind, (left_rows, right_rows), keys, keep)
        copies = float(zone.buckets) if stage.replicated else 1.0
        bases = left.keys() | right.keys()
        arriving = {b: left.get(b, 0.0) + right.get(b, 0.0) * copies for b in bases}
        once = self.once(arriving, found.keys)
        output, looked = {}, {}
        for base in bases:
            a, b = left.get(base, 0.0), right.get(base, 0.0)
            output[base] = (a * found.follows[0] + b * found.follows[1]) * keep
            looked[base] = arriving[base] + once * (a * found.meets[0] + b * found.meets[1])
        return _Work(
            changes=arriving,
            output=output,
            written={b: c * 0.9 for b, c in arriving.items()},
            looked=looked,
            kept=left_rows + right_rows * copies,
            shown=max(1.0, found.shown),
            keys=found.keys,
        )

    def different(self, edges: tuple[Edge, ...], names: tuple[str, ...]) -> float:
        """Return how many different values some columns of a port have."""
        rows = self.rows_in(edges)
        total = math.prod(max(self.values(edge, name) for edge in edges) for name in names)
        return max(1.0, min(rows, total)) if names else 1.0

    def places(self, edges: tuple[Edge, ...], names: tuple[str, ...], different: float) -> float:
        """Return how many keys changes may fall on: a total that moves leaves one and comes to another."""
        columns = [(edge.source, c.expression) for edge in edges for c in edge.columns if c.name in names]
        moving = any(
            source in self.stages and isinstance(it, Column) and self.origin(source, it.name) is None
            for source, it in columns
        )
        return max(different, COMPUTED_VALUES) if moving else different

    def values(self, edge: Edge, name: str) -> float:
        """Follow a column down to its base table and return its different values there."""
        expression = next(c.expression for c in edge.columns if c.name == name)
        if not isinstance(expression, Column):
            return COMPUTED_VALUES
        at = self.origin(edge.source, expression.name)
        if at is None:
            return max(1.0, self.rows[edge.source] * 0.1)
        return self.counted(edge.source, expression.name) or self.statistics.distinct_of(*at)

    def counted(self, source: str, name: str) -> float | None:
        """Return the different values of a column where they are known, not guessed."""
        at = self.origin(source, name)
        return None if at is None else self.statistics.counted(self.bases[at[0]], at[1])

    def bounds(self, source: str, name: str) -> tuple[Any, Any] | None:
        """Return lowest and highest value of a column of a source, if they are known."""
        at = self.origin(source, name)
        return self.statistics.bounds.get(f"{at[0]}.{at[1]}") if at is not None else None

    def origin(self, source: str, name: str) -> tuple[str, str] | None:
        """Follow a column of a source down to the base table it is read from; None: it is computed."""
        if source in self.bases:
            return source, name
        for inner in inputs(self.stages[source]):
            for column in inner.columns:
                if column.name == name:
                    below = column.expression
                    return self.origin(inner.source, below.name) if isinstance(below, Column) else None
        return None
