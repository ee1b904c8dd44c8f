"""A node that wants TLS and a password: the way in, and one clear message for each way to be refused."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cassandra import Unauthorized

from cvs.embedded.certificates import ca_file, make_certificate
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.node import Node
from cvs.errors import StoreError
from cvs.store.session import CassandraSession, ClusterAddress

pytestmark = pytest.mark.cluster

PASSWORD = "not-to-be-seen-anywhere"  # a word to look for in everything that is said
USER = "keeper"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with EmbeddedCluster(size=1, quick=True, authentication=True, tls=True) as cluster:
        cluster.cql(f"CREATE ROLE {USER} WITH PASSWORD = '{PASSWORD}' AND LOGIN = true AND SUPERUSER = true")
        yield cluster.nodes[0]


@pytest.fixture(scope="module")
def address(node: Node) -> ClusterAddress:
    return ClusterAddress(
        contact_points=(node.address,), username=USER, password=PASSWORD, ca_file=str(node.ca_file)
    )


@pytest.fixture(scope="module")
def another_ca(tmp_path_factory: pytest.TempPathFactory, node: Node) -> str:
    folder = tmp_path_factory.mktemp("another")
    make_certificate(folder, node.address)
    return str(ca_file(folder))


def doctor(address: ClusterAddress) -> tuple[int, dict[str, Any], str]:
    environment = {
        **os.environ,
        "CVS_CLUSTER_CONTACT_POINTS": address.contact_points[0],
        "CVS_CLUSTER_USERNAME": address.username,
        "CVS_CLUSTER_PASSWORD": address.password,
        "CVS_CLUSTER_CA_FILE": address.ca_file,
    }
    done = subprocess.run(
        [sys.executable, "-m", "cvs", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in environment.items() if value},
    )
    findings = json.loads(done.stdout)["result"]["findings"]
    return done.returncode, {f["about"]: f for f in findings}, done.stdout + done.stderr


def test_with_the_right_certificate_and_password_everything_works(address: ClusterAddress) -> None:
    """Client and doctor come in, and neither shows the password."""
    session = CassandraSession(address)
    assert session.execute("SELECT release_version FROM system.local") == [("5.0.8",)]
    session.close()
    code, found, said = doctor(address)
    assert (code, found["cluster"]["grade"]) == (0, "ok"), found
    assert "as keeper, with TLS" in found["cluster"]["found"]
    assert PASSWORD not in said


@pytest.mark.parametrize(
    ("wrong", "message", "mend"),
    [
        ({"ca_file": "another"}, "the node's certificate is not trusted: ", "ca_file"),
        ({"ca_file": ""}, "the node closed the connection", "it may ask for TLS"),
        ({"password": "guessed"}, "user name or password were refused", "username and password"),
        ({"username": "nobody"}, "user name or password were refused", "username and password"),
        ({"username": "", "password": ""}, "user name or password were refused", "username and password"),
        ({"ca_file": "no-such-file"}, "the TLS files cannot be used", "readable PEM"),
    ],
    ids=["other CA", "no TLS", "wrong password", "unknown user", "no user", "no CA file"],
)
def test_each_refusal_says_what_is_wrong(
    address: ClusterAddress, another_ca: str, wrong: dict[str, str], message: str, mend: str
) -> None:
    """One sentence, one thing to mend, no secret."""
    wrong = {key: another_ca if value == "another" else value for key, value in wrong.items()}
    refused = replace(address, **wrong)
    with pytest.raises(StoreError) as error:
        _ = CassandraSession(refused).driver
    assert message in error.value.what
    assert mend in error.value.next_step
    said = f"{error.value!r} {error.value} {error.value.where} {refused!r}"
    assert PASSWORD not in said
    assert "guessed" not in said


def test_the_doctor_repeats_the_reason(address: ClusterAddress, another_ca: str) -> None:
    """What a person reads first names the cause, whatever room found it."""
    code, found, said = doctor(replace(address, ca_file=another_ca))
    assert (code, found["cluster"]["grade"]) == (1, "problem")
    assert "certificate is not trusted" in found["cluster"]["found"]
    assert "check ca_file" in found["cluster"]["mend"]
    assert PASSWORD not in said


def test_nothing_the_node_or_we_wrote_names_the_password(
    node: Node, address: ClusterAddress, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the driver's log at its loudest nor anything of ours repeats credentials."""
    with caplog.at_level("DEBUG"):
        session = CassandraSession(address)
        session.execute("SELECT cluster_name FROM system.local")
        session.close()
        with pytest.raises(StoreError):
            _ = CassandraSession(replace(address, password="guessed")).driver
    assert caplog.records, "the driver said nothing: nothing was checked"
    assert PASSWORD not in caplog.text
    assert "guessed" not in caplog.text


VIEW = "CREATE MATERIALIZED VIEW seen.big AS SELECT id, v FROM safe.t WHERE v > 5;"


def test_the_sidecar_and_its_capture_work_behind_tls_and_a_password(
    node: Node, address: ClusterAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applied, captured, kept, verified; then `cvs capture` alone; the password stands in nothing that was said.

    To a role that may not see a node's settings it was said that the node does not answer.
    """
    session = CassandraSession(address)
    session.define(
        "CREATE KEYSPACE safe WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE safe.t (id int PRIMARY KEY, v int)")
    (tmp_path / "views.sql").write_text(VIEW)
    (tmp_path / "cvs.toml").write_text(
        f'[cluster]\ncontact_points = ["{node.address}"]\nusername = "{USER}"\nca_file = "{node.ca_file}"\n'
        '[views]\nstate_keyspace = "safe_state"\npublished_keyspace = "seen"\n'
        f'[capture]\ncdc_raw = "{node.cdc_raw}"\n[spark]\nmaster = ""\n[http]\nport = 0\n'
    )
    assert cvs(tmp_path, "apply", "views.sql", "--yes")[0] == 0
    with (tmp_path / "run.log").open("wb") as log:
        command = [sys.executable, "-m", "cvs", "run"]
        running = subprocess.Popen(command, cwd=tmp_path, env=secret(), stdout=log, stderr=log)
    try:
        for number in range(10):
            session.execute("INSERT INTO safe.t (id, v) VALUES (?, ?)", (number, number))
        end = time.monotonic() + 60
        while len(session.execute("SELECT id FROM seen.big")) < 4:
            assert time.monotonic() < end, (tmp_path / "run.log").read_text()[-2000:]
            time.sleep(0.2)
        assert cvs(tmp_path, "verify") == (0, "seen.big: every row is right  (4 rows, 1 read)\n")
    finally:
        running.terminate()
        assert running.wait(60) == 0, (tmp_path / "run.log").read_text()[-2000:]
    code, said = cvs(tmp_path, "capture", "--node", node.address, "--feed", "other", "--once", "--keep")
    assert (code, "position" in said) == (0, True), said
    code, said = cvs(tmp_path, "capture", "--node", node.address, "--feed", "other", password="guessed")
    assert (code, "user name or password were refused" in said) == (5, True), said
    assert PASSWORD not in (tmp_path / "run.log").read_text()
    session.execute("CREATE ROLE guest WITH PASSWORD = 'seen' AND LOGIN = true")
    monkeypatch.setenv("CVS_CLUSTER_USERNAME", "guest")
    code, said = cvs(tmp_path, "capture", "--node", node.address, "--feed", "other", password="seen")
    assert (code, "User guest has no SELECT permission on <table system_views.settings>" in said) == (
        5,
        True,
    ), said
    assert "does it run?" not in said
    _, found, said = doctor(replace(address, username="guest", password="seen"))
    assert "no SELECT permission on <table system_views.settings>" in found["commit log"]["found"], said
    assert "docker/role.cql" in found["commit log"]["mend"]
    session.close()


ROLE_SCRIPT = Path(__file__).resolve().parents[2] / "docker" / "role.cql"
BY_REGION = (
    "CREATE MATERIALIZED VIEW seen_by_role.by_region AS "
    "SELECT region, COUNT(*) AS n FROM shop.orders GROUP BY region;\n"
)
BIG = "CREATE MATERIALIZED VIEW seen_by_role.big AS SELECT id, amount FROM shop.orders WHERE amount > 5;\n"
NOT_GRANTED = (
    "CREATE KEYSPACE more WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "INSERT INTO shop.orders (id, amount) VALUES (1, 1)",
    "DROP TABLE shop.orders",
    "SELECT * FROM private.t",
    "ALTER TABLE private.t WITH cdc = true",
    "CREATE ROLE another",
)


def as_written(one: str) -> str:
    """Return a statement of the role's script as it is for this node: names of its own, our password."""
    names = {
        "cvs_views": "seen_by_role",
        "'change-me'": f"'{PASSWORD}'",
        "'datacenter1': 3": "'datacenter1': 1",
    }
    for before, now in names.items():
        one = one.replace(before, now)
    return one


def granted(session: CassandraSession) -> None:
    """Make base tables, and the role as its script does."""
    for space in ("shop", "private"):
        session.define(
            f"CREATE KEYSPACE {space} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
    session.define("CREATE TABLE shop.orders (id int PRIMARY KEY, region text, amount int)")
    session.define("CREATE TABLE private.t (id int PRIMARY KEY)")
    text = "\n".join(line.split("--")[0] for line in ROLE_SCRIPT.read_text().splitlines())
    for statement in filter(str.strip, text.split(";")):
        session.define(as_written(statement))


def test_the_least_role_is_enough_from_the_first_command_to_the_last(
    address: ClusterAddress, tmp_path: Path
) -> None:
    """Everything an operator does, as the role of `docker/role.cql`; what it need not do it may not."""
    session = CassandraSession(address)
    granted(session)
    insert = "INSERT INTO shop.orders (id, region, amount) VALUES (?, ?, ?)"
    session.execute(insert, (1, "EU", 10))
    (tmp_path / "views.sql").write_text(BY_REGION + BIG)
    (tmp_path / "cvs.toml").write_text(
        f'[cluster]\ncontact_points = ["{address.contact_points[0]}"]\nusername = "cvs"\n'
        f'ca_file = "{address.ca_file}"\n[views]\npublished_keyspace = "seen_by_role"\n'
        f'[spark]\nmaster = ""\n[http]\nport = {20_000 + os.getpid() % 20_000}\n'
    )

    def well(*arguments: str) -> str:
        code, said = cvs(tmp_path, *arguments)
        assert code == 0, f"{arguments}: {said}"
        return said

    own = CassandraSession(replace(address, username="cvs"))
    for statement in NOT_GRANTED:
        with pytest.raises(Unauthorized):
            own.driver.execute(statement)
    own.close()
    well("doctor")
    well("apply", "views.sql", "--dry-run")
    well("apply", "views.sql", "--yes")
    with (tmp_path / "run.log").open("wb") as log:
        command = [sys.executable, "-m", "cvs", "run"]
        running = subprocess.Popen(command, cwd=tmp_path, env=secret(), stdout=log, stderr=log)
    try:
        well("apply", "views.sql", "--wait")
        session.execute(insert, (2, "US", 3))  # prepared before `cdc` was switched on
        end = time.monotonic() + 60
        while "US" not in well("query", "by_region"):
            assert time.monotonic() < end, (tmp_path / "run.log").read_text()[-2000:]
        assert json.loads(well("status", "--json"))["result"]["leader"]
        session.execute("DELETE FROM seen_by_role.by_region WHERE region = 'EU'")
        assert cvs(tmp_path, "verify", "by_region", "--wait", "0.2")[0] == 1
        assert "every row is right now" in well("repair", "by_region", "--wait", "0.2")
        session.define("ALTER TABLE shop.orders WITH cdc = false")
        session.driver.execute("INSERT INTO shop.orders (id, region, amount) VALUES (3, 'AT', 7)")
        session.define("ALTER TABLE shop.orders WITH cdc = true")
        assert "read again and corrected: 1 row of shop.orders" in well("repair", "big", "--wait", "0.2")
        well("pause", "big")
        well("resume", "big")
        well("quarantine")
        assert well("dump").count("CREATE MATERIALIZED VIEW") == 2
        well("audit", "runs", "--expect", "strong")
        well("rebuild", "--all", "--yes", "--wait")
        well("drop", "big", "--yes")
        well("apply", "views.sql", "--dry-run")
        well("verify")
    finally:
        running.terminate()
        assert running.wait(60) == 0, (tmp_path / "run.log").read_text()[-2000:]
    well("uninstall", "--yes")
    left = session.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'seen_by_role'")
    options = "SELECT cdc, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = 'shop'"
    ((cdc, grace),) = session.execute(options)
    assert (left, bool(cdc), grace) == ([], False, 864_000)
    session.close()


def secret(password: str = PASSWORD) -> dict[str, str]:
    return {**os.environ, "CVS_CLUSTER_PASSWORD": password}


def cvs(folder: Path, *arguments: str, password: str = PASSWORD) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cvs", *arguments],
        cwd=folder,
        env=secret(password),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert PASSWORD not in said
    return done.returncode, said
