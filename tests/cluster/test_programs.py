"""Update programs on a real node: eight managers in processes of their own on few view records, judged."""

from collections.abc import Iterator

import pytest

from cvs.embedded.node import Node
from cvs.report.audit import audit
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.suite.contention import Contention, contended

pytestmark = [pytest.mark.cluster]

RUNS = [
    Contention(view="count-sum-avg-min-max", seed=2, updates=120),
    Contention(view="projection-moving-key", seed=3, remember=False, updates=160),
]


@pytest.fixture
def address(cassandra_node: Node) -> ClusterAddress:
    return ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)


@pytest.fixture
def keyspace(address: ClusterAddress) -> Iterator[str]:
    """A keyspace of this test's own, gone afterwards."""
    session = CassandraSession(address)
    session.define("DROP KEYSPACE IF EXISTS contended_programs")
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.define(f"CREATE KEYSPACE contended_programs WITH replication = {replication}")
    yield "contended_programs"
    session.define("DROP KEYSPACE contended_programs")
    session.close()


@pytest.mark.parametrize("plan", RUNS, ids=lambda plan: plan.view)
def test_eight_managers_reach_the_predicted_level_through_kills(
    plan, address: ClusterAddress, keyspace: str, tmp_path
) -> None:
    """Signature-based programs end strong per record, whoever is killed and whatever comes again."""
    finished = contended(address, keyspace, plan, tmp_path)
    document, _ = audit([tmp_path], expected={"record": "strong"}, budget=5_000)
    assert document["exit_code"] == 0, document
    assert finished.kills > 0
    assert finished.entries == plan.updates


def test_counters_lose_the_predicted_level_through_kills(
    address: ClusterAddress, keyspace: str, tmp_path
) -> None:
    """The counter-based program counts what comes again twice, and the judge says so."""
    plan = Contention(view="count", program="counter", seed=4, kills=6, updates=160)
    assert contended(address, keyspace, plan, tmp_path).kills > 0
    document, _ = audit([tmp_path], expected={"record": "strong"}, budget=5_000)
    assert document["exit_code"] == 1
