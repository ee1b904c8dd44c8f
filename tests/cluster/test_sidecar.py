"""The sidecar as an operator runs it: apply, run, write, status, verify, SIGTERM."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

VIEWS = """
CREATE MATERIALIZED VIEW side_views.by_region TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '4')
AS SELECT region, COUNT(*) AS orders, SUM(amount) AS turnover FROM side.orders GROUP BY region;
"""
LIVE_SECONDS_MAX = 120


def cvs(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cvs", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


@pytest.fixture(scope="module")
def session(cassandra_node: Node) -> Iterator[CassandraSession]:
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE side WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE side.orders (id int PRIMARY KEY, region text, amount int)")
    yield session
    session.close()


@pytest.fixture(scope="module")
def folder(cassandra_node: Node, session: CassandraSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sidecar")
    (folder / "views.sql").write_text(VIEWS)
    (folder / "cvs.toml").write_text(
        f'[cluster]\ncontact_points = ["{cassandra_node.address}"]\nport = {cassandra_node.native_port}\n'
        '[views]\nstate_keyspace = "side_state"\npublished_keyspace = "side_views"\n'
        f'[capture]\ncdc_raw = "{cassandra_node.cdc_raw}"\n'
        f"[http]\nport = {20_000 + os.getpid() % 20_000}\n"
    )
    return folder


def rows_of(session: CassandraSession) -> list[tuple[object, ...]]:
    return sorted(session.execute("SELECT region, orders, turnover FROM side_views.by_region"))


def test_views_follow_the_base_from_apply_to_the_end(folder: Path, session: CassandraSession) -> None:
    """Applied views become live, follow writes, verify right, show their status, and SIGTERM ends cleanly."""
    applied = cvs(folder, "apply", "views.sql", "--yes")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    with (folder / "run.log").open("wb") as log:
        sidecar = subprocess.Popen([sys.executable, "-m", "cvs", "run"], cwd=folder, stdout=log, stderr=log)
    try:
        for row in ((1, "EU", 10), (2, "EU", 5), (3, "US", 7)):
            session.execute("INSERT INTO side.orders (id, region, amount) VALUES (?, ?, ?)", row)
        session.execute("DELETE FROM side.orders WHERE id = 2")
        wanted: list[tuple[object, ...]] = [("EU", 1, 10), ("US", 1, 7)]
        end = time.monotonic() + LIVE_SECONDS_MAX
        while time.monotonic() < end and rows_of(session) != wanted and sidecar.poll() is None:
            time.sleep(0.5)
        assert rows_of(session) == wanted, (folder / "run.log").read_text()[-3000:]
        verified = cvs(folder, "verify", "--json")
        assert (verified.returncode, json.loads(verified.stdout)["result"][0]["differences"]) == (0, [])
        (view,) = json.loads(cvs(folder, "status", "--json").stdout)["result"]["views"]
        assert (view["name"], view["state"], view["row_count"]) == ("side_views.by_region", "live", 2)
    finally:
        sidecar.send_signal(signal.SIGTERM)
        code = sidecar.wait(60)
    assert code == 0, (folder / "run.log").read_text()[-3000:]
