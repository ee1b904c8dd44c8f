from dataclasses import replace

import pytest

from cvs.programs.extremum import COUNT, ExtremumProgram
from cvs.programs.join import ForeignKeyJoin
from cvs.programs.kept import First, KeptProgram, NotIn, Pairing, Side
from cvs.programs.machine import RECORD
from cvs.programs.rows import column
from cvs.programs.sets import SetProgram
from tests.unit.programs.driven import Driven


def minimum(**more):
    return ExtremumProgram(view="v", table="r", group="x", argument="y", name="min", **more)


def states(world, entries, key):
    """The value of one view record before and after each entry, in the order propagated."""
    seen = [world.view.get(key)]
    for entry in entries:
        world.propagate(entry)
        seen.append(world.view.get(key))
    return seen


def values(seen, name):
    return [row and row[name] for row in seen]


def papers_minimum_run(program):
    """Paper 001, section 2.1.3: all three updates are in the base before the manager starts."""
    world = Driven(program)
    world.update("r", "k1", {"x": "x1", "y": 4})
    entries = [
        world.write("r", "k1", None),
        world.write("r", "k2", {"x": "x1", "y": 2}),
        world.write("r", "k2", {"x": "x1", "y": 5}),
    ]
    return values(states(world, entries, ("x1",)), "min")


@pytest.mark.parametrize("letter", [True, False])
def test_the_papers_run_of_a_base_reading_minimum_steps_back(letter):
    assert papers_minimum_run(minimum(letter=letter)) == [4, 5, 2, 5]


@pytest.mark.parametrize("letter", [True, False])
def test_always_scanning_shows_the_base_as_it_is(letter):
    assert papers_minimum_run(minimum(letter=letter, always_scan=True)) == [4, 5, 5, 5]


def test_the_papers_count_of_rows_at_the_minimum_leaves_a_ghost():
    def run(program):
        world = Driven(program)
        world.update("r", "k1", {"x": "x1", "y": 4})
        entries = [world.write("r", "k1", None), world.write("r", "k2", {"x": "x1", "y": 5})]
        seen = states(world, entries, ("x1",))
        world.update("r", "k2", None)
        return values([*seen, world.view.get(("x1",))], "min")

    assert run(minimum(letter=True)) == [4, 5, 5, 5]  # the base is empty
    assert run(minimum()) == [4, 5, 5, None]


def test_the_maximum_is_the_mirror():
    world = Driven(minimum(largest=True))
    for key, y in ((1, 3), (2, 7), (3, 5)):
        world.update("r", key, {"x": "a", "y": y})
    world.update("r", 2, {"x": "a", "y": 1})
    assert world.view[("a",)]["min"] == 5


JOIN = ForeignKeyJoin(view="v", child="r", parent="s", child_key="x", reference="y", parent_columns=("z",))


@pytest.mark.parametrize(("letter", "shown"), [(True, ["z3", "z2", "z3"]), (False, ["z3", "z3", "z3"])])
def test_the_papers_join_run_steps_back_and_ours_does_not(letter, shown):
    world = Driven(replace(JOIN, letter=letter))
    world.update("s", "y", {"y": "y", "z": "z"})
    entries = [
        world.write("r", "x", {"x": "x", "y": "y"}),
        world.write("s", "y", {"y": "y", "z": "z2"}),
        world.write("s", "y", {"y": "y", "z": "z3"}),
    ]
    assert values(states(world, entries, ("x",)), "z") == [None, *shown]


def test_a_parent_reaches_every_child_that_refers_to_it():
    world = Driven(JOIN)
    for y in ("a", "b"):
        world.update("s", y, {"y": y, "z": 1})
    for x, y in ((1, "a"), (2, "a"), (3, "b")):
        world.update("r", x, {"x": x, "y": y})
    world.update("s", "a", {"y": "a", "z": 2})
    assert [world.view[(x,)]["z"] for x in (1, 2, 3)] == [2, 2, 1]
    world.update("r", 1, {"x": 1, "y": "b"})
    world.update("r", 2, None)
    assert world.view == {(1,): {"x": 1, "y": "b", "z": 1}, (3,): {"x": 3, "y": "b", "z": 1}}


def test_a_parents_update_marks_children_that_are_not_in_the_view_yet():
    world = Driven(JOIN)
    world.update("s", "a", {"y": "a", "z": 1})
    world.write("r", 1, {"x": 1, "y": "a"})
    world.propagate(world.write("s", "a", {"y": "a", "z": 2}))
    assert world.signature(1).version == 1
    assert world.view == {}


@pytest.mark.parametrize("by_base", [True, False])
@pytest.mark.parametrize(
    ("operation", "expected"),
    [("union", {(1, "a"), (2, "b"), (2, "c"), (3, "d")}), ("intersect", {(1, "a")}), ("except", {(2, "b")})],
)
def test_set_operations(by_base, operation, expected):
    columns = ("k", "x")
    program = SetProgram(view="v", left="r", right="s", columns=columns, operation=operation, by_base=by_base)
    world = Driven(program)
    for table, k, x in (("r", 1, "a"), ("s", 1, "z"), ("r", 2, "b"), ("s", 2, "c"), ("s", 3, "d")):
        world.update(table, k, {"k": k, "x": x})
    world.update("s", 1, {"k": 1, "x": "a"})
    assert set(world.view) == expected
    for table, k in (("r", 1), ("s", 1), ("r", 2), ("s", 2), ("s", 3)):
        world.update(table, k, None)
    assert world.view == {}


def test_the_papers_intersection_run_by_base_and_by_counter():
    def run(by_base):
        program = SetProgram(
            view="v", left="r", right="s", columns=("k", "x"), operation="intersect", by_base=by_base
        )
        world = Driven(program)
        world.update("r", 1, {"k": 1, "x": "x1"})
        write = [
            world.write("s", 1, {"k": 1, "x": "x3"}),
            world.write("r", 1, {"k": 1, "x": "x2"}),
            world.write("r", 1, {"k": 1, "x": "x3"}),
        ]
        seen = []
        for entry in write[:1]:
            world.propagate(entry)
            seen.append(set(world.view))
        write.append(world.write("s", 1, {"k": 1, "x": "x2"}))
        for entry in write[1:]:
            world.propagate(entry)
            seen.append(set(world.view))
        return seen

    by_base = run(by_base=True)
    assert by_base[0] == {(1, "x3")}  # a state only the last R can explain
    assert by_base[1] == {(1, "x2"), (1, "x3")}
    assert by_base[-1] == set()
    assert run(by_base=False) == [set(), set(), {(1, "x3")}, set()]


SIDES = (
    Side(name="l", table="r", partition=(column("y"),)),
    Side(name="r", table="s", partition=(column("y"),)),
)


def joined(kind):
    shown_of = Pairing(kind=kind, left="l", right="r", left_columns=("x", "y"), right_columns=("z",))
    return KeptProgram(view="v", sides=SIDES, shown_of=shown_of)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", [(1, "p"), (1, "q")]),
        ("left", [(1, "p"), (1, "q"), (2, None), (3, None)]),
        ("right", [(1, "p"), (1, "q"), (None, "n"), (None, "o")]),
        ("full", [(1, "p"), (1, "q"), (2, None), (3, None), (None, "n"), (None, "o")]),
        ("semi", [(1, None)]),
        ("anti", [(2, None), (3, None)]),
    ],
)
def test_reverse_join_state_keeps_joins_of_every_kind(kind, expected):
    world = Driven(joined(kind))
    for x, y in ((1, "a"), (2, "b"), (3, None)):
        world.update("r", x, {"x": x, "y": y})
    for k, y, z in ((1, "a", "p"), (2, "a", "q"), (3, "c", "o"), (4, None, "n")):
        world.update("s", k, {"k": k, "y": y, "z": z})
    rows = [row for record in world.view.values() for row in record["rows"]]
    assert sorted(((r.get("l.x"), r.get("r.z")) for r in rows), key=repr) == sorted(expected, key=repr)
    for table, keys in (("r", (1, 2, 3)), ("s", (1, 2, 3, 4))):
        for key in keys:
            world.update(table, key, None)
    assert world.view == {}
    assert not any(rows for rows in world.store.rows.values())


def test_a_null_row_appears_when_the_last_match_goes_and_vanishes_when_one_comes():
    world = Driven(joined("left"))
    world.update("r", 1, {"x": 1, "y": "a"})
    assert [r["r.z"] for r in world.view[("a",)]["rows"]] == [None]
    world.update("s", 1, {"k": 1, "y": "a", "z": "p"})
    assert [r["r.z"] for r in world.view[("a",)]["rows"]] == ["p"]
    world.update("s", 1, {"k": 1, "y": "b", "z": "p"})
    assert [r["r.z"] for r in world.view[("a",)]["rows"]] == [None]


def test_a_self_join_puts_both_sides_into_one_test_and_set():
    sides = tuple(Side(name=name, table="r", partition=(column("y"),)) for name in ("l", "r"))
    pairing = Pairing(kind="inner", left="l", right="r", left_columns=("x",), right_columns=("x",))
    world = Driven(KeptProgram(view="v", sides=sides, shown_of=pairing))
    world.update("r", 1, {"x": 1, "y": "a"})
    world.update("r", 2, {"x": 2, "y": "a"})
    assert world.manager.counts.test_and_sets == 2
    assert {(r["l.x"], r["r.x"]) for r in world.view[("a",)]["rows"]} == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_the_first_rows_of_a_group_are_refilled_when_one_goes():
    top = KeptProgram(
        view="v",
        sides=(Side(name="l", table="r", partition=(column("y"),)),),
        shown_of=First(side="l", order=lambda row: -row["x"], limit=2),
    )
    world = Driven(top)
    for x in (1, 2, 3, 4):
        world.update("r", x, {"x": x, "y": "a"})
    assert [r["x"] for r in world.view[("a",)]["rows"]] == [4, 3]
    world.update("r", 4, None)
    assert [r["x"] for r in world.view[("a",)]["rows"]] == [3, 2]
    world.update("r", 1, {"x": 1, "y": "b"})
    assert [r["x"] for r in world.view[("b",)]["rows"]] == [1]


def test_not_in_follows_sqls_nulls():
    sides = (Side(name="l", table="r", partition=()), Side(name="r", table="s", partition=()))
    program = KeptProgram(
        view="v",
        sides=sides,
        shown_of=NotIn(left="l", right="r", value=column("x"), among=column("z")),
    )
    world = Driven(program)
    for key, x in ((1, "a"), (2, "b"), (3, None)):
        world.update("r", key, {"x": x})
    assert [r["x"] for r in world.view[()]["rows"]] == ["a", "b", None]
    world.update("s", 1, {"z": "a"})
    assert [r["x"] for r in world.view[()]["rows"]] == ["b"]
    world.update("s", 2, {"z": None})
    assert world.view == {}


def test_a_row_that_changes_nothing_asks_for_nothing():
    world = Driven(joined("inner"))
    world.update("r", 1, {"x": 1, "y": "a"})
    world.update("r", 1, {"x": 1, "y": "a"})
    assert world.manager.counts.test_and_sets == 1
    assert RECORD not in world.view


@pytest.mark.parametrize("largest", [False, True])
def test_the_letter_counts_the_rows_at_the_extremum_and_scans_only_for_the_last(largest):
    """Algorithms 7-9: (m, count of rows at m); the base is looked at when the last of them leaves."""
    world = Driven(minimum(letter=True, largest=largest))
    counts = []
    for key, row in ((1, 4), (2, 4), (3, 4), (1, None), (2, None)):
        world.update("r", key, None if row is None else {"x": "x1", "y": row})
        ((_, rows),) = world.store.rows.items()
        counts.append(rows[RECORD][COUNT])
    assert counts == [1, 2, 3, 2, 1]
    last, read = world.write("r", 3, None), world.manager.counts.reads
    world.store.base["r"] = {(9,): {"x": "x1", "y": 6}, (8,): {"x": "x1", "y": 5}}
    world.propagate(last)
    assert world.view[("x1",)]["min"] == (6 if largest else 5)
    assert world.manager.counts.reads == read + 2, "the view record, and the base"


def test_a_parent_that_comes_or_goes_looks_for_no_children():
    """Nothing refers to it: the constraint says so."""
    world = Driven(JOIN)
    world.update("s", "y", {"y": "y", "z": "z"})
    world.update("s", "y", None)
    assert world.manager.counts.reads == 0
