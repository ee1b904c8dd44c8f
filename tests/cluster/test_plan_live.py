"""The planner and a real node: tables sampled, rates measured, and random views kept on real Cassandra."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from cassandra.concurrent import execute_concurrent_with_args
from click.testing import CliRunner

from cvs.cli import group
from cvs.embedded.node import Node
from cvs.store.observed import observe
from cvs.store.schema import base_tables
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.door import CassandraDoor
from cvs.stream.tables import Names, create
from tests.plan.faulty_run import PipelineRun
from tests.plan.test_random_levels import planned
from tests.plan.tpch.data import comparable

pytestmark = pytest.mark.cluster
ROWS = 4_000
VIEWS = 8


@pytest.fixture
def session(cassandra_node: Node) -> Iterator[CassandraSession]:
    address = ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    session = CassandraSession(address)
    yield session
    session.close()


def shop(session: CassandraSession) -> str:
    """A keyspace with one table of known contents."""
    space = f"plan_{uuid4().hex[:8]}"
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.define(f"CREATE KEYSPACE {space} WITH replication = {replication}")
    session.define(f"CREATE TABLE {space}.orders (id int PRIMARY KEY, region text, total int, day date)")
    put = session.prepared(f"INSERT INTO {space}.orders (id, region, total, day) VALUES (?, ?, ?, ?)")
    rows = [(n, f"region {n % 7}", n % 500, date(2024, 1, 1) + timedelta(n % 100)) for n in range(ROWS)]
    execute_concurrent_with_args(session.driver, put, rows, concurrency=64)
    return space


def test_a_sample_tells_rows_different_values_and_bounds(session: CassandraSession) -> None:
    space = shop(session)
    table = base_tables(session)[f"{space}.orders"]
    whole, part = observe(session, [table]), observe(session, [table], sample=1_000)
    assert whole.rows == {table.name: ROWS}
    assert whole.distinct[f"{table.name}.region"] == 7
    assert whole.bounds[f"{table.name}.total"] == (0, 499)
    assert whole.bounds[f"{table.name}.day"] == (date(2024, 1, 1), date(2024, 4, 9))
    assert part.rows[table.name] == pytest.approx(ROWS, rel=0.25)
    assert part.distinct[f"{table.name}.id"] == pytest.approx(ROWS, rel=0.25)
    assert part.distinct[f"{table.name}.total"] == pytest.approx(500, rel=0.25)


def test_explain_analyze_measures_updates_of_the_live_tables(
    session: CassandraSession, cassandra_node: Node, tmp_path: Path
) -> None:
    space, stop, written = shop(session), threading.Event(), [0]

    def write() -> None:
        put = session.prepared(f"INSERT INTO {space}.orders (id, region) VALUES (?, 'Graz')")
        while not stop.wait(0.01):
            session.driver.execute(put, (written[0],))
            written[0] += 1

    views = tmp_path / "views.sql"
    views.write_text(
        f"CREATE MATERIALIZED VIEW {space}.v AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region"
    )
    settings = tmp_path / "cvs.toml"
    settings.write_text(
        f'[cluster]\ncontact_points = ["{cassandra_node.address}"]\nport = {cassandra_node.native_port}\n'
    )
    options = ["--settings", str(settings), "--keyspace", space, "--analyze", "--seconds", "2", "--json"]
    writer = threading.Thread(target=write)
    writer.start()
    try:
        result = CliRunner().invoke(group, ["explain", str(views), *options])
    finally:
        stop.set()
        writer.join()
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["result"]
    rate = found["measured"]["updates_per_second"][f"{space}.orders"]
    assert 5 < rate < 100
    assert found["measured"]["pipeline"] is None
    (stage,) = found["zones"][0]["stages"]
    assert stage["state_rows"] == 8, (
        "seven regions and Graz were sampled; without a sample it would be a guess"
    )


def test_random_views_are_kept_on_cassandra(session: CassandraSession) -> None:
    """Random schemas and views; drivers die between requests and wake up as zombies; the rows are DuckDB's."""
    kept = 0
    for seed in range(9_000, 9_000 + 2 * VIEWS):
        random = Random(seed)
        case = planned(random)
        if case is None or kept == VIEWS:
            continue
        view, plan, base = case
        space = f"random_{uuid4().hex[:8]}"
        (publication,) = plan.publications
        plan = replace(plan, publications=(replace(publication, table=f"{space}.v"),))
        names = Names(keyspace=space)
        create(session, plan, names)
        door: Any = CassandraDoor(session, keyspace=space, publications={f"{space}.v": plan.publications[0]})
        run = PipelineRun(plan, random, door=door, names=names)
        columns = [name for name, _ in view.columns]
        compared = [name for name in columns if name != "only"]
        for epoch in range(3):
            run.write(base.epoch(random.randrange(10)))
            run.epoch()
            rows = session.driver.execute(f"SELECT {', '.join(columns)} FROM {space}.v")
            shown = [dict(zip(columns, map(plain, row), strict=True)) for row in rows]
            wanted = base.shown(view)
            assert comparable(shown, compared) == comparable(wanted, compared), (
                f"seed {seed}, epoch {epoch}: {view.sql}"
            )
        run.finish()
        session.define(f"DROP KEYSPACE {space}")
        kept += 1
    assert kept == VIEWS


def plain(value: Any) -> Any:
    """Return Python's date for the driver's."""
    return value.date() if hasattr(value, "date") and callable(value.date) else value
