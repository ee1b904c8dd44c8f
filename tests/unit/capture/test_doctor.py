"""What `cvs doctor` says of nodes whose log cannot be captured rightly, and of a cdc_raw that fills up."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cvs.capture import doctor
from cvs.store.examination import Examined, Finding, Grade
from cvs.store.session import ClusterAddress

GOOD = {
    "cdc_enabled": "true",
    "cdc_block_writes": "true",
    "cdc_on_repair_enabled": "true",
    "cdc_total_space": "4096MiB",
    "commitlog_sync": "group",
    "commitlog_disk_access_mode": "mmap",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def findings(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    tables: Any = (("shop", "orders", True),),
    **changed: str,
) -> dict[str, Finding]:
    """Examine two nodes, the second with changed settings."""
    nodes = [GOOD | {"cdc_raw_directory": str(folder)} for _ in range(2)]
    nodes[1] |= changed
    monkeypatch.setattr(doctor, "settings_of_nodes", lambda _: nodes)
    session = SimpleNamespace(execute=lambda _: tables)
    examined = Examined(
        address=ClusterAddress(contact_points=("127.0.0.1",)),
        session=cast("Any", session),
        state_keyspace="s",
        published_keyspace="p",
    )
    return {finding.about: finding for check in doctor.CHECKS for finding in check(examined)}


def test_nodes_set_up_for_capture_are_well(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    found = findings(monkeypatch, folder)
    assert {finding.grade for finding in found.values()} == {Grade.GOOD}
    assert "shop.orders" in found["captured tables"].found
    assert "without Java" in found["commit log"].found


@pytest.mark.parametrize(
    ("about", "grade", "changed", "said"),
    [
        ("commit log", Grade.PROBLEM, {"cdc_enabled": "false"}, "cdc_enabled is false on 1 of 2"),
        ("commit log", Grade.PROBLEM, {"commitlog_compression.class_name": "LZ4Compressor"}, "compressed"),
        ("commit log", Grade.PROBLEM, {"transparent_data_encryption_options.enabled": "true"}, "encrypted"),
        ("commit log", Grade.PROBLEM, {"commitlog_disk_access_mode": "direct"}, "direct"),
        ("commit log", Grade.PROBLEM, {"commitlog_disk_access_mode": "auto"}, "is auto"),
        ("commit log sync", Grade.ADVICE, {"commitlog_sync": "periodic"}, "10000ms"),
        ("cdc_block_writes", Grade.ADVICE, {"cdc_block_writes": "false"}, "loses changes"),
        ("cdc_on_repair_enabled", Grade.PROBLEM, {"cdc_on_repair_enabled": "false"}, "never captured"),
    ],
)
def test_a_setting_that_is_wrong_on_one_node_is_said(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    about: str,
    grade: Grade,
    changed: dict[str, str],
    said: str,
) -> None:
    finding = findings(monkeypatch, folder, **changed)[about]
    assert (finding.grade, finding.restart) == (grade, True)
    assert said in finding.found
    assert finding.mend


def test_a_folder_that_fills_up_is_a_problem_before_it_is_full(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "CommitLog-7-1.log").write_bytes(bytes(800_000))
    about = f"cdc_raw of {folder.parent}"
    assert findings(monkeypatch, folder)[about].grade is Grade.GOOD
    full = findings(monkeypatch, folder, cdc_total_space="1MiB")[about]
    assert (full.grade, "76% full" in full.found, "refuses writes" in full.found) == (
        Grade.PROBLEM,
        True,
        True,
    )
    drops = findings(monkeypatch, folder, cdc_total_space="1MiB", cdc_block_writes="false")[about]
    assert "every view must be rebuilt" in drops.found


def test_a_folder_elsewhere_is_not_checked_and_no_table_is_advice(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    found = findings(
        monkeypatch, folder, tables=(("system", "local", True),), cdc_raw_directory="/nowhere/cdc_raw"
    )
    assert found["cdc_raw of /nowhere"].grade is Grade.UNKNOWN
    assert found["captured tables"].grade is Grade.ADVICE
