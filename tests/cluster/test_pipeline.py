"""The pipeline from a feed to published tables on real Cassandra, restarted wherever it stands."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cvs.capture.changes import Cell, Change, Deletion, Kind, Liveness
from cvs.capture.feed import Source
from cvs.capture.folder import FolderFeed
from cvs.embedded.node import Node
from cvs.model.cql_bytes import encode_cql
from cvs.programs.epoch import OtherCodeError, pin_next
from cvs.programs.stage_bucket import drive
from cvs.sidecar.verification import Difference, Shown, differences
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.pipeline import Pipeline
from cvs.stream.recipe import recipe_of
from cvs.stream.tables import Names, create

pytestmark = pytest.mark.cluster


class Shop:
    """A base table, a feed written by hand, and a pipeline over both."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.session = CassandraSession(ClusterAddress(contact_points=(node.address,), port=node.native_port))
        self.space = f"shop_{uuid4().hex[:8]}"
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.session.define(f"CREATE KEYSPACE {self.space} WITH replication = {replication}")
        self.session.define(
            f"CREATE TABLE {self.space}.orders (id int PRIMARY KEY, city text, total int) WITH cdc = true"
        )
        self.sql = (
            f"CREATE MATERIALIZED VIEW {self.space}.by_city AS "
            f"SELECT city, COUNT(*) AS orders, SUM(total) AS total FROM {self.space}.orders GROUP BY city"
        )
        names = Names(keyspace=f"{self.space}_cvs")
        self.recipe, _ = recipe_of(self.session, self.sql, names=names, keyspaces=(self.space,))
        create(self.session, self.recipe.plan, names)
        self.feed = FolderFeed(folder / "feed")
        self.reference = self.feed.define(self.recipe.definitions[f"{self.space}.orders"])
        self.clock = 0
        self.feed.append("node", [], source=Source(), clock=0)

    def write(self, identity: int, city: str | None, total: int = 0) -> None:
        """Append one insert (or delete) to the feed, as a tail would."""
        self.write_all([(identity, city, total)])

    def write_all(self, rows: Iterable[tuple[int, str | None, int]]) -> None:
        """Append many at once."""
        changes = [self._change(*row) for row in rows]
        self.feed.append("node", changes, source=Source(), clock=self.clock)

    def _change(self, identity: int, city: str | None, total: int) -> Change:
        self.clock += 1_000_000
        parts: dict[str, Any] = {"deletion": Deletion(self.clock, 1)}
        if city is not None:
            cells = (
                Cell("city", city.encode(), self.clock),
                Cell("total", encode_cql("int", total), self.clock),
            )
            parts = {"liveness": Liveness(self.clock), "cells": cells}
        key = encode_cql("int", identity)
        assert key is not None
        return Change(kind=Kind.ROW, definition=self.reference, key=key, **parts)

    def pipeline(self, **changes: Any) -> Pipeline:
        return Pipeline(recipe=replace(self.recipe, **changes), feed=self.feed, session=self.session)

    def shown(self) -> dict[str, tuple[int, int]]:
        rows = self.session.execute(f"SELECT city, orders, total FROM {self.space}.by_city")
        return {city: (orders, total) for city, orders, total in rows}


@pytest.fixture
def shop(cassandra_node: Node, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(cassandra_node, tmp_path)
    yield shop
    shop.session.close()


class Killed(Exception):
    """What stands for kill -9 inside one process."""


def test_epochs_follow_the_feed_and_a_restart_goes_on(shop: Shop) -> None:
    """Killed between any two rounds of requests; the next driver takes the same pin and ends right."""
    shop.write(1, "Graz", 5)
    shop.write(2, "Linz", 7)
    assert shop.pipeline().drain() > 0
    assert shop.shown() == {"Graz": (1, 5), "Linz": (1, 7)}
    shop.write(1, "Linz", 6)
    shop.write(2, None)
    shop.write(3, "Wien", 1)
    for rounds in range(6):
        driver = shop.pipeline()
        control = driver.start()
        door, left = driver.door, [rounds]

        def dying(requests: list[Any], door: Any = door, left: list[int] = left) -> list[Any]:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return list(door(requests))

        dying.check = door.check  # type: ignore[attr-defined]
        driver.door = dying  # type: ignore[assignment]
        try:
            driver.step()
        except Killed:
            assert shop.pipeline().start().committed == control.committed
    shop.pipeline().drain()
    assert shop.shown() == {"Linz": (1, 6), "Wien": (1, 1)}


def test_a_driver_with_another_plan_is_refused(shop: Shop) -> None:
    """H4: what is pinned under one plan is not run by another."""
    shop.write(1, "Graz", 5)
    driver = shop.pipeline()
    control = driver.start()
    following = driver.next_pin(control.pin)
    assert following is not None
    drive(pin_next(control, following), driver.door)
    with pytest.raises(OtherCodeError, match="under another plan"):
        shop.pipeline(delta_buckets=7).start()


GRACE = 100


class Forgetful:
    """A shop whose writes also go to its base table, and a pipeline that remembers what is gone for a while."""

    def __init__(self, shop: Shop, late_seconds: int) -> None:
        self.shop, self.captured = shop, dict[int, Change]()
        self.pipeline = shop.pipeline()
        self.pipeline.late_seconds, self.pipeline.settled_seconds = late_seconds, 0
        self.pipeline.heartbeat_seconds = 0.0
        shop.session.define(f"ALTER TABLE {shop.space}.orders WITH gc_grace_seconds = {GRACE}")

    def insert(self, identity: int) -> None:
        put = (
            f"INSERT INTO {self.shop.space}.orders (id, city, total) VALUES (?, 'Graz', 5) USING TIMESTAMP ?"
        )
        change = self.captured[identity] = self.shop._change(identity, "Graz", 5)
        self.shop.session.execute(put, (identity, self.shop.clock))
        self.take([change])

    def delete(self, identity: int) -> None:
        gone = f"DELETE FROM {self.shop.space}.orders USING TIMESTAMP ? WHERE id = ?"
        change = self.shop._change(identity, None, 0)
        self.shop.session.execute(gone, (self.shop.clock, identity))
        self.take([change])

    def take(self, changes: list[Change], *, seconds: int = 0) -> None:
        """Have changes captured and absorbed, and the node's clock go on."""
        self.shop.clock += seconds * 1_000_000
        self.shop.feed.append("node", changes, source=Source(), clock=self.shop.clock)
        self.pipeline.drain()

    def remembered(self) -> int:
        names = self.pipeline.recipe.names
        table = f"{names.keyspace}.{names.delta(f'{self.shop.space}.orders')}"
        buckets = self.shop.session.execute(f"SELECT bucket FROM {table}")
        return sum(bucket >= 0 for (bucket,) in buckets)

    def verified(self) -> list[Difference]:
        """Compare the view with the base table, as `cvs verify` does."""
        base = self.shop.session.execute(f"SELECT city, total FROM {self.shop.space}.orders")
        should: dict[tuple[Any, ...], Any] = {}
        for city, total in base:
            orders, sum_ = should.get((city,), (0, 0))
            should[city,] = (orders + 1, sum_ + total)
        shown = {(city,): row for city, row in self.shop.shown().items()}
        return list(differences(should, Shown(records=shown)).values())  # type: ignore[arg-type]


def test_what_is_gone_is_remembered_until_no_copy_of_it_can_come(shop: Shop) -> None:
    """H16: a hint of the insert comes when the row is deleted; it stays hidden, and in the end DELTA is empty."""
    world = Forgetful(shop, late_seconds=20)
    world.insert(1)
    world.insert(2)
    world.delete(1)
    world.take([world.captured[1]], seconds=GRACE)
    assert (world.verified(), world.remembered()) == ([], 2)
    for _ in range(3):
        world.take([], seconds=GRACE)
    assert (world.verified(), world.remembered()) == ([], 1)
    assert shop.shown() == {"Graz": (1, 5)}


def test_what_is_forgotten_too_early_shows_and_is_found(shop: Shop) -> None:
    """Remembered for a second only, a row that is gone comes back with its hint: the base does not have it."""
    world = Forgetful(shop, late_seconds=1 - GRACE)
    world.insert(1)
    world.delete(1)
    for _ in range(3):
        world.take([], seconds=GRACE // 3)
    assert (world.verified(), world.remembered()) == ([], 0)
    world.take([world.captured[1]])
    assert [(it.kind, it.key) for it in world.verified()] == [("invented", ("Graz",))]
