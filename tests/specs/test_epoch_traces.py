"""What drivers of a pipeline ask of storage is a behaviour of the epoch protocol; what a wrong one asks is not."""

import random
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from msgspec.structs import replace as replace_struct

from cvs.embedded.artifacts import jars
from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs import stage_bucket
from cvs.programs.epoch import CONTROL_TABLE, Pin, commit, pin_next, read_control
from cvs.programs.epoch_run import run_epoch
from cvs.programs.stage_bucket import ALL_RULES, ReadBucket, Rules, SetBucket
from cvs.programs.stage_memory import Request
from cvs.programs.stage_publish import Publishing
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import Driver, World

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import epoch_traces

SPECS = Path(__file__).resolve().parents[2] / "specs"
COUNTING = next(case for case in CASES if case.name == "by_city")
JOINING = next(case for case in CASES if case.name == "inner_join")
REVENUE = next(case for case in CASES if case.name == "revenue")
"""Two zones: a join, and groups of what it yields."""

SMALL = replace(ALL_RULES, rows_a_statement=1)
"""All rules, and one row a statement, so that changes come in chunks."""


@dataclass(slots=True)
class Loses:
    """A door that loses answers of test-and-sets: carried out, never, or later, when others have gone on."""

    door: Any
    chance: random.Random
    losses: float
    waiting: list[Any] = field(default_factory=list)

    def __call__(self, requests: list[Any]) -> list[Any]:
        return [self.answer(request) for request in requests]

    def answer(self, request: Any) -> Any:
        if self.waiting and self.chance.random() < 0.1:
            self.door([self.waiting.pop(0)])
        if not isinstance(request, SetBucket) or self.chance.random() >= self.losses:
            return self.door([request])[0]
        if (fate := self.chance.randrange(3)) == 0:
            self.door([request])
        elif fate == 1:
            self.waiting.append(request)
        return Outcome(kind=OutcomeKind.UNKNOWN)


def life(world: World, rules: Rules, epochs: int) -> Any:
    """One driver: takes the pin that stands (or pins), runs the epoch, commits it, and pins the next with it."""
    control = yield from read_control()
    if not control.pinned:
        control = yield from pin_next(control, world.next_pin(control))
    for left in reversed(range(epochs)):
        if not control.pinned:
            return
        pin = control.pin
        yield from run_epoch(world.program, pin, world.changes(pin), rules=rules)
        until = {"s": len(world.feed)}
        after = Pin(epoch=pin.epoch + 1, since=pin.until, until=until) if left else None
        control = yield from commit(control, after)
        if control.committed != pin.epoch:
            return  # because another driver went on


def keys_of(world: World) -> dict[str, tuple[int, ...]]:
    found = {}
    for publication in world.program.publications:
        names = [name for name, _ in publication.publication.columns]
        found[publication.publication.table] = tuple(map(names.index, publication.publication.key))
    return found


def recorded(
    case: Any,
    seed: int,
    *,
    lives: int = 12,
    losses: float = 0.15,
    world: Any = None,
    program: Any = None,
) -> epoch_traces.Log:
    """Let drivers come, sleep, die and wake over one pipeline; note what each asks."""
    chance = random.Random(seed)
    world = world or World(case, chance)
    log = epoch_traces.Log(keys=keys_of(world), program=program or world.program)
    door = Loses(world.door, chance, losses)
    sleeping: list[Driver] = []
    for number in range(lives):
        for _ in range(chance.randrange(4)):
            world.write()
        sleeping.append(started(world, ALL_RULES, log.driver(f"d{number}", door), epochs=2))
        for driver in chance.sample(sleeping, min(2, len(sleeping))):
            patience = chance.choice((2, 5, 9, 400))
            while patience and stepped(driver):
                patience -= 1
    for driver in sleeping:  # zombies wake, in any order
        while stepped(driver):
            pass
    return log


def started(world: World, rules: Rules, door: Any, epochs: int = 1) -> Driver:
    return Driver.start(SimpleNamespace(door=door), life(world, rules, epochs))


def stepped(driver: Driver) -> bool:
    """Take one step; a driver that finds what cannot be is as dead as one that was killed."""
    try:
        return driver.step()
    except AssertionError:
        driver.stopped = True
        return False


def matched(log: epoch_traces.Log) -> Any:
    return epoch_traces.matched(jars("tlc")[0], log)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "seed"), [(COUNTING, 1), (COUNTING, 2), (JOINING, 3), (REVENUE, 5)])
def test_runs_with_zombies_and_lost_answers_are_behaviours_of_the_protocol(case: Any, seed: int) -> None:
    """Every request of every driver is a step the spec allows where it stands."""
    log = recorded(case, seed)
    found = matched(log)
    assert found.accepted, str(found)
    assert found.steps > 100
    assert sum('"unknown"' in step for step in log.steps) > 0


@pytest.mark.slow
def test_a_change_in_several_statements_is_one_too() -> None:
    """Chunks: only the last one makes the epoch whole (H7)."""
    log = resumed(COUNTING, 0)
    found = matched(log)
    assert found.accepted, str(found)
    assert any("FALSE>>, puts" in step for step in log.steps), "no statement was split"


def resumed(case: Any, seed: int) -> epoch_traces.Log:
    """A driver dies after three statements of an epoch of many; another goes on with it."""
    world = World(case, random.Random(seed))
    for _ in range(12):
        world.write()
    log = epoch_traces.Log(keys=keys_of(world))
    first, second = (started(world, SMALL, log.driver(name, world.door)) for name in ("d0", "d1"))
    while sum(f'place |-> "state_z0/{n}", operation' in step for step in log.steps for n in (0, 1)) < 3:
        assert stepped(first)
    while stepped(second):
        pass
    return log


def overtaken(case: Any, rules: Rules, *, epochs: int) -> epoch_traces.Log:
    """A driver falls asleep before it reads a bucket, others commit its epoch (and the next), and it wakes up."""
    world = World(case, random.Random(1))
    log = epoch_traces.Log(keys=keys_of(world), program=world.program)
    for _ in range(8):
        world.write()
    slow = started(world, rules, log.driver("slow", world.door))
    while not slow.requests[len(slow.answers)].table.startswith("state_"):
        assert stepped(slow)
    for number in range(epochs):
        other = started(world, rules, log.driver(f"d{number}", world.door))
        while stepped(other):
            pass
        for _ in range(8):
            world.write()
    while stepped(slow):
        pass
    return log


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "epochs"), [("signatures", 1), ("stop_when_newer", 2)])
def test_a_program_without_a_rule_is_refused(rule: str, epochs: int) -> None:
    """With the rule off, a driver that was overtaken writes where the spec lets it read alone; with all on, it fits."""
    assert matched(overtaken(COUNTING, ALL_RULES, epochs=epochs)).accepted
    found = matched(overtaken(COUNTING, replace(ALL_RULES, **{rule: False}), epochs=epochs))
    assert not found.accepted, f"{rule} off, and the run fits the spec"
    assert '"call"' in found.refused
    assert '"slow"' in found.refused


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["commit early", "another put", "write time"])
def test_a_damaged_log_is_refused(damage: str) -> None:
    """A commit before the epoch was run, an image that differs at a replay, a put at another epoch."""
    log = recorded(COUNTING, 1)
    if damage == "commit early":
        first = next(i for i, step in enumerate(log.steps) if '"put"' in step)
        asks = [i for i, step in enumerate(log.steps) if epoch_traces.CONTROL in step and '"call"' in step]
        control = next(i for i in asks if i > first)
        log.steps.insert(first, log.steps.pop(control))
    else:
        puts = [i for i, step in enumerate(log.steps) if '"put"' in step]
        at = puts[-1]
        old, new = ('"v', '"w') if damage == "another put" else ("time |-> ", "time |-> 9")
        log.steps[at] = log.steps[at].replace(old, new)
        if damage == "another put":
            log.steps.insert(at, log.steps[at].replace('"w', '"v'))
    assert not matched(log).accepted


class Forgetful:
    """A zone that never brings anything to one of its buckets, whoever runs it."""

    def __init__(self, zone: Any, bucket: int) -> None:
        self._zone, self._bucket = zone, bucket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zone, name)

    def route(self, changes: Any, *, first: bool = False) -> Any:
        """Leave the bucket out."""
        routed = self._zone.route(changes, first=first)
        return {bucket: entered for bucket, entered in routed.items() if bucket != self._bucket}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "zone", "bucket"), [(COUNTING, "z0", 0), (REVENUE, "z1", 1)])
def test_drivers_that_all_leave_a_bucket_out_are_refused(case: Any, zone: str, bucket: int) -> None:
    """None does what another did not: only DELTA's images, or what the zones before it hold, tell what is missing."""
    world = World(case, random.Random(4))
    right = world.program
    zones = (Forgetful(it, bucket) if it.name == zone else it for it in right.zones)
    world.program = replace(right, zones=tuple(zones))
    log = recorded(case, 4, world=world, lives=6, losses=0.0, program=right)
    assert any(place == f"state_{zone}/{bucket}" for places in log.must()[0].values() for place in places)
    refused = matched(log)
    assert not refused.accepted, "a bucket was left out by all, and the run fits the spec"
    assert epoch_traces.CONTROL in refused.refused, "it is the commit that is refused"
    log.program = None
    assert matched(log).accepted, "something else is wrong with it"


class Hasty(World):
    """Pins that leave out a change of the feed."""

    def next_pin(self, control: Any) -> Pin:
        pin = super().next_pin(control)
        since = min(pin.since["s"] + 1, pin.until["s"]) if pin.epoch > 1 else 0
        return replace_struct(pin, since={"s": since})


@dataclass(slots=True)
class Trusting:
    """A driver that takes a plain read for a serial one: it never asks for the second."""

    door: Any
    answers: dict[tuple[str, int], Any] = field(default_factory=dict)

    def __call__(self, requests: list[Any]) -> list[Any]:
        asked = [it for it in requests if not self._known(it)]
        found = iter(self.door(asked) if asked else ())
        answers = [self.answers[it.table, it.bucket] if self._known(it) else next(found) for it in requests]
        for it, answer in zip(requests, answers, strict=True):
            if isinstance(it, ReadBucket):
                self.answers[it.table, it.bucket] = answer
        return answers

    def _known(self, request: Any) -> bool:
        return (
            isinstance(request, ReadBucket) and request.serial and request.table.startswith("state_")
            and (request.table, request.bucket) in self.answers
        )  # fmt: skip


def replayed(
    case: Any, *, hasty: bool = False, trusting: bool = False, silent: bool = False
) -> epoch_traces.Log:
    """Drivers one after the other, every second one killed before it commits: its epoch is run again by the next."""
    world = (Hasty if hasty else World)(case, random.Random(6))
    right = world.program
    if silent:
        world.program = replace(right, publications=(), publishing=Publishing((), right.plan))
    log = epoch_traces.Log(keys=keys_of(World(case, random.Random(6))), program=right)
    for number in range(8):
        for _ in range(4):
            world.write()
        door = log.driver(f"d{number}", world.door)
        driver = started(world, ALL_RULES, Trusting(door) if trusting else door)
        while stepped(driver):
            published = any('"rows"' in step for step in log.steps[-2:])
            if number % 2 == 0 and published and _asks_for_commit(driver):
                break
    return log


def _asks_for_commit(driver: Driver) -> bool:
    waits = driver.requests[len(driver.answers) :]
    return bool(waits) and isinstance(waits[0], SetBucket) and waits[0].table == CONTROL_TABLE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "refused"), [("hasty", "since"), ("trusting", '"rows"'), ("silent", epoch_traces.CONTROL)]
)
def test_a_program_that_skips_input_a_serial_read_or_publishing_is_refused(wrong: str, refused: str) -> None:
    """None of them contradicts another driver: what was pinned before, how it was read and the plan tell of it."""
    assert matched(replayed(REVENUE)).accepted
    found = matched(replayed(REVENUE, **{wrong: True}))
    assert not found.accepted, f"a program that is {wrong} fits the spec"
    assert refused in found.refused


@pytest.mark.slow
def test_statements_that_are_not_counted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """H7: chunks of one epoch under one signature cannot tell a late statement from the next."""

    def uncounted(**scalars: Any) -> Signature:
        return Signature(**scalars | {"chunk": 0})

    monkeypatch.setattr(stage_bucket, "Signature", uncounted)
    found = matched(resumed(COUNTING, 0))
    assert not found.accepted
    assert '"call"' in found.refused


def actions_of(module: str) -> set[str]:
    """Read the actions of a spec out of its Step and Next."""
    text = (SPECS / f"{module}.tla").read_text()
    steps = re.search(r"^Step\(d\) ==.*?^Spec ==", text, re.DOTALL | re.MULTILINE)
    assert steps is not None
    return set(re.findall(r"\b([A-Z]\w+)(?=\(| \\/)", steps.group())) - {"Step"}


def test_every_action_of_the_spec_has_an_event_and_every_event_an_action() -> None:
    """The table on top of `EpochTrace.tla`, the actions of `Epoch`, and the requests a door knows."""
    text = (SPECS / "EpochTrace.tla").read_text()
    rows = re.findall(r"^\(\*   (\S.{21}) (.{40}) .*\*\)$", text, re.MULTILINE)
    named = {action.strip(): events.strip() for action, events in rows if action[0].isupper()}
    actions = {action for several in named for action in several.split(", ")}
    assert actions == actions_of("Epoch")
    kinds = {kind for kinds in epoch_traces.EVENTS.values() for kind in kinds}
    events = {kind for words in named.values() for kind in words.split(" of ")[0].split(", ")}
    assert {event for event in events if not event.startswith("none: ")} == kinds
    assert set(epoch_traces.EVENTS) == set(get_args(Request))
