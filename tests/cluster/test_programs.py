"""Update programs on real nodes: eight managers in processes of their own on few view records, judged.

`make nightly PART=contention` asks for more runs of the same, each drawn from its seed.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.model.levels import Level
from cvs.programs.predicted import predicted
from cvs.report.audit import audit
from cvs.report.summary import Document
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.suite.classes import ViewClass, view_class
from cvs.suite.contention import Contention, Finished, contended
from tests.cluster.chained import Run, chain, proved_complete, run_of

pytestmark = [pytest.mark.cluster]

RUNS = int(os.environ.get("CVS_EXAMPLES", "2"))
FIRST = int(os.environ.get("CVS_SEED", "0"))
CRUEL = (0.05, 0.2, 10.0)
"""Request timeouts in seconds, dealt to the managers in turn: most of the first give up on what is under way."""

VIEWS = (
    ("count", "signature"),
    ("full-join", "reverse-join"),
    ("projection-moving-key", "signature"),
    ("inner-join", "reverse-join"),
    ("count-sum-avg-min-max", "signature"),
    ("top-2", "kept"),
    ("sum", "signature"),
    ("left-join", "reverse-join"),
    ("avg", "signature"),
    ("not-in", "kept"),
    ("count-distinct", "signature"),
    ("semi-join", "reverse-join"),
    ("variance", "signature"),
    ("anti-join", "reverse-join"),
    ("having", "signature"),
    ("right-join", "reverse-join"),
    ("selection", "signature"),
    ("min", "multiplicities"),
    ("projection-keeping-key", "signature"),
    ("union", "counter-column"),
    ("projection-losing-key", "signature"),
    ("intersect", "counter-column"),
    ("except", "counter-column"),
)
"""Every class with its program that reads no base; the first two are those of CI. What reads the base would have to
read it as of the log, which a cluster does not keep: those are judged in small worlds."""


@pytest.fixture
def one(cassandra_node: Node) -> ClusterAddress:
    return ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)


@contextmanager
def keyspace(address: ClusterAddress, name: str, *, replicas: int) -> Iterator[str]:
    """A keyspace of a test's own, gone afterwards."""
    session = CassandraSession(address)
    session.define(f"DROP KEYSPACE IF EXISTS {name}")
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    session.define(f"CREATE KEYSPACE {name} WITH replication = {replication}")
    try:
        yield name
    finally:
        session.define(f"DROP KEYSPACE {name}")
        session.close()


def judged(plan: Contention, finished: Finished, folder: Path) -> Document:
    """Judge a run against what is predicted of its program under the harshest faults."""
    record, _ = predicted(plan.view, plan.program, "zombies")
    assert record is not None
    expected = {"record": Level.STRONG.value if record is Level.NOT_CONVERGED else record.value}
    document, _ = audit([folder], expected=expected)
    told(plan, finished, document["granularities"][0]["level"]["proved"])
    return document


def told(plan: Contention, finished: Finished, level: str) -> None:
    """Say what a run saw."""
    unknown = sum(counts.unknown for counts in finished.counts)
    refused = sum(counts.rejected for counts in finished.counts)
    print(
        f"{plan.view}: {level}, {finished.entries} entries in {finished.seconds:.1f} s, "
        f"{finished.kills} kills, {unknown} unknown, {refused} refused"
    )


def reaches_its_prediction(plan: Contention, finished: Finished, folder: Path) -> None:
    """Judge a run; one of records of many rows by its chains, which the judge of histories does not know."""
    shape = view_class(plan.view)
    if shape.recorded_definition is not None:
        document = judged(plan, finished, folder)
        assert document["exit_code"] == 0, document
        return
    assert predicted(plan.view, plan.program, "zombies")[0] is Level.COMPLETE
    run = run_of(folder)
    assert proved_complete(shape, run) > 1
    told(plan, finished, "complete")
    refused_where_damaged(shape, run)


def refused_where_damaged(shape: ViewClass, run: Run) -> None:
    """See the proof fail for a state that was never shown, one that was refused, one with a base version too few."""
    last = max((chain(run, key) for key in run.ends), key=len)[-1]
    at = (last.view_key, last.new)
    row = {"rows": ({"k": "of no base row"},)}
    cut = (structs.replace(last.absorbed[0], to_version=last.absorbed[0].from_version),)
    for damage in (
        {"sets": {**run.sets, at: structs.replace(last, row=row)}},
        {"perhaps": run.perhaps - Counter({at: run.perhaps[at]})},
        {"sets": {**run.sets, at: structs.replace(last, absorbed=cut)}},
    ):
        with pytest.raises(AssertionError):
            proved_complete(shape, replace(run, **damage))


def test_eight_managers_reach_the_predicted_level_through_kills(one: ClusterAddress, tmp_path: Path) -> None:
    """Signature-based programs show every state of their records, whoever is killed and whatever comes again."""
    plan = Contention(view="count-sum-avg-min-max", seed=2, updates=120)
    with keyspace(one, "contended_programs", replicas=1) as name:
        finished = contended(one, name, plan, tmp_path)
    document = judged(plan, finished, tmp_path)
    assert document["exit_code"] == 0, document
    assert finished.kills > 0
    assert finished.entries == plan.updates


def test_counters_lose_the_predicted_level_through_kills(one: ClusterAddress, tmp_path: Path) -> None:
    """The counter-based program counts what comes again twice, and the judge says so."""
    plan = Contention(view="count", program="counter", seed=4, kills=6, updates=160)
    with keyspace(one, "contended_counters", replicas=1) as name:
        finished = contended(one, name, plan, tmp_path)
    assert finished.kills > 0
    assert judged(plan, finished, tmp_path)["exit_code"] == 1


def _kill(cluster: EmbeddedCluster, number: int) -> None:
    cluster.nodes[number].kill()
    time.sleep(1)
    cluster.nodes[number].restart()
    cluster.wait_joined()


def _pause(cluster: EmbeddedCluster, number: int) -> None:
    """Freeze two of three: nobody has a majority, and whoever was under way never learns how it ended."""
    others = [node for node in cluster.nodes if node is not cluster.nodes[number]]
    for node in others:
        node.pause()
    time.sleep(2)
    for node in others:
        node.resume()


def _cut(cluster: EmbeddedCluster, number: int) -> None:
    """Clients still reach the node, but it reaches no other."""
    if cluster.network is None:
        return _pause(cluster, number)
    cluster.cut(cluster.nodes[number].number)
    time.sleep(3)
    cluster.heal(cluster.nodes[number].number)
    return None


FAULTS: dict[str, Callable[[EmbeddedCluster, int], None]] = {"kill": _kill, "pause": _pause, "cut": _cut}


def disturb(cluster: EmbeddedCluster, faults: tuple[str, ...], random: Random) -> None:
    for fault in faults:
        time.sleep(random.random())
        FAULTS[fault](cluster, random.randrange(3))


def drawn(seed: int) -> tuple[Contention, tuple[str, ...]]:
    """Draw a run: the first two are those of CI, which have every fault."""
    random = Random(seed)
    faults = (("pause", "cut"), ("kill",))[seed % 2]
    view, program = VIEWS[seed % len(VIEWS)]
    plan = Contention(
        view=view,
        program=program,
        seed=seed,
        updates=320,
        kills=2,
        remember=random.random() < 0.7,
        patience_s=CRUEL,
    )
    return plan, faults


@pytest.mark.parametrize("seed", range(FIRST, FIRST + RUNS))
def test_three_nodes_with_faults_reach_the_predicted_level(
    cassandra_cluster: EmbeddedCluster, seed: int, tmp_path: Path
) -> None:
    """Eight managers, most of them impatient, while nodes are killed, frozen and cut off: still every state.

    Faults that met no request of theirs show nothing: then others are drawn.
    """
    cluster = cassandra_cluster
    address = ClusterAddress(contact_points=cluster.contact_points, port=cluster.native_port)
    for drawing in (seed, seed + 1_000, seed + 2_000):
        plan, faults = drawn(drawing)
        folder = tmp_path / str(drawing)
        folder.mkdir()
        act = partial(disturb, cluster, faults, Random(drawing))
        with keyspace(address, f"contended_on_three_{drawing}", replicas=3) as name:
            finished = contended(address, name, plan, folder, disturb=act)
        reaches_its_prediction(plan, finished, folder)
        assert finished.entries == plan.updates
        if any(counts.unknown for counts in finished.counts):
            return
    raise AssertionError("the faults did not bite")
