"""A plan explained: as data, as a tree of lines. What each stage is, where it lives, what it reaches and costs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cvs.model.layout import delta_table, state_table
from cvs.model.stages import Edge, Plan, Publication, Stage, Zone, inputs
from cvs.model.values import many
from cvs.plan.advice import advice
from cvs.plan.changes import ViewChange
from cvs.plan.cost import PlanCost
from cvs.plan.levels import stage_level, view_level
from cvs.plan.measured import Measured
from cvs.plan.sql import DeclaredView
from cvs.plan.statistics import ROWS
from cvs.plan.words import PROGRAMS, expression_words, meanings, stage_words
from cvs.programs.stage_combined import TOGETHER_MIN


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Everything there is to say about a plan."""

    views: tuple[DeclaredView, ...]
    plan: Plan
    cost: PlanCost
    apart: PlanCost
    keyspace: str = "cvs"
    guessed: tuple[str, ...] = ()
    measured: Measured | None = None
    changes: tuple[ViewChange, ...] = ()
    skew_ms: int = 1000  # by which clocks may differ

    @cached_property
    def names(self) -> dict[str, dict[str, str]]:
        """Return what the columns of each stage mean."""
        return meanings(self.plan)

    def data(self) -> dict[str, Any]:
        """Return the explanation as plain data, for `--json`."""
        return {
            "views": [self._view(view) for view in self.views],
            "zones": [self._zone(zone) for zone in self.plan.zones],
            "bases": [
                {
                    "table": base.name,
                    "key": list(base.key),
                    "delta": delta_table(self.keyspace, base.name).name,
                    "ms_per_update": round(self.cost.per_update_ms[base.name], 3),
                }
                for base in self.plan.bases
            ],
            "cost": {
                "ms_per_update": round(self.cost.total_ms, 3),
                "ms_per_update_planned_apart": round(self.apart.total_ms, 3),
                "storage_bytes": round(self.cost.storage_bytes),
                "storage_bytes_planned_apart": round(self.apart.storage_bytes),
                "stages": len(self.plan.stages),
                "zones": len(self.plan.zones),
            },
            "combined": self.combined(),
            "advice": list(self._advice()),
            "guessed": list(self.guessed),
            "measured": self._measured(),
            "changes": [
                {"view": change.view, "kind": change.kind, "because": change.because}
                for change in self.changes
            ],
        }

    def _advice(self) -> Iterator[str]:
        told = {table for view in self.views for table, _ in view.options.rows}
        return advice(self.plan, self.cost, told)

    def _measured(self) -> dict[str, Any] | None:
        seen = self.measured
        if seen is None:
            return None
        return {
            "updates_per_second": {table: round(rate, 3) for table, rate in seen.updates.items()},
            "pipeline": seen.keyspace or None,
            "epochs_per_second": round(seen.epochs, 3),
            "test_and_sets_per_second": {
                zone: {"measured": round(rate, 3), "expected": round(seen.expected(zone, self.cost), 3)}
                for zone, rate in seen.test_and_sets.items()
            },
        }

    def _view(self, view: DeclaredView) -> dict[str, Any]:
        publication = self.publication(view)
        level = view_level(view, self.plan)
        return {
            "view": view.name,
            "columns": [list(column) for column in view.columns],
            "partition_key": list(view.key.partition),
            "clustering": [[name, "desc" if down else "asc"] for name, down in view.key.clustering],
            "declared": view.options.level,
            "granularity": view.options.granularity,
            "predicted": {
                "record": level.record.value,
                "whole_view_with_snapshot_reads": level.view_snapshot.value if level.view_snapshot else None,
                "whole_view_with_plain_reads": level.view_plain.value,
                "reason": level.reason,
                "base_timeline": level.timeline,
                "skew_ms": self.skew_ms if view.options.timeline == "write-time" else None,
            },
            "freshness_s": view.options.freshness_s,
            "reads": sorted({edge.source for edge in publication.inputs}),
            "warnings": list(view.warnings),
        }

    def _zone(self, zone: Zone) -> dict[str, Any]:
        return {
            "zone": zone.name,
            "table": state_table(self.keyspace, zone.name).name,
            "buckets": zone.buckets,
            "stages": [self._stage(stage) for stage in zone.stages],
        }

    def _stage(self, stage: Stage) -> dict[str, Any]:
        level, cost = stage_level(stage), self.cost.stage(stage.name)
        return {
            "stage": stage.name,
            "does": stage_words(stage, self.names[stage.name]),
            "program": PROGRAMS[type(stage)],
            "key": list(stage.key),
            "output": [list(column) for column in stage.output],
            "reads": [self._edge_words(edge) for edge in inputs(stage)],
            "predicted": level.level.value,
            "reason": level.reason,
            "citation": level.citation,
            "state_rows": round(cost.state_rows),
            "ms_per_update": {base: round(ms, 3) for base, ms in sorted(cost.ms.items())},
        }

    def _condition(self, edge: Edge) -> str:
        assert edge.where is not None
        return expression_words(edge.where, self.names.get(edge.source, {}))

    def _edge_words(self, edge: Edge) -> str:
        return edge.source + (f" where {self._condition(edge)}" if edge.where is not None else "")

    def publication(self, view: DeclaredView) -> Publication:
        """Return the publication of a view."""
        return next(p for p in self.plan.publications if p.view == view.name)

    def combined(self) -> dict[str, int]:
        """Return the sources out of which so many edges lead that they are taken together, and how many."""
        entering = [[edge for stage in zone.stages for edge in inputs(stage)] for zone in self.plan.zones]
        entering.append([edge for publication in self.plan.publications for edge in publication.inputs])
        found: Counter[str] = Counter()
        for edges in entering:
            counts = Counter(edge.source for edge in edges)
            found.update({source: count for source, count in counts.items() if count >= TOGETHER_MIN})
        return dict(sorted(found.items()))

    def sources(self, stage: Stage) -> list[str]:
        """Return what a stage reads, each once."""
        return list(dict.fromkeys(edge.source for edge in inputs(stage)))

    def stage_notes(self, stage: Stage) -> Iterator[str]:
        """Yield what is to be said about a stage beside what it does: table, level with its reason, cost."""
        zone = next(zone for zone in self.plan.zones if stage in zone.stages)
        cost, level = self.cost.stage(stage.name), stage_level(stage)
        table = state_table(self.keyspace, zone.name).name
        key = ", ".join(self.names[stage.name].get(k, k) for k in stage.key)
        yield (
            f"{table}, {many(zone.buckets, 'bucket')}, key ({key}), "
            f"about {_count(cost.state_rows)} rows; program {PROGRAMS[type(stage)]}"
        )
        yield f"{level.level.value}: {level.reason} [{level.citation}]"
        yield f"CPU ms per update: {_per_base(cost.ms)}"

    def lines(self) -> Iterator[str]:
        """Yield the explanation as a tree of text."""
        seen: set[str] = set()
        for view in self.views:
            yield from self.view_lines(view, seen)
            yield ""
        yield from self._sums()

    def view_lines(self, view: DeclaredView, seen: set[str]) -> Iterator[str]:
        """Yield one view's part of the tree; stages that were `seen` are only named."""
        publication, level = self.publication(view), view_level(view, self.plan)
        key = ", ".join(
            [
                f"({', '.join(view.key.partition)})",
                *(n + (" DESC" if d else "") for n, d in view.key.clustering),
            ]
        )
        yield f"view {view.name}  PRIMARY KEY ({key})"
        whole = (
            f"{level.view_snapshot.value} for the whole view with snapshot reads, {level.view_plain.value} without"
            if level.view_snapshot
            else f"{level.view_plain.value} for the whole view (it keeps no state to take snapshots of)"
        )
        yield f"  declared {view.options.level}; predicted {level.record.value} for each record, {whole}"
        yield f"  because {level.reason}; base time-line: {level.timeline}"
        if view.options.timeline == "write-time":
            yield f"  clocks may differ by {self.skew_ms:,} ms ([pipeline] skew_ms): so much later rows are shown"
        for warning in view.warnings:
            yield f"  note: {warning}"
        for number, edge in enumerate(publication.inputs, start=1):
            last = number == len(publication.inputs)
            yield from self._edge_lines(edge, "  ", last, seen)

    def _edge_lines(self, edge: Edge, indent: str, last: bool, seen: set[str]) -> Iterator[str]:
        condition = f", only where {self._condition(edge)}" if edge.where is not None else ""
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        stages = {stage.name: stage for stage in self.plan.stages}
        if edge.source not in stages:
            table = delta_table(self.keyspace, edge.source).name
            yield f"{indent}{branch}{edge.source} (DELTA {table}){condition}"
            return
        stage = stages[edge.source]
        if stage.name in seen:
            yield f"{indent}{branch}{stage.name}, shared: see above{condition}"
            return
        seen.add(stage.name)
        yield f"{indent}{branch}{stage.name} {stage_words(stage, self.names[stage.name])}{condition}"
        yield from (f"{indent}{below}  {note}" for note in self.stage_notes(stage))
        edges = inputs(stage)
        for number, inner in enumerate(edges, start=1):
            yield from self._edge_lines(inner, indent + below, number == len(edges), seen)

    def _sums(self) -> Iterator[str]:
        cost, apart = self.cost, self.apart
        yield f"expected CPU ms per base update: {_per_base(cost.per_update_ms)}"
        yield (
            f"{many(len(cost.stages), 'stage')} in {many(len(self.plan.zones), 'state table')}: "
            f"mean {cost.total_ms:.2f} ms an update, {_count(cost.storage_bytes)}B of state and DELTA"
        )
        yield (
            f"each view by itself, a table a stage: {many(len(apart.stages), 'stage')}, {apart.total_ms:.2f} ms, "
            f"{_count(apart.storage_bytes)}B"
        )
        for source, count in self.combined().items():
            yield f"{count} ways out of {source} are one combined selection: a changed row is looked up once for all"
        if self.guessed:
            yield (
                f"guessed, not known: {ROWS:,} rows in {', '.join(self.guessed)}, a tenth as many values a column; "
                "--analyze samples a live cluster, --statistics takes a file"
            )
        for line in self._advice():
            yield f"cheaper: {line}"
        for change in self.changes:
            yield f"{change.kind}: {change.view}" + (f" ({change.because})" if change.because else "")
        if self.measured is not None:
            yield from self.measured.lines(self.cost)


def _per_base(costs: Mapping[str, float]) -> str:
    return ", ".join(f"{base} {ms:.2f}" for base, ms in sorted(costs.items())) or "nothing"


def _count(number: float) -> str:
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"
