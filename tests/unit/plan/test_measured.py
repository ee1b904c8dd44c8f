"""What was seen of a live cluster, beside what the cost model expects; and estimates from a sample."""

from cvs.model.layout import delta_table
from cvs.model.views import BaseTable
from cvs.plan.cost import plan_cost
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.measured import measured
from cvs.plan.sql import parse_views
from cvs.plan.statistics import Statistics
from cvs.store.observed import estimated_distinct

ORDERS = BaseTable(name="shop.orders", columns=(("id", "int"), ("region", "text")), partition_key=("id",))
PLAN = maintenance_plan(
    parse_views(
        "CREATE MATERIALIZED VIEW v AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region", [ORDERS]
    ),
    [ORDERS],
    Choices(buckets=8),
)


def rates(incarnation: int) -> dict[str, float]:
    return {f"cvs.state_z1_{incarnation}": 16.0, delta_table("cvs", f"shop.orders_{incarnation}").name: 99.0}


def test_a_running_pipeline_is_found_by_its_tables_newest_incarnation_first() -> None:
    seen = measured(
        PLAN, {"shop.orders": 100.0, "cvs.control": 2.0, **rates(1), **rates(2), "cvs.state_z1_2": 20.0}
    )
    assert (seen.keyspace, seen.epochs, seen.test_and_sets) == ("cvs", 2.0, {"s1": 20.0})
    known = seen.statistics(Statistics(distinct={"shop.orders.region": 1000}))
    assert known.epoch_updates == 50
    cost = plan_cost(PLAN, known)
    assert 15 < seen.expected("s1", cost) <= 16, "8 buckets, all touched by 100 changes, twice a second"
    assert any("20.0 test-and-sets/s, expected 1" in line for line in seen.lines(cost))


def test_without_a_pipeline_only_the_updates_are_told() -> None:
    seen = measured(PLAN, {"shop.orders": 10.0, "other.state_z1_1": 5.0})
    assert seen.keyspace == ""
    lines = list(seen.lines(plan_cost(PLAN, seen.statistics(Statistics()))))
    assert lines[0] == "measured updates: shop.orders 10.0/s"
    assert lines[-1].startswith("no pipeline")


def test_different_values_are_estimated_from_those_seen_once() -> None:
    assert estimated_distinct(dict.fromkeys(range(100), 1), 10_000) == 10_000
    assert estimated_distinct(dict.fromkeys(range(5), 20), 10_000) == 5
    assert estimated_distinct({n: 1 + n % 2 for n in range(200)}, 10_000) == 296
    assert estimated_distinct({}, 0) == 0
