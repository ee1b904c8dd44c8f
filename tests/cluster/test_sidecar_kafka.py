"""`cvs run` with Kafka as its feed: a table that is full already, writes, kill -9, and going on."""

import os
from pathlib import Path

import pytest

from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.broker import broker
from tests.cluster.test_build import Operator

pytestmark = pytest.mark.cluster

VIEW = (
    "CREATE MATERIALIZED VIEW port_views.by_harbour AS "
    "SELECT harbour, COUNT(*) AS ships, SUM(tons) AS tons FROM port.ships GROUP BY harbour;"
)
SETTINGS = """
[cluster]
contact_points = ["{node.address}"]
port = {node.native_port}
[views]
state_keyspace = "port_state"
published_keyspace = "port_views"
[capture]
cdc_raw = "{node.cdc_raw}"
[feed]
name = "kafka://{kafka}/port"
[spark]
master = ""
[http]
port = {http}
"""


def shown(session: CassandraSession) -> list[tuple[object, ...]]:
    return sorted(session.execute("SELECT harbour, ships, tons FROM port_views.by_harbour"))


def test_a_sidecar_follows_a_feed_in_kafka(cassandra_node: Node, tmp_path: Path) -> None:
    """The scan, captured writes and the place after a kill -9 all lie in the broker."""
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE port WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE port.ships (id int PRIMARY KEY, harbour text, tons int)")
    insert = "INSERT INTO port.ships (id, harbour, tons) VALUES (?, ?, ?)"
    for number in range(40):
        session.execute(insert, (number, ("Kiel", "Cork")[number % 2], number))
    operator = Operator(tmp_path)
    with broker(tmp_path) as kafka:
        http = 20_000 + os.getpid() % 20_000
        (tmp_path / "cvs.toml").write_text(SETTINGS.format(node=cassandra_node, kafka=kafka, http=http))
        try:
            operator.apply(VIEW)
            operator.start()
            operator.wait(lambda: operator.states() == {"port_views.by_harbour": ("live", "")})
            assert shown(session) == [("Cork", 20, 400), ("Kiel", 20, 380)]
            session.execute("DELETE FROM port.ships WHERE id = 1")
            operator.wait(lambda: ("Cork", 19, 399) in shown(session))
            operator.end(kill=True)
            session.execute(insert, (50, "Oban", 7))
            session.execute(insert, (2, "Cork", 1))
            operator.start()
            wanted = [("Cork", 20, 400), ("Kiel", 19, 378), ("Oban", 1, 7)]
            operator.wait(lambda: shown(session) == wanted)
            (report,) = operator.cvs("verify", "--json")
            assert report["differences"] == []
            operator.end()
        finally:
            operator.end(kill=True)
            session.close()
    assert not (tmp_path / "feed").exists()
