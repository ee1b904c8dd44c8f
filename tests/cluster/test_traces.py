"""What real Cassandra answered to real programs is a behaviour of the specs, event by event."""

import sys
from pathlib import Path

import pytest

from cvs.embedded.artifacts import jars
from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.suite.contention import Contention, contended

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import traces

pytestmark = pytest.mark.cluster


def test_a_run_on_real_cassandra_is_a_behaviour_of_the_spec(cassandra_node: Node, tmp_path: Path) -> None:
    """Eight processes on few view records, some killed: every request and answer fits, values and all."""
    address = ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    session = CassandraSession(address)
    session.define(
        "CREATE KEYSPACE traced WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.close()
    plan = Contention(view="count-sum-avg-min-max", seed=6, updates=60, processes=5, kills=2)
    contended(address, "traced", plan, tmp_path)
    columns = traces.Columns(group="x", measure="y", count="n", total="total")
    found = traces.matched(jars("tlc")[0], traces.read(tmp_path), columns)
    assert found.accepted, str(found)
    assert found.steps > 300
