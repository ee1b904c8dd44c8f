"""Views that keep the contributing rows: what the level table's classes do not have."""

from cvs.programs.kept import First, KeptProgram, NotIn, Pairing, Side
from cvs.programs.machine import RECORD
from cvs.programs.rows import column
from tests.unit.programs.driven import Driven


def rows_of(world, *key):
    return [tuple(row.values()) for row in world.view.get(key, {"rows": ()})["rows"]]


def paired(kind="inner", **more):
    pairing = Pairing(kind=kind, left="a", right="b", left_columns=("k",), right_columns=("k", "y"), **more)
    by_x = (column("x"),)
    sides = (Side(name="a", table="r", partition=by_x), Side(name="b", table="r", partition=by_x))
    return Driven(KeptProgram(view="v", sides=sides, shown_of=pairing))


def test_a_row_of_a_self_join_stands_on_both_sides_by_one_test_and_set():
    world = paired()
    world.update("r", 1, {"k": 1, "x": "p", "y": 7})
    assert rows_of(world, "p") == [(1, 1, 7)]
    world.update("r", 2, {"k": 2, "x": "p", "y": 8})
    assert rows_of(world, "p") == [(1, 1, 7), (1, 2, 8), (2, 1, 7), (2, 2, 8)]
    assert world.manager.counts.test_and_sets == 2
    world.update("r", 1, {"k": 1, "x": "p", "y": 5})
    assert rows_of(world, "p") == [(1, 1, 5), (1, 2, 8), (2, 1, 5), (2, 2, 8)]
    world.update("r", 1, {"k": 1, "x": "q", "y": 7})
    assert (rows_of(world, "p"), rows_of(world, "q")) == ([(2, 2, 8)], [(1, 1, 7)])
    world.update("r", 2, None)
    assert rows_of(world, "p") == []


def test_a_condition_that_is_unknown_pairs_nothing():
    def larger(row):
        return None if row["b.y"] is None else row["b.y"] > 7

    for kind, expected in (("inner", []), ("left", [(1, None, None)]), ("right", [(None, 1, None)])):
        world = paired(kind, residual=larger)
        world.update("r", 1, {"k": 1, "x": "p", "y": None})
        assert rows_of(world, "p") == expected
    world = paired(residual=larger)
    world.update("r", 1, {"k": 1, "x": "p", "y": 7})
    world.update("r", 2, {"k": 2, "x": "p", "y": 8})
    assert rows_of(world, "p") == [(1, 2, 8), (2, 2, 8)]


def test_an_update_that_changes_nothing_asks_for_nothing():
    world = paired()
    world.update("r", 1, {"k": 1, "x": "p", "y": 7})
    world.update("r", 1, {"k": 1, "x": "p", "y": 7})
    assert world.manager.counts.test_and_sets == 1


def test_rows_after_an_offset_in_order_ties_broken_by_all_columns():
    first = First(side="r", order=lambda row: row["y"], limit=2, offset=1)
    sides = (Side(name="r", table="r", partition=()),)
    world = Driven(KeptProgram(view="v", sides=sides, shown_of=first))
    for key, y in ((1, 5), (3, 4), (2, 4), (4, 9)):
        world.update("r", key, {"k": key, "y": y})
    assert rows_of(world) == [(3, 4), (1, 5)]
    world.update("r", 2, None)
    assert rows_of(world) == [(1, 5), (4, 9)]
    world.update("r", 1, None)
    world.update("r", 4, None)
    assert world.view == {}
    ((_, stored),) = world.store.rows.items()
    assert {key for key in stored if key != RECORD} == {("r", 3)}


def test_not_in_follows_sqls_nulls():
    sides = (Side(name="r", table="r", partition=()), Side(name="s", table="s", partition=()))
    shown_of = NotIn(left="r", right="s", value=column("y"), among=column("y"))
    world = Driven(KeptProgram(view="v", sides=sides, shown_of=shown_of))
    for key, y in ((1, 5), (2, None), (3, 6)):
        world.update("r", key, {"k": key, "y": y})
    assert rows_of(world) == [(1, 5), (2, None), (3, 6)], "nothing on the right: everything is not in it"
    world.update("s", 1, {"k": 1, "y": 6})
    assert rows_of(world) == [(1, 5)]
    world.update("s", 2, {"k": 2, "y": None})
    assert rows_of(world) == []
