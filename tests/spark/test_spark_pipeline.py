"""Spark drives the epochs, and its tasks carry large ones: the same rows as in the driver's own process."""

import gc
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from zipimport import zipimporter

import pytest
from pyspark.sql import SparkSession

from cvs.embedded.node import Node
from cvs.stream import spark
from cvs.stream.runner import Driver
from cvs.stream.succession import Succession
from tests.cluster.test_pipeline import Shop

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session = spark.spark_session("local[2]")
    yield session
    session.stop()


@pytest.fixture
def shop(cassandra_node: Node, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(cassandra_node, tmp_path)
    yield shop
    shop.session.close()


def expected(rows: dict[int, tuple[str, int]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for city, total in rows.values():
        count, total_before = found.get(city, (0, 0))
        found[city] = (count + 1, total_before + total)
    return found


def write_some(shop: Shop, rows: dict[int, tuple[str, int]], chance: random.Random, count: int) -> None:
    for _ in range(count):
        identity = chance.randrange(50)
        if identity in rows and chance.random() < 0.2:
            del rows[identity]
            shop.write(identity, None)
        else:
            rows[identity] = (chance.choice(("Graz", "Linz", "Wien")), chance.randrange(100))
            shop.write(identity, *rows[identity])


def test_epochs_in_tasks_equal_epochs_in_the_driver(shop: Shop, session: SparkSession) -> None:
    """Stage 0, zones and publications as Spark jobs; an epoch half done by tasks is finished by the driver."""
    chance, rows = random.Random(3), dict[int, tuple[str, int]]()
    write_some(shop, rows, chance, 120)
    in_tasks = shop.pipeline()
    in_tasks.spread, in_tasks.spread_from = spark.spread_over(session), 1
    assert in_tasks.drain() > 0
    assert shop.shown() == expected(rows)
    write_some(shop, rows, chance, 40)
    assert shop.pipeline().drain() > 0, "the driver's own process goes on where tasks ended"
    assert shop.shown() == expected(rows)


def test_tasks_do_not_look_for_cycles(session: SparkSession) -> None:
    """As the driver's own epochs do not."""
    assert spark.spread_over(session)(lambda _: gc.isenabled(), [1, 2]) == [False, False]


BEGUN = """
import os, signal, sys
from cvs.stream import spark
def ours(*_): ...
signal.signal(signal.SIGINT, ours)
session = spark.spark_session("local[1]", **spark.files_in(sys.argv[1]))
print(signal.getsignal(signal.SIGINT) is ours, *sorted({it.partition("-")[0] for it in os.listdir(sys.argv[1])}))
session.stop()
"""


def test_spark_leaves_us_ctrl_c_and_its_files_in_our_folder(tmp_path: Path) -> None:
    """Ctrl-C broke off the epoch at hand, and the files of a Spark that was killed stayed for ever."""
    command = [sys.executable, "-c", BEGUN, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert {"True", "spark"} <= set(found.stdout.split()), found.stderr


def test_between_two_tasks_a_worker_reads_no_archive_and_searches_little(session: SparkSession) -> None:
    """Spark has it read again what archives it knows, and look for cycles in all that is not frozen."""

    def known(_: int) -> tuple[list[str], int]:
        archives = [path for path, it in sys.path_importer_cache.items() if isinstance(it, zipimporter)]
        return archives, len(gc.get_objects())

    spread = spark.spread_over(session)
    spread(known, [1, 2])
    for archives, searched in spread(known, [1, 2]):
        assert archives == []
        assert searched < 5_000


def test_a_lost_checkpoint_changes_nothing(shop: Shop, session: SparkSession, tmp_path: Path) -> None:
    """H5: the query starts again from an empty checkpoint folder and goes on from the control row."""
    chance, rows = random.Random(4), dict[int, tuple[str, int]]()
    for number in range(2):
        write_some(shop, rows, chance, 30)
        succession = Succession(newest=shop.pipeline(), older=None, say=print)
        driver = Driver(succession=succession, say=print)
        query = spark.start(session, driver, checkpoint=tmp_path / f"checkpoint{number}", turn_seconds=0.5)
        deadline = time.monotonic() + 60
        while shop.shown() != expected(rows) and time.monotonic() < deadline:
            time.sleep(0.2)
        query.stop()
        assert query.exception() is None
        assert shop.shown() == expected(rows)
