"""TPC-H data made by tpchgen-cli, in DuckDB and as rows of Python values; and streams of changes to it."""

import random
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import sqlglot

from tests.plan.tpch.schema import TABLES

QUERIES = Path(__file__).with_name("queries.sql").read_text()


def generate(folder: Path, scale: str) -> dict[str, list[tuple]]:
    """Make all eight tables; rows in the column order of the schema."""
    command = [
        str(Path(sys.executable).with_name("tpchgen-cli")),
        "parquet",
        "-s",
        scale,
        "--output-dir",
        str(folder),
    ]
    subprocess.run(command, check=True, capture_output=True)
    connection = duckdb.connect()
    tables: dict[str, list[tuple]] = {}
    for name, table in TABLES.items():
        path = folder / f"{table.name.split('.')[1]}.parquet"
        columns = ", ".join(c for c, _ in table.columns)
        rows = connection.execute(f"SELECT {columns} FROM read_parquet('{path}')").fetchall()
        # One row a key, because below scale 0.01 the generator repeats (ps_partkey, ps_suppkey).
        tables[name] = list({Changes.key(name, row): row for row in rows}.values())
    return tables


DUCK_TYPES = {
    "int": "INTEGER",
    "bigint": "BIGINT",
    "text": "VARCHAR",
    "decimal": "DECIMAL(15,2)",
    "date": "DATE",
}


class Oracle:
    """DuckDB over the same rows."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("CREATE SCHEMA tpch; SET SCHEMA = 'tpch'")
        for table in TABLES.values():
            columns = ", ".join(f"{n} {DUCK_TYPES[t]}" for n, t in table.columns)
            self.connection.execute(f"CREATE TABLE {table.name} ({columns})")

    def apply(self, name: str, changes: Counter) -> None:
        """Take rows out by key and put rows in."""
        table = TABLES[name]
        keys = [[n for n, _ in table.columns].index(k) for k in table.key]
        gone = [tuple(row[i] for i in keys) for row, count in changes.items() if count < 0]
        come = [row for row, count in changes.items() if count > 0]
        where = " AND ".join(f"{k} = ?" for k in table.key)
        if gone:
            self.connection.executemany(f"DELETE FROM {name} WHERE {where}", gone)
        if come:
            self._insert(name, come)

    def _insert(self, name: str, rows: list[tuple]) -> None:
        types = {
            "int": pa.int32(),
            "bigint": pa.int64(),
            "text": pa.string(),
            "decimal": pa.decimal128(15, 2),
            "date": pa.date32(),
        }
        columns = TABLES[name].columns
        batch = pa.table(
            {n: pa.array([row[i] for row in rows], types[t]) for i, (n, t) in enumerate(columns)}
        )
        self.connection.register("batch", batch)
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM batch")
        self.connection.unregister("batch")

    def answer(self, view) -> list[dict]:
        """Run a view's query."""
        text = sqlglot.transpile(view.sql, read="spark", write="duckdb")[0]
        cursor = self.connection.execute(text)
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def comparable(rows: list[dict], columns: list[str]) -> list[tuple]:
    """Bring rows to one form: numbers as floats to nine digits, in a fixed order."""
    plain = [tuple(_plain(row[c]) for c in columns) for row in rows]
    return sorted(plain, key=repr)


def _plain(value: object) -> object:
    if isinstance(value, Decimal | float | int) and not isinstance(value, bool):
        return float(f"{float(value):.9g}")
    return value


class Changes:
    """Seeded inserts, deletes and key-changing updates on all tables."""

    def __init__(self, tables: dict[str, list[tuple]], seed: int) -> None:
        self.rows = {name: {self.key(name, row): row for row in rows} for name, rows in tables.items()}
        self.random = random.Random(seed)
        self.donors: dict[str, list[tuple]] = {}  # keys of large tables as they were at the first change

    @staticmethod
    def key(name: str, row: tuple) -> tuple:
        names = [n for n, _ in TABLES[name].columns]
        return tuple(row[names.index(k)] for k in TABLES[name].key)

    def epoch(self, share: float) -> dict[str, Counter]:
        """Change a share of every table: a third each deleted, changed, and re-inserted under another key."""
        return {name: self._table(name, share) for name in self.rows}

    def _table(self, name: str, share: float) -> Counter:
        changes: Counter = Counter()
        rows = self.rows[name]
        count = max(1, int(len(rows) * share))
        for key in self.random.sample(sorted(rows), min(count, len(rows))):
            row = rows.pop(key)
            changes[row] -= 1
            kind = self.random.choice(["delete", "change", "move", "change"])
            if kind == "delete":
                continue
            new = self._mixed(name, row)
            if kind == "move":
                new = self._rekeyed(name, new)
            new_key = self.key(name, new)
            if new_key in rows:
                continue
            rows[new_key] = new
            changes[new] += 1
        return Counter({row: count for row, count in changes.items() if count})

    def _mixed(self, name: str, row: tuple) -> tuple:
        """Take some columns from another row: foreign keys, dates, prices and texts stay plausible."""
        if not self.rows[name]:
            return row
        if len(self.rows[name]) < 50:
            donor = self.rows[name][self.random.choice(list(self.rows[name]))]
        else:
            if name not in self.donors:
                self.donors[name] = list(self.rows[name])
            donor = self.rows[name].get(self.random.choice(self.donors[name]), row)
        names = [n for n, _ in TABLES[name].columns]
        fixed = {names.index(k) for k in TABLES[name].key}
        return tuple(
            old if i in fixed or self.random.random() < 0.6 else other
            for i, (old, other) in enumerate(zip(row, donor, strict=True))
        )

    def _rekeyed(self, name: str, row: tuple) -> tuple:
        names = [n for n, _ in TABLES[name].columns]
        last = names.index(TABLES[name].key[-1])
        return (*row[:last], row[last] + self.random.randint(1, 50), *row[last + 1 :])
