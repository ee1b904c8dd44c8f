"""Random tables of every type and random writes of every kind, from one seed, for the differential test."""

import random
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from cassandra.cluster import Session
from cassandra.query import UNSET_VALUE, BatchStatement, PreparedStatement
from cassandra.util import Date, Duration, Time

SCALARS: dict[str, Callable[[random.Random], Any]] = {
    "ascii": lambda r: "".join(r.choices(string.ascii_letters, k=r.randrange(8))),
    "bigint": lambda r: r.randrange(-(1 << 63), 1 << 63),
    "blob": lambda r: r.randbytes(r.choice([0, 1, 127, 128, 300])),
    "boolean": lambda r: r.random() < 0.5,
    "date": lambda r: Date(date(1900, 1, 1) + timedelta(days=r.randrange(90000))),
    "decimal": lambda r: Decimal(r.randrange(-(10**20), 10**20)).scaleb(r.randrange(-10, 5)),
    "double": lambda r: r.choice([0.0, -0.0, float("inf"), r.gauss(0, 1e9)]),
    "duration": lambda r: Duration(r.randrange(99), r.randrange(99), r.randrange(10**15)),
    "float": lambda r: r.choice([0.0, -0.0, 1.5]),
    "inet": lambda r: r.choice(["10.0.0.1", "2001:db8::7"]),
    "int": lambda r: r.randrange(-(1 << 31), 1 << 31),
    "smallint": lambda r: r.randrange(-(1 << 15), 1 << 15),
    "text": lambda r: "".join(r.choices("ab\u00e9\u20ac", k=r.choice([0, 1, 5, 200]))),
    "time": lambda r: Time(r.randrange(86_400_000_000_000)),
    "timestamp": lambda r: datetime(2000, 1, 1) + timedelta(milliseconds=r.randrange(10**12)),  # noqa: DTZ001
    "timeuuid": lambda r: uuid.UUID(int=r.getrandbits(128) & ~(0xF << 76) | (1 << 76), version=None),
    "tinyint": lambda r: r.randrange(-128, 128),
    "uuid": lambda r: uuid.UUID(int=r.getrandbits(128), version=4),
    "varint": lambda r: r.randrange(-(1 << 90), 1 << 90),
}
KEYS = ("int", "text", "bigint", "uuid", "timestamp", "boolean", "smallint", "date", "decimal")
ELEMENTS = ("int", "text", "uuid", "blob", "smallint", "double")


@dataclass(slots=True, kw_only=True)
class Table:
    """A made table: columns by kind, with what makes their values."""

    name: str
    partition: dict[str, str]
    clustering: dict[str, str]
    statics: dict[str, str]
    regulars: dict[str, str]
    prepared: dict[str, PreparedStatement] = field(default_factory=dict)

    @property
    def key(self) -> dict[str, str]:
        """Return the whole primary key."""
        return self.partition | self.clustering


class RandomWrites:
    """Makes tables in a keyspace and writes to them."""

    def __init__(self, session: Session, keyspace: str, seed: int) -> None:
        self.session = session
        self.keyspace = keyspace
        self.random = random.Random(seed)
        self.written = 0
        session.execute(
            f"CREATE KEYSPACE {keyspace} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TYPE {keyspace}.inner (a int, b text)")
        session.execute(f"CREATE TYPE {keyspace}.outer (x frozen<inner>, y list<int>, z double)")
        self.tables = [self._table(number) for number in range(6)]

    def write(self, count: int) -> None:
        """Write `count` times, some in flight at once."""
        flying: list[Any] = []
        for _ in range(count):
            statement, values = self._statement()
            if isinstance(statement, BatchStatement):
                flying.append(self.session.execute_async(statement))
            else:
                flying.append(self.session.execute_async(statement, values))
            self.written += 1
            if len(flying) > 32:
                flying.pop(0).result()
        for future in flying:
            future.result()

    def _table(self, number: int) -> Table:
        r = self.random
        partition = {f"p{i}": r.choice(KEYS) for i in range(r.choice([1, 1, 2, 3]))}
        clustering = {f"c{i}": r.choice(KEYS) for i in range(r.choice([0, 1, 2, 3]))}
        if number < 2:  # two tables of one key: batches over both are one entry of several tables
            partition, clustering = {"p0": "int"}, {"c0": "int"}
        statics = {f"s{i}": self._type() for i in range(2)} if clustering else {}
        width = 70 if number == 2 else r.randrange(3, 12)
        regulars = {f"r{i}": self._type() for i in range(width)}
        table = Table(
            name=f"t{number}", partition=partition, clustering=clustering, statics=statics, regulars=regulars
        )
        columns = [f"{n} {t}" for n, t in (table.key | regulars).items()]
        columns += [f"{n} {t} static" for n, t in statics.items()]
        orders = ", ".join(f"{n} {r.choice(['ASC', 'DESC'])}" for n in clustering)
        key = f"({', '.join(partition)}){''.join(f', {n}' for n in clustering)}"
        options = f"cdc = true{f' AND CLUSTERING ORDER BY ({orders})' if orders else ''}"
        self.session.execute(
            f"CREATE TABLE {self.keyspace}.{table.name} ({', '.join(columns)}, PRIMARY KEY ({key})) WITH {options}"
        )
        return table

    def _type(self) -> str:
        r = self.random
        element, other = r.choice(ELEMENTS), r.choice(ELEMENTS)
        composed = [
            f"list<{element}>",
            f"set<{element}>",
            f"map<{element}, {other}>",
            f"frozen<list<{element}>>",
            f"frozen<map<{element}, frozen<set<{other}>>>>",
            f"tuple<{element}, {other}>",
            "inner",
            "frozen<outer>",
            "list<frozen<inner>>",
            "vector<float, 3>",
            "vector<text, 2>",
        ]
        return r.choice(composed) if r.random() < 0.4 else r.choice(list(SCALARS))

    def _value(self, kind: str) -> Any:
        r = self.random
        if kind in SCALARS:
            return SCALARS[kind](r)
        name, _, rest = kind.partition("<")
        if name == "frozen":
            return self._value(rest[:-1])
        if name == "inner":
            return (r.choice([None, 5]), r.choice([None, "", "x"]))
        if name == "outer":
            return ((1, "y"), [1, 2], r.choice([None, 2.5]))
        arguments = _arguments(rest[:-1])
        if name == "vector":
            return [self._value(arguments[0]) for _ in range(int(arguments[1]))]
        if name == "tuple":
            return tuple(r.choice([None, self._value(a)]) for a in arguments)
        count = r.randrange(4)
        if name == "map":
            pairs = [(self._value(arguments[0]), self._value(arguments[1])) for _ in range(count)]
            return dict(pairs)
        return [self._value(arguments[0]) for _ in range(count)]

    def _statement(self) -> tuple[Any, list[Any]]:
        r = self.random
        table = r.choice(self.tables)
        kinds = [self._insert] * 5 + [self._update] * 4 + [self._delete_columns, self._delete_rows]
        if r.random() < 0.08:
            return self._batch(table), []
        return r.choice(kinds)(table)

    def _prepare(self, table: Table, text: str) -> PreparedStatement:
        if text not in table.prepared:
            table.prepared[text] = self.session.prepare(text)
        return table.prepared[text]

    def _key(self, table: Table, names: dict[str, str]) -> list[Any]:
        small = random.Random(self.random.randrange(12))  # few keys, so that writes meet
        values = [SCALARS[kind](small) for kind in names.values()]
        return ["k", *values[1:]] if len(table.partition) == 1 and values[0] == "" else values

    def _using(self) -> tuple[str, list[int]]:
        """Return options as text and their values: bound, so that few statements are prepared for many writes."""
        r = self.random
        options, values = [], []
        if r.random() < 0.25:
            options.append("TIMESTAMP ?")
            late = 1_500_000_000_000_000 + r.randrange(10**9)
            values.append(r.choice([1, -7, 1_442_880_000_000_000, late]))
        if r.random() < 0.25:
            options.append("TTL ?")
            values.append(r.choice([3600, 86400, 7]))
        return f" USING {' AND '.join(options)}" if options else "", values

    def _some(self, table: Table, pool: dict[str, str], count: int) -> list[str]:
        """Choose columns, from a limited number of combinations."""
        chosen = random.Random(f"{table.name} {len(pool)} {count} {self.random.randrange(12)}")
        return chosen.sample(list(pool), count)

    def _insert(self, table: Table) -> tuple[Any, list[Any]]:
        r = self.random
        names = table.key | table.statics | table.regulars
        using, options = ("", []) if r.random() < 0.1 else self._using()
        condition = " IF NOT EXISTS" if not using and r.random() < 0.05 else ""
        marks = ", ".join("?" * len(names))
        text = f"INSERT INTO {self.keyspace}.{table.name} ({', '.join(names)}) VALUES ({marks}){condition}{using}"
        others = [
            r.choice([UNSET_VALUE, None]) if r.random() < 0.4 else self._value(kind)
            for kind in (table.statics | table.regulars).values()
        ]
        return self._prepare(table, text), self._key(table, table.key) + others + options

    def _update(self, table: Table) -> tuple[Any, list[Any]]:
        r = self.random
        pool = table.regulars if not table.statics or r.random() < 0.8 else table.statics
        names = self._some(table, pool, r.randrange(1, min(4, len(pool)) + 1))
        changes, values = [], []
        for name in names:
            text, found = self._assignment(name, pool[name])
            changes.append(text)
            values += found
        key = table.partition if pool is table.statics else table.key
        where = " AND ".join(f"{n} = ?" for n in key)
        using, options = self._using()
        text = f"UPDATE {self.keyspace}.{table.name}{using} SET {', '.join(changes)} WHERE {where}"
        return self._prepare(table, text), options + values + self._key(table, key)

    def _assignment(self, name: str, kind: str) -> tuple[str, list[Any]]:
        r = self.random
        shape = kind.partition("<")[0]
        if shape in ("list", "set") and r.random() < 0.7:
            return f"{name} = {name} {r.choice('+-')} ?", [self._value(kind)]
        if shape == "map" and r.random() < 0.7:
            key, value = _arguments(kind[4:-1])
            return f"{name}[?] = ?", [self._value(key), r.choice([None, self._value(value)])]
        if kind == "inner" and r.random() < 0.7:
            return f"{name}.b = ?", [r.choice([None, "field"])]
        return f"{name} = ?", [r.choice([None, self._value(kind)])]

    def _delete_columns(self, table: Table) -> tuple[Any, list[Any]]:
        names = self._some(table, table.regulars, self.random.randrange(1, 3))
        where = " AND ".join(f"{n} = ?" for n in table.key)
        text = f"DELETE {', '.join(names)} FROM {self.keyspace}.{table.name} WHERE {where}"
        return self._prepare(table, text), self._key(table, table.key)

    def _delete_rows(self, table: Table) -> tuple[Any, list[Any]]:
        r = self.random
        clustering = list(table.clustering)
        depth = r.randrange(len(clustering) + 1)
        named = dict(list(table.clustering.items())[:depth])
        where = [f"{n} = ?" for n in table.partition | named]
        values = self._key(table, table.partition | named)
        if depth < len(clustering) and r.random() < 0.6:
            name = clustering[depth]
            kind = table.clustering[name]
            bounds = sorted([SCALARS[kind](r), SCALARS[kind](r)])
            ends = r.choice([(">",), ("<=",), (">=", "<"), (">", "<=")])
            where += [f"{name} {sign} ?" for sign in ends]
            values += bounds[: len(ends)]
        text = f"DELETE FROM {self.keyspace}.{table.name} WHERE {' AND '.join(where)}"
        return self._prepare(table, text), values

    def _batch(self, table: Table) -> BatchStatement:
        batch = BatchStatement()
        shares_key = table in self.tables[:2]
        for _ in range(self.random.randrange(2, 6)):
            target = self.random.choice(self.tables[:2]) if shares_key else table
            maker = self.random.choice([self._insert, self._update, self._delete_columns, self._delete_rows])
            statement, values = maker(target)
            if " IF " not in statement.query_string:
                batch.add(statement, values)
        return batch


def _arguments(text: str) -> list[str]:
    """Split the arguments of a type at its outermost commas."""
    found, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            found.append(text[start:index].strip())
            start = index + 1
    return [*found, text[start:].strip()]
