"""A standalone Spark from pyspark's own scripts: a master, and workers that come and go. All die with the test."""

import socket
import time
from pathlib import Path

import pyspark

from cvs.embedded.processes import RunningProcess

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
START = str(Path(pyspark.__file__).parent / "bin" / "spark-class")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class StandaloneSpark:
    """A master, and a process a worker of one core."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._log = folder, folder / "master.log"
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._master = RunningProcess.owned([START, MASTER, *words], output=self._log)
        self.workers: list[RunningProcess] = []
        self._come = 0
        self._wait_for_word("New state: ALIVE", 1)

    def add(self, count: int = 1) -> None:
        """Let workers join."""
        for _ in range(count):
            self._come += 1
            words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "768m", "--webui-port", "0"]
            words += ["--work-dir", str(self.work(self._come)), self.url]
            log = self._folder / f"worker{self._come}.log"
            self.workers.append(RunningProcess.owned([START, WORKER, *words], output=log))
        self._wait_for_word("Registering worker", self._come)

    def work(self, number: int) -> Path:
        """Return where the executors of a worker write, counted from 1 in the order of coming."""
        return self._folder / f"work{number}"

    def remove(self, place: int) -> None:
        """End a worker, and with it its executors."""
        self.workers.pop(place).end()

    def close(self) -> None:
        """End everything."""
        for process in (*reversed(self.workers), self._master):
            process.end()

    def _wait_for_word(self, word: str, count: int) -> None:
        end = time.monotonic() + 90
        while not self._log.exists() or self._log.read_text().count(word) < count:
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.1)
