"""What one row and one test-and-set cost on this machine: the weights of the cost model, measured on a real node.

    python bench/calibrate.py --out weights.json        then          cvs explain views.sql --weights weights.json

A weight is CPU time of the node and of this process together, in milliseconds: on a machine whose cores are full
that is what throughput is made of, and other load hardly moves it. Requests are those of the epoch machines,
through the pipeline's own door; fixed and per-row costs are told apart by asking for one row and for a hundred.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cvs.embedded.cluster import EmbeddedCluster
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import Signature
from cvs.model.stages import Plan
from cvs.model.views import BaseTable
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from cvs.plan.statistics import Weights
from cvs.programs.stage_bucket import ReadBucket, SetBucket, StateRow
from cvs.programs.stage_delta import PutImages, ReadImages
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_publish import PutRows
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.door import CassandraDoor
from cvs.stream.tables import Names, create
from tests.plan.programs_run import ProgramsRun

BUCKETS = 64
MANY = 100
EDGES = 20
APART = Choices(share=False, merge_zones=False)
SECONDS = 1.5
ROUNDS = 4  # and one before them that warms up and is thrown away
TABLE = BaseTable(
    name="calibrate.t",
    columns=(("id", "int"), ("g", "int"), ("total", "int"), ("note", "text")),
    partition_key=("id",),
)
VIEWS = """CREATE MATERIALIZED VIEW calibrate.v AS SELECT g, COUNT(*) AS n, SUM(total) AS s FROM t GROUP BY g;
CREATE MATERIALIZED VIEW calibrate.w AS SELECT a.id, b.id AS other, a.note FROM t a JOIN t b ON a.total = b.id"""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


PLAN = maintenance_plan(parse_views(VIEWS, [TABLE], keyspace="calibrate"), [TABLE], Choices(buckets=BUCKETS))
NAMES = Names(keyspace="calibrate_state")


@dataclass
class Calibration:
    """A door to one plan's tables, how to ask for the CPU seconds spent, and how far the epochs are."""

    door: Callable[[list[Any]], list[Any]]
    cpu: Callable[[], float]
    epoch: int = 0
    signatures: list[Signature] = field(default_factory=lambda: [Signature(incarnation=1)] * BUCKETS)
    state: str = NAMES.state(PLAN.zones[0].name)
    delta: str = NAMES.delta(TABLE.name)

    def spent(self, work: Callable[[], int]) -> float:
        """Return CPU milliseconds a unit: the median of some rounds of about a second."""
        each = []
        for number in range(ROUNDS + 1):
            before, units, end = self.cpu(), 0, time.monotonic() + SECONDS
            while time.monotonic() < end:
                units += work()
            if number:
                each.append((self.cpu() - before) * 1000 / units)
        return statistics.median(each)

    def test_and_sets(self, rows: int) -> int:
        self.epoch += 1
        put = StateRow(
            now=b"n" * 60, epoch=self.epoch, alive=True, before=b"b" * 60, before_epoch=self.epoch - 1
        )
        new = Signature(incarnation=1, version=self.epoch)
        requests = [
            SetBucket(
                table=self.state,
                bucket=b,
                expected=old,
                new=new,
                puts=tuple((_key(n), put) for n in range(rows)),
            )
            for b, old in enumerate(self.signatures)
        ]
        for bucket, outcome in enumerate(self.door(requests)):
            applied = outcome.kind is OutcomeKind.APPLIED
            self.signatures[bucket] = new if applied else self._stands(bucket)
        return BUCKETS

    def _stands(self, bucket: int) -> Signature:
        """Return the signature that is there: on a crowded machine a test-and-set may time out."""
        (found,) = self.door([ReadBucket(table=self.state, bucket=bucket, everything=True, serial=True)])
        return found.signature

    def reads(self, rows: int) -> int:
        keys = tuple(_key(n) for n in range(rows))
        self.door([ReadBucket(table=self.state, bucket=b, keys=keys) for b in range(BUCKETS)])
        return BUCKETS

    def delta_rows(self) -> int:
        self.epoch += 1
        keys = tuple(_key(n) for n in range(MANY))
        images = tuple((key, b"i" * 150) for key in keys)
        self.door([ReadImages(table=self.delta, bucket=b, keys=keys, prefixes=()) for b in range(BUCKETS)])
        self.door(
            [
                PutImages(table=self.delta, bucket=b, images=images, write_time=self.epoch)
                for b in range(BUCKETS)
            ]
        )
        return BUCKETS * MANY

    def published_rows(self) -> int:
        self.epoch += 1
        rows = tuple((n, self.epoch, n * 7) for n in range(1000))
        self.door([PutRows(publication="calibrate.v", puts=rows, deletes=(), write_time=self.epoch)])
        return len(rows)

    def weights(self) -> Weights:
        """Measure all of them; one row at a time last, because a young JVM takes several times as long."""
        delta, published = self.spent(self.delta_rows), self.spent(self.published_rows)
        read_many, read_one = (self.spent(lambda rows=rows: self.reads(rows)) for rows in (MANY, 1))
        set_many, set_one = (self.spent(lambda rows=rows: self.test_and_sets(rows)) for rows in (MANY, 1))
        row = (set_many - set_one) / (MANY - 1)
        return Weights(
            delta_row=delta,
            state_row=row,
            read_row=(read_many - read_one) / (MANY - 1),
            test_and_set=set_one - row + read_one,  # because each follows a read of its bucket
            published_row=published,
            compute_row=compute_ms(),
            edge_row=edge_ms(),
            machine=f"{os.cpu_count()} cores, one node, {platform.platform()}, Python {platform.python_version()}",
        )


def _key(number: int) -> bytes:
    return b"key of a state row %06d" % number


def compute_ms() -> float:
    """Return what stage programs take a row that enters or leaves them, on dictionaries: no storage at all."""
    run = ProgramsRun(maintenance_plan(parse_views(VIEWS, [TABLE], keyspace="calibrate"), [TABLE]))
    rows = [(n, n % 500, n * 7 % 4000, f"note {n}") for n in range(4000)]
    run.epoch({TABLE.name: Counter(rows)})
    new = [(*row[:3], "changed") for row in rows]
    before = time.process_time()
    run.epoch({TABLE.name: Counter({**dict.fromkeys(new, 1), **dict.fromkeys(rows, -1)})})
    # Both sides of the join and the group take the old and the new row: 3 x 2 in; the join shows 2 x 2.
    return (time.process_time() - before) * 1000 / (len(rows) * 10)


def edge_ms() -> float:
    """Return what an edge takes a row that it does not let through."""
    text = "".join(
        f"CREATE MATERIALIZED VIEW calibrate.v{n} AS SELECT COUNT(*) AS n FROM t WHERE g >= {n} AND total < -{n + 1};"
        for n in range(EDGES)
    )
    run = ProgramsRun(maintenance_plan(parse_views(text, [TABLE], keyspace="calibrate"), [TABLE], APART))
    rows = [(n, n % 500, n * 7 % 4000, f"note {n}") for n in range(4000)]
    run.epoch({TABLE.name: Counter(rows[:1])})
    before = time.process_time()
    run.epoch({TABLE.name: Counter(rows[1:])})
    return (time.process_time() - before) * 1000 / (len(rows) * EDGES)


class OnNode:
    """Plans kept on a real node: CPU time is the node's and this process's."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.session = CassandraSession(ClusterAddress(contact_points=cluster.contact_points))
        process = cluster.nodes[0].process
        assert process is not None
        self.pid = process.pid
        self.spaces: list[str] = []
        self._keyspace("calibrate")
        create(self.session, PLAN, NAMES)
        self.weights = Calibration(self._door(PLAN, NAMES), self.cpu).weights()
        self._keyspace("tpch")

    def cpu(self) -> float:
        return cpu_seconds(self.pid) + time.process_time()

    def run(self, plan: Plan) -> ProgramsRun:
        names = Names(keyspace=f"order_{uuid4().hex[:8]}")
        create(self.session, plan, names)
        self.spaces.append(names.keyspace)
        return ProgramsRun(plan, self._door(plan, names), {z.name: names.state(z.name) for z in plan.zones})

    def clear(self) -> None:
        for space in (*self.spaces, "tpch"):
            self.session.define(f"DROP KEYSPACE {space}")
        self.spaces.clear()
        self._keyspace("tpch")

    def _keyspace(self, name: str) -> None:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.session.define(f"CREATE KEYSPACE {name} WITH replication = {replication}")

    def _door(self, plan: Plan, names: Names) -> CassandraDoor:
        shown = {publication.table: publication for publication in plan.publications}
        return CassandraDoor(self.session, keyspace=names.keyspace, publications=shown)


class InMemory:
    """Plans kept on dictionaries: what the stage programs themselves cost."""

    def __init__(self) -> None:
        self.cpu = time.process_time
        self.weights = Calibration(self._door(PLAN), self.cpu).weights()

    def run(self, plan: Plan) -> ProgramsRun:
        return ProgramsRun(plan, self._door(plan))

    def clear(self) -> None:
        """Nothing is left: dictionaries go by themselves."""

    def _door(self, plan: Plan) -> MemoryDoor:
        return MemoryDoor(
            keys={
                p.table: tuple([n for n, _ in p.columns].index(k) for k in p.key) for p in plan.publications
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="write the weights to this file")
    given = parser.parse_args()
    with EmbeddedCluster(size=1) as cluster:
        node = OnNode(cluster)
        node.session.close()
    text = json.dumps(
        {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(node.weights).items()}, indent=1
    )
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
