"""Nightly: three nodes restarted one by one, sidecars added and taken away, under a writer; then the judge.

`make nightly PART=rolling`, four minutes. Two sidecars at most run at once; every node has its own `cvs capture`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cvs.client.control import read_control
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.processes import RunningProcess
from cvs.errors import StoreError
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.captured_world import Writer, connected, wait

pytestmark = pytest.mark.cluster

VIEWS = """
CREATE MATERIALIZED VIEW seen.by_rest TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '4') AS
SELECT v % 7 AS rest, COUNT(*) AS n, SUM(v) AS total FROM rolling.t GROUP BY v % 7;
CREATE MATERIALIZED VIEW seen.positive TBLPROPERTIES ('cvs.level' = 'strong') AS
SELECT id, v FROM rolling.t WHERE v > 0;
"""
STATE = "rolling_state"
SECONDS_MAX = 900  # of one command: an audit beside three nodes on two cores


class Deployment:
    """A folder with settings, and the processes an operator runs on it; they end with the test."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path) -> None:
        self.folder = folder
        points = ", ".join(f'"{node.address}"' for node in cluster.nodes)
        (folder / "views.sql").write_text(VIEWS)
        (folder / "cvs.toml").write_text(
            f"[cluster]\ncontact_points = [{points}]\nport = {cluster.native_port}\n"
            f'[views]\nstate_keyspace = "{STATE}"\npublished_keyspace = "seen"\nreplication_factor = 3\n'
            '[spark]\nmaster = ""\n[http]\nport = 0\n'
        )
        self.running: dict[str, RunningProcess] = {}

    def cvs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cvs", *arguments]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
        )

    def start(self, name: str, *arguments: str, **environment: str) -> None:
        words = [f"{key}={value}" for key, value in environment.items()]
        command = ["env", "-C", str(self.folder), *words, sys.executable, "-m", "cvs", *arguments]
        self.running[name] = RunningProcess.owned(command, output=self.folder / f"{name}.log")

    def sidecar(self, name: str) -> None:
        self.start(name, "run", CVS_RECORDING_FOLDER=f"recorded-{name}")
        self.wait(lambda: self.said(name, "ready"), f"{name} to be ready")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait as long as all goes on: a process that ended by itself is told at once, with its last words."""

        def met() -> bool:
            for name, process in self.running.items():
                assert process.alive, f"{name} ended: {self.said_last(name)}"
            return condition()

        try:
            wait(met, what)
        except AssertionError as fault:
            words = [f"{name}: {self.said_last(name)}" for name in self.running]
            raise AssertionError("\n".join([str(fault), *words])) from None

    def said_last(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-2000:]

    def said(self, name: str, event: str) -> bool:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return any(json.loads(line)["event"] == event for line in lines if line.startswith("{"))

    def close(self) -> None:
        for process in self.running.values():
            process.kill()


@pytest.fixture
def deployment(cassandra_cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(cassandra_cluster, tmp_path)
    yield found
    found.close()


def test_nothing_is_lost_and_the_level_is_kept(
    cassandra_cluster: EmbeddedCluster, deployment: Deployment
) -> None:
    nodes = cassandra_cluster.nodes
    address = ClusterAddress(
        contact_points=tuple(node.address for node in nodes), port=cassandra_cluster.native_port
    )
    with ExitStack() as closing:
        session = CassandraSession(address)
        closing.callback(session.close)
        session.define(
            "CREATE KEYSPACE rolling WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        closing.callback(session.define, "DROP KEYSPACE rolling")
        session.define("CREATE TABLE rolling.t (id int PRIMARY KEY, v int) WITH cdc = true")
        applied = deployment.cvs("apply", "views.sql", "--yes")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        for node in nodes:
            capture = ("--node", node.address, "--port", str(node.native_port), "--feed", "feed")
            deployment.start(f"capture{node.number}", "capture", *capture)
        deployment.sidecar("first")
        driver = closing.enter_context(connected(*nodes))
        with Writer(driver.connect(), "rolling.t", pause=0.1) as writer:
            writer.more(100)
            _restart(cassandra_cluster, 0, writer)
            deployment.sidecar("second")  # a second worker, and a node away
            _restart(cassandra_cluster, 1, writer)
            deployment.running.pop("first").end()  # the first is taken away; the second goes on
            deployment.wait(lambda: deployment.said("second", "leads"), "the second to lead")
            writer.more(100)
            deployment.sidecar("third")
            deployment.running.pop("second").kill()
            deployment.wait(lambda: deployment.said("third", "leads"), "the third to lead")
            _restart(cassandra_cluster, 2, writer)
        ended = time.time_ns() // 1000
        deployment.wait(lambda: _watermark(session) > ended, "the views to show the last write")
        verified = deployment.cvs("verify", "--json")
        assert verified.returncode == 0, verified.stdout[-2000:] + verified.stderr
        folders = [f"recorded-{name}" for name in ("first", "second", "third")]
        audited = deployment.cvs("audit", *folders, "--expect", "strong", "--json")
        assert audited.returncode == 0, audited.stdout[-2000:] + audited.stderr
        result = json.loads(audited.stdout)["result"]
        assert result["files"][0]["epochs"][1] > 50, os.linesep.join(folders)
        deployment.running.pop("third").end()
        removed = deployment.cvs("uninstall", "--yes")
        assert removed.returncode == 0, removed.stdout + removed.stderr


def _restart(cluster: EmbeddedCluster, index: int, writer: Writer) -> None:
    """Drain, stop and start a node, as an operator does, while writes and epochs go on."""
    cluster.nodes[index].stop()
    writer.more(50)
    cluster.nodes[index].restart()
    cluster.wait_joined()
    writer.more(50)


def _watermark(session: CassandraSession) -> int:
    try:
        return read_control(session, STATE).committed_watermark
    except StoreError:
        return 0
