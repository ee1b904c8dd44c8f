"""A small shop: its tables, its views of every class, and a writer that keeps its own log for the judge."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from cassandra import InvalidRequest

from cvs.history import events as ev
from cvs.manager.recorder import Recorder
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession

KEYSPACE = "shop"
CITIES = ("Graz", "Linz", "Wien", "Krems")
RETRY_SECONDS = 0.1
PRODUCTS = ("anvil", "barrel", "candle", "drum", "easel")

TABLES = (
    (
        "CREATE TABLE IF NOT EXISTS {space}.orders (id int PRIMARY KEY, customer int, product int, "
        "quantity int, total decimal) WITH cdc = true"
    ),
    "CREATE TABLE IF NOT EXISTS {space}.products (id int PRIMARY KEY, name text, price decimal) WITH cdc = true",
    "CREATE TABLE IF NOT EXISTS {space}.customers (id int PRIMARY KEY, name text, city text) WITH cdc = true",
)

VIEWS = """
CREATE MATERIALIZED VIEW {views}.orders_by_customer AS
  SELECT customer, COUNT(*) AS orders, SUM(total) AS revenue, AVG(quantity) AS mean_quantity
  FROM shop.orders GROUP BY customer;
CREATE MATERIALIZED VIEW {views}.extremes_by_product AS
  SELECT product, MIN(total) AS smallest, MAX(total) AS largest FROM shop.orders GROUP BY product;
CREATE MATERIALIZED VIEW {views}.order_lines AS
  SELECT o.id, o.customer, o.quantity, p.name, p.price
  FROM shop.orders o JOIN shop.products p ON o.product = p.id;
CREATE MATERIALIZED VIEW {views}.revenue_by_city AS
  SELECT c.city, COUNT(*) AS orders, SUM(o.total) AS revenue
  FROM shop.orders o JOIN shop.customers c ON o.customer = c.id GROUP BY c.city;
"""


def create_shop(session: CassandraSession, *, replicas: int = 1) -> None:
    """Make the base tables."""
    make_keyspace(session, KEYSPACE, replicas=replicas)
    for table in TABLES:
        session.define(table.format(space=KEYSPACE))


def make_keyspace(session: CassandraSession, name: str, *, replicas: int = 1) -> None:
    """Make a keyspace."""
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    session.define(f"CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {replication}")


@dataclass(slots=True)
class Writer:
    """Writes to the shop as an application would, and writes down what it is about to write before it does.

    Each write carries its own write time, larger than the last, which is also its number in the log: so the
    log is a time-line nobody can doubt, whatever the node's clock says. With `skew_seconds` write times are wrong by up
    to so much in both directions, as those of clients whose clocks disagree.
    """

    session: CassandraSession
    recorder: Recorder
    chance: random.Random
    orders: int = 60
    process: str = "writer"
    rows: dict[tuple[str, int], dict[str, Any] | None] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    written: int = 0
    last_time: int = 0
    skew_seconds: float = 0.0
    _stamps: set[int] = field(default_factory=set)

    def fill(self) -> None:
        """Write the products and customers."""
        for number, name in enumerate(PRODUCTS):
            self._put("products", number, {"name": name, "price": Decimal(number * 5 + 1)})
        for number in range(12):
            self._put(
                "customers", number, {"name": f"customer {number}", "city": CITIES[number % len(CITIES)]}
            )

    def write(self) -> None:
        """Insert, change or delete one row; now and then a price changes, or a customer moves."""
        dice = self.chance.random()
        if dice < 0.01:
            number = self.chance.randrange(len(PRODUCTS))
            self._put(
                "products", number, {"name": PRODUCTS[number], "price": Decimal(self.chance.randrange(1, 50))}
            )
            return
        if dice < 0.02:
            number = self.chance.randrange(12)
            self._put("customers", number, {"name": f"customer {number}", "city": self.chance.choice(CITIES)})
            return
        number = self.chance.randrange(self.orders)
        if dice < 0.2 and self.rows.get(("orders", number)):
            self._put("orders", number, None)
            return
        quantity = self.chance.randrange(1, 9)
        row = {
            "customer": self.chance.randrange(12),
            "product": self.chance.randrange(len(PRODUCTS)),
            "quantity": quantity,
            "total": Decimal(quantity * self.chance.randrange(100, 5000)) / 100,
        }
        self._put("orders", number, row)

    def run(self, stopped: Callable[[], bool], *, pause: float) -> None:
        """Write until stopped."""
        while not stopped():
            self.write()
            time.sleep(pause)

    def _put(self, table: str, key: int, row: dict[str, Any] | None) -> None:
        record = (table, key)
        version = self.versions[record] = self.versions.get(record, 0) + 1
        stamp = self._stamp()
        self.rows[record] = row
        name = f"{KEYSPACE}.{table}"
        called = ev.BaseUpdateCalled(
            process=self.process,
            time=time.time_ns(),
            operation=stamp,
            table=name,
            key=(key,),
            version=version,
            row=None if row is None else {"id": key, **row},
            write_time=stamp,
        )
        self.recorder.record(called)
        if row is None:
            self._execute(f"DELETE FROM {name} USING TIMESTAMP ? WHERE id = ?", (stamp, key))
        else:
            columns = ", ".join(row)
            marks = ", ".join("?" for _ in row)
            text = f"INSERT INTO {name} (id, {columns}) VALUES (?, {marks}) USING TIMESTAMP ?"
            self._execute(text, (key, *row.values(), stamp))
        self.recorder.record(
            ev.BaseUpdateReturned(
                process=self.process, time=time.time_ns(), operation=stamp, outcome="applied"
            )
        )
        self.written += 1

    def _stamp(self) -> int:
        """Return a write time that no other write has."""
        now = self.last_time = max(time.time_ns() // 1000, self.last_time + 1)
        if not self.skew_seconds:
            return now
        stamp = now + round(self.chance.uniform(-1e6, 1e6) * self.skew_seconds)
        while stamp in self._stamps:
            stamp += 1
        self._stamps.add(stamp)
        return stamp

    def _execute(self, text: str, values: tuple[Any, ...]) -> None:
        """Repeat a write until it is answered: it carries its write time, so it stays the same write."""
        while True:
            try:
                self.session.execute(text, values)
            except InvalidRequest:
                raise
            except UNANSWERED:
                time.sleep(RETRY_SECONDS)
            else:
                return
