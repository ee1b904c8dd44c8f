"""What operators wait for and pay for, measured on one node beside a sidecar without Spark.

    python bench/sidecar.py [--parts verify,lag,costs,recording,status] [--rows 100000] [--rounds 5] [--json]

verify: the view's rows are put by hand, as a pipeline does, so that nothing differs and one round is measured, in a
process of its own: a scan of the base table, its recomputation, and a scan of the published table. Rates count base
rows. lag: from a write to the published row, one probe after the other, alone and beside one verification of the large
table after the other, by turns. costs: what a base change costs the sidecar in processor time, feed and recording, for
several numbers of views and sizes of rows; the first three make the formula of docker/OPERATE.md, the others check it.
recording: the same backlog with and without a recording, by turns. status: `cvs status`, what the page fetches, and
headless Chromium from its start until the page is drawn, with 10 and with 1,000 views on the board, by turns.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cassandra.concurrent import execute_concurrent_with_args

from cvs.capture.opening import open_feed
from cvs.client.control import read_control
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.errors import StoreError
from cvs.sidecar.apply import carry_out, propose
from cvs.sidecar.http import StatusServer
from cvs.sidecar.requests import Requests
from cvs.sidecar.scanning import give_way
from cvs.sidecar.settings import settings_from
from cvs.sidecar.status import EpochStatus, StatusBoard, ViewStatus
from cvs.sidecar.views import Views, cluster_address, opened_views
from cvs.store.session import CassandraSession

REPLICATED = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
REGIONS = 1000
VIEWS = """
CREATE MATERIALIZED VIEW seen.by_region AS
SELECT region, COUNT(*) AS orders, SUM(amount) AS turnover FROM shop.orders GROUP BY region;
CREATE MATERIALIZED VIEW seen.big AS SELECT id, region, amount FROM shop.orders WHERE amount >= 500;
"""


def fill(session: CassandraSession, rows: int) -> None:
    session.define(
        "CREATE TABLE shop.orders (id int PRIMARY KEY, region text, amount int, note text, at timestamp)"
    )
    insert = session.prepared(
        "INSERT INTO shop.orders (id, region, amount, note, at) VALUES (?, ?, ?, ?, 1700000000000)"
    )
    values = ((n, f"r{n % REGIONS}", n % 1000, f"note of order {n}") for n in range(rows))
    execute_concurrent_with_args(session.driver, insert, values, concurrency=128)


def show(session: CassandraSession, rows: int) -> None:
    """Put what the views should hold, with the write time of a first epoch."""
    totals: dict[str, list[int]] = {}
    big = []
    for n in range(rows):
        totals.setdefault(f"r{n % REGIONS}", []).append(n % 1000)
        if n % 1000 >= 500:
            big.append((n, f"r{n % REGIONS}", n % 1000))
    put = session.prepared(
        "INSERT INTO seen.by_region (region, orders, turnover) VALUES (?, ?, ?) USING TIMESTAMP 0"
    )
    groups = [(region, len(each), sum(each)) for region, each in totals.items()]
    execute_concurrent_with_args(session.driver, put, groups, concurrency=128)
    put = session.prepared("INSERT INTO seen.big (id, region, amount) VALUES (?, ?, ?) USING TIMESTAMP 0")
    execute_concurrent_with_args(session.driver, put, big, concurrency=128)


def verified(views: Views, name: str, rows: int) -> dict[str, Any]:
    give_way()  # as `cvs verify` does
    wall, cpu = time.perf_counter(), time.process_time()
    report = views.verify(views.named(name), seconds=0.0)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert (report.differences, report.rounds) == ((), 1), report.differences[:3]
    return {
        "base_rows": rows,
        "view_rows": report.found_count,
        "base_rows_a_second": round(rows / wall),
        "cpu_us_a_row": round(cpu * 1e6 / rows, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def of_its_own(settings_file: Path, name: str, rows: int) -> dict[str, Any]:
    """Verify in another process, whose memory is nothing else's."""
    command = [
        sys.executable,
        __file__,
        "--settings",
        str(settings_file),
        "--verify",
        name,
        "--rows",
        str(rows),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def probes(session: CassandraSession, seconds: float, first: int) -> list[float]:
    """Write a row, wait until the view shows it, again; return the waits in milliseconds."""
    write = "INSERT INTO shop.live (id, region) VALUES (?, ?)"
    read = "SELECT id FROM seen.latest WHERE id = ?"
    delays: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number = first + len(delays)
        session.execute(write, (number, "x"))
        began = time.monotonic()
        while not session.execute(read, (number,)):
            time.sleep(0.005)
            assert time.monotonic() - began < 60, "the view does not follow"
        delays.append((time.monotonic() - began) * 1000)
    return delays


def percentiles(rounds: list[list[float]]) -> dict[str, Any]:
    """Tell of all waits together, and how the rounds differ."""
    every = sorted(delay for one in rounds for delay in one)
    tails = sorted(sorted(one)[len(one) * 99 // 100] for one in rounds)
    return {
        "probes": len(every),
        "p50_ms": round(every[len(every) // 2]),
        "p99_ms": round(every[len(every) * 99 // 100]),
        "p99_ms of rounds": [round(tail) for tail in tails],
    }


@contextmanager
def sidecar(settings_file: Path, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A sidecar beside the node."""
    own = {**os.environ, "CVS_SPARK_MASTER": "", "CVS_HTTP_PORT": "0", **environment}
    cvs = [sys.executable, "-m", "cvs", "run", "--settings", str(settings_file)]
    with subprocess.Popen(cvs, env=own, cwd=settings_file.parent, stderr=subprocess.DEVNULL) as running:
        try:
            yield running
        finally:
            running.terminate()


def lag(session: CassandraSession, settings_file: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Probe alone and beside verifications, by turns."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    rates: list[int] = []
    with sidecar(settings_file):
        probes(session, 2, 0)
        for number in range(1, rounds + 1):
            alone.append(probes(session, 10, number * 100_000))
            stop = threading.Event()

            def verify(stop: threading.Event = stop) -> None:
                while not stop.is_set():
                    rates.append(of_its_own(settings_file, "by_region", rows)["base_rows_a_second"])

            thread = threading.Thread(target=verify)
            thread.start()
            beside.append(probes(session, 10, number * 100_000 + 50_000))
            stop.set()
            thread.join()
    return {
        "alone": percentiles(alone),
        "beside verify": percentiles(beside),
        "verify, base_rows_a_second": sorted(rates),
    }


LIVE = "CREATE MATERIALIZED VIEW seen.latest AS SELECT id, region FROM shop.live;"


CHANGES = 10_000
CONFIGURATIONS = {  # views, bytes of a note
    "one view, short rows": (1, 10),
    "three views, short rows": (3, 10),
    "one view, long rows": (1, 400),
    "check: five views, middling rows": (5, 150),
    "check: two views, longer rows": (2, 800),
}
TICK = os.sysconf("SC_CLK_TCK")


def of_views(space: str, count: int) -> str:
    """Declare so many views of one base table: groups and selections by turns."""
    shapes = (
        "SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM {0}.items GROUP BY region",
        "SELECT id, region, note FROM {0}.items WHERE amount >= 500",
    )
    return "".join(
        f"CREATE MATERIALIZED VIEW {space}_seen.v{n} TBLPROPERTIES ('cvs.level' = 'strong') AS "
        f"{shapes[n % 2].format(space)};\n"
        for n in range(count)
    )


def processor_seconds(process: "subprocess.Popen[bytes]") -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0


class Kept:
    """A pipeline of its own over a base table of its own; the feed is shared, since one capture deletes segments."""

    def __init__(self, session: CassandraSession, node: Node, folder: Path, *, views: int, note: int) -> None:
        self.session, self.note = session, note
        self.space = f"c{views}_{note}"
        self.folder = folder / self.space
        self.folder.mkdir()
        self.feed = folder / "feed of costs"
        self.file = self.folder / "cvs.toml"
        self.file.write_text(
            f'[cluster]\ncontact_points = ["{node.address}"]\nport = {node.native_port}\n'
            f'[views]\nstate_keyspace = "{self.space}_state"\npublished_keyspace = "{self.space}_seen"\n'
            f'[capture]\ncdc_raw = "{node.cdc_raw}"\n[feed]\nname = "{self.feed}"\n'
        )
        self.settings = settings_from(self.file.read_text(), {}, where="")
        session.define(f"CREATE KEYSPACE {self.space} {REPLICATED}")
        session.define(
            f"CREATE TABLE {self.space}.items (id int PRIMARY KEY, region text, amount int, note text)"
        )
        opened = Views(session=session, settings=self.settings)
        carry_out(opened, propose(opened, of_views(self.space, views)))

    def backlog(self, turn: int, **environment: str) -> dict[str, float]:
        """Let changes wait, then let a sidecar take them; return what that cost a change."""
        requests = Requests(self.session, keyspace=self.settings.views.state_keyspace)
        with sidecar(self.file, **environment) as running:
            self._shown(time.time_ns() // 1000)
            requests.pause_all(paused=True)
            requests.wait_idle(seconds=60)
            feed, recorded = size(self.feed), size(self.folder / "runs")
            spent = processor_seconds(running)
            self._write(turn)
            self._captured(time.time_ns() // 1000)
            feed = size(self.feed) - feed
            captured = processor_seconds(running)
            began = time.monotonic()
            requests.pause_all(paused=False)
            self._shown(time.time_ns() // 1000)
            seconds = time.monotonic() - began
            ended = processor_seconds(running)
            memory = Path(f"/proc/{running.pid}/status").read_text().split("VmHWM:")[1].split()[0]
        return {
            "capture_us": (captured - spent) / CHANGES * 1e6,
            "epochs_us": (ended - captured) / CHANGES * 1e6,
            "changes_a_second": CHANGES / seconds,
            "feed_bytes": feed / CHANGES,
            "recording_bytes": (size(self.folder / "runs") - recorded) / CHANGES,
            "peak_mb": int(memory) / 1024,
        }

    def _write(self, turn: int) -> None:
        insert = self.session.prepared(
            f"INSERT INTO {self.space}.items (id, region, amount, note) VALUES (?, ?, ?, ?)"
        )
        chance = random.Random(turn)
        values = (
            (n % 8000, f"r{n % 100}", chance.randrange(1000), chance.randbytes(self.note // 2).hex())
            for n in range(CHANGES)
        )
        execute_concurrent_with_args(self.session.driver, insert, values, concurrency=64)

    def _captured(self, moment: int) -> None:
        feed = open_feed(str(self.feed))
        end = time.monotonic() + 60
        while min((feed.head(it).clock for it in feed.streams()), default=0) < moment:
            assert time.monotonic() < end, "the capture does not follow"
            time.sleep(0.05)
        feed.close()

    def _shown(self, moment: int) -> None:
        end = time.monotonic() + 120
        while True:
            with suppress(StoreError):
                control = read_control(self.session, self.settings.views.state_keyspace)
                if control.committed_watermark > moment:
                    return
            assert time.monotonic() < end, "the views do not follow"
            time.sleep(0.02)


def medians(rounds: list[dict[str, float]]) -> dict[str, str]:
    """Return the median of each number, with its range."""
    return {
        name: f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"
        for name in rounds[0]
        if (values := [one[name] for one in rounds])
    }


def costs(session: CassandraSession, node: Node, folder: Path, rounds: int) -> dict[str, Any]:
    """Measure each configuration in turn, again and again."""
    found: dict[str, list[dict[str, float]]] = {}
    kept = {name: Kept(session, node, folder, views=v, note=n) for name, (v, n) in CONFIGURATIONS.items()}
    for turn in range(rounds):
        for name, one in kept.items():
            found.setdefault(name, []).append(one.backlog(turn))
    return {name: medians(each) for name, each in found.items()}


def recording(session: CassandraSession, node: Node, folder: Path, rounds: int) -> dict[str, Any]:
    """Take the same backlog with and without a recording, by turns."""
    kept = Kept(session, node, folder, views=2, note=10)
    found: dict[str, list[dict[str, float]]] = {"recorded": [], "not recorded": []}
    kept.backlog(0)
    for turn in range(rounds):
        for name in found:
            found[name].append(kept.backlog(turn, CVS_RECORDING_ENABLED=str(name == "recorded").lower()))
    return {name: medians(each) for name, each in found.items()}


def milliseconds(*command: str) -> dict[str, float]:
    """Return what a command took, of the clock and of the processor."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    wall, after = time.perf_counter() - began, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {"ms": wall * 1000, "cpu_ms": spent * 1000}


def status(folder: Path, rounds: int) -> dict[str, Any]:
    """Ask a board of few views and of many, as a person at the terminal and at the page does."""
    board = StatusBoard("bench", started_at=0.0)
    for number in range(600):
        epoch = EpochStatus(
            epoch=number + 1, committed_at=number, change_count=9, duration_ms=9.0, lag_ms=9.0
        )
        board.committed(epoch, (), queued_change_count=0)
    server = StatusServer(board, host="127.0.0.1", port=0)
    url, file = f"http://127.0.0.1:{server.port}/", folder / "status.toml"
    file.write_text(f'[http]\nport = {server.port}\n[views]\nstate_keyspace = "bench"\n')
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    page = (chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=1500", "--dump-dom", url)  # fmt: skip
    asked = (sys.executable, "-m", "cvs", "status", "--settings", str(file))
    found: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds + 1):
        for count in (10, 1000):
            views = (ViewStatus(name=f"v{n}", state="live", declared_level="strong") for n in range(count))
            board.change(views=tuple(views))
            began = time.perf_counter()
            with urllib.request.urlopen(url + "status.json", timeout=5) as answer:
                answer.read()
            one = {"json_ms": (time.perf_counter() - began) * 1000}
            for name, command in (("command", asked), ("page", page)):
                one |= {f"{name}_{key}": value for key, value in milliseconds(*command).items()}
            if turn:  # the first fills caches, Chromium's profile among them
                found.setdefault(f"{count} views", []).append(one)
    server.stop()
    return {name: medians(each) for name, each in found.items()}


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = {"load": os.getloadavg()[0], "cores": os.cpu_count()}
    if "status" in options.parts:
        results["status"] = status(folder, options.rounds)
    if options.parts == "status":
        return results
    with EmbeddedCluster(size=1) as cluster:
        node = cluster.nodes[0]
        file = folder / "cvs.toml"
        file.write_text(
            f'[cluster]\ncontact_points = ["{node.address}"]\nport = {node.native_port}\n'
            '[views]\nstate_keyspace = "cvs_b"\npublished_keyspace = "seen"\n'
            f'[capture]\ncdc_raw = "{node.cdc_raw}"\n'
        )
        settings = settings_from(file.read_text(), {}, where="")
        session = CassandraSession(cluster_address(settings))
        views = Views(session=session, settings=settings)
        session.define(f"CREATE KEYSPACE shop {REPLICATED}")
        if "lag" in options.parts:
            session.define("CREATE TABLE shop.live (id int PRIMARY KEY, region text)")
        if "verify" in options.parts or "lag" in options.parts:
            fill(session, options.rows)
            carry_out(views, propose(views, VIEWS + (LIVE if "lag" in options.parts else "")))
            show(session, options.rows)
        if "verify" in options.parts:
            for name in ("by_region", "big"):
                found = [of_its_own(file, name, options.rows) for _ in range(options.rounds)]
                results[f"verify {name}"] = medians(found)
        if "lag" in options.parts:
            results["lag"] = lag(session, file, options.rows, options.rounds)
        if "costs" in options.parts:
            results["costs"] = costs(session, node, folder, options.rounds)
        if "recording" in options.parts:
            results["recording"] = recording(session, node, folder, options.rounds)
        session.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument(
        "--parts", default="verify", help="what to measure: verify, lag, costs, recording, status"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--settings", help="of a cluster that is there, for --verify")
    parser.add_argument("--verify", help="one view, in this process")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.verify:
        with opened_views(settings_from(Path(options.settings).read_text(), {}, where="")) as views:
            print(json.dumps(verified(views, options.verify, options.rows)))
        return
    with tempfile.TemporaryDirectory() as folder:
        results = measured(options, Path(folder))
    if options.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
