"""Nightly: Spark workers come and go under `cvs run`, a standby takes over, a view moves to a second pipeline.

Under a writer and bursts so large that Spark's tasks carry them; then the judge. `make nightly PART=resizing`, four
minutes.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cassandra.concurrent import execute_concurrent_with_args

from cvs.client.control import read_control
from cvs.embedded.node import Node
from cvs.embedded.processes import RunningProcess
from cvs.errors import StoreError
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.pipeline import SPREAD_FROM
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
SECONDS_MAX = 900  # of one command or wait: an audit beside a node and Spark on two cores
SETTINGS = """
[cluster]
contact_points = ["{node.address}"]
port = {node.native_port}
[views]
state_keyspace = "sized_state_{name}"
published_keyspace = "{name}"
[capture]
cdc_raw = "{raw}"
[feed]
name = "{feed}"
[spark]
master = "{spark}"
[http]
port = 0
"""


def wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.2)


class Deployment:
    """One pipeline: a folder with settings, and the processes of an operator."""

    def __init__(self, folder: Path, node: Node, *, name: str, spark: str, captures: bool) -> None:
        self.folder, self.state = folder / name, f"sized_state_{name}"
        self.folder.mkdir()
        text = SETTINGS.format(
            node=node,
            name=name,
            raw=node.cdc_raw if captures else "",
            feed=folder / "feed",
            spark=spark,
        )
        (self.folder / "cvs.toml").write_text(text)
        self.running: dict[str, RunningProcess] = {}

    def cvs(self, *arguments: str, fails: bool = False) -> str:
        command = [sys.executable, "-m", "cvs", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
        )
        assert fails or done.returncode == 0, done.stdout[-3000:] + done.stderr
        return done.stdout

    def apply(self, *views: str, prune: bool = False) -> None:
        (self.folder / "views.sql").write_text("".join(views))
        self.cvs("apply", "views.sql", "--yes", *(["--prune"] if prune else []))

    def start(self, name: str) -> None:
        words = [f"CVS_RECORDING_FOLDER=runs-{name}", sys.executable, "-m", "cvs", "run"]
        command = ["env", "-C", str(self.folder), *words]
        self.running[name] = RunningProcess.owned(command, output=self.folder / f"{name}.log")
        wait(lambda: self.said(name, "ready"), f"{name} to be ready")

    def said(self, name: str, event: str) -> bool:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return any(json.loads(line)["event"] == event for line in lines if line.startswith("{"))

    def close(self) -> None:
        for process in self.running.values():
            process.end()


class World:
    """A base table, a writer that never rests, and bursts that one epoch takes whole."""

    def __init__(self, session: CassandraSession) -> None:
        self.session, self.written, self._ended = session, 0, threading.Event()
        self._thread = threading.Thread(target=self._write)

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()

    def _write(self) -> None:
        while not self._ended.wait(0.02):
            self.written += 1
            row = (self.written % 500, self.written)
            self.session.execute("INSERT INTO sized.t (id, v) VALUES (?, ?)", row)

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

        wait(passed, "the views to show what was written")


def tasks_of(spark: StandaloneSpark, worker: int) -> int:
    """Count the tasks that the executors of a worker began."""
    logs = spark.work(worker).glob("app-*/*/stderr")
    return sum(log.read_text().count("Running task") for log in logs)


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
    one = Deployment(tmp_path, cassandra_node, name="one", spark=spark.url, captures=True)
    two = Deployment(tmp_path, cassandra_node, name="two", spark="", captures=False)
    world = World(session)
    try:
        one.apply(BY_REST.format(space="one"), EVEN.format(space="one"))
        one.start("first")
        with world.writing():
            world.burst(one)
            assert tasks_of(spark, 1) > 0
            spark.add(2)
            wait(lambda: all(any(spark.work(n).glob("app-*/*/stderr")) for n in (2, 3)), "new executors")
            world.burst(one)
            assert all(tasks_of(spark, worker) > 0 for worker in (1, 2, 3)), "all three carry it"
            spark.remove(0)
            world.burst(one)
            one.start("standby")
            one.running["first"].kill()
            wait(lambda: one.said("standby", "leads"), "the standby to lead")
            before = tasks_of(spark, 2) + tasks_of(spark, 3)
            world.burst(one)
            assert tasks_of(spark, 2) + tasks_of(spark, 3) > before, "the standby's Spark carries it"
            two.apply(EVEN.format(space="two"))
            two.start("second")
            wait(lambda: two.said("second", "leads"), "the second pipeline to lead")
            two.cvs("apply", "views.sql", "--wait")
            one.apply(BY_REST.format(space="one"), prune=True)
            one.cvs("apply", "views.sql", "--wait")
            world.burst(two)
        ended = time.time_ns() // 1000
        for deployment, recordings in ((one, ("first", "standby")), (two, ("second",))):
            world.shown(deployment, ended)
            (report,) = json.loads(deployment.cvs("verify", "--json"))["result"]
            assert (report["differences"], report["found_count"] > 50) == ([], True)
            folders = [f"runs-{name}" for name in recordings]
            deployment.cvs("audit", *folders, "--expect", "strong", "--last", "100", "--json")
        for deployment in (two, one):
            deployment.close()
            deployment.cvs("uninstall", "--yes")
        assert any((tmp_path / "feed").iterdir()), "the feed is the operator's own"
    finally:
        one.close()
        two.close()
        session.close()
