"""What epoch machines refuse, and what cannot be shown: each with its reason, and nothing else with it."""

import random
from typing import Any

import pytest

from cvs.errors import SpecificationError
from cvs.model.expressions import Column
from cvs.model.keys import KEY_BYTES_MAX
from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.model.stages import DistinctStage, Edge, Plan, Publication, Zone
from cvs.model.views import BaseTable, Named
from cvs.programs import epoch_whole, stage_cells
from cvs.programs.delta import Doubt, StaleDriverError
from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import KEY_SHOWN_MAX, BaseReader, EpochResult, RowInDoubt, decoded, shortened
from cvs.programs.epoch_whole import SHOWN_MAX, Whole
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import (
    ATTEMPTS,
    GRAVES,
    SENTINEL,
    BucketRead,
    ReadBucket,
    StateRow,
    drive,
    run_bucket,
)
from cvs.programs.stage_cells import KeptBags
from cvs.programs.stage_codec import framed, pack
from cvs.programs.stage_publish import PublishCompute, Shown
from cvs.programs.stage_snapshot import MovedOnError, SnapshotReader
from cvs.programs.stage_state import State
from cvs.programs.stage_zone import ZoneCompute
from cvs.programs.stored import Emitted
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import World

BASE = BaseTable(name="t", columns=(("a", "text"), ("b", "text")), partition_key=("a",))
TYPED = (("a", "text"), ("b", "text"))


def edge(source: str) -> Edge:
    return Edge(source=source, columns=tuple(Named(name=n, expression=Column(n)) for n, _ in TYPED))


def plan_of(source: str = "t", *, partition: tuple[str, ...] = ("a",)) -> Plan:
    stage = DistinctStage(name="d", inputs=(edge(source),), output=TYPED)
    rest = tuple((name, False) for name, _ in TYPED if name not in partition)
    shown = Publication(
        view="v", table="k.v", inputs=(edge("d"),), columns=TYPED, partition_key=partition, clustering=rest
    )
    return Plan(bases=(BASE,), zones=(Zone(name="z", stages=(stage,), buckets=1),), publications=(shown,))


def puts_one(state: State) -> dict[str, Bag]:
    state.get(b"key")
    state.put(b"key", b"now")
    return {}


def ran(answers: Any, *, incarnation: int = 1, epoch: int = 3) -> dict[str, Bag]:
    machine = run_bucket(puts_one, table="z", bucket=7, incarnation=incarnation, epoch=epoch)
    return drive(machine, lambda requests: [answers(request) for request in requests])


def at(version: int, rows: dict[bytes, StateRow] | None = None, *, incarnation: int = 1) -> BucketRead:
    return BucketRead(signature=Signature(incarnation=incarnation, version=version), rows=rows or {})


def test_a_bucket_of_another_incarnation_stops_the_driver() -> None:
    with pytest.raises(StaleDriverError, match="incarnation 2, driver of 1"):
        ran(lambda _: at(2, incarnation=2))


@pytest.mark.parametrize(("signature", "row"), [(4, 2), (2, 4)])
def test_a_bucket_or_a_row_of_a_later_epoch_stops_the_driver(signature: int, row: int) -> None:
    rows = {b"key": StateRow(now=b"x", epoch=row, alive=True)}
    with pytest.raises(StaleDriverError, match="at epoch 4, driver of 3"):
        ran(lambda _: at(signature, rows))


def test_a_bucket_that_never_comes_to_rest_stops_the_driver() -> None:
    asked: list[Any] = []

    def refusing(request: Any) -> Any:
        asked.append(request)
        return at(2) if isinstance(request, ReadBucket) else Outcome(kind=OutcomeKind.REJECTED)

    with pytest.raises(StaleDriverError, match=f"bucket 7 of z did not come to rest in {ATTEMPTS} attempts"):
        ran(refusing)
    assert len(asked) == 2 * ATTEMPTS


def test_the_sentinel_is_no_row_of_state() -> None:
    rows = {key: StateRow(now=b"x", epoch=1, alive=True) for key in (SENTINEL, b"key")}
    seen: list[Any] = []

    def compute(state: State) -> dict[str, Bag]:
        seen.append(dict(state.rows))
        return {}

    machine = run_bucket(compute, table="z", bucket=0, incarnation=1, epoch=3)
    answers = {True: at(2, rows), False: Outcome(kind=OutcomeKind.APPLIED)}
    drive(machine, lambda requests: [answers[isinstance(it, ReadBucket)] for it in requests])
    assert seen[-1] == {b"key": b"x"}


def test_a_stage_that_needs_nothing_reads_the_graves_all_the_same() -> None:
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request)
        return at(2) if isinstance(request, ReadBucket) else Outcome(kind=OutcomeKind.APPLIED)

    machine = run_bucket(lambda _: {}, table="z", bucket=0, incarnation=1, epoch=3)
    drive(machine, lambda requests: [answer(it) for it in requests])
    assert asked[0].keys == (GRAVES,)
    assert not asked[0].serial


def test_an_edge_from_nowhere_is_refused() -> None:
    plan = plan_of("nowhere")
    with pytest.raises(SpecificationError, match='the plan has no source "nowhere"'):
        ZoneCompute(plan.zones[0], plan)


EMPTY = "an empty value cannot be the whole partition key"
NULL = "a key column is null"
LONG = f"the partition key would have more than {KEY_BYTES_MAX:,} bytes"
LONG_CLUSTERING = f"the clustering columns would have more than {KEY_BYTES_MAX:,} bytes"


@pytest.mark.parametrize(
    ("partition", "row", "reason"),
    [
        (("a",), ("", "x"), EMPTY),
        (("a",), (None, "x"), NULL),
        (("a",), ("x", None), NULL),  # a row of what had COMPACT STORAGE: nothing showed it, nor said so
        (("a",), ("x", ""), ""),
        (("a", "b"), ("", "x"), ""),
        (("a",), ("x" * KEY_BYTES_MAX, "x"), ""),
        (("a",), ("x" * (KEY_BYTES_MAX + 1), "x"), LONG),
        (("a",), ("x", "\N{GRINNING FACE}" * (KEY_BYTES_MAX // 4)), ""),
        (("a",), ("x", "\N{GRINNING FACE}" * (KEY_BYTES_MAX // 4 + 1)), LONG_CLUSTERING),
        (("a",), ("x", b"x" * (KEY_BYTES_MAX + 1)), LONG_CLUSTERING),
        (("a",), (1, 2), ""),
        (("a",), ("x" * 40_000, "x" * 40_000), ""),
        (("a", "b"), ("x" * 40_000, b"x" * 40_000), LONG),
        (("a",), ("x", ("y" * 40_000, ("y" * 25_000, None))), LONG_CLUSTERING),
    ],
)
def test_a_key_that_no_table_can_hold_is_shown_by_nothing(partition: Any, row: Any, reason: str) -> None:
    plan = plan_of(partition=partition)
    compute = PublishCompute(plan.publications[0], plan)
    (shown,) = compute.moved(Bag([(row, 1)]))
    assert shown == Shown(key=compute.key_of(row), before=None, now=row, refused=reason)
    pin = Pin(epoch=4, lifted={"v": 10, "w": 5})
    request = compute.request([shown, Shown(key=("gone", "x"), before=("gone", "x"), now=None)], pin)
    assert request.puts == (() if reason else (row,))
    assert (request.deletes, request.write_time) == ((("gone", "x"),), 14)
    result = EpochResult(epoch=4)
    assert result.show(compute, [shown]) == ([] if reason else [shown])
    assert [it.reason for it in result.quarantined] == ([reason] if reason else [])
    (gone,) = compute.moved(Bag([(row, -1)]))
    left = EpochResult(epoch=5)
    left.show(compute, [gone])
    assert [it.reason for it in left.quarantined] == ([""] if reason else []), "it is in quarantine no longer"


def test_a_key_twice() -> None:
    plan = plan_of()
    compute = PublishCompute(plan.publications[0], plan)
    with pytest.raises(AssertionError, match="not unique"):
        compute.moved(Bag([(("x", "y"), 2)]))


def test_records_move_in_the_order_of_their_keys_bytes_each_with_what_it_was_and_is() -> None:
    """Bytes have an order whatever the values are; so who computes again puts in the same order."""
    plan = plan_of()
    compute = PublishCompute(plan.publications[0], plan)
    rows = [(-1, "a"), ("x", "b"), (1, "c")]
    moved = compute.moved(Bag([*((row, 1) for row in rows[:2]), (rows[2], -1)]))
    assert moved == [
        Shown(key=(1, "c"), before=(1, "c"), now=None),
        Shown(key=("x", "b"), before=None, now=("x", "b")),
        Shown(key=(-1, "a"), before=None, now=(-1, "a")),
    ]


def test_keys_are_shortened_and_stay_different() -> None:
    assert shortened("x" * KEY_SHOWN_MAX) == "x" * KEY_SHOWN_MAX
    long = {shortened("x" * KEY_SHOWN_MAX + end) for end in ("1", "2")}
    assert len(long) == 2
    assert {len(it) for it in long} == {KEY_SHOWN_MAX + 4 + 8}


def test_a_base_row_that_cannot_be_read_contributes_nothing() -> None:
    """Before and after are asked alone: a row that is mended leaves quarantine and comes into the view."""

    def decode(partition: bytes, clustering: bytes, visible: Any) -> Any:
        if visible.get("b") == b"bad":
            raise ValueError("no such text")
        return (partition.decode(), visible.get("b"))

    base = BaseReader(name="t", delta="d", buckets=1, decode=decode)
    good, bad = {"b": b"good"}, {"b": b"bad"}

    def moved(before: Any, now: Any, doubt: Any = None) -> tuple[bytes, Emitted]:
        return b"p", Emitted(b"c", before, now, 5, doubt)

    def move(before: Any, now: Any) -> Any:
        (found,) = decoded(base, [moved(before, now)])
        return (
            found.before,
            found.now,
            found.quarantined and (found.quarantined.key, found.quarantined.reason),
        )

    assert move(good, bad) == (("p", b"good"), None, ("('p',)", "no such text"))
    assert move(bad, good) == (None, ("p", b"good"), ("('p',)", ""))
    assert move(None, good) == (None, ("p", b"good"), None)
    assert move(good, good) == (None, None, None)
    doubt: Doubt = (("b", 7),)
    moves = decoded(base, [moved(good, good, doubt), moved(good, bad), moved(None, good)])
    result = EpochResult(epoch=1)
    assert result.take("t", moves) == [moves[1], moves[2]] == result.bases["t"]
    assert result.doubts == [RowInDoubt("t", b"p", b"c", doubt)]
    assert [it.reason for it in result.quarantined] == ["no such text"]


def test_a_base_row_whose_key_cannot_be_read_is_named_by_its_bytes() -> None:
    def decode(partition: bytes, clustering: bytes, visible: Any) -> Any:
        raise OverflowError("no such date")

    base = BaseReader(name="t", delta="d", buckets=1, decode=decode)
    (found,) = decoded(base, [(b"\x01\xff", Emitted(b"", None, {}, 5))])
    assert found.quarantined is not None
    assert (found.quarantined.key, found.quarantined.reason) == ("01ff", "no such date")


def test_a_whole_view_keeps_its_rows_until_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_whole, "SHOWN_MAX", 2)
    rows = [Shown(key=(n,), before=None, now=(n,)) for n in range(2)]
    whole = Whole()
    whole.add(2, rows)
    assert (whole.count, whole.shown) == (2, rows)
    refused = Shown(key=(3,), before=None, now=(3,), refused="why")
    whole.add(1, [Shown(key=(2,), before=None, now=(2,)), refused])
    assert (whole.count, whole.shown) == (3, [refused])
    assert SHOWN_MAX > 2


def test_what_bags_remember_is_bounded_and_only_says_what_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_cells, "GUESSES_KEPT", 2)
    bags, state = KeptBags(), State(rows={}, keys=set(), prefixes=set(), everything=True)
    for number, remembered in enumerate((1, 2, 0, 1)):
        root, rows = framed(b"%d" % number), {pack((n,)): 1 for n in range(20)}
        bags.want(state, {root: rows})
        assert sorted(bags.carry(state, root, rows)) == sorted((row, 1) for row in rows)
        assert bags.rows(state, root) == rows
        assert len(bags._guesses) == remembered


class TestSnapshotsOfAPipelineThatGoesOn:
    def reader(self) -> tuple[World, SnapshotReader]:
        world = World(next(case for case in CASES if case.name == "by_city"), random.Random(2))
        for _ in range(12):
            world.write()
        world.epoch()
        (publication,) = world.program.publications
        return world, SnapshotReader(publication, world.program.zones, world.program.tables)

    def test_undisturbed_it_is_the_view(self) -> None:
        world, reader = self.reader()
        assert len(drive(reader.read(), world.door)) >= len(world.shown()) > 0
        for same in (reader.rows(1), reader.read(reread=False)):
            assert repr(drive(same, world.door)) == repr(drive(reader.read(), world.door))

    @pytest.mark.parametrize("epochs", [1, 2])
    def test_a_commit_under_the_reader_is_no_snapshot(self, epochs: int) -> None:
        """Told by the control row read again; by a row two epochs on, even before that."""
        world, reader = self.reader()
        rounds = []

        def door(requests: list[Any]) -> list[Any]:
            answers = world.door(requests)
            for _ in range(0 if rounds else epochs):
                for _ in range(30):
                    world.write()
                world.epoch()
            rounds.append(requests)
            return list(answers)

        assert drive(reader.read(), door) is None
        buckets = world.program.zones[0].zone.buckets
        assert len(rounds) == 1 + buckets + 1 if epochs == 1 else len(rounds) < 1 + buckets + 1

    def test_who_reads_without_looking_again_takes_what_is_found(self) -> None:
        """Rule H20 off: a commit under the reader goes unnoticed; rows two epochs on are what they are."""
        world, reader = self.reader()
        rounds = []

        def door(requests: list[Any]) -> list[Any]:
            answers = world.door(requests)
            if not rounds:
                for _ in range(30):
                    world.write()
                world.epoch()
            rounds.append(requests)
            return list(answers)

        assert drive(reader.read(reread=False), door) is not None
        assert len(rounds) == 1 + world.program.zones[0].zone.buckets
        for _ in range(30):
            world.write()
        world.epoch()
        with pytest.raises(MovedOnError):
            drive(reader.rows(1), world.door)
        assert drive(reader.rows(1, strict=False), world.door)
