"""The order of joins: what costs less comes first, and no order changes what a view holds."""

from collections import Counter
from random import Random

import pytest

from cvs.model.recompute import bag
from cvs.model.stages import JoinStage, inputs
from cvs.model.views import BaseTable, Join, Project
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.ordering import Orders
from cvs.plan.relations import scans
from cvs.plan.sizes import Sizes
from cvs.plan.sql import parse_views
from cvs.plan.statistics import Statistics, Weights
from tests.plan.tpch.data import QUERIES
from tests.plan.tpch.schema import TABLES as TPCH

COLUMNS = (("id", "int"), ("x", "int"), ("y", "bigint"), ("z", "int"), ("w", "double"))
TABLES = {
    f"s.{name}": BaseTable(name=f"s.{name}", columns=COLUMNS, partition_key=("id",)) for name in "abcde"
}


def random_query(chance: Random) -> str:
    """Join three to five tables in a tree, with more equalities, selections and EXISTS on top."""
    names = chance.sample("abcde", chance.randint(2, 5))
    columns = ("x", "y", "z", "w", "id")
    where = []
    for place, name in enumerate(names[1:], start=1):
        where.append(
            f"{chance.choice(names[:place])}.{chance.choice(columns)} = {name}.{chance.choice(columns)}"
        )
    for _ in range(chance.choice((0, 0, 1, 2))):
        one, other = chance.sample(names, 2)
        operator = chance.choice(("=", "=", "<", "<>"))
        where.append(f"{one}.{chance.choice(columns)} {operator} {other}.{chance.choice(columns)}")
    for _ in range(chance.choice((0, 0, 1))):
        where.append(f"{chance.choice(names)}.{chance.choice(columns)} > {chance.randrange(2)}")
    for number in range(chance.choice((0, 0, 1, 2))):
        outer, inner = chance.choice(names), chance.choice("abcde")
        also = f" AND e{number}.z <> {chance.choice(names)}.z" if chance.random() < 0.3 else ""
        where.append(
            f"{chance.choice(('', 'NOT '))}EXISTS (SELECT * FROM {inner} e{number} "
            f"WHERE e{number}.{chance.choice(columns)} = {outer}.{chance.choice(columns)}{also})"
        )
    shown = ", ".join(f"{name}.id AS {name}_id" for name in names)
    return f"SELECT {shown} FROM {', '.join(names)} WHERE {' AND '.join(where)}"


def random_rows(chance: Random) -> dict[str, list[dict]]:
    values = [None, 0, 1, 1, 2]

    def row(key: int) -> dict:
        real = chance.choice([None, 0.0, 1.0, 1.0, float("nan")])
        return {"id": key, **{name: chance.choice(values) for name in "xyz"}, "w": real}

    return {table: [row(key) for key in range(chance.randrange(4, 9))] for table in TABLES}


def random_statistics(chance: Random) -> Statistics:
    rows = {table: 10 ** chance.randrange(1, 7) for table in TABLES}
    distinct = {
        f"{table}.{name}": max(1, rows[table] // chance.choice((1, 10, 1000)))
        for table in TABLES
        for name, _ in COLUMNS
        if chance.random() < 0.5
    }
    rates = {table: chance.choice((0.1, 1.0, 100.0)) for table in TABLES}
    return Statistics(rows=rows, distinct=distinct, rates=rates)


def orders(statistics: Statistics, tables: dict[str, BaseTable]) -> Orders:
    return Orders(Sizes(tables=tables, statistics=statistics, weights=Weights(), buckets=16))


def test_no_order_changes_what_a_view_holds() -> None:
    changed = filled = 0
    for seed in range(150):
        chance = Random(seed)
        (view,) = parse_views(f"CREATE MATERIALIZED VIEW s.v AS {random_query(chance)}", TABLES)
        written = view.definition.relation
        ordered = orders(random_statistics(chance), TABLES).ordered(written)
        changed += ordered != written
        base = random_rows(chance)
        rows = [Counter(tuple(row.items()) for row in bag(it, base, TABLES)) for it in (written, ordered)]
        assert rows[0] == rows[1], view.sql
        filled += bool(rows[0])
    assert changed > 50, "hardly an order was changed, so nothing was tried"
    assert filled > 40, "hardly a view had rows"


def joined_tables(relation: Join) -> list[str]:
    return [scan.table for scan in scans(relation)]


def test_a_table_that_changes_much_passes_few_joins() -> None:
    query = "SELECT a.id, b.id AS b, c.id AS c FROM a, b, c WHERE a.x = b.id AND b.x = c.id"
    (view,) = parse_views(f"CREATE MATERIALIZED VIEW s.v AS {query}", TABLES)
    assert isinstance(view.definition.relation, Project)
    rates = {"s.a": 1000.0, "s.b": 1.0, "s.c": 1.0}
    busy = orders(Statistics(rates=rates), TABLES).ordered(view.definition.relation)
    assert joined_tables(busy.source)[0] == "s.a"
    assert {scan.table for scan in scans(busy.source.right)} == {"s.b", "s.c"}


def test_a_guess_never_buys_a_join_of_many_with_many() -> None:
    """Customers and suppliers of one nation would meet early in q5, if a guess of 100,000 nations were believed."""
    (view,) = (v for v in parse_views(QUERIES, TPCH) if v.name == "tpch.q5")
    below: dict[str, set[str]] = {}
    for stage in maintenance_plan([view], TPCH).stages:
        if isinstance(stage, JoinStage):
            sides = [
                set().union(*(below.get(edge.source, {edge.source}) for edge in side))
                for side in (stage.left, stage.right)
            ]
            below[stage.name] = sides[0] | sides[1]
            if any("tpch.customer" in a and "tpch.supplier" in b for a, b in (sides, sides[::-1])):
                assert len(stage.left_key) == 2, "they meet by nation alone"
    assert any({"tpch.customer", "tpch.supplier"} <= tables for tables in below.values())


@pytest.mark.parametrize("query", ["q2", "q5", "q11"])
def test_small_tables_meet_before_the_large_ones(query: str) -> None:
    """Nation and region (or supplier and nation) are joined first: lines of orders pass one join less."""
    (view,) = (v for v in parse_views(QUERIES, TPCH) if v.name == f"tpch.{query}")
    known = Statistics(rows={"tpch.nation": 25, "tpch.region": 5})
    plans = [
        maintenance_plan([view], TPCH, Choices(join_order=order, statistics=known)) for order in (True, False)
    ]
    first = [{edge.source for stage in plan.stages for edge in inputs(stage)} for plan in plans]
    assert first[0] == first[1], "the same tables are read"
    pairs = [
        {
            frozenset(edge.source for edge in inputs(stage))
            for stage in plan.stages
            if isinstance(stage, JoinStage)
        }
        for plan in plans
    ]
    small = [frozenset(("tpch.nation", "tpch.region")), frozenset(("tpch.supplier", "tpch.nation"))]
    assert any(pair in pairs[0] for pair in small)
    assert not any(pair in pairs[1] for pair in small)
