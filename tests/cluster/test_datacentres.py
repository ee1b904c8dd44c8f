"""Two datacentres, captures and sidecar in one, as `docker/README.md` says: its nodes need no more."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.sidecar.settings import settings_from
from cvs.sidecar.views import cluster_address
from cvs.store.session import CassandraSession
from tests.cluster.operating import Deployment, settings

pytestmark = pytest.mark.cluster

VIEW = """
CREATE MATERIALIZED VIEW two_views.by_region AS
SELECT region, COUNT(*) AS orders FROM two.orders GROUP BY region"""
KEYSPACES = {"two": ("31", "32"), "two_state": ("31",), "two_views": ("31", "32")}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One node in each: to this snitch the second number of an address is the datacentre."""
    snitch = {"endpoint_snitch": "RackInferringSnitch"}
    with EmbeddedCluster(size=2, quick=True, addresses=["127.31.9.1", "127.32.9.2"], yaml=snitch) as found:
        yield found


@pytest.fixture
def operator(cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[Deployment]:
    text = settings(cluster.nodes[0], state="two_state", published="two_views", more='[spark]\nmaster = ""\n')
    local = 'local_datacenter = "31"\nserial_consistency = "LOCAL_SERIAL"\n[views]'
    found = Deployment(tmp_path, text.replace("[views]", local) + "[http]\nport = 0\n", seconds=60)
    yield found
    found.close()


def test_views_of_two_datacentres_are_kept_in_one(cluster: EmbeddedCluster, operator: Deployment) -> None:
    """A build waited for the clocks of nodes elsewhere, and state that `cvs apply` made refused LOCAL_SERIAL."""
    text = (operator.folder / "cvs.toml").read_text()
    session = CassandraSession(cluster_address(settings_from(text, {}, where="")))
    for name, places in KEYSPACES.items():
        copies = ", ".join(f"'{place}': 1" for place in places)
        session.define(
            f"CREATE KEYSPACE {name} WITH replication = {{'class': 'NetworkTopologyStrategy', {copies}}}"
        )
    session.define("CREATE TABLE two.orders (id int PRIMARY KEY, region text)")
    session.execute("INSERT INTO two.orders (id, region) VALUES (1, 'EU')")
    operator.apply(VIEW)
    here = cluster.nodes[0]
    operator.start("capture", "capture", "--node", here.address, "--port", str(here.native_port))
    operator.start("first", "run")
    shown = "SELECT orders FROM two_views.by_region WHERE region = 'EU'"
    operator.wait(lambda: session.execute(shown) == [(1,)], "what was there before to be shown")
    session.execute("INSERT INTO two.orders (id, region) VALUES (2, 'EU')")
    operator.wait(lambda: session.execute(shown) == [(2,)], "what is written to be shown")
    assert json.loads(operator.cvs("doctor", "--json"))["exit_code"] == 0
    operator.cvs("verify")
    operator.cvs("audit", "runs", "--expect", "strong")
    session.close()
