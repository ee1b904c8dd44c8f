"""The story of the lost answer: the driver's default retry policy turns an applied test-and-set into "rejected".

A node executes a test-and-set, the connection breaks before its answer. The default policy asks the next node
the same again, whether or not a statement may be repeated; the condition no longer holds, because *we* changed
it, and the caller hears "rejected". With the rethrowing policy the caller hears "unknown", reads at SERIAL and
finds its own signature.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from cassandra.cluster import Cluster
from cassandra.policies import AddressTranslator, RetryPolicy

import cvs.store.session
from cvs.embedded.cluster import EmbeddedCluster, free_addresses
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import UNTOUCHED
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.proxy import LossyProxy, lossy

pytestmark = pytest.mark.cluster

MARK = b"the answer to this one gets lost"


class Translate(AddressTranslator):
    """Leads the driver, which learns the nodes' own addresses, back to the proxy."""

    def __init__(self, routes: dict[str, str]) -> None:
        self._routes = routes

    def translate(self, addr: str) -> str:
        return self._routes.get(addr, addr)


@pytest.fixture
def proxied(
    cassandra_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LossyProxy, ClusterAddress]]:
    nodes, port = cassandra_cluster.contact_points, cassandra_cluster.native_port
    fronts = free_addresses(len(nodes), (port,), chooser=random.SystemRandom())
    through = partial(
        Cluster, address_translator=Translate(dict(zip(nodes, fronts, strict=True))), compression=False
    )
    monkeypatch.setattr(cvs.store.session, "Cluster", through)
    with lossy(dict(zip(fronts, nodes, strict=True)), port) as proxy:
        yield proxy, ClusterAddress(contact_points=tuple(fronts), port=port)


@pytest.mark.parametrize(
    ("default_policy", "heard"), [(False, OutcomeKind.UNKNOWN), (True, OutcomeKind.REJECTED)]
)
def test_what_a_caller_hears_when_the_answer_is_lost(
    proxied: tuple[LossyProxy, ClusterAddress],
    monkeypatch: pytest.MonkeyPatch,
    default_policy: bool,
    heard: OutcomeKind,
) -> None:
    proxy, address = proxied
    if default_policy:
        monkeypatch.setattr(cvs.store.session, "FallthroughRetryPolicy", RetryPolicy)
    session = CassandraSession(address)
    try:
        session.define(
            "CREATE KEYSPACE IF NOT EXISTS policy WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        store = CassandraStore(session, keyspace="policy")
        store.create("t")
        place = PartitionId(table="t", key=(f"default={default_policy}",))
        store.test_and_set(TestAndSet(partition=place, expected=None, new=UNTOUCHED))

        proxy.lose_answer_to(MARK)
        mine = UNTOUCHED.absorbing("me", 1)
        outcome = store.test_and_set(
            TestAndSet(
                partition=place, expected=UNTOUCHED, new=mine, puts=((("r",), {"body": MARK.decode()}),)
            )
        )

        assert proxy.lost == 1, "the fault did not happen, so this shows nothing"
        assert store.read(place, serial=True).signature == mine, "it was applied, whatever the caller heard"
        assert outcome.kind is heard
    finally:
        session.close()


def test_a_busy_node_may_take_its_time_to_tell_the_schema(
    proxied: tuple[LossyProxy, ClusterAddress],
) -> None:
    """The driver's own two seconds for it ended processes that began while a node had much to do."""
    proxy, address = proxied
    proxy.keep_answer_to(b"system_schema.tables", 3.0)
    session = CassandraSession(replace(address, contact_points=address.contact_points[:1]))
    try:
        assert session.execute("SELECT cluster_name FROM system.local")
        assert proxy.lost == 1, "nothing was kept back, so this shows nothing"
    finally:
        session.close()
