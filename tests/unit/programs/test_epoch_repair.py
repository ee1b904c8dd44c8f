"""H29 and its heal: rows of a published table that others changed or deleted, with write times above all of ours."""

import random
from typing import Any

import pytest
from msgspec import structs

from cvs.programs.epoch import PUBLISHING, commit, pin_next, read_control
from cvs.programs.epoch_whole import places, whole_step
from cvs.programs.stage_bucket import drive
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import Case, World

FOREIGN = 10**9


def damaged(case: Case) -> World:
    """Some epochs; then every shown row is deleted, or takes on another's values, at a wall-clock time."""
    world = World(case, random.Random(5))
    epochs = 0
    while epochs < 4 or not world.shown():
        for _ in range(6):
            world.write()
        world.epoch()
        epochs += 1
    (publication,) = case.plan.publications
    rows = world.door.published[publication.table]
    alive = [(key, row) for key, (_, row) in sorted(rows.items(), key=repr) if row is not None]
    for number, (key, row) in enumerate(alive):
        rows[key] = (FOREIGN, (*key, *([None] * (len(row) - len(key)))) if number % 2 else None)
    return world


def shown_anew(world: World, lift: int) -> Any:
    """Run one epoch that shows all of the view, lifted, and return its pin."""
    control = drive(read_control(), world.door)
    (program,) = world.program.publications
    view = program.publication.view
    pin = structs.replace(world.next_pin(control), views={view: PUBLISHING}, lifted={view: lift})
    pinned = drive(pin_next(control, pin), world.door)
    drive(world.machine(pin), world.door)
    drive(whole_step(world.program, program, pin, places(world.program, program)), world.door)
    drive(commit(pinned, None), world.door)
    return pin


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_lifted_view_overwrites_what_others_wrote(case: Case) -> None:
    """Without the lift every put stays hidden (H29); with it the view is right, and stays right against a zombie."""
    world = damaged(case)
    shown_anew(world, 0)
    assert world.shown() != world.expected()
    pin = shown_anew(world, FOREIGN)
    assert world.shown() == world.expected()
    before = structs.replace(pin, epoch=pin.epoch - 2, lifted={})
    (program,) = world.program.publications
    drive(whole_step(world.program, program, before, places(world.program, program)), world.door)
    assert world.shown() == world.expected()
