"""What a plan costs: per stage and base table, CPU milliseconds a base update and rows kept.

Changes flow through the plan in its order (papers 004 and 000 section 5.2: rates through the DAG in topological
order). One base update is two changes, the row as it was and as it is. A stage reads and writes rows of the
keys that are touched; buckets cost one test-and-set an epoch however many rows they carry, which is why a
larger epoch is cheaper a row.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cvs.model.expressions import Column
from cvs.model.stages import AggregateStage, Edge, JoinStage, Plan, SetStage, Stage, TopKStage, Zone, inputs
from cvs.plan.statistics import Statistics, Weights, selectivity

CHANGES_AN_UPDATE = 2.0
BYTES_A_ROW = 120.0  # because a state row is two images, an epoch each, and a key


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """Of one stage: rows it keeps and shows, and per base table changes in, changes out, milliseconds."""

    stage: str
    rows: float
    state_rows: float
    changes: Mapping[str, float]
    output: Mapping[str, float]
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
    return _Estimate(plan, statistics or Statistics(), weights or Weights()).cost()


class _Estimate:
    def __init__(self, plan: Plan, statistics: Statistics, weights: Weights) -> None:
        self.plan, self.statistics, self.weights = plan, statistics, weights
        self.bases = {base.name: base for base in plan.bases}
        self.rows: dict[str, float] = {b: statistics.rows_of(b) for b in self.bases}
        self.changes: dict[str, dict[str, float]] = {b: {b: CHANGES_AN_UPDATE} for b in self.bases}
        self.stages = {stage.name: stage for stage in plan.stages}

    def cost(self) -> PlanCost:
        found = [self.stage(stage, zone) for zone in self.plan.zones for stage in zone.stages]
        publish: dict[str, float] = dict.fromkeys(self.bases, 0.0)
        for publication in self.plan.publications:
            for base, count in self.entering(publication.inputs).items():
                publish[base] += count / CHANGES_AN_UPDATE * self.weights.published_row
        per_update = {
            base: self.weights.delta_row + publish[base] + sum(s.ms.get(base, 0.0) for s in found)
            for base in self.bases
        }
        rates = {base: self.statistics.rates.get(base, 1.0) for base in self.bases}
        share = sum(rates.values()) or 1.0
        return PlanCost(
            stages=tuple(found),
            delta_ms=self.weights.delta_row,
            publish_ms=publish,
            per_update_ms=per_update,
            total_ms=sum(per_update[b] * rates[b] for b in self.bases) / share,
            storage_bytes=sum(s.state_rows for s in found) * BYTES_A_ROW
            + sum(self.rows[b] for b in self.bases) * BYTES_A_ROW,
            base_rows={base: self.rows[base] for base in self.bases},
        )

    def entering(self, edges: tuple[Edge, ...]) -> dict[str, float]:
        """Return changes an update of each base table sends over some edges."""
        total: dict[str, float] = {}
        for edge in edges:
            for base, count in self.changes[edge.source].items():
                total[base] = total.get(base, 0.0) + count * selectivity(edge.where)
        return total

    def rows_in(self, edges: tuple[Edge, ...]) -> float:
        return sum(self.rows[edge.source] * selectivity(edge.where) for edge in edges)

    def stage(self, stage: Stage, zone: Zone) -> StageCost:
        if isinstance(stage, JoinStage):
            changes, output, kept, shown, looked = self.join(stage, zone)
        else:
            changes = self.entering(inputs(stage))
            output, kept, shown = self.single(stage, changes)
            looked = dict(changes)
        first = zone.stages[0].name == stage.name
        ms = {}
        for base, count in changes.items():
            written = self.written(stage, count)
            rounds = self.rounds(count, zone) if first else 0.0
            ms[base] = (
                written * self.weights.state_row
                + looked[base] * self.weights.read_row
                + rounds * self.weights.test_and_set
                + (count + output[base]) * self.weights.compute_row
            )
        self.rows[stage.name], self.changes[stage.name] = shown, output
        return StageCost(stage=stage.name, rows=shown, state_rows=kept, changes=changes, output=output, ms=ms)

    def written(self, stage: Stage, changes: float) -> float:
        """An update of a row in place is one state row; a moved one is two: between them, on average."""
        if isinstance(stage, AggregateStage):
            kept = sum(1 for a in stage.aggregates if a.distinct or a.function.value in ("min", "max"))
            return changes * (0.6 + kept * 0.9)
        return changes * 0.9

    def rounds(self, changes: float, zone: Zone) -> float:
        """Return test-and-sets an update: an epoch's changes fall on buckets at random."""
        balls = max(1.0, changes * self.statistics.epoch_updates)
        touched = zone.buckets * (1.0 - math.exp(-balls / zone.buckets))
        return touched / self.statistics.epoch_updates

    def single(self, stage: Stage, changes: dict[str, float]) -> tuple[dict[str, float], float, float]:
        """Return changes out, state rows, shown rows of a stage without sides."""
        rows = self.rows_in(inputs(stage))
        if isinstance(stage, AggregateStage):
            groups = min(rows, self.different(stage.inputs, stage.group))
            values = sum(1 for a in stage.aggregates if a.distinct or a.function.value in ("min", "max"))
            touched = {b: min(c, CHANGES_AN_UPDATE * max(1.0, groups)) for b, c in changes.items()}
            return {b: min(2.0 * c, c + 2.0) for b, c in touched.items()}, groups + values * rows, groups
        if isinstance(stage, TopKStage):
            shown = min(rows, float(stage.limit))
            share = shown / max(1.0, rows)
            return {b: 2.0 * c * share for b, c in changes.items()}, rows, shown
        share = 0.5 if isinstance(stage, SetStage) else 0.8
        return {b: c * share for b, c in changes.items()}, rows, rows * share

    def join(
        self, stage: JoinStage, zone: Zone
    ) -> tuple[dict[str, float], dict[str, float], float, float, dict[str, float]]:
        """Return changes in, changes out, state rows, shown rows, rows looked at, per base table."""
        left, right = self.entering(stage.left), self.entering(stage.right)
        left_rows, right_rows = self.rows_in(stage.left), self.rows_in(stage.right)
        keys = min(self.different(stage.left, stage.left_key), self.different(stage.right, stage.right_key))
        per_left = right_rows / max(1.0, self.different(stage.right, stage.right_key))
        per_right = left_rows / max(1.0, self.different(stage.left, stage.left_key))
        keep = selectivity(stage.residual)
        shown = max(1.0, left_rows * right_rows / max(1.0, keys) * keep)
        if stage.kind in ("semi", "anti"):
            per_left, shown = 1.0, left_rows * 0.5
        if stage.kind in ("left", "full"):
            shown = max(shown, left_rows)
        copies = float(zone.buckets) if stage.replicated else 1.0
        changes: dict[str, float] = {}
        output: dict[str, float] = {}
        looked: dict[str, float] = {}
        for base in left.keys() | right.keys():
            a, b = left.get(base, 0.0), right.get(base, 0.0) * copies
            changes[base] = a + b
            output[base] = (a * per_left + b / copies * per_right) * keep
            looked[base] = a * max(1.0, per_left) + b / copies * max(1.0, per_right)
        return changes, output, left_rows + right_rows * copies, shown, looked

    def different(self, edges: tuple[Edge, ...], names: tuple[str, ...]) -> float:
        """Return how many different values some columns of a port have."""
        rows = self.rows_in(edges)
        total = 1.0
        for name in names:
            total *= max(self.values(edge, name) for edge in edges)
        return max(1.0, min(rows, total)) if names else 1.0

    def values(self, edge: Edge, name: str) -> float:
        """Follow a column down to its base table and return its different values there."""
        expression = next(c.expression for c in edge.columns if c.name == name)
        if not isinstance(expression, Column):
            return 25.0  # because computed keys are years, codes and the like
        if edge.source in self.bases:
            base = self.bases[edge.source]
            if base.key == (expression.name,):
                return self.statistics.rows_of(base.name)
            return self.statistics.distinct_of(base.name, expression.name)
        stage = self.stages[edge.source]
        for inner in inputs(stage):
            if any(column.name == expression.name for column in inner.columns):
                return self.values(inner, expression.name)
        return max(1.0, self.rows[edge.source] * 0.1)
