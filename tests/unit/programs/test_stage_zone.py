"""A zone: which buckets rows go to, what its stages ask for together and pass on, where a row of theirs is."""

from types import SimpleNamespace
from typing import Any

import pytest

from cvs.model.expressions import Call, Column, Literal
from cvs.model.stages import (
    AggregateStage,
    DistinctStage,
    Edge,
    JoinStage,
    Plan,
    Stage,
    TopKStage,
    Zone,
)
from cvs.model.views import AggregateColumn, AggregateFunction, BaseTable, Named, OrderBy
from cvs.programs.epoch_run import zone_levels
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_codec import bucket_of, framed, pack_key
from cvs.programs.stage_state import NeedsError, State
from cvs.programs.stage_zone import ZoneCompute

BUCKETS = 7
R = BaseTable(name="r", columns=(("a", "int"), ("b", "int")), partition_key=("a",))
S = BaseTable(name="s", columns=(("c", "int"), ("d", "int")), partition_key=("c",))
TYPES = {name: (name, "int") for name in ("a", "b", "c", "d", "n")}
COUNT = (AggregateColumn(name="n", function=AggregateFunction.COUNT),)


def edge(source: str, *names: str, **renamed: Any) -> Edge:
    """Columns as they are, and others under another name: a column's, or an expression."""
    columns = {name: Column(name) for name in names} | {
        name: Column(of) if isinstance(of, str) else of for name, of in renamed.items()
    }
    return Edge(source=source, columns=tuple(Named(name=n, expression=e) for n, e in columns.items()))


def typed(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple(TYPES[name] for name in names)


def counted(name: str, *inputs: Edge, group: tuple[str, ...]) -> AggregateStage:
    output = typed(*group, "n")
    return AggregateStage(name=name, inputs=inputs, group=group, aggregates=COUNT, output=output)


def distinct(name: str, *inputs: Edge) -> DistinctStage:
    return DistinctStage(name=name, inputs=inputs, output=typed("a", "b"))


def join(kind: str = "inner", *, right: Edge | None = None, replicated: bool = False) -> JoinStage:
    return JoinStage(
        name="j",
        kind=kind,  # type: ignore[arg-type]
        left=(edge("r", "a", "b"),),
        right=(right or edge("s", "c", "d"),),
        left_key=("b",),
        right_key=("c",),
        output=typed("a", "b", "c", "d"),
        replicated=replicated,
    )


TOP = TopKStage(
    name="t",
    inputs=(edge("r", "a", "b"),),
    order=(OrderBy(expression=Column("a")),),
    limit=1,
    offset=0,
    output=typed("a", "b"),
)


def zone(*stages: Stage) -> ZoneCompute:
    made = Zone(name="z", stages=stages, buckets=BUCKETS)
    return ZoneCompute(made, Plan(bases=(R, S), zones=(made,), publications=()))


def bucket(*key: Any) -> int:
    return bucket_of(pack_key(key), BUCKETS)


def routed(computing: ZoneCompute, first: bool = False, **changes: Any) -> dict[int, dict[Any, list[Any]]]:
    found = computing.route(changes, first=first)
    return {number: {place: list(bag) for place, bag in entered.items()} for number, entered in found.items()}


@pytest.mark.parametrize(
    ("stage", "buckets"),
    [
        (counted("g", edge("r", "a", "b"), group=("b",)), [bucket(2)]),
        (counted("g", edge("r", "a", "b"), group=()), [bucket()]),
        (distinct("d", edge("r", "a", "b")), [bucket(1, 2)]),
        (TOP, [bucket()]),
        (join(), [bucket(2)]),
        (join(replicated=True), [bucket(1, 2)]),
    ],
)
def test_a_row_goes_to_the_bucket_of_its_key(stage: Stage, buckets: list[int]) -> None:
    assert routed(zone(stage), r=[((1, 2), 3)]) == {number: {(0, 0): [((1, 2), 3)]} for number in buckets}


def test_a_right_row_goes_where_its_left_rows_are() -> None:
    right = {(0, 1): [((2, 5), 1)]}
    assert routed(zone(join()), s=[((2, 5), 1)]) == {bucket(2): right}
    everywhere = routed(zone(join(replicated=True)), s=[((2, 5), 1)])
    assert everywhere == dict.fromkeys(range(BUCKETS), right)


def test_one_row_that_enters_twice_goes_to_both_of_its_buckets() -> None:
    """A table joined with itself by other columns; two groupings of one table."""
    itself = join(right=edge("r", c="a", d="b"))
    assert routed(zone(itself), r=[((1, 2), 1)]) == {
        bucket(2): {(0, 0): [((1, 2), 1)]},
        bucket(1): {(0, 1): [((1, 2), 1)]},
    }
    two = zone(*(counted(name, edge("r", "a", "b"), group=(name,)) for name in ("a", "b")))
    assert routed(two, r=[((1, 2), 1)]) == {
        bucket(1): {(0, 0): [((1, 2), 1)]},
        bucket(2): {(1, 0): [((1, 2), 1)]},
    }


def test_sources_without_changes_are_passed_over_and_what_comes_to_nothing_goes_nowhere() -> None:
    assert zone(join()).sources == {"r", "s"}
    right = {bucket(2): {(0, 1): [((2, 5), 1)]}}
    assert routed(zone(join()), s=[((2, 5), 1)], r=[]) == right
    assert routed(zone(join()), s=[((2, 5), 1)], other=[((1, 1), 1)]) == right
    assert routed(zone(join()), r=[((1, 2), 1), ((1, 2), -1)]) == {}


def test_the_one_group_of_all_rows_is_run_in_the_first_epoch_without_any() -> None:
    all_of_it = counted("g", edge("r", "a"), group=())
    assert routed(zone(distinct("d", edge("r", "a", "b")), all_of_it), first=True) == {bucket(): {(1, 0): []}}
    assert zone(all_of_it).route({}) == {}
    assert routed(zone(counted("g", edge("r", "a"), group=("a",))), first=True) == {}
    some = routed(zone(all_of_it), first=True, r=[((1, 2), 1)])
    assert some == {bucket(): {(0, 0): [((1,), 1)]}}
    (entered,) = zone(all_of_it).route({}, first=True).values()
    assert list(zone(all_of_it).compute(everything(), entered)["g"]) == [((0,), 1)]
    assert list(zone(all_of_it).compute(everything(), {})["g"]) == []


def everything() -> State:
    return State(rows={}, keys=set(), prefixes=set(), everything=True)


def test_stages_ask_together_and_one_that_waits_for_another_asks_later() -> None:
    chained = zone(
        distinct("d", edge("r", "a", "b")),
        counted("of d", edge("d", "a"), group=("a",)),
        counted("of r", edge("r", "a"), group=("a",)),
    )
    entered = {(0, 0): Bag([((1, 2), 1)]), (2, 0): Bag([((1,), 1)])}
    with pytest.raises(NeedsError) as first:
        chained.compute(State(rows={}, keys=set(), prefixes=set()), entered)
    assert {key[4:5] for key in first.value.keys} == {b"0", b"2"}
    with pytest.raises(NeedsError) as second:
        chained.compute(State(rows={}, keys=set(first.value.keys), prefixes=set()), entered)
    assert {key[4:5] for key in second.value.keys} == {b"1"}
    for _ in range(2):  # what entered is not used up
        outputs = chained.compute(everything(), entered)
        assert {name: list(bag) for name, bag in outputs.items()} == {
            "d": [((1, 2), 1)],
            "of d": [((1, 1), 1)],
            "of r": [((1, 1), 1)],
        }


def test_a_stage_that_is_done_is_not_run_again_when_another_asks_for_more() -> None:
    chained = zone(distinct("d", edge("r", "a", "b")), counted("g", edge("d", "a"), group=("a",)))
    entered = {(0, 0): Bag([((1, 2), 1)])}
    state = State(rows={}, keys=set(), prefixes=set())
    for _ in range(2):
        with pytest.raises(NeedsError) as needs:
            chained.compute(state, entered)
        state.learn({}, set(needs.value.keys), set(needs.value.prefixes))
    first = state.outputs["d"]
    outputs = chained.compute(state, entered)
    assert outputs["d"] is first
    assert {name: list(bag) for name, bag in outputs.items()} == {"d": [((1, 2), 1)], "g": [((1, 1), 1)]}
    assert {key[4:5] for key in state.changed} == {b"0", b"1"}


def test_what_only_must_be_read_whole_is_asked_for_too() -> None:
    with pytest.raises(NeedsError) as needs:
        zone(TOP).compute(State(rows={}, keys=set(), prefixes=set()), {(0, 0): Bag([((1, 2), 1)])})
    assert (needs.value.keys, needs.value.prefixes) == ((), (framed(b"0", b"t"),))


def test_what_entered_and_what_an_earlier_stage_put_out_are_taken_together() -> None:
    both = zone(
        distinct("d", edge("r", "a", "b")), counted("g", edge("d", "a"), edge("r", "a"), group=("a",))
    )
    entered = {(0, 0): Bag([((1, 2), 2)]), (1, 0): Bag([((1,), 2)])}
    for _ in range(2):
        assert list(both.compute(everything(), entered)["g"]) == [((1, 3), 1)]
    only_inside = {(0, 0): Bag([((1, 2), 2)])}
    assert list(both.compute(everything(), only_inside)["g"]) == [((1, 1), 1)]
    assert {name: list(bag) for name, bag in both.compute(everything(), {}).items()} == {"d": [], "g": []}


def test_both_sides_of_a_stage_may_come_from_another() -> None:
    inner = JoinStage(
        name="k",
        kind="inner",
        left=(edge("d", "a", "b"),),
        right=(edge("d", c="a", d="b"),),
        left_key=("a",),
        right_key=("c",),
        output=typed("b", "d"),
    )
    chained = zone(distinct("d", edge("r", "a", "b")), inner)
    outputs = chained.compute(everything(), {(0, 0): Bag([((1, 2), 1), ((1, 3), 1)])})
    assert sorted(outputs["k"]) == [((2, 2), 1), ((2, 3), 1), ((3, 2), 1), ((3, 3), 1)]


def test_contents_are_those_of_the_stage_that_is_named() -> None:
    chained = zone(distinct("d", edge("r", "a", "b")), counted("g", edge("d", "a"), group=("a",)))
    state = everything()
    chained.compute(state, {(0, 0): Bag([((1, 2), 1), ((1, 3), 1)])})
    rows = {key: value for key, value in state.changed.items() if value is not None}
    stands = State(rows=rows, keys=set(), prefixes=set(), everything=True)
    assert sorted(chained.rows("d", stands)) == [((1, 2), 1), ((1, 3), 1)]
    assert list(chained.rows("g", stands)) == [((1, 2), 1)]
    assert {name: sorted(bag) for name, bag in chained.contents(stands).items()} == {
        "d": [((1, 2), 1), ((1, 3), 1)],
        "g": [((1, 2), 1)],
    }
    assert (chained.prefixes("d"), chained.prefixes("g")) == ((framed(b"0", b"c"),), (framed(b"1", b"g"),))


def where(stages: tuple[Stage, ...], **known: Any) -> int | None:
    found = zone(*stages).place(stages[-1].name, known)
    return None if found is None else found[0]


def test_the_bucket_of_a_stage_by_itself_follows_from_its_key() -> None:
    grouped = counted("g", edge("r", "a", "b"), group=("b", "a"))
    name = pack_key((2, 1))
    assert zone(grouped).place("g", {"a": 1, "b": 2, "n": 9}) == (
        bucket(2, 1),
        (framed(b"0", b"g") + framed(name),),
    )
    assert where((grouped,), a=1) is None
    assert where((join(),), b=2) == where((join(),), c=2) == bucket(2)
    assert where((TOP,), a=1) == bucket()


def test_the_bucket_of_a_stage_that_reads_another_follows_from_the_others_key() -> None:
    groups = counted("g", edge("r", "a", "b"), group=("b",))
    of_groups = counted("h", edge("g", c="b", d="n"), group=("d", "c"))
    name = pack_key((5, 2))
    assert zone(groups, of_groups).place("h", {"c": 2, "d": 5}) == (
        bucket(2),
        (framed(b"1", b"g") + framed(name),),
    )
    assert zone(groups, of_groups).place("h", {"c": 2}) == (bucket(2), ()), "any row of the bucket"
    assert where((groups, of_groups), d=5) is None
    two = counted("g", edge("r", "a", "b"), group=("b", "a"))
    onward = counted("h", edge("g", "a", c="b"), group=("a", "c"))
    assert where((two, onward), a=1, c=2) == bucket(2, 1)
    assert where((two, onward), a=1) is None
    third = counted("i", edge("h", "c", d="a"), group=("c", "d"))
    assert where((two, onward, third), c=2, d=1) == bucket(2, 1)


def test_a_key_that_does_not_hold_the_others_key_says_nothing() -> None:
    groups = counted("g", edge("r", "a", "b"), group=("b",))
    without = counted("h", edge("g", d="n"), group=("d",))
    computed = counted("h", edge("g", c=Call("+", (Column("b"), Literal(1)))), group=("c",))
    assert where((groups, without), d=2) is None
    assert where((groups, computed), c=2) is None
    spread = distinct("d", edge("r", "a", "b"))
    assert where((spread, counted("h", edge("d", "a", "b"), group=("a", "b"))), a=1, b=2) is None


@pytest.mark.parametrize(
    ("kind", "by_left", "by_right"),
    [
        ("inner", True, True),
        ("left", True, False),
        ("semi", True, False),
        ("anti", True, False),
        ("right", False, False),
        ("full", False, False),
    ],
)
def test_a_join_says_by_its_left_key_where_its_rows_are_if_they_come_from_left_rows(
    kind: str, by_left: bool, by_right: bool
) -> None:
    """A lone right row stands where its own key says, and shows no left one."""
    grouped = counted("h", edge("j", "b", "c"), group=("b", "c"))
    assert where((join(kind), grouped), b=2) == (bucket(2) if by_left else None)
    assert where((join(kind), grouped), c=2) == (bucket(2) if by_right else None)
    assert where((join(kind, replicated=True), grouped), b=2, c=2) is None


def test_zones_run_side_by_side_unless_one_needs_what_another_makes() -> None:
    def zone(name: str, *sources: str) -> Any:
        return SimpleNamespace(
            name=name, sources=sources, zone=SimpleNamespace(stages=[SimpleNamespace(name=name)])
        )

    zones = [zone("a", "r"), zone("b", "a", "r"), zone("c", "s"), zone("d", "b", "c"), zone("e", "c")]
    levels = [[it.name for it in level] for level in zone_levels(zones)]
    assert levels == [["a", "c"], ["b", "e"], ["d"]]
