"""Nightly: three nodes restarted one by one, sidecars added and taken away, under a writer; then the judge.

`make nightly PART=rolling`, four minutes. Two sidecars at most run at once; every node has its own `cvs capture`.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cvs.client.control import read_control
from cvs.embedded.cluster import EmbeddedCluster
from cvs.errors import StoreError
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.captured_world import Writer, connected
from tests.cluster.operating import Deployment, settings

pytestmark = pytest.mark.cluster

VIEWS = """
CREATE MATERIALIZED VIEW seen.by_rest TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '4') AS
SELECT v % 7 AS rest, COUNT(*) AS n, SUM(v) AS total FROM rolling.t GROUP BY v % 7;
CREATE MATERIALIZED VIEW seen.positive TBLPROPERTIES ('cvs.level' = 'strong') AS
SELECT id, v FROM rolling.t WHERE v > 0;
"""
STATE = "rolling_state"
SECONDS_MAX = 900  # of one command: an audit beside three nodes on two cores


@pytest.fixture
def deployment(cassandra_cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[Deployment]:
    more = 'replication_factor = 3\n[spark]\nmaster = ""\n[http]\nport = 0\n'
    text = settings(*cassandra_cluster.nodes, state=STATE, published="seen", more=more)
    found = Deployment(tmp_path, text, seconds=SECONDS_MAX)
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
        deployment.apply(VIEWS)
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
            deployment.end("first")  # the first is taken away; the second goes on
            deployment.wait_said("second", "leads")
            writer.more(100)
            deployment.sidecar("third")
            deployment.kill("second")
            deployment.wait_said("third", "leads")
            _restart(cassandra_cluster, 2, writer)
        ended = time.time_ns() // 1000
        deployment.wait(lambda: _watermark(session) > ended, "the views to show the last write")
        deployment.cvs("verify", "--json")
        folders = [f"runs-{name}" for name in ("first", "second", "third")]
        audited = json.loads(deployment.cvs("audit", *folders, "--expect", "strong", "--json"))
        assert audited["result"]["files"][0]["epochs"][1] > 50
        deployment.end("third")
        deployment.cvs("uninstall", "--yes")


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
