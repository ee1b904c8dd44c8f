"""What one captured, DELTA, state and published row costs by itself: bare driver, same node, same run."""

import os
import time
from collections.abc import Callable
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent
from cassandra.query import BatchStatement, BatchType

from bench_pipeline.backlog import LIVE_EPOCH
from bench_pipeline.place import Bench, cpu_seconds

ROWS, A_BATCH, PARTITIONS = 10_000, 100, 10
STATE_ROWS, STATE_BUCKETS, STATE_ROUNDS = 50, 16, 20
IN_FLIGHT = 16


def units(bench: Bench) -> dict[str, float]:
    """CPU ms a row, client and node together; captured rows: of the capture."""
    session = bench.session
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.define(f"CREATE KEYSPACE units WITH replication = {replication}")
    session.define("CREATE TABLE units.images (b int, k blob, v blob, PRIMARY KEY (b, k))")
    session.define("CREATE TABLE units.published (k int PRIMARY KEY, a int, b int, c int)")
    session.define("CREATE TABLE units.state (b int, e bigint static, k blob, v blob, PRIMARY KEY (b, k))")
    keys = [os.urandom(12) for _ in range(ROWS)]
    image = os.urandom(120)
    put = session.prepared("INSERT INTO units.images (b, k, v) VALUES (?, ?, ?) USING TIMESTAMP 5")
    read = session.prepared("SELECT k, v FROM units.images WHERE b = ? AND k IN ?")
    read_state = session.prepared("SELECT e, k, v FROM units.state WHERE b = ? AND k IN ?")
    publish = session.prepared(
        "INSERT INTO units.published (k, a, b, c) VALUES (?, ?, ?, ?) USING TIMESTAMP 5"
    )
    parts = [keys[at : at + A_BATCH] for at in range(0, ROWS, A_BATCH)]

    def together(put_all: list[tuple[Any, Any]]) -> BatchStatement:
        batch = BatchStatement(batch_type=BatchType.UNLOGGED, consistency_level=ConsistencyLevel.QUORUM)
        for statement, values in put_all:
            batch.add(statement, values)
        return batch

    def delta_puts() -> list[Any]:
        return [
            (together([(put, (number % 64, key, image)) for key in part]), None)
            for number, part in enumerate(parts)
        ]

    def delta_reads() -> list[Any]:
        return [(read, (number % 64, part)) for number, part in enumerate(parts)]

    def state_reads() -> list[Any]:
        keys = [row.to_bytes(4, "big") for row in range(STATE_ROWS)]
        return STATE_ROUNDS * [(read_state, (bucket, keys)) for bucket in range(STATE_BUCKETS)]

    def published() -> list[Any]:
        rows = [(publish, (n, n, n, n)) for n in range(ROWS)]
        return [(together(rows[at : at + PARTITIONS]), None) for at in range(0, ROWS, PARTITIONS)]

    def one_by_one() -> list[Any]:
        return [(publish, (n, n, n, n)) for n in range(ROWS // 4)]

    measured = {
        "delta put": _measured(bench, delta_puts),
        "delta read": _measured(bench, delta_reads),
        "published row": _measured(bench, published),
        "published row, a statement each": _measured(bench, one_by_one, rows=ROWS // 4),
        "state row": _state_rows(bench),
        "state read": _measured(bench, state_reads, rows=STATE_ROWS * STATE_BUCKETS * STATE_ROUNDS),
        "captured row": _captured(bench),
    }
    return {name: round(value, 4) for name, value in measured.items()}


def _measured(bench: Bench, statements: Callable[[], list[Any]], rows: int = ROWS) -> float:
    """CPU ms a row of the second pass; the first warms up."""
    node = bench.node.process.pid  # type: ignore[union-attr]
    for _ in range(2):
        before, own = cpu_seconds(node), time.process_time()
        for done in execute_concurrent(bench.session.driver, statements(), concurrency=IN_FLIGHT):
            list(done.result_or_exc)
        spent = time.process_time() - own + cpu_seconds(node) - before
    return 1000 * spent / rows


def _state_rows(bench: Bench) -> float:
    """50 rows a test-and-set, 16 buckets side by side."""
    session = bench.session
    condition = session.prepared("UPDATE units.state SET e = ? WHERE b = ? IF e = ?")
    put = session.prepared("INSERT INTO units.state (b, k, v) VALUES (?, ?, ?)")
    for bucket in range(STATE_BUCKETS):
        session.execute("INSERT INTO units.state (b, e) VALUES (?, 0)", (bucket,))
    node = bench.node.process.pid  # type: ignore[union-attr]
    image = os.urandom(80)
    rounds, rows = STATE_ROUNDS, STATE_ROWS
    for again in range(2):
        before, own = cpu_seconds(node), time.process_time()
        for number in range(again * rounds, (again + 1) * rounds):
            statements = []
            for bucket in range(STATE_BUCKETS):
                batch = BatchStatement(
                    batch_type=BatchType.UNLOGGED, consistency_level=ConsistencyLevel.QUORUM
                )
                batch.add(condition, (number + 1, bucket, number))
                for row in range(rows):
                    batch.add(put, (bucket, row.to_bytes(4, "big"), image))
                statements.append((batch, None))
            for done in execute_concurrent(session.driver, statements, concurrency=IN_FLIGHT):
                assert next(iter(done.result_or_exc))[0]
        spent = time.process_time() - own + cpu_seconds(node) - before
    return 1000 * spent / (rounds * rows * STATE_BUCKETS)


def _captured(bench: Bench) -> float:
    before, count = cpu_seconds(bench.capture), 5000
    bench.write("plain", count, seed=5)
    bench.wait_captured()
    return 1000 * (cpu_seconds(bench.capture) - before) / count


def floor_of(results: dict[str, Any]) -> dict[str, Any]:
    """What c4 would cost if only the rows it moves were paid for, and how far above that it is: a backlog, and live.

    Small epochs move more rows a change; those of a live pipeline are counted in a backlog of epochs as small.
    """
    unit, large = results["units"], results["backlog c4"]
    live = large[f"epochs of {LIVE_EPOCH}"]
    alone = {"base write": results["cost"]["plain"]["cpu_ms"], "captured": unit["captured row"]}
    return {
        "backlog": _above(_moved(unit, large["rows a change"]), large["pipeline_ms"] + large["node_ms"]),
        "live": _above(alone | _moved(unit, live["rows a change"]), results["cost"]["c4"]["cpu_ms"]),
    }


def _moved(unit: dict[str, float], rows: dict[str, float]) -> dict[str, float]:
    return {
        "delta": rows.get("ReadImages", 0) * unit["delta read"] + rows["PutImages"] * unit["delta put"],
        "state": rows["SetBucket"] * unit["state row"] + rows["ReadBucket"] * unit["state read"],
        "published": rows["PutRows"] * unit["published row"],
    }


def _above(parts: dict[str, float], spent: float) -> dict[str, float]:
    total = sum(parts.values())
    found = {**parts, "floor_ms": total, "c4_ms": spent}
    return {name: round(value, 3) for name, value in found.items()} | {"c4 / floor": round(spent / total, 2)}
