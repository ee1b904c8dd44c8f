"""The initial build, measured: rows/s into one re-keyed view and into the four views of the shop, beside plain copies.

    python bench/build.py --rows 100000 [--parts driver,connector,one,four] [--spark local[2]]

One real node; the base table is written before capture begins, then `cvs apply` and `cvs run` as a user runs them.
What it is compared with, in the same run: the same rows read and written once by the Python driver, 64 in flight, and
by Spark's connector. A build reads every row, keeps its image (DELTA) and its state, and publishes: three writes a row.
Memory is that of the sidecar in all, its JVM and Spark's workers among it, looked at five times a second.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_pipeline.place import cpu_seconds, resident_mb
from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from cvs.client.control import read_control
from cvs.embedded.artifacts import jars
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.embedded.processes import end_with_owner
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream import shop

REKEYED = (
    "CREATE MATERIALIZED VIEW one.by_customer TBLPROPERTIES ('cvs.key' = '(customer), id') "
    "AS SELECT customer, id, product, quantity, total FROM shop.orders;"
)
COPY = "CREATE TABLE copy.{name} (id int PRIMARY KEY, customer int, product int, quantity int, total decimal)"
SECONDS_MAX = 3600.0
ROWS_A_BATCH = 50


def timed(what: Callable[[], object]) -> float:
    """Return the seconds something takes."""
    started = time.monotonic()
    what()
    return time.monotonic() - started


def fill(session: CassandraSession, rows: int) -> None:
    """Write the shop's tables."""
    shop.make_keyspace(session, shop.KEYSPACE)
    for table in shop.TABLES:
        session.define(table.format(space=shop.KEYSPACE).replace(" WITH cdc = true", ""))
    session.define(
        "CREATE KEYSPACE copy WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    for name in ("driver", "connector"):
        session.define(COPY.format(name=name))
    puts: dict[str, list[tuple[object, ...]]] = {
        "orders (id, customer, product, quantity, total)": [
            (i, i % 5000, i % 300, i % 9, i % 977) for i in range(rows)
        ],
        "customers (id, name, city)": [(i, f"c{i}", f"city {i % 50}") for i in range(5000)],
        "products (id, name, price)": [(i, f"p{i}", i) for i in range(300)],
    }
    for table, values in puts.items():
        marks = ", ".join("?" * len(values[0]))
        put = session.prepared(f"INSERT INTO shop.{table} VALUES ({marks})")
        execute_concurrent(session.driver, _batches(put, values), concurrency=16)


def _batches(
    put: PreparedStatement, values: list[tuple[object, ...]]
) -> Iterator[tuple[BatchStatement, None]]:
    """Many rows a statement: filling the table is no part of what is measured."""
    for at in range(0, len(values), ROWS_A_BATCH):
        batch = BatchStatement(BatchType.UNLOGGED)
        for row in values[at : at + ROWS_A_BATCH]:
            batch.add(put, row)
        yield batch, None


def copy_by_driver(session: CassandraSession) -> None:
    """Read and write all orders once."""
    put = session.prepared(
        "INSERT INTO copy.driver (id, customer, product, quantity, total) VALUES (?, ?, ?, ?, ?)"
    )
    rows = session.driver.execute(
        session.prepared("SELECT id, customer, product, quantity, total FROM shop.orders").bind(())
    )
    execute_concurrent_with_args(session.driver, put, list(rows), concurrency=64)


def copy_by_connector(node: Node) -> float:
    """Do the same with Spark's connector; return the seconds without Spark's start."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", ",".join(str(path) for path in jars("connector")))
        .config("spark.cassandra.connection.host", node.address)
        .config("spark.cassandra.connection.port", str(node.native_port))
        .config("spark.cassandra.output.concurrent.writes", "64")
        .getOrCreate()
    )
    try:
        read = (
            spark.read.format("org.apache.spark.sql.cassandra")
            .options(keyspace="shop", table="orders")
            .load()
        )
        written = read.write.format("org.apache.spark.sql.cassandra").options(
            keyspace="copy", table="connector"
        )
        return timed(lambda: written.mode("append").save())
    finally:
        spark.stop()


def build(session: CassandraSession, node: Node, name: str, views: str, spark: str) -> float:
    """Apply views, run the sidecar, and return the seconds from the pinned start of the scan to live views."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "views.sql").write_text(views)
        (folder / "cvs.toml").write_text(
            f'[cluster]\ncontact_points = ["{node.address}"]\nport = {node.native_port}\n'
            f'[views]\nstate_keyspace = "state_{name}"\npublished_keyspace = "{name}"\n'
            f'[capture]\ncdc_raw = "{node.cdc_raw}"\n[spark]\nmaster = "{spark}"\n'
            f"[recording]\nenabled = false\n[http]\nport = {21_000 + os.getpid() % 10_000}\n"
        )
        command = [sys.executable, "-m", "cvs"]
        subprocess.run(
            [*command, "apply", "views.sql", "--yes"], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        with (folder / "log").open("wb") as log:
            sidecar = subprocess.Popen(
                [*command, "run"], cwd=folder, stdout=log, stderr=log, preexec_fn=end_with_owner
            )
        try:
            return _until_live(session, f"state_{name}", sidecar, folder)
        finally:
            sidecar.terminate()
            sidecar.wait(60)


def _until_live(
    session: CassandraSession, keyspace: str, sidecar: subprocess.Popen[bytes], folder: Path
) -> float:
    began, published, most, end = 0.0, 0.0, 0.0, time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        pin = read_control(session, keyspace).pin
        began = began or (time.monotonic() if pin.until else 0.0)
        most = max(most, resident_mb(sidecar.pid))
        published = published or (time.monotonic() if pin.publishing else 0.0)
        if began and not pin.building and not pin.publishing:
            now = time.monotonic()
            sys.stdout.write(
                f"  read and absorbed {published - began:.1f} s, published {now - published:.1f} s; "
                f"at most {most:,.0f} MB, {cpu_seconds(sidecar.pid):.1f} s of CPU with its start\n"
            )
            return now - began
        if sidecar.poll() is not None:
            break
        time.sleep(0.2)
    raise SystemExit((folder / "log").read_text()[-3000:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--parts", default="driver,connector,one,four")
    parser.add_argument("--spark", default="local[2]")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with EmbeddedCluster(size=1, quick=True) as cluster:
        node = cluster.nodes[0]
        session = CassandraSession(ClusterAddress(contact_points=(node.address,), port=node.native_port))
        fill(session, options.rows)
        four = shop.VIEWS.format(views="four")
        measures: dict[str, tuple[str, Callable[[], float]]] = {
            "driver": ("copy by the driver", lambda: timed(lambda: copy_by_driver(session))),
            "connector": ("copy by the connector", lambda: copy_by_connector(node)),
            "one": ("one re-keyed view", lambda: build(session, node, "one", REKEYED, options.spark)),
            "four": ("the four views", lambda: build(session, node, "four", four, options.spark)),
        }
        found = {}
        for part in options.parts.split(","):
            name, measure = measures[part]
            found[name] = measure()
            sys.stdout.write(f"  {name}: {found[name]:.1f} s\n")
            sys.stdout.flush()
        session.close()
    for name, seconds in found.items():
        rate, ratio = options.rows / seconds, found.get("copy by the connector", float("nan")) / seconds
        sys.stdout.write(
            f"{name:<24} {seconds:7.1f} s {rate:9,.0f} rows/s {ratio:5.2f} of the connector's copy\n"
        )
    sys.stdout.write(f"{options.rows:,} rows, load {os.getloadavg()[0]:.1f}\n")
    if options.out:
        options.out.write_text(json.dumps({"rows": options.rows, **found}))


if __name__ == "__main__":
    main()
