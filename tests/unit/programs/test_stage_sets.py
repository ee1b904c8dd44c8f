"""Distinct rows, set operations and the first few rows over many epochs: equal to what they mean, computed anew."""

import math
import random
from collections import Counter
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import pytest

from cvs.model.expressions import Column
from cvs.model.stages import DistinctStage, SetStage, TopKStage
from cvs.model.views import OrderBy
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import GRAVES, Place, drive, run_bucket
from cvs.programs.stage_codec import framed, pack_key
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_sets import CountedCompute, TopKCompute
from cvs.programs.stage_state import State

Row = tuple[Any, ...]
OUTPUT = (("a", "int"), ("b", "double"))


def both_kinds(kind: str, *, every: bool) -> SetStage:
    return SetStage(name="s", kind=kind, all=every, left=(), right=(), output=OUTPUT)  # type: ignore[arg-type]


DISTINCT = DistinctStage(name="s", inputs=(), output=OUTPUT)
MEANT: dict[str, tuple[DistinctStage | SetStage, Callable[[int, int], int]]] = {
    "distinct": (DISTINCT, lambda left, _: int(left > 0)),
    "intersect": (both_kinds("intersect", every=False), lambda left, right: int(left > 0 and right > 0)),
    "intersect all": (both_kinds("intersect", every=True), min),
    "except": (both_kinds("except", every=False), lambda left, right: int(left > 0 and not right)),
    "except all": (both_kinds("except", every=True), lambda left, right: max(left - right, 0)),
}


def written(rows: Any) -> Counter[str]:
    """Rows as text: NaN is not equal to itself, and 0.0 is to -0.0."""
    return Counter({repr(row): count for row, count in rows})


class Kept:
    """A stage over one bucket: what it shows, and what it asked for in its last epoch."""

    def __init__(self, compute: Any) -> None:
        self.compute, self.door, self.epoch = compute, MemoryDoor(), 0
        self.shown: Counter[str] = Counter()
        self.sets: list[Any] = []
        self.asked = 0

    def __call__(self, requests: list[Any]) -> list[Any]:
        self.asked += len(requests)
        self.sets += [request for request in requests if hasattr(request, "puts")]
        return self.door(requests)

    def epochs(self, changes: Any) -> None:
        self.epoch, self.asked, self.sets = self.epoch + 1, 0, []

        def compute(state: State) -> dict[str, Bag]:
            with state.all_or_nothing():
                return {"s": self.compute(state, changes)}

        machine = run_bucket(
            compute,
            table="t",
            bucket=0,
            incarnation=1,
            epoch=self.epoch,
        )
        self.shown.update(written(drive(machine, self)["s"]))
        self.shown = Counter({row: count for row, count in self.shown.items() if count})

    def alive(self) -> dict[bytes, bytes]:
        rows = self.door.rows["t", 0]
        return {key: row.now for key, row in rows.items() if key not in (b"", GRAVES) and row.alive}

    def contents(self) -> Counter[str]:
        state = State(rows=self.alive(), keys=set(), prefixes=set(), everything=True)
        return written(self.compute.contents(state))


@pytest.mark.parametrize("name", MEANT)
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_shown_as_often_as_the_operation_says(name: str, seed: int) -> None:
    stage, meant = MEANT[name]
    chance, kept = random.Random(seed), Kept(CountedCompute(stage, number=0))
    sides: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    for _ in range(60):
        moves: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
        for side in (0,) if stage is DISTINCT else (0, 1):
            for _ in range(chance.choice((0, 1, 3))):
                row = (chance.choice((1, None)), chance.choice((0.0, 2.5)))
                there = sides[side][row] + moves[side][row]
                moves[side][row] += chance.choice((1, 2, -there, -min(there, 1)))
        kept.epochs(tuple(Bag(it.items()) for it in moves))
        for side, it in zip(sides, moves, strict=True):
            side.update(it)
        every = {row for side in sides for row in side}
        shown = {repr(row): n for row in every if (n := meant(sides[0][row], sides[1][row]))}
        assert kept.shown == kept.contents() == shown
        assert len(kept.alive()) == len({row for side in sides for row in +side}), (
            "what is on no side is not kept"
        )


def test_rows_that_sql_calls_equal_are_one_row() -> None:
    kept = Kept(CountedCompute(DISTINCT, number=0))
    kept.epochs((Bag([((1, 0.0), 1), ((1, -0.0), 1), ((2, math.nan), 1), ((2, -math.nan), 1)]), Bag()))
    assert sorted(kept.shown) == ["(1, 0.0)", "(2, nan)"]
    assert set(kept.shown.values()) == {1}
    kept.epochs((Bag([((1, 0.0), -1)]), Bag()))
    assert len(kept.shown) == 2


def test_what_comes_to_nothing_is_not_written() -> None:
    """A row that left and came again, spelled otherwise: two changes of the bag, none of the row's."""
    kept = Kept(CountedCompute(DISTINCT, number=0))
    kept.epochs((Bag([((1, 0.0), 1)]), Bag()))
    kept.epochs((Bag([((1, 0.0), -1), ((1, -0.0), 1)]), Bag()))
    (sent,) = kept.sets
    assert sent.puts == ()


def test_all_rows_are_asked_for_at_once() -> None:
    kept = Kept(CountedCompute(DISTINCT, number=0))
    kept.epochs((Bag([((n, 0.5), 1) for n in range(9)]), Bag()))
    assert kept.asked == 2, "one read, one test-and-set"


def test_a_row_cannot_leave_a_set_more_often_than_it_came() -> None:
    for changes in ((Bag([((1, 0.5), -1)]), Bag()), (Bag(), Bag([((1, 0.5), -1)]))):
        with pytest.raises(AssertionError, match="more often"):
            Kept(CountedCompute(both_kinds("except", every=True), number=0)).epochs(changes)


def test_it_says_where_a_row_is() -> None:
    compute = CountedCompute(DISTINCT, number=3)
    name = pack_key((1, 0.5))
    where = Place(key=name, prefixes=(framed(b"3", b"c") + framed(name),))
    assert compute.place({"a": 1, "b": 0.5}) == compute.place({"b": 0.5, "a": 1, "c": 7}) == where
    assert compute.place({"a": 1}) is None


def before(order: tuple[OrderBy, ...], one: Row, other: Row) -> int:
    """Compare two rows as ORDER BY does; ties by all columns, upwards, nulls first."""
    everything = tuple(OrderBy(expression=Column(name), nulls_first=True) for name, _ in OUTPUT)
    for term in (*order, *everything):
        place = [name for name, _ in OUTPUT].index(term.expression.name)  # type: ignore[attr-defined]
        x, y = one[place], other[place]
        if x is None or y is None:
            sign = (y is None) - (x is None)
            if sign:
                return sign if term.nulls_first else -sign
            continue
        x, y = (math.isnan(x), 0 if math.isnan(x) else x), (math.isnan(y), 0 if math.isnan(y) else y)
        if x != y:
            return -1 if (x < y) is not term.descending else 1
    return 0


A, B = Column("a"), Column("b")
ORDERS = (
    (OrderBy(expression=A, nulls_first=True),),
    (OrderBy(expression=A, descending=True, nulls_first=False),),
    (OrderBy(expression=B, nulls_first=False), OrderBy(expression=A, descending=True, nulls_first=True)),
    (OrderBy(expression=B, descending=True, nulls_first=True), OrderBy(expression=A, nulls_first=False)),
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("limit", "offset"), [(1, 0), (3, 0), (3, 2), (2, 1)])
def test_the_first_rows_are_those_of_all_rows_in_order(
    order: tuple[OrderBy, ...], limit: int, offset: int
) -> None:
    stage = TopKStage(name="s", inputs=(), order=order, limit=limit, offset=offset, output=OUTPUT)
    chance, kept, there = random.Random(limit + offset), Kept(TopKCompute(stage, number=0)), Counter[Row]()
    for _ in range(50):
        moves: Counter[Row] = Counter()
        for _ in range(chance.choice((0, 1, 2))):
            row = (chance.choice((None, -1, 2)), chance.choice((None, 0.5, -2.5, math.nan)))
            stands = there[row] + moves[row]
            moves[row] += chance.choice((1, -stands, -min(stands, 1)))
        kept.epochs(Bag(moves.items()))
        there.update(moves)
        ranked = sorted(there.elements(), key=cmp_to_key(lambda one, other: before(order, one, other)))
        first = written(Counter(ranked[offset : offset + limit]).items())
        assert kept.shown == kept.contents() == first
        assert len(kept.alive()) == len(+there)


def test_the_first_rows_without_changes_read_nothing() -> None:
    stage = TopKStage(name="s", inputs=(), order=ORDERS[0], limit=1, offset=0, output=OUTPUT)
    compute = TopKCompute(stage, number=2)
    assert compute(State(rows={}, keys=set(), prefixes=set()), Bag()) == Bag()
    kept = Kept(compute)
    kept.epochs(Bag([((1, 0.5), 1)]))
    assert kept.asked == 2, "one read, one test-and-set"
    assert compute.place({}) == Place(key=pack_key(()), prefixes=(framed(b"2", b"t"),))
    with pytest.raises(AssertionError, match="more often"):
        kept.epochs(Bag([((1, 0.5), -2)]))


@pytest.mark.parametrize("name", ["distinct", "top-k"])
def test_rows_longer_than_cassandras_keys_are_kept(name: str) -> None:
    top = TopKStage(name="s", inputs=(), order=(), limit=9, offset=0, output=OUTPUT)
    kept = Kept(CountedCompute(DISTINCT, number=0) if name == "distinct" else TopKCompute(top, number=0))
    long, other = ("x" * 70_000, 1.0), ("x" * 70_000, 2.0)
    both = Bag([(long, 1), (other, 1)])
    kept.epochs((both, Bag()) if name == "distinct" else both)
    assert max(len(key) for it in kept.sets for key, _ in it.puts) <= 65_535
    assert kept.contents() == kept.shown == written([(long, 1), (other, 1)])
    gone = Bag([(long, -1)])
    kept.epochs((gone, Bag()) if name == "distinct" else gone)
    assert kept.contents() == kept.shown == written([(other, 1)])
