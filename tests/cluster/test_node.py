"""Real nodes do what the fixtures promise: start, die, pause, come back with data, be cut and healed."""

import time
from collections.abc import Iterator

import pytest
from cassandra import OperationTimedOut, ReadTimeout, Unavailable
from cassandra.cluster import NoHostAvailable

from cvs.embedded.cluster import EmbeddedCluster, sees
from cvs.embedded.cql import Client
from cvs.embedded.node import Node

pytestmark = pytest.mark.cluster


@pytest.fixture
def client(cassandra_node: Node) -> Iterator[Client]:
    with Client([cassandra_node.address], cassandra_node.native_port) as client:
        yield client


def test_a_node_answers_and_is_set_up_for_cvs(client: Client) -> None:
    settings = {row.name: row.value for row in client.run("SELECT name, value FROM system_views.settings")}
    assert client.run("SELECT release_version FROM system.local")[0].release_version == "5.0.8"
    assert settings["paxos_variant"] == "v2"
    assert settings["paxos_state_purging"] == "repaired"
    assert settings["cdc_enabled"] == "true"


def test_changes_of_a_cdc_table_arrive_in_the_raw_folder(cassandra_node: Node, client: Client) -> None:
    client.run(
        "CREATE KEYSPACE house_cdc WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    client.run("CREATE TABLE house_cdc.t (k int PRIMARY KEY, v text) WITH cdc = true")
    client.run("INSERT INTO house_cdc.t (k, v) VALUES (1, 'remembered-by-cdc')")
    raw = cassandra_node.cdc_raw
    deadline = time.monotonic() + 10
    while not any(b"remembered-by-cdc" in file.read_bytes() for file in raw.glob("*.log")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert list(raw.glob("*_cdc.idx"))


def test_three_nodes_survive_kill_pause_and_cut(cassandra_cluster: EmbeddedCluster) -> None:
    first, second, third = cassandra_cluster.nodes
    cassandra_cluster.cql(
        "CREATE KEYSPACE house WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
    )
    cassandra_cluster.cql("CREATE TABLE house.t (k int PRIMARY KEY, v int)")
    cassandra_cluster.cql("INSERT INTO house.t (k, v) VALUES (1, 1)")
    with Client([first.address], first.native_port, only_these=True) as client:
        read = "SELECT v FROM house.t WHERE k = 1"

        third.kill()
        assert not third.running
        client.run("INSERT INTO house.t (k, v) VALUES (1, 2)")
        with pytest.raises((Unavailable, ReadTimeout)):
            client.run(read, consistency="ALL")
        third.restart()
        cassandra_cluster.wait_joined()
        assert client.run(read, consistency="ALL")[0].v == 2

        second.pause()
        with pytest.raises((Unavailable, ReadTimeout)):
            client.run(read, consistency="ALL")
        second.resume()
        cassandra_cluster.wait_joined()

        cassandra_cluster.cut(1)
        with pytest.raises((Unavailable, ReadTimeout, OperationTimedOut, NoHostAvailable)):
            client.run(read, consistency="QUORUM")
        assert client.run("SELECT release_version FROM system.local", consistency="ONE")
        cassandra_cluster.heal(1)
        cassandra_cluster.wait_joined()
        assert client.run(read, consistency="ALL")[0].v == 2
    assert sees(first, [first, second, third])


def test_many_clusters_have_addresses_of_their_own() -> None:
    """Two clusters laid out at once share no address and no management port."""
    one, two = EmbeddedCluster(size=3), EmbeddedCluster(size=3)
    try:
        assert not set(one.contact_points) & set(two.contact_points)
        ports = [node.place.management_port for node in (*one.nodes, *two.nodes)]
        assert len(set(ports)) == 6
    finally:
        one.stop()
        two.stop()
    assert not one.folder.exists()
