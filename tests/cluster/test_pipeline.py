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
