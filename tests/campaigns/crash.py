"""One crash campaign: writers, snapshot readers, capture and pipeline as processes, kill -9 at random, then rest.

Whoever dies is started again, as a service manager would. The writer repeats a write that was not answered, with
the same write time, until it is: its log names what it will send before it sends it.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import dict_factory

from cvs.checker.verdict import Finding
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.history.codec import event_of
from cvs.report.hand import judge_events
from cvs.store.session import ClusterAddress
from cvs.stream.build import PREFIX
from cvs.stream.demo import VIEWS, Load, Readers, Stage, wait_for, write_history
from cvs.stream.recipe import recipe_of
from cvs.stream.shop import KEYSPACE
from cvs.stream.tables import Names, create
from tests.agree import duckdb_sql
from tests.campaigns.driver import command
from tests.nightly import NOTE

LIVE_SECONDS = 300.0
PAUSE = 0.04
"""Between two writes: the judge must be able to follow."""


@dataclass(slots=True)
class Campaign:
    """Who runs, who is killed, and what was seen."""

    stage: Stage
    cluster: EmbeddedCluster
    spark: bool = False
    incarnation: int = 1
    killed: Counter[str] = field(default_factory=Counter)
    live_again: list[float] = field(default_factory=list)
    _running: dict[str, Any] = field(default_factory=dict)
    _down: set[str] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)
    _keeper: threading.Thread = field(init=False)

    @property
    def nodes(self) -> list[Node]:
        """The nodes, each captured by a process of its own."""
        return self.cluster.nodes

    def __enter__(self) -> "Campaign":
        self._running = {node.address: self.stage.capture_of(node.address) for node in self.nodes}
        self._running["driver"] = self._driver()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._keeper.join()

    def live(self, *, seconds: float = LIVE_SECONDS) -> float:
        """Wait until everything written before now is shown; return how long that took."""
        now = time.time() * 1e6

        def shown() -> bool:
            control = self.stage.control()
            return control is not None and control.committed_watermark > now

        return wait_for(shown, seconds=seconds, what=f"being live again ({dict(self.killed)})")

    def kill(self, victim: str, chance: random.Random) -> None:
        """End one of them with kill -9 at a random moment, and mostly wait until the views follow again."""
        time.sleep(chance.random() * 1.5)
        if victim == "node":
            self._kill_node(chance.choice(self.nodes), chance)
        elif victim == "cut":
            self._cut(chance.choice(self.nodes), chance)
        elif victim == "tail":
            _send(self._running[chance.choice(self.nodes).address].pid, signal.SIGKILL)
        elif victim == "worker":
            _send(self._worker(), signal.SIGKILL)
        else:
            _send(self._running[victim].pid, signal.SIGKILL)
        self.killed[victim] += 1
        if chance.random() < 0.7:
            self.live_again.append(self.live())

    def _kill_node(self, node: Node, chance: random.Random) -> None:
        """End a node; of several the others go on without it for a while."""
        self._down.add(node.address)
        node.kill()
        time.sleep(chance.random() * (1 if len(self.nodes) == 1 else 8))
        node.restart()
        self._down.remove(node.address)

    def _cut(self, node: Node, chance: random.Random) -> None:
        """Cut a node off from the others for a while; whom it answers still reach it, and it refuses or is silent."""
        self.cluster.cut(node.number)
        time.sleep(2 + chance.random() * 8)
        self.cluster.heal(node.number)

    def _driver(self) -> Any:
        stage = self.stage
        words = {"views": stage.views_sql(), "base": KEYSPACE, "feed": str(stage.file("feed"))}
        words |= {"state": f"cvs_{VIEWS}", "record": str(stage.file(f"log_{VIEWS}"))}
        words |= {"replication": stage.replicas, "incarnation": self.incarnation}
        if self.incarnation > 1 and not self.serves():
            words["older"] = self.incarnation - 1
        process = command(stage.address, **words, spark="local[3,4]" if self.spark else "")
        return stage.start_command(process, log="driver.log")

    def _keep(self) -> None:
        while not self._ended.wait(0.1):
            for name, process in list(self._running.items()):
                if process.poll() is None or name in self._down or len(self._down) == len(self.nodes):
                    continue
                driver = name == "driver"
                self._running[name] = self._driver() if driver else self.stage.capture_of(name)

    def serves(self) -> bool:
        """Say whether readers see all of the newest incarnation."""
        control = self.stage.control()
        if control is None or control.signature.incarnation < self.incarnation:
            return False
        return not control.pin.building and not control.pin.publishing

    def rebuild(self, chance: random.Random, *, kills: int) -> None:
        """Build all views anew, and kill the driver again and again while that goes on, at the take-over too."""
        stage = self.stage
        self.incarnation += 1
        names = Names(keyspace=f"cvs_{VIEWS}", incarnation=self.incarnation)
        recipe, _ = recipe_of(stage.session, stage.views_sql(VIEWS), names=names, keyspaces=(KEYSPACE,))
        create(
            stage.session, recipe.plan, names, replication=stage.replicas, build=f"{PREFIX}{self.incarnation}"
        )
        _send(self._running["driver"].pid, signal.SIGKILL)
        for _ in range(kills):
            time.sleep(1 + chance.random() * (15 if self.spark else 3))
            _send(self._running["driver"].pid, signal.SIGKILL)
            self.killed["driver while rebuilding" if not self.serves() else "driver"] += 1
        wait_for(self.serves, seconds=LIVE_SECONDS, what="the rebuild")

    def under_spark(self) -> None:
        """Go on under Spark, its tasks carrying every epoch."""
        self.spark = True
        _send(self._running["driver"].pid, signal.SIGTERM)
        self.live()

    def _worker(self) -> int:
        """Wait for a Python worker of Spark's, and choose it."""
        found: list[int] = []

        def there() -> bool:
            found[:] = [pid for pid in _below(self._running["driver"].pid) if _is_worker(pid)]
            return bool(found)

        wait_for(there, seconds=LIVE_SECONDS, what="a Python worker of Spark")
        return found[-1]


def _send(pid: int, number: int) -> None:
    """Signal a process, unless it has ended by itself meanwhile, as a driver does when the node stays away."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _below(pid: int) -> list[int]:
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [below for child in children for below in (child, *_below(child))]


def _is_worker(pid: int) -> bool:
    """Say whether it is a worker: a fork of Spark's Python daemon."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        return (
            b"pyspark.daemon" in words and b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes()
        )
    except OSError:
        return False


def wrong_rows(address: ClusterAddress, stage: Stage) -> dict[str, int]:
    """Scan base and views with the plain driver, recompute with DuckDB; return differing rows by view."""
    recipe, declared = recipe_of(
        stage.session, stage.views_sql(VIEWS), names=Names(keyspace="cvs_views"), keyspaces=(KEYSPACE,)
    )
    tables = {table.name: table for table in recipe.plan.bases}
    at_quorum = ExecutionProfile(consistency_level=ConsistencyLevel.QUORUM, row_factory=dict_factory)
    with Cluster(
        list(address.contact_points), port=address.port, execution_profiles={EXEC_PROFILE_DEFAULT: at_quorum}
    ) as cluster:
        session = cluster.connect()
        database = duckdb_sql.connect(tables)
        duckdb_sql.fill(
            database, tables, {name: list(session.execute(f"SELECT * FROM {name}")) for name in tables}
        )
        found = {}
        for view in declared:
            columns = [name for name, _ in view.columns]
            answer = database.execute(duckdb_sql.relation(view.definition.relation, tables))
            names = [part[0] for part in answer.description]
            places = [names.index(name) for name in columns]
            expected = Counter(
                tuple(duckdb_sql.comparable(row[place]) for place in places) for row in answer.fetchall()
            )
            shown = Counter(
                tuple(duckdb_sql.comparable(row[name]) for name in columns)
                for row in session.execute(f"SELECT * FROM {view.name}")
            )
            found[view.name] = ((expected - shown) + (shown - expected)).total()
            assert expected.total() > 0, f"nothing to compare in {view.name}"
    return found


def judged(stage: Stage, *, reference: str = "writers") -> list[Finding]:
    """Judge the recorded run against the writers' own log, or its order of write times: what is said of strong."""
    history = write_history(stage)
    events = [event_of(line) for line in history.read_bytes().splitlines()]
    judgement = judge_events(events, reference=reference, budget=50)
    assert judgement.reference == reference
    return [
        finding
        for finding in judgement.findings
        if finding.property == "strong" and finding.granularity in ("record", "snapshots")
    ]


def run(
    stage: Stage, cluster: EmbeddedCluster, *, seed: int, kills: list[str], skew_seconds: float = 0.0
) -> Campaign:
    """Kill in turn; `spark` among them switches the driver to Spark. At rest, everything written is shown."""
    chance = random.Random(seed)
    campaign = Campaign(stage, cluster)
    with campaign:
        campaign.live()
        load, readers = Load(stage, pause=PAUSE, seed=seed, skew_seconds=skew_seconds), Readers(stage)
        try:
            for victim in kills:
                if victim == "spark":
                    campaign.under_spark()
                else:
                    campaign.kill(victim, chance)
        finally:
            load.stop()
            readers.stop()
        campaign.live()
    assert load.writer.written > 100
    again = " ".join(f"{seconds:.0f}" for seconds in sorted(campaign.live_again))
    print(f"{NOTE}{load.writer.written} writes; killed {dict(campaign.killed)}; live again after {again} s")
    return campaign
