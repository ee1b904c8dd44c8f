"""The view manager: performs a program's actions on a store, remembers signatures, records what it did.

`steps` is the whole manager as a generator that pauses wherever the world may interfere: before a request
leaves, and between the store having done it and the answer being read. The simulator takes these pauses one
by one and crashes, delays or duplicates there; `maintain` simply runs through them. Nothing is retried here:
every second try belongs to the program, which looks at the signature first.
"""

from collections import OrderedDict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.history.events import Absorbed, TestAndSetCalled, TestAndSetReturned, UpdateReceived
from cvs.manager.recorder import Clock, Recorder
from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.machine import (
    SIGNATURE_BASED,
    Action,
    Ending,
    Entry,
    Found,
    Freshness,
    Policy,
    ReadBase,
    ReadView,
    ScanBase,
    TestAndSet,
    UpdateProgram,
    shown,
)
from cvs.store.port import Body, Key, PartitionId, Store
from cvs.store.port import TestAndSet as Request

REMEMBERED_MAX = 10_000
"""View records whose last state a manager keeps; beyond it the longest unused is read again when needed."""


@dataclass(slots=True)
class Counts:
    """What a manager did since it started."""

    entries: int = 0
    reads: int = 0
    test_and_sets: int = 0
    applied: int = 0
    rejected: int = 0
    unknown: int = 0
    gave_up: int = 0


@dataclass(frozen=True, slots=True)
class Remembered:
    """The state of a view record as this manager last left it."""

    signature: Signature
    rows: Mapping[Key, Body]


@dataclass(slots=True, kw_only=True)
class ViewManager:
    """One process's hands: `process` names it in histories; `remember` keeps signatures between entries."""

    store: Store
    process: str = "m0"
    policy: Policy = SIGNATURE_BASED
    recorder: Recorder | None = None
    clock: Clock = lambda: 0
    remember: bool = False
    counts: Counts = field(default_factory=Counts)
    _memory: OrderedDict[PartitionId, Remembered] = field(default_factory=OrderedDict)
    _operation: int = 0

    def maintain(self, program: UpdateProgram, entry: Entry, *, attempt: int = 1) -> Ending:
        """Propagate one entry to one view, start to end."""
        steps = self.steps(program, entry, attempt=attempt)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                ending: Ending = stop.value
                return ending

    def steps(
        self, program: UpdateProgram, entry: Entry, *, attempt: int = 1
    ) -> Generator[None, None, Ending]:
        """Propagate one entry, pausing before every request and before every answer."""
        self.counts.entries += 1
        self._note_received(entry, attempt)
        run = program.propagate(entry, self.policy)
        answer: Any = None  # because each action has its own kind of answer
        while True:
            try:
                action = run.send(answer)
            except StopIteration as stop:
                ending: Ending = stop.value
                self.counts.gave_up += ending is Ending.GAVE_UP
                return ending
            if isinstance(action, TestAndSet):
                operation = self._note_called(program.view, action)
                yield
                answer = self.store.test_and_set(_request(program.view, action))
                yield
                self._note_returned(operation, answer)
                self._learn(program.view, action, answer)
            else:
                if not self._from_memory(program.view, action):
                    yield
                answer = self._read(program.view, action)

    def forget(self) -> None:
        """Drop everything remembered, as a crash does."""
        self._memory.clear()

    def _from_memory(self, view: str, action: Action) -> bool:
        return (
            isinstance(action, ReadView)
            and action.freshness is Freshness.CACHED
            and PartitionId(table=view, key=action.key) in self._memory
        )

    def _read(self, view: str, action: Action) -> Any:
        if isinstance(action, ReadBase):
            self.counts.reads += 1
            return self.store.read_base(action.table, action.key)
        if isinstance(action, ScanBase):
            self.counts.reads += 1
            return self.store.scan_base(action.table, action.column, action.value)
        assert isinstance(action, ReadView)
        at = PartitionId(table=view, key=action.key)
        remembered = self._memory.get(at) if action.freshness is Freshness.CACHED else None
        if remembered:
            return Found(remembered.signature, remembered.rows, cached=True)
        self.counts.reads += 1
        partition = self.store.read(at, serial=action.freshness is Freshness.SERIAL)
        if self.remember and partition.signature is not None:
            self._keep(at, Remembered(partition.signature, partition.rows))
        return Found(partition.signature, partition.rows)

    def _learn(self, view: str, action: TestAndSet, outcome: Outcome) -> None:
        """Count the answer; remember what we surely wrote, forget what we cannot be sure of."""
        self.counts.test_and_sets += 1
        self.counts.applied += outcome.kind is OutcomeKind.APPLIED
        self.counts.rejected += outcome.kind is OutcomeKind.REJECTED
        self.counts.unknown += outcome.kind is OutcomeKind.UNKNOWN
        if not self.remember:
            return
        at = PartitionId(table=view, key=action.key)
        known = self._memory.get(at)
        complete = known.rows if known and known.signature == action.expected else None
        if action.expected is None:
            complete = {}
        if outcome.kind is not OutcomeKind.APPLIED or complete is None:
            self._memory.pop(at, None)
            return
        rows = {key: row for key, row in complete.items() if key not in action.deletes}
        self._keep(at, Remembered(action.new, {**rows, **dict(action.puts)}))

    def _keep(self, at: PartitionId, remembered: Remembered) -> None:
        self._memory[at] = remembered
        self._memory.move_to_end(at)
        if len(self._memory) > REMEMBERED_MAX:
            self._memory.popitem(last=False)

    def _note_received(self, entry: Entry, attempt: int) -> None:
        if self.recorder is None:
            return
        self.recorder.record(
            UpdateReceived(
                process=self.process,
                time=self.clock(),
                stream=entry.stream,
                entry=entry.entry,
                table=entry.table,
                key=entry.key,
                version=entry.version,
                attempt=attempt,
            )
        )

    def _note_called(self, view: str, action: TestAndSet) -> int:
        self._operation += 1
        if self.recorder is not None:
            entry = action.entry
            absorbed = Absorbed(
                table=entry.table, key=entry.key, from_version=entry.version - 1, to_version=entry.version
            )
            self.recorder.record(
                TestAndSetCalled(
                    process=self.process,
                    time=self.clock(),
                    operation=self._operation,
                    view=view,
                    view_key=action.key,
                    expected=action.expected.scalars if action.expected else None,
                    new=action.new.scalars,
                    row=shown(action.row),
                    absorbed=(absorbed,),
                )
            )
        return self._operation

    def _note_returned(self, operation: int, outcome: Outcome) -> None:
        if self.recorder is None:
            return
        returned = outcome.returned.scalars if outcome.returned else None
        self.recorder.record(
            TestAndSetReturned(
                process=self.process,
                time=self.clock(),
                operation=operation,
                outcome=outcome.kind.value,
                returned=returned,
            )
        )


def _request(view: str, action: TestAndSet) -> Request:
    return Request(
        partition=PartitionId(table=view, key=action.key),
        expected=action.expected,
        new=action.new,
        puts=action.puts,
        deletes=action.deletes,
    )
