"""The write-time line on three real nodes (H12): writers whose clocks differ, each beside a replica; nodes cut off.

Each write is acknowledged by one replica alone, so the logs of the three differ, by seconds while a node is
cut off and its copies wait as hints; and it sets one column, so rows put together as the logs come would be rows that
never were. What the writers wrote is the judge's base log, in the order of write times.
"""

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import WhiteListRoundRobinPolicy

from cvs.checker.verdict import Verdict
from cvs.client.control import read_control
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.errors import StoreError
from cvs.history import events as ev
from cvs.programs.epoch_run import without_claim
from cvs.programs.stage_bucket import drive
from cvs.report.hand import judge_events
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.certificates import Assembler
from cvs.stream.epochs import epochs
from cvs.stream.recipe import recipe_of
from cvs.stream.tables import Names
from tests.campaigns.driver import command
from tests.cluster.broker import broker
from tests.cluster.captured_world import FAULTS, Captures, connected, wait

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

VIEWS = """
CREATE MATERIALIZED VIEW {space}.whole TBLPROPERTIES ('cvs.timeline' = 'write-time') AS
SELECT id, a, b FROM {space}.t;
CREATE MATERIALIZED VIEW {space}.summed TBLPROPERTIES ('cvs.timeline' = 'write-time') AS
SELECT a, COUNT(*) AS n, SUM(b) AS b FROM {space}.t WHERE a IS NOT NULL GROUP BY a;
"""
KEYS = 6
PAUSE = 0.15
SECONDS = 1_000_000


@dataclass
class Clients:
    """Writers of one table; `offsets`: by how much the clock of the one beside each node is wrong, microseconds."""

    nodes: list[Node]
    space: str
    offsets: list[int]
    keys: Callable[[int], range]
    stamps: set[int] = field(default_factory=set)
    written: list[dict[str, Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Clients":
        self._pool = ThreadPoolExecutor(len(self.nodes))
        self._running = [self._pool.submit(self._run, number) for number in range(len(self.nodes))]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for running in self._running:
            running.result()
        self._pool.shutdown()

    def _run(self, number: int) -> None:
        chance, node = random.Random(number), self.nodes[number]
        with alone(node) as cluster:
            session = cluster.connect()
            while not self._stop.wait(PAUSE):
                self._write(session, number, chance)

    def _write(self, session: Session, number: int, chance: random.Random) -> None:
        key, dice = chance.choice(self.keys(number)), chance.random()
        cells = {chance.choice("ab"): chance.randrange(3)} if dice < 0.85 else {}
        with self._lock:
            stamp = time.time_ns() // 1000 + self.offsets[number]
            while stamp in self.stamps:
                stamp += 1
            self.stamps.add(stamp)
        told = {"stamp": stamp, "key": key, "cells": cells, "process": f"w{number}", "called": time.time_ns()}
        what = f"SET {next(iter(cells))} = {next(iter(cells.values()))}" if cells else ""
        text = (
            f"UPDATE {self.space}.t USING TIMESTAMP {stamp} {what} WHERE id = {key}"
            if cells
            else f"DELETE FROM {self.space}.t USING TIMESTAMP {stamp} WHERE id = {key}"
        )
        while True:
            try:
                session.execute(text)
                break
            except FAULTS:
                time.sleep(0.1)
        self.written.append({**told, "returned": time.time_ns()})

    def log(self) -> Iterator[Any]:
        """Return the base log: versions in the order of write times, each with the row as it then was."""
        rows: dict[int, dict[str, int]] = {}
        versions: dict[int, int] = {}
        for it in sorted(self.written, key=lambda it: it["stamp"]):
            key, stamp = it["key"], it["stamp"]
            rows[key] = {**rows.get(key, {}), **it["cells"]} if it["cells"] else {}
            versions[key] = versions.get(key, 0) + 1
            row = {"id": key, "a": rows[key].get("a"), "b": rows[key].get("b")} if rows[key] else None
            yield ev.BaseUpdateCalled(
                process=it["process"],
                time=it["called"],
                operation=stamp,
                table=f"{self.space}.t",
                key=(key,),
                version=versions[key],
                row=row,
                write_time=stamp,
            )
            yield ev.BaseUpdateReturned(
                process=it["process"], time=it["returned"], operation=stamp, outcome="applied"
            )


def alone(node: Node) -> Cluster:
    """A client of one node, which is answered when that node has the write."""
    profile = ExecutionProfile(
        load_balancing_policy=WhiteListRoundRobinPolicy([node.address]),
        consistency_level=ConsistencyLevel.ONE,
        request_timeout=10,
    )
    return Cluster([node.address], port=node.native_port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})


@dataclass
class Followed:
    """A keyspace with one table of three replicas, its views, its captures and a pipeline process."""

    cluster: EmbeddedCluster
    folder: Path
    space: str
    skew_ms: int
    feed: str = ""  # a folder, unless named

    def __enter__(self) -> "Followed":
        self.address = ClusterAddress(
            contact_points=self.cluster.contact_points, port=self.cluster.native_port
        )
        self.session = CassandraSession(self.address)
        strategy = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
        self.session.define(f"CREATE KEYSPACE {self.space} WITH replication = {strategy}")
        self.session.define(f"CREATE TABLE {self.space}.t (id int PRIMARY KEY, a int, b int) WITH cdc = true")
        self.captures = Captures(self.folder / f"feed_{self.space}", self.space, feed=self.feed)
        for node in self.cluster.nodes:
            self.captures.begin(node)
        self.names = Names(keyspace=f"{self.space}_cvs")
        self.driver = self._driver()
        wait(lambda: self.watermark() > 0, "the pipeline", seconds=180)
        return self

    def _driver(self) -> "subprocess.Popen[bytes]":
        self.views = VIEWS.format(space=self.space)
        words = {"views": self.views, "base": self.space, "feed": self.captures.feed, "replication": 3}
        words |= {"state": self.names.keyspace, "skew_ms": self.skew_ms, "record": str(self.record)}
        with (self.folder / f"{self.space}.log").open("ab") as out:
            return subprocess.Popen(
                command(self.address, **words), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """End the pipeline with kill -9, and start another."""
        self.driver.kill()
        self.driver.wait()
        self.driver = self._driver()

    def __exit__(self, *_: object) -> None:
        self.driver.kill()
        self.driver.wait()
        self.captures.end()
        self.session.close()

    @property
    def record(self) -> Path:
        return self.folder / f"record_{self.space}"

    def watermark(self) -> int:
        if (
            self.driver.poll() is not None
        ):  # as it does when a node stays away: a service manager starts it again
            self.driver = self._driver()
        try:
            return read_control(self.session, self.names.keyspace).committed_watermark
        except StoreError:
            return 0

    def cut(self, number: int, seconds: float) -> None:
        self.cluster.cut(number)
        time.sleep(seconds)
        self.cluster.heal(number)

    def stall(self, node: Node, seconds: float) -> None:
        """Let one node's capture stand still: the line stops a bound behind what it captured, whatever others write."""
        self.captures.end(node)
        stands = time.time_ns() // 1000 - self.skew_ms * 1000
        time.sleep(seconds + self.skew_ms / 1000)
        behind = self.watermark()
        self.captures.begin(node)
        assert 0 < behind <= stands, (
            f"the line is {(behind - stands) / SECONDS:.1f} s ahead of a capture that stands"
        )

    def judged(self, clients: Clients) -> tuple[list[Any], set[int]]:
        """Return what is said of strong, and the rows that have no claim to the line."""
        recipe, declared = recipe_of(self.session, self.views, names=self.names, keyspaces=(self.space,))
        void = drive(without_claim(recipe.program()), recipe.door(self.session))
        described = [
            (
                view.definition,
                tuple(name for name, _ in view.columns),
                (*view.key.partition, *(name for name, _ in view.key.clustering)),
            )
            for view in declared
        ]
        assembler = Assembler(described, {table.name: table for table in recipe.plan.bases})
        logs = sorted(self.record.glob("*.log"))
        events = assembler.history(clients.log(), epochs(logs), run=self.space, void=void)
        judgement = judge_events(events, reference="write-time", budget=200)
        found = [it for it in judgement.findings if it.property == "strong" and it.granularity == "record"]
        return found, {key for (key,) in void[f"{self.space}.t"]}

    def converged(self) -> bool:
        """Compare base and views, at ALL: what a node alone acknowledged when it was cut off lies in no other yet."""
        with connected(*self.cluster.nodes, consistency=ConsistencyLevel.ALL) as cluster:
            session = cluster.connect()
            base = {tuple(row) for row in session.execute(f"SELECT id, a, b FROM {self.space}.t")}
            whole = {tuple(row) for row in session.execute(f"SELECT id, a, b FROM {self.space}.whole")}
            summed = {tuple(row) for row in session.execute(f"SELECT a, n, b FROM {self.space}.summed")}
        groups: dict[int, list[int | None]] = {}
        for _, a, b in base:
            if a is not None:
                groups.setdefault(a, []).append(b)
        expected = {
            (a, len(bs), sum(b for b in bs if b is not None) if any(b is not None for b in bs) else None)
            for a, bs in groups.items()
        }
        assert whole == base
        assert summed == expected
        return bool(base)


@pytest.fixture(scope="module")
def apart() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(size=3, quick=True, private_network=True) as cluster:
        yield cluster


def test_within_the_bound_every_view_is_strong_in_the_order_of_write_times(
    apart: EmbeddedCluster, tmp_path: Path
) -> None:
    """Clocks 4 s apart, nodes cut off in turn, the pipeline killed each time; then a capture stands still."""
    offsets = [-2 * SECONDS, 0, 2 * SECONDS]
    with Followed(apart, tmp_path, "within", skew_ms=8_000) as followed:
        with Clients(apart.nodes, "within", offsets, keys=lambda _: range(KEYS)) as clients:
            for number in (1, 2, 3):
                time.sleep(2)
                followed.cut(number, 5)
                followed.kill()
            followed.stall(apart.nodes[1], 2)
            time.sleep(2)
        rested = time.time_ns() // 1000 + 3 * SECONDS
        wait(lambda: followed.watermark() > rested, "the line to pass the last write", seconds=180)
        assert followed.converged()
        found, void = followed.judged(clients)
        assert len(clients.written) > 100
    assert void == set()
    assert {it.view for it in found} == {"within.whole", "within.summed"}
    other = [it for it in found if it.verdict is not Verdict.HOLDS]
    assert not other, [f"{it.verdict} {it.view} {it.key}: {it.reason}" for it in other[:9]]


def test_beyond_the_bound_views_converge_and_the_rows_concerned_lose_their_claim(
    apart: EmbeddedCluster, tmp_path: Path
) -> None:
    """Two writers are off by 20 s and 30 s; rows that only the third writes keep their claim. The feed is in Kafka."""
    offsets = [-20 * SECONDS, 0, 30 * SECONDS]
    shared, own = range(KEYS), range(100, 104)
    with (
        broker(tmp_path) as kafka,
        Followed(apart, tmp_path, "beyond", skew_ms=5_000, feed=f"kafka://{kafka}/beyond") as followed,
    ):
        with Clients(apart.nodes, "beyond", offsets, keys=lambda n: own if n == 1 else shared) as clients:
            time.sleep(12)
            followed.cut(2, 3)
        rested = time.time_ns() // 1000 + SECONDS
        wait(lambda: followed.watermark() > rested, "the line to pass the clocks", seconds=180)
        assert followed.converged()
        found, void = followed.judged(clients)
    assert void
    assert void <= set(shared)
    whole = {it.key[0]: it for it in found if it.view == "beyond.whole"}
    assert {whole[key].verdict for key in own if key in whole} == {Verdict.HOLDS}
    assert all(whole[key].verdict is Verdict.UNDECIDED for key in void if key in whole)
