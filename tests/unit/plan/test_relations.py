"""What a relation reads of its tables is enough to compute it, and no more than it names."""

from decimal import Decimal

from cvs.model.recompute import recompute
from cvs.model.views import BaseTable, Scan, SetOperation
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
