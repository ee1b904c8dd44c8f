"""Random views as SQL text, and random changes of their tables, from one random instance."""

from collections import Counter
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import cache
from random import Random

import duckdb
import sqlglot
from sqlglot import exp

from cvs.model.views import BaseTable
from cvs.plan.sql import DeclaredView

TABLES = {
    "r.a": BaseTable(
        name="r.a",
        columns=(("id", "int"), ("x", "int"), ("s", "text"), ("m", "decimal")),
        partition_key=("id",),
    ),
    "r.b": BaseTable(
        name="r.b",
        columns=(("p", "int"), ("q", "int"), ("x", "int"), ("s", "text")),
        partition_key=("p",),
        clustering_key=("q",),
    ),
    "r.c": BaseTable(
        name="r.c", columns=(("k", "text"), ("x", "int"), ("y", "bigint")), partition_key=("k",)
    ),
}
DUCK = {
    "int": "INTEGER",
    "text": "VARCHAR",
    "decimal": "DECIMAL(12,2)",
    "bigint": "BIGINT",
    "smallint": "SMALLINT",
    "double": "DOUBLE",
    "date": "DATE",
    "boolean": "BOOLEAN",
}
NUMBERS = ("int", "bigint", "decimal", "smallint", "double")
WORDS = ["u", "v", "vw", "w%", ""]


def random_tables(random: Random) -> dict[str, BaseTable]:
    """Two or three tables: keys of one to three columns, one to four other columns, at least one of them a number."""
    found = {}
    for number in range(2 + random.randrange(2)):
        key = [
            (f"k{i}", random.choice(["int", "int", "text", "bigint", "date"]))
            for i in range(1 + random.randrange(3))
        ]
        rest = [("n0", random.choice(NUMBERS))]
        rest += [(f"v{i}", random.choice(sorted(DUCK))) for i in range(random.randrange(4))]
        partition = 1 + random.randrange(len(key))
        found[f"r.t{number}"] = BaseTable(
            name=f"r.t{number}",
            columns=(*key, *rest),
            partition_key=tuple(n for n, _ in key[:partition]),
            clustering_key=tuple(n for n, _ in key[partition:]),
        )
    return found


def _family(kind: str) -> str:
    return "number" if kind in NUMBERS else kind


class Grammar:
    """Writes one view; every choice comes from the random instance, so that Hypothesis can shrink it."""

    def __init__(self, random: Random, tables: Mapping[str, BaseTable] = TABLES) -> None:
        self.random = random
        self.tables = tables
        self.aliases = 0

    def maybe(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, choices: list):
        return choices[self.random.randrange(len(choices))]

    def view(self) -> str:
        kind = self.pick(["rows", "groups", "groups", "distinct", "set", "top", "total", "nested"])
        return getattr(self, kind)()

    def table(self) -> tuple[str, str, list[tuple[str, str]], list[str]]:
        """One entry of FROM: text, alias, typed columns, key columns."""
        table = self.tables[self.pick(sorted(self.tables))]
        self.aliases += 1
        alias = f"t{self.aliases}"
        columns = [(f"{alias}.{n}", t) for n, t in table.columns]
        return f"{table.name} {alias}", alias, columns, [f"{alias}.{n}" for n in table.key]

    def source(self, joins: int = 2) -> tuple[str, list[tuple[str, str]], list[str]]:
        """FROM and WHERE; columns that can be read; columns that key the rows."""
        text, _, columns, keys = self.table()
        for _ in range(self.random.randrange(joins + 1)):
            right, _, more, more_keys = self.table()
            pair = self.equal(columns, more)
            kind = self.pick(
                ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
            )
            extra = f" AND {self.condition(columns + more)}" if kind == "JOIN" and self.maybe(0.3) else ""
            text = f"{text} {kind} {right} ON {pair}{extra}"
            if "SEMI" not in kind and "ANTI" not in kind:
                columns, keys = columns + more, keys + more_keys
        where = [self.condition(columns) for _ in range(self.random.randrange(3))]
        if self.maybe(0.4):
            where.append(self.subquery(columns))
        return text + (f" WHERE {' AND '.join(where)}" if where else ""), columns, keys

    def equal(self, left: list[tuple[str, str]], right: list[tuple[str, str]]) -> str:
        pairs = [(a, b) for a, s in left for b, t in right if _family(s) == _family(t)]
        a, b = self.pick(pairs)
        return f"{a} = {b}"

    def numbers(self, columns: list[tuple[str, str]]) -> list[str]:
        return [n for n, t in columns if t in NUMBERS]

    def texts(self, columns: list[tuple[str, str]]) -> list[str]:
        return [n for n, t in columns if t == "text"]

    def number(self, columns: list[tuple[str, str]]) -> str:
        one = self.pick(self.numbers(columns))
        return self.pick([one, one, f"{one} + 1", f"{one} * 2", f"COALESCE({one}, 0)", f"ABS({one} - 2)",
                          f"CASE WHEN {one} > 1 THEN {one} ELSE 0 END"])  # fmt: skip

    def condition(self, columns: list[tuple[str, str]]) -> str:
        number = self.number(columns)
        forms = [f"{number} > {self.random.randrange(4)}", f"{number} IN (0, 1, 2)", f"{number} IS NOT NULL",
                 f"{number} BETWEEN 1 AND 3", f"NOT ({number} = 2)", f"({number} < 2 OR {number} IS NULL)"]  # fmt: skip
        for text in self.texts(columns):
            forms += [f"{text} LIKE 'v%'", f"{text} <> 'u'", f"NOT {text} LIKE '%w'"]
        return self.pick(forms)

    def subquery(self, columns: list[tuple[str, str]]) -> str:
        text, _, inner, _ = self.table()
        where = f" WHERE {self.condition(inner)}" if self.maybe(0.5) else ""
        both = f"{where} AND " if where else " WHERE "
        pair = self.equal(columns, inner)
        number, mine = self.pick(self.numbers(inner)), self.pick(self.numbers(columns))
        function = self.pick(["MIN", "MAX", "SUM", "COUNT"])
        return self.pick([
            f"EXISTS (SELECT 1 FROM {text}{both}{pair})",
            f"NOT EXISTS (SELECT 1 FROM {text}{both}{pair})",
            f"{mine} IN (SELECT {number} FROM {text}{where})",
            f"{mine} NOT IN (SELECT {number} FROM {text}{where})",
            f"{mine} >= (SELECT {function}({number}) FROM {text}{where})",
            f"{mine} < (SELECT {function}({number}) FROM {text}{both}{pair})",
            f"({mine} = 1 OR EXISTS (SELECT 1 FROM {text}{both}{pair}))",
        ])  # fmt: skip

    def named(self, expressions: list[str]) -> str:
        return ", ".join(f"{e} AS c{i}" for i, e in enumerate(expressions))

    def aggregate(self, columns: list[tuple[str, str]]) -> str:
        number = self.number(columns)
        return self.pick(["COUNT(*)", f"COUNT({number})", f"SUM({number})", f"AVG({number})", f"MIN({number})",
                          f"MAX({number})", f"COUNT(DISTINCT {number})", f"SUM(DISTINCT {number})",
                          f"STDDEV({number})", f"VARIANCE({number})",
                          f"COUNT(*) FILTER (WHERE {self.condition(columns)})"])  # fmt: skip

    def rows(self) -> str:
        text, columns, keys = self.source()
        extra = [self.number(columns) for _ in range(self.random.randrange(3))]
        keys = [f"COALESCE({k}, {self.default(k, columns)})" if self.maybe(0.0) else k for k in keys]
        return f"SELECT {self.named(keys + extra)} FROM {text}"

    @staticmethod
    def default(name: str, columns: list[tuple[str, str]]) -> str:
        return "''" if dict(columns)[name] == "text" else "0"

    def groups(self) -> str:
        text, columns, _ = self.source()
        group = [self.pick([n for n, _ in columns]) for _ in range(1 + self.random.randrange(2))]
        if self.maybe(0.3):
            group[0] = self.number(columns)
        group = list(dict.fromkeys(group))
        kept = [self.aggregate(columns) for _ in range(1 + self.random.randrange(3))]
        having = (
            f" HAVING {self.pick(['COUNT(*) > 1', f'SUM({self.number(columns)}) > 2'])}"
            if self.maybe(0.3)
            else ""
        )
        return f"SELECT {self.named(group + kept)} FROM {text} GROUP BY {', '.join(group)}{having}"

    def total(self) -> str:
        text, columns, _ = self.source()
        return f"SELECT {self.named([self.aggregate(columns) for _ in range(2)])} FROM {text}"

    def distinct(self) -> str:
        text, columns, _ = self.source()
        return f"SELECT DISTINCT {self.named([self.number(columns), self.pick([n for n, _ in columns])])} FROM {text}"

    def set(self) -> str:
        sides = []
        for _ in range(2):
            text, columns, _ = self.source(joins=1)
            sides.append(f"SELECT {self.pick(self.numbers(columns))} AS c0 FROM {text}")
        kind = self.pick(["UNION", "INTERSECT", "EXCEPT"])
        if self.maybe(0.4):
            kind = self.pick(["UNION ALL", "INTERSECT ALL", "EXCEPT ALL"])
            inner = f" {kind} ".join(sides)
            return f"SELECT c0, COUNT(*) AS n FROM ({inner}) AS u GROUP BY c0"
        return f" {kind} ".join(sides)

    def top(self) -> str:
        inner = self.pick([self.rows, self.groups])()
        width = inner.split(" FROM ")[0].count(" AS c")
        order = [f"c{self.random.randrange(width)}{self.pick(['', ' DESC'])}"]
        order += [f"c{i}" for i in range(width)]
        text = ", ".join(dict.fromkeys(order))
        return f"SELECT * FROM ({inner}) AS i ORDER BY {text} LIMIT {1 + self.random.randrange(4)}"

    def nested(self) -> str:
        inner = self.groups()
        width = inner.split(" FROM ")[0].count(" AS c")
        last = f"c{width - 1}"
        return f"SELECT {last}, COUNT(*) AS n, MIN(c0) AS low FROM ({inner}) AS i GROUP BY {last}"


class Base:
    """The tables' rows, with random changes; an epoch is a batch of them, combined."""

    SPACE = "r"

    def __init__(self, random: Random, tables: Mapping[str, BaseTable] = TABLES) -> None:
        self.random = random
        self.tables = tables
        self.rows: dict[str, dict[tuple, tuple]] = {name: {} for name in tables}

    def epoch(self, size: int) -> dict[str, Counter]:
        changes: dict[str, Counter] = {name: Counter() for name in self.tables}
        for _ in range(size):
            name = sorted(self.tables)[self.random.randrange(len(self.tables))]
            table, rows = self.tables[name], self.rows[name]
            key = tuple(self.value(dict(table.columns)[k], solid=True) for k in table.key)
            old = rows.pop(key, None)
            if old is not None:
                changes[name][old] -= 1
            if old is None or self.random.random() < 0.6:
                rest = [self.value(t) for n, t in table.columns if n not in table.key]
                rows[key] = (*key, *rest)
                changes[name][rows[key]] += 1
        return {name: Counter({r: c for r, c in change.items() if c}) for name, change in changes.items()}

    def value(self, kind: str, *, solid: bool = False) -> object:
        if not solid and self.random.random() < 0.2:
            return None
        if kind == "text":
            return WORDS[self.random.randrange(4 if solid else len(WORDS))]
        number = self.random.randrange(5)
        if kind == "decimal":
            return Decimal(number * 50).scaleb(-2)
        return {"double": number / 2, "date": date(2024, 1, 1 + number), "boolean": number > 2}.get(
            kind, number
        )

    def as_rows(self) -> dict[str, list[dict]]:
        return {
            name: [
                dict(zip((n for n, _ in self.tables[name].columns), row, strict=True))
                for row in rows.values()
            ]
            for name, rows in self.rows.items()
        }

    def shown(self, view: DeclaredView) -> list[dict]:
        """Return DuckDB's rows of a view that a table can hold: no null in the key, no empty partition key."""
        return [row for row in self.answer(view.sql) if self.held(view, row)]

    @staticmethod
    def held(view: DeclaredView, row: dict) -> bool:
        """Say whether a table can hold a row."""
        (first, *more) = view.key.partition
        return all(row.get(k, 0) is not None for k in view.key.columns) and bool(more or row.get(first) != "")

    def answer(self, sql: str) -> list[dict]:
        """Run a query in DuckDB over the rows as they are."""
        connection = _duckdb()
        connection.execute(f"DROP SCHEMA IF EXISTS {self.SPACE} CASCADE; CREATE SCHEMA {self.SPACE}")
        for name, table in self.tables.items():
            connection.execute(
                f"CREATE TABLE {name} ({', '.join(f'{n} {DUCK.get(t, t)}' for n, t in table.columns)})"
            )
            if self.rows[name]:
                marks = ", ".join("?" for _ in table.columns)
                values = [value for row in self.rows[name].values() for value in row]
                connection.execute(
                    f"INSERT INTO {name} VALUES {', '.join(f'({marks})' for _ in self.rows[name])}", values
                )
        cursor = connection.execute(
            sqlglot.parse_one(sql, read="spark").transform(_steady).sql(dialect="duckdb")
        )
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _steady(node: exp.Expression) -> exp.Expression:
    """Round what DuckDB adds up in floats: the last digit depends on the order of rows, and groups by it differ."""
    floats = isinstance(node, exp.Variance | exp.Stddev)
    return exp.Round(this=node, decimals=exp.Literal.number(14)) if floats else node


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={"threads": 1}
    )  # because starting threads takes longer than these queries
    connection.execute(
        "PRAGMA disable_optimizer"
    )  # because it takes `CASE WHEN n > 1 THEN n ELSE 0 END IN (0, 1, 2)` for false where n is null
    return connection
