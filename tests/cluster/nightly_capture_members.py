"""Nightly: nodes join, move, leave and are replaced under a writer; no change is lost, or a gap says so.

`make nightly PART=capture-members`, two minutes; `PART=capture-replace`, five.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import Session

from cvs.capture.feed import ENDED
from cvs.capture.folder import FolderFeed
from cvs.cli import run
from cvs.embedded.cluster import EmbeddedCluster, free_addresses, free_management_ports
from cvs.embedded.configuration import STORAGE_PORT, NodeSettings, Place
from cvs.embedded.node import Node
from tests.cluster.captured_world import Captures, Writer, connected, gaps, merged, stored, wait, watermark

pytestmark = pytest.mark.cluster

TABLE = "members.t"
QUARTER = 1 << 62


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two nodes; a test adds more to `nodes`, which end with them."""
    addresses = free_addresses(4, (9042, STORAGE_PORT), chooser=random.SystemRandom())
    with EmbeddedCluster(size=2, quick=True, addresses=addresses[:2]) as found:
        yield found


@pytest.fixture
def session(cluster: EmbeddedCluster) -> Iterator[Session]:
    with connected(*cluster.nodes, consistency=ConsistencyLevel.ONE) as driver:
        found = driver.connect()
        found.execute(
            "CREATE KEYSPACE members WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}"
        )
        found.execute(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, v int) WITH cdc = true")
        yield found


def another(cluster: EmbeddedCluster, number: int, *, token: int | None, jvm: tuple[str, ...] = ()) -> Node:
    """Make a node that joins the running ones."""
    first = cluster.nodes[0]
    prefix = first.address.rsplit(".", 1)[0]
    place = Place(
        number=number,
        cluster_size=number,
        address=f"{prefix}.{number}",
        seeds=(first.address,),
        management_port=free_management_ports(1, chooser=random.SystemRandom())[0],
        folder=cluster.folder / f"node{number}",
    )
    yaml = {"auto_bootstrap": True, "initial_token": None if token is None else str(token)}
    node = Node(place=place, settings=NodeSettings(quick=True, yaml=yaml, jvm=jvm), cluster_name="cvs")
    cluster.nodes.append(node)
    node.start()
    node.wait_ready()
    return node


def reckon(captures: Captures, session: Session) -> None:
    """Wait until all streams passed the end of the writing; then nothing may be missing."""
    ended = time.time_ns() // 1000
    wait(lambda: watermark(captures.folder) > ended, "the watermark to pass the end")
    assert merged(captures.folder, TABLE) == stored(session, TABLE)


def test_join_move_and_decommission(cluster: EmbeddedCluster, session: Session, tmp_path: Path) -> None:
    captures = Captures(tmp_path / "feed", "members")
    try:
        for node in cluster.nodes:
            captures.begin(node)
        with Writer(session, TABLE) as writer:
            writer.more()
            joined = another(cluster, 3, token=QUARTER)
            writer.more()  # capture comes late to a node that joined
            captures.begin(joined)
            writer.more()
            joined.nodetool("move", str(-QUARTER), seconds=300)  # it takes over rows it never had
            writer.more()
            joined.nodetool("decommission", "--force", seconds=300)
            writer.more()
            joined.kill()
            captures.finish(joined, asked=cluster.nodes[0])
            writer.more()
        reckon(captures, session)
        assert FolderFeed(captures.folder).head(captures.streams[joined.address]).clock == ENDED
        assert gaps(captures.folder) == []
    finally:
        captures.end()


@pytest.mark.parametrize("disk", ["there", "lost"])
def test_replace_a_dead_node(cluster: EmbeddedCluster, session: Session, tmp_path: Path, disk: str) -> None:
    captures = Captures(tmp_path / "feed", "members")
    try:
        for node in cluster.nodes:
            captures.begin(node)
        with Writer(session, TABLE) as writer:
            writer.more()
            dead = another(cluster, 3, token=QUARTER)
            captures.begin(dead)
            writer.more()
            captures.end(dead)  # what it takes from now on stands in its cdc_raw only
            writer.more()
            dead.kill()
            replacing = f"-Dcassandra.replace_address_first_boot={dead.address}"
            fresh = another(cluster, 4, token=None, jvm=(replacing,))
            captures.begin(fresh)
            writer.more()
            stream = captures.streams[dead.address]
            if disk == "there":
                captures.finish(dead, asked=cluster.nodes[0])
            else:
                assert run(["feed", "end", str(captures.folder), "--stream", stream]) == 0
            writer.more()
        fresh.nodetool("repair", "-full", "members", seconds=300)
        reckon(captures, session)
        assert FolderFeed(captures.folder).head(stream).clock == ENDED
        assert len(gaps(captures.folder)) == (disk == "lost")
    finally:
        captures.end()
