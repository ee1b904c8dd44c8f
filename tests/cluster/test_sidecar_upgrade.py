"""An upgrade of cvs on a real node: state is kept where it means the same, and each refusal says what to do.

The other release is this one with another version number (and, once, another format of state): what it may go on with
is decided by those.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cvs.client.control import read_control
from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress
from tests.cluster.operating import RELEASE, Deployment, settings, writing

pytestmark = pytest.mark.cluster

VIEW = """
CREATE MATERIALIZED VIEW up_views.by_region TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '2')
AS SELECT region, COUNT(*) AS orders, SUM(amount) AS turnover FROM up.orders GROUP BY region;
"""
STATE = "up_state"
TABLES = f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{STATE}'"
SECONDS_MAX = 90
UPGRADED = f"import cvs.version; cvs.version.VERSION = '9.9'; {RELEASE}"
OF_OTHER_STATE = f"import cvs.stream.recipe; cvs.stream.recipe.STATE_FORMAT = -1; {UPGRADED}"


class Operator(Deployment):
    """Runs releases on one folder and sees what they show."""

    session: CassandraSession

    def end_well(self, name: str) -> None:
        """Ask it to end, as a service manager does: it finishes the epoch at hand."""
        self.end(name)
        assert self.said(name)[-1] == "ended", self.said(name)[-8:]

    def refused(self, release: str) -> str:
        """Start a release that may not go on; return what it says."""
        done = self.tried("run", release=release)
        assert done.returncode == 5, done.stderr[-3000:]
        last = json.loads(done.stderr.splitlines()[-1])
        return f"{last['event']}; next: {last['next']}"

    def shows_what_is_written(self, name: str) -> None:
        """Write something new and see it in the view."""
        self.session.execute("INSERT INTO up.orders (id, region, amount) VALUES (9, ?, 1)", (name,))
        shown = "SELECT orders FROM up_views.by_region WHERE region = ?"
        self.wait(lambda: bool(self.session.execute(shown, (name,))), f"{name} to show what is written")

    def write(self, number: int) -> None:
        """Write one of some rows."""
        row = (10 + number % 50, f"r{number % 7}", number)
        self.session.execute("INSERT INTO up.orders (id, region, amount) VALUES (?, ?, ?)", row)

    @property
    def control(self) -> tuple[int, bool]:
        """Return the incarnation that serves, and whether an epoch is pinned."""
        control = read_control(self.session, STATE)
        return control.signature.incarnation, control.pinned


@pytest.fixture
def operator(cassandra_node: Node, tmp_path: Path) -> Iterator[Operator]:
    session = CassandraSession(
        ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    )
    session.define(
        "CREATE KEYSPACE up WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE up.orders (id int PRIMARY KEY, region text, amount int)")
    more = f'[capture]\ncdc_raw = "{cassandra_node.cdc_raw}"\n[spark]\nmaster = ""\n[http]\nport = 0\n'
    more += "[recording]\nenabled = false\n"
    text = settings(cassandra_node, state=STATE, published="up_views", more=more)
    found = Operator(tmp_path, text, seconds=SECONDS_MAX)
    found.session = session
    yield found
    found.close()
    found.tried("uninstall", "--yes")
    session.define("DROP KEYSPACE up")
    session.close()


def test_an_upgrade_keeps_the_state_or_says_what_to_do(operator: Operator) -> None:
    """Handed over to an upgraded standby under a writer; unfinished epochs and other state are refused, and mended."""
    operator.apply(VIEW)
    with writing(operator.write, pause=0.005):
        operator.start("old", "run")
        operator.shows_what_is_written("old")
        operator.start("new", "run", release=UPGRADED)
        operator.wait_said("new", "ready")
        operator.end_well("old")
        operator.wait_said("new", "leads")
        operator.shows_what_is_written("new")
        operator.end_well("new")
        assert operator.control == (1, False), "the same state goes on, and nothing is left half done"
        assert operator.tried("run", "--kill-at", "3").returncode == -signal.SIGKILL
        assert operator.control == (1, True)
        said = operator.refused(UPGRADED)
        assert "and not finished; cvs 9.9 may not run it; next: start what began it and end it" in said
        operator.start("again", "run")
        operator.wait_said("again", "leads")
        operator.end_well("again")
        said = operator.refused(OF_OTHER_STATE)
        assert "under another plan than cvs 9.9 has for these views; next: cvs rebuild --all" in said
        tables = operator.session.execute(TABLES)
        operator.cvs("rebuild", "--all", "--yes", release=OF_OTHER_STATE)
        operator.start("built", "run", release=OF_OTHER_STATE)
        operator.wait(lambda: operator.control[0] == 2, "the second incarnation to serve")
        operator.shows_what_is_written("built")
        operator.wait_said("built", "dropped what an older incarnation had")
    operator.cvs("verify", "--json")
    operator.end_well("built")
    assert len(operator.session.execute(TABLES)) == len(tables), "nothing of the first incarnation stays"
