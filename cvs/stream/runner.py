"""One pipeline process: what `cvs run` starts, what a demonstration kills.

It can be told to kill (or stop) itself in the middle of an epoch: a crash at a chosen place is worth more to
a test than one at a random one.
"""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cvs.capture.feed import Feed
from cvs.capture.opening import filled_by_others, open_feed
from cvs.client.control import read_control
from cvs.errors import CvsError, SpecificationError, StoreError
from cvs.plan.levels import pipeline_timeline
from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import OtherCodeError, check_state
from cvs.programs.stage_bucket import ALL_RULES, Rules
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.pipeline import Pipeline
from cvs.stream.recipe import Recipe, recipe_of
from cvs.stream.recording import EpochLog
from cvs.stream.succession import Succession
from cvs.stream.tables import Names, create, state_id
from cvs.version import VERSION

ASK_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One incarnation: its number, and the views it keeps."""

    incarnation: int
    views_sql: str


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
    record_bytes: int = 0  # what all its files may take; 0: everything is kept
    spark_master: str = "local[2]"  # empty: this process alone, without Spark
    rules: Rules = ALL_RULES
    fall_at: int = 0  # rounds of requests with a test-and-set after which to fall; 0: never
    fall_by: str = "kill"  # or "stop"
    changes_an_epoch: int = 20_000
    skew_ms: int = 1_000  # by which clocks may differ: what the write-time line waits for
    incarnation: int = 1
    older: Life | None = None  # what serves until the newest incarnation is built
    build_rows_a_second: int = 0  # the most a build reads; 0: as fast as the epochs follow


@dataclass(slots=True, kw_only=True)
class Driver:
    """Runs epochs while this process leads."""

    succession: Succession
    say: Callable[[str], None]
    leads: Callable[[], bool] = lambda: True
    failure: Exception | None = None
    _led: bool = False
    _finished: bool = False
    _one: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> bool:
        """Run one epoch if there is one to run; False: nothing to do."""
        with self._one:
            try:
                return not self._finished and self._step()
            except Exception as fault:
                self.failure = fault  # because Spark would only hand out its text
                raise

    def finish(self) -> None:
        """Wait for the epoch at hand, run what is pinned, and pin no more, so that any version may go on (H4)."""
        with self._one:
            self._finished = True
            if self.failure is not None or not self._led or not self.leads():
                return
            try:
                self.succession.finish()
            except (StaleDriverError, CvsError, *UNANSWERED) as fault:
                self.say(f"the epoch at hand is left to whoever leads next: {fault}")

    def _step(self) -> bool:
        if not self.leads():
            self._led = False
            return False
        if not self._led:
            self.succession.start()  # because another may have led meanwhile
            self._led = True
        return self.succession.step() is not None


def run(
    settings: RunSettings,
    *,
    say: Callable[[str], None],
    watch: Callable[[Pipeline], None] = lambda _: None,
    leads: Callable[[], bool] = lambda: True,
    ended: threading.Event,
    serving: Callable[[], None] = lambda: None,
    changed: Callable[[], bool] = lambda: False,
) -> bool:
    """Run a pipeline until `ended` is set; `watch` may add watchers to each incarnation before its first epoch.

    `serving` is told when the newest incarnation shows everything. Returns whether `changed`, which is asked now
    and then, said that other views are wanted.
    """
    session, feed = CassandraSession(settings.address), open_feed(settings.feed)
    logs: list[EpochLog] = []

    def made(life: Life) -> Pipeline:
        pipeline = _pipeline(settings, life, session, feed)
        logs.extend(() if logs else _log(settings, session))
        pipeline.watchers += logs
        watch(pipeline)
        return pipeline

    newest = made(Life(incarnation=settings.incarnation, views_sql=settings.views_sql))
    succession = Succession(
        newest=newest, older=_older(settings, made, say), say=say, serving=serving, leads=leads
    )
    driver = Driver(succession=succession, say=say, leads=leads)
    ask = _Ask(changed)
    try:
        if settings.spark_master:
            _under_spark(driver, settings.spark_master, ended, ask)
        else:
            say("ready")
            while not ended.is_set() and not ask():
                if not driver():
                    ended.wait(0.01)
            driver.finish()
    finally:
        succession.close()
        feed.close()
        session.close()
    return ask.yes and not ended.is_set()


class _Ask:
    """Whether other views are wanted: asked every few seconds."""

    def __init__(self, changed: Callable[[], bool]) -> None:
        self._changed, self._due, self.yes = changed, time.monotonic() + ASK_SECONDS, False

    def __call__(self) -> bool:
        """Return the last answer."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + ASK_SECONDS
            with suppress(*UNANSWERED):  # the node is away: it is asked again
                self.yes = self._changed()
        return self.yes


def _pipeline(settings: RunSettings, life: Life, session: CassandraSession, feed: Feed) -> Pipeline:
    names = Names(keyspace=settings.state_keyspace, incarnation=life.incarnation)
    recipe, declared = recipe_of(
        session,
        life.views_sql,
        names=names,
        keyspaces=settings.base_keyspaces,
        captured=not filled_by_others(settings.feed),
    )
    _refuse_other_state(session, recipe)
    create(session, recipe.plan, names, replication=settings.replication)
    pipeline = Pipeline(
        recipe=recipe,
        feed=feed,
        session=session,
        rules=settings.rules,
        changes_an_epoch=settings.changes_an_epoch,
        build_rows_a_second=settings.build_rows_a_second,
        bound=settings.skew_ms * 1000 if pipeline_timeline(declared) == "write-time" else None,
    )
    if settings.fall_at:
        pipeline.door = _Falling(pipeline.door, settings)  # type: ignore[assignment]  # because it stands in for it
    return pipeline


def _refuse_other_state(session: CassandraSession, recipe: Recipe) -> None:
    """Look at what stands before any table is made beside it."""
    try:
        control = read_control(session, recipe.names.keyspace)
    except StoreError:
        return  # because nothing stands yet, or tables of long ago, which are refused by themselves
    if control.signature.incarnation == recipe.names.incarnation:
        check_state(control, state=recipe.state, version=VERSION)


def _older(
    settings: RunSettings, made: Callable[[Life], Pipeline], say: Callable[[str], None]
) -> Pipeline | None:
    """Return what serves so far; if its views cannot even be planned any more, they stay as they are."""
    if settings.older is None:
        return None
    try:
        return made(settings.older)
    except (SpecificationError, OtherCodeError) as refusal:
        say(f"incarnation {settings.older.incarnation} is not followed meanwhile: {refusal}")
        return None


def _log(settings: RunSettings, session: CassandraSession) -> Iterator[EpochLog]:
    if settings.record is not None:
        state = state_id(session, settings.state_keyspace)
        yield EpochLog(settings.record, keep_bytes=settings.record_bytes, state=state)


def _under_spark(driver: Driver, master: str, ended: threading.Event, ask: _Ask) -> None:
    from cvs.stream import spark  # because a process without Spark should not pay for its import

    with spark.needed(master), tempfile.TemporaryDirectory(prefix="cvs-spark-") as folder:
        session = spark.spark_session(master, **spark.files_in(folder))
        for pipeline in (driver.succession.newest, driver.succession.older):
            if pipeline is not None and spark.worth_tasks(session):
                pipeline.spread, pipeline.slices = spark.spread_over(session), partial(spark.cores, session)
        query = spark.start(
            session,
            driver,
            checkpoint=Path(folder, "checkpoint"),
            stopped=lambda: ended.is_set() or ask.yes,
            turn_seconds=5.0,
        )
        driver.say("ready")  # not before: a standby that calls itself ready goes on at once
        while query.isActive and not ask() and not ended.wait(0.2):
            pass
        driver.finish()  # before Spark's tasks are gone
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
