"""Where rows are: a merged zone holds them by its own key, a small table is in every bucket."""

from collections import Counter

import pytest

from cvs.errors import SpecificationError
from cvs.model.stages import JoinStage
from cvs.plan.maintenance import Choices
from cvs.plan.statistics import Statistics, Weights
from cvs.programs.stage_bucket import ReadBucket, drive
from cvs.programs.stage_publish import PublishCompute
from cvs.programs.stage_snapshot import SnapshotReader
from tests.plan.programs_run import ProgramsRun
from tests.unit.plan.test_plan import WHEREVER, plan_of


def test_a_row_of_a_merged_zone_is_found_by_its_key() -> None:
    """The zone is routed by the customer; a group of customer and region is where its customer is."""
    query = """SELECT o.customer, o.region, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id
               GROUP BY o.customer, o.region"""
    plan = plan_of(query, choices=WHEREVER)
    assert [len(zone.stages) for zone in plan.zones] == [2]
    run = ProgramsRun(plan)
    orders = [(n % 4, n, "xyz"[n % 3], None, None, None) for n in range(24)]
    run.epoch({
        "shop.orders": Counter(dict.fromkeys(orders, 1)),
        "shop.customers": Counter({(n, "a", None): 1 for n in range(4)}),
    })  # fmt: skip
    publication = PublishCompute(plan.publications[0], plan)
    reader = SnapshotReader(publication, run.zones, run.tables)
    shown = run.published["shop.v0"].values()
    assert len(shown) == 12
    for row in shown:
        asked: list[ReadBucket] = []

        def door(requests: list[ReadBucket], asked: list[ReadBucket] = asked) -> list[object]:
            asked += requests
            return list(run.door(requests))

        assert (
            tuple(row.values()) in drive(reader.rows(1, key=(row["customer"], row["region"])), door).values()
        )
        assert len(asked) == 1


def test_a_declared_number_of_rows_puts_a_small_table_everywhere() -> None:
    """In small epochs test-and-sets are dear: its join stands in the zone before it, and holds what it held apart."""
    query = """SELECT o.region, c.name, COUNT(*) AS n, SUM(t.total) AS s
               FROM orders o JOIN orders t ON o.customer = t.id LEFT JOIN customers c ON o.id = c.id AND t.total > 4
               GROUP BY o.region, c.name"""
    dear = Choices(weights=Weights(test_and_set=50.0), statistics=Statistics(epoch_updates=10), buckets=4)
    head = "TBLPROPERTIES ('cvs.rows' = 'customers 3')"
    plan, unknown = plan_of(query, choices=dear, head=head), plan_of(query, choices=dear)
    assert [stage.replicated for stage in plan.stages if isinstance(stage, JoinStage)] == [False, True]
    assert not any(stage.replicated for stage in unknown.stages if isinstance(stage, JoinStage))
    assert [len(zone.stages) for zone in plan.zones] == [2, 1]
    runs = [ProgramsRun(plan), ProgramsRun(unknown)]

    def base(epoch: int) -> dict[str, Counter]:
        orders = {(n % 3, n, "xyz"[n % 2], n + epoch + 5, None, None): 1 for n in range(9) if n != epoch + 3}
        people = {(n, f"c{epoch}", None): 1 for n in range(epoch)}
        return {"shop.orders": Counter(orders), "shop.customers": Counter(people)}

    for epoch in range(4):
        batch = base(epoch)
        for name, rows in base(epoch - 1).items() if epoch else ():
            batch[name].subtract(rows)
        for each in runs:
            each.epoch({name: Counter({r: n for r, n in rows.items() if n}) for name, rows in batch.items()})
        assert runs[0].published == runs[1].published
        named = [row["name"] for row in runs[0].published["shop.v0"].values()]
        assert (f"c{epoch}" in named) is (epoch > 0)


@pytest.mark.parametrize("rows", ["customers", "customers few", "nowhere 3", "lines 3"])
def test_rows_that_cannot_be_meant_are_refused(rows: str) -> None:
    with pytest.raises(SpecificationError):
        plan_of("SELECT id, name FROM customers", head=f"TBLPROPERTIES ('cvs.rows' = '{rows}')")
