"""The sidecar as an operator runs it: apply, run, write, status, verify, SIGTERM."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from cvs.client import open_views
from cvs.embedded.disks import SmallDisk
from cvs.embedded.namespaces import namespaces_work
from cvs.embedded.node import Node
from cvs.embedded.processes import end_with_owner
from cvs.sidecar.lifecycle import NOT_APPLIED
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.operating import settings, writing

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

VIEWS = """
CREATE MATERIALIZED VIEW side_views.by_region TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '4')
AS SELECT region, COUNT(*) AS orders, SUM(amount) AS turnover FROM side.orders GROUP BY region;
"""
LIVE_SECONDS_MAX = 120


def cvs(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cvs", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


@pytest.fixture(scope="module")
def session(cassandra_node: Node) -> Iterator[CassandraSession]:
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE side WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE side.orders (id int PRIMARY KEY, region text, amount int)")
    yield session
    session.close()


@pytest.fixture(scope="module")
def folder(cassandra_node: Node, session: CassandraSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sidecar")
    (folder / "views.sql").write_text(VIEWS)
    port = 20_000 + os.getpid() % 20_000
    (folder / "cvs.toml").write_text(
        settings(cassandra_node, state="side_state", published="side_views", more=f"[http]\nport = {port}\n")
    )
    return folder


def rows_of(session: CassandraSession) -> list[tuple[object, ...]]:
    return sorted(session.execute("SELECT region, orders, turnover FROM side_views.by_region"))


def start(
    folder: Path, name: str, *, inside: Sequence[str] = (), **environment: str
) -> "subprocess.Popen[bytes]":
    with (folder / name).open("wb") as log:
        return subprocess.Popen(
            [*inside, sys.executable, "-m", "cvs", "run"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            preexec_fn=end_with_owner,
        )


def wait_for(condition: Callable[[], bool], *, log: Path) -> None:
    end = time.monotonic() + LIVE_SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.2)


def test_views_follow_the_base_from_apply_to_the_end(folder: Path, session: CassandraSession) -> None:
    """A sidecar waits for its first views; they become live, follow, verify right, and SIGTERM ends it cleanly."""
    sidecar = start(folder, "run.log")
    try:
        wait_for(lambda: NOT_APPLIED in (folder / "run.log").read_text(), log=folder / "run.log")
        assert NOT_APPLIED in cvs(folder, "status").stdout
        applied = cvs(folder, "apply", "views.sql", "--yes")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        for row in ((1, "EU", 10), (2, "EU", 5), (3, "US", 7)):
            session.execute("INSERT INTO side.orders (id, region, amount) VALUES (?, ?, ?)", row)
        session.execute("DELETE FROM side.orders WHERE id = 2")
        wanted: list[tuple[object, ...]] = [("EU", 1, 10), ("US", 1, 7)]
        wait_for(lambda: rows_of(session) == wanted or sidecar.poll() is not None, log=folder / "run.log")
        assert rows_of(session) == wanted, (folder / "run.log").read_text()[-3000:]
        verified = cvs(folder, "verify", "--json")
        assert (verified.returncode, json.loads(verified.stdout)["result"][0]["differences"]) == (0, [])
        (view,) = json.loads(cvs(folder, "status", "--json").stdout)["result"]["views"]
        assert (view["name"], view["state"], view["row_count"]) == ("side_views.by_region", "live", 2)
        _read_as_an_application(session)
    finally:
        sidecar.send_signal(signal.SIGTERM)
        code = sidecar.wait(60)
    assert code == 0, (folder / "run.log").read_text()[-3000:]
    said = [json.loads(line) for line in (folder / "run.log").read_text().splitlines()]  # Spark's words too
    assert [line["event"] for line in said] == [
        "status page",
        NOT_APPLIED,
        "captures",
        "leads",
        "ready",
        "ended",
    ]
    _judged_and_drawn(folder)


def _judged_and_drawn(folder: Path) -> None:
    """What the sidecar recorded is a history: audited, drawn."""
    audited = cvs(folder, "audit", "runs", "--expect", "strong")
    assert (audited.returncode, "strong by view record" in audited.stdout) == (0, True), audited.stdout
    drawn = cvs(folder, "report", "runs", "--output", "run.html")
    assert drawn.returncode == 0, drawn.stderr
    assert "side_views.by_region" in (folder / "run.html").read_text()


def _read_as_an_application(session: CassandraSession) -> None:
    """A write is in every snapshot that is read after its token was met."""
    with open_views(session.address, keyspace="side_state") as views:
        session.execute("INSERT INTO side.orders (id, region, amount) VALUES (3, 'US', 8)")
        views.wait(views.token())
        assert views.read("side_views.by_region", "US") == {"region": "US", "orders": 1, "turnover": 8}
        assert set(views.scan("side_views.by_region").rows) == {("EU",), ("US",)}


def test_of_two_sidecars_one_leads_and_the_other_takes_over(folder: Path, session: CassandraSession) -> None:
    """The second stands by on the same settings, and goes on with epochs and capture after a kill -9 of the first."""
    first = start(folder, "first.log", CVS_HTTP_PORT="0", CVS_SPARK_MASTER="")
    second = None
    try:
        wait_for(lambda: "leads" in (folder / "first.log").read_text(), log=folder / "first.log")
        second = start(folder, "second.log", CVS_SPARK_MASTER="")
        wait_for(lambda: "ready" in (folder / "second.log").read_text(), log=folder / "second.log")
        assert '"leads"' not in (folder / "second.log").read_text()
        status = json.loads(cvs(folder, "status", "--json").stdout)["result"]
        assert (status["leader"], status["committed_epoch"] > 0) == (False, True)
        first.kill()
        first.wait()
        session.execute("INSERT INTO side.orders (id, region, amount) VALUES (4, 'AT', 1)")
        wait_for(lambda: ("AT", 1, 1) in rows_of(session), log=folder / "second.log")
        assert '"leads"' in (folder / "second.log").read_text()
        assert json.loads(cvs(folder, "status", "--json").stdout)["result"]["leader"]
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(60)


def test_a_capture_that_cannot_be_ends_the_sidecar(folder: Path, session: CassandraSession) -> None:
    """Views that would silently stand still are worse than a process that says why it ended."""
    nowhere = start(folder, "nowhere.log", CVS_CAPTURE_CDC_RAW=str(folder / "nowhere"), CVS_SPARK_MASTER="")
    assert nowhere.wait(60) == 5
    assert "cdc_raw folder is not here" in (folder / "nowhere.log").read_text()


def write(session: CassandraSession, number: int) -> None:
    row = (100 + number % 7, "EU" if number % 3 else "JP", number)
    session.execute("INSERT INTO side.orders (id, region, amount) VALUES (?, ?, ?)", row)


DAMAGE = (
    "DELETE FROM side_views.by_region WHERE region = 'US'",
    "INSERT INTO side_views.by_region (region, orders, turnover) VALUES ('XX', 1, 1)",
    "INSERT INTO side_views.by_region (region, orders, turnover) VALUES ('YY', 1, 1) USING TIMESTAMP 1",
    "UPDATE side_views.by_region USING TIMESTAMP 4000000000000000 SET turnover = -5 WHERE region = 'EU'",
    "INSERT INTO side_views.by_region (region, orders, turnover) VALUES ('CH', 1, 77) USING TIMESTAMP 4000000000000000",
)


def test_a_damaged_view_is_found_and_repaired_while_writers_go_on(
    folder: Path, session: CassandraSession
) -> None:
    """Rows deleted, changed, invented and shadowed, at past and future write times: all found, all healed."""
    sidecar = start(folder, "repair.log", CVS_SPARK_MASTER="")
    try:
        session.execute("INSERT INTO side.orders (id, region, amount) VALUES (5, 'CH', 77)")
        wait_for(lambda: ("CH", 1, 77) in rows_of(session), log=folder / "repair.log")
        with writing(partial(write, session), pause=0.05):
            for statement in DAMAGE:
                session.define(statement)
            found = json.loads(cvs(folder, "verify", "--json", "--wait", "1").stdout)["result"][0]
            kinds = {(d["expected"] or d["found"])["region"]: d["kind"] for d in found["differences"]}
            wanted = {
                "US": "missing",
                "XX": "invented",
                "YY": "invented",
                "EU": "different",
                "CH": "shadowed",
            }
            assert kinds == wanted
            repaired = cvs(folder, "repair", "by_region", "--wait", "1")
            assert repaired.returncode == 0, repaired.stdout + repaired.stderr
            assert "5 rows were wrong, every row is right now" in repaired.stdout
            session.execute("DELETE FROM side.orders WHERE id = 5")
            wait_for(lambda: all(row[0] != "CH" for row in rows_of(session)), log=folder / "repair.log")
        paused_and_resumed(folder, session)
        assert cvs(folder, "verify", "--wait", "1").returncode == 0
        missed_changes_are_read_again(folder, session)
        audited(folder)
        commands_of_the_page(folder)
    finally:
        sidecar.terminate()
        sidecar.wait(60)


def missed_changes_are_read_again(folder: Path, session: CassandraSession) -> None:
    """Written, changed and deleted while the table was not captured: found, and healed without a rebuild."""
    insert = "INSERT INTO side.orders (id, region, amount) VALUES (?, ?, ?)"
    with writing(partial(write, session), pause=0.05):
        session.define("ALTER TABLE side.orders WITH cdc = false")
        session.execute(insert, (8, "ZZ", 1))
        session.execute(insert, (6, "NZ", 300))
        session.execute("DELETE FROM side.orders WHERE id = 7")
        time.sleep(0.5)
        session.define("ALTER TABLE side.orders WITH cdc = true")
        assert cvs(folder, "verify", "--wait", "1").returncode == 1
        repaired = cvs(folder, "repair", "by_region", "--wait", "1")
        assert repaired.returncode == 0, repaired.stdout + repaired.stderr
        assert "rows of side.orders" in repaired.stdout
        rows = {row[0]: row[1:] for row in rows_of(session)}
        assert (rows["ZZ"], rows["NZ"], "PE" in rows) == ((1, 1), (1, 300), False)
        session.execute(insert, (8, "ZZ", 2))
        wait_for(lambda: ("ZZ", 1, 2) in rows_of(session), log=folder / "repair.log")


def audited(folder: Path) -> None:
    """What the sidecars of this folder recorded through damage, pause and missed changes is strong."""
    done = cvs(folder, "audit", "runs", "--expect", "strong", "--last", "300", "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    result = json.loads(done.stdout)["result"]
    assert (result["reference"], result["files"][0]["left_out"] > 0) == ("absorbed", True)

    def said() -> str:
        view: dict[str, str] = json.loads(cvs(folder, "status", "--json").stdout)["result"]["views"][0]
        return view["audited_level"]

    wait_for(lambda: said() in ("strong", "complete"), log=folder / "repair.log")


PAGE = Path(__file__).resolve().parents[2] / "docker" / "OPERATE.md"
HERE = {"cvs_views.orders_by_region": "side_views.by_region", "/var/lib/cvs/runs": "runs"}


def commands_of_the_page(folder: Path) -> None:
    """What operators are told to type works as it stands there, with their own names in it."""
    lines = [line.strip() for line in PAGE.read_text().splitlines() if line.startswith("    cvs ")]
    assert len(lines) > 6
    for line in lines:
        words = shlex.split(line.split(" > ")[0])[1:]
        done = cvs(folder, *(HERE.get(word, word) for word in words))
        assert done.returncode == 0, f"{line}: {done.stdout[-1000:]}{done.stderr}"


def paused_and_resumed(folder: Path, session: CassandraSession) -> None:
    """A paused view's table stands still, the status says so, and resuming shows what came meanwhile."""
    assert cvs(folder, "pause", "by_region").returncode == 0
    before = rows_of(session)
    session.execute("INSERT INTO side.orders (id, region, amount) VALUES (6, 'NZ', 3)")
    session.execute("DELETE FROM side.orders WHERE id = 3")
    time.sleep(1.0)
    assert rows_of(session) == before
    assert json.loads(cvs(folder, "status", "--json").stdout)["result"]["views"][0]["state"] == "paused"
    resumed = cvs(folder, "resume", "by_region")
    assert resumed.returncode == 0, resumed.stderr
    regions = [row[0] for row in rows_of(session)]
    assert ("NZ" in regions, "US" in regions) == (True, False)
    assert cvs(folder, "pause", "--all").returncode == 0
    wait_for(lambda: '"paused"' in (folder / "repair.log").read_text(), log=folder / "repair.log")
    session.execute("INSERT INTO side.orders (id, region, amount) VALUES (7, 'PE', 3)")
    time.sleep(1.0)
    assert all(row[0] != "PE" for row in rows_of(session))
    assert cvs(folder, "resume", "--all").returncode == 0
    wait_for(lambda: ("PE", 1, 3) in rows_of(session), log=folder / "repair.log")


@pytest.mark.skipif(not namespaces_work(), reason="needs root to mount a small disk")
def test_a_full_feed_disk_ends_the_sidecar_and_loses_nothing(
    folder: Path, session: CassandraSession, tmp_path: Path
) -> None:
    """It says which disk; with room and a new start everything goes on."""
    text = (folder / "cvs.toml").read_text().replace("side_", "full_")
    (tmp_path / "feed").mkdir()
    (tmp_path / "cvs.toml").write_text(text + f'[feed]\nname = "{tmp_path}/feed"\n')
    (tmp_path / "views.sql").write_text(VIEWS.replace("side_views.by_region", "full_views.by_region"))
    shown = "SELECT orders FROM full_views.by_region WHERE region = ?"
    disk = SmallDisk.start(tmp_path / "feed", "2m")
    inside = (*disk.enter(), "env", "-C", str(tmp_path))
    try:
        assert cvs(tmp_path, "apply", "views.sql", "--yes").returncode == 0
        session.execute("INSERT INTO side.orders (id, region, amount) VALUES (901, 'FULL', 1)")
        filling = start(tmp_path, "full.log", inside=inside, CVS_SPARK_MASTER="")
        wait_for(lambda: session.execute(shown, ("FULL",)) == [(1,)], log=tmp_path / "full.log")
        disk.fill()
        session.execute("INSERT INTO side.orders (id, region, amount) VALUES (900, 'FULL', 1)")
        assert filling.wait(60) == 5, (tmp_path / "full.log").read_text()[-3000:]
        last = json.loads((tmp_path / "full.log").read_text().splitlines()[-1])
        assert last["event"] == "the system refused: No space left on device"
        assert (str(tmp_path / "feed") in last["where"], "start again" in last["next"]) == (True, True)
        disk.free()
        again = start(tmp_path, "again.log", inside=inside, CVS_SPARK_MASTER="")
        wait_for(lambda: session.execute(shown, ("FULL",)) == [(2,)], log=tmp_path / "again.log")
        assert cvs(tmp_path, "verify", "--wait", "1").returncode == 0
        again.terminate()
        assert again.wait(60) == 0
        assert cvs(tmp_path, "audit", "runs").returncode == 0
        for command in (("uninstall", "--yes"), ("apply", "views.sql", "--yes")):
            assert cvs(tmp_path, *command).returncode == 0
        of_before = cvs(tmp_path, "audit", "runs")  # same numbers of incarnation and epochs
        assert (of_before.returncode, "dropped since" in of_before.stderr) == (4, True), of_before.stdout
        assert cvs(tmp_path, "uninstall", "--yes").returncode == 0
    finally:
        disk.holder.kill()
