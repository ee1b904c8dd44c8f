"""How fast is the door to storage: our adapter beside the bare driver, on one real node, rounds interleaved.

    make bench B=store          or          python bench/store.py --rounds 5 --seconds 1 --concurrency 1,16,64

Every figure is the median over rounds, with the lowest and highest round beside it. The rounds of all
measurements alternate, so that a noisy neighbour hits all of them. `cpu` is the node's and our own CPU time
an operation: on a machine whose two cores are full, that is what the rate is made of.
"""

import argparse
import itertools
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cassandra import ConsistencyLevel, OperationTimedOut, Timeout
from cassandra.query import BatchStatement, BatchType

from cvs.embedded.cluster import EmbeddedCluster
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import Signature
from cvs.model.values import encode_row, encode_value
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession, ClusterAddress

KEYSPACE = "bench"
PARTITIONS_A_THREAD = 8
TARGET_RATIO = 0.9
SCALARS = ("incarnation", "version", "chunk", "last")

Operation = Callable[[], None]
Maker = Callable[[int], Operation]  # thread number -> what that thread repeats


@dataclass
class Measurement:
    """One operation at one concurrency: what each round gave."""

    name: str
    rows: int
    make: Maker
    rates: dict[int, list[float]] = field(default_factory=dict)
    latencies: dict[int, list[float]] = field(default_factory=dict)
    cpu_ms: dict[int, list[float]] = field(default_factory=dict)
    timeouts: int = 0


class Unanswered(Exception):
    """A request timed out: counted; its thread goes on with fresh partitions."""


class Bench:
    """Tables, statements and operations on one node."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.node = cluster.nodes[0]
        self._open(cluster.contact_points)
        self._define()

    @classmethod
    def joined(cls, contact_points: tuple[str, ...]) -> "Bench":
        """Open another client of a node whose tables are there."""
        bench = cls.__new__(cls)
        bench._open(contact_points)
        return bench

    def _open(self, contact_points: tuple[str, ...]) -> None:
        self.session = CassandraSession(ClusterAddress(contact_points=contact_points))
        self.store = CassandraStore(self.session, keyspace=KEYSPACE)

    def _define(self) -> None:
        self.session.define(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        for table in ("adapter", "bare"):
            self.store.create(table)
        for table in ("plain", "viewed"):
            self.session.define(
                f"CREATE TABLE {KEYSPACE}.{table} (k bigint PRIMARY KEY, g int, v text) WITH cdc = true"
            )
        self.session.define(
            f"CREATE MATERIALIZED VIEW {KEYSPACE}.native AS SELECT * FROM {KEYSPACE}.viewed "
            "WHERE g IS NOT NULL AND k IS NOT NULL PRIMARY KEY (g, k)"
        )

    def insert(self, table: str, thread: int) -> Operation:
        statement = self.session.prepared(f"INSERT INTO {KEYSPACE}.{table} (k, g, v) VALUES (?, ?, ?)")
        numbers = count_from(thread)

        def once() -> None:
            n = next(numbers)
            self.session.driver.execute(statement, (n, n % 1000, f"value {n}"))

        return once

    def adapter(self, rows: int, thread: int) -> Operation:
        """Test-and-set through our adapter; each thread has partitions of its own."""
        places = [
            PartitionId(table="adapter", key=(rows, thread, n, time.time_ns()))
            for n in range(PARTITIONS_A_THREAD)
        ]
        signatures: dict[int, Signature | None] = dict.fromkeys(range(PARTITIONS_A_THREAD))
        numbers = count_from(0)

        def once() -> None:
            n = next(numbers)
            turn = n % PARTITIONS_A_THREAD
            old = signatures[turn]
            new = Signature(version=(old.version if old else 0) + 1, entries=(("s", n),))
            puts = tuple(((row,), {"total": n, "count": row}) for row in range(rows))
            outcome = self.store.test_and_set(
                TestAndSet(partition=places[turn], expected=old, new=new, puts=puts)
            )
            if outcome.kind is not OutcomeKind.APPLIED:
                raise Unanswered(outcome.reason)
            signatures[turn] = new

        return once

    def bare(self, rows: int, thread: int) -> Operation:
        """The same statements with the driver alone, values encoded beforehand."""
        table = f'"{KEYSPACE}"."bare"'
        prepared = self.session.prepared
        names = ", ".join(SCALARS)
        first = prepared(
            f"INSERT INTO {table} (record, {names}, absorbed) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS"
        )
        sentinel = prepared(f"INSERT INTO {table} (record, row) VALUES (?, ?)")
        update = prepared(
            f"UPDATE {table} SET {' = ?, '.join(SCALARS)} = ?, absorbed = ? WHERE record = ? "
            f"IF {' = ? AND '.join(SCALARS)} = ?"
        )
        put = prepared(f"INSERT INTO {table} (record, row, body) VALUES (?, ?, ?)")
        records = [encode_value((rows, thread, n, time.time_ns())) for n in range(PARTITIONS_A_THREAD)]
        bodies = [(encode_value((row,)), encode_row({"total": 7, "count": row})) for row in range(rows)]
        entries = encode_value((("s", 7),))
        numbers = count_from(0)

        def once() -> None:
            n = next(numbers)
            record, version = records[n % PARTITIONS_A_THREAD], n // PARTITIONS_A_THREAD
            batch = BatchStatement(
                BatchType.LOGGED,
                consistency_level=ConsistencyLevel.QUORUM,
                serial_consistency_level=ConsistencyLevel.SERIAL,
            )
            if version == 0:
                batch.add(first, (record, 0, 1, 0, True, entries))
                batch.add(sentinel, (record, b""))
            else:
                batch.add(update, (0, version + 1, 0, True, entries, record, 0, version, 0, True))
            for key, body in bodies:
                batch.add(put, (record, key, body))
            assert self.session.driver.execute(batch).one()[0] is True

        return once

    def serial_read(self, thread: int) -> Operation:
        place = PartitionId(table="adapter", key=("read", thread))
        first = Signature(version=1)
        self.store.test_and_set(
            TestAndSet(partition=place, expected=None, new=first, puts=(((1,), {"n": 1}),))
        )
        return lambda: check(self.store.read(place, serial=True).signature == first)

    def paxos(self, variant: str) -> None:
        bean = "org.apache.cassandra.db:type=StorageProxy"
        self.node.nodetool("sjk", "mx", "-ms", "-b", bean, "-f", "PaxosVariant", "-v", variant)
        found = self.session.execute("SELECT value FROM system_views.settings WHERE name = 'paxos_variant'")
        print(f"paxos variant asked for: {variant}; settings table says {found[0][0]}")


def check(truth: bool) -> None:
    assert truth


def count_from(thread: int) -> Iterator[int]:
    number = thread << 40
    while True:
        yield number
        number += 1


def cpu_seconds(pid: int | None) -> float:
    """CPU time of the node so far; 0 where nobody asks for it."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_round(measurement: Measurement, threads: int, seconds: float, pid: int | None) -> None:
    """Repeat an operation in so many threads for so long."""
    operations = [measurement.make(thread) for thread in range(threads)]
    latencies: list[list[float]] = [[] for _ in range(threads)]
    failures: list[BaseException] = []
    timeouts: list[float] = []
    fresh = itertools.count(threads)
    began, cpu_before = time.perf_counter(), cpu_seconds(pid) + time.process_time()
    deadline = began + seconds

    def repeat(operation: Operation, mine: list[float]) -> None:
        try:
            while (start := time.perf_counter()) < deadline:
                try:
                    operation()
                    mine.append(time.perf_counter() - start)
                except (Unanswered, Timeout, OperationTimedOut):
                    timeouts.append(start)
                    operation = measurement.make(next(fresh))
        except Exception as failure:  # noqa: BLE001 -- because it is raised again in the main thread
            failures.append(failure)

    workers = [threading.Thread(target=repeat, args=pair) for pair in zip(operations, latencies, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    all_of_them = [latency for mine in latencies for latency in mine]
    spent = time.perf_counter() - began
    cpu = cpu_seconds(pid) + time.process_time() - cpu_before
    measurement.rates.setdefault(threads, []).append(len(all_of_them) * measurement.rows / spent)
    measurement.timeouts += len(timeouts)
    measurement.latencies.setdefault(threads, []).extend(all_of_them)
    measurement.cpu_ms.setdefault(threads, []).append(
        cpu * 1000 / max(1, len(all_of_them) * measurement.rows)
    )


def measurements(bench: Bench) -> list[Measurement]:
    found = [
        Measurement("plain insert", 1, partial(bench.insert, "plain")),
        Measurement("insert under a native view", 1, partial(bench.insert, "viewed")),
        Measurement("SERIAL read, adapter", 1, bench.serial_read),
    ]
    for rows in (1, 10, 50, 200):
        found.append(Measurement(f"test-and-set {rows} row(s), adapter", rows, partial(bench.adapter, rows)))
        found.append(Measurement(f"test-and-set {rows} row(s), bare driver", rows, partial(bench.bare, rows)))
    return found


def show(found: list[Measurement], wanted: list[int]) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    heads = ("threads", "median", "low", "high", "p50 ms", "p99 ms", "cpu ms/row")
    print(f"{'rows/s':>42} " + " ".join(f"{head:>10}" for head in heads))
    for measurement in found:
        for threads in wanted:
            rates = measurement.rates[threads]
            cuts = statistics.quantiles(measurement.latencies[threads], n=100)
            line = {
                "name": measurement.name,
                "threads": threads,
                "median": round(statistics.median(rates)),
                "low": round(min(rates)),
                "high": round(max(rates)),
                "p50_ms": round(cuts[49] * 1000, 1),
                "p99_ms": round(cuts[98] * 1000, 1),
                "cpu_ms": round(statistics.median(measurement.cpu_ms[threads]), 3),
            }
            lines.append(line)
            print(f"{measurement.name:>42} " + " ".join(f"{line[key]:>10}" for key in list(line)[1:]))
    return lines


def ratios(found: list[Measurement], wanted: list[int]) -> bool:
    """Compare adapter and bare driver round by round (each pair ran side by side)."""
    fine = True
    by_name = {measurement.name: measurement for measurement in found}
    for rows in (1, 10, 50, 200):
        if f"test-and-set {rows} row(s), bare driver" not in by_name:
            continue
        ours = by_name[f"test-and-set {rows} row(s), adapter"].rates
        bare = by_name[f"test-and-set {rows} row(s), bare driver"].rates
        for threads in wanted:
            ratio = statistics.median(a / b for a, b in zip(ours[threads], bare[threads], strict=True))
            fine = fine and ratio >= TARGET_RATIO
            print(f"adapter / bare driver, {rows} row(s), {threads} thread(s): {ratio:.2f}")
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--concurrency", default="1,16,64,128")
    parser.add_argument(
        "--sync", default="group", help="commit-log sync of the node: group, batch, periodic-fast"
    )
    parser.add_argument("--no-paxos-v1", action="store_true", help="leave out the comparison with Paxos v1")
    parser.add_argument("--only", default="", help="only measurements whose name has this in it")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    wanted = [int(word) for word in given.concurrency.split(",")]
    with EmbeddedCluster(size=1, commitlog_sync=given.sync, heap="1G") as cluster:
        bench = Bench(cluster)
        process = cluster.nodes[0].process
        assert process is not None
        found = [m for m in measurements(bench) if given.only in m.name]
        for number in range(-1, given.rounds):  # the first round warms up and is thrown away
            for threads in wanted:
                for measurement in found:
                    run_round(measurement, threads, given.seconds, process.pid)
            if number < 0:
                for measurement in found:
                    measurement.rates, measurement.latencies, measurement.cpu_ms = {}, {}, {}
        if not given.no_paxos_v1:
            versions = [
                Measurement(f"test-and-set 1 row, Paxos {v}", 1, partial(bench.adapter, 1))
                for v in ("v1", "v2")
            ]
            for _ in range(given.rounds):
                for measurement in versions:
                    bench.paxos(measurement.name[-2:])
                    for threads in wanted:
                        run_round(measurement, threads, given.seconds, process.pid)
            found += versions
        lines = show(found, wanted)
        print("timeouts:", {m.name: m.timeouts for m in found if m.timeouts} or "none")
        fine = ratios(found, wanted)
        bench.session.close()
    print("target (adapter at least 0.9 of the bare driver):", "met" if fine else "not met")
    if given.json:
        given.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
