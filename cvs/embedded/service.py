"""Nodes in the background, kept in a folder: what `cvs node` starts, shows and stops.

The folder is the whole truth: `cluster.json` says which nodes belong to it, `node<n>/pid` which process each
is. A pid file names the process's start too, so a pid that somebody else has by now is never touched.
"""

import fcntl
import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cvs.embedded.artifacts import Progress, jars
from cvs.embedded.cluster import EmbeddedCluster, free_addresses, port_free
from cvs.embedded.configuration import STORAGE_PORT
from cvs.embedded.java import java
from cvs.embedded.node import port_open
from cvs.embedded.processes import ProcessId, RunningProcess
from cvs.errors import MissingEnvironmentError, SpecificationError

FREE_BYTES_MIN = 600 * 2**20  # because a node of its own accord writes commit-log segments before any data
STOP_SECONDS = 60.0
NODES_MAX = 9
HEAP = "512M"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which nodes a folder holds; written once, since data remembers its addresses."""

    addresses: tuple[str, ...]
    native_port: int
    heap: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node as `cvs node status` shows it."""

    number: int
    address: str
    native_port: int
    state: str  # "ready", "starting", "stopped"
    pid: int | None
    resident_mb: int | None
    log: str


def default_folder() -> Path:
    """Say where `cvs node` keeps its nodes unless told otherwise."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "cvs" / "cassandra"


def start(
    folder: Path,
    *,
    nodes: int | None,
    heap: str | None,
    native_port: int,
    own_addresses: bool,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Layout:
    """Start those of the folder's nodes that do not run, in the background, and wait until clients can use them.

    If it fails or is interrupted, what it started is ended again.
    """
    if heap is not None and not re.fullmatch(r"[1-9]\d*[MG]", heap):
        raise SpecificationError(f"{heap} is not a heap size", next_step="write it like 512M or 1G")
    java()
    with _only_one_start(folder):
        running = _running(folder)
        layout = _layout(folder, nodes=nodes, heap=heap, native_port=native_port, own_addresses=own_addresses)
        _refuse_taken_ports(layout, running)
        _refuse_full_disk(folder)
        jars("cassandra", progress=progress)
        (folder / "cluster.json").write_bytes(msgspec.json.encode(layout))
        cluster = EmbeddedCluster(
            size=len(layout.addresses),
            folder=folder,
            detached=True,
            addresses=list(layout.addresses),
            heap=layout.heap,
            native_port=layout.native_port,
        )
        for node in cluster.nodes:
            node.process = running.get(node.number)
        _bring_up(cluster, say)
    return layout


def _bring_up(cluster: EmbeddedCluster, say: Callable[[str], None]) -> None:
    nodes = [node for node in cluster.nodes if not node.running]
    with _termination_as_interrupt():
        try:
            for node in nodes:
                node.start()
                assert node.process is not None
                node.process.identity.write(_pid_file(node.place.folder))
            for node in nodes:
                node.wait_ready()
                say(f"node {node.number} ready on {node.address}:{node.native_port}")
            cluster.wait_joined()
        except BaseException:
            for node in nodes:
                node.kill()
                _pid_file(node.place.folder).unlink(missing_ok=True)
            raise


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end a start as tidily as Ctrl-C does, also where a shell left Ctrl-C ignored."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _only_one_start(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as problem:
        raise MissingEnvironmentError(
            f"the folder cannot be written: {problem.strerror}",
            where=str(folder),
            next_step="choose one with --dir",
        ) from problem
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MissingEnvironmentError(
                "another `cvs node start` works in this folder", where=str(folder), next_step="wait for it"
            ) from None
        yield


def _running(folder: Path) -> dict[int, RunningProcess]:
    """Return the nodes that run; that all do is refused."""
    states = status(folder)
    running = [state for state in states if state.state != "stopped"]
    if running and len(running) == len(states):
        raise MissingEnvironmentError(
            f"{len(running)} node(s) of this folder run already",
            where=f"{folder}, pid {running[0].pid}",
            next_step=f"use them, or `cvs node stop --dir {folder}`",
        )
    found = {state.number: ProcessId.read(_pid_file(folder / f"node{state.number}")) for state in running}
    return {number: RunningProcess(identity=identity) for number, identity in found.items() if identity}


def _refuse_taken_ports(layout: Layout, running: Container[int]) -> None:
    for number, address in enumerate(layout.addresses, start=1):
        if number in running:
            continue
        for port in (layout.native_port, STORAGE_PORT):
            if not port_free(address, port):
                raise MissingEnvironmentError(
                    f"port {port} is taken",
                    where=f"{address}:{port}",
                    next_step="stop what listens there, or start in a new folder with --own-addresses",
                )


def _refuse_full_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES_MIN:
        raise MissingEnvironmentError(
            f"the disk is full: {free // 2**20} MiB are free, {FREE_BYTES_MIN // 2**20} MiB are needed",
            where=str(folder),
            next_step="free some space, or choose another disk with --dir",
        )


def _layout(
    folder: Path, *, nodes: int | None, heap: str | None, native_port: int, own_addresses: bool
) -> Layout:
    kept = read_layout(folder)
    if kept is not None:
        if nodes not in (None, len(kept.addresses)):
            raise SpecificationError(
                f"this folder holds a cluster of {len(kept.addresses)} node(s), not {nodes}",
                where=str(folder),
                next_step="leave --nodes out, or choose a new folder with --dir",
            )
        return Layout(addresses=kept.addresses, native_port=kept.native_port, heap=heap or kept.heap)
    size = nodes or 1
    if own_addresses:
        addresses = free_addresses(size, (native_port, STORAGE_PORT), chooser=random.SystemRandom())
    else:
        addresses = [f"127.0.0.{number}" for number in range(1, size + 1)]
    return Layout(addresses=tuple(addresses), native_port=native_port, heap=heap or HEAP)


def read_layout(folder: Path) -> Layout | None:
    """Read which nodes a folder holds; None if it holds none."""
    file = folder / "cluster.json"
    if not file.exists():
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=Layout)
    except (msgspec.DecodeError, OSError) as problem:
        raise MissingEnvironmentError(
            f"the folder's cluster.json cannot be read: {problem}",
            where=str(file),
            next_step="remove the folder if its data is not needed",
        ) from problem


def status(folder: Path) -> list[NodeState]:
    """Tell the state of each node of a folder; an empty list if there is none."""
    layout = read_layout(folder)
    if layout is None:
        return []
    return [
        _state(folder / f"node{number}", number, address, layout.native_port)
        for number, address in enumerate(layout.addresses, start=1)
    ]


def _state(place: Path, number: int, address: str, native_port: int) -> NodeState:
    identity = ProcessId.read(_pid_file(place))
    alive = identity is not None and identity.alive
    ready = alive and port_open(address, native_port)
    pid = identity.pid if identity and alive else None
    return NodeState(
        number=number,
        address=address,
        native_port=native_port,
        state="ready" if ready else "starting" if alive else "stopped",
        pid=pid,
        resident_mb=_resident_mb(pid) if pid else None,
        log=str(place / "system.log"),
    )


def stop(folder: Path, *, say: Callable[[str], None] = lambda _: None) -> int:
    """Drain and stop the folder's nodes, side by side; give how many ran."""
    running: list[tuple[Path, RunningProcess]] = []
    for state in status(folder):
        place = folder / f"node{state.number}"
        identity = ProcessId.read(_pid_file(place))
        if identity is not None and identity.alive:
            running.append((place, RunningProcess(identity=identity)))
            identity.send(signal.SIGCONT)
            identity.send(signal.SIGTERM)
        else:
            _pid_file(place).unlink(missing_ok=True)
    for place, process in running:
        process.end(seconds=STOP_SECONDS)
        _pid_file(place).unlink(missing_ok=True)
        say(f"{place.name} stopped")
    return len(running)


def _pid_file(place: Path) -> Path:
    return place / "pid"


def _resident_mb(pid: int) -> int | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
