"""One real Cassandra node: a `CassandraDaemon` of its own JVM, and what tests do to it."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cvs.embedded.artifacts import class_path, jars
from cvs.embedded.certificates import ca_file, make_certificate
from cvs.embedded.configuration import (
    NodeSettings,
    Place,
    jvm_flags,
    module_flags,
    write_configuration,
)
from cvs.embedded.disks import SmallDisk
from cvs.embedded.java import java
from cvs.embedded.processes import RunningProcess
from cvs.errors import MissingEnvironmentError

DAEMON = "org.apache.cassandra.service.CassandraDaemon"
NODETOOL = "org.apache.cassandra.tools.NodeTool"
READY_SECONDS = 180.0  # because a machine shared by many may be ten times slower than a quiet one


@dataclass(slots=True, kw_only=True)
class Node:
    """One node of a cluster; it dies with this process unless it is started detached."""

    place: Place
    settings: NodeSettings
    cluster_name: str
    enter: Sequence[str] = ()
    detached: bool = False
    process: RunningProcess | None = field(default=None, init=False)
    scratch: Path | None = None  # what goes with the last node if its starter is killed
    disk: SmallDisk | None = field(default=None, init=False)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return self.place.address

    @property
    def number(self) -> int:
        """Count nodes from 1."""
        return self.place.number

    @property
    def native_port(self) -> int:
        """The port of CQL clients."""
        return self.settings.native_port

    @property
    def credentials(self) -> tuple[str, str] | None:
        """Name the role a new node with authentication has; None without authentication."""
        return ("cassandra", "cassandra") if self.settings.authentication else None

    @property
    def ca_file(self) -> Path | None:
        """The certificate that clients of a TLS node must trust; None without TLS."""
        return ca_file(self.place.folder / "conf") if self.settings.tls else None

    @property
    def cdc_raw(self) -> Path:
        """Where the node puts commit-log segments with changes of CDC tables."""
        return self.place.cdc_raw

    @property
    def log(self) -> Path:
        """What the node said so far."""
        return self.place.log

    @property
    def running(self) -> bool:
        """Say whether its process is there (paused counts)."""
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Begin to start; `wait_ready` waits. Data of an earlier life in the same folder is kept."""
        if self.running:
            return
        write_configuration(self.place, self.settings, self.cluster_name)
        if self.settings.tls:
            make_certificate(self.place.folder / "conf", self.address)
        if self.settings.disk_size and self.disk is None:
            self.disk = SmallDisk.start(self.place.storage, self.settings.disk_size)
        enter = [*self.enter, *(self.disk.enter() if self.disk else ())]
        command = daemon_command(self.place, self.settings, enter)
        if self.detached:
            self.process = RunningProcess.detached(command, output=self.log)
        else:
            self.process = RunningProcess.owned(command, output=self.log, scratch=self.scratch)

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until clients can connect; a node that ended instead is an error with its last words."""
        wait_for_port(self.place, self.native_port, lambda: self.running, seconds)

    def stop(self) -> None:
        """Drain and stop, as an operator would."""
        if self.process is not None:
            self.process.end()

    def kill(self) -> None:
        """End it like a power cut (kill -9)."""
        if self.process is not None:
            self.process.kill()

    def restart(self) -> None:
        """Start it again with its data and wait until it is ready."""
        if self.running:
            self.stop()
        self.start()
        self.wait_ready()

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        assert self.process is not None
        self.process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused node go on."""
        assert self.process is not None
        self.process.send(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Leave its storage no byte (`disk_size` gave it a disk of its own); `free_disk` gives the space back."""
        assert self.disk is not None, "start the cluster with disk_size=... to fill a disk"
        self.disk.fill()

    def free_disk(self) -> None:
        """Give back what `fill_disk` took."""
        assert self.disk is not None
        self.disk.free()

    def discard(self) -> None:
        """End it for good: its process, and the disk of its own with all that is on it."""
        self.kill()
        if self.disk is not None:
            self.disk.close()
            self.disk = None

    def nodetool(self, *words: str, seconds: float = 120.0) -> str:
        """Run Cassandra's own management tool on this node and give what it printed."""
        done = subprocess.run(
            nodetool_command(self.place, self.enter, words),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode != 0:
            raise MissingEnvironmentError(
                f"nodetool {' '.join(words)} failed", where=(done.stdout + done.stderr)[-500:]
            )
        return done.stdout


def daemon_command(place: Place, settings: NodeSettings, enter: Sequence[str]) -> list[str]:
    """Build the command line of a node."""
    jamm = next(jar for jar in jars("cassandra") if jar.name.startswith("com.github.jbellis.jamm-"))
    return [*enter, java(), *jvm_flags(place, settings, jamm), "-cp", class_path("cassandra"), DAEMON]


def nodetool_command(place: Place, enter: Sequence[str], words: Sequence[str]) -> list[str]:
    """Build the command line of nodetool for a node."""
    conf = place.folder / "conf"
    properties = {
        "logback.configurationFile": str(conf / "logback-tools.xml"),
        "cassandra.config": (conf / "cassandra.yaml").as_uri(),
        "cassandra.storagedir": str(place.storage),
        "user.home": str(place.folder),  # because it writes its command history there
    }
    start = [*enter, java(), "-Xmx64m", "-XX:TieredStopAtLevel=1", *module_flags()]
    start += [f"-D{name}={value}" for name, value in properties.items()]
    return [*start, "-cp", class_path("cassandra"), NODETOOL, "-p", str(place.management_port), *words]


def port_open(address: str, port: int) -> bool:
    """Say whether something listens there."""
    try:
        with socket.create_connection((address, port), timeout=1.0):
            return True
    except OSError:
        return False


def wait_for_port(place: Place, port: int, running: Callable[[], bool], seconds: float) -> None:
    """Wait for a node's native port, watching that its process lives."""
    deadline = time.monotonic() + seconds
    while not port_open(place.address, port):
        if not running():
            raise MissingEnvironmentError(
                f"node {place.number} ended while starting: {last_words(place.log)}",
                where=str(place.log),
                next_step="read its log",
            )
        if time.monotonic() > deadline:
            raise MissingEnvironmentError(
                f"node {place.number} was not ready after {seconds:.0f} s",
                where=str(place.log),
                next_step="read its log; is the machine very busy?",
            )
        time.sleep(0.1)


def last_words(log: Path) -> str:
    """Pick the line of a log that most likely says why a node ended."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "it left no log"
    for number in reversed(range(len(lines))):
        if lines[number].startswith(("ERROR", "Error", "Exception", "FATAL")):
            return " ".join(lines[number : number + 2])[:400]
    return (lines or ["it said nothing"])[-1][:400]
