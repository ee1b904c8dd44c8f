"""What happens to base tables beside writes: TRUNCATE, DROP, rows that cannot be shown or read, gaps in the capture."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cvs.embedded.node import Node
from cvs.sidecar.settings import settings_from
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.test_build import Operator

pytestmark = pytest.mark.cluster

VIEWS = {
    "counts": "SELECT kind, COUNT(*) AS n FROM yard.tools GROUP BY kind",
    "places": "SELECT * FROM yard.goods",
    "words": "SELECT id, word FROM yard.notes",
    "weights": "SELECT id, FLOOR(weight) AS whole FROM yard.scales",
}
KEYED = {"places": "TBLPROPERTIES ('cvs.key' = '(place), id') "}


def declared(*names: str) -> list[str]:
    return [f"CREATE MATERIALIZED VIEW yard_views.{n} {KEYED.get(n, '')}AS {VIEWS[n]};" for n in names]


@pytest.fixture
def session(cassandra_node: Node) -> Iterator[CassandraSession]:
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE yard WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE yard.tools (id int PRIMARY KEY, kind text) WITH cdc = true")
    session.define("CREATE TABLE yard.goods (id int PRIMARY KEY, place text)")
    session.define("CREATE TABLE yard.notes (id int PRIMARY KEY, word text)")
    session.define("CREATE TABLE yard.scales (id int PRIMARY KEY, weight decimal)")
    session.define("CREATE TABLE yard.heap (id int PRIMARY KEY, body text)")
    yield session
    session.close()


@pytest.fixture
def operator(cassandra_node: Node, session: CassandraSession, tmp_path: Path) -> Iterator[Operator]:
    (tmp_path / "cvs.toml").write_text(
        f'[cluster]\ncontact_points = ["{cassandra_node.address}"]\nport = {cassandra_node.native_port}\n'
        '[views]\nstate_keyspace = "yard_state"\npublished_keyspace = "yard_views"\n'
        f'[capture]\ncdc_raw = "{cassandra_node.cdc_raw}"\n[spark]\nmaster = ""\n'
        f"[http]\nport = {20_000 + os.getpid() % 20_000}\n"
    )
    operator = Operator(tmp_path)
    yield operator
    operator.end(kill=True)


def test_what_cannot_be_followed_is_said_and_can_be_healed(
    operator: Operator, session: CassandraSession, cassandra_node: Node
) -> None:
    """One life of a pipeline; after each blow the views that can go on do, and a person is told about the others."""
    truncated_before_the_first_apply(operator, session)
    a_row_that_cannot_be_shown(operator, session)
    a_row_that_cannot_be_read(operator, session)
    truncated_and_no_write_follows(operator, session)
    lost_before_it_was_captured(operator, session, cassandra_node)
    dropped(operator, session)
    altered(operator, session)
    a_column_goes(operator, session)


def state(operator: Operator, view: str) -> tuple[str, str]:
    """Ask the sidecar itself: a command a question would take most of the test's time."""
    port = settings_from((operator.folder / "cvs.toml").read_text(), {}, where="").http.port
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json", timeout=5) as answer:
            views = json.load(answer)["views"]
    except OSError:
        return "", ""
    found = [(it["state"], it["problem"]) for it in views if it["name"] == f"yard_views.{view}"]
    return found[0] if found else ("", "")


def live(operator: Operator, *names: str) -> None:
    operator.wait(lambda: all(state(operator, name) == ("live", "") for name in names))


def shown(session: CassandraSession, view: str) -> list[tuple[Any, ...]]:
    return sorted(session.execute(f"SELECT * FROM yard_views.{view}"), key=repr)


def truncated_before_the_first_apply(operator: Operator, session: CassandraSession) -> None:
    """The scan sees what was left; the log tells of it only once a captured write is in its segment."""
    session.execute("INSERT INTO yard.tools (id, kind) VALUES (1, 'saw')")
    session.define("TRUNCATE yard.tools")
    session.execute("INSERT INTO yard.tools (id, kind) VALUES (2, 'axe')")
    session.execute("INSERT INTO yard.goods (id, place) VALUES (1, 'shed')")
    session.execute("INSERT INTO yard.notes (id, word) VALUES (1, 'dry')")
    operator.apply(*declared("counts", "places", "words", "weights"))
    operator.start()
    live(operator, "counts", "places", "words", "weights")
    session.execute("INSERT INTO yard.tools (id, kind) VALUES (3, 'axe')")
    operator.wait(lambda: shown(session, "counts") == [("axe", 2)])
    assert state(operator, "counts") == ("live", "")


def a_row_that_cannot_be_shown(operator: Operator, session: CassandraSession) -> None:
    """It is listed with the reason and contributes nothing, until its base row is written well."""
    session.execute("INSERT INTO yard.goods (id, place) VALUES (?, ?)", (2, "x" * 70_000))
    session.execute("INSERT INTO yard.goods (id, place) VALUES (3, 'barn')")
    operator.wait(lambda: state(operator, "places")[0] == "degraded")
    (entry,) = operator.cvs("quarantine", "--json")
    assert entry["source"] == "yard_views.places"
    assert "more than 65,000 bytes" in entry["reason"]
    assert "1 row in quarantine" in operator.cvs("quarantine")
    the_judge_names_what_was_excluded(operator, entry)
    assert shown(session, "places") == [("barn", 3), ("shed", 1)]
    session.execute("UPDATE yard.goods SET place = 'loft' WHERE id = 2")
    live(operator, "places")
    assert operator.cvs("quarantine", "--json") == []
    assert ("loft", 2) in shown(session, "places")


def a_row_that_cannot_be_read(operator: Operator, session: CassandraSession) -> None:
    """Cassandra keeps 1E+2000000000 in five bytes; its whole number would take all memory there is."""
    put = "INSERT INTO yard.scales (id, weight) VALUES (?, ?)"
    session.execute(put, (1, Decimal("1E+2000000000")))
    session.execute(put, (2, Decimal("1.5")))
    operator.wait(lambda: state(operator, "weights")[0] == "degraded")
    operator.wait(lambda: shown(session, "weights") == [(2, Decimal(1))])
    (entry,) = operator.cvs("quarantine", "--json")
    assert (entry["source"], "more than 1,000 digits" in entry["reason"]) == ("yard.scales", True), entry
    (report,) = operator.cvs("verify", "yard_views.weights", "--json")
    assert (report["differences"], report["unread_count"]) == ([], 1)
    session.execute("DELETE FROM yard.scales WHERE id = 1")
    live(operator, "weights")


def the_judge_names_what_was_excluded(operator: Operator, entry: dict[str, Any]) -> None:
    """An audit that passes says what it did not look at."""
    runs = str(operator.folder / "runs")
    found = operator.cvs("audit", runs, "--json")["excluded"]
    assert found == [{name: entry[name] for name in ("source", "key", "reason")}]
    assert "Not judged, because in quarantine: 1 row" in operator.cvs("audit", runs)


def truncated_and_no_write_follows(operator: Operator, session: CassandraSession) -> None:
    """The node is asked: its log's entry may lie in a segment that nobody reads."""
    session.define("TRUNCATE yard.tools")
    operator.wait(lambda: state(operator, "counts")[0] == "broken")
    assert state(operator, "counts")[1].startswith("yard.tools: the table was truncated")
    assert state(operator, "words") == ("live", "")
    assert operator.cvs("rebuild", "counts", "--yes", "--wait").startswith("incarnation 2 of ")
    assert state(operator, "counts") == state(operator, "words") == ("live", "")
    assert shown(session, "counts") == []
    session.execute("INSERT INTO yard.tools (id, kind) VALUES (4, 'hoe')")
    operator.wait(lambda: shown(session, "counts") == [("hoe", 1)])
    assert state(operator, "counts") == ("live", "")


def lost_before_it_was_captured(operator: Operator, session: CassandraSession, node: Node) -> None:
    """Whose segments go while nobody captures hears which views cannot know what was in them."""
    session.execute("INSERT INTO yard.notes (id, word) VALUES (5, 'dew')")  # so the node's segment is begun
    operator.wait(lambda: (5, "dew") in shown(session, "words"))
    operator.end()
    session.execute("INSERT INTO yard.notes (id, word) VALUES (2, 'wet')")
    for file in node.cdc_raw.iterdir():
        file.unlink()
    for number in range(40):  # until the node begins another segment
        session.execute("INSERT INTO yard.heap (id, body) VALUES (?, ?)", (number, "x" * 1_000_000))
    operator.start()
    operator.wait(lambda: state(operator, "words")[0] == "broken")
    assert "lost before they could be captured" in state(operator, "words")[1]
    operator.cvs("rebuild", "--all", "--yes")
    live(operator, "counts", "places", "words")
    assert (2, "wet") in shown(session, "words")


def dropped(operator: Operator, session: CassandraSession) -> None:
    """Running, the views of the table are broken; down, the start is refused with what to do."""
    session.define("DROP TABLE yard.notes")
    operator.wait(lambda: state(operator, "words")[0] == "broken")
    assert state(operator, "words")[1].startswith("yard.notes: the table was dropped")
    assert state(operator, "places") == ("live", "")
    assert operator.sidecar is not None
    operator.sidecar.send_signal(signal.SIGTERM)
    assert operator.sidecar.wait(30) == 0
    operator.start()
    assert operator.sidecar.wait(30) == 2
    assert "cannot make any more: yard_views.words" in operator.log()
    assert "cvs drop yard_views.words" in operator.log()
    operator.sidecar = None
    assert "words (drop)" in operator.apply(*declared("counts", "places"), prune=True)
    operator.start()
    live(operator, "counts", "places")
    end = time.monotonic() + 30
    while session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'yard_views' AND table_name = 'words'"
    ):
        assert time.monotonic() < end, "its table is still there"
        time.sleep(0.2)


def altered(operator: Operator, session: CassandraSession) -> None:
    """A new column changes no view, also none that was declared with *; whatever was pinned is run."""
    session.define("ALTER TABLE yard.goods ADD spare text")
    session.execute("INSERT INTO yard.goods (id, place, spare) VALUES (7, 'yard', 'yes')")
    operator.end(kill=True)
    operator.start()
    live(operator, "counts", "places")
    session.execute("UPDATE yard.goods SET place = 'gate', spare = 'no' WHERE id = 7")
    operator.wait(lambda: ("gate", 7) in shown(session, "places"))


def a_column_goes(operator: Operator, session: CassandraSession) -> None:
    """One that no view reads is no loss; one that a view shows breaks it. It comes back: a rebuild heals."""
    session.define("ALTER TABLE yard.goods DROP spare")
    session.execute("UPDATE yard.goods SET place = 'roof' WHERE id = 7")
    operator.wait(lambda: ("roof", 7) in shown(session, "places"))
    assert state(operator, "places") == ("live", "")
    session.define("ALTER TABLE yard.goods DROP place")
    session.execute("INSERT INTO yard.goods (id) VALUES (8)")
    operator.wait(lambda: state(operator, "places")[0] == "broken")
    assert state(operator, "places")[1].startswith("yard.goods.place: the column was dropped")
    assert state(operator, "counts") == ("live", "")
    session.define("ALTER TABLE yard.goods ADD place text")
    session.execute("UPDATE yard.goods SET place = 'moor' WHERE id = 8")
    assert operator.cvs("rebuild", "places", "--yes", "--wait").startswith("incarnation ")
    live(operator, "counts", "places")
    assert shown(session, "places") == [("moor", 8)]
