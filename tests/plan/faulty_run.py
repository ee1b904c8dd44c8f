"""A plan run as the pipeline runs it, in memory: feed, DELTA, pins, drivers that die and wake up, judged at the end.

Base writes make time-lines; an epoch moves all of them to one cut, which is noted. What a plain reader saw of each
view record after every single put, and what a snapshot reader saw of the whole view at any moment (the state rows
as of the committed epoch), are noted too. A level is proved by a chain of cuts that the judge's own verifier
re-checks (`checker.verify`); where the noted cuts do not explain what was shown, the judge's search says how bad it is.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cvs.capture import changes as captured
from cvs.checker import cuts as search
from cvs.checker.meaning import DefinitionMeaning, frozen_row
from cvs.checker.problem import Problem
from cvs.checker.verdict import Budget, Cut, Verdict, Witness
from cvs.checker.verify import verify
from cvs.model.cql_bytes import encode_cql
from cvs.model.identity import key_identity
from cvs.model.levels import Level
from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.stages import Plan, columns_read
from cvs.model.views import BaseTable
from cvs.plan.sql import DeclaredView
from cvs.programs.delta import Cell, Deletion, Liveness, RowImage
from cvs.programs.epoch import Control, Pin, commit, pin_next, read_control
from cvs.programs.epoch_run import BaseReader, Program, run_epoch
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import ALL_RULES, Rules, SetBucket, drive
from cvs.programs.stage_codec import pack
from cvs.programs.stage_delta import PartitionChanges
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_publish import PutRows
from cvs.programs.stage_state import State
from cvs.stream.bases import base_reader
from tests.unit.programs.epoch_world import Driver

DELTA_BUCKETS = 3
DRIVERS_MAX = 50
STEPS_MAX = 200_000
UNKNOWN = Outcome(kind=OutcomeKind.UNKNOWN)
Record = tuple[str, tuple[Any, ...]]


class FaultyDoor(MemoryDoor):
    """Puts are noted; of 100 test-and-sets some lose their answer, some never arrive, some arrive late."""

    def __init__(self, keys: Mapping[str, tuple[int, ...]], chance: Random, *, faults: bool) -> None:
        super().__init__(keys=keys)
        self.chance, self.faults = chance, faults
        self.late: list[SetBucket] = []
        self.shown: list[tuple[str, tuple[Any, ...], int]] = []  # published table, key, write time

    def answer(self, request: Any) -> Any:
        if isinstance(request, PutRows):
            self._note(request)
        if not self.faults or not isinstance(request, SetBucket):
            return super().answer(request)
        if self.late and self.chance.random() < 0.3:
            super().answer(self.late.pop())
        fate = self.chance.randrange(100)
        if fate < 8:
            super().answer(request)  # and the answer is lost
        elif fate < 12:
            self.late.append(request)
        elif fate >= 16:
            return super().answer(request)
        return UNKNOWN

    def _note(self, request: PutRows) -> None:
        places = self.keys[request.publication]
        keys = [tuple(row[p] for p in places) for row in request.puts] + list(request.deletes)
        self.shown += [(request.publication, key, request.write_time) for key in keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one view reached: its worst record in plain reads, the whole in snapshots (None: it has none) and plain."""

    record: Level
    snapshot: Level | None
    plain: Level
    states: int


@dataclass(slots=True)
class PipelineRun:
    """One pipeline in memory over a plan of any number of views."""

    plan: Plan
    chance: Random
    faults: bool = True
    rules: Rules = ALL_RULES
    door: Any = None  # any door; in memory, faulty and watched, unless given
    names: Any = None  # of the tables behind a given door
    program: Program = field(init=False)
    timelines: dict[Record, list[dict[str, Any] | None]] = field(default_factory=dict)
    feed: list[tuple[str, bytes, bytes, RowImage]] = field(default_factory=list)
    cuts: list[dict[Record, int]] = field(default_factory=lambda: [{}])  # by epoch
    noted: dict[str, list[tuple[int, Hashable]]] = field(default_factory=dict)  # view -> (epoch, snapshot)
    records: dict[str, list[tuple[tuple[Any, ...], int, Hashable]]] = field(default_factory=dict)
    sleepers: list[Driver] = field(default_factory=list)
    spent: float = 0.0  # CPU seconds of the pipeline itself, the watching not counted

    def __post_init__(self) -> None:
        keys = {
            p.table: tuple([n for n, _ in p.columns].index(k) for k in p.key) for p in self.plan.publications
        }
        self.door = self.door or FaultyDoor(keys, self.chance, faults=self.faults)
        delta, state = (
            (self.names.delta, self.names.state) if self.names else ("delta_{}".format, "state_{}".format)
        )
        readers = readers_of(self.plan, columns_read(self.plan), delta)
        self.program = Program.of(
            self.plan, readers, {zone.name: state(zone.name) for zone in self.plan.zones}
        )

    def write(self, changes: Mapping[str, Counter]) -> None:
        """Append changes of base rows (rows that go and come, by table) to the time-lines and the feed."""
        for table in self.plan.bases:
            moved: dict[tuple[Any, ...], tuple[Any, ...] | None] = {}
            names = [name for name, _ in table.columns]
            places = [names.index(name) for name in table.key]
            for row, count in sorted(changes.get(table.name, Counter()).items(), key=lambda it: it[1]):
                moved[tuple(row[p] for p in places)] = row if count > 0 else None
            for key, row in moved.items():
                self._append(table, key, None if row is None else dict(zip(names, row, strict=True)))

    def _append(self, table: BaseTable, key: tuple[Any, ...], row: dict[str, Any] | None) -> None:
        self.timelines.setdefault((table.name, key_identity(key)), [None]).append(row)
        written, split, kinds = len(self.feed) + 1, len(table.partition_key), dict(table.columns)
        place = [encode_cql(kinds[name], value) or b"" for name, value in zip(table.key, key, strict=True)]
        if row is None:
            image = RowImage(deletion=Deletion(written))
        else:
            plain = sorted((n, encode_cql(kinds[n], v)) for n, v in row.items() if n not in table.key)
            cells = tuple((n, b"", Cell(written, value)) for n, value in plain)
            image = RowImage(Liveness(written), None, cells)
        clustering = pack(place[split:]) if split < len(place) else b""
        self.feed.append((table.name, captured.join_key(place[:split]), clustering, image))

    def epoch(self) -> None:
        """Run one epoch: with faults, drivers die and sleep anywhere, the last one ends it, sleepers go on later."""
        control = self._pinned()
        self.cuts.append({record: len(line) - 1 for record, line in self.timelines.items()})
        for _ in range(DRIVERS_MAX):
            began = time.process_time()
            machine = run_epoch(self.program, control.pin, self._changes(control.pin), rules=self.rules)
            driver = Driver.start(self, machine)  # type: ignore[arg-type]  # because it only needs a door
            self.spent += time.process_time() - began
            dies = self.faults and self.chance.random() < 0.5
            patience = self.chance.randrange(60) if dies else 10**9
            while patience and self._stepped(driver):
                patience -= 1
                self._look()
                self._wake()
            if driver.done:
                break
            self.sleepers.append(driver)
        else:
            raise AssertionError("no driver brings this epoch to its end")
        committed = 0
        while committed < control.pin.epoch:
            committed = drive(commit(control, None), self.door).committed
        self._wake()
        self._look(snapshots=True)

    def _stepped(self, driver: Driver) -> bool:
        began = time.process_time()
        found = driver.step()
        self.spent += time.process_time() - began
        return found

    def finish(self) -> None:
        """Let every zombie go to its end."""
        for sleeper in self.sleepers:
            sleeper.finish()
        self._look(snapshots=bool(self.sleepers))

    def _wake(self) -> None:
        if self.sleepers and self.chance.random() < 0.2:
            self.chance.choice(self.sleepers).step()

    def _pinned(self) -> Control:
        while True:
            control = drive(read_control(), self.door)
            if control.pinned:
                return control
            since = control.pin.until.get("s", 0)
            pin = Pin(
                epoch=control.committed + 1,
                first=control.committed == 0,
                since={"s": since},
                until={"s": len(self.feed)},
            )
            drive(pin_next(control, pin), self.door)

    def _changes(self, pin: Pin) -> dict[str, dict[bytes, PartitionChanges]]:
        found: dict[str, dict[bytes, PartitionChanges]] = {}
        for table, partition, clustering, image in self.feed[pin.since["s"] : pin.until["s"]]:
            rows = found.setdefault(table, {}).setdefault(partition, PartitionChanges()).rows
            rows.setdefault(clustering, []).append(image)
        return found

    def _look(self, *, snapshots: bool = False) -> None:
        """Note what plain readers can see since the last look, and now and then what a snapshot reader sees."""
        if not isinstance(self.door, FaultyDoor) or not (self.faults or self.door.shown or snapshots):
            return
        published = {it.publication.table: it.publication for it in self.program.publications}
        for table, key, _ in self.door.shown:
            when, row = self.door.published[table][key]
            columns = [name for name, _ in published[table].columns]
            value = None if row is None else frozen_row(dict(zip(columns, row, strict=True)))
            self.records.setdefault(published[table].view, []).append((key_identity(key), when, value))
        self.door.shown.clear()
        if snapshots or (self.faults and self.chance.random() < 0.1):
            committed = drive(read_control(), self.door).committed
            shown = [it for it in self.program.publications if keeps_state(it.publication, self.plan)]
            contents = self._contents({e.source for it in shown for e in it.publication.inputs}, committed)
            for publication in shown if committed else ():
                seen = frozenset(_snapshot(publication, contents).items())
                self.noted.setdefault(publication.publication.view, []).append((committed, seen))

    def _contents(self, wanted: set[str], committed: int) -> dict[str, Bag]:
        """Read state rows as of the committed epoch, as `client.snapshot` does."""
        contents: dict[str, Bag] = {name: Bag() for name in wanted}
        for zone in self.program.zones:
            if wanted.isdisjoint(stage.name for stage in zone.zone.stages):
                continue
            for bucket in range(zone.zone.buckets):
                stored = self.door.rows.get((f"state_{zone.zone.name}", bucket), {})
                pairs = ((k, _as_of(row, committed)) for k, row in stored.items())
                rows = {key: value for key, value in pairs if value is not None}
                state = State(rows=rows, keys=set(), prefixes=set(), everything=True)
                for name, bag in zone.contents(state).items():
                    contents.setdefault(name, Bag()).extend(bag)
        return contents

    def judged(self, view: DeclaredView) -> Judged:
        """Say which levels the run had for a view, from its first commit on."""
        case = _Case(self, view)
        by_key: dict[tuple[Any, ...], list[tuple[int, Hashable]]] = {}
        whole = dict(case.meaning(case.cut(1)))
        plain: list[tuple[int, Hashable]] = [(1, frozenset(whole.items()))]
        for key in whole:
            by_key[key] = [(1, whole[key])]
        for key, epoch, value in self.records.get(view.name, []):
            if epoch <= 1:
                continue
            by_key.setdefault(key, [(1, None)]).append((epoch, value))
            whole.pop(key, None)
            if value is not None:
                whole[key] = value
            plain.append((epoch, frozenset(whole.items())))
        records = [
            case.level(seen, lambda cut, key=key: case.meaning(cut).get(key)) for key, seen in by_key.items()
        ]
        records += [Level.NOT_CONVERGED] * bool(set(case.meaning(case.tops)) - set(by_key))
        noted = self.noted.get(view.name)
        return Judged(
            record=min(records, key=lambda level: level.rank, default=Level.STRONG),
            snapshot=case.level(noted, case.whole) if noted else None,
            plain=case.level(plain, case.whole, at_least=Level.CONVERGED),
            states=sum(map(len, by_key.values())),
        )


class _Case:
    """One view's meaning over the time-lines of a run; what never moved after the first commit stands in every cut."""

    def __init__(self, run: PipelineRun, view: DeclaredView) -> None:
        self.run = run
        names = {base.name: base for base in run.plan.bases}
        self.told = DefinitionMeaning(view.definition, names)
        moved = {
            record for record, line in run.timelines.items() if run.cuts[1].get(record, 0) < len(line) - 1
        }
        self.still = {record: line[-1] for record, line in run.timelines.items() if record not in moved}
        self.lines = sorted(moved, key=repr)
        self.tops: Cut = tuple(len(run.timelines[record]) - 1 for record in self.lines)
        self.memo: dict[Cut, Mapping[Any, Hashable]] = {}
        self.by_epoch: dict[int, Cut] = {}

    def cut(self, epoch: int) -> Cut:
        """Return the base state an epoch moved to."""
        if epoch not in self.by_epoch:
            versions = self.run.cuts[epoch]
            self.by_epoch[epoch] = tuple(versions.get(record, 0) for record in self.lines)
        return self.by_epoch[epoch]

    def meaning(self, cut: Cut) -> Mapping[Any, Hashable]:
        if cut not in self.memo:
            pairs = zip(self.lines, cut, strict=True)
            base = self.still | {record: self.run.timelines[record][version] for record, version in pairs}
            found = self.told.view(base)
            self.memo[cut] = {key: row for key, row in found.items() if None not in key}
        return self.memo[cut]

    def whole(self, cut: Cut) -> Hashable:
        return frozenset(self.meaning(cut).items())

    def level(
        self, seen: Sequence[tuple[int, Hashable]], meaning: Any, at_least: Level = Level.STRONG
    ) -> Level:
        """Strong by the noted cuts, as the verifier re-checks; otherwise what the search can still prove."""
        states = tuple(value for _, value in seen)
        problem = Problem(tops=self.tops, meaning=meaning, states=states)
        if search.converged(problem, Budget(STEPS_MAX))[0] is not Verdict.HOLDS:
            return Level.NOT_CONVERGED
        cuts = tuple(self.cut(epoch) for epoch, _ in seen)
        witness = Witness(kind="chain", cuts=cuts)
        if verify("strong holds", witness, tops=self.tops, meaning=meaning, states=states):
            return Level.STRONG
        if at_least is Level.CONVERGED:
            return Level.CONVERGED
        for level, question in ((Level.STRONG, search.chain), (Level.WEAK, search.weak)):
            if question(problem, Budget(STEPS_MAX))[0] is Verdict.HOLDS:
                return level
        return Level.CONVERGED


def _snapshot(publication: Any, contents: Mapping[str, Bag]) -> dict[tuple[Any, ...], Hashable]:
    names = [name for name, _ in publication.publication.columns]
    found = {
        publication.key_of(row): frozen_row(dict(zip(names, row, strict=True)))
        for row, _ in publication.rows(contents)
    }
    return {key_identity(key): row for key, row in found.items() if None not in key}


def keeps_state(publication: Any, plan: Plan) -> bool:
    """Say whether snapshots of a view can be read: not of one that only passes base rows on."""
    return {edge.source for edge in publication.inputs} <= {stage.name for stage in plan.stages}


def _as_of(row: Any, epoch: int) -> bytes | None:
    if row.epoch <= epoch:
        return row.now if row.alive else None
    assert row.epoch == epoch + 1, "a state row is two epochs ahead of the commit"
    return row.before if row.alive_before else None


def readers_of(
    plan: Plan, read: Mapping[str, Collection[str] | None], delta: Callable[[str], str]
) -> list[BaseReader]:
    """Return the pipeline's own decoders of base rows; `read`: the columns they decode, None: all."""
    return [
        base_reader(
            definition_of(base),
            base,
            delta=delta(base.name),
            buckets=DELTA_BUCKETS,
            read=read[base.name],
        )
        for base in plan.bases
    ]


def definition_of(base: BaseTable) -> captured.TableDefinition:
    """Return a table as it is captured."""
    places = {name: (captured.ColumnKind.PARTITION_KEY, i) for i, name in enumerate(base.partition_key)}
    places |= {name: (captured.ColumnKind.CLUSTERING, i) for i, name in enumerate(base.clustering_key)}
    columns = []
    for name, kind in base.columns:
        of_kind, position = places.get(name, (captured.ColumnKind.REGULAR, -1))
        columns.append(captured.Column(name=name, type=kind, kind=of_kind, position=position))
    keyspace, name = base.name.split(".", 1)
    return captured.TableDefinition(id=base.name, keyspace=keyspace, name=name, columns=tuple(columns))
