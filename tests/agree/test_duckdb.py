"""The evaluator and recompute agree with DuckDB, which shares no code with them, on random data."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from cvs.model.expressions import Expression, compile_expression
from cvs.model.recompute import bag, recompute
from cvs.model.views import ViewDefinition
from property_tests import strategies
from tests.agree import duckdb_sql

COLUMNS = tuple((f"r.{name}", kind) for name, kind in strategies.R.columns)
QUIET = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """One database for all examples; each fills it anew."""
    connection = duckdb_sql.connect(strategies.TABLES)
    yield connection
    connection.close()


def counted(rows: list[Any]) -> Counter[Any]:
    """Count rows, values in comparable form."""
    return Counter(tuple(map(duckdb_sql.comparable, row)) for row in rows)


def agrees(database: duckdb.DuckDBPyConnection, relation: Any, base: dict[str, Any]) -> None:
    """Ask both and compare the bags."""
    duckdb_sql.fill(database, strategies.TABLES, base)
    theirs = database.execute(duckdb_sql.relation(relation, strategies.TABLES)).fetchall()
    ours = [tuple(row.values()) for row in bag(relation, base, strategies.TABLES)]
    event(f"{type(relation).__name__}, {'some' if ours else 'no'} rows")
    assert counted(ours) == counted(theirs)


def expressions() -> st.SearchStrategy[Expression]:
    """Expressions of every type over the columns of one table."""
    kinds = sorted({kind for _, kind in COLUMNS})
    return st.one_of(
        strategies.predicates(COLUMNS),
        *(strategies.scalars(COLUMNS, kind) for kind in kinds),
    )


def check_expression(database: duckdb.DuckDBPyConnection, tree: Expression, base: dict[str, Any]) -> None:
    """Compare an expression row by row."""
    duckdb_sql.fill(database, strategies.TABLES, base)
    scan = duckdb_sql.relation(strategies.Scan(table="r", alias="r"), strategies.TABLES)
    query = f'SELECT "r.k", {duckdb_sql.expression(tree)} FROM ({scan})'
    theirs = database.execute(query).fetchall()
    compiled = compile_expression(tree)
    rows = [{f"r.{n}": value for n, value in row.items()} for row in base["r"]]
    assert counted([(row["r.k"], compiled(row)) for row in rows]) == counted(theirs)


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(tree=expressions(), base=strategies.bases())
def test_expressions_agree(database: duckdb.DuckDBPyConnection, tree: Expression, base: Any) -> None:
    """Null logic, NaN, exact decimals, texts and dates."""
    check_expression(database, tree, base)


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(typed=strategies.relations(), base=strategies.bases())
def test_relations_agree(
    database: duckdb.DuckDBPyConnection, typed: strategies.Typed, base: dict[str, Any]
) -> None:
    """Every class of relation, composed."""
    agrees(database, typed.relation, base)


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(view=strategies.views(), base=strategies.bases())
def test_each_view_class_agrees_and_its_key_holds(
    database: duckdb.DuckDBPyConnection, view: ViewDefinition, base: dict[str, Any]
) -> None:
    """The keyed form has as many records as the bag has rows."""
    agrees(database, view.relation, base)
    assert len(recompute(view, base, strategies.TABLES)) == len(bag(view.relation, base, strategies.TABLES))


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=QUIET)
@given(typed=strategies.relations(depth=4), base=strategies.bases(size=10))
def test_many_relations_agree(
    database: duckdb.DuckDBPyConnection, typed: strategies.Typed, base: dict[str, Any]
) -> None:
    """The same, deeper and longer."""
    agrees(database, typed.relation, base)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=QUIET)
@given(tree=expressions(), base=strategies.bases())
def test_many_expressions_agree(
    database: duckdb.DuckDBPyConnection, tree: Expression, base: dict[str, Any]
) -> None:
    """The same, longer."""
    check_expression(database, tree, base)
