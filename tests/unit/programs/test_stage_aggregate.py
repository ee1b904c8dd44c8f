"""The aggregate stage over many epochs: equal to counting anew, and the group's values read only when they must be."""

import random
import statistics
from collections import Counter
from typing import Any

import pytest

from cvs.model.expressions import Column
from cvs.model.stages import AggregateStage
from cvs.model.views import AggregateColumn, AggregateFunction
from cvs.programs.stage_aggregate import BEST_KEPT, AggregateCompute
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import Place, drive, run_bucket
from cvs.programs.stage_codec import framed, pack_key, unpack
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_state import NeedsError, State

F = AggregateFunction
Y = Column("y")
COLUMNS = ("g", "y")
AGGREGATES = (
    AggregateColumn(name="n", function=F.COUNT, argument=None),
    AggregateColumn(name="least", function=F.MIN, argument=Y),
    AggregateColumn(name="most", function=F.MAX, argument=Y),
    AggregateColumn(name="different", function=F.COUNT, argument=Y, distinct=True),
    AggregateColumn(name="spread", function=F.VARIANCE, argument=Y),
    AggregateColumn(name="spread_of_different", function=F.VARIANCE, argument=Y, distinct=True),
)
OUTPUT = (("g", "text"), ("least", "text"), ("most", "text"))
VALUES = framed(b"0", b"v")
Row = tuple[Any, ...]


def stage(*group: str) -> AggregateCompute:
    output = (*((name, "text") for name in group), *((it.name, "int") for it in AGGREGATES))
    made = AggregateStage(name="s", inputs=(), group=group, aggregates=AGGREGATES, output=output)
    return AggregateCompute(made, number=0, columns=COLUMNS)


class Kept:
    """A stage over one bucket, its input as it stands, and what each epoch asked for."""

    def __init__(self, *group: str) -> None:
        self.compute, self.door, self.epoch = stage(*group), MemoryDoor(), 0
        self.rows: Counter[Row] = Counter()
        self.shown: Counter[Row] = Counter()
        self.read: list[bytes] = []
        self.asked = 0

    def __call__(self, requests: list[Any]) -> list[Any]:
        self.asked += len(requests)
        for request in requests:
            self.read += [prefix for prefix in getattr(request, "prefixes", ()) if prefix.startswith(VALUES)]
        return self.door(requests)

    def epochs(self, *changes: tuple[Row, int]) -> None:
        """One epoch: rows come or leave; what the stage says moves from what was shown to what is right now."""
        self.epoch, self.read = self.epoch + 1, []
        bag = Bag(changes)

        def compute(state: State) -> dict[str, Bag]:
            with state.all_or_nothing():
                return {"s": self.compute(state, bag, always=self.epoch == 1)}

        machine = run_bucket(
            compute,
            table="t",
            bucket=0,
            incarnation=1,
            epoch=self.epoch,
        )
        for row, count in drive(machine, self)["s"]:
            self.shown[row] += count
        self.rows.update(dict(bag))
        self.rows, self.shown = +self.rows, Counter({row: n for row, n in self.shown.items() if n})
        assert self.shown == Counter(map(self.anew, self.groups()))
        assert Counter(dict(self.contents())) == self.shown

    def groups(self) -> list[Row]:
        places = self.compute.places
        return sorted({tuple(row[p] for p in places) for row in self.rows} | (set() if places else {()}))

    def anew(self, group: Row) -> Row:
        """Count a group's row anew."""
        mine = [row for row in self.rows.elements() if tuple(row[p] for p in self.compute.places) == group]
        values = [row[1] for row in mine if row[1] is not None]
        different = set(values)
        return (
            *group,
            len(mine),
            min(values, default=None),
            max(values, default=None),
            len(different),
            *(statistics.variance(it) if len(it) > 1 else None for it in (values, different)),
        )

    def listed(self, *group: Any) -> tuple[Row, Row]:
        """Return what a group's row keeps for MIN and for MAX."""
        row = self.door.rows["t", 0][framed(b"0", b"g") + framed(pack_key(group))]
        _, _, _, least, most, *_ = unpack(row.now)
        return least, most

    def contents(self) -> Bag:
        rows = self.door.rows["t", 0]
        alive = {key: row.now for key, row in rows.items() if key and row.alive}
        return self.compute.contents(State(rows=alive, keys=set(), prefixes=set(), everything=True))


def values(*numbers: int, count: int = 1) -> list[tuple[Row, int]]:
    return [(("a", number), count) for number in numbers]


@pytest.mark.parametrize("seed", range(12))
def test_it_is_counted_as_anew_after_every_epoch(seed: int) -> None:
    chooser, kept = random.Random(seed), Kept(*(("g",) if seed % 3 else ()))
    for _ in range(40):
        moves: Counter[Row] = Counter()
        falling = chooser.random() < 0.4  # mostly the best ones leave
        for _ in range(chooser.choice((1, 3, 30))):
            there = sorted((kept.rows + moves).elements(), key=repr)
            if there and chooser.random() < (0.8 if falling else 0.3):
                left = [row for row in there if (kept.rows + moves)[row] > 0]
                numbers = sorted((row for row in left if row[1] is not None), key=lambda row: int(row[1]))
                gone = chooser.choice((numbers[:1] or left)[:1] + numbers[-1:] + [chooser.choice(left)])
                moves[gone] -= 1
            else:
                value = chooser.choice((None, chooser.randrange(12), chooser.randrange(12, 60)))
                moves[chooser.choice("ab"), value] += 1
        kept.epochs(*((row, count) for row, count in moves.items() if count))


def test_values_are_read_only_when_the_last_of_the_best_has_left() -> None:
    """What the group's row lists is enough until then: a scan of all values is what an epoch can least afford."""
    kept = Kept("g")
    kept.epochs(*values(*range(100)))
    for leaving in (range(15), range(99, 84, -1)):
        kept.epochs(*values(*leaving, count=-1))
        assert kept.read == []
    kept.epochs(*values(15, count=-1))
    assert len(kept.read) == 1, "the last of the sixteen least"
    kept.epochs(*values(50, count=-1))
    assert kept.read == []


def test_a_value_that_is_worse_than_the_worst_listed_is_not_listed() -> None:
    """Others that are not listed may be better: nobody knows before they are read."""
    kept = Kept("g")
    kept.epochs(*values(*range(0, 100, 2)))
    kept.epochs(*values(*range(0, 10, 2), count=-1))
    kept.epochs(*values(41))
    kept.epochs(*values(*range(10, 32, 2), count=-1))
    assert len(kept.read) == 1


def test_a_better_value_pushes_the_worst_listed_out() -> None:
    kept = Kept("g")
    kept.epochs(*values(*range(100, 200)))
    kept.epochs(*values(*range(50, 66)))
    kept.epochs(*values(*range(50, 65), count=-1))
    assert kept.read == []
    kept.epochs(*values(65, count=-1))
    assert len(kept.read) == 1


@pytest.mark.parametrize("number", [1, BEST_KEPT - 1, BEST_KEPT, BEST_KEPT + 1])
def test_a_group_of_few_values_is_right_to_the_last(number: int) -> None:
    kept = Kept("g")
    kept.epochs(*values(*range(number)), (("a", None), 1))
    for value in range(number):
        kept.epochs(*values(value, count=-1))
    kept.epochs(*values(7))
    kept.epochs(*values(6))


def test_a_group_that_loses_all_its_values_reads_none() -> None:
    kept = Kept("g")
    kept.epochs(*values(*range(100)), *values(*range(100)))
    kept.epochs(*values(*range(100), count=-1))
    kept.epochs(*values(*range(100), count=-1))
    assert kept.shown == Counter()


LISTED = range(2, BEST_KEPT + 2)


@pytest.mark.parametrize(
    ("coming", "least", "most"),
    [
        ([], (0, (), True), (0, (), True)),
        ([4, 2, 4], (2, (2, 4), True), (2, (4, 2), True)),
        (LISTED, (BEST_KEPT, (*LISTED,), True), (BEST_KEPT, (*reversed(LISTED),), True)),
        (
            [*LISTED, 1],
            (BEST_KEPT + 1, (1, *LISTED[:-1]), False),
            (BEST_KEPT + 1, (*reversed(LISTED),), False),
        ),
    ],
)
def test_a_group_lists_how_many_values_it_has_the_best_and_whether_these_are_all(
    coming: Any, least: Row, most: Row
) -> None:
    kept = Kept("g")
    kept.epochs(*values(*coming), (("a", None), 1))
    assert kept.listed("a") == (least, most)
    if most[0] > BEST_KEPT:
        kept.epochs(*values(*LISTED, count=-1))
        assert kept.listed("a") == ((1, (1,), False), (1, (1,), True)), "those of MAX were read again"
    kept.epochs(*((row, -count) for row, count in kept.rows.items() if row[1] is not None))
    assert [it[:2] for it in kept.listed("a")] == [(0, ())] * 2


def test_after_a_scan_the_best_are_listed_again() -> None:
    kept = Kept("g")
    kept.epochs(*values(*range(60)))
    kept.epochs(*values(*range(16), count=-1))
    assert len(kept.read) == 1
    kept.epochs(*values(*range(16, 31), count=-1))
    assert kept.read == []


def test_the_group_of_all_rows_is_there_without_any() -> None:
    kept = Kept()
    kept.epochs()
    assert kept.shown == Counter([(0, None, None, 0, None, None)])
    kept.epochs(*values(3))
    kept.epochs(*values(3, count=-1))
    assert kept.shown == Counter([(0, None, None, 0, None, None)])
    grouped = Kept("g")
    grouped.epochs()
    assert grouped.shown == Counter()


def test_several_groups_ask_for_what_they_need_together() -> None:
    compute = stage("g")
    coming = Bag([(("a", n), 1) for n in range(100)] + [(("b", n), 1) for n in range(100)])
    kept = Kept("g")
    kept.epochs(*coming)
    rows = {key: row.now for key, row in kept.door.rows["t", 0].items() if key and row.alive}
    state = State(rows=rows, keys=set(rows), prefixes=set())
    with pytest.raises(NeedsError) as needs:
        compute(state, Bag([((g, n), -1) for g in "ab" for n in range(16)]))
    assert len(needs.value.prefixes) == 2


def test_what_all_groups_need_is_read_at_once() -> None:
    kept = Kept("g")
    groups = [f"g{n}" for n in range(20)]
    kept.epochs(*(((g, n), 1) for g in groups for n in range(3)))
    kept.asked = 0
    kept.epochs(*(((g, 0), -1) for g in groups))
    assert kept.asked == 2, "one read, one test-and-set"


def test_only_what_needs_its_values_keeps_them() -> None:
    plain = AggregateStage(
        name="s",
        inputs=(),
        group=("g",),
        aggregates=(AggregateColumn(name="total", function=F.SUM, argument=Y),),
        output=(("g", "text"), ("total", "int")),
    )
    state = State(rows={}, keys=set(), prefixes=set(), everything=True)
    out = AggregateCompute(plain, number=0, columns=COLUMNS)(state, Bag(values(1, 2)))
    assert list(out) == [(("a", 3), 1)]
    assert len(state.changed) == 1


def test_without_input_nothing_moves_but_where_it_is_asked_for() -> None:
    state = State(rows={}, keys=set(), prefixes=set(), everything=True)
    assert not len(stage()(state, Bag()))
    assert len(stage()(state, Bag(), always=True)) == 1


def test_it_says_where_the_rows_of_a_group_are() -> None:
    compute = stage("g")
    name = pack_key(("a",))
    assert compute.place({"g": "a"}) == Place(key=name, prefixes=(framed(b"0", b"g") + framed(name),))
    assert compute.place({"g": "a", "n": 3}) == compute.place({"g": "a"})
    assert compute.place({"n": 3}) is None


def test_a_nan_that_leaves_goes_alone_and_goes() -> None:
    """NaN is the greatest number, and equal to itself, in SQL as it is not in Python."""
    most = AggregateColumn(name="most", function=F.MAX, argument=Y)
    made = AggregateStage(name="s", inputs=(), group=(), aggregates=(most,), output=(("most", "double"),))
    compute, door = AggregateCompute(made, number=0, columns=COLUMNS), MemoryDoor()

    def moved(epoch: int, *changes: tuple[Row, int]) -> list[tuple[str, int]]:
        def work(state: State) -> dict[str, Bag]:
            with state.all_or_nothing():
                return {"s": compute(state, Bag(changes), always=epoch == 1)}

        machine = run_bucket(work, table="t", bucket=0, incarnation=1, epoch=epoch)
        return sorted((str(row[0]), count) for row, count in drive(machine, door)["s"])

    nan = (0, float("nan"))
    assert moved(1, (nan, 1), ((0, 1.0), 1)) == [("nan", 1)]
    assert moved(2, (nan, -1)) == [("1.0", 1), ("nan", -1)]


def test_groups_longer_than_cassandras_keys_are_kept() -> None:
    kept, long = Kept("g"), "x" * 70_000
    kept.epochs(*(((long, number), 1) for number in range(40)), ((long + "y", 1), 1))
    assert max(map(len, kept.door.rows["t", 0])) <= 65_535
    assert kept.compute.place({"g": long}) != kept.compute.place({"g": long + "y"})
    kept.epochs(((long, 0), -1), ((long + "y", 1), -1))
    assert {row[0] for row in kept.shown} == {long}


def test_a_groups_row_lists_few_of_its_large_values() -> None:
    """Sixteen documents in each group's row, before and now, are more than Cassandra takes at once."""
    kept = Kept("g")
    documents = [f"{number:03}" + "x" * 200_000 for number in range(20)]
    kept.compute = AggregateCompute(
        AggregateStage(name="s", inputs=(), group=("g",), aggregates=AGGREGATES[1:3], output=OUTPUT),
        number=0,
        columns=COLUMNS,
    )
    kept.anew = lambda group: (*group, min(kept.left), max(kept.left))  # type: ignore[attr-defined, method-assign]
    kept.left = set(documents)  # type: ignore[attr-defined]
    kept.epochs(*((("a", it), 1) for it in documents))
    for it in documents[:3] + documents[-3:]:
        kept.left.remove(it)  # type: ignore[attr-defined]
        kept.epochs((("a", it), -1))
        rows = kept.door.rows["t", 0].values()
        assert max(len(row.now) + len(row.before) for row in rows) < 4_000_000
