"""What a relation reads of its tables is enough to compute it, and no more than it names."""

from decimal import Decimal

from cvs.model.recompute import recompute
from cvs.model.stages import columns_read
from cvs.model.views import BaseTable, Scan, SetOperation
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.relations import read_columns
from cvs.plan.sql import parse_views
from cvs.stream.shop import VIEWS
from tests.campaigns.views import MORE

TABLES = {
    table.name: table
    for table in (
        BaseTable(
            name="shop.orders",
            columns=(
                ("id", "int"),
                ("customer", "int"),
                ("product", "int"),
                ("quantity", "int"),
                ("total", "decimal"),
            ),
            partition_key=("id",),
        ),
        BaseTable(
            name="shop.products",
            columns=(("id", "int"), ("name", "text"), ("price", "decimal")),
            partition_key=("id",),
        ),
        BaseTable(
            name="shop.customers",
            columns=(("id", "int"), ("name", "text"), ("city", "text")),
            partition_key=("id",),
        ),
    )
}
BASE = {
    "shop.orders": [
        {"id": n, "customer": n % 3, "product": n % 2, "quantity": n, "total": Decimal(n)} for n in range(12)
    ],
    "shop.products": [{"id": n, "name": f"p{n}", "price": Decimal(n)} for n in range(2)],
    "shop.customers": [{"id": n, "name": f"c{n}", "city": "AB"[n % 2]} for n in range(3)],
}


def test_columns_that_are_not_read_change_nothing() -> None:
    """Every class of view is the same over rows that lack what it does not read."""
    for view in parse_views((VIEWS + MORE).format(views="views"), TABLES):
        read = read_columns(view.definition.relation)
        thin = {
            name: [{c: v for c, v in row.items() if read[name] is None or c in read[name]} for row in rows]
            for name, rows in BASE.items()
            if name in read
        }
        assert recompute(view.definition, thin, TABLES) == recompute(view.definition, BASE, TABLES)


def test_only_named_columns_are_read() -> None:
    """A join reads its keys too; rows that are compared as wholes are read as wholes."""
    views = {
        v.name: read_columns(v.definition.relation) for v in parse_views(VIEWS.format(views="v"), TABLES)
    }
    assert views["v.extremes_by_product"] == {"shop.orders": {"product", "total"}}
    assert views["v.revenue_by_city"] == {
        "shop.orders": {"customer", "total"},
        "shop.customers": {"id", "city"},
    }
    orders = Scan(table="shop.orders", alias="o")
    assert read_columns(SetOperation(kind="union", all=False, left=orders, right=orders)) == {
        "shop.orders": None
    }


def test_a_plan_reads_what_some_view_needs() -> None:
    """Over all its views: also through a subquery that names everything, and what only a condition looks at."""
    views = parse_views(
        """CREATE MATERIALIZED VIEW v.a AS WITH o AS (SELECT * FROM shop.orders) SELECT customer, SUM(quantity) AS q
             FROM o GROUP BY customer;
           CREATE MATERIALIZED VIEW v.b AS SELECT id, customer FROM shop.orders WHERE total > 10;
           CREATE MATERIALIZED VIEW v.c AS SELECT c.id, c.city FROM shop.customers c
             WHERE EXISTS (SELECT 1 FROM shop.orders o WHERE o.customer = c.id)""",
        TABLES,
    )
    assert columns_read(maintenance_plan(views, TABLES)) == {
        "shop.orders": {"id", "customer", "quantity", "total"},
        "shop.customers": {"id", "city"},
    }
    assert columns_read(maintenance_plan(views[:1], TABLES)) == {"shop.orders": {"customer", "quantity"}}
