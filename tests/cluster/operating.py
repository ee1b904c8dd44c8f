"""What an operator does, for tests: a folder with settings, the commands run in it, and the processes that go on."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cvs.embedded.node import Node
from cvs.embedded.processes import RunningProcess
from cvs.sidecar.settings import settings_from

RELEASE = "from cvs.cli import main; main()"


def settings(*nodes: Node, state: str, published: str, more: str = "") -> str:
    """Return the text of a `cvs.toml`; `more`: what follows the tables cluster and views."""
    points = ", ".join(f'"{node.address}"' for node in nodes)
    return (
        f"[cluster]\ncontact_points = [{points}]\nport = {nodes[0].native_port}\n"
        f'[views]\nstate_keyspace = "{state}"\npublished_keyspace = "{published}"\n{more}'
    )


@contextmanager
def writing(write: Callable[[int], object], *, pause: float) -> Iterator[None]:
    """Write 1, 2, 3 ... meanwhile, so that there is always an epoch to be in the middle of."""
    ended = threading.Event()

    def run() -> None:
        number = 0
        while not ended.wait(pause):
            number += 1
            write(number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Deployment:
    """A folder with settings, and what is run in it; all of it ends with the test."""

    def __init__(self, folder: Path, text: str, *, seconds: float) -> None:
        """`seconds`: the most that one command or one wait may take."""
        self.folder, self.seconds = folder, seconds
        self.state = settings_from(text, {}, where="").views.state_keyspace
        folder.mkdir(exist_ok=True)
        (folder / "cvs.toml").write_text(text)
        self.running: dict[str, RunningProcess] = {}

    def tried(self, *arguments: str, release: str = RELEASE) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            [sys.executable, "-c", release, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=self.seconds,
        )

    def cvs(self, *arguments: str, release: str = RELEASE) -> str:
        """Run a command that ends well; return what it said."""
        done = self.tried(*arguments, release=release)
        assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}{done.stderr}"
        return done.stdout

    def apply(self, *views: str, prune: bool = False) -> None:
        """Apply views, as the only ones if `prune`."""
        (self.folder / "views.sql").write_text("".join(views))
        self.cvs("apply", "views.sql", "--yes", *(["--prune"] if prune else []))

    def start(self, name: str, *arguments: str, release: str = RELEASE, **environment: str) -> None:
        """Start a command that goes on."""
        words = [f"{key}={value}" for key, value in environment.items()]
        command = ["env", "-C", str(self.folder), *words, sys.executable, "-c", release, *arguments]
        self.running[name] = RunningProcess.owned(command, output=self.folder / f"{name}.log")

    def sidecar(self, name: str, **environment: str) -> None:
        """Start a sidecar with a recording of its own; return when it says that it is ready."""
        self.start(name, "run", CVS_RECORDING_FOLDER=f"runs-{name}", **environment)
        self.wait_said(name, "ready")

    def end(self, name: str) -> None:
        """Ask a process to end, as a service manager does."""
        self.running.pop(name).end()

    def kill(self, name: str) -> None:
        """End a process as a power cut would."""
        self.running.pop(name).kill()

    def close(self) -> None:
        """End everything."""
        for process in self.running.values():
            process.kill()

    def said(self, name: str) -> list[str]:
        """Return the events in the log of a process."""
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines if line.startswith("{")]

    def wait_said(self, name: str, event: str) -> None:
        """Wait until the log of a process has an event."""
        self.wait(lambda: event in self.said(name), f"{name} to say: {event}")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition; a process that ended by itself meanwhile is told at once, with its last words."""
        end = time.monotonic() + self.seconds
        while not condition():
            gone = [name for name, process in self.running.items() if not process.alive]
            assert not gone, f"{gone} ended, waiting for {what}\n{self._last_words()}"
            assert time.monotonic() < end, f"waited in vain for {what}\n{self._last_words()}"
            time.sleep(0.1)

    def _last_words(self) -> str:
        files = [self.folder / f"{name}.log" for name in self.running]
        return "\n".join(f"{file.name}: {file.read_text()[-2000:]}" for file in files)
