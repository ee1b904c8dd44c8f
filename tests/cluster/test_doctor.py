"""`cvs doctor` on real nodes: one set up for cvs, one as stock installations are, with passwords on."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import cvs.embedded.doctor
import cvs.store.doctor
from cvs.cli.doctor import registered_checks
from cvs.embedded.cluster import EmbeddedCluster
from cvs.embedded.cql import Client
from cvs.embedded.node import Node

PASSWORD = "not-to-be-seen-anywhere"  # a word to look for in everything that is printed


def doctor(address: str, port: int = 9042, **more: str) -> tuple[int, dict[str, Any], str]:
    environment = {**os.environ, "CVS_CLUSTER_CONTACT_POINTS": address, "CVS_CLUSTER_PORT": str(port), **more}
    done = subprocess.run(
        [sys.executable, "-m", "cvs", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    return done.returncode, json.loads(done.stdout)["result"], done.stdout + done.stderr


def graded(result: dict[str, Any]) -> dict[str, str]:
    return {finding["about"]: finding["grade"] for finding in result["findings"]}


def test_rooms_register_checks() -> None:
    found = set(registered_checks())
    assert {*cvs.embedded.doctor.CHECKS, *cvs.store.doctor.CHECKS} <= found


def test_an_unreachable_cluster_is_a_problem_and_the_machine_is_still_checked() -> None:
    code, result, _ = doctor("127.0.0.1", port=1)
    assert code == 1
    assert graded(result)["cluster"] == "problem"
    assert graded(result)["java"] == "ok"
    assert result["expect"] == []


@pytest.mark.cluster
def test_a_node_of_ours_is_healthy(cassandra_node: Node) -> None:
    code, result, _ = doctor(cassandra_node.address)
    assert code == 0, result
    wanted = ("cluster", "version", "paxos", "clocks", "commit log", "commit log sync")
    assert {k: v for k, v in graded(result).items() if k in wanted} == {
        "commit log": "ok",
        "commit log sync": "ok",
        "cluster": "ok",
        "version": "ok",
        "paxos": "ok",
        "clocks": "ok",
    }
    assert graded(result)["permissions"] == "advice"


@pytest.fixture(scope="module")
def stock_node() -> Iterator[Node]:
    stock = {"cdc_enabled": False, "paxos_variant": "v1", "paxos_state_purging": "legacy"}
    with EmbeddedCluster(
        size=1, quick=True, paxos_variant="v1", commitlog_sync="periodic", authentication=True, yaml=stock
    ) as c:
        yield c.nodes[0]


@pytest.mark.cluster
def test_a_stock_node_is_told_what_to_mend(stock_node: Node) -> None:
    with Client(
        [stock_node.address], stock_node.native_port, credentials=("cassandra", "cassandra")
    ) as client:
        client.run(f"CREATE ROLE poor WITH PASSWORD = '{PASSWORD}' AND LOGIN = true", consistency="ONE")
    code, result, said = doctor(
        stock_node.address, CVS_CLUSTER_USERNAME="poor", CVS_CLUSTER_PASSWORD=PASSWORD
    )
    assert code == 1
    assert PASSWORD not in said
    assert graded(result)["paxos"] in ("advice", "not checked")
    lacks = next(f for f in result["findings"] if f["about"] == "permissions")
    assert lacks["grade"] == "problem", lacks
    assert "GRANT MODIFY ON KEYSPACE cvs_views TO poor" in lacks["mend"]

    code, result, said = doctor(
        stock_node.address, CVS_CLUSTER_USERNAME="cassandra", CVS_CLUSTER_PASSWORD="cassandra"
    )
    assert code == 1, result
    assert [f["about"] for f in result["findings"] if f["grade"] == "problem"] == ["commit log"]
    assert graded(result)["permissions"] == "ok"
    assert next(f for f in result["findings"] if f["about"] == "paxos")["restart"] is True
    expected = "\n".join(result["expect"])
    assert "none from the commit log" in expected
    assert "up to 10 s after its write" in expected


@pytest.mark.cluster
def test_a_wrong_password_is_a_problem_and_is_not_printed(stock_node: Node) -> None:
    code, result, said = doctor(
        stock_node.address, CVS_CLUSTER_USERNAME="cassandra", CVS_CLUSTER_PASSWORD=PASSWORD
    )
    assert code == 1
    assert graded(result)["cluster"] == "problem"
    assert PASSWORD not in said
