"""What would make a plan cheaper or fresher, said only where the estimate shows it."""

from collections.abc import Collection, Iterator

from cvs.model.stages import AggregateStage, JoinStage, Plan, TopKStage
from cvs.plan.cost import PlanCost

CROWDED = 10_000.0  # because reading more rows of one bucket than this in an epoch is felt
SMALL = 2_000.0


def advice(plan: Plan, cost: PlanCost, told: Collection[str] = ()) -> Iterator[str]:
    """Yield hints, the most certain first; `told`: tables whose rows the text declares."""
    for zone in plan.zones:
        rows = sum(cost.stage(stage.name).state_rows for stage in zone.stages)
        head = zone.stages[0]
        if isinstance(head, TopKStage) and rows > CROWDED:
            yield (
                f"{head.name} keeps {rows:,.0f} rows in one bucket for the first {head.limit}: select fewer rows "
                "before ORDER BY, or keep the rows without LIMIT and read the first ones"
            )
        elif isinstance(head, AggregateStage) and not head.group:
            yield (
                f"{head.name} is one row that every update changes: GROUP BY something and sum at reading spreads it"
            )
        elif zone.buckets > 1 and rows / zone.buckets > CROWDED:
            wanted = min(65536, max(zone.buckets * 2, 2 ** round(rows / CROWDED).bit_length()))
            crowd = f"{zone.name} has about {rows / zone.buckets:,.0f} rows a bucket"
            yield f"{crowd}: 'cvs.buckets' = '{wanted}'"
    for stage in plan.stages:
        if (
            isinstance(stage, JoinStage)
            and not stage.replicated
            and stage.kind in ("inner", "left", "semi", "anti")
        ):
            sources = {edge.source for edge in stage.right}
            small = [s for s in sources if _rows(cost, s) <= SMALL and s in cost.base_rows and s not in told]
            if small and len(small) == len(sources):
                sizes = ", ".join(f"{name} {_rows(cost, name):.0f}" for name in sorted(small))
                yield f"{stage.name} joins a small table: 'cvs.rows' = '{sizes}' lets it be everywhere if that pays"


def _rows(cost: PlanCost, source: str) -> float:
    found = [stage.rows for stage in cost.stages if stage.stage == source]
    return found[0] if found else cost.base_rows.get(source, float("inf"))
