"""`cvs node` as its user meets it: start, use, stop; and what an interrupted start leaves behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cvs.embedded import service
from cvs.embedded.processes import ProcessId

pytestmark = pytest.mark.cluster


def cvs_node(*words: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "cvs", "node", *words, "--json"], capture_output=True, text=True, check=False
    )
    body = json.loads(done.stdout)
    return done.returncode, body.get("result", body.get("error"))


def test_a_node_is_started_used_stopped_and_keeps_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    place = ("--dir", tmp_path.name)  # as people write it; the node itself needs the whole path
    try:
        code, started = cvs_node("start", "--own-addresses", *place)
        assert code == 0, started
        assert [node["state"] for node in cvs_node("status", *place)[1]["nodes"]] == ["ready"]
        assert cvs_node("cql", "SELECT release_version FROM system.local", *place) == (
            0,
            [{"release_version": "5.0.8"}],
        )
        code, refused = cvs_node("cql", "SELECTT", *place)
        assert code == 2
        assert "no viable alternative" in refused["what"]
        assert cvs_node("start", *place)[0] == 5
        assert cvs_node("stop", *place) == (0, {"dir": str(tmp_path), "stopped": 1})
        code, stopped = cvs_node("status", *place)
        assert (code, stopped["nodes"][0]["state"]) == (1, "stopped")
        assert cvs_node("cql", "SELECT 1", *place)[0] == 5
    finally:
        service.stop(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_ends_what_it_started(tmp_path: Path, number: int) -> None:
    start = subprocess.Popen(
        [sys.executable, "-m", "cvs", "node", "start", "--own-addresses", "--dir", str(tmp_path)],
        stderr=subprocess.PIPE,
    )
    file = tmp_path / "node1" / "pid"
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    identity = ProcessId.read(file)
    assert identity is not None
    start.send_signal(number)
    start.communicate(timeout=30)
    assert start.returncode == 130
    assert identity.wait_end(5)
    assert not file.exists()


def test_a_node_whose_starter_was_killed_is_still_in_hand(tmp_path: Path) -> None:
    """kill -9 of `cvs node start` itself: the node is not lost, `stop` finds and ends it."""
    start = subprocess.Popen(
        [sys.executable, "-m", "cvs", "node", "start", "--own-addresses", "--dir", str(tmp_path)],
        stderr=subprocess.PIPE,
    )
    file = tmp_path / "node1" / "pid"
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    start.kill()
    start.communicate()
    identity = ProcessId.read(file)
    assert identity is not None
    assert service.stop(tmp_path) == 1
    assert not identity.alive
