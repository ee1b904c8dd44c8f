"""The combined selection of many joins: what every one of them implies, and no wider than it must be."""

from cvs.model.expressions import Call, Column, Literal, compile_predicate
from cvs.model.stages import JoinStage
from cvs.plan.cost import plan_cost
from cvs.plan.explain import Explanation
from cvs.plan.late import VARIANTS_MAX, weakest
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from tests.unit.plan.test_plan import TABLES, plan_of


def between(column: str, low: int, high: int, *more: Call) -> tuple[Call, ...]:
    return (
        Call(">=", (Column(column), Literal(low))),
        Call("<", (Column(column), Literal(high))),
        *more,
    )


def test_many_ranges_keep_their_hull() -> None:
    """Above a handful an OR costs more than it keeps out; the least and the greatest bound still do."""
    shared = Call("=", (Column("kind"), Literal("a")))
    variants = [between("x", n, n + 5, shared, Call(">", (Column("y"), Literal(n)))) for n in range(10, 30)]
    assert len(variants) > VARIANTS_MAX
    combined = weakest(variants)
    assert shared in combined
    passes = compile_predicate(Call("and", combined))
    for x, y, kept in ((10, 11, True), (33, 50, True), (34, 50, False), (9, 50, False), (20, 10, False)):
        assert passes({"x": x, "y": y, "kind": "a"}) is kept
    assert weakest([*variants, (shared,)]) == (shared,)


def test_a_bound_that_one_variant_lacks_is_no_bound() -> None:
    variants = [between("x", n, n + 5) for n in range(10)] + [(Call("<", (Column("x"), Literal(3))),)]
    assert weakest(variants) == (Call("<", (Column("x"), Literal(14))),)


def test_twenty_joins_over_ranges_are_one_join_over_their_hull() -> None:
    query = "SELECT o.customer, o.id, name FROM orders o JOIN customers c ON o.customer = c.id WHERE "
    query += "o.id >= {} AND o.id < {}"
    plan = plan_of(*(query.format(n, n + 5) for n in range(20)), choices=Choices(by_cost=False))
    (join,) = plan.stages
    assert isinstance(join, JoinStage)
    where = compile_predicate(join.left[0].where)
    assert [where({"id": at}) for at in (-1, 0, 23, 24)] == [False, True, True, False]
    assert len({edge.where for it in plan.publications for edge in it.inputs}) == 20


def test_explain_names_what_is_looked_up_together() -> None:
    text = ";".join(
        f"CREATE MATERIALIZED VIEW v{n} AS SELECT id, name FROM customers WHERE id > {n}" for n in range(5)
    )
    views = parse_views(text, TABLES)
    plan = maintenance_plan(views, TABLES)
    told = Explanation(views=views, plan=plan, cost=plan_cost(plan), apart=plan_cost(plan))
    assert told.combined() == {"shop.customers": 5}
    assert any(line.startswith("5 ways out of shop.customers are one") for line in told.lines())
