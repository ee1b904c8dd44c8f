"""A standalone Spark of two workers, from pyspark's own scripts: right, and the work spread over both."""

import os
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from cvs.embedded.node import Node
from cvs.embedded.processes import RunningProcess
from cvs.stream import spark
from tests.cluster.test_pipeline import Shop
from tests.spark.test_spark_pipeline import expected, write_some

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_word(log: Path, word: str, count: int) -> None:
    end = time.monotonic() + 90
    while not log.exists() or log.read_text().count(word) < count:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A master and two workers of one core, as processes that die with the test."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_WORKER_DIR", str(tmp_path / "work"))
    start, port = str(Path(pyspark.__file__).parent / "bin" / "spark-class"), free_port()
    log = tmp_path / "master.log"
    words = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    processes = [RunningProcess.owned([start, MASTER, *words], output=log)]
    try:
        wait_for_word(log, "New state: ALIVE", 1)
        for number in range(2):
            words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "768m", "--webui-port", "0"]
            command = [start, WORKER, *words, f"spark://127.0.0.1:{port}"]
            processes.append(RunningProcess.owned(command, output=tmp_path / f"worker{number}.log"))
        wait_for_word(log, "Registering worker", 2)
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in reversed(processes):
            process.end()


@pytest.fixture
def session(master: str) -> Iterator[SparkSession]:
    session = spark.spark_session(master, **{"spark.executor.memory": "512m", "spark.executor.cores": "1"})
    yield session
    session.stop()


def test_two_workers_share_the_work(cassandra_node: Node, session: SparkSession, tmp_path: Path) -> None:
    """Every step's slices run one on each executor, and the views are those of the driver's own process."""
    end = time.monotonic() + 60
    while session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # the driver counts too
        assert time.monotonic() < end, "two executors never came"
        time.sleep(0.1)
    shop = Shop(cassandra_node, tmp_path)
    plain, ran = spark.spread_over(session), Counter[int]()

    def counted(function: Any, slices: Sequence[Any]) -> list[Any]:
        answers = plain(lambda part: (os.getppid(), function(part)), slices)
        ran.update(executor for executor, _ in answers)
        return [answer for _, answer in answers]

    chance, rows = random.Random(5), dict[int, tuple[str, int]]()
    pipeline = shop.pipeline()
    pipeline.spread, pipeline.spread_from = counted, 1
    for _ in range(3):
        write_some(shop, rows, chance, 60)
        assert pipeline.drain() > 0
        assert shop.shown() == expected(rows)
    shop.session.close()
    assert len(ran) == 2, ran
    assert max(ran.values()) - min(ran.values()) <= ran.total() // 5, ran
