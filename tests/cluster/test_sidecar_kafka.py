"""`cvs run` with Kafka as its feed: a table that is full already, writes, kill -9, and going on."""

import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cvs.capture.kafka import KafkaFeed
from cvs.capture.opening import filled_by_others
from cvs.cli import run
from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.broker import broker, free_port
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
cdc_raw = "{raw}"
[feed]
name = "{feed}"
[spark]
master = ""
[http]
port = {http}
"""


INSERT = "INSERT INTO port.ships (id, harbour, tons) VALUES (?, ?, ?)"


def shown(session: CassandraSession) -> list[tuple[object, ...]]:
    return sorted(session.execute("SELECT harbour, ships, tons FROM port_views.by_harbour"))


def settings(node: Node, feed: str) -> str:
    raw = "" if filled_by_others(feed) else node.cdc_raw
    return SETTINGS.format(node=node, raw=raw, feed=feed, http=20_000 + os.getpid() % 20_000)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for all."""
    with broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def session(cassandra_node: Node) -> Iterator[CassandraSession]:
    """Forty ships in two harbours, before anybody follows them."""
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE port WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE port.ships (id int PRIMARY KEY, harbour text, tons int)")
    for number in range(40):
        session.execute(INSERT, (number, ("Kiel", "Cork")[number % 2], number))
    yield session
    for keyspace in ("port", "port_views", "port_state"):
        session.define(f"DROP KEYSPACE IF EXISTS {keyspace}")
    session.close()


def test_a_sidecar_follows_a_feed_in_kafka(
    session: CassandraSession, cassandra_node: Node, kafka: str, tmp_path: Path
) -> None:
    """The scan, captured writes and the place after a kill -9 all lie in the broker."""
    operator = Operator(tmp_path)
    (tmp_path / "cvs.toml").write_text(settings(cassandra_node, f"kafka://{kafka}/port"))
    try:
        operator.apply(VIEW)
        operator.start()
        operator.wait(lambda: operator.states() == {"port_views.by_harbour": ("live", "")})
        assert shown(session) == [("Cork", 20, 400), ("Kiel", 20, 380)]
        session.execute("DELETE FROM port.ships WHERE id = 1")
        operator.wait(lambda: ("Cork", 19, 399) in shown(session))
        operator.end(kill=True)
        session.execute(INSERT, (50, "Oban", 7))
        session.execute(INSERT, (2, "Cork", 1))
        operator.start()
        wanted = [("Cork", 20, 400), ("Kiel", 19, 378), ("Oban", 1, 7)]
        operator.wait(lambda: shown(session) == wanted)
        (report,) = operator.cvs("verify", "--json")
        assert report["differences"] == []
        operator.end()
    finally:
        operator.end(kill=True)
    assert not (tmp_path / "feed").exists()


def test_brokers_that_do_not_answer_are_said_before_anything_is_started(
    session: CassandraSession, cassandra_node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark was up, the sidecar led and its status page was well, for half a minute."""
    file = tmp_path / "cvs.toml"
    file.write_text(settings(cassandra_node, f"kafka://127.0.0.1:{free_port()}/port"))
    assert run(["run", "--settings", str(file)]) == 5
    (said,) = capsys.readouterr().err.splitlines()
    assert "Kafka does not answer" in said


def test_a_sidecar_follows_an_applications_outbox(
    session: CassandraSession, cassandra_node: Node, kafka: str, tmp_path: Path
) -> None:
    """No commit log is read: the table stays as it is, and what stood in it before the outbox is built from a scan."""
    operator = Operator(tmp_path)
    times = itertools.count(time.time_ns() // 1000)
    KafkaFeed(kafka)._make("app", compacted=False)
    producer = Producer({"bootstrap.servers": kafka})

    def say(message: dict[str, object]) -> None:
        producer.produce("app", json.dumps(message).encode(), partition=0)
        producer.flush(30)

    def write(number: int, harbour: str, tons: int) -> None:
        at = next(times)
        session.execute(f"{INSERT} USING TIMESTAMP {at}", (number, harbour, tons))
        columns = {"harbour": harbour, "tons": tons}
        say({"table": "port.ships", "time": at, "op": "insert", "key": {"id": number}, "set": columns})

    def is_live() -> bool:
        say({"clock": time.time_ns() // 1000})
        return operator.states() == {"port_views.by_harbour": ("live", "")}

    write(50, "Oban", 7)
    feed = f"outbox+kafka://{kafka}/app?cql={cassandra_node.address}:{cassandra_node.native_port}"
    (tmp_path / "cvs.toml").write_text(settings(cassandra_node, feed))
    try:
        operator.apply(VIEW)
        operator.start()
        operator.wait(is_live)
        assert shown(session) == [("Cork", 20, 400), ("Kiel", 20, 380), ("Oban", 1, 7)]
        write(2, "Cork", 1)
        at = next(times)
        session.execute(f"DELETE FROM port.ships USING TIMESTAMP {at} WHERE id = 1")
        say({"table": "port.ships", "time": at, "op": "delete", "key": {"id": 1}})
        operator.wait(lambda: ("Cork", 20, 400) in shown(session))
        operator.end(kill=True)
        write(51, "Oban", 1)
        operator.start()
        operator.wait(lambda: shown(session) == [("Cork", 20, 400), ("Kiel", 19, 378), ("Oban", 2, 8)])
        (report,) = operator.cvs("verify", "--json")
        assert report["differences"] == []
        operator.end()
    finally:
        operator.end(kill=True)
    (options,) = session.execute(
        "SELECT cdc FROM system_schema.tables WHERE keyspace_name = 'port' AND table_name = 'ships'"
    )
    assert not options[0]
