"""One pipeline process: what `cvs run` starts, what a demonstration kills.

It can be told to kill (or stop) itself in the middle of an epoch: a crash at a chosen place is worth more to
a test than one at a random one.
"""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cvs.capture.opening import open_feed
from cvs.programs.delta import StaleDriverError
from cvs.programs.stage_bucket import ALL_RULES, Rules
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.pipeline import Pipeline
from cvs.stream.recipe import recipe_of
from cvs.stream.recording import EpochLog
from cvs.stream.tables import Names, create


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """All that a pipeline process is told."""

    address: ClusterAddress
    views_sql: str
    base_keyspaces: tuple[str, ...]
    feed: str  # a folder, or kafka://host:port/topic
    state_keyspace: str
    replication: int = 1
    record: Path | None = None
    spark_master: str = "local[2]"  # empty: this process alone, without Spark
    rules: Rules = ALL_RULES
    fall_at: int = 0  # rounds of requests with a test-and-set after which to fall; 0: never
    fall_by: str = "kill"  # or "stop"
    changes_an_epoch: int = 20_000


@dataclass(slots=True, kw_only=True)
class Driver:
    """Runs epochs while this process leads; a driver that was overtaken goes on from the control row."""

    pipeline: Pipeline
    say: Callable[[str], None]
    leads: Callable[[], bool] = lambda: True
    failure: Exception | None = None
    _led: bool = False

    def __call__(self) -> bool:
        """Run one epoch if there is one to run; False: nothing to do."""
        try:
            return self._step()
        except Exception as fault:
            self.failure = fault  # because Spark would only hand out its text
            raise

    def _step(self) -> bool:
        if not self.leads():
            self._led = False
            return False
        if not self._led:
            self.pipeline.start()  # because another may have led meanwhile
            self._led = True
        try:
            return self.pipeline.step() is not None
        except StaleDriverError as overtaken:
            self.say(f"overtaken: {overtaken}")
            self.pipeline.start()
            return False


def run(
    settings: RunSettings,
    *,
    say: Callable[[str], None],
    watch: Callable[[Pipeline], None] = lambda _: None,
    leads: Callable[[], bool] = lambda: True,
    ended: threading.Event,
) -> None:
    """Run a pipeline until `ended` is set; `watch` may add watchers before the first epoch."""
    session = CassandraSession(settings.address)
    names = Names(keyspace=settings.state_keyspace)
    recipe, _ = recipe_of(session, settings.views_sql, names=names, keyspaces=settings.base_keyspaces)
    create(session, recipe.plan, names, replication=settings.replication)
    feed = open_feed(settings.feed)
    pipeline = Pipeline(
        recipe=recipe,
        feed=feed,
        session=session,
        rules=settings.rules,
        changes_an_epoch=settings.changes_an_epoch,
    )
    log = _log(settings)
    if log is not None:
        pipeline.watchers.append(log)
    watch(pipeline)
    if settings.fall_at:
        pipeline.door = _Falling(pipeline.door, settings)  # type: ignore[assignment]  # because it stands in for it
    driver = Driver(pipeline=pipeline, say=say, leads=leads)
    say("ready")
    if settings.spark_master:
        _under_spark(driver, settings.spark_master, ended)
    else:
        while not ended.is_set():
            if not driver():
                ended.wait(0.01)
    feed.close()
    session.close()


def end_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set: the epoch at hand is finished, then the process ends."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended


def _log(settings: RunSettings) -> EpochLog | None:
    if settings.record is None:
        return None
    settings.record.mkdir(parents=True, exist_ok=True)
    return EpochLog(settings.record / f"epochs-{time.time_ns()}-{os.getpid()}.log")


def _under_spark(driver: Driver, master: str, ended: threading.Event) -> None:
    from cvs.stream import spark  # because a process without Spark should not pay for its import

    session = spark.spark_session(master)
    driver.pipeline.spread = spark.spread_over(session)
    with tempfile.TemporaryDirectory(prefix="cvs-checkpoint-") as checkpoint:
        query = spark.start(
            session, driver, checkpoint=Path(checkpoint), stopped=ended.is_set, turn_seconds=5.0
        )
        while query.isActive and not ended.wait(0.2):
            pass
        query.stop()
        failure = driver.failure or query.exception()
        session.stop()
    if failure is not None:
        raise failure


class _Falling:
    """A door that ends (or stops) its own process in the middle of an epoch."""

    def __init__(self, door: Any, settings: RunSettings) -> None:
        self._door = door
        self._left = settings.fall_at
        self._signal = signal.SIGKILL if settings.fall_by == "kill" else signal.SIGSTOP

    def __call__(self, requests: list[Any]) -> list[Any]:
        """Carry out a round; then fall, if it is time."""
        answers: list[Any] = self._door(requests)
        if any(type(request).__name__ == "SetBucket" and request.table != "control" for request in requests):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._signal)
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._door, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "check":
            self._door.check = value
        else:
            object.__setattr__(self, name, value)
