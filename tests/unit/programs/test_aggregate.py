import pytest

from cvs.model.views import AggregateFunction as F
from cvs.programs.aggregate import Aggregated, AggregateProgram
from cvs.programs.count import PaperCount, PaperSum
from cvs.programs.machine import COUNTER_BASED, SIGNATURE_BASED, Ending
from cvs.programs.rows import RowProgram, column
from tests.unit.programs.driven import Driven

GROUP = (("x", column("x")),)


def program(*aggregates, **more):
    return AggregateProgram(view="v", table="r", group=GROUP, aggregates=aggregates, **more)


def everything_of_y():
    y = column("y")
    return program(
        Aggregated(name="rows", function=F.COUNT),
        Aggregated(name="known", function=F.COUNT, argument=y),
        Aggregated(name="sum", function=F.SUM, argument=y),
        Aggregated(name="avg", function=F.AVG, argument=y),
        Aggregated(name="min", function=F.MIN, argument=y),
        Aggregated(name="max", function=F.MAX, argument=y),
        Aggregated(name="different", function=F.COUNT, argument=y, distinct=True),
        Aggregated(name="variance", function=F.VARIANCE, argument=y),
    )


def test_all_aggregates_of_a_group_share_one_record():
    world = Driven(everything_of_y())
    world.update("r", 1, {"x": "a", "y": 4})
    world.update("r", 2, {"x": "a", "y": 2})
    world.update("r", 3, {"x": "a", "y": None})
    assert world.view == {
        ("a",): {
            "x": "a",
            "rows": 3,
            "known": 2,
            "sum": 6,
            "avg": 3,
            "min": 2,
            "max": 4,
            "different": 2,
            "variance": 2,
        }
    }
    assert len(world.store.signatures) == 1


def test_an_update_that_stays_in_its_group_is_one_test_and_set_and_one_that_changes_nothing_is_none():
    world = Driven(program(Aggregated(name="sum", function=F.SUM, argument=column("y"))))
    world.update("r", 1, {"x": "a", "y": 4, "z": 1})
    world.update("r", 1, {"x": "a", "y": 6, "z": 1})
    assert world.view == {("a",): {"x": "a", "sum": 6}}
    assert world.update("r", 1, {"x": "a", "y": 6, "z": 2}) is Ending.NOTHING
    assert world.manager.counts.test_and_sets == 2


def test_a_counter_cannot_tell_an_entry_that_comes_again():
    """Paper 001, footnote 1; a signature can."""
    for policy, count in ((SIGNATURE_BASED, 1), (COUNTER_BASED, 2)):
        world = Driven(program(Aggregated(name="n", function=F.COUNT)), policy)
        entry = world.write("r", 1, {"x": "a", "y": 4})
        world.propagate(entry)
        world.propagate(entry)
        assert world.view[("a",)]["n"] == count


def test_the_minimum_rises_again_without_reading_the_base():
    world = Driven(program(Aggregated(name="min", function=F.MIN, argument=column("y"))))
    for key, y in ((1, 5), (2, 3), (3, 3)):
        world.update("r", key, {"x": "a", "y": y})
    world.store.base.clear()
    world.store.base["r"] = {(2,): {"x": "a", "y": 3}, (3,): {"x": "a", "y": 3}}
    world.update("r", 2, None)
    assert world.view[("a",)]["min"] == 3
    world.update("r", 3, None)
    assert world.view[("a",)]["min"] == 5


def test_a_sum_of_zero_is_not_an_empty_group():
    world = Driven(program(Aggregated(name="sum", function=F.SUM, argument=column("y"))))
    world.update("r", 1, {"x": "a", "y": 5})
    world.update("r", 2, {"x": "a", "y": -5})
    assert world.view == {("a",): {"x": "a", "sum": 0}}
    world.update("r", 1, None)
    assert world.view == {("a",): {"x": "a", "sum": -5}}
    world.update("r", 2, None)
    assert world.view == {}


def test_the_papers_sum_apart_from_its_defect():
    """Algorithms 4-6: in place where the group stays, out of one and into the other where it does not."""
    world = Driven(PaperSum(view="v", table="r", group="x", argument="y", name="sum"))
    for key, y in ((1, 5), (2, 3)):
        world.update("r", key, {"x": "a", "y": y})
    before = world.manager.counts.test_and_sets
    world.update("r", 1, {"x": "a", "y": 7})
    assert world.manager.counts.test_and_sets == before + 1
    assert world.view == {("a",): {"x": "a", "sum": 10}}
    world.update("r", 2, {"x": "b", "y": 4})
    world.update("r", 3, {"x": "c", "y": 0})
    assert world.view == {(x,): {"x": x, "sum": total} for x, total in (("a", 7), ("b", 4), ("c", 0))}


def test_the_papers_sum_deletes_a_group_that_still_has_a_row():
    world = Driven(PaperSum(view="v", table="r", group="x", argument="y", name="sum"))
    world.update("r", 1, {"x": "a", "y": 5})
    world.update("r", 2, {"x": "a", "y": 0})
    assert world.view == {("a",): {"x": "a", "sum": 5}}
    world.update("r", 1, None)
    assert world.view == {}  # the row with y = 0 is still in the base: the defect


def test_a_row_that_moves_leaves_one_group_and_joins_another():
    for move in (
        program(Aggregated(name="n", function=F.COUNT)),
        PaperCount(view="v", table="r", group="x", name="n"),
    ):
        world = Driven(move)
        world.update("r", 1, {"x": "a", "y": 1})
        world.update("r", 2, {"x": "a", "y": 1})
        world.update("r", 1, {"x": "b", "y": 1})
        assert world.view == {("a",): {"x": "a", "n": 1}, ("b",): {"x": "b", "n": 1}}


def test_an_update_that_changes_nothing_shown_asks_for_nothing():
    world = Driven(program(Aggregated(name="n", function=F.COUNT)))
    world.update("r", 1, {"x": "a", "y": 1})
    assert world.update("r", 1, {"x": "a", "y": 2}) is Ending.NOTHING
    assert world.manager.counts.test_and_sets == 1


def test_redelivery_is_harmless_also_after_the_group_is_gone():
    world = Driven(program(Aggregated(name="n", function=F.COUNT)))
    first = world.write("r", 1, {"x": "a", "y": 1})
    world.propagate(first)
    second = world.write("r", 1, None)
    world.propagate(second)
    assert world.propagate(first) is Ending.PROCESSED
    assert world.view == {}


def test_having_hides_the_record_but_keeps_counting():
    world = Driven(program(Aggregated(name="n", function=F.COUNT), having=lambda row: row["n"] > 1))
    world.update("r", 1, {"x": "a", "y": 1})
    assert world.view == {}
    world.update("r", 2, {"x": "a", "y": 1})
    assert world.view == {("a",): {"x": "a", "n": 2}}


def test_where_lets_rows_in_and_out():
    counted = program(Aggregated(name="n", function=F.COUNT), where=lambda row: row["y"] > 3)
    world = Driven(counted)
    world.update("r", 1, {"x": "a", "y": 1})
    assert world.view == {}
    world.update("r", 1, {"x": "a", "y": 4})
    assert world.view == {("a",): {"x": "a", "n": 1}}
    world.update("r", 1, {"x": "a", "y": 2})
    assert world.view == {}


def selection(**more):
    columns = (("x", column("x")), ("y", column("y")))
    return RowProgram(view="v", table="r", key=(("k", column("k")),), columns=columns, **more)


def test_selection_shows_rows_while_the_condition_is_true():
    world = Driven(selection(where=lambda row: row["y"] < 25))
    world.update("r", 1, {"k": 1, "x": 1, "y": 5})
    assert world.view == {(1,): {"k": 1, "x": 1, "y": 5}}
    world.update("r", 1, {"k": 1, "x": 1, "y": 30})
    assert world.view == {}
    world.update("r", 1, {"k": 1, "x": 2, "y": 20})
    assert world.view == {(1,): {"k": 1, "x": 2, "y": 20}}


def test_projection_whose_key_moves_leaves_the_old_record():
    key = (("x", column("x")), ("k", column("k")))
    world = Driven(RowProgram(view="v", table="r", key=key, columns=()))
    world.update("r", 1, {"k": 1, "x": "a"})
    world.update("r", 1, {"k": 1, "x": "b"})
    assert world.view == {("b", 1): {"x": "b", "k": 1}}


def test_changed_fields_alone_build_rows_no_base_state_had():
    world = Driven(selection(changed_fields_only=True))
    world.update("r", 1, {"k": 1, "x": "x1", "y": "y1"})
    first = world.write("r", 1, {"k": 1, "x": "x1", "y": "y2"})
    second = world.write("r", 1, {"k": 1, "x": "x2", "y": "y2"})
    world.propagate(second)
    assert world.view == {(1,): {"k": 1, "x": "x2", "y": "y1"}}
    assert world.propagate(first) is Ending.PROCESSED


def test_aggregates_of_different_values_and_spread():
    y = column("y")
    world = Driven(
        program(
            Aggregated(name="sum", function=F.SUM, argument=y, distinct=True),
            Aggregated(name="avg", function=F.AVG, argument=y, distinct=True),
            Aggregated(name="variance", function=F.VARIANCE, argument=y, distinct=True),
            Aggregated(name="deviation", function=F.STDDEV, argument=y),
            Aggregated(name="plain", function=F.SUM, argument=y),
        )
    )
    for key, value in enumerate((2, 4, 4, 9)):
        world.update("r", key, {"x": "a", "y": value})
    (row,) = world.view.values()
    assert (row["sum"], row["avg"], row["variance"], row["plain"]) == (15, 5, 13, 19)
    assert row["deviation"] ** 2 == pytest.approx(26.75 / 3)
    for key in (1, 2, 3):
        world.update("r", key, None)
    (row,) = world.view.values()
    assert row == {"x": "a", "sum": 2, "avg": 2, "variance": None, "deviation": None, "plain": 2}


def test_the_whole_table_is_a_group_that_stays_when_it_is_empty():
    y = column("y")
    aggregates = (
        Aggregated(name="n", function=F.COUNT),
        Aggregated(name="known", function=F.COUNT, argument=y),
        Aggregated(name="sum", function=F.SUM, argument=y),
        Aggregated(name="least", function=F.MIN, argument=y),
    )
    world = Driven(AggregateProgram(view="v", table="r", group=(), aggregates=aggregates))
    world.update("r", 1, {"y": 3})
    assert world.view == {(): {"n": 1, "known": 1, "sum": 3, "least": 3}}
    world.update("r", 1, None)
    assert world.view == {(): {"n": 0, "known": 0, "sum": None, "least": None}}


def test_values_that_are_gone_leave_no_row_beside_the_record():
    world = Driven(program(Aggregated(name="least", function=F.MIN, argument=column("y"))))
    for key, value in ((1, 5), (2, 5), (3, 7)):
        world.update("r", key, {"x": "a", "y": value})
    ((_, rows),) = world.store.rows.items()
    assert {key: row["n"] for key, row in rows.items() if key} == {("least", 5): 2, ("least", 7): 1}
    world.update("r", 3, None)
    world.update("r", 2, None)
    assert {key: row["n"] for key, row in rows.items() if key} == {("least", 5): 1}


def test_a_row_is_written_whole_unless_changed_fields_are_asked_for():
    """Paper 001, section 2.3: the second update comes, the first never; changed fields alone leave its column old."""
    columns = tuple((name, column(name)) for name in ("x", "y"))
    for more, shown in (
        ({}, {"k": 1, "x": 3, "y": 2}),
        ({"changed_fields_only": True}, {"k": 1, "x": 3, "y": 1}),
    ):
        world = Driven(RowProgram(view="v", table="r", key=(("k", column("k")),), columns=columns, **more))
        world.update("r", 1, {"k": 1, "x": 1, "y": 1})
        world.write("r", 1, {"k": 1, "x": 1, "y": 2})
        world.update("r", 1, {"k": 1, "x": 3, "y": 2})
        assert world.view == {(1,): shown}
