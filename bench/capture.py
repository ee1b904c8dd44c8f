"""Capture, measured in one run: decode rate against Cassandra's own reader, latency, idle cost, cost to writers.

    python bench/capture.py [--parts decode,writers,latency] [--rows 60000] [--modes group,batch,periodic-fast] [--json]

Decode rate: the same segments, one core; the stock reader's clock starts after its JVM is up, and it builds no
output. Latency: from a write's own time to its change in the durable feed. Cost: an open-loop writer at a fixed
rate, with and without `cvs capture` beside the node, in interleaved rounds; latency counts from when a write was
due, not when it left; a figure is the median and the range of the rounds.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from cassandra.cluster import Cluster, Session
from cassandra.concurrent import execute_concurrent_with_args

from cvs.capture.folder import FolderFeed, reference_of
from cvs.capture.log import LogDecoder
from cvs.capture.node import NodeConnection
from cvs.capture.runner import Capture
from cvs.capture.schema import SchemaBook
from cvs.capture.segment import MARKER_BYTES, read_header, section_end, segment_id
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from tests.java import stock

RATE = 1500  # writes a second of the open-loop writer: below half of what this machine takes
SECONDS = 8


COLUMNS = "(id int PRIMARY KEY, a int, b text, c bigint)"


def narrow_table(session: Session) -> Any:
    session.execute(
        "CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(f"CREATE TABLE bench.narrow {COLUMNS} WITH cdc = true")
    session.execute(f"CREATE TABLE bench.plain {COLUMNS}")
    return session.prepare("INSERT INTO bench.narrow (id, a, b, c) VALUES (?, ?, ?, ?)")


def decode_all(segments: list[Path], book: SchemaBook) -> tuple[LogDecoder, int, float, float]:
    """Decode segments; return (decoder, changes, wall seconds, CPU seconds)."""
    decoder = LogDecoder(book, define=reference_of)
    blobs = [(segment_id(path.name) or 0, path.read_bytes()) for path in segments]
    changes, wall, cpu = 0, time.perf_counter(), time.process_time()
    for number, data in blobs:
        header = read_header(data, number)
        at = header.size if header else len(data)
        while at + MARKER_BYTES < len(data) and (end := section_end(data, at, segment=number, offset=at)):
            changes += len(decoder.decode(data, at + MARKER_BYTES, end, segment=number, base=0))
            at = end
    return decoder, changes, time.perf_counter() - wall, time.process_time() - cpu


def decode_rate(node: Node, folder: Path) -> dict[str, Any]:
    connection = NodeConnection(node.address, node.native_port)
    book = SchemaBook()
    book.load(connection.schema())
    connection.close()
    time.sleep(0.5)
    segments = [Path(shutil.copy(path, folder)) for path in sorted(node.cdc_raw.glob("CommitLog-*.log"))]
    wanted = [d for d in book.definitions.values() if d.keyspace == "bench"]
    theirs = stock.read(stock.compiled(folder), wanted, segments, None)
    decoder, changes, wall, cpu = decode_all(segments, book)
    assert changes == theirs["changes"], "both readers must see the same changes"
    return {
        "changes": changes,
        "ours_per_second": round(changes / wall),
        "ours_per_cpu_second": round(changes / cpu),
        "stock_per_second": round(changes / theirs["seconds"]),
        "entries": decoder.decoded,
    }


def latency(node: Node, session: Session, insert: Any, folder: Path, *, eager: bool) -> dict[str, Any]:
    """Write one row at a time; wait for each in the feed."""
    feed = FolderFeed(folder)
    capture = Capture(NodeConnection(node.address, node.native_port), feed, delete=False, eager=eager)
    capture.catch_up()
    stop = threading.Event()
    runner = threading.Thread(target=capture.run, args=(stop,))
    runner.start()
    reader, (stream,) = FolderFeed(folder), feed.streams()
    position, delays = reader.head(stream).position, []
    for number in range(200):
        session.execute(insert, (number, 1, "x", 2))
        while reader.head(stream).position == position:
            time.sleep(0.0005)
        change = reader.read(stream, position, 1)[0]
        delays.append(time.time() * 1000 - change.write_time / 1000)
        position = reader.head(stream).position
    stop.set()
    runner.join()
    capture.close()
    feed.close()
    return {"p50_ms": round(statistics.median(delays), 1), "p90_ms": round(sorted(delays)[179], 1)}


def process_cost(pid: int) -> tuple[float, float]:
    """Return (CPU seconds, resident MB) of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(words[11]) + int(words[12])
    resident = int(words[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return ticks / os.sysconf("SC_CLK_TCK"), resident


def open_loop(node: Node, session: Session, insert: Any, rate: int) -> dict[str, float]:
    """Write at a fixed rate; latency counts from the moment a write was due."""
    assert node.process
    delays: list[float] = []
    pending = threading.Semaphore(0)
    before, _ = process_cost(node.process.pid)
    own = time.process_time()
    start = time.perf_counter()
    for number in range(rate * SECONDS):
        due = start + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        future = session.execute_async(insert, (number, 1, "x", 2))

        def answered(_: Any, due: float = due) -> None:
            delays.append((time.perf_counter() - due) * 1000)
            pending.release()

        future.add_callbacks(answered, answered)
    for _ in range(rate * SECONDS):
        assert pending.acquire(timeout=60)
    after, _ = process_cost(node.process.pid)
    delays.sort()
    return {
        "p50_ms": statistics.median(delays),
        "p99_ms": delays[len(delays) * 99 // 100],
        "node_cpu_ms": (after - before) * 1000 / (rate * SECONDS),
        "client_cpu_ms": (time.process_time() - own) * 1000 / (rate * SECONDS),
    }


def cost_to_writers(
    node: Node, session: Session, insert: Any, folder: Path, rate: int, rounds: int
) -> dict[str, Any]:
    """A table without CDC, one with it, and that one with capture beside it; a stopped capture takes nothing."""
    plain = session.prepare("INSERT INTO bench.plain (id, a, b, c) VALUES (?, ?, ?, ?)")
    open_loop(node, session, plain, rate)  # to warm the node up
    found: dict[str, list[dict[str, float]]] = {"plain table": [], "cdc table": [], "with capture": []}
    command = [sys.executable, "-m", "cvs", "capture", "--feed", str(folder / "cost")]
    command += ["--node", node.address, "--port", str(node.native_port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            captured(folder / "cost")
            before, _ = process_cost(process.pid)
            time.sleep(5)
            idle = process_cost(process.pid)[0] - before
            for _ in range(rounds):
                process.send_signal(signal.SIGSTOP)
                found["plain table"].append(open_loop(node, session, plain, rate))
                found["cdc table"].append(open_loop(node, session, insert, rate))
                process.send_signal(signal.SIGCONT)
                captured(folder / "cost")
                before, _ = process_cost(process.pid)
                found["with capture"].append(open_loop(node, session, insert, rate))
                spent, resident = process_cost(process.pid)
                found["with capture"][-1]["capture_cpu_ms"] = (spent - before) * 1000 / (rate * SECONDS)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
    medians = {
        what: {name: spread([run[name] for run in runs]) for name in runs[0]} for what, runs in found.items()
    }
    return {"rate": rate, "idle_cpu_percent": round(idle * 20, 1), "resident_mb": round(resident), **medians}


def captured(folder: Path) -> None:
    """Wait until the feed in a folder has come to now."""
    feed = FolderFeed(folder)
    while not feed.streams() or time.time() * 1e6 - feed.head(feed.streams()[0]).clock > 1e6:
        time.sleep(0.1)


def spread(values: list[float]) -> str:
    """Write median and range."""
    return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--parts", default="decode,writers,latency", help="what to measure")
    parser.add_argument("--rate", type=int, default=RATE, help="writes a second of the open-loop writer")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the writers, interleaved")
    parser.add_argument("--modes", default="group", help="commit-log sync modes whose latency is measured")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {"load": os.getloadavg()[0], "cores": os.cpu_count()}
    for index, mode in enumerate(options.modes.split(",")):
        with (
            tempfile.TemporaryDirectory() as temporary,
            EmbeddedCluster(size=1, commitlog_sync=mode) as nodes,
            Cluster([nodes.nodes[0].address], port=nodes.nodes[0].native_port) as cluster,
        ):
            node, folder, session = nodes.nodes[0], Path(temporary), cluster.connect()
            insert = narrow_table(session)
            if index == 0 and "decode" in options.parts:
                rows = [(n, n * 3, f"text {n}", n * 1000) for n in range(options.rows)]
                execute_concurrent_with_args(session, insert, rows, concurrency=64)
                results["decode"] = decode_rate(node, folder)
            if index == 0 and "writers" in options.parts:
                results["writers"] = cost_to_writers(
                    node, session, insert, folder, options.rate, options.rounds
                )
            if "latency" not in options.parts:
                continue
            for eager in (False, True) if mode.startswith("periodic") else (False,):
                name = f"latency, {mode}{', eager' if eager else ''}"
                results[name] = latency(node, session, insert, folder / name, eager=eager)
    if options.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
