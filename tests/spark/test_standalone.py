"""A standalone Spark whose workers come and go: right, and the work spread over all that are there."""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cvs.embedded.node import Node
from cvs.stream import spark
from tests.cluster.test_pipeline import Shop
from tests.spark.standalone import StandaloneSpark
from tests.spark.test_spark_pipeline import expected, write_some

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneSpark]:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    workers = StandaloneSpark(tmp_path)
    try:
        yield workers
    finally:
        workers.close()


@pytest.fixture
def session(workers: StandaloneSpark) -> Iterator[SparkSession]:
    workers.add()
    options = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    session = spark.spark_session(workers.url, **options)
    yield session
    session.stop()


def wait_for_executors(session: SparkSession, count: int) -> None:
    end = time.monotonic() + 60
    status = session.sparkContext._jsc.sc().getExecutorMemoryStatus
    while status().size() != count + 1:  # the driver counts too
        assert time.monotonic() < end, f"{count} executors never were there"
        time.sleep(0.1)


def test_two_workers_are_added_and_one_is_removed(
    cassandra_node: Node, workers: StandaloneSpark, session: SparkSession, tmp_path: Path
) -> None:
    """An epoch has as many slices as tasks can run at once, one on each executor; the views are right throughout."""
    shop = Shop(cassandra_node, tmp_path)
    plain, ran = spark.spread_over(session), Counter[int]()

    def counted(function: Any, slices: Sequence[Any]) -> list[Any]:
        answers = plain(lambda part: (os.getppid(), function(part)), slices)
        ran.update(executor for executor, _ in answers)
        return [answer for _, answer in answers]

    chance, rows = random.Random(5), dict[int, tuple[str, int]]()
    pipeline = shop.pipeline()
    pipeline.spread, pipeline.spread_from, pipeline.slices = counted, 1, partial(spark.cores, session)

    def written_and_shown() -> Counter[int]:
        ran.clear()
        write_some(shop, rows, chance, 60)
        assert pipeline.drain() > 0
        assert shop.shown() == expected(rows)
        return ran

    wait_for_executors(session, 1)
    assert len(written_and_shown()) == 1
    workers.add(2)
    wait_for_executors(session, 3)
    assert spark.cores(session) == 3
    assert len(written_and_shown()) == 3
    workers.remove(0)
    wait_for_executors(session, 2)
    assert len(written_and_shown()) == 2
    shop.session.close()
