"""The combined selection passes what each edge by itself would pass, whatever is compared with what."""

from datetime import date
from decimal import Decimal
from random import Random

import pytest

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.stages import Edge
from cvs.model.views import Named
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_combined import TOGETHER_MIN, Combined
from cvs.programs.stage_edges import compile_edge, through

COLUMNS = ("n", "x", "t", "d", "ok")
VALUES = {
    "n": [None, 0, 1, 2, 3, Decimal("1.5"), Decimal(2)],
    "x": [None, 0.0, -0.0, 1.5, float("nan"), float("inf")],
    "t": [None, "", "a", "b", "bé"],
    "d": [None, date(2024, 1, 1), date(2024, 2, 1)],
    "ok": [None, True, False],
}
OPERATORS = ("<", "<=", ">", ">=", "=", "<>")


def condition(chance: Random) -> Expression:
    column = chance.choice(COLUMNS)
    bound = Literal(chance.choice(VALUES[column]))
    if column == "ok" and chance.random() < 0.5:
        return Column("ok")
    if chance.random() < 0.1:
        return Call(chance.choice(OPERATORS), chance.choice(((bound, bound), (bound, Column(column)))))
    if chance.random() < 0.1:
        return Call(chance.choice(OPERATORS), (Column(column), Column(column)))
    if column == "n" and chance.random() < 0.3:
        return Call(chance.choice(OPERATORS), (Call("+", (Column("n"), Literal(1))), bound))
    if chance.random() < 0.2:
        return Call(chance.choice(("is_null", "is_not_null")), (Column(column),))
    if chance.random() < 0.1:
        return Call("or", (condition(chance), condition(chance)))
    return Call(chance.choice(OPERATORS), (Column(column), bound))


def edge(chance: Random) -> Edge:
    parts = tuple(condition(chance) for _ in range(chance.randrange(4)))
    where = None if not parts else parts[0] if len(parts) == 1 else Call("and", parts)
    shown = chance.choice((("n",), ("n", "t"), ("d",)))
    return Edge(source="b", columns=tuple(Named(name=c, expression=Column(c)) for c in shown), where=where)


def row(chance: Random) -> tuple:
    return tuple(chance.choice(VALUES[column]) for column in COLUMNS)


@pytest.mark.parametrize("seed", range(150))
def test_it_passes_what_each_edge_passes(seed: int) -> None:
    chance = Random(seed)
    edges = [edge(chance) for _ in range(chance.choice((1, 2, TOGETHER_MIN, 9, 70)))]
    changes = Bag((row(chance), chance.choice((-1, 1, 2))) for _ in range(40))
    got = [Bag() for _ in edges]
    for number, made, count, name in Combined(edges, COLUMNS).carry(changes):
        got[number].add(made, count, name)
    for one, found in zip(edges, got, strict=True):
        wanted = Bag()
        through(compile_edge(one, COLUMNS), changes, wanted)
        assert found.entries == wanted.entries, one.where


def test_a_thousand_bounds_of_one_expression_compute_it_once() -> None:
    """What makes a thousand views over one table cost little more a row than one."""
    asked = []

    class Watched(dict):
        def get(self, name: str, default: object = None) -> object:
            asked.append(name)
            return super().get(name, default)

    wheres = [Call(">=", (Column("n"), Literal(bound))) for bound in range(1000)]
    combined = Combined(
        [Edge(source="b", columns=(Named(name="n", expression=Column("n")),), where=w) for w in wheres],
        COLUMNS,
    )
    passed = combined.passing(Watched(n=2))
    assert passed == 0b111
    assert asked == ["n"]


@pytest.mark.parametrize(
    ("wheres", "passed"),
    [
        ([Call(">=", (Column("n"), Literal(bound))) for bound in range(TOGETHER_MIN)], [0, 1]),
        ([Call("is_not_null", (Column(column),)) for column in COLUMNS[:TOGETHER_MIN]], [0, 2]),
    ],
    ids=["comparisons alone", "none of them a comparison"],
)
def test_conditions_of_one_kind_select_by_themselves(wheres: list[Expression], passed: list[int]) -> None:
    shown = (Named(name="n", expression=Column("n")),)
    edges = [Edge(source="b", columns=shown, where=where) for where in wheres]
    changes = Bag([((1, None, "a", None, True), 1)])
    assert [number for number, *_ in Combined(edges, COLUMNS).carry(changes)] == passed
