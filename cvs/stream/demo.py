"""The play of `cvs demo`: a shop on a real node, a pipeline that is killed, a zombie, and what they leave behind.

Everything runs as it would in production: the node, the capture and the pipeline are processes of their own;
the writer only knows the plain driver.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cassandra import DriverException
from cassandra.cluster import NoHostAvailable

from cvs.client.control import control_if_any
from cvs.client.snapshot import ViewReader
from cvs.embedded.processes import end_with_owner
from cvs.errors import StoreError
from cvs.history.codec import event_of, history_bytes
from cvs.manager.recorder import FileRecorder
from cvs.model.recompute import recompute
from cvs.programs.epoch import Control
from cvs.programs.epoch_run import without_claim
from cvs.programs.stage_bucket import drive
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.certificates import Assembler
from cvs.stream.epochs import epochs
from cvs.stream.readers import SnapshotReader
from cvs.stream.recipe import recipe_of
from cvs.stream.shop import KEYSPACE, Writer, create_shop, make_keyspace
from cvs.stream.shop import VIEWS as SHOP_VIEWS
from cvs.stream.tables import Names

VIEWS = "views"
NAIVE = "naive"
READY_SECONDS = 90.0
DRAIN_SECONDS = 60.0


@dataclass(slots=True)
class Stage:
    """The folder, the node's address, and the processes on stage."""

    folder: Path
    address: ClusterAddress
    template: str = SHOP_VIEWS
    replicas: int = 1
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    session: CassandraSession = field(init=False)

    def __post_init__(self) -> None:
        """Open the session the play itself uses."""
        self.session = CassandraSession(self.address)

    def file(self, name: str) -> Path:
        """Return a path in the folder."""
        return self.folder / name

    def views_sql(self, views: str = VIEWS) -> str:
        """Return the views, published into a keyspace."""
        return self.template.format(views=views)

    def start(
        self, *arguments: str, log: str, environment: Mapping[str, str] = MappingProxyType({})
    ) -> "subprocess.Popen[bytes]":
        """Start one command of cvs as a process of its own."""
        return self.start_command([sys.executable, "-m", "cvs", *arguments], log=log, environment=environment)

    def start_command(
        self, command: list[str], *, log: str, environment: Mapping[str, str] = MappingProxyType({})
    ) -> "subprocess.Popen[bytes]":
        """Start a process of the play."""
        surroundings = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **environment}
        with self.file(log).open("ab") as out:
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **surroundings},
                start_new_session=True,
                preexec_fn=end_with_owner,  # noqa: PLW1509 -- because it is one system call
            )
        self.processes.append(process)
        return process

    def capture(self) -> "subprocess.Popen[bytes]":
        """Start the capture of the node's log."""
        return self.capture_of(self.address.contact_points[0])

    def capture_of(self, node: str) -> "subprocess.Popen[bytes]":
        """Start the capture of one of several nodes."""
        options = ("--node", node, "--port", str(self.address.port), "--feed", str(self.file("feed")))
        return self.start("capture", *options, log=f"capture-{node}.log")

    def pipeline(
        self, *extra: str, views: str = VIEWS, spark: bool = True, log: str = ""
    ) -> "subprocess.Popen[bytes]":
        """Start a pipeline; its views are applied first."""
        settings = self.file(f"{views}.toml")
        if not settings.exists():
            self._apply(settings, views)
        environment = {"CVS_SPARK_MASTER": "local[2]" if spark else ""}
        arguments = ("run", "--settings", str(settings), *extra)
        return self.start(*arguments, log=log or f"run-{views}.log", environment=environment)

    def _apply(self, settings: Path, views: str) -> None:
        address, few = self.address, 150 if views == NAIVE else 20_000
        settings.write_text(
            f"[cluster]\ncontact_points = {list(address.contact_points)}\nport = {address.port}\n"
            f'[views]\nstate_keyspace = "cvs_{views}"\npublished_keyspace = "{views}"\n'
            f'[feed]\nname = "{self.file("feed")}"\n[pipeline]\nchanges_an_epoch = {few}\n'
            f'[recording]\nfolder = "{self.file(f"log_{views}")}"\n[http]\nport = 0\n'
        )
        text = self.file(f"{views}.sql")
        text.write_text(self.views_sql(views))
        log = f"apply-{views}.log"
        arguments = ("apply", str(text), "--settings", str(settings), "--yes", "--whole-feed")
        if self.start(*arguments, log=log).wait() != 0:
            raise StoreError("the views cannot be applied", where=str(self.file(log)))

    def control(self, views: str = VIEWS) -> Control | None:
        """Read a pipeline's control row; None before there is one."""
        return control_if_any(self.session, f"cvs_{views}")

    def end(self) -> None:
        """End every process that is left."""
        for process in self.processes:
            if process.poll() is None:
                for number in (signal.SIGCONT, signal.SIGKILL):
                    os.killpg(process.pid, number)
                process.wait()
        self.session.close()


@contextmanager
def on_stage(
    folder: Path, address: ClusterAddress, *, views: str = SHOP_VIEWS, replicas: int = 1
) -> Iterator[Stage]:
    """Open the stage; whatever happens, nothing is left running."""
    stage = Stage(folder, address, views, replicas)
    try:
        wait_for(lambda: _made(stage), seconds=READY_SECONDS, what="making the shop's tables")
        yield stage
    finally:
        stage.end()


def _made(stage: Stage) -> bool:
    """Make the tables; a node that has just opened its port may still refuse."""
    try:
        create_shop(stage.session, replicas=stage.replicas)
        for views in (VIEWS, NAIVE):
            make_keyspace(stage.session, views, replicas=stage.replicas)
    except (DriverException, NoHostAvailable):
        return False
    return True


@dataclass(slots=True)
class Load:
    """Writers in the background."""

    stage: Stage
    pause: float
    orders: int = 60
    seed: int = 1
    skew_seconds: float = 0.0
    writer: Writer = field(init=False)
    _thread: threading.Thread = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Fill the shop and start writing."""
        recorder = FileRecorder(self.stage.file("writer.ndjson"))
        chance = random.Random(self.seed)  # noqa: S311 -- because a repeatable workload is wanted, not a secret
        skew = self.skew_seconds
        self.writer = Writer(self.stage.session, recorder, chance, orders=self.orders, skew_seconds=skew)
        self.writer.fill()
        arguments = {"pause": self.pause}
        self._thread = threading.Thread(target=self.writer.run, args=(self._stop.is_set,), kwargs=arguments)
        self._thread.start()

    def stop(self) -> None:
        """Stop writing."""
        self._stop.set()
        self._thread.join()


@dataclass(slots=True)
class Readers:
    """A snapshot reader in the background: what it sees is judged as the whole of each view."""

    stage: Stage
    views: str = VIEWS
    pause: float = 0.2
    _thread: threading.Thread = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Start reading the views that keep state."""
        stage, names = self.stage, Names(keyspace=f"cvs_{self.views}")
        recipe, _ = recipe_of(stage.session, stage.views_sql(self.views), names=names, keyspaces=(KEYSPACE,))
        reader = SnapshotReader(
            ViewReader(stage.session, keyspace=names.keyspace, plan_of=lambda _: recipe.plan),
            FileRecorder(stage.file(f"reader_{self.views}.ndjson")),
        )
        zones = {stage.name for zone in recipe.plan.zones for stage in zone.stages}
        shown = [p.view for p in recipe.plan.publications if {e.source for e in p.inputs} <= zones]
        self._thread = threading.Thread(
            target=reader.run, args=(shown, self._stop.is_set), kwargs={"pause": self.pause}
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()


def wait_for(condition: Callable[[], bool], *, seconds: float, what: str) -> float:
    """Wait until something is so; return how long it took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise StoreError(
                f"{what} did not happen within {seconds:.0f} s", next_step="read the logs of the run"
            )
        time.sleep(0.1)
    return time.monotonic() - started


def lag_seconds(control: Control | None) -> float | None:
    """Return how old the newest base write may be that the views do not show yet."""
    if control is None or not control.committed:
        return None
    return max(time.time() - control.committed_watermark / 1e6, 0.0)


def caught_up(stage: Stage, after: int, views: str = VIEWS) -> bool:
    """Say whether everything written before a time (microseconds) is committed."""
    control = stage.control(views)
    return control is not None and control.committed_watermark > after


def rows_of(session: CassandraSession, table: str) -> list[dict[str, Any]]:
    """Read a whole table."""
    result = session.driver.execute(f"SELECT * FROM {table}")
    names = result.column_names
    return [dict(zip(names, row, strict=True)) for row in result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One view held against a recomputation from the base tables."""

    view: str
    rows: int
    wrong: int


def compare(stage: Stage, views: str = VIEWS) -> list[Compared]:
    """Recompute every view from the base tables and compare row by row."""
    names = Names(keyspace=f"cvs_{views}")
    recipe, declared = recipe_of(stage.session, stage.views_sql(views), names=names, keyspaces=(KEYSPACE,))
    base = {name: rows_of(stage.session, name) for name in recipe.definitions}
    tables = {base_table.name: base_table for base_table in recipe.plan.bases}
    found = []
    for view in declared:
        key = [*view.key.partition, *(name for name, _ in view.key.clustering)]
        expected = {tuple(r[k] for k in key): r for r in recompute(view.definition, base, tables).values()}
        shown = {tuple(r[k] for k in key): r for r in rows_of(stage.session, view.name)}
        wrong = sum(expected.get(k) != shown.get(k) for k in expected.keys() | shown.keys())
        found.append(Compared(view=view.name, rows=len(expected), wrong=wrong))
    return found


def write_history(stage: Stage, views: str = VIEWS) -> Path:
    """Assemble what writer and pipelines recorded into one history for the judge."""
    names = Names(keyspace=f"cvs_{views}")
    recipe, declared = recipe_of(stage.session, stage.views_sql(views), names=names, keyspaces=(KEYSPACE,))
    described = [
        (
            view.definition,
            tuple(name for name, _ in view.columns),
            (*view.key.partition, *(name for name, _ in view.key.clustering)),
        )
        for view in declared
    ]
    assembler = Assembler(described, {table.name: table for table in recipe.plan.bases})
    written = [
        event_of(line)
        for name in ("writer", f"reader_{views}")
        if (log := stage.file(f"{name}.ndjson")).exists()
        for line in log.read_bytes().splitlines()
    ]
    logs = sorted(stage.file(f"log_{views}").glob("*.log"))
    void = drive(without_claim(recipe.program()), recipe.door(stage.session))
    events = assembler.history(written, epochs(logs), run=f"demo {views}", void=void)
    path = stage.file(f"{views}.ndjson")
    path.write_bytes(history_bytes(events))
    return path
