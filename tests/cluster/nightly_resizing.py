"""Nightly: Spark workers come and go under `cvs run`, a standby takes over, a view moves to a second pipeline.

Under a writer and bursts so large that Spark's tasks carry them; then the judge. `make nightly PART=resizing`, four
minutes.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra.concurrent import execute_concurrent_with_args

from cvs.client.control import read_control
from cvs.embedded.node import Node
from cvs.errors import StoreError
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.pipeline import SPREAD_FROM
from tests.cluster.operating import Deployment, settings, writing
from tests.spark.standalone import StandaloneSpark

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

BY_REST = """
CREATE MATERIALIZED VIEW {space}.by_rest TBLPROPERTIES ('cvs.level' = 'strong') AS
SELECT v % 101 AS rest, COUNT(*) AS n, SUM(v) AS total FROM sized.t GROUP BY v % 101;
"""
EVEN = """
CREATE MATERIALIZED VIEW {space}.even TBLPROPERTIES ('cvs.level' = 'strong') AS
SELECT id, v FROM sized.t WHERE v % 2 = 0;
"""
BURST = SPREAD_FROM + 1_000
SINGLY_SECONDS = 5
SECONDS_MAX = 900  # of one command or wait: an audit beside a node and Spark on two cores
MORE = """
[capture]
cdc_raw = "{raw}"
[feed]
name = "{feed}"
[spark]
master = "{spark}"
[http]
port = 0
"""


def pipeline(folder: Path, node: Node, *, name: str, spark: str, captures: bool) -> Deployment:
    more = MORE.format(raw=node.cdc_raw if captures else "", feed=folder / "feed", spark=spark)
    text = settings(node, state=f"sized_state_{name}", published=name, more=more)
    return Deployment(folder / name, text, seconds=SECONDS_MAX)


class World:
    """A base table, a writer that never rests, and bursts that one epoch takes whole."""

    def __init__(self, session: CassandraSession) -> None:
        self.session, self.written = session, 0

    def write(self, number: int) -> None:
        self.session.execute("INSERT INTO sized.t (id, v) VALUES (?, ?)", (number % 500, number))

    def burst(self, deployment: Deployment) -> None:
        """Let so many changes wait that Spark's tasks carry them, then go on; return when all are shown."""
        deployment.cvs("pause", "--all", "--within", str(SECONDS_MAX))
        insert = self.session.prepared("INSERT INTO sized.t (id, v) VALUES (?, ?)")
        rows = ((n % 20_000, n) for n in range(self.written, self.written + BURST))
        execute_concurrent_with_args(self.session.driver, insert, rows, concurrency=64)
        self.written += BURST
        ended = time.time_ns() // 1000
        deployment.cvs("resume", "--all")
        self.shown(deployment, ended)

    def shown(self, deployment: Deployment, moment: int) -> None:
        def passed() -> bool:
            try:
                return read_control(self.session, deployment.state).committed_watermark > moment
            except StoreError:
                return False

        deployment.wait(passed, "the views to show what was written")


def said(spark: StandaloneSpark, worker: int, words: str) -> int:
    """Count how often the executors of a worker said something."""
    logs = spark.work(worker).glob("app-*/*/stderr")
    return sum(log.read_text().count(words) for log in logs)


def tasks_of(spark: StandaloneSpark, worker: int) -> int:
    """Count the tasks that the executors of a worker began."""
    return said(spark, worker, "Running task")


def audited(deployment: Deployment, *recordings: str, last: int) -> None:
    folders = [f"runs-{name}" for name in recordings]
    deployment.cvs("audit", *folders, "--expect", "strong", "--last", str(last), "--json")


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneSpark]:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.executor.memory 512m\nspark.executor.cores 1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    spark = StandaloneSpark(tmp_path)
    try:
        yield spark
    finally:
        spark.close()


def test_workers_a_standby_and_a_second_pipeline(
    cassandra_node: Node, spark: StandaloneSpark, tmp_path: Path
) -> None:
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE sized WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE sized.t (id int PRIMARY KEY, v int)")
    spark.add()
    one = pipeline(tmp_path, cassandra_node, name="one", spark=spark.url, captures=True)
    two = pipeline(tmp_path, cassandra_node, name="two", spark="", captures=False)
    world = World(session)
    try:
        one.apply(BY_REST.format(space="one"), EVEN.format(space="one"))
        one.sidecar("first")
        with writing(world.write, pause=0.02):
            world.burst(one)
            assert tasks_of(spark, 1) > 0
            spark.add(2)
            one.wait(lambda: all(said(spark, n, "registered with driver") for n in (2, 3)), "new executors")
            world.burst(one)
            assert all(tasks_of(spark, worker) > 0 for worker in (1, 2, 3)), "all three carry it"
            spark.remove(0)
            world.burst(one)
            one.sidecar("standby")
            one.kill("first")
            one.wait_said("standby", "leads")
            before = tasks_of(spark, 2) + tasks_of(spark, 3)
            world.burst(one)
            assert tasks_of(spark, 2) + tasks_of(spark, 3) > before, "the standby's Spark carries it"
            audited(one, "first", "standby", last=BURST)  # a burst in one epoch, by several workers' tasks
            two.apply(EVEN.format(space="two"))
            two.sidecar("second")
            two.wait_said("second", "leads")
            two.cvs("apply", "views.sql", "--wait")
            one.apply(BY_REST.format(space="one"), prune=True)
            one.cvs("apply", "views.sql", "--wait")
            world.burst(two)
            time.sleep(SINGLY_SECONDS)  # of writes one by one: what is judged at the end
        ended = time.time_ns() // 1000
        for deployment, recordings in ((one, ("first", "standby")), (two, ("second",))):
            world.shown(deployment, ended)
            (report,) = json.loads(deployment.cvs("verify", "--json"))["result"]
            assert (report["differences"], report["found_count"] > 50) == ([], True)
            audited(deployment, *recordings, last=100)
        two.end("second")
        two.cvs("uninstall", "--yes")
        one.end("standby")
        one.cvs("uninstall", "--yes")
        assert any((tmp_path / "feed").iterdir()), "the feed is the operator's own"
    finally:
        one.close()
        two.close()
        session.close()
