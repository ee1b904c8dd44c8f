"""Edges: what is selected, picked and computed on the way from a source."""

from typing import Any

import pytest

from cvs.model.expressions import Call, Column, Literal
from cvs.model.stages import Edge
from cvs.model.views import Named
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_edges import compile_edge, naming, projection, same, through

SOURCE = ("a", "b", "c")
ROW = (1, None, "x")


def named(*columns: Any) -> tuple[Named, ...]:
    return tuple(
        Named(name=f"n{i}", expression=Column(it) if isinstance(it, str) else it)
        for i, it in enumerate(columns)
    )


TWICE = Call("*", (Column("a"), Literal(2)))


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (("c", "a"), ("x", 1)),
        (("b", "a", "c"), (None, 1, "x")),
        (("a", "b"), (1, None)),
        ((), ()),
        ((TWICE, "c"), (2, "x")),
        ((Literal(7),), (7,)),
    ],
)
def test_columns_are_picked_in_their_order_or_computed(columns: Any, found: Any) -> None:
    run = projection(named(*columns), SOURCE)
    assert run(ROW) == found
    assert run is not same


def test_a_row_that_goes_over_as_it_is_is_not_made_again() -> None:
    assert projection(named(*SOURCE), SOURCE) is same
    changes, into = Bag([(ROW, 2)]), Bag()
    through(same, changes, into)
    through(same, [(ROW, 1)], into)
    assert into == Bag([(ROW, 3)])
    assert next(iter(into))[0] is ROW


def test_only_rows_that_are_selected_go_on() -> None:
    def edge(*columns: Any) -> Any:
        where = Call(">", (Column("a"), Literal(1)))
        return compile_edge(Edge(source="s", columns=named(*columns), where=where), SOURCE)

    for run, kept in ((edge("c"), ("y",)), (edge(*SOURCE), (2, None, "y"))):
        into = Bag()
        through(run, Bag([(ROW, 1), ((2, None, "y"), 3), ((None, 1, "z"), 1)]), into)
        assert list(into) == [(kept, 3)]


def test_only_what_is_read_is_named() -> None:
    name = naming([TWICE, Column("c"), Literal(1)], SOURCE)
    assert name(ROW) == {"a": 1, "c": "x"}
    assert naming([Literal(1)], SOURCE)(ROW) == {}
