"""Replay: from the events of a run to time-lines, attempts and reads; nothing is judged here.

An attempt keeps its interval (called, returned), widened by the process's clock error, so that every claim
about time stays sound. A call without a return is an unknown outcome with an endless interval.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from cvs.history import events as ev
from cvs.history.fields import outcome_of
from cvs.history.validate import require_keys
from cvs.model.identity import key_identity
from cvs.model.outcome import OutcomeKind

Key = ev.Key
Row = ev.Row
Scalars = ev.Scalars
BaseRecord = tuple[str, Key]

ENDLESS = 1 << 62
"""Later than every time: the return of an operation nobody heard of again."""

UNTOUCHED: Scalars = (0, 0, 0, True)


@dataclass(slots=True, kw_only=True)
class Version:
    """One version of a base record, and when its update was called and returned."""

    row: Row | None
    called: int = -ENDLESS
    returned: int = -ENDLESS
    event: int = -1
    certain: bool = True
    write_time: int | None = None


@dataclass(slots=True, kw_only=True)
class Timeline:
    """The ordered versions of one base record; `first` is the number of the first one known."""

    record: BaseRecord
    versions: list[Version]
    first: int = 0
    missing: bool = False  # numbers in between that no event tells of

    @property
    def last(self) -> int:
        """Return the number of the last version."""
        return self.first + len(self.versions) - 1

    def at(self, number: int) -> Version | None:
        """Return a version by its number, if it is known."""
        index = number - self.first
        return self.versions[index] if 0 <= index < len(self.versions) else None


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One test-and-set that was asked for."""

    event: int
    process: str
    operation: int
    view: str
    key: Key
    expected: Scalars | None
    new: Scalars
    row: Row | None
    absorbed: tuple[ev.Absorbed, ...]
    called: int
    returned: int = ENDLESS
    outcome: OutcomeKind = OutcomeKind.UNKNOWN
    seen: Scalars | None = None
    last_event: int = -1


@dataclass(slots=True, kw_only=True, eq=False)
class Read:
    """One answered read: rows by view key (`key` None: of the whole view)."""

    event: int
    process: str
    view: str
    key: Key | None
    called: int
    returned: int
    rows: dict[Key, Row]
    signature: Scalars | None
    snapshot: bool
    epoch: int | None


@dataclass(slots=True, kw_only=True)
class ViewRecord:
    """What happened to one view record, and what it was at the start."""

    key: Key
    attempts: list[Attempt] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    initial_row: Row | None = None
    initial_signature: Scalars | None = None
    known: bool = False  # a checkpoint told of the start


@dataclass(slots=True, kw_only=True)
class ViewRun:
    """All of one view."""

    name: str
    definition: dict[str, Any] | None = None
    records: dict[Key, ViewRecord] = field(default_factory=dict)
    whole_reads: list[Read] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Commit:
    """An epoch that snapshots may show, and the base updates that it has more than the one before."""

    event: int
    pipeline: str
    epoch: tuple[int, int]  # incarnation, epoch
    time: int  # when it was committed for certain
    absorbed: tuple[ev.Absorbed, ...] = ()


@dataclass(slots=True, kw_only=True)
class Run:
    """A replayed run."""

    name: str = ""
    timelines: dict[BaseRecord, Timeline] = field(default_factory=dict)
    order: list[tuple[BaseRecord, int]] = field(default_factory=list)  # as the updates returned
    views: dict[str, ViewRun] = field(default_factory=dict)
    tables: tuple[dict[str, Any], ...] = ()
    received: list[tuple[BaseRecord, int]] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    void: set[BaseRecord] = field(
        default_factory=set
    )  # shown out of the order of write times, as the pipeline says
    processes: set[str] = field(default_factory=set)
    rest: int | None = None  # when it came to rest, if no base update was under way later
    has_checkpoint: bool = False
    has_base_log: bool = False
    written: set[str] = field(default_factory=set)  # views whose test-and-sets are recorded
    events: int = 0
    first_time: int = 0
    last_time: int = 0

    @property
    def quiescent(self) -> bool:
        """Say whether all that was written was propagated."""
        return self.rest is not None


def _view(run: Run, name: str) -> ViewRun:
    return run.views.setdefault(name, ViewRun(name=name))


def _record(run: Run, view: str, key: Key) -> ViewRecord:
    return _view(run, view).records.setdefault(key, ViewRecord(key=key))


@dataclass(slots=True)
class _Replayer:
    run: Run = field(default_factory=Run)
    base: dict[tuple[str, int], tuple[int, ev.BaseUpdateCalled, int]] = field(default_factory=dict)
    writes: dict[tuple[str, int], Attempt] = field(default_factory=dict)
    reads: dict[tuple[str, int], tuple[int, ev.ViewReadCalled]] = field(default_factory=dict)
    updates: dict[BaseRecord, dict[int, Version]] = field(default_factory=dict)
    start: dict[BaseRecord, tuple[int, Row | None]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    begun: bool = False

    def _started(self, number: int, event: ev.RunStarted) -> None:
        self.run.name = self.run.name or event.run
        self.run.tables = self.run.tables or event.tables
        self.errors[event.process] = event.clock_error
        for definition in event.views:
            view = _view(self.run, str(definition.get("name", "")))
            view.definition = view.definition or definition

    def _base_called(self, number: int, event: ev.BaseUpdateCalled) -> None:
        self.begun = self.run.has_base_log = True
        self.run.rest = None
        error = self.errors.get(event.process, 0)
        self.base[event.process, event.operation] = (number, event, event.time - error)

    def _base_returned(self, number: int, event: ev.BaseUpdateReturned) -> None:
        found = self.base.pop((event.process, event.operation), None)
        if found is None:
            return
        self.run.rest = None
        outcome = outcome_of(event.outcome)
        if outcome in (OutcomeKind.APPLIED, OutcomeKind.UNKNOWN):
            error = self.errors.get(event.process, 0)
            end = event.time + error if outcome is OutcomeKind.APPLIED else ENDLESS
            self._add_version(found[0], found[1], outcome, end)

    def _add_version(
        self, number: int, called: ev.BaseUpdateCalled, outcome: OutcomeKind, returned: int
    ) -> None:
        record = (called.table, key_identity(called.key))
        versions = self.updates.setdefault(record, {})
        error = self.errors.get(called.process, 0)
        certain = outcome is OutcomeKind.APPLIED
        before = versions.get(called.version)
        if before is None or (certain and not before.certain):
            versions[called.version] = Version(
                row=called.row,
                called=called.time - error,
                returned=returned,
                event=number,
                certain=certain,
                write_time=called.write_time,
            )
            self.run.order.append((record, called.version))

    def _received(self, number: int, event: ev.UpdateReceived) -> None:
        self.run.received.append(((event.table, key_identity(event.key)), event.version))

    def _write_called(self, number: int, event: ev.TestAndSetCalled) -> None:
        self.begun = True
        attempt = Attempt(
            event=number,
            process=event.process,
            operation=event.operation,
            view=event.view,
            key=key_identity(event.view_key),
            expected=event.expected,
            new=event.new,
            row=event.row,
            absorbed=event.absorbed,
            called=event.time - self.errors.get(event.process, 0),
            last_event=number,
        )
        self.writes[event.process, event.operation] = attempt
        self.run.written.add(event.view)
        _record(self.run, event.view, attempt.key).attempts.append(attempt)

    def _write_returned(self, number: int, event: ev.TestAndSetReturned) -> None:
        attempt = self.writes.pop((event.process, event.operation), None)
        if attempt is None:
            return
        attempt.outcome = outcome_of(event.outcome)
        attempt.seen = event.returned
        attempt.last_event = number
        if attempt.outcome is not OutcomeKind.UNKNOWN:
            attempt.returned = event.time + self.errors.get(event.process, 0)

    def _read_called(self, number: int, event: ev.ViewReadCalled) -> None:
        self.reads[event.process, event.operation] = (number, event)

    def _read_returned(self, number: int, event: ev.ViewReadReturned) -> None:
        found = self.reads.pop((event.process, event.operation), None)
        if found is None:
            return
        _, called = found
        error = self.errors.get(event.process, 0)
        read = Read(
            event=number,
            process=event.process,
            view=called.view,
            key=None if called.view_key is None else key_identity(called.view_key),
            called=called.time - error,
            returned=event.time + error,
            rows={key_identity(key): row for key, row in event.rows},
            signature=event.signature,
            snapshot=called.snapshot,
            epoch=event.epoch,
        )
        if read.key is None:
            _view(self.run, called.view).whole_reads.append(read)
        else:
            _record(self.run, called.view, read.key).reads.append(read)

    def _committed(self, number: int, event: ev.EpochCommitted) -> None:
        self.run.commits.append(
            Commit(
                event=number,
                pipeline=event.pipeline,
                epoch=(event.incarnation, event.epoch),
                time=event.time + self.errors.get(event.process, 0),
                absorbed=event.absorbed,
            )
        )

    def _checkpoint(self, number: int, event: ev.Checkpoint) -> None:
        if self.begun:
            return
        self.run.has_base_log = self.run.has_checkpoint = True
        for table, key, version, row in event.base:
            self.start[table, key_identity(key)] = (version, row)
        for view, key, signature, row in event.views:
            record = _record(self.run, view, key_identity(key))
            record.initial_row, record.initial_signature, record.known = row, signature, True

    def _claim_void(self, number: int, event: ev.ClaimVoid) -> None:
        self.run.void.add((event.table, key_identity(event.key)))

    def _quiescent(self, number: int, event: ev.Quiescent) -> None:
        self.run.rest = event.time + self.errors.get(event.process, 0)

    def close(self) -> None:
        """Turn the updates into time-lines; what was received or absorbed did happen, whatever its writer
        heard.
        """
        for number, called, _ in self.base.values():
            self._add_version(number, called, OutcomeKind.UNKNOWN, ENDLESS)
        run = self.run
        happened = set(run.received)
        attempts = (a for view in run.views.values() for r in view.records.values() for a in r.attempts)
        for absorbed in (*(a.absorbed for a in attempts), *(c.absorbed for c in run.commits)):
            happened.update(((line.table, key_identity(line.key)), line.to_version) for line in absorbed)
        for record in self.start.keys() | self.updates.keys():
            first, row = self.start.get(record, (0, None))
            updates = self.updates.get(record, {})
            timeline = Timeline(record=record, versions=[Version(row=row)], first=first)
            for number in sorted(n for n in updates if n > first):
                if number != timeline.last + 1:
                    timeline.missing = True
                    break
                timeline.versions.append(updates[number])
            sure = False
            for version_number in range(timeline.last, first, -1):
                version = timeline.versions[version_number - first]
                sure = sure or version.certain or (record, version_number) in happened
                version.certain = sure
            run.timelines[record] = timeline
        known = {(r, n) for r, t in run.timelines.items() for n in range(t.first + 1, t.last + 1)}
        place = {entry: i for i, entry in enumerate(run.order)}
        run.order = sorted((e for e in place if e in known), key=place.__getitem__)


_HANDLERS: dict[type, Any] = {
    ev.RunStarted: _Replayer._started,
    ev.BaseUpdateCalled: _Replayer._base_called,
    ev.BaseUpdateReturned: _Replayer._base_returned,
    ev.UpdateReceived: _Replayer._received,
    ev.TestAndSetCalled: _Replayer._write_called,
    ev.TestAndSetReturned: _Replayer._write_returned,
    ev.ViewReadCalled: _Replayer._read_called,
    ev.ViewReadReturned: _Replayer._read_returned,
    ev.EpochCommitted: _Replayer._committed,
    ev.ClaimVoid: _Replayer._claim_void,
    ev.Checkpoint: _Replayer._checkpoint,
    ev.Quiescent: _Replayer._quiescent,
}


def replay(events: Iterable[Any], numbers: Iterable[int] | None = None) -> Run:
    """Replay one history, in its order; `numbers` names the events of a part as in the whole."""
    replayer = _Replayer()
    run = replayer.run
    numbered = enumerate(events, 1) if numbers is None else zip(numbers, events, strict=True)
    for number, event in numbered:
        run.events = number
        if not run.processes:
            run.first_time = event.time
        run.processes.add(event.process)
        run.last_time = max(run.last_time, event.time)
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(replayer, number, event)
    replayer.close()
    require_keys(_shown(run), (view.definition for view in run.views.values() if view.definition))
    return run


def _shown(run: Run) -> Iterator[tuple[str, Key]]:
    """Yield every view record that is spoken of."""
    for view in run.views.values():
        records = view.records.values()
        keys = chain(view.records, *(read.rows for record in records for read in record.reads))
        yield from ((view.name, key) for key in chain(keys, *(read.rows for read in view.whole_reads)))
