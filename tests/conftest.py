"""Servers that tests share: booted once a session, on addresses of their own, gone afterwards."""

from collections.abc import Iterator

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from property_tests.profiles import load_profile

load_profile()


@pytest.fixture(scope="session")
def cassandra_node() -> Iterator[Node]:
    """One real node; make keyspaces of your own, leave settings alone."""
    with EmbeddedCluster(size=1) as cluster:
        yield cluster.nodes[0]


@pytest.fixture(scope="session")
def cassandra_cluster() -> Iterator[EmbeddedCluster]:
    """Three real nodes; who kills or pauses one brings it back."""
    with EmbeddedCluster(size=3) as cluster:
        yield cluster
