"""Real parts shared by the whole test session: booted at first use, gone at the end."""

from collections.abc import Iterator

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.namespaces import namespaces_work
from cvs.embedded.node import Node


@pytest.fixture(scope="session")
def cassandra_node() -> Iterator[Node]:
    """One real node with CDC on, shared: make keyspaces of your own, leave the node running."""
    with EmbeddedCluster(size=1, quick=True) as cluster:
        yield cluster.nodes[0]


@pytest.fixture(scope="session")
def cassandra_cluster() -> Iterator[EmbeddedCluster]:
    """Three real nodes, cuttable where namespaces work: heal, resume and restart what you disturb."""
    with EmbeddedCluster(size=3, quick=True, private_network=namespaces_work()) as cluster:
        yield cluster
