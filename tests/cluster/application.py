"""Somebody's application: it knows the plain driver and its own tables, and nothing of views."""

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from cassandra.cluster import Session
from cassandra.query import BatchStatement, BatchType, SimpleStatement

ROOMS = ("hall", "attic", "cellar", "porch")
OWNERS = ("Eva", "Max", "Ida")
TAGS = ("warm", "wet", "loud", "")
TTL_MAX = 4

TABLES = (
    "CREATE TYPE {space}.mark (word text, weight int)",
    (
        "CREATE TABLE {space}.readings (room text, at int, owner text static, value int, note text, tags set<text>, "
        "limits map<text, int>, steps list<int>, mark mark, marks list<frozen<mark>>, PRIMARY KEY (room, at)) "
        "WITH CLUSTERING ORDER BY (at DESC) AND cdc = true"
    ),
    "CREATE TABLE {space}.accounts (id int PRIMARY KEY, owner text, balance int, status text) WITH cdc = true",
)


class Application:
    """Writes of every kind, chosen by chance; `done` counts what it did."""

    def __init__(self, session: Session, space: str, seed: int) -> None:
        self.session, self.space, self.chance = session, space, random.Random(seed)
        self.done: Counter[str] = Counter()
        self.kinds: list[Callable[[], None]] = [
            self.insert,
            self.insert_json,
            self.update_some_columns,
            self.update_collections,
            self.replace_collections,
            self.set_marks,
            self.set_static,
            self.expire,
            self.delete_row,
            self.delete_cells,
            self.delete_range,
            self.delete_partition,
            self.batch,
            self.open_account,
            self.compare_and_set,
            self.close_account,
        ]
        self.weights = [8, 3, 6, 6, 2, 3, 2, 4, 2, 2, 1, 0.3, 3, 4, 4, 1]

    def act(self) -> None:
        (kind,) = self.chance.choices(self.kinds, self.weights)
        kind()
        self.done[kind.__name__] += 1

    def run(self, text: str, *values: Any) -> Any:
        return self.session.execute(text.replace("{s}", self.space), values)

    def place(self) -> tuple[str, int]:
        return self.chance.choice(ROOMS), self.chance.randrange(12)

    def insert(self) -> None:
        note = self.chance.choice(("dry", "odd", None))
        self.run(
            "INSERT INTO {s}.readings (room, at, value, note, tags) VALUES (%s, %s, %s, %s, %s)",
            *self.place(),
            self.chance.randrange(100),
            note,
            set(self.chance.sample(TAGS, 2)),
        )

    def insert_json(self) -> None:
        room, at = self.place()
        row = {
            "room": room,
            "at": at,
            "value": self.chance.randrange(100),
            "limits": {"low": 1},
            "steps": [3, 1],
        }
        word = self.chance.choice(("", " DEFAULT UNSET", " DEFAULT NULL"))
        self.run("INSERT INTO {s}.readings JSON %s" + word, json.dumps(row))

    def update_some_columns(self) -> None:
        room, at = self.place()
        column, value = self.chance.choice(
            (("value", self.chance.randrange(100)), ("note", "seen"), ("note", None))
        )
        self.run(f"UPDATE {{s}}.readings SET {column} = %s WHERE room = %s AND at = %s", value, room, at)

    def update_collections(self) -> None:
        change, value = self.chance.choice(
            (
                ("tags = tags + %s", {self.chance.choice(TAGS)}),
                ("tags = tags - %s", {self.chance.choice(TAGS)}),
                ("limits['high'] = %s", self.chance.randrange(9)),
                ("limits = limits - %s", {"low"}),
                ("steps = steps + %s", [self.chance.randrange(9)]),
                ("steps = %s + steps", [self.chance.randrange(9)]),
                ("steps = steps - %s", [1]),
            )
        )
        self.run(f"UPDATE {{s}}.readings SET {change} WHERE room = %s AND at = %s", value, *self.place())

    def replace_collections(self) -> None:
        self.run(
            "UPDATE {s}.readings SET tags = %s, limits = %s, steps = %s WHERE room = %s AND at = %s",
            {"new"},
            {"low": 2, "mid": 5},
            [7, 7],
            *self.place(),
        )

    def set_marks(self) -> None:
        change = self.chance.choice(
            (
                "mark = {word: 'good', weight: 3}",
                "mark.weight = 4",
                "mark.word = null",
                "mark = null",
                "marks = [{word: 'first'}, {word: 'then', weight: 2}]",
                "marks = marks + [{weight: 5}]",
            )
        )
        self.run(f"UPDATE {{s}}.readings SET {change} WHERE room = %s AND at = %s", *self.place())

    def set_static(self) -> None:
        self.run(
            "UPDATE {s}.readings SET owner = %s WHERE room = %s", self.chance.choice(OWNERS), self.place()[0]
        )

    def expire(self) -> None:
        ttl = self.chance.randrange(1, TTL_MAX + 1)
        room, at = self.place()
        value = self.chance.randrange(100)
        if self.chance.random() < 0.5:
            text = "INSERT INTO {s}.readings (room, at, value) VALUES (%s, %s, %s) USING TTL %s"
            self.run(text, room, at, value, ttl)
        else:
            text = (
                "UPDATE {s}.readings USING TTL %s SET value = %s, note = 'brief' WHERE room = %s AND at = %s"
            )
            self.run(text, ttl, value, room, at)

    def delete_row(self) -> None:
        self.run("DELETE FROM {s}.readings WHERE room = %s AND at = %s", *self.place())

    def delete_cells(self) -> None:
        what = self.chance.choice(("note", "tags", "limits['low']", "value, steps"))
        self.run(f"DELETE {what} FROM {{s}}.readings WHERE room = %s AND at = %s", *self.place())

    def delete_range(self) -> None:
        room, at = self.place()
        self.run("DELETE FROM {s}.readings WHERE room = %s AND at >= %s AND at < %s", room, at, at + 3)

    def delete_partition(self) -> None:
        self.run("DELETE FROM {s}.readings WHERE room = %s", self.place()[0])

    def batch(self) -> None:
        batch = BatchStatement(self.chance.choice((BatchType.LOGGED, BatchType.UNLOGGED)))
        room, at = self.place()
        insert = f"INSERT INTO {self.space}.readings (room, at, value) VALUES (%s, %s, %s)"
        batch.add(SimpleStatement(insert), (room, at, self.chance.randrange(100)))
        batch.add(
            SimpleStatement(f"DELETE FROM {self.space}.readings WHERE room = %s AND at = %s"), (room, at + 1)
        )
        update = f"UPDATE {self.space}.accounts SET status = %s WHERE id = %s"
        batch.add(SimpleStatement(update), (f"{room} {at}", self.chance.randrange(20)))
        self.session.execute(batch)

    def open_account(self) -> None:
        text = "INSERT INTO {s}.accounts (id, owner, balance) VALUES (%s, %s, %s) IF NOT EXISTS"
        self.run(text, self.chance.randrange(20), self.chance.choice(OWNERS), 100)

    def compare_and_set(self) -> None:
        number = self.chance.randrange(20)
        rows = list(self.run("SELECT balance FROM {s}.accounts WHERE id = %s", number))
        balance = rows[0].balance if rows else None
        guess = balance if self.chance.random() < 0.8 else -1
        if guess is not None:
            text = "UPDATE {s}.accounts SET balance = %s WHERE id = %s IF balance = %s"
            self.run(text, guess + self.chance.randrange(-9, 10), number, guess)

    def close_account(self) -> None:
        self.run("DELETE FROM {s}.accounts WHERE id = %s IF EXISTS", self.chance.randrange(20))

    # ---- what its own reports would say

    def readings(self) -> list[Any]:
        rows = self.run("SELECT * FROM {s}.readings")
        return [row for row in rows if row.at is not None]  # because statics alone are no reading

    def accounts(self) -> list[Any]:
        return list(self.run("SELECT * FROM {s}.accounts"))

    def by_room(self) -> dict[str, tuple[Any, ...]]:
        found = {}
        for room in {row.room for row in self.readings()}:
            values = [row.value for row in self.readings() if row.room == room]
            known = [value for value in values if value is not None]
            found[room] = (len(values), sum(known) if known else None, min(known, default=None))
        return found

    def by_owner(self) -> dict[str, int]:
        return dict(Counter(row.owner for row in self.readings() if row.owner is not None))

    def noted(self) -> dict[tuple[str, int], tuple[Any, ...]]:
        return {
            (r.room, r.at): (r.note, r.tags, r.limits, r.steps, plain(r.mark), plain(r.marks))
            for r in self.readings()
            if r.note is not None
        }

    def responsible(self) -> dict[tuple[int, str, int], tuple[Any, ...]]:
        return {
            (account.id, row.room, row.at): (account.balance, account.status, row.value)
            for account in self.accounts()
            for row in self.readings()
            if account.owner is not None and account.owner == row.owner
        }


def plain(value: Any) -> Any:
    """A user type is published as the tuple of its fields; the driver has a list in neither."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if value is None else tuple(value)
