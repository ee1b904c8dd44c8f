"""Each epoch leaves the published table equal to the view over the base, whatever happened on the way."""

import random
from typing import Any

import pytest

from cvs.model.keys import KEY_BYTES_MAX
from cvs.programs.delta import Deletion, PartitionImage
from cvs.programs.epoch import Pin, commit, read_control
from cvs.programs.epoch_whole import places, whole_step
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_codec import framed
from cvs.programs.stage_delta import split
from cvs.programs.stage_publish import PutRows
from cvs.programs.stored import StoredPartition, encode_stored
from cvs.simulate.epochs import EpochScenario, EpochWorld
from cvs.simulate.scheduler import replayed_epochs
from cvs.suite.user_views import user_views
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


@EACH
def test_all_of_a_view_from_its_state_is_the_view(case: Case) -> None:
    """How a view that was built is shown for the first time: bucket by bucket, base rows that went left out."""
    world = World(case, random.Random(4))
    for _ in range(6):
        for _ in range(5):
            world.write()
        world.epoch()
    (publication,) = world.program.publications
    asked: list[PutRows] = []

    def door(requests: list[Any]) -> list[Any]:
        asked.extend(it for it in requests if isinstance(it, PutRows))
        return list(world.door(requests))

    pin = drive(read_control(), world.door).pin
    found = places(world.program, publication)
    whole = drive(whole_step(world.program, publication, pin, found), door)
    rows = [row for it in asked for row in it.puts]
    shown = world.door.showing(publication.publication.table)
    assert sorted(map(repr, rows)) == sorted(map(repr, shown.values()))
    assert whole.count == len(rows)
    assert sorted(repr(it.now) for it in whole.shown if not it.refused) == sorted(map(repr, rows))
    assert not any(it.deletes for it in asked)


def test_all_of_a_view_over_clustered_rows_some_of_which_no_table_can_hold() -> None:
    user = user_views(
        "CREATE TABLE b.r (p text, q int, c text, PRIMARY KEY (p, q));"
        "CREATE MATERIALIZED VIEW b.v AS SELECT p, q FROM b.r WHERE q > 0;"
        "CREATE MATERIALIZED VIEW b.w AS SELECT c, COUNT(*) AS n FROM b.r GROUP BY c;"
    )
    long = "x" * (KEY_BYTES_MAX + 1)
    writes = tuple(
        ("b.r", (p, q), {"p": p, "q": q, "c": long if q == 1 else f"{p}{q}"}) for p in "ab" for q in (0, 1, 2)
    )
    scenario = EpochScenario(
        plan=user.plan, writes=(*writes, ("b.r", ("a", 2), None)), drivers=1, copies=False
    )
    world = replayed_epochs(EpochWorld(scenario), ())
    for images in world.door.images.values():  # beside the rows, what a partition has of its own
        for key in list(images):
            images[framed(split(key)[0])] = (
                1,
                encode_stored(StoredPartition(1, PartitionImage(Deletion(0)))),
            )
    refused = {"b.v": [], "b.w": [(long,)]}
    for publication in world.program.publications:
        table = publication.publication.table
        shown = dict(world.door.showing(table))
        found = places(world.program, publication)
        whole = drive(whole_step(world.program, publication, Pin(epoch=99), found), world.door)
        assert (whole.count, world.door.showing(table)) == (len(shown), shown)
        assert whole.count == 3
        assert [it.key for it in whole.shown if it.refused] == refused[table]
