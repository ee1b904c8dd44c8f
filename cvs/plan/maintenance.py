"""View definitions into one maintenance plan: drafts, zones in order, publications."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cvs.model.stages import AggregateStage, Edge, JoinStage, Plan, Publication, Stage, Zone, inputs
from cvs.model.views import BaseTable, Named, Relation
from cvs.plan.cells import Cells, cells_of
from cvs.plan.drafts import Draft, Flow, Port
from cvs.plan.late import Merge, merges
from cvs.plan.levels import check_levels
from cvs.plan.lowering import Lowering
from cvs.plan.relations import scans
from cvs.plan.sql import DeclaredView
from cvs.plan.zones import merged_zones

BUCKETS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the planner may do; each is a switch, so that its effect can be measured and tested."""

    share: bool = True
    merge_zones: bool = True
    late_selection: bool = True
    cells: bool = True
    replicated: frozenset[str] = frozenset()
    buckets: int = BUCKETS


DEFAULT = Choices()


def maintenance_plan(
    views: Sequence[DeclaredView],
    tables: Mapping[str, BaseTable] | Iterable[BaseTable],
    choices: Choices = DEFAULT,
) -> Plan:
    """Return the plan that keeps all the views; a level no plan reaches is refused."""
    bases = dict(tables) if isinstance(tables, Mapping) else {t.name: t for t in tables}
    names = {**bases, **{view.name: view.table for view in views}}

    def small(relation: Relation) -> bool:
        return all(scan.table in choices.replicated for scan in scans(relation))

    def lowered(
        merge: Mapping[str, Merge], cells: Mapping[Any, Cells]
    ) -> tuple[Lowering, list[tuple[DeclaredView, Port]]]:
        lowering = Lowering(
            tables=names,
            views={view.name: view.definition for view in views},
            share=choices.share,
            replicate=small,
            merges=merge,
            cells=cells,
        )
        return lowering, [(view, _port(lowering.flow(view.definition.relation), view)) for view in views]

    lowering, publications = lowered({}, {})
    merge = merges(lowering.sightings) if choices.late_selection and choices.share else {}
    cells = cells_of(lowering.ranges) if choices.cells and choices.share else {}
    if merge or cells:
        lowering, publications = lowered(merge, cells)
    finished = tuple(_publication(view, port) for view, port in publications)
    stages = [draft.stage() for draft in lowering.drafts]
    zones = _zones(stages, _bucket_counts(publications, choices), choices)
    used = {edge.source for stage in stages for edge in inputs(stage)}
    used |= {edge.source for publication in finished for edge in publication.inputs}
    plan = Plan(
        bases=tuple(table for name, table in sorted(bases.items()) if name in used),
        zones=zones,
        publications=finished,
    )
    check_levels(views, plan)
    return plan


def _port(flow: Flow, view: DeclaredView) -> Port:
    """Ask for every published column, which makes the drafts below carry them."""
    port = Port(flow=flow, prefix="")
    for name, _ in view.columns:
        for branch in flow:
            branch.resolve(name)
    return port


def _publication(view: DeclaredView, port: Port) -> Publication:
    edges = tuple(
        Edge(
            source=branch.source.name,
            columns=tuple(Named(name=name, expression=branch.resolve(name)) for name, _ in view.columns),
            where=Port(flow=(branch,), prefix="").edges()[0].where,
        )
        for branch in port.flow
    )
    return Publication(
        view=view.name,
        table=view.name,
        inputs=edges,
        columns=view.columns,
        partition_key=view.key.partition,
        clustering=view.key.clustering,
    )


def _bucket_counts(publications: Sequence[tuple[DeclaredView, Port]], choices: Choices) -> dict[str, int]:
    """A shared stage takes the largest number of buckets any of its views asks for."""
    counts: dict[str, int] = {}

    def ask(flow: Flow, buckets: int) -> None:
        for branch in flow:
            if isinstance(branch.source, Draft) and counts.get(branch.source.name, 0) < buckets:
                counts[branch.source.name] = buckets
                for port in branch.source.ports:
                    ask(port.flow, buckets)

    for view, port in publications:
        ask(port.flow, view.options.buckets or choices.buckets)
    return counts


def _zones(stages: list[Stage], buckets: Mapping[str, int], choices: Choices) -> tuple[Zone, ...]:
    groups = merged_zones(stages) if choices.merge_zones else [[stage] for stage in stages]
    zones: list[Zone] = []
    for number, group in enumerate(groups, start=1):
        count = max(buckets.get(stage.name, choices.buckets) for stage in group)
        zones.append(Zone(name=f"z{number}", stages=tuple(group), buckets=count if _spread(group[0]) else 1))
    return tuple(zones)


def _spread(stage: Stage) -> bool:
    """Say whether a stage's rows can be in more than one bucket."""
    if isinstance(stage, JoinStage):
        return bool(stage.key)
    return bool(stage.group) if isinstance(stage, AggregateStage) else bool(stage.key)
