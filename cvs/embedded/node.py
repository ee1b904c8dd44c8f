"""One real Cassandra node as a child process: start, stop, kill, pause, resume, start again with its data.

The node dies with its parent (the kernel sends it a signal), unless it is started `detached`; so a crashed test
leaves nothing behind.
"""

import ctypes
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from cvs.embedded.artifacts import jars
from cvs.embedded.configuration import NodeConfiguration
from cvs.embedded.java import java
from cvs.errors import MissingEnvironmentError

READY_SECONDS_MAX = 120
STOP_SECONDS_MAX = 30
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(slots=True, kw_only=True)
class Node:
    """A node and its process, if it runs."""

    configuration: NodeConfiguration
    detached: bool = False
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        """Return the loopback address it listens on."""
        return self.configuration.address

    @property
    def native_port(self) -> int:
        """Return the CQL port."""
        return self.configuration.native_port

    @property
    def cdc_raw(self) -> Path:
        """Return the folder in which its commit-log segments appear."""
        return self.configuration.folder / "cdc_raw"

    @property
    def log(self) -> Path:
        """Return the file with all it says."""
        return self.configuration.folder / "logs" / "system.log"

    @property
    def running(self) -> bool:
        """Say whether its process lives."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process; `wait_ready` waits for it."""
        self.configuration.write()
        class_path = jars("cassandra")
        jamm = next(path for path in class_path if "jamm" in path.name)
        command = [
            java(),
            *self.configuration.java_flags(jamm),
            "-cp",
            os.pathsep.join([str(self.configuration.folder / "conf"), *map(str, class_path)]),
            "org.apache.cassandra.service.CassandraDaemon",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C in the terminal is ours to handle
                preexec_fn=None if self.detached else _die_with_parent,  # noqa: PLW1509 -- because it only calls prctl
            )

    def wait_ready(self, *, seconds_max: float = READY_SECONDS_MAX) -> None:
        """Wait until it answers on the CQL port, or say why it does not."""
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            if not self.running:
                raise MissingEnvironmentError(
                    f"the Cassandra node ended while starting: {self._last_words()}",
                    where=str(self.log),
                    next_step="read that log",
                )
            if self.answers():
                return
            time.sleep(0.2)
        raise MissingEnvironmentError(
            f"the Cassandra node did not answer within {seconds_max:.0f} s: {self._last_words()}",
            where=f"{self.address}:{self.native_port}",
            next_step=f"read {self.log}",
        )

    def answers(self) -> bool:
        """Say whether something listens on its CQL port."""
        try:
            with socket.create_connection((self.address, self.native_port), timeout=1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """Ask it to end (commit log flushed), then make it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it as a power cut of the process would: no flush, no goodbye."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Stop its clock: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None, "the node was never started"
        if self.process.poll() is None:
            self.process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(number)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        telling = [line for line in lines if line.startswith(("ERROR", "Error", "Exception", "Caused by"))]
        return (telling or lines or ["it said nothing"])[-1].strip()[:300]
