"""The commands that read views, on a real node, run as a user runs them."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cvs.client.control import read_control
from cvs.embedded.node import Node
from cvs.errors import StoreError
from cvs.model.views import BaseTable
from cvs.sidecar.apply import carry_out, propose
from cvs.sidecar.catalog import BOOKKEEPING_VERSION
from cvs.sidecar.scanning import TableScan
from cvs.sidecar.settings import settings_from
from cvs.sidecar.views import Views, cluster_address
from cvs.store.session import LOCAL_MARK, CassandraSession

pytestmark = pytest.mark.cluster

STATEMENT = (
    "CREATE MATERIALIZED VIEW shop_views.by_region TBLPROPERTIES ('cvs.level' = 'strong') AS "
    "SELECT region, COUNT(*) AS orders, SUM(amount) AS turnover FROM shop_v.orders GROUP BY region;"
)
REPLICATED = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture(scope="module")
def settings_file(cassandra_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = (
        f'[cluster]\ncontact_points = ["{cassandra_node.address}"]\nport = {cassandra_node.native_port}\n'
        '[views]\nstate_keyspace = "cvs_v"\npublished_keyspace = "shop_views"\n'
    )
    file = tmp_path_factory.mktemp("settings") / "cvs.toml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def session(settings_file: Path) -> Iterator[CassandraSession]:
    """A base table with three orders, and the view as it should be."""
    settings = settings_from(settings_file.read_text(), {}, where="")
    session = CassandraSession(cluster_address(settings))
    session.define(f"CREATE KEYSPACE shop_v {REPLICATED}")
    session.define("CREATE TABLE shop_v.orders (id int PRIMARY KEY, region text, amount int)")
    for row in ((1, "EU", 10), (2, "EU", 5), (3, "US", 7)):
        session.execute("INSERT INTO shop_v.orders (id, region, amount) VALUES (?, ?, ?)", row)
    applied = cvs(settings_file, "apply", str(views_file(settings_file)), "--yes")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "< shop_v.orders has rows: they are read once, while writes go on" in applied.stdout
    building = cvs(settings_file, "verify", "--wait", "0.1")
    assert (building.returncode, "is being built" in building.stderr) == (5, True), "no pipeline built it yet"
    session.define("TRUNCATE cvs_v.control")  # from here on the test is the pipeline
    put_right(session)
    yield session
    session.close()


def put_right(session: CassandraSession) -> None:
    """Put the rows of the view as a pipeline does: with a write time that no wall clock has."""
    insert = "INSERT INTO shop_views.by_region (region, orders, turnover) VALUES (?, ?, ?) USING TIMESTAMP 0"
    session.define("TRUNCATE shop_views.by_region")
    for row in (("EU", 2, 15), ("US", 1, 7)):
        session.execute(insert, row)


def views_file(settings_file: Path) -> Path:
    file = settings_file.with_name("views.sql")
    file.write_text(STATEMENT)
    return file


def cvs(settings_file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cvs", *arguments, "--settings", str(settings_file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_applying_again_changes_nothing(session: CassandraSession, settings_file: Path) -> None:
    """The same text is no change; a new view is proposed with every statement, and only agreed to by --yes."""
    again = cvs(settings_file, "apply", str(views_file(settings_file)), "--yes")
    assert "nothing to do" in again.stdout
    more = settings_file.with_name("more.sql")
    more.write_text(
        "CREATE MATERIALIZED VIEW shop_views.big AS SELECT id, amount FROM shop_v.orders WHERE amount > 6;"
    )
    dry = json.loads(cvs(settings_file, "apply", str(more), "--dry-run", "--json").stdout)["result"]
    assert [(c["kind"], c["name"]) for c in dry["changes"]] == [
        ("kept", "shop_views.by_region"),
        ("create", "shop_views.big"),
    ]
    assert (dry["applied"], dry["captured"]) == (False, [])
    assert any(s.startswith("CREATE TABLE IF NOT EXISTS shop_views.big ") for s in dry["statements"])
    assert cvs(settings_file, "apply", str(more)).returncode == 2
    assert "big" not in cvs(settings_file, "dump").stdout


def test_the_order_of_write_times_is_declared_by_all_views_or_none(
    session: CassandraSession, settings_file: Path
) -> None:
    """Beside a view of the other time-line it is refused, with what to declare."""
    file = settings_file.with_name("ordered.sql")
    ordered = "TBLPROPERTIES ('cvs.timeline' = 'write-time')"
    one = f"CREATE MATERIALIZED VIEW shop_views.ordered {ordered} AS SELECT id, region FROM shop_v.orders;"
    file.write_text(one)
    alone = cvs(settings_file, "apply", str(file), "--dry-run")
    file.write_text(one + STATEMENT.replace("'cvs.level' = 'strong'", "'cvs.timeline' = 'write-time'"))
    together = cvs(settings_file, "apply", str(file), "--dry-run")
    assert (alone.returncode, together.returncode) == (2, 0), together.stderr
    assert "shop_views.by_region declares absorbed" in alone.stderr


def test_a_rebuild_is_proposed_with_every_statement(session: CassandraSession, settings_file: Path) -> None:
    """A view or --all says what; the new incarnation has tables of its own, the old one's go once it serves."""
    assert cvs(settings_file, "rebuild").returncode == 2
    assert cvs(settings_file, "rebuild", "nowhere", "--dry-run").returncode == 2
    dry = cvs(settings_file, "rebuild", "by_region", "--dry-run").stdout
    assert dry.startswith("incarnation 2 of shop_views.by_region")
    now, later = dry.split("once incarnation 2 serves:")
    assert ("delta_shop_v_orders_2" in now, "DROP" in now) == (True, False)
    assert ("DROP TABLE IF EXISTS cvs_v.delta_shop_v_orders_1;" in later, "shop_views" in later) == (
        True,
        False,
    )
    settings = settings_from(settings_file.read_text(), {}, where="")
    assert Views(session=session, settings=settings).catalog.incarnation() == 1


def test_only_cdc_was_changed_of_the_users_table(session: CassandraSession, settings_file: Path) -> None:
    """Applying switched `cdc` on, and remembers that it did."""
    session.driver.cluster.refresh_schema_metadata()
    options = session.driver.cluster.metadata.keyspaces["shop_v"].tables["orders"].options
    assert options["cdc"]
    settings = settings_from(settings_file.read_text(), {}, where="")
    assert Views(session=session, settings=settings).catalog.captured() == ["shop_v.orders"]


def test_a_right_view_verifies(session: CassandraSession, settings_file: Path) -> None:
    """A view equal to its base tables exits 0 and says so."""
    done = cvs(settings_file, "verify", "--wait", "0.1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "shop_views.by_region: every row is right  (2 rows, 1 read)\n"


def test_a_row_that_lives_by_what_no_view_reads_is_read(session: CassandraSession) -> None:
    """Its INSERT had expired, and Cassandra gives such a row only to who asks for what it lives by: a view that had it
    was said to have invented it.
    """
    columns = (("p", "int"), ("c", "int"), ("a", "text"), ("b", "text"), ("tags", "set<text>"))
    base = BaseTable(name="shop_v.lives", columns=columns, partition_key=("p",), clustering_key=("c",))
    spelled = ", ".join(f"{name} {kind}" for name, kind in columns)
    session.define(f"CREATE TABLE shop_v.lives ({spelled}, PRIMARY KEY (p, c))")
    for p, (name, value) in enumerate((("b", "x"), ("tags", {"x"}))):
        session.execute(f"INSERT INTO shop_v.lives (p, c, {name}) VALUES (?, 1, ?)", (p, value))
        session.execute("INSERT INTO shop_v.lives (p, c, a) VALUES (?, 1, 'gone') USING TTL 1", (p,))
    while any(row[0] for row in session.execute("SELECT a FROM shop_v.lives")):
        time.sleep(0.1)
    scan = TableScan.of(session, base, {"a"}, unread=set(), excluded=frozenset())
    assert sorted(row["p"] for row in scan) == [0, 1]
    session.define("DROP TABLE shop_v.lives")


def test_a_damaged_view_is_reported_row_by_row(session: CassandraSession, settings_file: Path) -> None:
    """Rows changed, deleted and invented by hand are all found, with kind and key, and exit 1."""
    session.execute("INSERT INTO shop_views.by_region (region, orders, turnover) VALUES ('EU', 99, 15)")
    session.execute("DELETE FROM shop_views.by_region WHERE region = 'US'")
    session.execute("INSERT INTO shop_views.by_region (region, orders, turnover) VALUES ('XX', 1, 1)")
    done = cvs(settings_file, "verify", "by_region", "--wait", "0.1", "--json")
    (report,) = json.loads(done.stdout)["result"]
    assert done.returncode == 1
    found = sorted((d["kind"], (d["expected"] or d["found"])["region"]) for d in report["differences"])
    assert found == [("different", "EU"), ("invented", "XX"), ("missing", "US")]
    put_right(session)


def test_a_view_is_read_by_key_and_whole(session: CassandraSession, settings_file: Path) -> None:
    """`cvs query` gives the rows of a key, or all."""
    one = cvs(settings_file, "query", "by_region", "EU", "--json")
    assert json.loads(one.stdout)["result"] == [{"region": "EU", "orders": 2, "turnover": 15}]
    everything = cvs(settings_file, "query", "shop_views.by_region")
    assert (everything.returncode, "turnover" in everything.stdout, "US" in everything.stdout) == (
        0,
        True,
        True,
    )
    unknown = cvs(settings_file, "query", "nowhere")
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (2, 'error: there is no view "nowhere"')


def test_what_is_dumped_declares_the_same_views(session: CassandraSession, settings_file: Path) -> None:
    """`cvs dump` gives statements that parse to what was applied."""
    settings = settings_from(settings_file.read_text(), {}, where="")
    views = Views(session=session, settings=settings)
    dumped = cvs(settings_file, "dump").stdout
    assert [v.definition for v in views.parsed(dumped)] == [v.definition for v in views.parsed(STATEMENT)]


def test_of_two_changes_at_once_one_is_told_to_look_again(
    session: CassandraSession, settings_file: Path
) -> None:
    """Both were said to be applied: two plans of one incarnation, and the views of one of them were in no table."""
    views = Views(session=session, settings=settings_from(settings_file.read_text(), {}, where=""))
    first, second = propose(views, "", rebuild=True), propose(views, "", rebuild=True)
    carry_out(views, first)
    with pytest.raises(StoreError, match="changed meanwhile by another command"):
        carry_out(views, second)

    def waits(_seconds: float) -> None:
        raise InterruptedError

    with views.catalog.alone(), pytest.raises(InterruptedError), views.catalog.alone(wait=waits):
        pass
    with views.catalog.alone(wait=waits):
        pass


def test_uninstalling_leaves_only_what_was_there(session: CassandraSession, settings_file: Path) -> None:
    """Views, state, the switched-on `cdc` and keyspaces go; the user's tables stay, and what they are in."""
    whole = cvs(settings_file, "uninstall", "--dry-run").stdout
    assert "DROP KEYSPACE IF EXISTS shop_views;" in whole, "we made it, and nothing else is in it"
    session.define("CREATE TABLE shop_views.notes (id int PRIMARY KEY)")
    session.define(f"CREATE KEYSPACE cvs_two {REPLICATED}")
    for table in (
        "catalog_captured (name text PRIMARY KEY)",
        "delta_shop_v_orders_1 (bucket int PRIMARY KEY)",
    ):
        session.define(f"CREATE TABLE cvs_two.{table}")
    beside = cvs(settings_file, "uninstall", "--dry-run").stdout
    assert "-- cdc of shop_v.orders stays on: cvs_two keeps views of it too" in beside
    assert "ALTER TABLE" not in beside
    session.define("DROP KEYSPACE cvs_two")
    refused_while_a_sidecar_leads(session, settings_file)
    assert cvs(settings_file, "uninstall", "--yes").returncode == 0
    session.driver.cluster.refresh_schema_metadata()
    keyspaces = session.driver.cluster.metadata.keyspaces
    assert "cvs_v" not in keyspaces
    assert [*keyspaces["shop_views"].tables] == ["notes"]
    assert not keyspaces["shop_v"].tables["orders"].options["cdc"]
    assert len(session.execute("SELECT id FROM shop_v.orders")) == 3
    assert "nothing of cvs is here" in cvs(settings_file, "uninstall", "--yes").stdout
    for words in ("verify", "rebuild --all --yes", "pause --all", "resume --all"):
        refused = cvs(settings_file, *words.split())
        assert (refused.returncode, "error: no view is applied yet" in refused.stderr) == (2, True), words


def test_tables_are_made_for_the_serial_level_of_the_settings(
    session: CassandraSession, settings_file: Path
) -> None:
    """They were made for SERIAL whatever was asked for, and `cvs run` refused its own tables."""
    file = settings_file.with_name("local.toml")
    local = '[cluster]\nserial_consistency = "LOCAL_SERIAL"\nlocal_datacenter = "datacenter1"\n'
    file.write_text(settings_file.read_text().replace("[cluster]\n", local).replace("cvs_v", "cvs_local"))
    dry = cvs(file, "apply", str(views_file(settings_file)), "--dry-run").stdout
    assert (
        dry.count(LOCAL_MARK)
        == dry.count("CREATE TABLE IF NOT EXISTS cvs_local.")
        - len(
            Views(
                session=session, settings=settings_from(file.read_text(), {}, where="")
            ).catalog.statements()
        )
        + 1
    ), "all but the catalog's"


def test_older_bookkeeping_is_brought_up_to_date_and_newer_is_refused(
    session: CassandraSession, settings_file: Path
) -> None:
    """What an earlier cvs wrote is kept through the migration; what a later one wrote is left alone, with a message."""
    for statement in (Path(__file__).parent / "data" / "bookkeeping_1.cql").read_text().splitlines():
        session.define(statement)
    file = settings_file.with_name("old.toml")
    file.write_text(settings_file.read_text().replace('"cvs_v"', '"cvs_old"'))
    views = Views(session=session, settings=settings_from(file.read_text(), {}, where=""))
    session.driver.cluster.refresh_schema_metadata()
    before = views.kept()
    views.catalog.create()
    assert views.catalog.check() == BOOKKEEPING_VERSION
    assert (views.kept(), list(before), views.catalog.captured()) == (
        before,
        ["shop_views.by_region"],
        ["shop_v.orders"],
    )
    assert session.execute("SELECT process FROM cvs_old.catalog_leader") == []
    session.driver.cluster.refresh_schema_metadata()
    life = views.catalog.lives()[1]
    assert life.tables == ("cvs_old.delta_shop_v_orders_1", "cvs_old.state_z1_1", "shop_views.by_region")
    assert "SELECT region, COUNT(*) AS orders" in life.views
    session.define("UPDATE cvs_old.catalog_version SET version = 99 WHERE id = 0")
    for words in (["dump"], ["pause", "--all"], ["resume", "--all"]):
        refused = cvs(file, *words)
        assert (refused.returncode, "are of version 99" in refused.stderr) == (5, True), words


def test_a_cluster_that_is_not_there_is_one_message(settings_file: Path, tmp_path: Path) -> None:
    """No traceback, no password, exit 5."""
    file = tmp_path / "cvs.toml"
    file.write_text(
        '[cluster]\ncontact_points = ["127.0.0.1"]\nport = 1\nusername = "u"\npassword = "hunter2"\n'
    )
    done = cvs(file, "dump")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("error: the cluster cannot be entered")
    assert "hunter2" not in done.stderr


def test_state_of_an_older_cvs_is_refused_with_the_way_out(
    session: CassandraSession, settings_file: Path
) -> None:
    """Neither taken for no pipeline at all nor a mistake of ours in mid-epoch."""
    session.define(f"CREATE KEYSPACE older {REPLICATED}")
    session.define("CREATE TABLE older.control (bucket int, row blob, now blob, PRIMARY KEY (bucket, row))")
    text = settings_file.read_text().replace("cvs_v", "older").replace("shop_views", "older_views")
    file = settings_file.with_name("older.toml")
    file.write_text(text)
    views = file.with_name("older.sql")
    views.write_text(STATEMENT.replace("shop_views", "older_views"))
    applied = cvs(file, "apply", str(views), "--yes")
    assert (applied.returncode, "written by an older cvs" in applied.stderr) == (5, True), applied.stderr
    with pytest.raises(StoreError, match="written by an older cvs"):
        read_control(session, "older")


def refused_while_a_sidecar_leads(session: CassandraSession, settings_file: Path) -> None:
    """A write to a table that is just being dropped can leave a node that never drops it."""
    session.execute("UPDATE cvs_v.catalog_leader SET process = 'here:1' WHERE id = 0 IF process = null")
    refused = cvs(settings_file, "uninstall", "--yes")
    said = "error: a sidecar still keeps the views\n  where: here:1\n  next:  end all `cvs run`"
    assert (refused.returncode, refused.stderr.startswith(said)) == (5, True), refused.stderr
    assert "by_region" in cvs(settings_file, "dump").stdout, "nothing was removed"
    session.execute(
        "UPDATE cvs_v.catalog_leader USING TTL 2 SET process = 'here:1' WHERE id = 0 IF process = 'here:1'"
    )
