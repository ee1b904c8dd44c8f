"""The join stage over many epochs: equal to joining anew, and only what must be read is read."""

import random
from collections import Counter
from typing import Any

import pytest

from cvs.model.expressions import Call, Column
from cvs.model.stages import Edge, JoinStage
from cvs.model.views import Named
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import Place, drive, run_bucket
from cvs.programs.stage_codec import framed, pack_key
from cvs.programs.stage_join import JoinCompute
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_state import State

KINDS = ("inner", "left", "right", "full", "semi", "anti")
LEFT, RIGHT = ("a", "b", "x"), ("y", "c", "d", "z")  # because sides are of different shapes
TYPED = {name: (name, "int") for name in (*LEFT, *RIGHT)}
Row = tuple[Any, ...]


def edge(*names: str) -> Edge:
    return Edge(source="s", columns=tuple(Named(name=name, expression=Column(name)) for name in names))


def stage(kind: str, *, keys: int = 1, residual: bool = False, replicated: bool = False) -> JoinStage:
    shown = LEFT if kind in ("semi", "anti") else ("y", *LEFT, "c", "d")
    return JoinStage(
        name="j",
        kind=kind,  # type: ignore[arg-type]
        left=(edge(*LEFT),),
        right=(edge(*RIGHT),),
        left_key=("a", "b")[:keys],
        right_key=("c", "d")[:keys],
        output=tuple(TYPED[name] for name in shown),
        residual=Call("<", (Column("x"), Column("y"))) if residual else None,
        replicated=replicated,
    )


def anew(stage: JoinStage, left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    """Join everything with everything."""

    def meets(one: Row, other: Row) -> bool:
        keys = len(stage.left_key)
        equal = None not in one[:keys] and one[:keys] == other[1 : 1 + keys]
        known = None not in (one[2], other[0])
        return equal and (stage.residual is None or (known and one[2] < other[0]))

    def show(one: Row, other: Row) -> Row:
        named = dict(zip((*LEFT, *RIGHT), one + other, strict=True))
        return tuple(named[name] for name, _ in stage.output)

    no_left, no_right = (None,) * len(LEFT), (None,) * len(RIGHT)
    found = Counter[Row]()
    for one, count in left.items():
        met = Counter({other: n for other, n in right.items() if meets(one, other)})
        if stage.kind in ("semi", "anti"):
            found[show(one, no_right)] += count if bool(met) is (stage.kind == "semi") else 0
            continue
        for other, n in met.items():
            found[show(one, other)] += count * n
        if not met and stage.kind in ("left", "full"):
            found[show(one, no_right)] += count
    if stage.kind in ("right", "full"):
        for other, n in right.items():
            if not any(meets(one, other) for one in left):
                found[show(no_left, other)] += n
    return +found


def moved_by(stands: Counter[Row], moves: dict[Row, int]) -> Counter[Row]:
    stands.update(moves)
    return Counter({row: count for row, count in stands.items() if count})


class Kept:
    """A join over one bucket, both of its sides as they stand, and what its last epoch read."""

    def __init__(self, of: JoinStage) -> None:
        self.stage, self.compute = of, JoinCompute(of, number=0)
        self.door, self.epoch = MemoryDoor(), 0
        self.sides = [Counter[Row](), Counter[Row]()]
        self.shown: Counter[Row] = Counter()
        self.keys: set[bytes] = set()
        self.prefixes: set[bytes] = set()
        self.asked = 0

    def __call__(self, requests: list[Any]) -> list[Any]:
        for request in requests:
            self.keys.update(getattr(request, "keys", ()))
            self.prefixes.update(getattr(request, "prefixes", ()))
        self.asked += len(requests)
        return self.door(requests)

    def epochs(self, left: dict[Row, int], right: dict[Row, int]) -> None:
        """One epoch: what the join says moves from what was shown to what is right now."""
        self.epoch += 1
        self.keys, self.prefixes, self.asked = set(), set(), 0
        changes = (Bag(left.items()), Bag(right.items()))

        def compute(state: State) -> dict[str, Bag]:
            with state.all_or_nothing():
                return {"j": self.compute(state, changes)}

        machine = run_bucket(
            compute,
            table="t",
            bucket=0,
            incarnation=1,
            epoch=self.epoch,
        )
        self.shown = moved_by(self.shown, dict(drive(machine, self)["j"]))
        self.sides = [moved_by(*it) for it in zip(self.sides, (left, right), strict=True)]
        assert self.shown == anew(self.stage, *self.sides)
        assert Counter(dict(self.contents())) == anew(self.stage, *self.sides)

    def contents(self) -> Bag:
        rows = self.door.rows["t", 0]
        alive = {key: row.now for key, row in rows.items() if key and row.alive}
        return self.compute.contents(State(rows=alive, keys=set(), prefixes=set(), everything=True))

    def read(self, side: int, *key: Any) -> bool:
        """Say whether the last epoch read the rows of a side under a join value."""
        return self.root(side, *key) in self.keys | self.prefixes

    def root(self, side: int, *key: Any) -> bytes:
        return framed(b"0", b"lr"[side : side + 1]) + framed(pack_key(key))


def moved(chance: random.Random, stands: Counter[Row], width: int) -> dict[Row, int]:
    """Rows that come, some of them twice, and rows that leave."""
    moves: Counter[Row] = Counter()
    for _ in range(chance.choice((0, 1, 4))):
        if stands and chance.random() < 0.5:
            moves[chance.choice(sorted(stands, key=repr))] = -1
        else:
            moves[tuple(chance.choice((1, 2, None)) for _ in range(width))] = chance.choice((1, 1, 2))
    return dict(moves)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_joined_as_anew_after_every_epoch(kind: str, keys: int, residual: bool) -> None:
    chance, kept = random.Random(f"{kind}{keys}{residual}"), Kept(stage(kind, keys=keys, residual=residual))
    for _ in range(30):
        kept.epochs(moved(chance, kept.sides[0], len(LEFT)), moved(chance, kept.sides[1], len(RIGHT)))
    for side in (0, 1):
        gone = {row: -count for row, count in kept.sides[side].items()}
        kept.epochs(*((gone, {}) if side == 0 else ({}, gone)))
    assert not kept.shown


LINEAR = {"inner": (True, True), "left": (True, False), "right": (False, True), "full": (False, False)}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_side_in_which_a_join_is_linear_is_not_read_when_it_alone_changes(kind: str, side: int) -> None:
    """Of many rows under one value: they lie in cells, and cells are read only where all of them are needed."""
    kept = Kept(stage(kind))
    numbers = range(100)
    kept.epochs({(1, n, n): 1 for n in numbers}, {(n, 1, n, n): 1 for n in numbers})
    kept.epochs(*(({(1, 1000, 0): 1}, {}) if side == 0 else ({}, {(1000, 1, 0, 0): 1})))
    linear = LINEAR.get(kind, (True, False))[side]
    assert (kept.root(side, 1) in kept.prefixes) is not linear
    assert kept.root(1 - side, 1) in kept.prefixes
    assert kept.asked == 3, "a read that tells of the cells, one of them, one test-and-set"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_join_value_meet_nothing_and_nothing_is_read_for_them(kind: str) -> None:
    kept = Kept(stage(kind))
    kept.epochs({(None, 1, 1): 1}, {(2, None, 2, 2): 1})
    kept.epochs({(None, 3, 3): 2}, {})
    assert kept.read(0, None)
    assert not kept.read(1, None)
    kept.epochs({}, {(2, None, 2, 2): -1})
    assert kept.read(1, None)
    assert not kept.read(0, None)


def test_what_all_join_values_need_is_read_at_once() -> None:
    kept = Kept(stage("full"))
    values = (None, 1, 2, 3)
    kept.epochs({(value, 0, 0): 1 for value in values}, {})
    kept.epochs({(value, 5, 5): 1 for value in values}, {(0, 2, 0, 0): 1})
    assert kept.asked == 2, "one read, one test-and-set"


def test_without_input_nothing_moves_and_a_second_attempt_sorts_its_input_once() -> None:
    compute = JoinCompute(stage("inner"), number=0)
    state = State(rows={}, keys=set(), prefixes=set(), everything=True)
    assert not len(compute(state, (Bag(), Bag())))
    changes = (Bag([((1, 1, 1), 1)]), Bag([((2, 1, 2, 0), 1)]))
    first = compute(state, changes)
    sorted_ = changes[0].sorted
    again = compute(State(rows={}, keys=set(), prefixes=set(), everything=True), changes)
    assert first == again == Bag([((2, 1, 1, 1, 1, 2), 1)])
    assert changes[0].sorted is changes[1].sorted is sorted_
    other = (changes[0], Bag([((3, 1, 3, 0), 1)]))
    found = compute(State(rows={}, keys=set(), prefixes=set(), everything=True), other)
    assert found == Bag([((3, 1, 1, 1, 1, 3), 1)]), "sorted with another bag beside it"


def test_it_says_where_the_rows_of_a_join_value_are() -> None:
    compute = JoinCompute(stage("inner"), number=0)
    name = pack_key((7,))
    where = Place(key=name, prefixes=(framed(b"0", b"l") + framed(name), framed(b"0", b"r") + framed(name)))
    assert compute.place({"a": 7, "x": 1}) == compute.place({"c": 7}) == where
    assert compute.place({"x": 7}) is None
    two = JoinCompute(stage("inner", keys=2), number=0)
    assert two.place({"a": 7, "d": 1}) is None
    assert two.place({"c": 7, "d": 1}) == two.place({"a": 7, "b": 1})
    assert JoinCompute(stage("inner", replicated=True), number=0).place({"a": 7}) is None
