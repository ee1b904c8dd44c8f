"""Owned processes die with their owner however it goes, and a pid file never hits a stranger."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cvs.embedded.processes import ProcessId, RunningProcess

OWNER = """
import sys, time
from pathlib import Path
from cvs.embedded.processes import RunningProcess
owned = RunningProcess.owned(["sleep", "600"], output=Path(sys.argv[1]))
print(owned.identity.pid, owned.starter.pid, flush=True)
time.sleep(600)
"""


def started_by_an_owner(folder: Path) -> tuple["subprocess.Popen[str]", ProcessId, ProcessId]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder / "out")], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    child, guard = (ProcessId.of(int(pid)) for pid in owner.stdout.readline().split())
    assert child is not None
    assert guard is not None
    return owner, child, guard


def test_a_killed_owner_takes_its_process_along(tmp_path: Path) -> None:
    owner, child, guard = started_by_an_owner(tmp_path)
    assert child.alive
    owner.kill()
    owner.communicate()
    assert child.wait_end(10)
    assert guard.wait_end(10)


def test_a_process_that_was_started_to_end_with_its_owner_does(tmp_path: Path) -> None:
    """As sidecars that tests and the demonstration start, which are no owned processes: they need exit codes."""
    script = (
        "import subprocess, time; from cvs.embedded.processes import end_with_owner\n"
        "print(subprocess.Popen(['sleep', '600'], preexec_fn=end_with_owner).pid, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    child = ProcessId.of(int(owner.stdout.readline()))
    assert child is not None
    owner.kill()
    owner.communicate()
    assert child.wait_end(10)


def test_a_killed_owner_leaves_no_folder_behind_an_ended_process_does(tmp_path: Path) -> None:
    """What a killed test run would leave in memory for good; a node that merely ends keeps its data."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    kept = RunningProcess.owned(["sleep", "600"], output=tmp_path / "out", scratch=scratch)
    kept.kill()
    assert scratch.is_dir()
    script = OWNER.replace("output=Path(sys.argv[1])", "output=Path(sys.argv[1]), scratch=Path(sys.argv[2])")
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "out"), str(scratch)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    guard = ProcessId.of(int(owner.stdout.readline().split()[1]))
    owner.kill()
    owner.communicate()
    assert guard is not None
    assert guard.wait_end(10)
    assert not scratch.exists()


def test_a_killed_guard_takes_its_process_along(tmp_path: Path) -> None:
    owner, child, guard = started_by_an_owner(tmp_path)
    guard.send(signal.SIGKILL)
    assert child.wait_end(10)
    owner.kill()
    owner.communicate()


def test_a_forked_child_of_the_owner_does_not_keep_it_alive(tmp_path: Path) -> None:
    script = OWNER.replace("time.sleep(600)\n", "import os\nos.fork()\ntime.sleep(5)\n")
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    child = ProcessId.of(int(owner.stdout.readline().split()[0]))
    assert child is not None
    owner.kill()
    assert child.wait_end(4), "the guard must notice although the fork holds its pipe"
    owner.communicate()


def test_kill_and_end_leave_no_guard(tmp_path: Path) -> None:
    for stop in (RunningProcess.kill, RunningProcess.end):
        owned = RunningProcess.owned(["sleep", "600"], output=tmp_path / "out")
        assert owned.alive
        stop(owned)
        assert not owned.alive
        assert owned.starter is not None
        assert owned.starter.returncode is not None


def test_the_output_of_a_process_is_kept(tmp_path: Path) -> None:
    owned = RunningProcess.owned(["sh", "-c", "echo said; echo also >&2"], output=tmp_path / "out")
    owned.identity.wait_end(10)
    owned.kill()
    assert (tmp_path / "out").read_text() == "said\nalso\n"


def test_a_pid_that_belongs_to_somebody_else_now_is_not_hit(tmp_path: Path) -> None:
    """A pid file with our pid and another start time stands for a process that is gone."""
    file = tmp_path / "pid"
    ProcessId(pid=os.getpid(), started="another boot/1").write(file)
    stale = ProcessId.read(file)
    assert stale is not None
    assert not stale.alive
    assert not stale.send(signal.SIGTERM)
    time.sleep(0.05)  # the signal would have ended this very test


def test_a_pid_file_round_trips_and_garbage_is_none(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    mine = ProcessId.of(os.getpid())
    assert mine is not None
    mine.write(file)
    assert ProcessId.read(file) == mine
    file.write_text("not a pid")
    assert ProcessId.read(file) is None
