"""Views over tables that are full already, changed views, and what breaks and heals them, as an operator sees it."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cvs.embedded.node import Node
from cvs.embedded.processes import end_with_owner
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.terminal import watched

pytestmark = pytest.mark.cluster

REPLICATED = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
REKEYED = (
    "CREATE MATERIALIZED VIEW stock_views.rekeyed TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.key' = '(c), p') AS "
    "SELECT c, p, name, amount, st, tags, limits, steps, price FROM stock.items;"
)
BY_NAME = (
    "CREATE MATERIALIZED VIEW stock_views.by_name TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '4') AS "
    "SELECT name, COUNT(*) AS n, SUM(amount) AS total, MIN(amount) AS low FROM stock.items GROUP BY name;"
)
NARROW = (
    "CREATE MATERIALIZED VIEW stock_views.rekeyed TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.key' = '(name), p, c') "
    "AS SELECT name, p, c, steps FROM stock.items WHERE name IS NOT NULL;"
)
JOINED = (
    "CREATE MATERIALIZED VIEW stock_views.joined TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '4') AS "
    "SELECT i.p, i.c, i.name, n.word FROM stock.items i JOIN stock.names n ON i.name = n.name;"
)
NAMES = ("ada", "bob", "cyd", "dan")
LIVE_SECONDS_MAX = 90


class Writer:
    """Writes every kind of column to a table, in every way, until told to end."""

    def __init__(self, session: CassandraSession, seed: int) -> None:
        self.session, self.chance = session, random.Random(seed)
        self.ended, self.resting = threading.Event(), threading.Event()
        self.failure: Exception | None = None
        self.written = 0

    def row(self, p: int, c: int) -> None:
        """Insert a whole row, some with a time to live."""
        dice = self.chance
        ttl = dice.choice(["", "", "", " USING TTL 5", " USING TTL 5000"])
        self.session.execute(
            "INSERT INTO stock.items (p, c, name, amount, st, tags, limits, steps, place, price) "
            f"VALUES (?, ?, ?, ?, ?, ?, ?, ?, {{street: 'main', floor: {dice.randrange(9)}}}, 1.50){ttl}",
            (
                p,
                c,
                dice.choice(NAMES),
                dice.randrange(-50, 50),
                f"st{dice.randrange(3)}",
                {dice.choice(["", "x", "y"]), "z"},
                {"k": dice.randrange(5)},
                [dice.randrange(5) for _ in range(dice.randrange(3))],
            ),
        )

    def write(self) -> None:
        """Write once, somehow."""
        dice = self.chance
        p, c = dice.randrange(40), dice.randrange(6)
        key = f"p = {p} AND c = {c}"
        ways: list[Callable[[], Any]] = [
            lambda: self.row(p, c),
            lambda: self.do(f"UPDATE stock.items SET amount = {dice.randrange(50)} WHERE {key}"),
            lambda: self.do(f"UPDATE stock.items SET steps = steps + [{dice.randrange(9)}] WHERE {key}"),
            lambda: self.do(f"UPDATE stock.items SET steps = steps - [{dice.randrange(5)}] WHERE {key}"),
            lambda: self.do(f"UPDATE stock.items SET steps = [7, 8] WHERE {key}"),
            lambda: self.do(
                f"UPDATE stock.items SET tags = tags + {{'n{c}'}}, limits['m'] = {c} WHERE {key}"
            ),
            lambda: self.do(f"UPDATE stock.items SET tags = tags - {{'z'}}, place.floor = null WHERE {key}"),
            lambda: self.do(f"DELETE name, amount, tags, limits, steps, price FROM stock.items WHERE {key}"),
            lambda: self.do(f"DELETE FROM stock.items WHERE {key}"),
            lambda: self.do(f"INSERT INTO stock.items (p, c) VALUES ({p}, {c})"),
            lambda: self.do(f"UPDATE stock.items SET st = 's{c}' WHERE p = {p}"),
            lambda: self.do(f"DELETE FROM stock.items WHERE p = {p} AND c > 4"),
            lambda: self.do(f"INSERT INTO stock.names (name, word) VALUES ('{NAMES[c % 4]}', 'w{p}')"),
        ]
        dice.choice(ways)()
        self.written += 1

    def do(self, statement: str) -> None:
        """Send a statement as it is."""
        self.session.driver.execute(statement)

    def run(self, pause: float) -> None:
        """Write until told to end."""
        try:
            while not self.ended.wait(pause):
                if not self.resting.is_set():
                    self.write()
        except Exception as fault:  # noqa: BLE001 -- because the test must hear of it
            self.failure = fault


class PlainWriter(Writer):
    """Writes nothing that a build cannot read with its times: no row comes in doubt."""

    def write(self) -> None:
        """Insert, update one column, or delete a row or some."""
        dice = self.chance
        p, c = dice.randrange(20), dice.randrange(4)
        name, amount = dice.choice(NAMES), dice.randrange(50)
        ways = [
            f"INSERT INTO stock.plain (p, c, name, amount) VALUES ({p}, {c}, '{name}', {amount})",
            f"UPDATE stock.plain SET amount = {amount} WHERE p = {p} AND c = {c}",
            f"UPDATE stock.plain SET name = '{name}' WHERE p = {p} AND c = {c}",
            f"DELETE FROM stock.plain WHERE p = {p} AND c = {c}",
            f"DELETE FROM stock.plain WHERE p = {p} AND c > 2",
        ]
        self.do(dice.choice(ways))
        self.written += 1


class Operator:
    """Runs commands in one folder of settings, and the sidecar."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sidecar: subprocess.Popen[bytes] | None = None

    def cvs(self, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "cvs", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return json.loads(done.stdout)["result"] if "--json" in arguments else done.stdout

    def start(self, *, rows_a_second: int = 150) -> None:
        pace = {**os.environ, "CVS_VIEWS_BUILD_ROWS_PER_SECOND": str(rows_a_second)}
        with (self.folder / "run.log").open("ab") as log:
            self.sidecar = subprocess.Popen(
                [sys.executable, "-m", "cvs", "run"],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env=pace,
                preexec_fn=end_with_owner,
            )

    def end(self, *, kill: bool = False) -> None:
        if self.sidecar is not None:
            self.sidecar.kill() if kill else self.sidecar.terminate()
            self.sidecar.wait(60)
            self.sidecar = None

    def log(self) -> str:
        return (self.folder / "run.log").read_text()[-3000:]

    def apply(self, *statements: str, prune: bool = False) -> str:
        (self.folder / "views.sql").write_text("\n".join(statements))
        said: str = self.cvs("apply", "views.sql", "--yes", *(["--prune"] if prune else []))
        return said

    def states(self) -> dict[str, tuple[str, str]]:
        """Return each view's state and problem; nothing while nobody answers."""
        try:
            found = self.cvs("status", "--json")
        except AssertionError:
            return {}
        return {view["name"]: (view["state"], view["problem"]) for view in found["views"]}

    def building(self) -> str:
        """Return how far a build is."""
        try:
            return str(self.cvs("status", "--json")["building"])
        except AssertionError:
            return ""

    def wait(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + LIVE_SECONDS_MAX
        while not done():
            assert self.sidecar is not None
            assert self.sidecar.poll() is None, self.log()
            assert time.monotonic() < end, f"{self.states()} {self.log()}"
            time.sleep(0.5)

    def wait_live(self, *names: str) -> None:
        wanted = {f"stock_views.{name}": ("live", "") for name in names}
        self.wait(lambda: self.states() == wanted)

    def verify(self, writer: Writer) -> None:
        """Compare views and base tables; the writer rests, for it moves every group faster than views follow."""
        writer.resting.set()
        reports = self.cvs("verify", "--json", "--wait", "3")
        writer.resting.clear()
        assert [report["differences"] for report in reports] == [[] for _ in reports], self.log()


@pytest.fixture(scope="module")
def session(cassandra_node: Node) -> Iterator[CassandraSession]:
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(f"CREATE KEYSPACE stock {REPLICATED}")
    session.define("CREATE TYPE stock.spot (street text, floor int)")
    session.define(
        "CREATE TABLE stock.items (p int, c int, name text, amount int, st text static, tags set<text>, "
        "limits map<text, int>, steps list<int>, place spot, price decimal, PRIMARY KEY (p, c))"
    )
    session.define("CREATE TABLE stock.names (name text PRIMARY KEY, word text)")
    session.define("CREATE TABLE stock.plain (p int, c int, name text, amount int, PRIMARY KEY (p, c))")
    yield session
    session.close()


@pytest.fixture
def operator(cassandra_node: Node, session: CassandraSession, tmp_path: Path) -> Iterator[Operator]:
    (tmp_path / "cvs.toml").write_text(
        f'[cluster]\ncontact_points = ["{cassandra_node.address}"]\nport = {cassandra_node.native_port}\n'
        '[views]\nstate_keyspace = "stock_state"\npublished_keyspace = "stock_views"\n'
        f'[capture]\ncdc_raw = "{cassandra_node.cdc_raw}"\n[spark]\nmaster = ""\n'
        f"[http]\nport = {20_000 + os.getpid() % 20_000}\n"
    )
    operator = Operator(tmp_path)
    yield operator
    operator.end(kill=True)


def test_full_tables_changed_views_and_rebuilds(operator: Operator, session: CassandraSession) -> None:
    """One life of a pipeline: built from full tables under writes and kill -9, changed, truncated, built anew."""
    writer = Writer(session, 7)
    for place in range(240):
        writer.row(place // 6, place % 6)
    for _ in range(200):
        writer.write()
    assert "stock.items has rows" in operator.apply(REKEYED, BY_NAME)
    thread = threading.Thread(target=writer.run, args=(0.005,), daemon=True)
    thread.start()
    operator.start(rows_a_second=10)  # so slow that nobody, however busy the machine, misses it
    operator.wait(lambda: "rows" in operator.building())
    shown = watched(operator.folder, "apply", "views.sql", "--wait", until=b"tables read", seconds=30)
    assert ("━".encode() in shown, b"% of the base tables read" in shown) == (True, True), shown
    operator.end(kill=True)
    assert session.execute("SELECT name FROM stock_views.by_name") == []
    operator.start()
    operator.wait_live("rekeyed", "by_name")
    operator.verify(writer)

    assert "by_name (drop)" in operator.apply(NARROW, JOINED, prune=True)
    assert len(session.execute("SELECT name FROM stock_views.by_name")) > 0
    operator.wait_live("rekeyed", "joined")
    operator.verify(writer)
    writer.ended.set()
    thread.join()
    assert writer.failure is None
    operator.verify(writer)
    tables = session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'stock_views'"
    )
    assert sorted(name for (name,) in tables) == ["joined", "rekeyed"]

    session.define("TRUNCATE stock.names")
    session.execute("INSERT INTO stock.names (name, word) VALUES ('ada', 'again')")
    operator.wait(lambda: operator.states().get("stock_views.joined", ("", ""))[0] == "broken")
    states = operator.states()
    assert "stock.names: the table was truncated" in states["stock_views.joined"][1]
    assert states["stock_views.rekeyed"] == ("live", "")
    operator.cvs("rebuild", "joined", "--yes")
    operator.wait_live("rekeyed", "joined")
    operator.verify(writer)


def test_views_go_over_to_the_write_time_line(operator: Operator, session: CassandraSession) -> None:
    """Taken over from the absorbed time-line, killed, built anew, all under writes; no row loses its claim."""
    settings = operator.folder / "cvs.toml"
    text = settings.read_text().replace("stock_state", "line_state").replace("stock_views", "line_views")
    settings.write_text(f"{text}[pipeline]\nskew_ms = 3000\n")
    line = "TBLPROPERTIES ('cvs.timeline' = 'write-time', 'cvs.buckets' = '4')"
    views = (
        "CREATE MATERIALIZED VIEW line_views.copied {} AS SELECT p, c, name, amount FROM stock.plain;",
        (
            "CREATE MATERIALIZED VIEW line_views.by_name {} AS SELECT name, COUNT(*) AS n, SUM(amount) AS total "
            "FROM stock.plain WHERE name IS NOT NULL GROUP BY name;"
        ),
    )
    wanted = {f"line_views.{name}": ("live", "") for name in ("copied", "by_name")}
    writer = PlainWriter(session, 5)
    for _ in range(150):
        writer.write()
    operator.apply(*(view.format("TBLPROPERTIES ('cvs.buckets' = '4')") for view in views))
    thread = threading.Thread(target=writer.run, args=(0.05,), daemon=True)
    thread.start()
    operator.start()
    operator.wait(lambda: operator.states() == wanted)
    assert operator.cvs("status", "--json")["timeline"] == "absorbed"

    operator.apply(*(view.format(line) for view in views))
    operator.wait(
        lambda: operator.states() == wanted and "write-time" in operator.cvs("status", "--json")["timeline"]
    )
    operator.end(kill=True)
    operator.start()
    operator.wait(lambda: operator.states() == wanted and not operator.building())
    operator.verify(writer)
    assert operator.cvs("status", "--json")["timeline"] == "write-time, clocks within 3,000 ms"

    operator.cvs("rebuild", "--all", "--yes", "--wait")
    operator.wait(lambda: operator.states() == wanted and not operator.building())
    operator.verify(writer)
    writer.ended.set()
    thread.join()
    assert writer.failure is None
    operator.verify(writer)
