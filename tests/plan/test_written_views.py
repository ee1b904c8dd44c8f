"""Views as people write them (`cases/*.sql`), each file in one plan: every view equals DuckDB after every epoch."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cvs.model.views import BaseTable
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import DeclaredView, parse_views
from tests.plan.programs_run import ProgramsRun
from tests.plan.random_views import Base
from tests.plan.tpch.data import comparable

CASES = Path(__file__).with_name("cases")
TABLES = {
    table.name: table
    for table in (
        BaseTable(
            name="shop.orders",
            columns=(
                ("customer", "int"), ("day", "date"), ("id", "int"), ("status", "text"), ("total", "decimal"),
                ("note", "text"), ("vip", "boolean"),
            ),
            partition_key=("customer", "day"),
            clustering_key=("id",),
        ),
        BaseTable(
            name="shop.customers",
            columns=(
                ("id", "int"), ("name", "text"), ("country", "text"), ("active", "boolean"), ("referrer", "int"),
                ("weight", "double"),
            ),
            partition_key=("id",),
        ),
        BaseTable(
            name="shop.lines",
            columns=(
                ("customer", "int"), ("day", "date"), ("id", "int"), ("line", "smallint"), ("sku", "text"),
                ("quantity", "int"), ("price", "decimal"),
            ),
            partition_key=("customer", "day"),
            clustering_key=("id", "line"),
        ),
        BaseTable(
            name="shop.visits",
            columns=(("id", "int"), ("seen", "timestamp"), ("Page", "text"), ("ms", "bigint")),
            partition_key=("id",),
        ),
    )
}  # fmt: skip


class Shop(Base):
    """Random changes of the shop's tables, and what DuckDB says to a view of them."""

    SPACE = "shop"

    def value(self, kind: str, *, solid: bool = False) -> object:
        if kind == "text" and not solid and self.random.random() < 0.5:
            return self.random.choice(["paid", "posted", "open", "de", "fr", "it's", "V"])
        if kind == "timestamp":
            seen = datetime(2024, 1, self.random.randrange(1, 5), self.random.randrange(24), 30, tzinfo=UTC)
            return None if self.random.random() < 0.2 else seen
        return super().value(kind, solid=solid)


def wanted(base: Shop, view: DeclaredView) -> list[dict[str, Any]]:
    """Return DuckDB's rows in our types: it gives timestamps where Spark has dates, and the other way round."""
    rows = base.shown(view)
    dated = {name for name, kind in view.columns if kind == "date"}
    return [
        {n: v.date() if n in dated and isinstance(v, datetime) else v for n, v in row.items()} for row in rows
    ]


def plain(rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Bring timestamps and the dates that begin with them to one form."""
    return [{n: str(v)[:10] if hasattr(v, "year") else v for n, v in row.items()} for row in rows]


@pytest.mark.parametrize("file", ["shop.sql", "habits.sql"])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_views_as_people_write_them_equal_duckdb(seed: int, file: str) -> None:
    random = Random(seed)
    views = parse_views(CASES.joinpath(file).read_text(), TABLES)
    assert len(views) >= 40
    run = ProgramsRun(maintenance_plan(views, TABLES, Choices(buckets=4, by_cost=bool(seed % 2))))
    base = Shop(random, TABLES)
    shown: set[str] = set()
    for epoch in range(5):
        run.epoch(base.epoch(40))
        for view in views:
            columns = [name for name, _ in view.columns if name != "only"]
            got = comparable(plain(list(run.published[view.name].values())), columns)
            assert got == comparable(plain(wanted(base, view)), columns), f"{view.name}, epoch {epoch}"
            shown |= {view.name} if got else set()
    assert len(shown) > len(views) - 5
