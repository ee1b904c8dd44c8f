"""The contract holds for memory, for one real node and for three."""

import socket
from collections.abc import Iterator

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.errors import StoreError
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import UNTOUCHED
from cvs.store.cassandra import CassandraStore
from cvs.store.memory import MemoryStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession, ClusterAddress
from tests.store.contract import StoreContract

BASE = "contract_base.orders"


class TestMemory(StoreContract):
    """The in-memory store."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        store = MemoryStore()
        store.base[BASE] = {(1,): {"id": 1, "region": "EU"}, (2,): {"id": 2, "region": "US"}}
        return store

    @pytest.fixture
    def table(self) -> str:
        return "contract"

    @pytest.fixture
    def base_table(self) -> str:
        return BASE


def cassandra_store(contact_points: tuple[str, ...], *, replicas: int) -> Iterator[CassandraStore]:
    session = CassandraSession(ClusterAddress(contact_points=contact_points))
    for keyspace in ("contract", "contract_base"):
        session.define(
            f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = "
            f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
        )
    session.define(f"CREATE TABLE IF NOT EXISTS {BASE} (id int PRIMARY KEY, region text)")
    for row in ((1, "EU"), (2, "US")):
        session.execute(f"INSERT INTO {BASE} (id, region) VALUES (?, ?)", row)
    store = CassandraStore(session, keyspace="contract")
    store.create("contract")
    yield store
    session.close()


class OnCassandra(StoreContract):
    """What the two Cassandra classes share."""

    @pytest.fixture
    def table(self) -> str:
        return "contract"

    @pytest.fixture
    def base_table(self) -> str:
        return BASE


@pytest.mark.cluster
class TestOneNode(OnCassandra):
    """One real node."""

    @pytest.fixture(scope="class")
    def store(self, cassandra_node: Node) -> Iterator[CassandraStore]:
        yield from cassandra_store((cassandra_node.address,), replicas=1)


@pytest.mark.cluster
class TestThreeNodes(OnCassandra):
    """Three real nodes, three replicas."""

    @pytest.fixture(scope="class")
    def store(self, cassandra_cluster: EmbeddedCluster) -> Iterator[CassandraStore]:
        yield from cassandra_store(cassandra_cluster.contact_points, replicas=3)


@pytest.mark.cluster
def test_the_two_serial_levels_are_never_mixed_on_one_table(cassandra_node: Node) -> None:
    """A table remembers the level it was made for; a session of the other level is refused before it asks."""
    here = (cassandra_node.address,)
    sessions = {
        level: CassandraSession(ClusterAddress(contact_points=here, serial_consistency=level))
        for level in ("SERIAL", "LOCAL_SERIAL")
    }
    sessions["SERIAL"].define(
        "CREATE KEYSPACE contract_serial WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    stores = {level: CassandraStore(it, keyspace="contract_serial") for level, it in sessions.items()}
    for level, store in stores.items():
        store.create(level.lower())
        store.create(level.lower())
    for made_for in stores:
        place = PartitionId(table=made_for.lower(), key=(1,))
        for level, store in stores.items():
            request = TestAndSet(partition=place, expected=None, new=UNTOUCHED)
            if level == made_for:
                assert store.test_and_set(request).kind is OutcomeKind.APPLIED
                assert store.read(place, serial=True).signature == UNTOUCHED
            else:
                with pytest.raises(StoreError, match=f"test-and-sets at {made_for}, this session"):
                    store.test_and_set(request)
                with pytest.raises(StoreError, match="mixed on one table"):
                    store.read(place, serial=True)
    for session in sessions.values():
        session.close()


@pytest.mark.cluster
def test_no_piece_of_a_request_waits_for_an_answer_to_the_one_before(cassandra_node: Node) -> None:
    """The driver sends pieces of 4 KiB; without this option the last one of a lone request waits 40 ms."""
    session = CassandraSession(ClusterAddress(contact_points=(cassandra_node.address,)))
    sockets = [pool._connection._socket for pool in session.driver.get_pools()]
    assert sockets
    assert all(it.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for it in sockets)
    session.close()
