"""What real Cassandra answered to real programs is a behaviour of the specs, event by event."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

from cvs.embedded.artifacts import jars
from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.pipeline import Pipeline
from cvs.suite.contention import Contention, contended
from tests.cluster.test_pipeline import Killed, Shop
from tests.cluster.test_pipeline_door import world_on
from tests.specs.test_epoch_traces import COUNTING, matched, recorded

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import epoch_traces, traces

pytestmark = pytest.mark.cluster


def test_a_run_on_real_cassandra_is_a_behaviour_of_the_spec(cassandra_node: Node, tmp_path: Path) -> None:
    """Five processes on few view records, some killed: every request and answer fits, values, nulls and all."""
    address = ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    session = CassandraSession(address)
    session.define(
        "CREATE KEYSPACE traced WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.close()
    plan = Contention(view="count-sum-avg-min-max", seed=6, updates=80, processes=5, kills=2)
    contended(address, "traced", plan, tmp_path)
    columns = traces.Columns(group="x", measure="y", count="n", total="total")
    found = traces.matched(jars("tlc")[0], traces.read(tmp_path), columns)
    assert found.accepted, str(found)
    assert found.steps > 300


def test_drivers_on_real_cassandra_follow_the_protocol(cassandra_node: Node) -> None:
    """The same lives, sleepers and zombies, with real tables behind the door."""
    world, session, _ = world_on(cassandra_node, COUNTING, 7)
    found = matched(recorded(COUNTING, 7, world=world, lives=6))
    session.close()
    assert found.accepted, str(found)
    assert found.steps > 60


class Life:
    """One life of a pipeline: its requests are noted, and it ends after some rounds of them."""

    def __init__(self, pipeline: Pipeline, log: epoch_traces.Log, name: str, rounds: int) -> None:
        self.check, self.rounds = pipeline.door.check, rounds
        self.door = log.driver(name, pipeline.door)
        pipeline.door = self  # type: ignore[assignment]

    def __call__(self, requests: list[Any]) -> list[Any]:
        if self.rounds == 0:
            raise Killed
        self.rounds -= 1
        return self.door(requests)


def test_the_pipeline_killed_between_rounds_follows_the_protocol(
    cassandra_node: Node, tmp_path: Path
) -> None:
    """Feed, plan, pins and commits as in service; each life dies one round later than the one before."""
    shop = Shop(cassandra_node, tmp_path)
    program = shop.recipe.program()
    tables = [it.publication for it in program.publications]
    keys = {it.table: tuple([name for name, _ in it.columns].index(part) for part in it.key) for it in tables}
    log = epoch_traces.Log(keys=keys, program=program)
    for number in range(12):
        shop.write(number % 4, ("Graz", "Linz", None)[number % 3], number)
        pipeline = shop.pipeline()
        Life(pipeline, log, f"life{number}", rounds=100 if number == 11 else 2 + number)
        with contextlib.suppress(Killed):
            pipeline.drain()
    shop.session.close()
    found = matched(log)
    assert found.accepted, str(found)
    assert len({step.split('place |-> "')[1].split('"')[0] for step in log.steps if "place" in step}) > 1
