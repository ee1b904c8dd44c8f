"""What operators wait for, measured: how fast `cvs verify` reads, what it keeps in memory, what it does to lag.

    python bench/sidecar.py [--parts verify,lag] [--rows 100000] [--json]

One node. verify: the view's rows are put by hand, as a pipeline does, so that nothing differs and one round is
measured, in a process of its own: a scan of the base table, its recomputation, and a scan of the published table.
Rates count base rows. lag: from a write to the published row, one probe after the other, beside a running sidecar
without Spark; alone, and while one verification of the large table follows the other.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from cassandra.concurrent import execute_concurrent_with_args

from cvs.embedded.cluster import EmbeddedCluster
from cvs.sidecar.apply import carry_out, propose
from cvs.sidecar.settings import settings_from
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
    wall, cpu = time.perf_counter(), time.process_time()
    report = views.verify(views.named(name), wait=lambda: None)
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


def probes(session: CassandraSession, seconds: float, first: int) -> dict[str, Any]:
    """Write a row, wait until the view shows it, again; percentiles of the waits."""
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
    delays.sort()
    return {
        "probes": len(delays),
        "p50_ms": round(delays[len(delays) // 2]),
        "p99_ms": round(delays[len(delays) * 99 // 100]),
    }


def lag(session: CassandraSession, settings_file: Path, rows: int) -> dict[str, Any]:
    environment = {**os.environ, "CVS_SPARK_MASTER": "", "CVS_HTTP_PORT": "0"}
    cvs = [sys.executable, "-m", "cvs", "run", "--settings", str(settings_file)]
    with subprocess.Popen(
        cvs, env=environment, cwd=settings_file.parent, stderr=subprocess.DEVNULL
    ) as sidecar:
        try:
            probes(session, 1, 0)
            alone = probes(session, 20, 1000)
            stop, rates = threading.Event(), []

            def verify() -> None:
                while not stop.is_set():
                    rates.append(of_its_own(settings_file, "by_region", rows)["base_rows_a_second"])

            thread = threading.Thread(target=verify)
            thread.start()
            beside = probes(session, 20, 2000)
            stop.set()
            thread.join()
        finally:
            sidecar.terminate()
    return {"alone": alone, "beside verify": beside, "verify, base_rows_a_second": rates}


LIVE = "CREATE MATERIALIZED VIEW seen.latest AS SELECT id, region FROM shop.live;"


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = {"load": os.getloadavg()[0], "cores": os.cpu_count()}
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
        fill(session, options.rows)
        carry_out(views, propose(views, VIEWS + (LIVE if "lag" in options.parts else "")))
        show(session, options.rows)
        if "verify" in options.parts:
            for turn in ("first", "again"):
                for name in ("by_region", "big"):
                    results[f"verify {name}, {turn}"] = of_its_own(file, name, options.rows)
        if "lag" in options.parts:
            results["lag"] = lag(session, file, options.rows)
        session.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--parts", default="verify", help="what to measure: verify, lag")
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
