"""Layouts become CQL that says exactly what the protocol needs."""

import pytest

from cvs.errors import SpecificationError
from cvs.model.expressions import Column
from cvs.model.layout import (
    MAX_NAME,
    create_statement,
    delta_table,
    is_delta_of,
    published_table,
    quoted,
    state_table,
    tables,
)
from cvs.model.stages import AggregateStage, Edge, Plan, Publication, Zone, inputs
from cvs.model.views import AggregateColumn, AggregateFunction, BaseTable, Named

ORDERS = BaseTable(name="shop.orders", columns=(("id", "int"), ("region", "text")), partition_key=("id",))
EDGE = Edge(source="shop.orders", columns=(Named(name="region", expression=Column("region")),))
COUNT = AggregateStage(
    name="s1",
    inputs=(EDGE,),
    group=("region",),
    aggregates=(AggregateColumn(name="n", function=AggregateFunction.COUNT),),
    output=(("region", "text"), ("n", "bigint")),
)
PUBLISHED = Publication(
    view="by_region",
    table="shop.by_region",
    inputs=(
        Edge(
            source="s1",
            columns=(
                Named(name="region", expression=Column("region")),
                Named(name="n", expression=Column("n")),
            ),
        ),
    ),
    columns=(("region", "text"), ("n", "bigint")),
    partition_key=("region",),
)
PLAN = Plan(bases=(ORDERS,), zones=(Zone(name="z1", stages=(COUNT,), buckets=8),), publications=(PUBLISHED,))


def test_a_plan_lists_every_table_once() -> None:
    names = [table.name for table in tables(PLAN, "cvs")]
    assert names == ["cvs.delta_shop_orders", "cvs.state_z1", "shop.by_region"]


def test_the_signature_is_static_and_gc_grace_is_never_zero() -> None:
    cql = create_statement(state_table("cvs", "z1"))
    assert "epoch bigint static" in cql
    assert "PRIMARY KEY ((bucket), row)" in cql.replace('"', "")
    assert "gc_grace_seconds = 864000" in cql


def test_a_published_table_has_the_declared_columns_only() -> None:
    body = create_statement(tables(PLAN, "cvs")[2]).split("PRIMARY")[0]
    assert [line.split()[0] for line in body.splitlines()[1:3]] == ["region", "n"]


def test_published_collections_are_frozen() -> None:
    """A replayed put of a list that is not would leave its elements twice."""
    columns = (("id", "int"), ("a", "list<int>"), ("b", "map<text, set<int>>"), ("c", "frozen<set<text>>"))
    shown = Publication(
        view="v", table="v.v", columns=columns, partition_key=("id",), clustering=(), inputs=()
    )
    kinds = [kind for _, kind in published_table(shown).columns]
    assert kinds == ["int", "frozen<list<int>>", "frozen<map<text, set<int>>>", "frozen<set<text>>"]


def test_user_types_are_published_as_tuples() -> None:
    """A user type is known in its own keyspace only, and its spelled-out form is no CQL."""
    place = "udt<street:text, gates:list<frozen<udt<no:int>>>>"
    columns = (("id", "int"), ("a", place), ("b", f"map<text, frozen<{place}>>"), ("c", "vector<float, 3>"))
    shown = Publication(
        view="v", table="v.v", columns=columns, partition_key=("id",), clustering=(), inputs=()
    )
    tuples = "tuple<text, list<frozen<tuple<int>>>>"
    kinds = [kind for _, kind in published_table(shown).columns]
    assert kinds == ["int", f"frozen<{tuples}>", f"frozen<map<text, frozen<{tuples}>>>", "vector<float, 3>"]


def test_long_names_are_cut_and_stay_different() -> None:
    one, two = (delta_table("cvs", f"shop.{'x' * 60}{end}").name.split(".")[1] for end in "ab")
    assert one != two
    assert len(one) == MAX_NAME


@pytest.mark.parametrize("base", ["shop.orders", "shop.Orders", f"shop.{'x' * 31}", f"shop.{'x' * 60}"])
def test_a_table_is_known_as_the_delta_of_its_base(base: str) -> None:
    """In each incarnation, by its name alone; another base table whose name begins alike has another."""
    for incarnation in (1, 23):
        table = delta_table("cvs", f"{base}_{incarnation}").name.split(".")[1]
        assert is_delta_of(table, base)
        assert not is_delta_of(table, "shop.order")
    assert not is_delta_of("delta_shop_orders_archive_1", "shop.orders")
    assert not is_delta_of("state_z1_1", base)


@pytest.mark.parametrize(
    ("name", "cql"), [("a", "a"), ("Total", '"Total"'), ("order", '"order"'), ('q"', '"q"""')]
)
def test_names_are_quoted_where_cql_needs_it(name: str, cql: str) -> None:
    assert quoted(name) == cql


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(SpecificationError):
        quoted("")


def test_a_plan_is_plain_data() -> None:
    assert PLAN.stages == (COUNT,)
    assert inputs(COUNT) == (EDGE,)
    assert PUBLISHED.key == ("region",)
