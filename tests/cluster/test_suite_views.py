"""The user's own views on a real node: the suite's runs, faults and all, in tables that are thrown away."""

import pytest

from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.suite.on_cluster import views_on_cluster
from cvs.suite.user_views import user_views

pytestmark = pytest.mark.cluster

VIEWS = """
CREATE TABLE shop.orders (id int PRIMARY KEY, city text, total decimal);
CREATE MATERIALIZED VIEW shop.by_city AS
SELECT city, COUNT(*) AS orders, SUM(total) AS total FROM shop.orders WHERE city IS NOT NULL GROUP BY city;
"""

SEED = 3  # a short run that is wrong as soon as its rule is off


def test_views_hold_their_level_on_a_real_node_and_leave_nothing(cassandra_node: Node) -> None:
    def examined(*without: str) -> bool:
        found = views_on_cluster(
            user_views(VIEWS),
            hosts=cassandra_node.address,
            port=cassandra_node.native_port,
            examples=1,
            seed=SEED,
            updates=2,
            without=without,
        )
        return found.held

    assert examined()
    assert not examined("signatures"), "the same run without its rule"
    address = ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    session = CassandraSession(address)
    names = [row[0] for row in session.execute("SELECT keyspace_name FROM system_schema.keyspaces")]
    session.close()
    assert not [name for name in names if name.startswith("cvs_suite_")]
