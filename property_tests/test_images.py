"""Images kept between epochs never show: whoever runs, dies or runs in tasks, views are those of the base (H8)."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import commit
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_images import RememberedImages
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import World

NAMES = ("by_city", "left_join", "revenue")
ROUNDS = st.integers(1, 6)
DRIVERS = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3)),
    st.tuples(st.just("run"), DRIVERS),
    st.tuples(st.just("run"), DRIVERS),
    st.tuples(st.just("tasks"), DRIVERS),
    st.tuples(st.just("die"), DRIVERS, ROUNDS),
)


class NeverForgets(RememberedImages):
    """Keeps images over other drivers' epochs."""

    def begin(self, epoch: int) -> None:
        """Forget nothing."""


class TrustsHalves(RememberedImages):
    """Takes an epoch that ended half-way here for one that ran."""

    def begin(self, epoch: int) -> None:
        """Believe that this epoch will end here."""
        super().begin(epoch)
        self.finished(epoch)


class ForgetsNoTasks(RememberedImages):
    """Takes epochs in tasks for its own."""

    def forget(self) -> None:
        """Take the epoch that ran elsewhere for one of ours."""
        self._as_of += 1


def followed(name: str, steps: Any, kind: type[RememberedImages] = RememberedImages, **bounds: int) -> int:
    """Drive a world through steps; return how many images were found in memory, -1 where a view is wrong."""
    world = World(next(case for case in CASES if case.name == name), random.Random(7))
    doors = [kind(world.door, **bounds) for _ in range(2)]
    try:
        for step, which, *more in [*steps, ("run", 0), ("run", 1)]:
            if step == "write":
                for _ in range(which):
                    world.write()
                continue
            if not _epoch(world, doors[which], step, *more):
                return -1
    except (StaleDriverError, AssertionError):  # a stage found what cannot be
        return -1
    return sum(door.found for door in doors)


def _epoch(world: World, door: RememberedImages, step: str, rounds: int = 0) -> bool:
    control = world.pinned()
    machine, epoch = world.machine(control.pin), control.pin.epoch
    if step == "tasks":
        door.forget()
        drive(machine, world.door)
    else:
        door.begin(epoch)
    if step == "die":
        try:
            requests = next(machine)
            for _ in range(rounds):
                requests = machine.send(door(requests))
        except StopIteration:
            pass
        return True
    if step == "run":
        drive(machine, door)
        door.finished(epoch)
    drive(commit(control, None), world.door)
    behind = control.pin.until["s"] < len(
        world.feed
    )  # because an epoch that died was pinned before the last writes
    return behind or world.shown() == world.expected()


@pytest.mark.parametrize("name", NAMES)
@given(steps=st.lists(STEPS, max_size=25), kept=st.sampled_from([0, 200, 10**6]))
def test_views_are_those_of_the_base_whatever_is_kept(name: str, steps: Any, kept: int) -> None:
    assert followed(name, steps, bytes_kept=kept) >= 0


def test_what_was_put_is_not_read_again() -> None:
    steps = [("write", 3), ("run", 0)] * 20
    assert followed("by_city", steps) > 20
    assert followed("by_city", steps, bytes_kept=0) == 0


@pytest.mark.parametrize(
    ("wrong", "steps"),
    [
        (NeverForgets, [("run", 0), ("write", 3), ("run", 1), ("write", 3)]),
        (TrustsHalves, [("run", 0), ("write", 3), ("die", 0, 1), ("run", 1), ("write", 3)]),
        (ForgetsNoTasks, [("run", 0), ("write", 3), ("tasks", 0), ("write", 3)]),
    ],
)
def test_a_wrong_memory_shows(wrong: type[RememberedImages], steps: Any) -> None:
    """Each rule is needed: without it some view is wrong."""
    again = [("write", 8), *steps * 10]
    assert followed("by_city", again) >= 0
    assert -1 in {followed(name, again, wrong) for name in NAMES}
