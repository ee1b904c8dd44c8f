"""What can be wrong before a node starts: each is one message with the exit code of the environment."""

import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from cvs.cli import run
from cvs.embedded import service
from cvs.embedded.namespaces import namespaces_work
from cvs.embedded.processes import ProcessId
from cvs.errors import ExitCode

SLEEPER = ["sleep", "60"]


@dataclass(frozen=True)
class Done:
    returncode: int
    stderr: str


class Ran(Protocol):
    def __call__(self, *words: str, **environment: str) -> Done: ...


@pytest.fixture
def cvs_node(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Run the command in this process, because another one would first import for half a second."""

    def ran(*words: str, **environment: str) -> Done:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return Done(run(["node", *words]), capsys.readouterr().err)

    return ran


@pytest.fixture
def taken_port() -> Iterator[tuple[str, int]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IEXEC)
    return folder


@pytest.mark.parametrize(("version", "age"), [("11.0.2", "old"), ("1.8.0_392", "old"), ("21.0.1", "new")])
def test_another_java_is_refused(cvs_node: Ran, tmp_path: Path, version: str, age: str) -> None:
    home = fake_java(tmp_path, version)
    done = cvs_node("start", "--dir", str(tmp_path / "n"), JAVA_HOME=str(home))
    assert done.returncode == ExitCode.ENVIRONMENT
    assert f"is too {age}" in done.stderr
    assert "next:  install a Java 17" in done.stderr


def test_missing_java_is_said(cvs_node: Ran, tmp_path: Path) -> None:
    done = cvs_node("start", "--dir", str(tmp_path / "n"), JAVA_HOME="", PATH=str(tmp_path))
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "Java is not here" in done.stderr


def test_a_taken_port_is_named(cvs_node: Ran, tmp_path: Path, taken_port: tuple[str, int]) -> None:
    address, port = taken_port
    done = cvs_node("start", "--dir", str(tmp_path), "--port", str(port))
    assert done.returncode == ExitCode.ENVIRONMENT
    assert f"port {port} is taken" in done.stderr
    assert f"{address}:{port}" in done.stderr
    assert "--own-addresses" in done.stderr
    assert not (tmp_path / "cluster.json").exists()


@pytest.mark.skipif(not namespaces_work(), reason="needs root to mount a small disk")
def test_a_full_disk_is_said_before_anything_starts(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=50m small "{tmp_path}" && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "cvs", "node", "start"]
    done = subprocess.run(
        [*command, "--own-addresses", "--dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "the disk is full: 50 MiB are free" in done.stderr


def test_a_file_where_the_folder_should_be_is_said(cvs_node: Ran, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cvs_node("start", "--dir", str(tmp_path / "file" / "n"))
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "the folder cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--heap", "lots"), "lots is not a heap size"), (("--nodes", "0"), "Invalid value for '--nodes'")],
)
def test_wrong_options_are_usage_errors(
    cvs_node: Ran, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = cvs_node("start", "--dir", str(tmp_path), *words)
    assert done.returncode == ExitCode.USAGE
    assert message in done.stderr


def folder_of_one_node(folder: Path) -> Path:
    layout = service.Layout(addresses=("127.0.0.1",), native_port=9042, heap="512M")
    (folder / "node1").mkdir()
    (folder / "cluster.json").write_bytes(msgspec.json.encode(layout))
    return folder / "node1" / "pid"


def test_a_folder_that_is_there_keeps_its_heap_unless_another_is_asked_for(tmp_path: Path) -> None:
    """Data that were kept with a gigabyte came back with the half of it."""
    layout = service.Layout(addresses=("127.0.0.1",), native_port=9050, heap="1G")
    (tmp_path / "cluster.json").write_bytes(msgspec.json.encode(layout))

    def laid_out(folder: Path, heap: str | None) -> service.Layout:
        return service._layout(folder, nodes=None, heap=heap, native_port=9042, own_addresses=False)

    assert laid_out(tmp_path, None) == layout
    assert laid_out(tmp_path, "700M").heap == "700M"
    assert laid_out(tmp_path / "new", None).heap == service.HEAP


def test_a_stale_pid_of_somebody_else_is_not_killed(tmp_path: Path) -> None:
    """The number in the pid file belongs to another process by now: shown as stopped, never signalled."""
    stranger = subprocess.Popen(SLEEPER)
    try:
        ProcessId(pid=stranger.pid, started="an earlier boot/77").write(folder_of_one_node(tmp_path))
        assert [state.state for state in service.status(tmp_path)] == ["stopped"]
        assert service.stop(tmp_path) == 0
        assert stranger.poll() is None
        assert not (tmp_path / "node1" / "pid").exists()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_second_start_in_the_same_folder_is_refused(cvs_node: Ran, tmp_path: Path) -> None:
    first = subprocess.Popen(SLEEPER)
    try:
        identity = ProcessId.of(first.pid)
        assert identity is not None
        identity.write(folder_of_one_node(tmp_path))
        done = cvs_node("start", "--dir", str(tmp_path))
        assert done.returncode == ExitCode.ENVIRONMENT
        assert "run already" in done.stderr
        assert f"cvs node stop --dir {tmp_path}" in done.stderr
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()


def test_the_number_of_nodes_of_a_folder_stays(cvs_node: Ran, tmp_path: Path) -> None:
    folder_of_one_node(tmp_path)
    done = cvs_node("start", "--dir", str(tmp_path), "--nodes", "3")
    assert done.returncode == ExitCode.USAGE
    assert "holds a cluster of 1 node(s), not 3" in done.stderr


def test_nothing_started_is_unhealthy_and_has_no_logs(cvs_node: Ran, tmp_path: Path) -> None:
    assert cvs_node("status", "--dir", str(tmp_path)).returncode == ExitCode.VIOLATED
    assert cvs_node("logs", "--dir", str(tmp_path)).returncode == ExitCode.USAGE
    assert cvs_node("cql", "SELECT 1", "--dir", str(tmp_path)).returncode == ExitCode.USAGE
    assert cvs_node("stop", "--dir", str(tmp_path)).returncode == ExitCode.MET


def test_of_a_folder_only_nodes_that_do_not_run_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who had killed one node of three could not start it again without stopping the others."""
    layout = service.Layout(addresses=("127.9.9.1", "127.9.9.2", "127.9.9.3"), native_port=9042, heap="512M")
    (tmp_path / "cluster.json").write_bytes(msgspec.json.encode(layout))
    sleepers = [subprocess.Popen(SLEEPER) for _ in range(2)]
    brought: list[list[bool]] = []
    monkeypatch.setattr(
        service, "_bring_up", lambda cluster, _say: brought.append([node.running for node in cluster.nodes])
    )
    monkeypatch.setattr(service, "jars", lambda *_, **__: [])
    try:
        for number, sleeper in enumerate(sleepers, start=1):
            identity = ProcessId.of(sleeper.pid)
            assert identity is not None
            (tmp_path / f"node{number}").mkdir()
            identity.write(tmp_path / f"node{number}" / "pid")
        service.start(tmp_path, nodes=None, heap=None, native_port=9042, own_addresses=False)
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    assert brought == [[True, True, False]]
