"""A running node's disk fills up: what clients are told is true, and with space and a restart all goes on."""

import time
from collections.abc import Iterator

import pytest

from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.namespaces import namespaces_work
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import UNTOUCHED, Signature
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession, ClusterAddress

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not namespaces_work(), reason="needs root to mount a small disk"),
]

DISK = "160m"  # room for a fresh node and a few commit-log segments
BODY = {"text": "x" * 60_000}
GIVE_UP_S = 40.0
PLACE = PartitionId(table="t", key=("only",))


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    # segments are allocated ahead: small ones, and few, so that the disk is what runs out
    small = {"commitlog_segment_size": "1MiB", "commitlog_total_space": "16MiB", "cdc_total_space": "8MiB"}
    with EmbeddedCluster(size=1, quick=True, disk_size=DISK, cdc=False, yaml=small) as cluster:
        yield cluster


def test_outcomes_stay_true_while_the_disk_is_full(cluster: EmbeddedCluster) -> None:
    """What was applied is there, what was refused is not, and what nobody knew is settled by one's signature."""
    (node,) = cluster.nodes
    address = ClusterAddress(contact_points=cluster.contact_points, request_timeout_s=2.0)
    session = CassandraSession(address)
    session.define(
        "CREATE KEYSPACE disk_full WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    store = CassandraStore(session, keyspace="disk_full")
    store.create("t")
    first = TestAndSet(partition=PLACE, expected=None, new=UNTOUCHED)
    assert store.test_and_set(first).kind is OutcomeKind.APPLIED

    node.fill_disk()
    assert node.disk is not None
    assert node.disk.free_bytes == 0
    version, heard = fill(store)
    print(heard)
    assert heard[-1] in (OutcomeKind.UNKNOWN, OutcomeKind.NOT_SENT), heard
    session.close()

    node.free_disk()
    assert node.disk.free_bytes > 0
    node.restart()
    session = CassandraSession(address)
    store = CassandraStore(session, keyspace="disk_full")
    found = store.read(PLACE, serial=True)
    assert found.signature is not None
    assert found.signature.version in (version, version + 1), "only the last one may be either way"
    assert {key[0] for key in found.rows} == set(range(1, found.signature.version + 1))
    assert put(store, found.signature) is OutcomeKind.APPLIED
    session.close()


def put(store: CassandraStore, before: Signature) -> OutcomeKind:
    new = Signature(version=before.version + 1)
    request = TestAndSet(partition=PLACE, expected=before, new=new, puts=(((new.version,), BODY),))
    return store.test_and_set(request).kind


def fill(store: CassandraStore) -> tuple[int, list[OutcomeKind]]:
    """Write until an outcome is not *applied*; return the last version known to be in, and what was heard."""
    signature, heard = UNTOUCHED, []
    deadline = time.monotonic() + GIVE_UP_S
    while not heard or heard[-1] is OutcomeKind.APPLIED:
        assert time.monotonic() < deadline, "the disk is full and everything is applied?"
        heard.append(put(store, signature))
        if heard[-1] is OutcomeKind.APPLIED:
            signature = Signature(version=signature.version + 1)
    return signature.version, heard
