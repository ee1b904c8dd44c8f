"""Per-entry programs on a real cluster: managers in processes of their own contending on few view records.

Each process handles one stream in order. It may be killed at any moment and started again; it then gets its
stream from the beginning, as after the loss of every checkpoint, so everything it had done comes again. What it
did is in one history file a life; all lives and the writer's log together are one run for the judge.
"""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import msgspec

from cvs.errors import StoreError
from cvs.history.codec import event_of
from cvs.history.events import (
    BaseUpdateCalled,
    BaseUpdateReturned,
    Checkpoint,
    Quiescent,
    RunStarted,
    TestAndSetCalled,
    ViewReadCalled,
    ViewReadReturned,
)
from cvs.manager.recorder import FileRecorder
from cvs.manager.view_manager import Counts, ViewManager
from cvs.model.definitions import definition_to_json
from cvs.programs.machine import RECORD, Ending, Entry, Key, Row, UpdateProgram, shown
from cvs.simulate.world import stream_of
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.suite.classes import ViewClass, view_class
from cvs.suite.strategies import update_of

RUN = "contention"  # every file of a run names the same run
ENTRY_SECONDS_MAX = 120.0
"""How long an entry is handed over again and again; the cluster is gone if that is not enough."""

PAUSE_S = 0.002
"""First pause after a run gave up; doubled each time, with a random part, so that managers fall out of step."""

KILL_AFTER = 2
"""Test-and-sets a manager must have had answered before it is killed: sooner, nothing would come again."""

LOOK_S = 0.002
"""How often the history of a victim is looked at."""

LIFE_SECONDS_MAX = 240.0
"""How long one process may take for its stream before the run counts as stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """What a run on a cluster is made of."""

    view: str = "count"
    program: str = "signature"
    processes: int = 8
    keys: int = 24
    updates: int = 240
    kills: int = 3
    remember: bool = True
    patience_s: tuple[float, ...] = (10.0,)  # request timeouts, dealt to the managers in turn
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process's work; plain data, so that it travels to a spawned process."""

    address: ClusterAddress
    keyspace: str
    view: str
    program: str
    process: str
    entries: tuple[Entry, ...]
    history: Path
    remember: bool
    patience_s: float
    seed: int


@dataclass(slots=True, kw_only=True)
class Finished:
    """What came of a run: the folder of its history, and what the last lives of the managers counted."""

    folder: Path
    seconds: float
    entries: int
    kills: int
    counts: list[Counts] = field(default_factory=list)


def work(job: Job) -> None:
    """Propagate one stream from its beginning to its end; the body of a manager's process."""
    shape = view_class(job.view)
    variant = shape.variant(job.program)
    session = CassandraSession(job.address)
    recorder = FileRecorder(job.history)
    random = Random(job.seed)  # noqa: S311 -- because it only spreads pauses
    recorder.record(RunStarted(process=job.process, time=time.monotonic_ns(), run=RUN))
    manager = ViewManager(
        store=CassandraStore(session, keyspace=job.keyspace),
        process=job.process,
        policy=variant.policy,
        recorder=recorder,
        clock=time.monotonic_ns,
        remember=job.remember,
    )
    # Connecting gets its time; only requests are given up early.
    session.driver.cluster.profile_manager.default.request_timeout = job.patience_s
    for entry in job.entries:
        until, attempt = time.monotonic() + ENTRY_SECONDS_MAX, 1
        while not _propagated(manager, variant.program, entry, attempt):
            if time.monotonic() > until:
                raise StoreError(
                    f"entry {entry.entry} of stream {entry.stream} could not be propagated in {attempt} attempts",
                    where=job.process,
                    next_step="look at the cluster: test-and-sets are refused or lost again and again",
                )
            time.sleep(PAUSE_S * 2 ** min(attempt, 8) * random.random())
            attempt += 1
    recorder.close()
    session.close()
    job.history.with_suffix(".counts").write_bytes(msgspec.json.encode(manager.counts))


def _propagated(manager: ViewManager, program: UpdateProgram, entry: Entry, attempt: int) -> bool:
    """Try an entry; a read that failed leaves it where it was, as giving up does."""
    try:
        return manager.maintain(program, entry, attempt=attempt) is not Ending.GAVE_UP
    except Exception:  # noqa: BLE001 -- because whatever a read fails with, nothing was written
        manager.forget()
        return False


def contended(
    address: ClusterAddress,
    keyspace: str,
    plan: Contention,
    folder: Path,
    *,
    disturb: Callable[[], None] = lambda: None,
) -> Finished:
    """Write a base log, let all processes propagate it at once, kill some, and leave the whole history.

    `disturb` runs beside them, once, in a thread: what it does to the cluster is its own affair, and at its end
    the cluster must be whole again.
    """
    shape = view_class(plan.view)
    store = CassandraStore(CassandraSession(address), keyspace=keyspace)
    store.create(shape.variant(plan.program).program.view)
    streams = _written(shape, plan, folder / "writer.ndjson")
    jobs = [
        Job(
            address=address,
            keyspace=keyspace,
            view=plan.view,
            program=plan.program,
            process=f"m{number}.1",
            entries=tuple(entries),
            history=folder / f"m{number}.1.ndjson",
            remember=plan.remember,
            patience_s=plan.patience_s[number % len(plan.patience_s)],
            seed=plan.seed + number,
        )
        for number, entries in enumerate(streams)
    ]
    started = time.monotonic()
    crew = _Crew(jobs)
    with ThreadPoolExecutor(max_workers=1) as beside:
        disturbed = beside.submit(disturb)
        kills = crew.killed(plan.kills, Random(plan.seed))  # noqa: S311 -- because chance is replayed, not secret
        counts = crew.counts()
        disturbed.result()
    _rest(folder, store, shape.variant(plan.program).program.view)
    return Finished(
        folder=folder,
        seconds=time.monotonic() - started,
        entries=sum(map(len, streams)),
        kills=kills,
        counts=counts,
    )


class _Crew:
    """The processes of a run; each job has one life at a time."""

    def __init__(self, jobs: list[Job]) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])  # so that a life begins in milliseconds
        self._jobs = jobs
        self._lives = [self._born(job) for job in jobs]

    def _born(self, job: Job) -> "multiprocessing.process.BaseProcess":
        life = self._context.Process(target=work, args=(job,), daemon=True)
        life.start()
        return life

    def killed(self, times: int, random: Random) -> int:
        """Kill some managers at moments of chance and start their next lives at once."""
        kills = 0
        for number in range(times):
            victim = random.randrange(len(self._jobs))
            if not self._has_worked(victim):
                continue
            life, job = self._lives[victim], self._jobs[victim]
            life.kill()
            life.join(LIFE_SECONDS_MAX)
            name = f"{job.process.split('.')[0]}.{number + 2}"
            self._jobs[victim] = replace(job, process=name, history=job.history.with_name(f"{name}.ndjson"))
            self._lives[victim] = self._born(self._jobs[victim])
            kills += 1
        return kills

    def _has_worked(self, victim: int) -> bool:
        """Wait until a manager has something to lose; False if it was done before we looked."""
        life, history = self._lives[victim], self._jobs[victim].history
        deadline = time.monotonic() + LIFE_SECONDS_MAX
        while life.is_alive() and time.monotonic() < deadline:
            if history.exists() and history.read_bytes().count(b"test_and_set_returned") >= KILL_AFTER:
                return True
            time.sleep(LOOK_S)
        return False

    def counts(self) -> list[Counts]:
        """Wait for the last lives and return what they counted; one that failed fails the run."""
        for life, job in zip(self._lives, self._jobs, strict=True):
            life.join(LIFE_SECONDS_MAX)
            if life.exitcode != 0:
                life.kill()
                raise StoreError(
                    f"manager {job.process} ended with {life.exitcode}",
                    next_step="see what it said on stderr",
                )
        files = [job.history.with_suffix(".counts") for job in self._jobs]
        return [msgspec.json.decode(file.read_bytes(), type=Counts) for file in files]


def _written(shape: ViewClass, plan: Contention, path: Path) -> list[list[Entry]]:
    """Make the base log, record it, and deal it to streams by base key."""
    random = Random(plan.seed)  # noqa: S311 -- because chance is replayed, not secret
    program = shape.variant(plan.program).program
    recorder = FileRecorder(path)
    said = shape.recorded_definition
    views = () if said is None else ({**definition_to_json(said), "name": program.view},)
    tables = tuple(definition_to_json(table) for table in shape.tables.values())
    recorder.record(
        RunStarted(process="writer", time=time.monotonic_ns(), run=RUN, views=views, tables=tables)
    )
    recorder.record(Checkpoint(process="writer", time=time.monotonic_ns(), base=(), views=()))
    rows: dict[tuple[str, Key], Row | None] = {}
    versions: dict[tuple[str, Key], int] = {}
    streams: list[list[Entry]] = [[] for _ in range(plan.processes)]
    for operation in range(1, plan.updates + 1):
        was = dict(rows)
        table, key, after = update_of(shape, random, rows, plan.keys)
        version = versions[table, key] = versions.get((table, key), 0) + 1
        called = BaseUpdateCalled(
            process="writer",
            time=time.monotonic_ns(),
            operation=operation,
            table=table,
            key=key,
            version=version,
            row=None if after is None else dict(after),
        )
        recorder.record(called)
        recorder.record(
            BaseUpdateReturned(
                process="writer", time=time.monotonic_ns(), operation=operation, outcome="applied"
            )
        )
        number = stream_of(table, key, plan.processes)
        stream = streams[number]
        entry = Entry(
            stream=f"s{number}",
            entry=len(stream) + 1,
            table=table,
            key=key,
            version=version,
            before=was.get((table, key)),
            after=after,
        )
        stream.append(entry)
    recorder.close()
    return streams


def _rest(folder: Path, store: CassandraStore, view: str) -> None:
    """Read every view record that was asked for, at SERIAL: what nobody built upon says whether it took effect."""
    recorder = FileRecorder(folder / "end.ndjson")
    recorder.record(RunStarted(process="end", time=time.monotonic_ns(), run=RUN))
    lines = (line for file in sorted(folder.glob("m*.ndjson")) for line in file.read_bytes().splitlines(True))
    asked = (event_of(line) for line in lines if b"test_and_set_called" in line and line.endswith(b"\n"))
    keys = dict.fromkeys(event.view_key for event in asked if isinstance(event, TestAndSetCalled))
    for operation, key in enumerate(keys, start=1):
        called = ViewReadCalled(
            process="end", time=time.monotonic_ns(), operation=operation, view=view, view_key=key
        )
        recorder.record(called)
        found = store.read(PartitionId(table=view, key=key), serial=True)
        row = shown(found.rows.get(RECORD))
        recorder.record(
            ViewReadReturned(
                process="end",
                time=time.monotonic_ns(),
                operation=operation,
                rows=() if row is None else ((key, row),),
                signature=found.signature.scalars if found.signature else None,
            )
        )
    recorder.record(Quiescent(process="end", time=time.monotonic_ns()))
    recorder.close()
