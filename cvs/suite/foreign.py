"""Judging a maintainer that is not ours: feed it base updates, again and out of turn, and watch its view.

The protocol is four messages, one JSON object a line, on the standard input and output of a process in any
language; `LineMaintainer` speaks it, and anything with the same four methods in Python will do as well.

    {"apply": {"stream": "s0", "entry": 3, "table": "r", "key": [1], "version": 2,
               "before": {..} or null, "after": {..} or null}}      -> {"ok": true}
    {"read": {"key": ["a"]}}                                        -> {"row": {..} or null}
    {"restart": true}     forget everything that is not stored      -> {"ok": true}
    {"clear": true}       a new run begins: empty view, empty store -> {"ok": true}

Several instances of a maintainer share one view, as managers do. Each stream goes to one instance, in order;
after a restart its last entries come again. The view is read after every message that may change it, so what
is judged is what a reader could have seen.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from cvs.errors import AssumptionError, SpecificationError
from cvs.model.levels import Level
from cvs.model.recompute import recompute
from cvs.programs.machine import Entry, Key, Row
from cvs.simulate.faulty_store import State
from cvs.simulate.scheduler import CALM
from cvs.simulate.world import Scenario, Timeline, World
from cvs.store.port import PartitionId
from cvs.suite.classes import CLASSES, ViewClass, view_class
from cvs.suite.judged import Judgement, form, judged, view_of
from cvs.suite.reports import Report
from cvs.suite.shrinking import cuts
from cvs.suite.strategies import FaultSet, scenario

RESTARTS = 0.15
"""How often an instance restarts, of all moves."""

ANSWER_SECONDS = 30
"""How long a maintainer may think about one message."""

CUTS_MAX = 300
"""Runs that making the worst one smaller may cost."""

REDELIVERED_MAX = 3
"""Entries of a stream that come again after a restart: what a checkpoint was behind."""


class Maintainer(Protocol):
    """One instance of somebody's view maintenance."""

    def apply(self, entry: Entry) -> None:
        """Propagate one base update to the view."""
        ...

    def read(self, key: Key) -> Row | None:
        """Return one view record as a reader sees it."""
        ...

    def restart(self) -> None:
        """Forget what is not stored."""
        ...

    def clear(self) -> None:
        """Begin a new run with an empty view."""
        ...


class LineMaintainer:
    """A maintainer in a process of its own, spoken to in lines of JSON."""

    def __init__(self, command: Sequence[str], *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._answer_seconds = answer_seconds
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as refused:
            raise AssumptionError(
                f"the maintainer cannot be started: {refused.strerror}",
                where=" ".join(command),
                next_step="--maintainer takes a command with its arguments, as a shell would",
            ) from refused

    def apply(self, entry: Entry) -> None:
        """Send one base update."""
        body = {slot: getattr(entry, slot) for slot in Entry.__slots__}
        self._ask({"apply": body})

    def read(self, key: Key) -> Row | None:
        """Ask for one view record."""
        row: Row | None = self._ask({"read": {"key": key}}).get("row")
        return row

    def restart(self) -> None:
        """Ask it to forget what is not stored."""
        self._ask({"restart": True})

    def clear(self) -> None:
        """Ask it to begin anew."""
        self._ask({"clear": True})

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        too_late = threading.Event()

        def end() -> None:
            too_late.set()
            self._process.kill()

        clock = threading.Timer(self._answer_seconds, end)
        clock.start()
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            clock.cancel()
        if not line:
            late = f"gave no answer in {self._answer_seconds:g} s"
            raise AssumptionError(
                f"the maintainer {late if too_late.is_set() else 'ended in the middle of a run'}",
                where=json.dumps(message),
                next_step="it must answer every message with one line of JSON, and flush it: many languages keep "
                "output back when it is no terminal",
            )
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        wanted = "row" if "read" in message else "ok"
        if not isinstance(answer, dict) or wanted not in answer:
            raise AssumptionError(
                f'the maintainer answered {line.strip()[:80]!r}, which has no "{wanted}"',
                where=json.dumps(message),
                next_step='answer {"row": {..} or null} to a read and {"ok": true} to all else; print nothing more',
            )
        return answer


@dataclass(slots=True, kw_only=True)
class Watched:
    """What was seen of one run: enough to judge it."""

    timelines: dict[tuple[str, Key], Timeline]
    initial: dict[Key, Row] = field(default_factory=dict)
    shown: list[State] = field(default_factory=list)


Move = tuple[int, int | None]
"""An instance, and how many entries it goes back as it restarts; None: it applies its next entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run is made of: base rows, and who does what; what the moves leave over is applied in order."""

    made: Scenario
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The lowest levels over all runs, the seed that showed the lowest, and the words of its smallest such run."""

    runs: int
    record: Level
    view: Level
    seed: int
    words: tuple[str, ...]


def examine(
    instances: Sequence[Maintainer], *, view: str, runs: int = 20, updates: int = 8, seed: int = 0
) -> Examination:
    """Drive a maintainer of one of our view classes through runs with restarts and redelivery."""
    shape = view_class(view)
    record = whole = Level.COMPLETE
    worst = seed
    for number in range(seed, seed + runs):
        judgement = judged(
            _driven(instances, shape, _drawn(shape, len(instances), number, updates))[0], shape
        )
        if judgement.view.rank < whole.rank:
            whole = judgement.view
        if judgement.record.rank < record.rank:
            record, worst = judgement.record, number
    words: tuple[str, ...] = ("no run below complete",)
    if record is not Level.COMPLETE:
        smallest, words = _smallest(instances, shape, _drawn(shape, len(instances), worst, updates), record)
        record = min(record, smallest.record, key=lambda level: level.rank)
        whole = min(whole, smallest.view, key=lambda level: level.rank)
    return Examination(runs=runs, record=record, view=whole, seed=worst, words=words)


def _smallest(
    instances: Sequence[Maintainer], shape: ViewClass, run: Run, level: Level
) -> tuple[Judgement, tuple[str, ...]]:
    """Cut moves and base rows as long as the run is no better; return what is left: its levels, and what happens."""
    tries, progress = 0, True
    while progress and tries < CUTS_MAX:
        progress = False
        for candidate in _smaller(run):
            tries += 1
            if judged(_driven(instances, shape, candidate)[0], shape).record.rank <= level.rank:
                run, progress = candidate, True
                break
            if tries == CUTS_MAX:
                break
    watched, told = _driven(instances, shape, run)
    return judged(watched, shape), (*told, *_wrong(watched, shape))


def _smaller(run: Run) -> Iterator[Run]:
    for moves in cuts(run.moves):
        yield replace(run, moves=tuple(moves))
    for writes in cuts(run.made.writes):
        yield replace(run, made=replace(run.made, writes=tuple(writes)))
    for initial in cuts(run.made.initial):
        yield replace(run, made=replace(run.made, initial=tuple(initial)))


def _wrong(watched: Watched, shape: ViewClass) -> Iterator[str]:
    """Say which view records are not those of the base at the end."""
    if shape.record_key is not None:
        return
    base: dict[str, list[Row]] = {table: [] for table in shape.domains}
    for (table, _), line in watched.timelines.items():
        base[table] += [row for row in line.rows[-1:] if row is not None]
    right = recompute(shape.definition, base, shape.tables)
    last = {partition.key: row for partition, row in watched.shown}
    for key in dict.fromkeys([*right, *last]):
        if (last.get(key) and form(last[key] or {})) != (right.get(key) and form(right[key])):
            yield f"at the end view record {list(key)} shows {last.get(key)}; the view of the base has {right.get(key)}"


def examined_command(
    command: Sequence[str], *, view: str, instances: int, runs: int, seed: int, expected: Level
) -> Report:
    """Examine a maintainer that is a command; its processes are ended whatever happens."""
    if view not in {shape.name for shape in CLASSES}:
        raise SpecificationError(f"there is no view class {view}", next_step="`cvs suite --table` lists them")
    processes = [LineMaintainer(command) for _ in range(instances)]
    try:
        found = examine(processes, view=view, runs=runs, seed=seed)
    finally:
        for process in processes:
            process.close()
    met = found.record.reaches(expected)
    record = f"lowest level of a view record: {found.record.value}, expected {expected.value}"
    lines = [
        f"{view} by {' '.join(command)}: {found.runs} runs with restarts and redelivery",
        f"{record}; of the whole view: {found.view.value}",
    ]
    lines += (
        []
        if met
        else ["", f"the smallest such run (of seed {found.seed}):", *(f"  {line}" for line in found.words)]
    )
    result = {
        "view": view,
        "runs": found.runs,
        "record": found.record.value,
        "whole_view": found.view.value,
        "expected": expected.value,
        "seed": found.seed,
        "words": found.words,
    }
    return Report(met=met, lines=tuple(lines), result=result)


def _drawn(shape: ViewClass, instances: int, seed: int, updates: int) -> Run:
    """Draw base rows and moves of one seed."""
    random = Random(seed)  # noqa: S311 -- because chance is replayed, not secret
    faults = FaultSet(name="", faults=CALM, managers=instances, streams=instances)
    made, _ = scenario(shape, shape.variants[0], faults, random, updates=updates)
    lengths = [len(log) for log in _written(made).logs]
    positions = [0] * instances
    moves: list[Move] = []
    while any(p < length for p, length in zip(positions, lengths, strict=True)):
        number = random.randrange(instances)
        if random.random() < RESTARTS:
            back = random.randint(0, REDELIVERED_MAX)
            positions[number] = max(0, positions[number] - back)
            moves.append((number, back))
        elif positions[number] < lengths[number]:
            positions[number] += 1
            moves.append((number, None))
    return Run(made=made, moves=tuple(moves))


def _driven(instances: Sequence[Maintainer], shape: ViewClass, run: Run) -> tuple[Watched, list[str]]:
    world = _written(run.made)
    watched = Watched(timelines=world.timelines)
    told: list[str] = []
    look = _looker(instances, watched, _keys(shape, world))
    instances[0].clear()
    for instance in instances[1:]:
        instance.restart()
    positions = [0] * len(instances)
    left: list[Move] = [(n, None) for n, log in enumerate(world.logs) for _ in log]
    for number, back in (*run.moves, *left):
        if back is not None:
            instances[number].restart()
            positions[number] = max(0, positions[number] - back)
            told.append(f"instance {number} restarts; its stream goes on from entry {positions[number] + 1}")
            continue
        if positions[number] == len(world.logs[number]):
            continue
        entry = world.logs[number][positions[number]]
        instances[number].apply(entry)
        positions[number] += 1
        seen = look()
        told.append(f"instance {number} applies {entry.stream}:{entry.entry} {entry.before} -> {entry.after}")
        told.extend(f"  view record {list(key)} shows {row}" for key, row in seen)
    return watched, told


def _written(made: Scenario) -> World:
    """Return a world in which everything is written and nothing propagated; initial rows become inserts."""
    whole = Scenario(
        program=made.program,
        writes=(*made.initial, *made.writes),
        managers=made.managers,
        streams=made.streams,
    )
    world = World(whole)
    for _ in whole.writes:
        world.take(("write", 0, 0))
    return world


def _keys(shape: ViewClass, world: World) -> list[Key]:
    """List every view record that could ever be: the view of each row that ever was, alone and together."""
    base: dict[str, list[Row]] = {table: [] for table in shape.domains}
    keys: dict[Key, None] = {}
    for (table, _), line in world.timelines.items():
        for row in line.rows:
            if row is not None:
                keys |= dict.fromkeys(view_of(shape, {**base, table: [row]}))
    return list(keys)


def _looker(
    instances: Sequence[Maintainer], watched: Watched, keys: Sequence[Key]
) -> Callable[[], list[tuple[Key, Row | None]]]:
    last: dict[Key, Row | None] = dict.fromkeys(keys)

    def look() -> list[tuple[Key, Row | None]]:
        changed = [(key, row) for key in keys if (row := instances[0].read(key)) != last[key]]
        for key, row in changed:
            last[key] = row
            watched.shown.append((PartitionId(table="v", key=key), row))
        return changed

    return look
