"""What a node is told follows from its place and settings alone."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from cvs.embedded.configuration import NodeSettings, Place, initial_token, jvm_flags, node_yaml

PLACE = Place(
    number=2,
    cluster_size=3,
    address="127.1.2.2",
    seeds=("127.1.2.1", "127.1.2.2"),
    management_port=12345,
    folder=Path("/somewhere/node2"),
)


def test_the_yaml_has_what_cvs_needs() -> None:
    content = json.loads(node_yaml(PLACE, NodeSettings(), "c"))
    assert content["paxos_variant"] == "v2"
    assert content["paxos_state_purging"] == "repaired"
    assert content["cdc_enabled"] is True
    assert content["cdc_raw_directory"] == "/somewhere/node2/storage/cdc_raw"
    assert content["rpc_address"] == "127.1.2.2"


def test_a_caller_can_override_any_yaml_key() -> None:
    content = json.loads(node_yaml(PLACE, NodeSettings(yaml={"cdc_enabled": False}, paxos_variant="v1"), "c"))
    assert (content["cdc_enabled"], content["paxos_variant"], content["paxos_state_purging"]) == (
        False,
        "v1",
        "legacy",
    )


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_tokens_share_the_ring_evenly(nodes: int) -> None:
    tokens = [initial_token(number, nodes) for number in range(1, nodes + 1)]
    assert all(-(2**63) < token < 2**63 for token in tokens)
    assert {b - a for a, b in pairwise(tokens)} <= {2**64 // nodes}


def test_the_heap_is_the_one_asked_for() -> None:
    flags = jvm_flags(PLACE, NodeSettings(heap="300M", jvm=("-Dx=y",)), Path("/jamm.jar"))
    assert "-Xmx300M" in flags
    assert "-XX:TieredStopAtLevel=1" not in flags
    assert "-XX:TieredStopAtLevel=1" in jvm_flags(PLACE, NodeSettings(quick=True), Path("/jamm.jar"))
    assert flags[-1] == "-Dx=y"
    assert "-Dcassandra.jmx.local.port=12345" in flags
