"""The world: base writers, streams, managers and a store, moved one named step at a time.

Nothing happens between steps, and a step is a function of the world before it: so a list of steps is a
schedule that can be replayed, cut and shrunk. The programs, the manager and the recorder are the real ones;
only the store is in memory and its postman does what the step says.

    write             the next base update is written and appended to its record's stream
    m0 take 2         manager 0, idle, takes an entry: the next of its streams (modulo what is there),
                      or, without flow control, any entry nobody has taken
    m0                manager 0 goes on to its next pause: one request sent, or one answer read
    m0 lose/drop/delay    the same, and its test-and-set goes through but the answer is lost, or never
                      arrives, or arrives later (`arrive 0`); in all three the outcome is unknown
    m0 unsent         the same, and the manager knows that its test-and-set did not leave
    m0 crash          manager 0 forgets everything and gets its streams again from their last checkpoints
    m0 takeover       manager 0 seems dead: the next manager gets its streams; 0 finishes what it had begun
    checkpoint 1      stream 1 will not be delivered again before where it stands
"""

import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from cvs.history.events import (
    BaseUpdateCalled,
    BaseUpdateReturned,
    Checkpoint,
    Event,
    ManagerCrashed,
    Quiescent,
    RunStarted,
    ViewReadCalled,
    ViewReadReturned,
)
from cvs.manager.recorder import ListRecorder
from cvs.manager.view_manager import ViewManager
from cvs.model.definitions import definition_to_json
from cvs.model.views import BaseTable, ViewDefinition
from cvs.programs.machine import (
    RECORD,
    SIGNATURE_BASED,
    Ending,
    Entry,
    Key,
    Policy,
    Row,
    UpdateProgram,
    shown,
)
from cvs.simulate.faulty_store import Fault, FaultyStore, State

Step = tuple[str, int, int]
"""Kind, manager (or stream, or message), choice."""

Write = tuple[str, Key, Row | None]
"""Table, base key, the row after it (None: deleted)."""

FAULTS = {fault.value: fault for fault in Fault}

ENTRY_ATTEMPTS_MAX = 50
"""Times one entry may be handed over again after a run gave up; more means that the world cannot end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a world is made of, before anything happens."""

    program: UpdateProgram
    policy: Policy = SIGNATURE_BASED
    initial: tuple[Write, ...] = ()
    writes: tuple[Write, ...] = ()
    managers: int = 1
    streams: int = 1
    flow_control: bool = True
    remember: bool = False
    definition: ViewDefinition | None = None  # what a history says of the view; None: only its name
    tables: tuple[BaseTable, ...] = ()


@dataclass(slots=True)
class _Task:
    steps: Generator[None, None, Ending]
    entry: Entry
    stream: int


@dataclass(slots=True)
class Timeline:
    """The versions of one base record; the first is the one the world began with."""

    rows: list[Row | None] = field(default_factory=list)


class World:
    """One run. `timelines` and `shown` are what a judge needs; `events` is the history, if recorded."""

    def __init__(self, scenario: Scenario, *, record: bool = False) -> None:
        self.scenario = scenario
        self.store = FaultyStore()
        self.recorder = ListRecorder() if record else None
        self.time = 0
        self.timelines: dict[tuple[str, Key], Timeline] = {}
        self.logs: list[list[Entry]] = [[] for _ in range(scenario.streams)]
        self.positions = [0] * scenario.streams
        self.checkpoints = [0] * scenario.streams
        self.owners = [s % scenario.managers for s in range(scenario.streams)]
        self.waiting: list[Entry] = []  # without flow control: entries nobody has taken
        self.written = 0
        self.tasks: list[_Task | None] = [None] * scenario.managers
        self._load()
        self.initial: dict[Key, Row] = self.store.view()
        self.store.shown.clear()
        self.managers = [self._manager(f"m{m}") for m in range(scenario.managers)]
        self._begin()

    @property
    def shown(self) -> Sequence[State]:
        """Return every state a view record was set to, in order."""
        return self.store.shown

    @property
    def events(self) -> list[Event]:
        """Return the history so far."""
        return self.recorder.events if self.recorder else []

    @property
    def settled(self) -> bool:
        """Say whether everything written is propagated and no message is on its way."""
        return (
            self.written == len(self.scenario.writes)
            and not any(self.tasks)
            and not self.waiting
            and not self.store.in_flight
            and all(p == len(log) for p, log in zip(self.positions, self.logs, strict=True))
        )

    def take(self, step: Step) -> bool:
        """Carry out one step; False where it has no meaning now (so that schedules can be cut)."""
        self.time += 1
        kind, which, choice = step
        if kind == "write":
            return self._write()
        if kind == "arrive":
            return self._arrive(which)
        if kind == "checkpoint":
            return self._checkpoint(which)
        if which >= len(self.tasks):
            return False
        if kind == "take":
            return self._take(which, choice)
        if kind == "crash":
            return self._crash(which)
        if kind == "takeover":
            return self._takeover(which)
        return self._go_on(which, FAULTS.get(kind))

    def finish(self) -> None:
        """Let everything come to rest without further faults; the end of every run."""
        while self.written < len(self.scenario.writes):
            self._write()
        for _ in range(ENTRY_ATTEMPTS_MAX * (1 + len(self.scenario.writes))):
            if self.settled:
                break
            self.time += 1
            while self.store.in_flight:
                self.store.arrive(0)
            for manager in range(len(self.tasks)):
                if self.tasks[manager] is None:
                    self._take(manager, 0)
                while self.tasks[manager] is not None:
                    self._go_on(manager, None)
        assert self.settled, "a program that gives up without anybody disturbing it can never end"
        self._look_at_all()

    def _look_at_all(self) -> None:
        """Read every view record at rest: what nobody built upon says whether it took effect."""
        if not self.recorder:
            return
        view = self.scenario.program.view
        for operation, (at, signature) in enumerate(sorted(self.store.signatures.items(), key=repr), start=1):
            row = shown(self.store.rows.get(at, {}).get(RECORD))
            self.time += 1
            called = ViewReadCalled(
                process="world", time=self.time, operation=operation, view=view, view_key=at.key
            )
            self.recorder.record(called)
            rows = () if row is None else ((at.key, dict(row)),)
            self.recorder.record(
                ViewReadReturned(
                    process="world",
                    time=self.time,
                    operation=operation,
                    rows=rows,
                    signature=signature.scalars,
                )
            )
        self.recorder.record(Quiescent(process="world", time=self.time))

    def _manager(self, process: str) -> ViewManager:
        return ViewManager(
            store=self.store,
            process=process,
            policy=self.scenario.policy,
            recorder=self.recorder,
            clock=lambda: self.time,
            remember=self.scenario.remember,
        )

    def _load(self) -> None:
        """Bring the view to View(B0) with the program itself, before the clock starts."""
        loader = ViewManager(store=self.store)
        for table, key, row in self.scenario.initial:
            self.timelines[table, key] = Timeline([row])
            self.store.base.setdefault(table, {})[key] = row or {}
        for number, (table, key, row) in enumerate(self.scenario.initial, start=1):
            entry = Entry(
                stream="load", entry=number, table=table, key=key, version=0, before=None, after=row
            )
            loader.maintain(self.scenario.program, entry)

    def _begin(self) -> None:
        if not self.recorder:
            return
        base = tuple(
            (table, key, 0, dict(line.rows[0] or {})) for (table, key), line in self.timelines.items()
        )
        view = self.scenario.program.view
        signatures = {at.key: s.scalars for at, s in self.store.signatures.items()}
        views = tuple((view, key, scalars, self.initial.get(key)) for key, scalars in signatures.items())
        made = self.scenario.definition
        meaning = (definition_to_json(made) if made else {}) | {"name": view}
        tables = tuple(definition_to_json(table) for table in self.scenario.tables)
        self.recorder.record(
            RunStarted(process="world", time=0, run="simulated", views=(meaning,), tables=tables)
        )
        self.recorder.record(
            Checkpoint(
                process="world",
                time=0,
                base=base,
                views=tuple((v, k, s, dict(r) if r is not None else None) for v, k, s, r in views),
            )
        )

    def _write(self) -> bool:
        if self.written == len(self.scenario.writes):
            return False
        table, key, after = self.scenario.writes[self.written]
        self.written += 1
        rows = self.store.base.setdefault(table, {})
        before = rows.get(key)
        if before is None and after is None:
            return True  # deleting what is not there makes no version
        line = self.timelines.setdefault((table, key), Timeline([None]))
        version = len(line.rows)
        line.rows.append(after)
        if after is None:
            del rows[key]
        else:
            rows[key] = after
        self._note_write(table, key, version, after)
        stream = stream_of(table, key, self.scenario.streams)
        log = self.logs[stream]
        entry = Entry(
            stream=f"s{stream}",
            entry=len(log) + 1,
            table=table,
            key=key,
            version=version,
            before=before,
            after=after,
        )
        log.append(entry)
        if not self.scenario.flow_control:
            self.waiting.append(entry)
            self.positions[stream] = len(log)
        return True

    def _note_write(self, table: str, key: Key, version: int, after: Row | None) -> None:
        if not self.recorder:
            return
        row = None if after is None else dict(after)
        called = BaseUpdateCalled(
            process="writer",
            time=self.time,
            operation=self.written,
            table=table,
            key=key,
            version=version,
            row=row,
        )
        self.recorder.record(called)
        self.recorder.record(
            BaseUpdateReturned(process="writer", time=self.time, operation=self.written, outcome="applied")
        )

    def _take(self, manager: int, choice: int) -> bool:
        if self.tasks[manager] is not None:
            return False
        if self.waiting:
            entry = self.waiting.pop(choice % len(self.waiting))
            return self._begin_task(manager, entry, stream=-1)
        ready = [
            s
            for s, owner in enumerate(self.owners)
            if owner == manager and self.positions[s] < len(self.logs[s])
        ]
        if not ready:
            return False
        stream = ready[choice % len(ready)]
        return self._begin_task(manager, self.logs[stream][self.positions[stream]], stream=stream)

    def _begin_task(self, manager: int, entry: Entry, *, stream: int) -> bool:
        steps = self.managers[manager].steps(self.scenario.program, entry)
        self.tasks[manager] = _Task(steps, entry, stream)
        return True

    def _go_on(self, manager: int, fault: Fault | None) -> bool:
        task = self.tasks[manager]
        if task is None:
            return False
        self.store.fault = fault
        try:
            next(task.steps)
        except StopIteration as stop:
            self.tasks[manager] = None
            self._ended(manager, task, stop.value)
        self.store.fault = None
        return True

    def _ended(self, manager: int, task: _Task, ending: Ending) -> None:
        if ending is Ending.GAVE_UP:
            if task.stream < 0:
                self.waiting.append(task.entry)
            return
        owned = task.stream >= 0 and self.owners[task.stream] == manager
        if owned and self.positions[task.stream] == task.entry.entry - 1:
            self.positions[task.stream] += 1

    def _crash(self, manager: int) -> bool:
        task = self.tasks[manager]
        self.tasks[manager] = None
        self.managers[manager].forget()
        if task is not None:
            task.steps.close()
            if task.stream < 0:
                self.waiting.append(task.entry)
        for stream, owner in enumerate(self.owners):
            if owner == manager and self.scenario.flow_control:
                self.positions[stream] = self.checkpoints[stream]
        if self.recorder:
            self.recorder.record(ManagerCrashed(process="world", time=self.time, victim=f"m{manager}"))
        return True

    def _takeover(self, manager: int) -> bool:
        heir = (manager + 1) % len(self.tasks)
        mine = [s for s, owner in enumerate(self.owners) if owner == manager]
        if heir == manager or not mine:
            return False
        for stream in mine:
            self.owners[stream] = heir
            self.positions[stream] = self.checkpoints[stream]
        return True

    def _arrive(self, message: int) -> bool:
        if not self.store.in_flight:
            return False
        self.store.arrive(message % len(self.store.in_flight))
        return True

    def _checkpoint(self, stream: int) -> bool:
        if stream >= len(self.positions) or self.checkpoints[stream] == self.positions[stream]:
            return False
        self.checkpoints[stream] = self.positions[stream]
        return True


def stream_of(table: str, key: Key, streams: int) -> int:
    """Return the stream a base record's updates go to: always the same one, on every machine."""
    return zlib.crc32(repr((table, key)).encode()) % streams
