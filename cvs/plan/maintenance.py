"""View definitions into one maintenance plan: drafts, zones in order, publications."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cvs.model.stages import AggregateStage, Edge, JoinStage, Plan, Publication, Stage, Zone, inputs
from cvs.model.views import BaseTable, Named, Relation
from cvs.plan.cells import Cells, cells_of
from cvs.plan.cost import plan_cost
from cvs.plan.drafts import Draft, Flow, Port
from cvs.plan.late import Merge, merges
from cvs.plan.levels import check_levels
from cvs.plan.lowering import Lowering
from cvs.plan.ordering import Orders
from cvs.plan.relations import scans
from cvs.plan.sizes import Sizes
from cvs.plan.sql import DeclaredView
from cvs.plan.statistics import Statistics, Weights
from cvs.plan.zones import merged_zones

BUCKETS = 16
_CONSTANT = re.compile(r"Literal\(value=(?:[^()]|\([^()]*\))*\)")
SMALL_ROWS = 2_000  # because every bucket holds all of a replicated table
GUESSED = Statistics()
SHIPPED = Weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the planner may do; each is a switch, so that its effect can be measured and tested.

    What may be done is done where it costs less, by what is known and the weights; not `by_cost`: wherever it can be.
    """

    share: bool = True
    merge_zones: bool = True
    late_selection: bool = True
    cells: bool = True
    join_order: bool = True
    by_cost: bool = True
    replicated: frozenset[str] = frozenset()
    buckets: int = BUCKETS
    statistics: Statistics = GUESSED
    weights: Weights = SHIPPED


DEFAULT = Choices()


def maintenance_plan(
    views: Sequence[DeclaredView],
    tables: Mapping[str, BaseTable] | Iterable[BaseTable],
    choices: Choices = DEFAULT,
) -> Plan:
    """Return the plan that keeps all the views; a level no plan reaches is refused."""
    planner = _Planner(views, tables, choices)
    lowering, plan = planner.small_everywhere()
    merge = merges(lowering.sightings) if choices.late_selection and choices.share else {}
    cells = cells_of(lowering.ranges) if choices.cells and choices.share else {}
    if not choices.by_cost:
        plan = planner.plan(merge, cells)[1] if merge or cells else plan
    elif merge or cells:
        plan = _cheapest(planner, plan, merge, cells)
    check_levels(views, plan)
    return plan


def _cheapest(
    planner: "_Planner", plan: Plan, merge: Mapping[str, Merge], cells: Mapping[Any, Cells]
) -> Plan:
    """Take late selections, then the cells of each source and group, where the plan gets cheaper by them."""
    taken: tuple[Mapping[str, Merge], dict[Any, Cells]] = ({}, {})
    trials: list[tuple[Mapping[str, Merge], dict[Any, Cells]]] = [(merge, {})] if merge else []
    trials += [({}, {key: cut}) for key, cut in cells.items()]
    best = planner.ms(plan)
    for more, cut in trials:
        tried = (taken[0] or more, taken[1] | cut)
        candidate = planner.plan(*tried)[1]
        ms = planner.ms(candidate)
        if ms < best:
            best, plan, taken = ms, candidate, tried
    return plan


class _Planner:
    """Makes plans of the same views that differ in what is shared."""

    def __init__(
        self,
        views: Sequence[DeclaredView],
        tables: Mapping[str, BaseTable] | Iterable[BaseTable],
        choices: Choices,
    ) -> None:
        self._views, self._choices = (
            views,
            replace(choices, statistics=with_declared_rows(choices.statistics, views)),
        )
        self._replicated = choices.replicated
        self._bases = dict(tables) if isinstance(tables, Mapping) else {t.name: t for t in tables}
        self._names = {**self._bases, **{view.name: view.table for view in views}}
        self._definitions = {view.name: view.definition for view in views}
        if choices.join_order:
            self._order_joins()

    def small_everywhere(self) -> tuple[Lowering, Plan]:
        """Plan, with the tables that are known to be small in every bucket where that costs less."""
        found = self.plan({}, {})
        small = {name for name, rows in self._choices.statistics.rows.items() if rows <= SMALL_ROWS}
        small = (small & {base.name for base in found[1].bases}) - self._replicated
        if small and self._choices.by_cost:
            before, self._replicated = self._replicated, self._replicated | small
            tried = self.plan({}, {})
            if self.ms(tried[1]) < self.ms(found[1]):
                return tried
            self._replicated = before
        return found

    def _order_joins(self) -> None:
        """Give each view's joins their order by cost, where the plan of that view alone gets cheaper by it."""
        sizes = Sizes(
            tables=self._names,
            statistics=self._choices.statistics,
            weights=self._choices.weights,
            buckets=self._choices.buckets,
        )
        orders = Orders(sizes)
        pays: dict[str, bool] = {}  # by query without its constants: many views differ in nothing else
        for view in self._views:
            written = view.definition.relation
            if sum(1 for _ in scans(written)) < 3:
                continue  # because two tables meet in one way
            skeleton = _CONSTANT.sub("?", repr(written))
            if pays.get(skeleton, True):
                relation = orders.ordered(written)
                if skeleton not in pays:
                    pays[skeleton] = relation != written and self._pays(view, relation)
                if pays[skeleton]:
                    self._definitions[view.name] = replace(view.definition, relation=relation)

    def _pays(self, view: DeclaredView, relation: Relation) -> bool:
        """Say whether the plan of a view alone costs less with its joins in another order."""
        costs = []
        for definition in (view.definition, replace(view.definition, relation=relation)):
            self._definitions[view.name] = definition
            costs.append(self.ms(self.plan({}, {}, [view])[1]))
        self._definitions[view.name] = view.definition
        return costs[1] < costs[0]

    def ms(self, plan: Plan) -> float:
        """Return what a plan costs an update."""
        return plan_cost(plan, self._choices.statistics, self._choices.weights).total_ms

    def plan(
        self,
        merge: Mapping[str, Merge],
        cells: Mapping[Any, Cells],
        views: Sequence[DeclaredView] | None = None,
    ) -> tuple[Lowering, Plan]:
        """Lower all views (or some) with these late selections and cells."""
        lowering = Lowering(
            tables=self._names,
            views=self._definitions,
            share=self._choices.share,
            replicate=self._small,
            merges=merge,
            cells=cells,
        )
        shown = [
            (view, _port(lowering.flow(self._definitions[view.name].relation), view))
            for view in views or self._views
        ]
        finished = tuple(_publication(view, port) for view, port in shown)
        stages = [draft.stage() for draft in lowering.drafts]
        used = {edge.source for stage in stages for edge in inputs(stage)}
        used |= {edge.source for publication in finished for edge in publication.inputs}
        buckets = _bucket_counts(shown, self._choices)
        groups = merged_zones(stages) if self._choices.merge_zones else [[stage] for stage in stages]
        return lowering, Plan(
            bases=tuple(table for name, table in sorted(self._bases.items()) if name in used),
            zones=_zones(groups, buckets, self._choices),
            publications=finished,
        )

    def _small(self, relation: Relation) -> bool:
        return all(scan.table in self._replicated for scan in scans(relation))


def with_declared_rows(statistics: Statistics, views: Iterable[DeclaredView]) -> Statistics:
    """Add what views declare of their tables; of several numbers the largest, and what was measured before all."""
    declared: dict[str, int] = {}
    for view in views:
        for table, rows in view.options.rows:
            declared[table] = max(rows, declared.get(table, 0))
    return replace(statistics, rows={**declared, **statistics.rows})


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


def _zones(groups: list[list[Stage]], buckets: Mapping[str, int], choices: Choices) -> tuple[Zone, ...]:
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
