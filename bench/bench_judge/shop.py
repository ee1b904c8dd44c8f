"""Makes the recording of a pipeline that keeps the four views of the shop, as lines: counts with sums and means of
decimals, extremes, a row of a join for each order, and a fold of a join.

What the views show is kept by hand here. As a pipeline's recording says it, a view record absorbs every base record
that ever joined under its key, and goes on doing so.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench_judge.epochs import EPOCH, write_events
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.plan.cql import tables_of_schema
from cvs.plan.sql import parse_views
from cvs.stream.shop import CITIES, TABLES, VIEWS

PRODUCTS, CUSTOMERS = 40, 400

Record = tuple[str, int]


@dataclass
class _View:
    name: str
    near: dict[int | str, dict[Record, None]] = field(default_factory=dict)  # what ever joined under a key
    due: dict[int | str, dict[Record, None]] = field(default_factory=dict)
    held: dict[tuple[int | str, Record], int] = field(default_factory=dict)
    signed: dict[int | str, int] = field(default_factory=dict)
    keys: dict[Record, dict[int | str, None]] = field(default_factory=dict)

    def moved(self, record: Record, keys: Iterable[tuple[int | str, tuple[Record, ...]]]) -> None:
        """Note that a base record moved, and with which others it is or was under which keys."""
        for key, others in keys:
            for each in (record, *others):
                self.keys.setdefault(each, {})[key] = None
                self.due.setdefault(key, {})[each] = None
        for key in self.keys.get(record, ()):
            self.due.setdefault(key, {})[record] = None


class Shop:
    """The base tables, and what hangs on what."""

    def __init__(self) -> None:
        self.rows: dict[Record, dict[str, Any]] = {}
        self.version: dict[Record, int] = {}
        self.of_product: dict[int, dict[int, None]] = {}
        self.of_customer: dict[int, dict[int, None]] = {}

    def put(self, record: Record, row: dict[str, Any]) -> None:
        """Write a row."""
        before = self.rows.get(record)
        self.rows[record] = row
        self.version[record] = self.version.get(record, 0) + 1
        if record[0].endswith("orders"):
            for name, index in (("product", self.of_product), ("customer", self.of_customer)):
                if before is not None:
                    del index[before[name]][record[1]]
                index.setdefault(row[name], {})[record[1]] = None


def _order(number: int) -> Record:
    return "shop.orders", number


def _product(number: int) -> Record:
    return "shop.products", number


def _customer(number: int) -> Record:
    return "shop.customers", number


def _touched(shop: Shop, record: Record) -> Iterator[tuple[str, int | str, tuple[Record, ...]]]:
    """Return view, key and partners of what a base record is under now."""
    table, number = record
    row = shop.rows.get(record)
    if row is None:
        return
    if table == "shop.orders":
        customer, product = _customer(row["customer"]), _product(row["product"])
        yield "orders_by_customer", row["customer"], ()
        yield "extremes_by_product", row["product"], ()
        yield "order_lines", number, (product,)
        yield "revenue_by_city", shop.rows[customer]["city"], (customer,)
    elif table == "shop.products":
        for order in shop.of_product.get(number, ()):
            yield "order_lines", order, (_order(order),)
    else:
        for order in shop.of_customer.get(number, ()):
            yield "revenue_by_city", row["city"], (_order(order),)


def _shown(shop: Shop, view: str, key: int | str) -> dict[str, Any] | None:
    if view == "order_lines":
        order = shop.rows["shop.orders", key]
        product = shop.rows[_product(order["product"])]
        kept = {name: order[name] for name in ("id", "customer", "quantity")}
        return {**kept, "name": product["name"], "price": product["price"]}
    if view == "orders_by_customer":
        orders = [shop.rows[_order(n)] for n in shop.of_customer.get(key, ())]
    elif view == "extremes_by_product":
        orders = [shop.rows[_order(n)] for n in shop.of_product.get(key, ())]
    else:
        living = (n for n in range(CUSTOMERS) if shop.rows[_customer(n)]["city"] == key)
        orders = [shop.rows[_order(o)] for n in living for o in shop.of_customer.get(n, ())]
    if not orders:
        return None
    totals = [order["total"] for order in orders]
    if view == "extremes_by_product":
        return {"product": key, "smallest": min(totals), "largest": max(totals)}
    folded = {"orders": len(orders), "revenue": sum(totals, Decimal(0))}
    if view == "revenue_by_city":
        return {"city": key, **folded}
    mean = sum(order["quantity"] for order in orders) / len(orders)
    return {"customer": key, **folded, "mean_quantity": mean}


def _changes(
    chance: random.Random, shop: Shop, epoch: int, many: int, orders: int
) -> Iterator[tuple[Record, Any]]:
    """Draw base updates: orders, and in each epoch one price and one customer who moves."""
    cities = [f"{city} {i}" for city in CITIES for i in range(10)]
    if epoch == 1:
        for n in range(PRODUCTS):
            yield _product(n), {"id": n, "name": f"p{n}", "price": Decimal(n)}
        for n in range(CUSTOMERS):
            yield _customer(n), {"id": n, "name": f"c{n}", "city": cities[n % len(cities)]}
    else:
        n = chance.randrange(PRODUCTS)
        yield _product(n), {"id": n, "name": f"p{n}", "price": Decimal(chance.randrange(10_000)) / 100}
        n = chance.randrange(CUSTOMERS)
        yield _customer(n), {"id": n, "name": f"c{n}", "city": chance.choice(cities)}
    for _ in range(many):
        n = chance.randrange(orders)
        yield (
            _order(n),
            {
                "id": n,
                "customer": chance.randrange(CUSTOMERS),
                "product": chance.randrange(PRODUCTS),
                "quantity": chance.randrange(1, 10),
                "total": Decimal(chance.randrange(100_000)) / 100,
            },
        )


def write_shop(path: Path, changes: int, orders: int) -> None:
    """Write a run of so many base updates over so many orders."""
    write_events(path, _events(changes, orders))


def headers() -> list[Any]:
    """Return what says the views and the tables."""
    tables = tables_of_schema(";\n".join(table.format(space="shop") for table in TABLES))
    declared = parse_views(VIEWS.format(views="shop"), tables)
    views = tuple(definition_to_json(view.definition) for view in declared)
    told = tuple(definition_to_json(table) for table in tables.values())
    return [ev.RunStarted(process=p, time=0, run="shop", views=views, tables=told) for p in ("w", "p")]


def _events(changes: int, orders: int) -> Iterator[Any]:
    chance, shop = random.Random(1), Shop()
    started = headers()
    yield from started
    views = {view["name"].split(".")[-1]: _View(view["name"]) for view in started[0].views}
    now = operation = 0
    taken: dict[Record, int] = {}
    for epoch in range(1, changes // EPOCH + 1):
        touched: dict[tuple[str, int | str], None] = {}
        moved: dict[Record, None] = {}
        for record, row in _changes(chance, shop, epoch, EPOCH - 2, orders):
            now, operation = now + 10, operation + 1
            was = [*_touched(shop, record)]
            shop.put(record, row)
            for view, key, others in (*was, *_touched(shop, record)):
                views[view].moved(record, [(key, others)])
                touched[view, key] = None
            for view in views.values():
                view.moved(record, ())
            moved[record] = None
            yield ev.BaseUpdateCalled(
                process="w", time=now, operation=operation, table=record[0], key=(record[1],),
                version=shop.version[record], row=row,
            )  # fmt: skip
            yield ev.BaseUpdateReturned(process="w", time=now + 5, operation=operation, outcome="applied")
        for name, key in touched:
            now, operation = now + 10, operation + 1
            view = views[name]
            lines = [*_lines(shop, view, key)]
            expected = (0, view.signed[key], 0, True) if key in view.signed else None
            view.signed[key] = epoch
            yield ev.TestAndSetCalled(
                process="p", time=now, operation=operation, view=view.name, view_key=(key,), expected=expected,
                new=(0, epoch, 0, True), row=_shown(shop, name, key), absorbed=tuple(lines),
            )  # fmt: skip
            yield ev.TestAndSetReturned(process="p", time=now + 5, operation=operation, outcome="applied")
        now += 10
        told = [_line(record, taken.get(record, 0), shop.version[record]) for record in moved]
        taken |= {record: shop.version[record] for record in moved}
        yield ev.EpochCommitted(
            process="p", time=now, pipeline="p", incarnation=0, epoch=epoch, absorbed=tuple(told)
        )
    yield ev.Quiescent(process="w", time=now + 10)


def _lines(shop: Shop, view: _View, key: int | str) -> Iterator[ev.Absorbed]:
    for record in view.due.pop(key, ()):
        held, version = view.held.get((key, record), 0), shop.version[record]
        if version > held:
            view.held[key, record] = version
            yield _line(record, held, version)


def _line(record: Record, held: int, version: int) -> ev.Absorbed:
    return ev.Absorbed(table=record[0], key=(record[1],), from_version=held, to_version=version)
