"""A small world for epochs: base tables written at random, plans beside the definitions they must equal."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cvs.model.recompute import recompute
from cvs.model.stages import Plan, Publication
from cvs.model.views import BaseTable, ViewDefinition
from cvs.programs.delta import Cell, Deletion, Liveness, RowImage, StaleDriverError
from cvs.programs.epoch import Control, Pin, commit, pin_next, read_control
from cvs.programs.epoch_run import BaseReader, Program, run_epoch
from cvs.programs.stage_bucket import ALL_RULES, Rules, drive
from cvs.programs.stage_codec import pack, unpack
from cvs.programs.stage_delta import PartitionChanges
from cvs.programs.stage_memory import MemoryDoor

DELTA_BUCKETS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A view: what it means, and the plan that must keep it."""

    name: str
    view: ViewDefinition
    plan: Plan
    values: dict[str, dict[str, tuple[Any, ...]]]  # table -> column -> values to draw from
    keys: dict[str, tuple[Any, ...]]  # table -> keys to draw from


@dataclass(slots=True, kw_only=True)
class Written:
    """One base write, as the log has it."""

    table: str
    key: Any
    image: RowImage


@dataclass(slots=True)
class World:
    """Base tables, a feed, and one pipeline over a door."""

    case: Case
    chance: random.Random
    door: Any = None  # any door; in memory unless given
    program: Program = field(init=False)
    base: dict[str, dict[Any, dict[str, Any]]] = field(init=False)
    feed: list[Written] = field(default_factory=list)
    clock: int = 0

    def __post_init__(self) -> None:
        plan = self.case.plan
        keys = {p.table: tuple([n for n, _ in p.columns].index(k) for k in p.key) for p in plan.publications}
        self.door = self.door or MemoryDoor(keys=keys)
        self.program = Program.of(
            plan,
            [reader(base) for base in plan.bases],
            {zone.name: f"state_{zone.name}" for zone in plan.zones},
        )
        self.base = {base.name: {} for base in plan.bases}

    def write(self) -> None:
        """Insert, update or delete one base record."""
        table = self.chance.choice(sorted(self.base))
        key = self.chance.choice(self.case.keys[table])
        self.clock += 1
        rows = self.base[table]
        if key in rows and self.chance.random() < 0.3:
            del rows[key]
            self.feed.append(Written(table=table, key=key, image=RowImage(deletion=Deletion(self.clock))))
            return
        columns = self.case.values[table]
        chosen = {
            c: self.chance.choice(v)
            for c, v in columns.items()
            if key not in rows or self.chance.random() < 0.6
        }
        rows[key] = {**rows.get(key, dict.fromkeys(columns)), **chosen}
        cells = tuple(
            (c, b"", Cell(self.clock, None if v is None else pack((v,)))) for c, v in sorted(chosen.items())
        )
        self.feed.append(Written(table=table, key=key, image=RowImage(Liveness(self.clock), None, cells)))

    def changes(self, pin: Pin) -> dict[str, dict[bytes, PartitionChanges]]:
        found: dict[str, dict[bytes, PartitionChanges]] = {}
        for it in self.feed[pin.since.get("s", 0) : pin.until.get("s", 0)]:
            partition = found.setdefault(it.table, {}).setdefault(pack((it.key,)), PartitionChanges())
            partition.rows.setdefault(b"", []).append(it.image)
        return found

    def pinned(self) -> Control:
        """Return the control row with a pin for all that was written."""
        control = drive(read_control(), self.door)
        if control.pinned:
            return control
        return drive(pin_next(control, self.next_pin(control)), self.door)

    def next_pin(self, control: Control) -> Pin:
        last = control.pin
        return Pin(
            epoch=control.committed + 1,
            first=control.committed == 0,
            since={"s": last.until.get("s", 0)},
            until={"s": len(self.feed)},
        )

    def machine(self, pin: Pin, rules: Rules = ALL_RULES) -> Any:
        return run_epoch(self.program, pin, self.changes(pin), rules=rules)

    def epoch(self) -> None:
        """Run one epoch undisturbed."""
        control = self.pinned()
        drive(self.machine(control.pin), self.door)
        drive(commit(control, None), self.door)

    def expected(self) -> dict[Any, Any]:
        """Return the view over the base rows as they are, rows in the published table's order of columns."""
        (publication,) = self.case.plan.publications
        tables = {base.name: base for base in self.case.plan.bases}
        base = {
            name: [dict(zip(tables[name].key, (key,), strict=True)) | row for key, row in rows.items()]
            for name, rows in self.base.items()
        }
        return as_shown(publication, recompute(self.case.view, base, tables).values())

    def shown(self) -> dict[Any, Any]:
        (publication,) = self.case.plan.publications
        return {key: _comparable(row) for key, row in self.door.showing(publication.table).items()}


def as_shown(publication: Publication, rows: Iterable[Any]) -> dict[Any, Any]:
    found = {}
    for row in rows:
        key = tuple(row[name] for name in publication.key)
        if None not in key:
            found[key] = _comparable(tuple(row[name] for name, _ in publication.columns))
    return found


def _comparable(row: Any) -> Any:
    return tuple("NaN" if value != value else value for value in row)


def reader(base: BaseTable) -> BaseReader:
    (key,) = base.key
    names = [name for name, _ in base.columns]

    def decode(partition: bytes, clustering: bytes, visible: Any) -> Any:
        values = {key: unpack(partition)[0]} | {c: unpack(v)[0] for c, v in visible.items()}
        return tuple(values.get(name) for name in names)

    return BaseReader(name=base.name, delta=f"delta_{base.name}", buckets=DELTA_BUCKETS, decode=decode)


@dataclass(slots=True)
class Driver:
    """A driver that is stepped request by request, may be paused anywhere, and wakes up as a zombie."""

    world: World
    machine: Any
    requests: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    done: bool = False
    stopped: bool = False
    result: Any = None

    @classmethod
    def start(cls, world: World, machine: Any) -> "Driver":
        driver = cls(world, machine)
        driver._advance(None)
        return driver

    def step(self) -> bool:
        """Send one request; False if there is nothing left to do."""
        if self.done or self.stopped:
            return False
        self.answers.append(self.world.door([self.requests[len(self.answers)]])[0])
        if len(self.answers) == len(self.requests):
            self._advance(self.answers)
        return True

    def finish(self) -> None:
        while self.step():
            pass

    def _advance(self, answers: Any) -> None:
        try:
            self.requests = next(self.machine) if answers is None else self.machine.send(answers)
            self.answers = []
        except StopIteration as stop:
            self.done, self.result = True, stop.value
        except StaleDriverError:
            self.stopped = True
