"""Three real nodes under a writer: a node down and back, the replication factor raised; no change is lost."""

import time
from pathlib import Path

import pytest

from cvs.capture.changes import Kind
from cvs.capture.folder import FolderFeed
from cvs.embedded.cluster import EmbeddedCluster
from tests.cluster.captured_world import Captures, Writer, connected, gaps, merged, stored, wait, watermark

pytestmark = pytest.mark.cluster


def test_a_node_down_and_more_replicas_lose_nothing(
    cassandra_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """RF 2, a node killed and back with old writes (hints, repair), then RF 3 and repair, writes all the time."""
    first, _, third = cassandra_cluster.nodes
    captures = Captures(tmp_path / "feed", "replicas")
    with connected(*cassandra_cluster.nodes) as cluster:
        session = cluster.connect()
        session.execute(replication("CREATE", 2))
        session.execute("CREATE TABLE replicas.t (id int PRIMARY KEY, v int) WITH cdc = true")
        try:
            for node in cassandra_cluster.nodes:
                captures.begin(node)
            with Writer(session, "replicas.t") as writer:
                writer.more(50)
                session.execute(replication("ALTER", 3))
                third.kill()
                down = time.time_ns() // 1000
                writer.more(150)
                wait(
                    lambda: watermark(captures.folder) > down,
                    "clocks: a node that is down acknowledges nothing",
                )
                third.restart()
                cassandra_cluster.wait_joined()
                writer.more(50)
            first.nodetool("repair", "-full", "replicas")
            ended = time.time_ns() // 1000
            wait(lambda: watermark(captures.folder) > ended, "the watermark to pass the end")
        finally:
            captures.end()
        assert merged(captures.folder, "replicas.t") == stored(session, "replicas.t")
        assert ids_of(captures, third.address) >= set(stored(session, "replicas.t")), (
            "repair came through the log"
        )
        assert gaps(captures.folder) == []
        session.execute("DROP KEYSPACE replicas")


def replication(verb: str, factor: int) -> str:
    strategy = f"{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"
    return f"{verb} KEYSPACE replicas WITH replication = {strategy}"


def ids_of(captures: Captures, address: str) -> set[int]:
    changes = FolderFeed(captures.folder).read(captures.streams[address], 0, 10_000_000)
    return {int.from_bytes(c.key, "big", signed=True) for c in changes if c.kind == Kind.ROW}
