"""Each rule of the protocol, off: the hazard it closes appears; on: it does not (PROTOCOL sections 1 and 2)."""

import random
from dataclasses import replace

import pytest

from cvs.model.outcome import APPLIED, Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs import epoch, stage_bucket
from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import (
    PIN_ROW,
    Control,
    Deadline,
    OtherCodeError,
    Pin,
    check_ours,
    commit,
    control_of,
    next_pin,
    pin_next,
    read_control,
    take_over,
)
from cvs.programs.stage_bucket import ALL_RULES, BucketRead, Rules, SetBucket, StateRow, drive
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import Driver, World

COUNTING = next(case for case in CASES if case.name == "by_city")
JOINING = next(case for case in CASES if case.name == "inner_join")


def replayed(rules: Rules) -> bool:
    """Write, run an epoch up to just before its commit, run it again; say whether the view is right."""
    world = World(COUNTING, random.Random(3))
    for _ in range(6):
        world.write()
    control = world.pinned()
    for _ in range(2):
        drive(world.machine(control.pin, rules), world.door)
    drive(commit(control, None), world.door)
    return world.shown() == world.expected()


def test_without_signatures_a_replay_counts_twice() -> None:
    """Signatures off: the replayed epoch is absorbed again (paper 001, example 2)."""
    assert not replayed(replace(ALL_RULES, signatures=False))
    assert replayed(ALL_RULES)


def zombie(rules: Rules) -> bool:
    """A driver sleeps before its first test-and-set; two epochs later it wakes; say whether the view is right."""
    for seed in range(6):
        world = World(COUNTING, random.Random(seed))
        for _ in range(4):
            world.write()
        control = world.pinned()
        sleeper = Driver.start(world, world.machine(control.pin, rules))
        while not isinstance(sleeper.requests[0], SetBucket | stage_bucket.ReadBucket):
            sleeper.step()
        for _ in range(2):
            drive(world.machine(world.pinned().pin, rules), world.door)
            drive(commit(world.pinned(), None), world.door)
            for _ in range(3):
                world.write()
        world.epoch()
        try:
            sleeper.finish()
        except AssertionError:
            return False  # it computed from a state that cannot be
        world.write()
        try:
            world.epoch()
        except (AssertionError, StaleDriverError):
            return False
        if world.shown() != world.expected():
            return False
    return True


def test_a_driver_that_meets_a_newer_bucket_must_stop() -> None:
    """H2: with the stop rule off a zombie goes on from a newer state and the view is wrong."""
    assert not zombie(replace(ALL_RULES, stop_when_newer=False))
    assert zombie(ALL_RULES)


@pytest.mark.parametrize("rule", ["last_chunk_decides", "as_of_before"])
def test_chunks_of_one_epoch_are_not_the_whole_of_it(rule: str) -> None:
    """H7, H11: a crash between two chunks; the next driver must write the rest, from the state before."""
    small = replace(ALL_RULES, rows_a_statement=1)

    def right(rules: Rules) -> bool:
        for seed in range(4):
            world = World(COUNTING, random.Random(seed))
            for _ in range(12):
                world.write()
            control = world.pinned()
            driver = Driver.start(world, world.machine(control.pin, rules))
            sets = 0
            while sets < 3 and not driver.done:
                sets += isinstance(driver.requests[len(driver.answers)], SetBucket)
                driver.step()
            try:
                drive(world.machine(control.pin, rules), world.door)
            except (AssertionError, StaleDriverError):
                return False
            drive(commit(control, None), world.door)
            if world.shown() != world.expected():
                return False
        return True

    assert right(small)
    assert not right(replace(small, **{rule: False}))


class LosesAnswers:
    """A door that carries test-and-sets out, or does not, and says it does not know."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world, self.chance = world, chance

    def __call__(self, requests: list[object]) -> list[object]:
        return [self.answer(request) for request in requests]

    def answer(self, request: object) -> object:
        if isinstance(request, SetBucket) and self.chance.random() < 0.4:
            if self.chance.random() < 0.5:
                self.world.door.answer(request)
            return Outcome(kind=OutcomeKind.UNKNOWN)
        return self.world.door.answer(request)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(2))
def test_unknown_outcomes_are_resolved_by_reading(seed: int) -> None:
    """H10: of every test-and-set, the control row's too, the answer may be lost."""
    world = World(JOINING, random.Random(seed))
    door = LosesAnswers(world, random.Random(seed))
    for _ in range(10):
        for _ in range(3):
            world.write()
        control = drive(read_control(), door)
        if not control.pinned:
            control = drive(pin_next(control, world.next_pin(control)), door)
        drive(world.machine(control.pin), door)
        after = drive(commit(control, None), door)
        assert after.committed == control.pin.epoch
        assert world.shown() == world.expected()


def test_of_two_pins_of_one_epoch_the_first_stands() -> None:
    """H4: a driver that pins late runs the pin that stands, not its own."""
    world = World(COUNTING, random.Random(0))
    control = drive(read_control(), world.door)
    world.write()
    first = drive(pin_next(control, world.next_pin(control)), world.door)
    world.write()
    second = drive(pin_next(control, world.next_pin(control)), world.door)
    assert second.pin == first.pin
    assert second.pin.until == {"s": 1}


def test_commit_and_pin_are_one_step() -> None:
    """A commit that pins the next epoch leaves no moment in between."""
    world = World(COUNTING, random.Random(0))
    world.write()
    control = world.pinned()
    drive(world.machine(control.pin), world.door)
    world.write()
    following = replace_epoch(control, world)
    after = drive(commit(control, following), world.door)
    assert (after.committed, after.pinned, after.pin) == (1, True, following)
    assert drive(commit(control, None), world.door).committed == 1, "an old driver's commit changes nothing"
    assert drive(read_control(), world.door).pin == following


def replace_epoch(control: Control, world: World) -> Pin:
    found = next_pin(control.pin, heads={"s": len(world.feed)}, watermark=0, limit=100)
    assert found is not None
    return found


def test_other_code_may_not_run_a_pinned_epoch() -> None:
    """H4: plan and code hash are pinned; so is the incarnation."""
    world = World(COUNTING, random.Random(0))
    control = drive(read_control(), world.door)
    pinned = drive(pin_next(control, Pin(epoch=1, first=True, plan="a")), world.door)
    check_ours(pinned, incarnation=1, plan="a")
    with pytest.raises(OtherCodeError, match="epoch 1 was begun by another cvs"):
        check_ours(pinned, incarnation=1, plan="b")
    with pytest.raises(StaleDriverError, match="incarnation"):
        check_ours(pinned, incarnation=2, plan="a")


def test_other_code_goes_on_between_two_epochs_if_state_means_the_same_to_it() -> None:
    """An upgrade: what is pinned must be finished by what began it; what rests may be gone on with, or not."""
    world = World(COUNTING, random.Random(0))
    pin = Pin(epoch=1, first=True, plan="a", state="s", version="1.0")
    pinned = drive(pin_next(drive(read_control(), world.door), pin), world.door)
    drive(world.machine(pinned.pin), world.door)
    with pytest.raises(OtherCodeError, match=r"begun by cvs 1\.0 and not finished; cvs 1\.1 may not run it"):
        check_ours(pinned, incarnation=1, plan="b", state="s", version="1.1")
    resting = drive(commit(pinned, None), world.door)
    check_ours(resting, incarnation=1, plan="b", state="s", version="1.1")
    with pytest.raises(OtherCodeError, match=r"made by cvs 1\.0 under another plan") as refusal:
        check_ours(resting, incarnation=1, plan="b", state="t", version="1.1")
    assert "cvs rebuild --all" in refusal.value.next_step


BEFORE_STATE_WAS_NAMED = bytes.fromhex(
    "de0010a5626567756e00a56275696c64a0a5636c6f636bce6553f101ac636c6f636b5f6265666f7265ce6553f100a565"
    "706f636807a56669727374c2ab696e6361726e6174696f6e01a66c696674656481ab762e62795f726567696f6ecf0006"
    "0a24181e4001a4706c616eb030313233343536373839616263646566aa71756172616e74696e6590a573696e636581a6"
    "6e6f64652d6103a773746f7070656480a5756e74696c81a66e6f64652d6109a5766965777381ab762e62795f72656769"
    "6f6ea6706175736564a977617465726d61726bcf00060a2418352360b077617465726d61726b5f6265666f7265cf0006"
    "0a241825e120"
)
"""A pin as the code before wrote it, which knew neither `state` nor `version`."""


def test_a_pin_of_the_format_before_is_gone_on_with() -> None:
    """It says nothing of its state, so nothing is refused; everything else it said is kept."""
    stored = StateRow(now=BEFORE_STATE_WAS_NAMED, epoch=6, alive=True)
    control = control_of(BucketRead(signature=Signature(incarnation=1, version=7), rows={PIN_ROW: stored}))
    pin = control.pin
    assert (pin.epoch, pin.plan, pin.until, pin.views) == (
        7,
        "0123456789abcdef",
        {"node-a": 9},
        {"v.by_region": "paused"},
    )
    check_ours(control, incarnation=1, plan="b", state="s", version="1.1")


def test_nothing_is_sent_after_the_deadline() -> None:
    """H27: a put delayed past gc_grace would resurrect."""
    deadline = Deadline(read_at=10.0, seconds=5.0)
    deadline.check(15.0)
    with pytest.raises(StaleDriverError, match="too late"):
        deadline.check(15.1)


def test_next_pin_takes_what_is_durable_and_never_steps_back() -> None:
    """Positions and clock are monotone; the watermark moves only with everything taken (H13)."""
    last = Pin(epoch=4, until={"a": 10, "b": 3}, clock=100, watermark=100_000_000)
    found = next_pin(last, heads={"a": 15, "b": 3, "c": 2}, watermark=102_000_000, limit=100)
    assert found is not None
    assert (found.epoch, found.since, found.until) == (
        5,
        {"a": 10, "b": 3, "c": 0},
        {"a": 15, "b": 3, "c": 2},
    )
    assert (found.clock_before, found.clock, found.watermark) == (100, 102, 102_000_000)
    limited = next_pin(last, heads={"a": 15, "b": 9}, watermark=102_000_000, limit=6)
    assert limited is not None
    assert limited.until == {"a": 15, "b": 4}
    assert (limited.clock, limited.watermark) == (100, 100_000_000)
    assert next_pin(last, heads={"a": 10, "b": 3}, watermark=99_000_000, limit=9) is None


def test_applied_is_the_only_good_answer() -> None:
    """Refused, unknown and not sent are all read again."""
    assert stage_bucket.applied(APPLIED)
    for kind in (OutcomeKind.REJECTED, OutcomeKind.UNKNOWN, OutcomeKind.NOT_SENT):
        assert not stage_bucket.applied(Outcome(kind=kind))


def test_next_pin_at_its_edges() -> None:
    """A pin says nothing it was not told; one without input follows only where something else has changed."""
    last = Pin(epoch=4, first=True, until={"a": 10}, clock=100, watermark=100_000_000, watermark_before=90)
    assert next_pin(last, heads={"a": 10}, watermark=100_999_999, limit=9) is None, "not a second later"
    always = next_pin(last, heads={"a": 10}, watermark=0, limit=9, always=True)
    assert always is not None
    assert (always.epoch, always.first, always.clock, always.clock_before) == (5, False, 100, 100)
    assert (always.watermark, always.watermark_before) == (100_000_000, 100_000_000)
    lost = next_pin(last, heads={"a": 7}, watermark=101_000_000, limit=9)
    assert lost is not None
    assert (lost.since, lost.until) == ({"a": 10}, {"a": 10}), "a head that fell back takes nothing"
    silent = next_pin(Pin(epoch=4, until={"a": 0}), heads={}, watermark=3_000_000, limit=9)
    assert silent is not None
    assert (silent.until, silent.clock) == ({"a": 0}, 3), "a stream of which nothing came holds nobody up"
    new = next_pin(Pin(epoch=1), heads={"b": 2}, watermark=0, limit=1)
    assert new == Pin(epoch=2, incarnation=1, since={"b": 0}, until={"b": 1}, clock=0, watermark=0, begun=0)
    assert new.write_time("v") == 2
    assert (new.first, new.clock_before, new.watermark_before) == (False, 0, 0)


@pytest.mark.parametrize(
    ("status", "building", "publishing"), [("building", True, False), ("publishing", False, True)]
)
def test_what_a_pin_says_of_its_views(status: str, building: bool, publishing: bool) -> None:
    pin = Pin(epoch=1, views={"v": status, "w": "live"})
    assert (pin.building, pin.publishing) == (building, publishing)


def test_a_built_incarnation_takes_the_place_of_the_one_that_serves() -> None:
    """In one test-and-set, its next epoch pinned; refused if the other moved since it was read (PROTOCOL section 1)."""
    serving = World(COUNTING, random.Random(0))
    control = drive(read_control(), serving.door)
    built = Control(signature=Signature(incarnation=2, version=9), pin=Pin(epoch=9, incarnation=2), bucket=5)
    pin = Pin(epoch=10, incarnation=2)
    taken = drive(take_over(control, built, pin), serving.door)
    assert (taken.signature.incarnation, taken.committed, taken.pinned, taken.pin) == (2, 9, True, pin)
    assert taken.bucket == control.bucket
    assert drive(read_control(), serving.door) == taken
    assert [row.alive for row in serving.door.rows["control", control.bucket].values()] == [True]
    late = drive(take_over(control, built, Pin(epoch=10, incarnation=2, plan="late")), serving.door)
    assert late == taken, "what stands is returned"
    with pytest.raises(AssertionError, match="epoch 12 cannot follow 9"):
        drive(take_over(taken, built, Pin(epoch=12)), serving.door)


def test_a_control_row_that_never_answers_stops_the_driver() -> None:
    world = World(COUNTING, random.Random(0))
    control = drive(read_control(), world.door)
    sent = []

    def deaf(requests: list[object]) -> list[object]:
        sent.extend(requests)
        return [
            Outcome(kind=OutcomeKind.UNKNOWN) if isinstance(it, SetBucket) else world.door.answer(it)  # type: ignore[arg-type]
            for it in requests
        ]

    with pytest.raises(StaleDriverError, match="did not answer"):
        drive(pin_next(control, Pin(epoch=1)), deaf)
    assert len(sent) == 2 * epoch.ATTEMPTS
    assert all(it.serial and it.everything for it in sent if not isinstance(it, SetBucket))
