"""What a cluster can do follows from its settings; the worst node decides."""

import pytest

from cvs.store.doctor import _replication_finding, _serial_finding, _version_finding
from cvs.store.examination import Grade
from cvs.store.expectation import expectation, milliseconds

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
    assert "none from the commit log" in text
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
    assert _serial_finding("LOCAL_SERIAL", {"a", "b"}).grade is Grade.ADVICE
    assert _serial_finding("LOCAL_SERIAL", {"a"}).grade is Grade.GOOD
    assert _serial_finding("SERIAL", {"a", "b"}).grade is Grade.GOOD
