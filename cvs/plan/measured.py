"""`cvs explain --analyze`: what a live cluster was seen writing, beside what the cost model expects of it.

A running pipeline is known by its tables: state of every zone and DELTA of every base table, in one keyspace and
one incarnation. Its control row takes one write an epoch, so epochs are counted too, and with them how many base
updates an epoch carries, which is what the cost of an update depends on most.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cvs.model.layout import delta_table, state_table
from cvs.model.stages import Plan
from cvs.plan.cost import PlanCost
from cvs.plan.statistics import Statistics

CONTROL = "control"
EPOCH_UPDATES_MIN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Writes a second: of base tables, and of a pipeline's own tables by zone, if one runs this very plan."""

    updates: Mapping[str, float]
    keyspace: str = ""
    epochs: float = 0.0
    test_and_sets: Mapping[str, float]

    def statistics(self, known: Statistics) -> Statistics:
        """Return what is known with the measured rates, where any were seen."""
        total = sum(self.updates.values())
        if not total:
            return known
        size = known.epoch_updates if not self.epochs else max(EPOCH_UPDATES_MIN, round(total / self.epochs))
        return replace(known, rates={**known.rates, **self.updates}, epoch_updates=size)

    def lines(self, cost: PlanCost) -> Iterator[str]:
        """Yield the measured rates, and what is expected of them."""
        seen = ", ".join(f"{table} {rate:.1f}/s" for table, rate in sorted(self.updates.items()))
        yield f"measured updates: {seen or 'none'}"
        load = sum(cost.per_update_ms.get(table, 0.0) * rate for table, rate in self.updates.items())
        yield f"expected load of that: {load / 10:.1f} % of one core"
        if not self.keyspace:
            yield "no pipeline with this plan writes here"
            return
        yield f"pipeline {self.keyspace}: {self.epochs:.2f} epochs/s"
        for zone, rate in sorted(self.test_and_sets.items()):
            yield f"  {zone}: {rate:.1f} test-and-sets/s, expected {self.expected(zone, cost):.1f}"

    def expected(self, zone: str, cost: PlanCost) -> float:
        """Return the test-and-sets a second that the cost model expects of a zone (named by its first stage)."""
        rounds = cost.stage(zone).rounds
        return sum(rounds.get(table, 0.0) * rate for table, rate in self.updates.items())


def measured(plan: Plan, rates: Mapping[str, float]) -> Measured:
    """Find base tables and a pipeline's own tables among all tables' writes a second."""
    updates = {base.name: rates.get(base.name, 0.0) for base in plan.bases}
    for place, incarnation in sorted(_incarnations(rates), key=lambda it: (it[0], int(it[1])), reverse=True):
        states = {zone: state_table(place, f"{zone.name}_{incarnation}").name for zone in plan.zones}
        deltas = [delta_table(place, f"{base.name}_{incarnation}").name for base in plan.bases]
        if all(name in rates for name in (*states.values(), *deltas)):
            return Measured(
                updates=updates,
                keyspace=place,
                epochs=rates.get(f"{place}.{CONTROL}", 0.0),
                test_and_sets={zone.stages[0].name: rates[name] for zone, name in states.items()},
            )
    return Measured(updates=updates, test_and_sets={})


def _incarnations(rates: Mapping[str, float]) -> set[tuple[str, str]]:
    found = (re.fullmatch(r"(\w+)\.state_z1_(\d+)", name) for name in rates)
    return {(it[1], it[2]) for it in found if it is not None}
