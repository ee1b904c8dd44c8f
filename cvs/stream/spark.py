"""Spark Structured Streaming drives the epochs, and its tasks carry the large ones.

The source only triggers (`rate-micro-batch`: one row a batch, no files, no offsets that mean anything): what an
epoch is made of is pinned in Cassandra. A micro-batch costs 50-160 ms whatever it does, so one of them runs
epochs for a whole turn; the checkpoint folder may be lost at any time (H5).
"""

import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from zipimport import zipimporter

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.serializers import PickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from cvs.errors import CvsError, MissingEnvironmentError
from cvs.stream.tasks import uncollected

TURN_SECONDS = 10.0
"""How long one micro-batch runs epochs: long enough that Spark's own cost does not show."""
IDLE_SECONDS = 0.01
FEW_CORES = 2

LOGGING = Path(__file__).with_name("log4j2.properties").resolve()
HERE = {"spark.driver.host": "127.0.0.1"}
"""Only for a Spark within this process: workers on other machines must find the driver."""
LIGHT = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # because logs go there
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    "spark.sql.adaptive.enabled": "false",  # because micro-batches of one row have nothing to adapt
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    "spark.python.worker.reuse": "true",
}


def spark_session(master: str = "local[2]", **settings: str) -> SparkSession:
    """Start (or find) a session with what a small pipeline needs."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # because tasks need what we are installed beside
    builder = SparkSession.builder.master(master).appName("cvs")
    for name, value in {**LIGHT, **(HERE if master.startswith("local") else {}), **settings}.items():
        builder = builder.config(name, value)
    try:
        with _interrupts_kept():
            session = builder.getOrCreate()
    except (PySparkException, Py4JError) as fault:
        raise MissingEnvironmentError(
            f"Spark does not start: {str(fault).splitlines()[0]}",
            where=f'[spark] master = "{master}"',
            next_step='have Java 17, and name a master: local[2], spark://host:port, or "" for none',
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def files_in(folder: str) -> dict[str, str]:
    """Return the setting by which Spark keeps its files there: of one that was killed nothing is left either."""
    name = "spark.driver.extraJavaOptions"
    return {name: f'{LIGHT[name]} "-Djava.io.tmpdir={folder}"'}


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Leave Ctrl-C to whom it is left: Spark would break off what is at hand."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


@contextmanager
def needed(master: str) -> Iterator[None]:
    """Say that Spark's own process ended, for instance because its memory did, where that is what went wrong."""
    try:
        yield
    except Py4JJavaError:  # Spark is there, and says what it met
        raise
    except (Py4JError, ConnectionError) as fault:
        raise MissingEnvironmentError(
            f"Spark's process ended: {str(fault).splitlines()[0]}",
            where=f'[spark] master = "{master}"',
            next_step="its last words stand above; start again: everything goes on where it stands",
        ) from fault


def spread_over(session: SparkSession) -> Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]:
    """Return what runs a function on each slice in a Spark task and collects the answers.

    Both travel as bytes: Spark's pickler asks Python about every object in them, which took half of an epoch's time.
    A refusal is an answer too: what a task raises comes out of Spark as a fault of Java's.
    """
    plain = PickleSerializer()

    def spread(function: Callable[[Any], Any], slices: Sequence[Any]) -> list[Any]:
        def task(packed: bytes) -> Any:
            try:
                found = uncollected(function)(plain.loads(packed))
            except CvsError as refusal:
                found = refusal
            answer = plain.dumps(found)
            settle()
            return answer

        rdd = session.sparkContext.parallelize(list(map(plain.dumps, slices)), len(slices))
        answers = list(map(plain.loads, rdd.map(task).collect()))
        if refusal := next((it for it in answers if isinstance(it, CvsError)), None):
            raise refusal
        return answers

    return spread


def settle() -> None:
    """Make a worker's next task begin at once: between two, Spark has it read and search what does not change.

    All archives on the path are read again, for 0.1 s: forgotten, they are opened by who imports something else. And
    all of memory is looked through for cycles: what is there after the first task stays, so it is left out.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
    _freeze()


@cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()


def cores(session: SparkSession) -> int:
    """Return how many tasks can run at once: executors come and go, with the workers of the cluster."""
    known: int = session.sparkContext.defaultParallelism
    return max(2, known)


def worth_tasks(session: SparkSession) -> bool:
    """Say whether tasks have cores beside the driver's: on its own two they gain nothing and take thrice the memory.

    Executors elsewhere always have.
    """
    context = session.sparkContext
    return not re.match(r"local(\[|$)", context.master) or context.defaultParallelism > FEW_CORES


def start(
    session: SparkSession,
    step: Callable[[], bool],
    *,
    checkpoint: Path,
    stopped: Callable[[], bool] = lambda: False,
    turn_seconds: float = TURN_SECONDS,
) -> StreamingQuery:
    """Start the query that runs epochs, `step` by `step`, until stopped or until one fails."""

    def turn(_batch: DataFrame, _number: int) -> None:
        end = time.monotonic() + turn_seconds
        while time.monotonic() < end and not stopped():
            if not step():
                time.sleep(IDLE_SECONDS)

    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = source.writeStream.foreachBatch(turn).option("checkpointLocation", str(checkpoint))
    return writer.start()
