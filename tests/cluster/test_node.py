"""A real node starts, keeps its data over kill -9, and dies with its parent."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from cassandra.cluster import Cluster, Session

from cvs.embedded.cluster import EmbeddedCluster

pytestmark = pytest.mark.cluster


def connect(cluster: EmbeddedCluster) -> Session:
    return Cluster(cluster.contact_points).connect()


def test_a_killed_node_keeps_what_was_acknowledged() -> None:
    """kill -9 and a start with the same data lose no acknowledged write."""
    with EmbeddedCluster(size=1) as cluster:
        session = connect(cluster)
        session.execute(
            "create keyspace k with replication={'class':'SimpleStrategy','replication_factor':1}"
        )
        session.execute("create table k.t (a int primary key)")
        for number in range(20):
            session.execute("insert into k.t (a) values (%s)", (number,))
        session.cluster.shutdown()
        node = cluster.nodes[0]
        node.kill()
        assert not node.running
        node.start()
        node.wait_ready()
        again = connect(cluster)
        assert again.execute("select count(*) from k.t").one()[0] == 20
        again.cluster.shutdown()
    assert not cluster.folder.exists()


def test_a_node_dies_with_its_parent(tmp_path: Path) -> None:
    """When the process that started a node is killed, nothing is left behind."""
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom cvs.embedded.cluster import EmbeddedCluster\n"
        f"c = EmbeddedCluster(folder=Path({str(tmp_path)!r}))\nc.nodes[0].start()\n"
        "print(c.nodes[0].process.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(50):
        if not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes():
            return
        time.sleep(0.1)
    raise AssertionError(f"node {child} outlived its parent")
