"""Changed views and changed base tables: what is kept, rebuilt, dropped, broken, and which state holds the same."""

from dataclasses import replace

import pytest

from cvs.model.views import BaseTable
from cvs.plan.changes import difference
from cvs.plan.sql import parse_views

ORDERS = BaseTable(
    name="shop.orders",
    columns=(("id", "int"), ("customer", "int"), ("region", "text"), ("total", "int")),
    partition_key=("id",),
)
CUSTOMERS = BaseTable(name="shop.customers", columns=(("id", "int"), ("name", "text")), partition_key=("id",))
TABLES = {table.name: table for table in (ORDERS, CUSTOMERS)}
BEFORE = """
CREATE MATERIALIZED VIEW by_region AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region;
CREATE MATERIALIZED VIEW busy AS SELECT region, n FROM by_region WHERE n > 10;
CREATE MATERIALIZED VIEW everything AS SELECT * FROM customers;
CREATE MATERIALIZED VIEW named AS SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id
"""


def views(text: str = BEFORE, tables: dict[str, BaseTable] = TABLES):
    return parse_views(text, tables)


def kinds(changes) -> dict[str, str]:
    return {change.view.removeprefix("shop."): change.kind for change in changes}


def test_the_same_text_keeps_everything_however_it_is_written() -> None:
    again = BEFORE.replace("COUNT(*) AS n", "count( * )  AS n").replace("CREATE", "CREATE OR REPLACE")
    assert set(kinds(difference(views(), views(again))).values()) == {"kept"}


@pytest.mark.parametrize(
    ("old", "new", "rebuilt", "because"),
    [
        ("n > 10", "n > 11", {"busy"}, "another query"),
        ("COUNT(*) AS n FROM", "COUNT(*) AS n, SUM(total) AS s FROM", {"by_region", "busy"}, "s is new"),
        ("COUNT(*) AS n FROM", "SUM(total) AS n FROM", {"by_region", "busy"}, "another query"),
        ("VIEW named AS", "VIEW named TBLPROPERTIES ('cvs.buckets' = '8') AS", {"named"}, "other properties"),
        ("VIEW named AS", "VIEW named TBLPROPERTIES ('cvs.key' = '(name), id') AS", {"named"}, "other key"),
    ],
)
def test_what_means_something_else_is_rebuilt_and_so_is_what_reads_it(
    old: str, new: str, rebuilt: set[str], because: str
) -> None:
    found = difference(views(), views(BEFORE.replace(old, new)))
    assert {name for name, kind in kinds(found).items() if kind == "rebuilt"} == rebuilt
    assert because in " ".join(change.because for change in found)


def test_views_come_and_go() -> None:
    without = BEFORE.replace("named AS", "other AS")
    assert {n: k for n, k in kinds(difference(views(), views(without))).items() if k != "kept"} == {
        "named": "dropped",
        "other": "added",
    }


def test_an_added_column_changes_a_star_when_the_text_is_declared_again() -> None:
    """The kept statement says its columns, so a restart finds the same view; the text applied anew takes it in."""
    tables = {**TABLES, CUSTOMERS.name: replace(CUSTOMERS, columns=(*CUSTOMERS.columns, ("vip", "boolean")))}
    kept = parse_views("\n".join(view.statement for view in views()), tables)
    assert set(kinds(difference(views(), kept)).values()) == {"kept"}
    again = parse_views(BEFORE, tables)
    found = difference(views(), again)
    assert {name for name, kind in kinds(found).items() if kind != "kept"} == {"everything"}
    assert "vip is new" in next(c.because for c in found if c.kind == "rebuilt")
    assert ("vip", "boolean") in next(v for v in again if v.name == "shop.everything").columns


def test_another_type_is_another_view() -> None:
    wider = tuple((name, "bigint" if name == "id" else kind) for name, kind in ORDERS.columns)
    kept = parse_views(
        "\n".join(view.statement for view in views()), {**TABLES, ORDERS.name: replace(ORDERS, columns=wider)}
    )
    found = difference(views(), kept)
    assert kinds(found)["named"] == "rebuilt"
    assert "id is bigint" in next(c.because for c in found if c.view == "shop.named")
