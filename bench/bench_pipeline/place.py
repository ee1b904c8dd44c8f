"""One node, one capture, one pipeline a mode; writers; what each process cost."""

import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from cassandra.concurrent import execute_concurrent_with_args

from cvs.capture.folder import FolderFeed
from cvs.client.control import read_control
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.embedded.processes import RunningProcess
from cvs.errors import StoreError
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.shop import VIEWS

MODES = ("plain", "native", "c1", "c4")
MORE = """
CREATE MATERIALIZED VIEW c4.large_orders AS SELECT id, customer, total FROM base_c4.orders WHERE quantity > 4;
CREATE MATERIALIZED VIEW c4.orders_of_product TBLPROPERTIES ('cvs.key' = 'product, id') AS
  SELECT product, id, quantity * 2 AS twice FROM base_c4.orders WHERE product IS NOT NULL;
CREATE MATERIALIZED VIEW c4.variety AS
  SELECT customer, COUNT(DISTINCT product) AS products FROM base_c4.orders GROUP BY customer;
CREATE MATERIALIZED VIEW c4.extremes_by_city AS
  SELECT c.city, MIN(o.total) AS smallest, MAX(o.total) AS largest
  FROM base_c4.orders o JOIN base_c4.customers c ON o.customer = c.id GROUP BY c.city;
CREATE MATERIALIZED VIEW c4.small_customers AS
  SELECT id AS customer FROM base_c4.customers EXCEPT SELECT customer FROM base_c4.orders WHERE quantity > 7;
CREATE MATERIALIZED VIEW c4.buyers_of_both AS
  SELECT customer FROM base_c4.orders WHERE product = 0 INTERSECT SELECT customer FROM base_c4.orders
  WHERE product = 1;
CREATE MATERIALIZED VIEW c4.seen AS
  SELECT customer AS number FROM base_c4.orders WHERE quantity > 6 UNION SELECT product FROM base_c4.orders
  WHERE quantity < 3;
"""
"""Beside the four: every class that a pipeline keeps."""
ORDERS, CUSTOMERS, PRODUCTS = 20_000, 400, 40
IN_FLIGHT = 64
COLUMNS = "id int PRIMARY KEY, customer int, product int, quantity int, total decimal"
COPY = (
    "CREATE MATERIALIZED VIEW c1.by_customer TBLPROPERTIES ('cvs.key' = 'customer, id') AS "
    "SELECT customer, id, product, quantity, total FROM base_c1.orders WHERE customer IS NOT NULL"
)
NATIVE = (
    "CREATE MATERIALIZED VIEW base_native.by_customer AS SELECT * FROM base_native.orders "
    "WHERE customer IS NOT NULL AND id IS NOT NULL PRIMARY KEY (customer, id)"
)


def views_of(mode: str) -> str:
    """Views of a mode: c1 one copy, c4 the four of the shop, c11 those and seven more over the same tables."""
    if mode == "c1":
        return COPY
    return VIEWS.replace("shop.", "base_c4.").format(views="c4") + (MORE if mode == "c11" else "")


def cpu_seconds(pid: int) -> float:
    """CPU of a process and its children that live, user and system."""
    return _summed(pid, lambda words: (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"))


def resident_mb(pid: int) -> float:
    """Resident memory of a process and its children; what they share is counted for each."""
    return _summed(pid, lambda words: int(words[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6)


def _summed(pid: int, measure: Callable[[list[str]], float]) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # it has just ended
        return 0.0
    return measure(words) + sum(_summed(child, measure) for child in children(pid))


def children(pid: int) -> list[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found |= set(map(int, task.read_text().split()))
        except OSError:
            continue
    return sorted(found)


def tree(pid: int) -> list[int]:
    return [pid, *(below for child in children(pid) for below in tree(child))]


@dataclass
class Bench:
    """The place, and what runs in it."""

    folder: Path
    node: Node
    spark: str
    session: CassandraSession = field(init=False)
    capture: int = 0
    pipelines: dict[str, int] = field(default_factory=dict)
    owned: list[RunningProcess] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, folder: Path, *, spark: str) -> "Iterator[Bench]":
        with EmbeddedCluster(size=1, yaml={"materialized_views_enabled": True}) as cluster:
            bench = cls(folder, cluster.nodes[0], spark)
            try:
                bench.make_tables()
                yield bench
            finally:
                bench.close()

    def __post_init__(self) -> None:
        address = ClusterAddress(contact_points=(self.node.address,), port=self.node.native_port)
        self.session = CassandraSession(address)

    def close(self) -> None:
        for process in self.owned:
            _end(process)
        self.session.close()

    def stop_pipelines(self) -> None:
        for process in self.owned:
            if process.pid in self.pipelines.values():
                _end(process)
        self.pipelines.clear()
        self.only("", capture=True)

    def make_tables(self) -> None:
        for space in (*(f"base_{mode}" for mode in MODES), "c1", "c4"):
            replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
            self.session.define(f"CREATE KEYSPACE {space} WITH replication = {replication}")
        for mode in MODES:
            cdc = " WITH cdc = true" if mode != "native" else ""
            self.session.define(f"CREATE TABLE base_{mode}.orders ({COLUMNS}){cdc}")
        self.session.define(NATIVE)
        for table, columns in (
            ("products", "name text, price decimal"),
            ("customers", "name text, city text"),
        ):
            self.session.define(
                f"CREATE TABLE base_c4.{table} (id int PRIMARY KEY, {columns}) WITH cdc = true"
            )
        put = self.session.prepared("INSERT INTO base_c4.products (id, name, price) VALUES (?, ?, ?)")
        rows: list[Any] = [(n, f"product {n}", Decimal(n + 1)) for n in range(PRODUCTS)]
        execute_concurrent_with_args(self.session.driver, put, rows)
        put = self.session.prepared("INSERT INTO base_c4.customers (id, name, city) VALUES (?, ?, ?)")
        rows = [(n, f"customer {n}", f"city {n % 20}") for n in range(CUSTOMERS)]
        execute_concurrent_with_args(self.session.driver, put, rows)

    # ---- processes

    def start(self, *words: str, log: str) -> int:
        os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
        command = [sys.executable, "-m", "cvs", *words]
        self.owned.append(RunningProcess.owned(command, output=self.folder / log))
        return self.owned[-1].pid

    def start_capture(self) -> None:
        node, feed = self.node, str(self.folder / "feed")
        options = ("--node", node.address, "--port", str(node.native_port), "--feed", feed)
        self.capture = self.start("capture", *options, log="capture.log")
        self.wait_captured()

    def start_pipelines(self) -> None:
        for mode in ("c1", "c4"):
            views, settings = self.folder / f"{mode}.sql", self.folder / f"{mode}.toml"
            views.write_text(views_of(mode))
            settings.write_text(
                f'[cluster]\ncontact_points = ["{self.node.address}"]\nport = {self.node.native_port}\n'
                f'[views]\nstate_keyspace = "cvs_{mode}"\npublished_keyspace = "{mode}"\n'
                f'[feed]\nname = "{self.folder / "feed"}"\n[http]\nport = 0\n'
            )
            words = (sys.executable, "-m", "cvs", "apply", str(views), "--settings", str(settings), "--yes")
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            os.environ["CVS_SPARK_MASTER"] = self.spark
            self.pipelines[mode] = self.start("run", "--settings", str(settings), log=f"{mode}.log")
            self.wait_shown(mode, seconds=240)

    def pause_all(self) -> None:
        self.only("", capture=False)

    def only(self, mode: str, *, capture: bool) -> None:
        """Let the pipeline of one mode run, and the capture or not; stop the rest where they are."""
        going = {self.pipelines[mode]} if mode in self.pipelines else set()
        going |= {self.capture} if capture else set()
        for process in [*self.pipelines.values(), self.capture]:
            number = signal.SIGCONT if process in going else signal.SIGSTOP
            assert Path(f"/proc/{process}").exists(), self._said()
            for pid in tree(process):
                with suppress(ProcessLookupError):  # Spark's Python workers come and go
                    os.kill(pid, number)
        if mode in self.pipelines:
            self.wait_shown(mode)

    def _said(self) -> str:
        """The end of what every process said."""
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in self.folder.glob("*.log"))

    def recovery(self, mode: str, rate: int) -> dict[str, float]:
        """Kill a pipeline with -9 under writers; seconds until it commits again, and until its lag is as before."""
        self.only(mode, capture=True)
        with self.loaded(mode, rate):
            time.sleep(4.0)
            usual = statistics.median(self._lag(mode) for _ in range(20))
            settings = self.folder / f"{mode}.toml"
            for pid in tree(self.pipelines[mode]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed = time.time_ns() // 1000
            self.pipelines[mode] = self.start("run", "--settings", str(settings), log=f"{mode}-again.log")
            self.wait_shown(mode, killed)
            live = time.time_ns() // 1000 - killed
            end = time.monotonic() + 120.0
            while self._lag(mode) > 2 * usual and time.monotonic() < end:
                pass
            normal = time.time_ns() // 1000 - killed
        return {
            "usual lag s": round(usual, 2),
            "live s": round(live / 1e6, 1),
            "lag s": round(normal / 1e6, 1),
        }

    def _epoch(self, mode: str) -> int:
        return read_control(self.session, f"cvs_{mode}").committed

    def _lag(self, mode: str) -> float:
        """How far behind now the committed watermark is, in seconds."""
        time.sleep(0.1)
        return time.time() - read_control(self.session, f"cvs_{mode}").committed_watermark / 1e6

    # ---- writing

    def statement(self, mode: str) -> Any:
        names = "id, customer, product, quantity, total"
        return self.session.prepared(f"INSERT INTO base_{mode}.orders ({names}) VALUES (?, ?, ?, ?, ?)")

    def write(self, mode: str, count: int, *, seed: int = 0) -> int:
        """Write so many orders as fast as it goes; return the time (microseconds) after the last."""
        chance = random.Random(seed)
        rows = [order(chance) for _ in range(count)]
        execute_concurrent_with_args(self.session.driver, self.statement(mode), rows, concurrency=IN_FLIGHT)
        return time.time_ns() // 1000

    def wait_captured(self, *, seconds: float = 120.0) -> None:
        """Wait until the feed's clock has passed now."""
        after, end = time.time_ns() // 1000, time.monotonic() + seconds
        feed = FolderFeed(self.folder / "feed")
        while not feed.streams() or min(feed.head(s).clock for s in feed.streams()) <= after:
            assert time.monotonic() < end, (self.folder / "capture.log").read_text()[-2000:]
            time.sleep(0.05)

    def wait_shown(self, mode: str, after: int | None = None, *, seconds: float = 240.0) -> None:
        """Wait until a pipeline has committed everything written before a time (default: now)."""
        after = after or time.time_ns() // 1000
        end = time.monotonic() + seconds
        while True:
            try:
                if read_control(self.session, f"cvs_{mode}").committed_watermark > after:
                    return
            except StoreError:
                pass
            assert Path(f"/proc/{self.pipelines[mode]}").exists(), self._said()
            assert time.monotonic() < end, (self.folder / f"{mode}.log").read_text()[-2000:]
            time.sleep(0.05)

    def round(self, mode: str, count: int, *, seed: int) -> dict[str, float]:
        """One mode's turn: write, wait until shown; CPU ms of each process a write."""
        views = mode in self.pipelines
        self.only(mode, capture=views)
        pids = {"node": self.node.process.pid}  # type: ignore[union-attr]
        if views:
            pids |= {"capture": self.capture, "pipeline": self.pipelines[mode]}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        epochs = self._epoch(mode) if views else 0
        own, started = time.process_time(), time.monotonic()
        written = self.write(mode, count, seed=seed)
        own, wrote = time.process_time() - own, time.monotonic() - started
        if views:
            self.wait_shown(mode, written)
        spent = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()} | {"client": own}
        found = {f"{name}_ms": 1000 * seconds / count for name, seconds in spent.items()}
        found["cpu_ms"] = sum(found.values())
        if views:
            found["changes an epoch"] = count / (self._epoch(mode) - epochs)
        return {**found, "writes/s": count / wrote, "shown/s": count / (time.monotonic() - started)}

    def open_loop(self, mode: str, rate: int, seconds: float) -> dict[str, float]:
        chance, statement, delays = random.Random(rate), self.statement(mode), []
        done, start, total = threading.Semaphore(0), time.perf_counter(), round(rate * seconds)
        for number in range(total):
            due = start + number / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            future = self.session.driver.execute_async(statement, order(chance))

            def answered(_: Any, due: float = due) -> None:
                delays.append((time.perf_counter() - due) * 1000)
                done.release()

            future.add_callbacks(answered, answered)
        for _ in range(total):
            assert done.acquire(timeout=60)
        return {**quantiles(delays), "reached/s": round(total / (time.perf_counter() - start))}

    def freshness(self, mode: str, rate: int, seconds: float) -> dict[str, float]:
        """Under writers at a rate, a probe: one order of its own customer, until its row can be read."""
        self.only(mode, capture=True)
        with self.loaded(mode, rate):
            return quantiles(self._probed(mode, seconds))

    def _probed(self, mode: str, seconds: float) -> list[float]:
        delays = []
        put = self.statement(mode)
        end, probe = time.monotonic() + seconds, 0
        table, column = ("c4.order_lines", "quantity") if mode == "c4" else ("c1.by_customer", "quantity")
        key = "id" if mode == "c4" else "customer"
        read = self.session.prepared(f"SELECT {column} FROM {table} WHERE {key} = ?")
        identity = ORDERS + 1 if mode == "c4" else CUSTOMERS + 1
        while time.monotonic() < end:
            probe += 1
            row = (ORDERS + 1, 1 if mode == "c4" else CUSTOMERS + 1, 1, probe, Decimal(1))
            self.session.driver.execute(put, row)
            acknowledged = time.perf_counter()
            while not any(q == probe for (q,) in self.session.driver.execute(read, (identity,))):
                time.sleep(0.005)
            delays.append((time.perf_counter() - acknowledged) * 1000)
        return delays

    @contextmanager
    def loaded(self, mode: str, rate: int) -> Iterator[None]:
        """Have orders written at a rate meanwhile."""
        stop = threading.Event()
        load = threading.Thread(target=self._load, args=(mode, rate, stop))
        load.start()
        try:
            yield
        finally:
            stop.set()
            load.join()

    def _load(self, mode: str, rate: int, stop: threading.Event) -> None:
        chance, statement, start = random.Random(rate), self.statement(mode), time.perf_counter()
        number = 0
        while not stop.is_set():
            number += 1
            time.sleep(max(0.0, start + number / rate - time.perf_counter()))
            self.session.driver.execute_async(statement, order(chance))


def _end(process: RunningProcess) -> None:
    for pid in tree(process.pid)[1:]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()


def order(chance: random.Random) -> tuple[Any, ...]:
    quantity = chance.randrange(1, 9)
    return (
        chance.randrange(ORDERS),
        chance.randrange(CUSTOMERS),
        chance.randrange(PRODUCTS),
        quantity,
        Decimal(quantity * chance.randrange(100, 5000)) / 100,
    )


def quantiles(delays: list[float]) -> dict[str, float]:
    ordered = sorted(delays)
    return {
        "probes": len(ordered),
        "p50_ms": round(statistics.median(ordered), 1),
        "p99_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 1),
    }


def memory(bench: Bench) -> dict[str, float]:
    found = {"capture_mb": round(resident_mb(bench.capture))}
    for mode, process in bench.pipelines.items():
        found[f"pipeline {mode}: python and JVM_mb"] = round(resident_mb(process))
    return found
