"""Incarnations in memory: views are built, shown when complete, and give way to newer ones; what breaks is said."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from cvs.capture.changes import Cell, Change, Column, ColumnKind, Kind, Liveness, TableDefinition
from cvs.capture.feed import Source
from cvs.capture.folder import FolderFeed
from cvs.errors import HistoryError
from cvs.model.cql_bytes import encode_cql
from cvs.model.signature import Signature
from cvs.model.views import BaseTable
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from cvs.programs.delta import ASSUMED, StaleDriverError
from cvs.programs.epoch import (
    BROKEN,
    BUILDING,
    CONTROL_TABLE,
    EPOCHS_A_LIFE,
    PIN_ROW,
    Control,
    OtherCodeError,
    Pin,
    encode_pin,
    pin_next,
)
from cvs.programs.epoch_run import Quarantined
from cvs.programs.stage_bucket import StateRow, drive
from cvs.programs.stage_memory import MemoryDoor
from cvs.store.session import ClusterAddress
from cvs.stream import pipeline as module
from cvs.stream import portion as portion_module
from cvs.stream import recipe as recipes
from cvs.stream.bases import base_table
from cvs.stream.build import ALWAYS, PREFIX
from cvs.stream.phases import Wishes
from cvs.stream.pipeline import Pipeline
from cvs.stream.recipe import Recipe
from cvs.stream.succession import Succession
from cvs.stream.tables import Names

ORDERS = TableDefinition(
    id="1",
    keyspace="shop",
    name="orders",
    columns=(
        Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),
        Column(name="city", type="text", kind=ColumnKind.REGULAR),
        Column(name="total", type="int", kind=ColumnKind.REGULAR),
    ),
)
TABLES: dict[str, BaseTable] = {"shop.orders": base_table(ORDERS)}
BY_CITY = (
    "CREATE MATERIALIZED VIEW shop.by_city AS SELECT city, SUM(total) AS t FROM shop.orders GROUP BY city;"
)
COPY = (
    "CREATE MATERIALIZED VIEW shop.copy TBLPROPERTIES ('cvs.key' = '(city), id')"
    " AS SELECT id, city FROM shop.orders;"
)


class World:
    """A feed with one node, and storage in memory."""

    def __init__(self, folder: Path) -> None:
        self.feed = FolderFeed(folder)
        self.reference = self.feed.define(ORDERS)
        self.door = MemoryDoor(keys={"shop.by_city": (0,), "shop.copy": (1, 0)})
        self.time = 0
        self.now = 0.0
        self.beat()

    def beat(self) -> None:
        """Move the node's clock."""
        self.time += 1_000_000
        self.feed.append("node", [], source=Source(), clock=self.time)

    def change(self, order: int, city: str, total: int, *, at: int, liveness: int) -> Change:
        cells = (Cell("city", city.encode(), at), Cell("total", encode_cql("int", total), at))
        key = encode_cql("int", order)
        assert key is not None
        return Change(Kind.ROW, self.reference, key=key, liveness=Liveness(liveness), cells=cells)

    def write(self, order: int, city: str, total: int) -> None:
        """Write an order, captured."""
        self.time += 1_000_000
        found = self.change(order, city, total, at=self.time, liveness=self.time)
        self.feed.append("node", [found], source=Source(), clock=self.time)

    def scan(self, stream: str, rows: dict[int, tuple[str, int]], *, at: int, done: bool) -> None:
        """Append what a scan read."""
        found = [self.change(order, *row, at=at, liveness=ASSUMED) for order, row in rows.items()]
        self.feed.append(stream, found, source=Source(2 if done else 1, 5), clock=ALWAYS)

    def pipeline(self, sql: str, incarnation: int) -> Pipeline:
        """Apply views and make their pipeline."""
        names = Names(keyspace="cvs", incarnation=incarnation)
        plan = maintenance_plan(parse_views(sql, TABLES), TABLES, Choices(buckets=2))
        stream, before = f"{PREFIX}{incarnation}", names.epoch_before
        views = {publication.view: BUILDING for publication in plan.publications}
        pin = Pin(epoch=before, incarnation=incarnation, build=stream, views=views)
        place = (CONTROL_TABLE, names.building_bucket)
        self.door.signatures[place] = Signature(incarnation=incarnation, version=before)
        self.door.rows[place] = {PIN_ROW: StateRow(now=encode_pin(pin), epoch=before, alive=True)}
        for zone in plan.zones:
            for bucket in range(2):
                self.door.signatures[names.state(zone.name), bucket] = Signature(incarnation=incarnation)
        address = ClusterAddress(contact_points=("127.0.0.1",))
        hosts = SimpleNamespace(all_hosts=lambda: [SimpleNamespace(datacenter="")], keyspaces={})
        session = SimpleNamespace(
            address=address, driver=SimpleNamespace(cluster=SimpleNamespace(metadata=hosts))
        )
        recipe = Recipe(plan=plan, definitions={"shop.orders": ORDERS}, names=names, address=address)
        made = Pipeline(recipe=recipe, feed=self.feed, session=session, monotonic=self.clock)  # type: ignore[arg-type]
        made.door = self.door  # type: ignore[assignment]
        return made

    def clock(self) -> float:
        """Every look at the clock is ten seconds after the last: no epoch waits for its heartbeat."""
        self.now += 10.0
        return self.now


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    retired: list[Any] = []
    monkeypatch.setattr(module, "renew_published", lambda _session, _publication: None)
    monkeypatch.setattr(module, "retire_rows", lambda *_, before: retired.append(before))
    world = World(tmp_path / "feed")
    world.retired = retired  # type: ignore[attr-defined]
    return world


def live(world: World) -> Pipeline:
    """Return a pipeline that shows the one order it was built from."""
    pipeline = world.pipeline(BY_CITY, 1)
    pipeline.step()
    world.beat()
    pipeline.step()
    world.scan(f"{PREFIX}1", {1: ("Graz", 5)}, at=1, done=True)
    pipeline.drain(seconds=1e9)
    assert world.door.showing("shop.by_city") == {("Graz",): ("Graz", 5)}
    return pipeline


def test_a_view_is_shown_when_all_of_its_base_is_in(world: World) -> None:
    """Captured and scanned rows meet in any order; nothing is shown, and no moment claimed, before the scan is done."""
    pipeline = world.pipeline(BY_CITY, 1)
    assert pipeline.step() is None, "the capture did not confirm that it runs"
    assert pipeline.scan_ahead() is None, "the scan began before its start was pinned"
    world.beat()
    assert pipeline.step() is not None
    assert pipeline.scan_ahead() == 0
    world.write(1, "Graz", 5)
    world.scan(f"{PREFIX}1", {1: ("Linz", 9), 2: ("Linz", 7)}, at=1, done=False)
    pipeline.drain(seconds=1e9)
    assert pipeline.control is not None
    assert (world.door.showing("shop.by_city"), pipeline.control.committed_watermark) == ({}, 0)
    world.scan(f"{PREFIX}1", {3: ("Wien", 1)}, at=1, done=True)
    pipeline.drain(seconds=1e9)
    assert world.door.showing("shop.by_city") == {
        ("Graz",): ("Graz", 5),
        ("Linz",): ("Linz", 7),
        ("Wien",): ("Wien", 1),
    }
    assert pipeline.control.committed_watermark == world.time


def test_an_epoch_takes_fewer_changes_where_they_are_large(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So memory is bounded by bytes too: a backlog of documents is taken in small epochs, one of numbers in one."""
    monkeypatch.setattr(portion_module, "BYTES_AN_EPOCH", 500_000)
    monkeypatch.setattr(portion_module, "WEIGHED_FROM", 200)
    pipeline, sizes = live(world), []

    class Sizes:
        def running(self, control: Control) -> None:
            sizes.append(sum(at - control.pin.since.get(name, 0) for name, at in control.pin.until.items()))

        ran = committed = lambda *_: None

    pipeline.watchers.append(Sizes())
    for city, first in (("x" * 2_000, 1_000), ("y", 2_000)):
        orders = range(first, first + 600)
        changes = [world.change(n, city, n, at=world.time + n, liveness=world.time) for n in orders]
        world.time += 1_000_000
        world.feed.append("node", changes, source=Source(), clock=world.time)
        pipeline.drain(seconds=1e9)
    assert [size for size in sizes if size] == [249, 249, 102, 600]
    assert set(world.door.showing("shop.by_city")) == {("Graz",), ("x" * 2_000,), ("y",)}


@pytest.mark.parametrize("streams", [["node"], []])
def test_another_feed_is_refused_and_a_rebuild_goes_on_from_it(
    world: World, tmp_path: Path, streams: list[str]
) -> None:
    """A feed in another folder, or one that was lost: changes at positions that were taken were passed over."""
    pipeline = live(world)
    world.write(2, "Linz", 7)
    pipeline.drain(seconds=1e9)
    found = FolderFeed(tmp_path / "another")
    assert found.define(ORDERS) == world.reference
    for stream in streams:
        found.append(stream, [], source=Source(), clock=world.time)
    pipeline.feed = world.feed = found
    with pytest.raises(HistoryError, match="stream node were taken, and the feed has 0: it is another feed"):
        pipeline.step()
    pipeline.control = None
    with pytest.raises(HistoryError, match="took changes of another feed: this one does not know them"):
        pipeline.step()
    newest = world.pipeline(BY_CITY, 2)
    both = Succession(newest=newest, older=pipeline, say=lambda _: None)
    both._scan = SimpleNamespace(join=lambda: None)  # type: ignore[assignment]  # because the test scans by hand
    for _ in range(3):
        world.beat()
        both.step()
    world.scan(f"{PREFIX}2", {1: ("Graz", 5), 2: ("Linz", 7)}, at=1, done=True)
    for _ in range(6):
        both.step()
    assert newest.serves, "it waits for positions that the feed will never come to"
    world.write(3, "Wien", 1)
    newest.drain(seconds=1e9)
    assert world.door.showing("shop.by_city") == {
        ("Graz",): ("Graz", 5),
        ("Linz",): ("Linz", 7),
        ("Wien",): ("Wien", 1),
    }


def test_another_feed_is_refused_although_it_has_as_many_changes(world: World, tmp_path: Path) -> None:
    """As where the node's log of today was captured once more, into a new folder: counting does not tell."""
    pipeline = live(world)
    world.write(2, "Linz", 7)
    pipeline.drain(seconds=1e9)
    found = FolderFeed(tmp_path / "another")
    assert found.define(ORDERS) == world.reference
    taken = world.feed.read("node", 0, 100)
    found.append("node", [*taken, *taken], source=Source(), clock=world.time)
    pipeline.control = None
    assert pipeline.step() is None
    pipeline.feed, pipeline.control = found, None
    with pytest.raises(HistoryError, match="this one does not know them"):
        pipeline.step()


def test_a_halted_pipeline_finishes_what_is_pinned_and_begins_nothing(world: World) -> None:
    """So an upgrade finds no epoch of other code; what was captured meanwhile is shown when it goes on."""
    pipeline = world.pipeline(BY_CITY, 1)
    pipeline.step()
    world.beat()
    pipeline.step()
    world.scan(f"{PREFIX}1", {1: ("Linz", 9)}, at=1, done=True)
    for _ in range(9):
        world.write(2, "Graz", 5)
        pipeline.step()
        if pipeline.control is not None and pipeline.control.pinned:
            break
    assert pipeline.control is not None
    assert pipeline.control.pinned, "nothing is to be finished"
    pipeline.wishes = lambda: Wishes(halt=True)
    pipeline.drain(seconds=1e9)
    done = pipeline.control.committed
    assert not pipeline.control.pinned
    world.write(3, "Wien", 1)
    assert (pipeline.step(), pipeline.control.committed) == (None, done)
    pipeline.wishes = Wishes
    pipeline.drain(seconds=1e9)
    assert world.door.showing("shop.by_city")["Wien",] == ("Wien", 1)


def test_a_new_incarnation_takes_over_when_it_is_built(world: World) -> None:
    """The old one goes on until then; epochs and with them write times only increase; the old is no more."""
    old = live(world)
    told: list[str] = []
    new = world.pipeline(BY_CITY + COPY, 2)
    both = Succession(newest=new, older=old, say=told.append, serving=lambda: told.append("serving"))
    both._scan = SimpleNamespace(join=lambda: None)  # type: ignore[assignment]  # because the test scans by hand
    both.step()
    world.beat()
    both.step()
    world.write(2, "Linz", 7)
    world.scan(f"{PREFIX}2", {1: ("Graz", 5)}, at=1, done=False)
    for _ in range(4):
        both.step()
    assert world.door.showing("shop.by_city") == {("Graz",): ("Graz", 5), ("Linz",): ("Linz", 7)}
    assert (world.door.showing("shop.copy"), new.serves, old.serves) == ({}, False, True)
    world.scan(f"{PREFIX}2", {}, at=1, done=True)
    world.write(2, "Graz", 2)
    for _ in range(8):
        both.step()
    assert (new.serves, both.older, told) == (True, None, ["incarnation 2 serves", "serving"])
    assert world.door.showing("shop.by_city")["Graz",] == ("Graz", 7)
    assert world.door.showing("shop.copy") == {("Graz", 1): (1, "Graz"), ("Graz", 2): (2, "Graz")}
    times = {at for at, _ in world.door.published["shop.copy"].values()}
    assert min(times) > EPOCHS_A_LIFE
    assert world.retired == [EPOCHS_A_LIFE + 4] * 2  # type: ignore[attr-defined]
    with pytest.raises(StaleDriverError, match="incarnation 2"):
        old.start()


def test_a_row_that_cannot_be_read_or_shown_is_set_apart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H24: it contributes nothing and stops nothing, and leaves the quarantine when its base row is well."""
    apart: dict[tuple[str, str], str] = {}

    def put(_session: Any, _names: Names, _epoch: int, found: list[Quarantined]) -> None:
        for it in found:
            apart[it.source, it.key] = it.reason

    monkeypatch.setattr(module, "put_quarantined", put)
    pipeline = world.pipeline(BY_CITY, 1)
    pipeline.step()
    world.beat()
    pipeline.step()
    world.scan(f"{PREFIX}1", {1: ("Graz", 5), 2: ("x" * 70_000, 1)}, at=1, done=True)
    pipeline.drain(seconds=1e9)
    bad = world.change(3, "Wien", 9, at=world.time, liveness=world.time)
    cells = (Cell("city", b"\xff", world.time), *bad.cells[1:])
    world.feed.append("node", [structs.replace(bad, cells=cells)], source=Source(), clock=world.time)
    pipeline.drain(seconds=1e9)
    assert world.door.showing("shop.by_city") == {("Graz",): ("Graz", 5)}
    assert sorted(source for source, _ in apart) == ["shop.by_city", "shop.orders"]
    assert ("shop.orders", "(3,)") in apart
    assert all(apart.values())
    world.write(2, "Linz", 1)
    world.write(3, "Linz", 1)
    pipeline.drain(seconds=1e9)
    assert world.door.showing("shop.by_city")["Linz",] == ("Linz", 2)
    assert set(apart.values()) == {""}


def test_what_truncation_breaks_is_said_and_nothing_else_stops(world: World) -> None:
    """The views of the table keep their rows and follow no more; the reason is in the pin after it."""
    pipeline = live(world)
    gone = Change(Kind.TRUNCATION, world.reference)
    world.feed.append("node", [gone], source=Source(), clock=world.time)
    world.write(2, "Linz", 7)
    pipeline.drain(seconds=1e9)
    assert pipeline.control is not None
    assert pipeline.control.pin.views == {"shop.by_city": "broken"}
    assert pipeline.control.pin.stopped == {"shop.orders": "the table was truncated"}
    assert world.door.showing("shop.by_city") == {("Graz",): ("Graz", 5)}


def pinned(world: World) -> Pipeline:
    """Return a pipeline that serves and was left in the middle of an epoch."""
    pipeline = live(world)
    world.write(2, "Linz", 7)
    following = pipeline.next_pin(pipeline.control.pin) if pipeline.control else None
    assert following is not None
    pipeline.control = drive(pin_next(pipeline.control, following), pipeline.door)  # type: ignore[arg-type]
    return pipeline


def of_another_version(pipeline: Pipeline) -> Pipeline:
    """Return the same pipeline in a process of its own, of an upgraded cvs."""
    found = Pipeline(
        recipe=replace(pipeline.recipe),
        feed=pipeline.feed,
        session=pipeline.session,
        monotonic=pipeline.monotonic,
    )
    found.door = pipeline.door
    return found


def test_who_ends_leaves_nothing_half_done_so_another_version_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is pinned is finished by what began it; then an upgrade needs no rebuild: state is what it was."""
    old = pinned(world)
    with monkeypatch.context() as upgraded:
        upgraded.setattr(recipes, "VERSION", "another")
        with pytest.raises(OtherCodeError, match="was begun by"):
            of_another_version(old).start()
    both = Succession(newest=old, older=None, say=lambda _: None)
    both.finish()
    world.write(3, "Wien", 1)
    both.finish()
    assert old.control is not None
    assert (old.control.pinned, old.step()) == (False, None), "who ends begins nothing"
    monkeypatch.setattr(recipes, "VERSION", "another")
    of_another_version(old).drain(seconds=1e9)
    assert world.door.showing("shop.by_city") == {
        ("Graz",): ("Graz", 5),
        ("Linz",): ("Linz", 7),
        ("Wien",): ("Wien", 1),
    }


@pytest.mark.parametrize("how", ["paused", "ended"])
def test_what_the_last_epoch_finds_out_is_pinned_all_the_same(world: World, how: str) -> None:
    """A table that was truncated is said to be, however soon afterwards somebody pauses or ends the pipeline."""
    pipeline = pinned(world)
    world.feed.append(
        "node", [Change(Kind.TRUNCATION, world.reference)], source=Source(), clock=world.time + 1
    )
    pipeline.step()
    control = pipeline.control
    assert control is not None
    assert (control.pinned, control.pin.stopped) == (True, {}), "the truncation is in the epoch at hand"
    if how == "paused":
        pipeline.wishes = lambda: Wishes(halt=True)
        pipeline.drain(seconds=1e9)
    else:
        Succession(newest=pipeline, older=None, say=lambda _: None).finish()
    assert (pipeline.control.pinned, [*pipeline.control.pin.stopped]) == (False, ["shop.orders"])  # type: ignore[union-attr]


def test_what_is_left_in_the_log_of_a_table_that_was_dropped_before_changes_nothing(world: World) -> None:
    """A capture that is behind tells of it after the build began: phantoms its rows, and its end breaks no view."""
    pipeline = live(world)
    older = world.feed.define(structs.replace(ORDERS, id="0"))
    late = [structs.replace(world.change(9, "Linz", 9, at=5, liveness=5), definition=older)]
    late.append(Change(Kind.DROPPED, older))
    world.feed.append("node", late, source=Source(), clock=world.time + 1)
    world.write(2, "Wien", 1)
    pipeline.drain(seconds=1e9)
    assert world.door.showing("shop.by_city") == {("Graz",): ("Graz", 5), ("Wien",): ("Wien", 1)}
    assert pipeline.control is not None
    assert pipeline.control.pin.stopped == {}


def test_a_table_that_was_made_anew_meanwhile_stops_its_views(world: World) -> None:
    """State holds rows of the one before; a feed that others fill tells of no DROP."""
    pipeline = live(world)
    recipe = replace(pipeline.recipe, definitions={"shop.orders": structs.replace(ORDERS, id="2")})
    again = Pipeline(recipe=recipe, feed=world.feed, session=pipeline.session, monotonic=world.clock)
    again.door = pipeline.door
    again.start()
    world.write(2, "Wien", 1)
    again.drain(seconds=1e9)
    assert again.control is not None
    assert again.control.pin.stopped == {"shop.orders": "the table was dropped and made anew"}
    assert again.control.pin.views == {"shop.by_city": BROKEN}
    assert world.door.showing("shop.by_city") == {("Graz",): ("Graz", 5)}
