"""Case files in the manner of sqllogictest: base tables, views, writes, and what each view must show then.

    statement ok            CREATE TABLE, CREATE MATERIALIZED VIEW, or writes of base rows (run by DuckDB)
    statement error words   a view that is refused, and words of the refusal
    query                   SELECT ... FROM a view; ends the epoch of the writes before it
    ----                    the rows it must show, in any order, columns parted by |

The expected rows are written by hand; the view's own query in DuckDB must give them too.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

from cvs.errors import SpecificationError
from cvs.model.views import BaseTable
from cvs.plan.cql import tables_of_schema
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import DeclaredView, parse_views
from tests.plan.programs_run import ProgramsRun
from tests.plan.random_views import DUCK

FILES = sorted(Path(__file__).with_name("cases").glob("*.slt"))
KEYSPACE = "CREATE KEYSPACE r WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};"


@dataclass(slots=True)
class Runner:
    """One file: its tables in DuckDB, its views planned together at the first query."""

    schema: str = KEYSPACE
    tables: dict[str, BaseTable] = field(default_factory=dict)
    views: str = ""
    declared: tuple[DeclaredView, ...] = ()
    rows: dict[str, Counter] = field(default_factory=dict)
    run: ProgramsRun | None = None
    duck: Any = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        self.duck.execute("CREATE SCHEMA r; SET SCHEMA = 'r'; PRAGMA disable_optimizer")

    def statement(self, text: str) -> None:
        if text.startswith("CREATE TABLE"):
            self.schema += text + ";"
            self.tables = tables_of_schema(self.schema)
            self.duck.execute(re.sub(r"\w+", lambda word: DUCK.get(word[0], word[0]), text))
        elif text.startswith("CREATE"):
            assert self.run is None, "all views come before the first query"
            self.declared = parse_views(self.views + text + ";", self.tables)
            maintenance_plan(self.declared, self.tables)
            self.views += text + ";"
        else:
            self.duck.execute(text)

    def query(self, text: str, wanted: list[str], where: str) -> None:
        self.epoch()
        (name,) = re.findall(r"FROM (\S+)", text)
        (view,) = (view for view in self.declared if view.name == name)
        columns = [name for name, _ in view.columns if name != "only"]
        shown = self.run.published[name].values()
        assert sorted(" | ".join(_word(row[c]) for c in columns) for row in shown) == sorted(wanted), where
        if not any(scan in view.sql for scan in (v.name for v in self.declared if v is not view)):
            found = self.duck.execute(sqlglot.transpile(view.sql, read="spark", write="duckdb")[0]).fetchall()
            assert sorted(" | ".join(map(_word, row)) for row in found) == sorted(wanted), (
                f"{where}: by DuckDB"
            )

    def epoch(self) -> None:
        """All writes since the last query, as differences of the base tables."""
        self.run = self.run or ProgramsRun(
            maintenance_plan(self.declared, self.tables, Choices(buckets=4, by_cost=False))
        )
        changes = {}
        for name, table in self.tables.items():
            columns = ", ".join(column for column, _ in table.columns)
            found = self.duck.execute(f"SELECT {columns} FROM {name}").fetchall()
            now = Counter(tuple(_aware(value) for value in row) for row in found)
            changes[name] = Counter(now)
            changes[name].subtract(self.rows.get(name, Counter()))
            changes[name] = Counter({row: count for row, count in changes[name].items() if count})
            self.rows[name] = now
        self.run.epoch(changes)


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _word(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{float(value):.6g}" if not isinstance(value, str) and hasattr(value, "__float__") else str(value)


def run_file(path: Path) -> int:
    """Run a file; return how many queries it asked."""
    runner, queries, line = Runner(), 0, 1
    for block in re.split(r"\n\s*\n", path.read_text()):
        where, lines = (
            f"{path.name}:{line}",
            [it for it in block.strip().splitlines() if not it.startswith("#")],
        )
        line += block.count("\n") + 2
        if not lines:
            continue
        kind, _, rest = lines[0].partition(" ")
        if kind == "query":
            cut = lines.index("----")
            runner.query(" ".join(lines[1:cut]), lines[cut + 1 :], where)
            queries += 1
        elif rest.startswith("error"):
            with pytest.raises(SpecificationError) as refusal:
                runner.statement("\n".join(lines[1:]))
            assert rest.removeprefix("error ") in f"{refusal.value.what} {refusal.value.next_step}", where
        else:
            assert lines[0] == "statement ok", f"{where}: {lines[0]!r} is no command"
            runner.statement("\n".join(lines[1:]))
    return queries


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case_file(path: Path) -> None:
    assert run_file(path) > 0


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    text = FILES[0].read_text().replace("----\n", "----\nnot there | 1\n", 1)
    wrong = tmp_path / "wrong.slt"
    wrong.write_text(text)
    with pytest.raises(AssertionError, match=r"wrong\.slt:\d+"):
        run_file(wrong)
