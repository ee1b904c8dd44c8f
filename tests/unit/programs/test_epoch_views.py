"""Each epoch leaves the published table equal to the view over the base, whatever happened on the way."""

import random

import pytest

from cvs.programs.epoch import commit, read_control
from cvs.programs.stage_bucket import drive
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import Case, Driver, World

EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@EACH
def test_an_epoch_shows_the_view_of_the_base(case: Case) -> None:
    """Undisturbed: after every epoch the published rows are the recomputed ones."""
    world = World(case, random.Random(1))
    for _ in range(10):
        for _ in range(world.chance.randrange(6)):
            world.write()
        world.epoch()
        assert world.shown() == world.expected()


@EACH
@pytest.mark.parametrize("seed", range(2))
def test_crashes_replays_and_zombies_change_nothing(case: Case, seed: int) -> None:
    """Drivers die or sleep at any request; another runs the same pin; sleepers wake whenever they like."""
    world = World(case, random.Random(seed))
    sleepers: list[Driver] = []
    for _ in range(8):
        for _ in range(world.chance.randrange(5)):
            world.write()
        control = world.pinned()
        while True:
            driver = Driver.start(world, world.machine(control.pin))
            for _ in range(world.chance.choice((0, 1, 2, 3, 5, 10_000))):
                if sleepers and world.chance.random() < 0.2:
                    world.chance.choice(sleepers).step()
                if not driver.step():
                    break
            if driver.done:
                break
            assert not driver.stopped, "only a driver that was overtaken may stop"
            sleepers.append(driver)
        drive(commit(control, None), world.door)
        for sleeper in sleepers:
            if world.chance.random() < 0.3:
                sleeper.finish()
        assert world.shown() == world.expected()
    for sleeper in sleepers:
        sleeper.finish()
    assert world.shown() == world.expected()


def test_two_drivers_interleaved_leave_one_result() -> None:
    """Two drivers of one pin, request by request in any order; both commit; the epoch is committed once."""
    for seed in range(5):
        world = World(CASES[-1], random.Random(seed))
        for _ in range(8):
            world.write()
            world.write()
            control = world.pinned()
            drivers = [Driver.start(world, world.machine(control.pin)) for _ in range(2)]
            while not all(driver.done or driver.stopped for driver in drivers):
                world.chance.choice(drivers).step()
            assert all(driver.done for driver in drivers)
            first = drive(commit(control, None), world.door)
            second = drive(commit(control, None), world.door)
            assert first.committed == second.committed == control.committed + 1
            assert drive(read_control(), world.door).committed == control.committed + 1
            assert world.shown() == world.expected()
