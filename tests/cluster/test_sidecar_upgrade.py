"""An upgrade of cvs on a real node: state is kept where it means the same, and each refusal says what to do.

The other release is this one with another version number (and, once, another format of state): what it may go on with
is decided by those.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cvs.client.control import read_control
from cvs.embedded.node import Node
from cvs.embedded.processes import end_with_owner
from cvs.store.session import CassandraSession, ClusterAddress

pytestmark = pytest.mark.cluster

VIEW = """
CREATE MATERIALIZED VIEW up_views.by_region TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.buckets' = '2')
AS SELECT region, COUNT(*) AS orders, SUM(amount) AS turnover FROM up.orders GROUP BY region;
"""
STATE = "up_state"
SECONDS_MAX = 90
NOW = "from cvs.cli import main; main()"
UPGRADED = f"import cvs.version; cvs.version.VERSION = '9.9'; {NOW}"
OF_OTHER_STATE = f"import cvs.stream.recipe; cvs.stream.recipe.STATE_FORMAT = -1; {UPGRADED}"


class Operator:
    """A folder with settings, and what is run in it."""

    def __init__(self, folder: Path, session: CassandraSession) -> None:
        self.folder, self.session = folder, session
        self.running: list[subprocess.Popen[bytes]] = []

    def cvs(self, *arguments: str, release: str = NOW) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", release, *arguments]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120
        )

    def start(self, name: str, *arguments: str, release: str = NOW) -> "subprocess.Popen[bytes]":
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", release, "run", *arguments],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_owner,
            )
        self.running.append(process)
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def wait(self, condition: Callable[[], bool], name: str) -> None:
        end = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < end, self.log(name).read_text()[-3000:]
            time.sleep(0.1)

    def wait_said(self, name: str, event: str) -> None:
        self.wait(lambda: f'"{event}"' in self.log(name).read_text(), name)

    def ends(self, process: "subprocess.Popen[bytes]", name: str) -> None:
        """Ask it to end, as a service manager does."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, self.log(name).read_text()[-3000:]

    def refused(self, name: str, release: str) -> str:
        """Start a release that may not go on; return what it says."""
        assert self.start(name, release=release).wait(60) == 5, self.log(name).read_text()[-3000:]
        last = json.loads(self.log(name).read_text().splitlines()[-1])
        return f"{last['event']}; next: {last['next']}"

    def shows_what_is_written(self, name: str) -> None:
        """Write something new and see it in the view."""
        self.session.execute("INSERT INTO up.orders (id, region, amount) VALUES (9, ?, 1)", (name,))
        shown = "SELECT orders FROM up_views.by_region WHERE region = ?"
        self.wait(lambda: bool(self.session.execute(shown, (name,))), name)

    @property
    def control(self) -> tuple[int, bool]:
        """Return the incarnation that serves, and whether an epoch is pinned."""
        control = read_control(self.session, STATE)
        return control.signature.incarnation, control.pinned


@pytest.fixture
def operator(cassandra_node: Node, tmp_path: Path) -> Iterator[Operator]:
    address = ClusterAddress(contact_points=(cassandra_node.address,), port=cassandra_node.native_port)
    session = CassandraSession(address)
    session.define(
        "CREATE KEYSPACE up WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.define("CREATE TABLE up.orders (id int PRIMARY KEY, region text, amount int)")
    (tmp_path / "views.sql").write_text(VIEW)
    (tmp_path / "cvs.toml").write_text(
        f'[cluster]\ncontact_points = ["{cassandra_node.address}"]\nport = {cassandra_node.native_port}\n'
        f'[views]\nstate_keyspace = "{STATE}"\npublished_keyspace = "up_views"\n'
        f'[capture]\ncdc_raw = "{cassandra_node.cdc_raw}"\n[spark]\nmaster = ""\n[http]\nport = 0\n'
        "[recording]\nenabled = false\n"
    )
    found = Operator(tmp_path, session)
    yield found
    for process in found.running:
        process.kill()
        process.wait()
    found.cvs("uninstall", "--yes")
    session.define("DROP KEYSPACE up")
    session.close()


@contextmanager
def writing(session: CassandraSession) -> Iterator[None]:
    """A writer that goes on meanwhile, so that there is always an epoch to be in the middle of."""
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.wait(0.005):
            number += 1
            row = (10 + number % 50, f"r{number % 7}", number)
            session.execute("INSERT INTO up.orders (id, region, amount) VALUES (?, ?, ?)", row)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_an_upgrade_keeps_the_state_or_says_what_to_do(operator: Operator) -> None:
    """Handed over to an upgraded standby under a writer; unfinished epochs and other state are refused, and mended."""
    assert operator.cvs("apply", "views.sql", "--yes").returncode == 0
    with writing(operator.session):
        old = operator.start("old")
        operator.shows_what_is_written("old")
        new = operator.start("new", release=UPGRADED)
        operator.wait_said("new", "ready")
        operator.ends(old, "old")
        operator.wait_said("new", "leads")
        operator.shows_what_is_written("new")
        operator.ends(new, "new")
        assert operator.control == (1, False), "the same state goes on, and nothing is left half done"
        assert operator.start("killed", "--kill-at", "3").wait(60) == -signal.SIGKILL
        assert operator.control == (1, True)
        said = operator.refused("unfinished", UPGRADED)
        assert "and not finished; cvs 9.9 may not run it; next: start what began it and end it" in said
        again = operator.start("again")
        operator.wait_said("again", "leads")
        operator.ends(again, "again")
        said = operator.refused("other", OF_OTHER_STATE)
        assert "under another plan than cvs 9.9 has for these views; next: cvs rebuild --all" in said
        tables = operator.session.execute(
            f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{STATE}'"
        )
        assert operator.cvs("rebuild", "--all", "--yes", release=OF_OTHER_STATE).returncode == 0
        built = operator.start("built", release=OF_OTHER_STATE)
        operator.wait(lambda: operator.control[0] == 2, "built")
        operator.shows_what_is_written("built")
        operator.wait_said("built", "dropped what an older incarnation had")
    verified = operator.cvs("verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    operator.ends(built, "built")
    left = operator.session.execute(
        f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{STATE}'"
    )
    assert len(left) == len(tables), "nothing of the first incarnation stays"
