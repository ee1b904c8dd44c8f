"""Processes that end with their owner, and pid files that cannot hit a stranger."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Run by a tiny Python beside each owned process. Its standard input is a pipe from the owner: at its end
# (the owner is gone, however it went) the process is killed. A child that the owner forked may hold that
# pipe open, so the guard also looks whether its parent is still the same. What the owner would have
# removed, the guard removes. If the guard itself is killed, the
# kernel kills the process, because the guard asked for that (PDEATHSIG) when it started it.
GUARD = """
import ctypes, os, select, shutil, signal, subprocess, sys
owner, scratch = int(sys.argv[1]), sys.argv[2]
def ask(): ctypes.CDLL(None).prctl(1, signal.SIGKILL)
child = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=2, start_new_session=True,
                         preexec_fn=ask)
print(child.pid, flush=True)
os.close(1)
ended = os.pidfd_open(child.pid)
while not select.select([0, ended], [], [], 2.0)[0] and os.getppid() == owner: pass
gone = child.poll() is None
child.kill()
code = child.wait()
if gone and scratch: shutil.rmtree(scratch, ignore_errors=True)
sys.exit(code != 0)
"""


_LIBC = ctypes.CDLL(None)
_PDEATHSIG = 1


def end_with_owner() -> None:
    """Be killed when the thread that starts this process ends, whichever way: for `Popen(preexec_fn=...)`."""
    _LIBC.prctl(_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A pid together with what tells it from a later process of the same number."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """Identify a running process; None if there is none (a zombie counts as none)."""
        started = _started(pid)
        return cls(pid=pid, started=started) if started else None

    @classmethod
    def read(cls, file: Path) -> "ProcessId | None":
        """Read a pid file; None if it is absent or not one."""
        try:
            pid, started = file.read_text().strip().split(" ", 1)
            return cls(pid=int(pid), started=started)
        except (OSError, ValueError):
            return None

    def write(self, file: Path) -> None:
        """Write the pid file in one piece."""
        draft = file.with_suffix(".draft")
        draft.write_text(f"{self.pid} {self.started}\n")
        draft.replace(file)

    @property
    def alive(self) -> bool:
        """Say whether this very process still runs."""
        return _started(self.pid) == self.started

    def send(self, number: int) -> bool:
        """Send a signal, only if the pid is still the same process."""
        if not self.alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_end(self, seconds: float) -> bool:
        """Wait until it has ended; False if it has not."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def end(self, *, seconds: float = 30.0) -> None:
        """Ask it to end, then insist."""
        self.send(signal.SIGTERM)
        if not self.wait_end(seconds):
            self.send(signal.SIGKILL)
            self.wait_end(10)


def _started(pid: int) -> str:
    """Tell when a process started, as something two processes of one number cannot share."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}/{fields[19]}"


@dataclass(slots=True, kw_only=True)
class RunningProcess:
    """A process we started (or found again): owned, it dies with this one; detached, it goes on."""

    identity: ProcessId
    starter: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def owned(cls, command: Sequence[str], *, output: Path, scratch: Path | None = None) -> "RunningProcess":
        """Start it under a guard, so that it dies with us, whichever way we go; append its output to a file.

        `scratch`: a folder that nobody needs once we are gone.
        """
        with output.open("ab") as log:
            guard = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), str(scratch or ""), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert guard.stdout is not None
        pid = int(guard.stdout.readline() or 0)
        return cls(identity=ProcessId.of(pid) or ProcessId(pid=pid, started="ended"), starter=guard)

    @classmethod
    def detached(cls, command: Sequence[str], *, output: Path) -> "RunningProcess":
        """Start it so that it outlives us."""
        with output.open("ab") as log:
            started = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        identity = ProcessId.of(started.pid) or ProcessId(pid=started.pid, started="ended")
        return cls(identity=identity, starter=started)

    @property
    def pid(self) -> int:
        """Name it as the operating system does."""
        return self.identity.pid

    @property
    def alive(self) -> bool:
        """Say whether it runs (a paused process does)."""
        return self.identity.alive

    def send(self, number: int) -> None:
        """Send a signal, if it is still there."""
        self.identity.send(number)

    def kill(self) -> None:
        """End it at once, as a power cut would, and leave no guard behind."""
        self.identity.send(signal.SIGKILL)
        self.identity.wait_end(30)
        self._reap()

    def end(self, *, seconds: float = 60.0) -> None:
        """Ask it to end and wait; insist after a while."""
        self.identity.send(signal.SIGCONT)
        self.identity.end(seconds=seconds)
        self._reap()

    def _reap(self) -> None:
        if self.starter is None:
            return
        self.starter.wait(30)
        for pipe in (self.starter.stdin, self.starter.stdout):
            if pipe:
                pipe.close()
