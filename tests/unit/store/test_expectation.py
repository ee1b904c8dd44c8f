"""What a cluster can do follows from its settings; the worst node decides."""

import pytest

from cvs.store.doctor import _replication_finding, _serial_finding, _version_finding
from cvs.store.examination import Grade
from cvs.store.expectation import expectation, milliseconds
from cvs.store.session import ClusterAddress

STOCK = {
    "cdc_enabled": "false",
    "paxos_variant": "v1",
    "commitlog_sync": "periodic",
    "commitlog_sync_period": "10s",
}
OURS = {
    "cdc_enabled": "true",
    "cdc_block_writes": "true",
    "paxos_variant": "v2",
    "commitlog_sync": "group",
    "commitlog_sync_group_window": "10ms",
}


def test_a_stock_cluster_is_told_what_it_cannot_do() -> None:
    text = "\n".join(expectation([STOCK]))
    assert ("none from the commit log" in text, "`cvs apply` refuses" in text) == (True, True)
    assert "up to 10 s after its write" in text
    assert "Paxos v1" in text
    assert "changing cdc_enabled: true, paxos_variant: v2, commitlog_sync in cassandra.yaml" in text


def test_our_own_cluster_wants_nothing() -> None:
    text = "\n".join(expectation([OURS]))
    assert "within about 10 ms" in text
    assert "no setting that cvs would like changed" in text


def test_one_bad_node_decides() -> None:
    assert expectation([OURS, STOCK]) == expectation([STOCK])
    assert "drops changes" in expectation([{**OURS, "cdc_block_writes": "false"}])[0]
    assert expectation([]) == []


@pytest.mark.parametrize(("text", "ms"), [("10ms", 10), ("10s", 10_000), ("2m", 120_000), ("250", 250)])
def test_durations_are_read_as_cassandra_writes_them(text: str, ms: float) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize(
    ("found", "grade"),
    [
        (["5.0.8"], Grade.GOOD),
        (["4.1.3"], Grade.GOOD),
        (["3.11.14"], Grade.PROBLEM),
        (["6.0-alpha1"], Grade.ADVICE),
        (["5.0.7", "5.0.8"], Grade.PROBLEM),
    ],
)
def test_versions_are_graded(found: list[str], grade: Grade) -> None:
    assert _version_finding(found, 3).grade is grade


class Strategy:
    """Stands for the driver's strategies, of which only the words of the schema are used."""

    def __init__(self, words: str) -> None:
        self.words = words

    def export_for_schema(self) -> str:
        return self.words


@pytest.mark.parametrize(
    ("words", "nodes", "grade"),
    [
        ("{'class': 'SimpleStrategy', 'replication_factor': '1'}", 1, Grade.GOOD),
        ("{'class': 'SimpleStrategy', 'replication_factor': '3'}", 3, Grade.GOOD),
        ("{'class': 'SimpleStrategy', 'replication_factor': '3'}", 1, Grade.PROBLEM),
        ("{'class': 'NetworkTopologyStrategy', 'a': '1', 'b': '1'}", 6, Grade.ADVICE),
        ("{'class': 'NetworkTopologyStrategy', 'a': '3', 'b': '3'}", 6, Grade.GOOD),
    ],
)
def test_replication_is_graded_against_the_nodes(words: str, nodes: int, grade: Grade) -> None:
    assert _replication_finding("k", Strategy(words), nodes).grade is grade


def test_local_serial_over_two_datacentres_is_advised_against() -> None:
    """Unless one of them is named: then nobody of ours asks the others."""

    def grade(serial: str, *datacentres: str, local: str = "") -> Grade:
        address = ClusterAddress(contact_points=("a",), serial_consistency=serial, local_datacenter=local)
        return _serial_finding(address, {*datacentres}).grade

    assert grade("LOCAL_SERIAL", "a", "b") is Grade.ADVICE
    assert grade("LOCAL_SERIAL", "a", "b", local="a") is Grade.GOOD
    assert grade("LOCAL_SERIAL", "a") is Grade.GOOD
    assert grade("SERIAL", "a", "b") is Grade.GOOD


def test_the_name_of_a_datacentre_is_no_number_of_copies() -> None:
    """Snitches that look at addresses name them 31 and 32: one copy in each was told to be 65."""
    strategy = Strategy("{'class': 'NetworkTopologyStrategy', '31': '3', '32': '3'}")
    found = _replication_finding("cvs", strategy, 6)
    assert (found.grade, found.found) == (Grade.GOOD, "6 copies on 6 nodes")
