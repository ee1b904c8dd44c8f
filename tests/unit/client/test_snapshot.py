"""A snapshot is the view of one committed epoch, taken while the next is being written; or there is none."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from cvs.client import snapshot
from cvs.client.snapshot import Token, ViewReader
from cvs.errors import SpecificationError, StoreError
from cvs.programs.epoch import BUILDING, CONTROL_TABLE, Pin, commit, next_pin, pin_next, read_control
from cvs.programs.stage_bucket import drive, encode_state
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import Case, Driver, World, as_shown

WITH_STATE = [case for case in CASES if case.plan.zones]


class Session:
    """Answers the reader's two statements from a world's door; `between` happens before each answer."""

    def __init__(self, world: World, between: Callable[[], None] = lambda: None) -> None:
        self.world, self.between = world, between
        self.rows_read = 0

    def execute(self, text: str, values: tuple[Any, ...], *, serial: bool = False) -> list[tuple[Any, ...]]:
        self.between()
        table = text.split(" FROM ")[1].split(" ")[0].split(".")[1]
        place = (table.removesuffix("_1") if table != CONTROL_TABLE else table, values[0])
        rows = self.world.door.rows.get(place, {})
        if place[0] == CONTROL_TABLE:
            scalars = self.world.door.signatures[place].scalars
            return [(*scalars, key, encode_state(row)) for key, row in rows.items()]
        inside = [(k, r) for k, r in rows.items() if len(values) == 1 or values[1] <= k < values[2]]
        self.rows_read += len(inside)
        return [(k, encode_state(r)) for k, r in inside]


def reader(world: World, between: Callable[[], None] = lambda: None) -> ViewReader:
    return ViewReader(Session(world, between), keyspace="cvs", plan_of=lambda _: world.case.plan)  # type: ignore[arg-type]


def shown(world: World, rows: Any) -> dict[Any, Any]:
    (publication,) = world.case.plan.publications
    return as_shown(publication, rows.values())


@pytest.mark.parametrize("case", WITH_STATE, ids=lambda case: case.name)
def test_a_snapshot_in_mid_epoch_is_the_committed_view(case: Case) -> None:
    """After every request of a running epoch, the snapshot still is the view of the epoch before."""
    world = World(case, random.Random(2))
    for _ in range(3):
        for _ in range(6):
            world.write()
        world.epoch()
        before = world.expected()
        for _ in range(4):
            world.write()
        control = world.pinned()
        driver = Driver.start(world, world.machine(control.pin))
        while driver.step():
            found = reader(world).scan(case.view.name)
            assert (found.epoch, shown(world, found.rows)) == (control.committed, before)
        drive(commit(control, None), world.door)
        assert shown(world, reader(world).scan(case.view.name).rows) == world.expected()


@pytest.mark.parametrize("case", WITH_STATE, ids=lambda case: case.name)
def test_one_row_read_by_key_is_the_row_of_the_whole_snapshot(case: Case) -> None:
    """A key finds its row, also where it says too little of where the row's state stands."""
    world = World(case, random.Random(3))
    for _ in range(3):
        for _ in range(8):
            world.write()
        world.epoch()
    whole = reader(world).scan(case.view.name).rows
    assert repr({key: reader(world).read(case.view.name, *key) for key in whole}) == repr(dict(whole))


def test_one_group_is_read_without_its_neighbours() -> None:
    """The key of a grouped view says where its row stands: one row of state is read, not the view."""
    case = next(case for case in CASES if case.name == "by_city")
    world = World(case, random.Random(3))
    for _ in range(40):
        world.write()
    world.epoch()
    views = reader(world)
    key = next(iter(views.scan(case.view.name).rows))
    session: Any = views._session
    session.rows_read = 0
    assert views.read(case.view.name, *key) is not None
    assert session.rows_read == 1
    assert views.read(case.view.name, "nowhere") is None
    with pytest.raises(SpecificationError, match="values for the key"):
        views.read(case.view.name)


def test_a_slow_reader_gets_no_torn_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """H20, H21: epochs pass between two reads of a slow reader; it starts again, and gives up rather than lie."""
    monkeypatch.setattr(snapshot, "PAUSE_SECONDS", 0.0)
    case = next(case for case in CASES if case.name == "by_product_city")
    world = World(case, random.Random(4))
    for _ in range(10):
        world.write()
    world.epoch()
    passing = [7]

    def go_on() -> None:
        if passing[0]:
            passing[0] -= 1
            for _ in range(3):
                world.write()
            world.epoch()

    found = reader(world, go_on).scan(case.view.name)
    assert shown(world, found.rows) == world.expected()
    passing[0] = 1_000
    with pytest.raises(StoreError, match="no snapshot"):
        reader(world, go_on).scan(case.view.name, attempts=3)


def test_a_token_is_met_when_the_watermark_passes_it() -> None:
    """The pinned epoch's own watermark does not count before its commit."""
    world = World(CASES[0], random.Random(0))
    world.write()
    control = drive(read_control(), world.door)
    pin = next_pin(control.pin, heads={"s": 1}, watermark=5_000_000, limit=10)
    assert pin is not None
    control = drive(pin_next(control, pin), world.door)
    token = Token("cvs", 4_000_000)
    with pytest.raises(StoreError, match="behind the token"):
        reader(world).wait(token, seconds=0.0)
    drive(commit(control, None), world.door)
    assert reader(world).wait(token, seconds=0.0) == 1
    assert reader(world).token(skew_seconds=1.0, clock=lambda: 2.0) == Token("cvs", 3_000_000)


def test_a_view_that_is_built_shows_nothing() -> None:
    """Its state is a part of the base tables, no cut of them: refused, not shown."""
    case = next(case for case in CASES if case.name == "by_product_city")
    world = World(case, random.Random(4))
    world.write()
    control = drive(read_control(), world.door)
    pin = next_pin(Pin(epoch=0, views={case.view.name: BUILDING}), heads={"s": 1}, watermark=0, limit=10)
    assert pin is not None
    drive(pin_next(control, pin), world.door)
    with pytest.raises(StoreError, match="is being built"):
        reader(world).scan(case.view.name)


def test_views_without_state_say_so() -> None:
    """A one-to-one view has no state to take a snapshot of; an unknown view is named with those there are."""
    world = World(next(case for case in CASES if case.name == "selected"), random.Random(0))
    world.write()
    world.epoch()
    with pytest.raises(SpecificationError, match="one row a base row"):
        reader(world).scan("selected")
    with pytest.raises(SpecificationError, match="keeps no view other"):
        reader(world).scan("other")
