"""Several processes test-and-set the same partitions while nodes die, freeze and are cut off: nothing is lost
and nothing counted twice.

Every applied test-and-set leaves a row under its version that names the version before it and the entry it
absorbed, so at the end the whole chain stands in the partition. An entry counts when its outcome was applied or
when a SERIAL read found it in the signature; never because an error looked harmless.
"""

import contextlib
import multiprocessing
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event as EventType
from typing import Any

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import UNTOUCHED, Signature
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession, ClusterAddress

pytestmark = pytest.mark.cluster

KEYSPACE, TABLE = "faults", "t"
PARTITIONS = 4
TIMEOUTS_S = (0.04, 0.25, 2.0)  # one worker each; the first gives up on most requests that are under way
CALM_TIMEOUT_S = 10.0
FINISH_SECONDS = 90.0


def place_of(number: int) -> PartitionId:
    return PartitionId(table=TABLE, key=(f"p{number}",))


@dataclass
class Worker:
    """One process with entries of its own stream; keeps one entry a partition under way until it is in."""

    name: str
    address: ClusterAddress
    done: Counter[int] = field(default_factory=Counter)
    heard: Counter[str] = field(default_factory=Counter)

    def open(self, timeout_s: float) -> None:
        calm = ClusterAddress(
            contact_points=self.address.contact_points, port=self.address.port, request_timeout_s=timeout_s
        )
        self.session = CassandraSession(calm)
        self.store = CassandraStore(self.session, keyspace=KEYSPACE)

    def attempt(self, number: int) -> bool:
        """Try to get the next entry in; True once it is known to be in."""
        entry = self.done[number] + 1
        try:
            signature = self.store.read(place_of(number), serial=True).signature
        except Exception as problem:  # noqa: BLE001 -- because any failed read is only counted
            self.heard[f"read failed: {type(problem).__name__}"] += 1
            time.sleep(0.05)  # because a driver without a connection refuses at once
            return False
        assert signature is not None
        if signature.processed(self.name, entry):
            self.heard["resolved as applied"] += 1
            self.done[number] = entry
            return True
        outcome = self.store.test_and_set(self.request(number, signature, entry))
        self.heard[outcome.kind.value] += 1
        if outcome.kind is OutcomeKind.APPLIED:
            self.done[number] = entry
        return outcome.kind is OutcomeKind.APPLIED

    def request(self, number: int, signature: Signature, entry: int) -> TestAndSet:
        new = signature.absorbing(self.name, entry)
        row = {"before": signature.version, "stream": self.name, "entry": entry}
        return TestAndSet(
            partition=place_of(number), expected=signature, new=new, puts=(((new.version,), row),)
        )


def cut_connections(session: CassandraSession, over: threading.Event, chooser: random.Random) -> None:
    """Break the driver's own sockets now and then, with requests in flight."""
    while not over.wait(0.7):
        with contextlib.suppress(Exception):
            holders = session.driver.cluster.get_connection_holders()
            connections = [c for holder in holders for c in holder.get_connections()]
            chooser.choice(connections)._socket.shutdown(socket.SHUT_RDWR)


def work(name: str, address: ClusterAddress, timeout_s: float, stop: EventType, answers: Any) -> None:
    """The body of one process: attempts until told to stop, then finishes what is under way."""
    chooser = random.Random(name)
    worker = Worker(name=name, address=address)
    worker.open(CALM_TIMEOUT_S)
    # connecting itself gets time; only requests are given up early
    worker.session.driver.cluster.profile_manager.default.request_timeout = timeout_s
    over = threading.Event()
    threading.Thread(target=cut_connections, args=(worker.session, over, chooser), daemon=True).start()
    while not stop.is_set():
        worker.attempt(chooser.randrange(PARTITIONS))
    over.set()
    worker.session.close()
    worker.open(CALM_TIMEOUT_S)
    deadline = time.monotonic() + FINISH_SECONDS
    finished = {n for n in range(PARTITIONS) if finish(worker, n, deadline)}
    worker.session.close()
    answers.put((name, dict(worker.done), dict(worker.heard), len(finished) == PARTITIONS))


def finish(worker: Worker, number: int, deadline: float) -> bool:
    while time.monotonic() < deadline:
        if worker.attempt(number):
            return True
    return False


def disturb(cluster: EmbeddedCluster) -> None:
    """Kill one node and bring it back, freeze another, cut a third off and heal it."""
    first, second, third = cluster.nodes
    time.sleep(2)
    third.kill()
    time.sleep(3)
    third.restart()
    cluster.wait_joined()
    second.pause()
    time.sleep(3)
    second.resume()
    time.sleep(1)
    if cluster.network is not None:
        cluster.cut(first.number)
        time.sleep(4)
        cluster.heal(first.number)
    cluster.wait_joined()


def test_every_applied_or_resolved_outcome_is_in_the_chain_once(cassandra_cluster: EmbeddedCluster) -> None:
    cluster = cassandra_cluster
    address = ClusterAddress(contact_points=cluster.contact_points, port=cluster.native_port)
    session = CassandraSession(address)
    session.define(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 3}}"
    )
    store = CassandraStore(session, keyspace=KEYSPACE)
    store.create(TABLE)
    for number in range(PARTITIONS):
        request = TestAndSet(partition=place_of(number), expected=None, new=UNTOUCHED)
        assert store.test_and_set(request).kind is OutcomeKind.APPLIED

    context = multiprocessing.get_context("spawn")
    stop, answers = context.Event(), context.Queue()
    workers = [
        context.Process(target=work, args=(f"w{i}", address, timeout_s, stop, answers), daemon=True)
        for i, timeout_s in enumerate(TIMEOUTS_S)
    ]
    for process in workers:
        process.start()
    try:
        disturb(cluster)
    finally:
        stop.set()
    reports = [answers.get(timeout=FINISH_SECONDS + 60) for _ in workers]
    for process in workers:
        process.join(30)

    heard = sum((Counter(report[2]) for report in reports), Counter())
    print(dict(heard))
    assert all(finished for *_, finished in reports), "an entry is still under way: nothing can be counted"
    assert heard["applied"] > 50, heard
    assert heard["unknown"] > 5, "the faults did not bite"
    for number in range(PARTITIONS):
        found = store.read(place_of(number), serial=True)
        done = {name: counts.get(number, 0) for name, counts, *_ in reports}
        assert found.signature is not None
        assert found.signature.version == sum(done.values())
        assert dict(found.signature.entries) == {name: count for name, count in done.items() if count}
        chain = [found.rows[(version,)] for version in range(1, found.signature.version + 1)]
        assert [row["before"] for row in chain] == list(range(found.signature.version))
        for name, count in done.items():
            assert [r["entry"] for r in chain if r["stream"] == name] == list(range(1, count + 1))
    session.close()
