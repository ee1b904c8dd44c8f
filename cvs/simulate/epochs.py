"""The epoch protocol in a world of named steps: base writers, a feed, drivers over one control row, readers.

Nothing happens between steps, and a step without meaning is passed over: a list of steps is a schedule that can
be replayed, cut and shrunk. The machines are the real ones (`programs.epoch`, `programs.epoch_run`); the door
is in memory or leads to Cassandra, and between driver and door stands a postman who does what the step says.

    write            the next base write enters the feed
    copy             the next write whose copy from another replica is still to come enters the feed again
                     (`apart`: one of two replicas' logs goes on, `feeds.py`)
    d0 2             driver 0 sends one request of its round (the third that is unanswered, modulo), or goes on
    d0 lose/drop/delay 2   the same; the answer is lost, or the request, or the request arrives later
    d0 crash         driver 0 forgets everything and starts from the control row
    arrive 0         a late request reaches the store
    r0               reader 0 takes one step of a snapshot read of the next view
    forget 0         a bucket of dead rows goes, signature and all (only without the rule, `hazards.py`)
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.stages import Plan, Publication
from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import Pin, commit, next_pin, pin_next, read_control
from cvs.programs.epoch_run import EpochResult, Program, run_epoch
from cvs.programs.machine import Key, Row
from cvs.programs.stage_bucket import ALL_RULES, ReadBucket, SetBucket
from cvs.programs.stage_codec import Values, pack
from cvs.programs.stage_delta import DeltaInput, PartitionChanges, ReadImages
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_publish import PutRows
from cvs.programs.stage_snapshot import SnapshotReader
from cvs.simulate.feeds import (
    Apart,
    Door,
    Naming,
    PlainNames,
    Written,
    base_reader,
    key_places,
    logged,
)
from cvs.simulate.world import Step, Timeline, Write
from cvs.store.port import PartitionId

UNKNOWN = Outcome(kind=OutcomeKind.UNKNOWN, reason="no answer")
STEPS_MAX = 20_000
STOPS_MAX = 5
"""Requests of a whole run, and stops of drivers that nobody disturbs: more means that it never comes to rest."""

Machine = Generator[list[Any], list[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochScenario:
    """What a world of epochs is made of; `limit`: changes one epoch takes at most."""

    plan: Plan
    writes: tuple[Write, ...]
    initial: tuple[Write, ...] = ()  # what the first epoch is made of, before the clock starts
    drivers: int = 2
    readers: int = 1
    limit: int = 4
    rows_a_statement: int = 2  # small, so that a bucket takes several test-and-sets (H7)
    copies: bool = True  # another replica's log brings every write a second time, later
    half_repaired: bool = (
        False  # a plain read may see an unheard test-and-set's signature without its rows (H28)
    )
    apart: bool = False  # two replicas' logs differ: the write-time line
    off: tuple[str, ...] = ()  # rules turned off, by their names in `hazards.py`


@dataclass(slots=True)
class Walker:
    """A driver or a reader: a machine, the round it asked for, and the answers that have come."""

    machine: Machine | None = None
    requests: list[Any] = field(default_factory=list)
    answers: dict[int, Any] = field(default_factory=dict)
    resting: bool = False  # asked for nothing: there was nothing to do

    def advance(self, *, start: bool) -> Any:
        """Let the machine compute its next round."""
        assert self.machine is not None
        answers = [self.answers[i] for i in range(len(self.requests))]
        self.requests = next(self.machine) if start else self.machine.send(answers)
        self.answers = {}
        self.resting = not self.requests


class EpochWorld:
    """One run. `timelines`, `shown` and `snapshots` are what a judge needs."""

    def __init__(
        self, scenario: EpochScenario, *, door: Door | None = None, naming: Naming | None = None
    ) -> None:
        self.scenario = scenario
        self.rules = replace(ALL_RULES, rows_a_statement=scenario.rows_a_statement)
        plan = scenario.plan
        names = naming or PlainNames()
        self.door = door or MemoryDoor(keys={p.table: key_places(p) for p in plan.publications})
        self.program = Program.of(
            plan,
            [base_reader(base, names.delta(base.name)) for base in plan.bases],
            {zone.name: names.state(zone.name) for zone in plan.zones},
        )
        self.tables = {base.name: base for base in plan.bases}
        self.timelines: dict[tuple[str, Key], Timeline] = {}
        self.absorbed: dict[tuple[str, Key], Timeline] = {}
        self._absorbed_to = 0
        self.logs: dict[str, list[Written]] = {"a": [], "b": []}
        self.apart: Apart | None = None
        self.written = 0
        self.time = 0
        self.moments: list[tuple[int, str, Any]] = []  # what happened, for histories: time, kind, what
        self.shown: dict[str, list[tuple[PartitionId, Row | None]]] = {p.view: [] for p in plan.publications}
        self.snapshots: dict[str, list[dict[Key, Row]]] = {p.view: [] for p in plan.publications}
        self.in_flight: list[Any] = []
        self.stops = self.steps = self.changes = 0
        self._views = [p.view for p in plan.publications]
        self._last: dict[str, dict[Key, Row]] = {p.table: {} for p in plan.publications}
        self._readers = [
            SnapshotReader(compute, self.program.zones, self.program.tables)
            for compute in self.program.publications
        ]
        self._next_view = 0
        self.broken = ""  # what a machine found that cannot be, or that nobody ever finishes
        self._load()
        self.initial = {p.view: self._named(p, dict(self.door.showing(p.table))) for p in plan.publications}
        self.drivers = [self._born() for _ in range(scenario.drivers)]
        self.readers = [Walker() for _ in range(scenario.readers)]

    @property
    def settled(self) -> bool:
        """Say whether everything written is committed and shown, and nobody is on the way."""
        return (
            self.written == len(self.scenario.writes)
            and (len(self.logs["b"]) == len(self.logs["a"]) or not self.scenario.copies)
            and not self.in_flight
            and (self.apart is None or self.apart.quiet)
            and all(d.resting for d in self.drivers)
        )

    def take(self, step: Step) -> bool:
        """Carry out one step; False where it has no meaning now."""
        self.time += 1
        kind, which, choice = step
        if kind == "write":
            return self._write()
        if kind == "copy":
            return self._copy()
        if kind == "arrive":
            return self._arrive(which)
        if kind == "read":
            return self._read_on(which)
        if which >= len(self.drivers) or kind == "forget":
            return False
        if kind == "crash":
            self.drivers[which] = self._born()
            return True
        return self._go_on(which, kind, choice)

    def finish(self) -> None:
        """Let everything come to rest without further faults; the end of every run."""
        while self._write() or self._copy():
            pass
        while self._arrive(0):
            pass
        stops = self.stops
        while not self.broken and not self._rested(stops + STOPS_MAX):
            if self.steps >= STEPS_MAX or self.stops > stops + STOPS_MAX:
                self.broken = "drivers that nobody disturbs never come to rest"
        for view in range(len(self._views)):
            self._read_whole(view)

    def _rested(self, stops_max: int) -> bool:
        """Let each driver run until it finds nothing to do; say whether none of them changed anything."""
        changes = self.changes
        for number in range(len(self.drivers)):
            self._go_on(number, "go", 0)
            while not self.drivers[number].resting and self.steps < STEPS_MAX and self.stops <= stops_max:
                self._go_on(number, "go", 0)
        return changes == self.changes

    def _load(self) -> None:
        """Run the first epoch undisturbed: no level holds before it."""
        for table, key, row in self.scenario.initial:
            self.timelines[table, key] = Timeline([row])
            self._log(table, key, None, row)
        self.logs["b"] = list(self.logs["a"])
        self.apart = Apart(self.logs, off=self.scenario.off) if self.scenario.apart else None
        driver = self._drive()
        requests = next(driver)
        while requests:
            answers = self.door(requests)
            for request in requests:
                self._look(request)
            requests = driver.send(answers)
        driver.close()
        self.absorbed = {record: Timeline(line.rows[-1:]) for record, line in self.absorbed.items()}
        for seen in self.shown.values():
            seen.clear()
        self.moments.clear()

    def _born(self) -> Walker:
        walker = Walker(machine=self._drive())
        walker.advance(start=True)
        return walker

    def _drive(self) -> Machine:
        """Be a driver: pin, run, commit, again; ask for an empty round where there is nothing to do."""
        while True:
            control = yield from read_control()
            while True:
                if not control.pinned:
                    following = self._next_pin(control.pin)
                    if following is None:
                        break
                    control = yield from pin_next(control, following)
                    continue
                result = yield from self._epoch(control.pin)
                epoch = control.pin.epoch
                control = yield from commit(control, self._next_pin(control.pin))
                self._note_absorbed(epoch, result)
            yield []

    def _note_absorbed(self, epoch: int, result: EpochResult) -> None:
        """Keep what an epoch took in, once: the base time-line that DELTA absorbed (H12)."""
        if epoch != self._absorbed_to + 1:
            return
        self._absorbed_to = epoch
        for name, moves in result.bases.items():
            base = self.tables[name]
            columns = [column for column, _ in base.columns]
            for move in moves:
                values = move.now or move.before
                assert values is not None
                whole = dict(zip(columns, values, strict=True))
                key = tuple(whole[column] for column in base.key)
                line = self.absorbed.setdefault((name, key), Timeline([None]))
                line.rows.append(whole if move.now is not None else None)

    def _epoch(self, pin: Pin) -> Machine:
        return run_epoch(self.program, pin, self._changes(pin), rules=self.rules)

    def _next_pin(self, last: Pin) -> Pin | None:
        heads = {stream: len(log) for stream, log in self.logs.items()}
        if self.apart is not None and self.apart.on_line:
            return self.apart.next_pin(last)
        if last.epoch == 0:
            return Pin(epoch=1, first=True, until=heads)
        return next_pin(last, heads=heads, watermark=0, limit=self.scenario.limit)

    def _changes(self, pin: Pin) -> dict[str, DeltaInput]:
        if pin.line is not None and self.apart is not None:
            return self.apart.input(pin.line, pin)
        found: dict[str, DeltaInput] = {}
        for stream, log in self.logs.items():
            for it in log[pin.since.get(stream, 0) : pin.until.get(stream, 0)]:
                partition = found.setdefault(it.table, {}).setdefault(it.partition, PartitionChanges())
                partition.rows.setdefault(it.clustering, []).append(it.image)
        return found

    def _write(self) -> bool:
        if self.written == len(self.scenario.writes):
            return False
        table, key, after = self.scenario.writes[self.written]
        self.written += 1
        line = self.timelines.setdefault((table, key), Timeline([None]))
        before = line.rows[-1]
        if before is None and after is None:
            return True  # deleting what is not there makes no version
        line.rows.append(after)
        self.moments.append((self.time, "write", (table, key, len(line.rows) - 1, after)))
        self._log(table, key, before, after)
        return True

    def _log(self, table: str, key: Key, before: Row | None, after: Row | None) -> None:
        written = 1 + (len(self.logs["a"]) if self.apart is None else self.apart.last)
        found = logged(self.tables[table], key, before, after, written=written)
        (self.logs["a"].append if self.apart is None else self.apart.write)(found)

    def _copy(self) -> bool:
        if self.apart is not None:
            return self.apart.go_on(self.time)
        done = len(self.logs["b"])
        if done == len(self.logs["a"]) or not self.scenario.copies:
            return False
        self.logs["b"].append(self.logs["a"][done])
        return True

    def _go_on(self, number: int, kind: str, choice: int) -> bool:
        driver = self.drivers[number]
        self.steps += 1
        if not driver.requests:
            self._advance(number)
            return True
        open_ones = [i for i in range(len(driver.requests)) if i not in driver.answers]
        place = open_ones[choice % len(open_ones)]
        answered, answer = self._carry(driver.requests[place], kind)
        if answered:
            driver.answers[place] = answer
        if len(driver.answers) == len(driver.requests):
            self._advance(number)
        return True

    def _advance(self, number: int) -> None:
        try:
            self.drivers[number].advance(start=False)
        except StaleDriverError:
            self.stops += 1
            self.drivers[number] = self._born()
        except AssertionError as impossible:
            self.stops += 1  # whoever comes after it finds the same
            self.broken = self.broken or str(impossible)
            self.drivers[number] = self._born()

    def _carry(self, request: Any, kind: str) -> tuple[bool, Any]:
        """Let the postman have a request; puts and reads that are not surely answered are sent again."""
        conditional = isinstance(request, SetBucket)
        if kind == "drop":
            return conditional, UNKNOWN
        if kind == "delay" and not isinstance(request, ReadBucket | ReadImages):
            self.in_flight.append(request)
            return conditional, UNKNOWN
        self.changes += not isinstance(request, ReadBucket | ReadImages)
        (answer,) = self.door([request])
        self._look(request)
        if kind == "lose":
            return conditional, UNKNOWN
        return True, answer

    def _arrive(self, message: int) -> bool:
        if not self.in_flight:
            return False
        request = self.in_flight.pop(message % len(self.in_flight))
        self.door([request])
        self._look(request)
        return True

    def _look(self, request: Any) -> None:
        """See what a person would see after a put; each row that changed is one state of the view."""
        if not isinstance(request, PutRows):
            return
        for publication in self.scenario.plan.publications:
            if publication.table != request.publication:
                continue
            shown, last = dict(self.door.showing(publication.table)), self._last[publication.table]
            now = self._named(publication, shown)
            for key in sorted({*now, *last}, key=pack):
                if key in now and key in last and pack(now[key].values()) == pack(last[key].values()):
                    continue
                row = now.get(key)
                self.shown[publication.view].append((PartitionId(table=publication.view, key=key), row))
                self.moments.append((self.time, "show", (publication.view, key, row)))
            self._last[publication.table] = now

    @staticmethod
    def _named(publication: Publication, rows: Mapping[Values, Values]) -> dict[Key, Row]:
        names = [name for name, _ in publication.columns]
        return {key: dict(zip(names, row, strict=True)) for key, row in rows.items()}

    def _read_on(self, number: int) -> bool:
        if number >= len(self.readers):
            return False
        reader = self.readers[number]
        if reader.machine is None:
            readable = [n for n, it in enumerate(self._readers) if it.possible]
            if not readable:
                return False
            view = readable[self._next_view % len(readable)]
            self._next_view += 1
            reader.machine = self._reading(view)
            reader.advance(start=True)
            return True
        reader.answers = dict(enumerate(self.door(reader.requests)))
        try:
            reader.advance(start=False)
        except StopIteration:
            reader.machine, reader.requests, reader.answers = None, [], {}
        return True

    def _reading(self, view: int) -> Machine:
        """Read one view as of one epoch; what was read before the pipeline moved on is thrown away."""
        found = yield from self._readers[view].read(reread=self.rules.read_again)
        if found is None:
            return
        rows = self._named(self._readers[view].publication.publication, found)
        self.snapshots[self._views[view]].append(rows)
        self.moments.append((self.time, "read", (self._views[view], rows)))

    def _read_whole(self, view: int) -> None:
        machine = self._reading(view)
        try:
            requests = next(machine)
            while True:
                requests = machine.send(self.door(requests))
        except StopIteration:
            return
