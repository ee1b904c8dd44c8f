"""Our decoder against Cassandra's own CommitLogReader: random schemas, every kind of write, identical changes."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra.cluster import Cluster

from cvs.capture.changes import Kind
from cvs.capture.folder import FolderFeed
from cvs.capture.node import NodeConnection
from cvs.capture.runner import Capture
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from tests.cluster.random_writes import RandomWrites
from tests.java import stock

pytestmark = pytest.mark.cluster

WRITES = int(os.environ.get("CVS_EXAMPLES", "2500"))  # ten nightly runs make a million
SEED = int(os.environ.get("CVS_SEED", "0"))
SECONDS_MAX = 60 + WRITES // 1000


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stock.compiled(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def node_of_version_8() -> Iterator[Node]:
    with EmbeddedCluster(size=1, yaml={"storage_compatibility_mode": "NONE"}) as cluster:
        yield cluster.nodes[0]


def agree(node: Node, classes: Path, folder: Path, *, seed: int, version: int) -> None:
    """Write, capture, read the same segments with the stock reader, compare line by line."""
    keyspace = f"differential{seed}"
    with Cluster([node.address], port=node.native_port) as cluster:
        session = cluster.connect()
        writes = RandomWrites(session, keyspace, seed)
        writes.write(WRITES)
        session.execute(f"CREATE TABLE {keyspace}.last (id int PRIMARY KEY) WITH cdc = true")
        session.execute(f"INSERT INTO {keyspace}.last (id) VALUES (1)")
    feed = FolderFeed(folder / "feed")
    capture = Capture(
        NodeConnection(node.address, node.native_port),
        feed,
        delete=False,
        wanted=lambda definition: definition.keyspace == keyspace,
    )
    ours: list[str] = []
    definitions = {}
    deadline = time.monotonic() + SECONDS_MAX
    while not any(d.name == "last" for d in definitions.values()) or not ours[-1].startswith("ROW"):
        assert time.monotonic() < deadline, "the last write never came"
        capture.catch_up()
        for change in feed.read(capture.stream, len(ours), 1_000_000):
            definition = feed.definition(change.definition)
            definitions[definition.id] = definition
            is_write = change.kind not in (Kind.SCHEMA, Kind.DROPPED)
            ours.append(stock.words(change, definition.id) if is_write else "")
    segments = sorted(node.cdc_raw.glob("CommitLog-*.log"))
    assert all(f"-{version}-" in path.name for path in segments)
    capture.close()
    feed.close()
    counts = stock.read(classes, definitions.values(), segments, folder / "stock.txt")
    theirs = (folder / "stock.txt").read_text().splitlines()
    assert counts["changes"] == len(theirs) > WRITES
    assert [line for line in ours if line] == theirs
    kinds = {line.split()[0] for line in theirs}
    assert kinds == {"ROW", "STATIC", "RANGE_DELETION", "PARTITION_DELETION"}


def test_version_7_on_the_shared_node(cassandra_node: Node, classes: Path, tmp_path: Path) -> None:
    agree(cassandra_node, classes, tmp_path, seed=SEED + 7, version=7)


def test_version_8(node_of_version_8: Node, classes: Path, tmp_path: Path) -> None:
    agree(node_of_version_8, classes, tmp_path, seed=SEED + 8, version=8)
