"""The one columnar door: a big history as NumPy arrays, block by block, from lines or from Parquet.

Values stay outside: whoever judges says by `Readers` what it needs of base rows and view records, and gets them
a block at a time, so that a million rows are never objects all at once. Calls and returns are joined at the end.
What no valid history has is refused (`sound.py`); `validate.py` says what it is, and where.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from cvs.history import events as ev
from cvs.history.fields import EventFields, Fields, Name, Names, Numbering, Outcomes, Owners
from cvs.history.operations import Operations, joined
from cvs.history.packing import Integers, Part, epochs_packed, fill, packed_column
from cvs.history.rows import Objects, Rows
from cvs.history.sound import Clocks, require_begun, require_headers, require_operations

BLOCK = 1 << 20  # bytes decoded at once: small enough for the objects to stay in the processor's cache


class Reader:
    """Takes the rows of one table, or of one view, in the order of their calls."""

    def take(self, rows: Rows, owners: Integers | None) -> None:
        """Take the rows of a block; of a view, with the numbers of the view records they belong to."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class Readers:
    """Who reads the rows of base tables, and of views, and how view records are numbered."""

    records: Numbering = field(default_factory=Numbering)
    tables: Mapping[str, Sequence[Reader]] = field(default_factory=dict)
    views: Mapping[str, Reader] = field(default_factory=dict)


class Taken:
    """Certificate lines of commits."""


class Based:
    """Base records of a checkpoint."""


class Shown:
    """View records of a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """One run: base updates, test-and-sets, certificate lines, and what else there was."""

    headers: tuple[ev.RunStarted, ...]
    processes: tuple[str, ...]
    records: tuple[Name, ...]
    bases: tuple[Name, ...]
    updates: Operations  # own: version, table (position in `tables`)
    writes: Operations  # own: expected, new, seen, view (position in `views`)
    lines: Part  # write, base, low, high: in the order of the writes
    tables: tuple[str, ...]
    views: tuple[str, ...]
    kinds: Mapping[str, int]  # how many events of each kind
    rest: int  # number of the last event that says that all was propagated, or 0
    received: Part  # number and owner: who was handed an update, which so did happen
    commits: Part  # number, time, epoch (as signatures are packed, without their chunks), pipeline
    taken: Part  # commit (its place in `commits`), base, low, high: what each epoch took in
    begun: Part  # number: of the checkpoint that it begins with, if it does
    base: Part  # ... base records: owner, table, version
    shown: Part  # ... view records: owner, view, signature
    events: int
    first_time: int
    last_time: int


@dataclass(slots=True)
class Gathered:
    """Columns block by block."""

    readers: Readers
    bases: Numbering = field(default_factory=Numbering)
    processes: Names = field(default_factory=Names)
    tables: Names = field(default_factory=Names)  # of base updates
    named: Names = field(default_factory=Names)  # ... and of certificate lines
    views: Names = field(default_factory=Names)
    pipelines: Names = field(default_factory=Names)
    outcomes: Names = field(default_factory=Outcomes)
    headers: list[ev.RunStarted] = field(default_factory=list)
    clocks: Clocks = field(default_factory=Clocks)
    kinds: dict[str, int] = field(default_factory=dict)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)  # events before each file
    rest: int = 0  # of a part: whether the whole came to rest after all that the part has
    several: bool = True  # whether there may be several files, to be merged by time
    first_time: int | None = None
    last_time: int = 0
    events: int = 0
    writes: int = 0
    committed: int = 0

    def begin(self) -> None:
        """Say that another file begins."""
        self.starts.append(self.events)
        self.clocks = Clocks()

    def take(self, block: Sequence[Any]) -> None:
        """Add some events of one file, in its order."""
        places: dict[Any, list[int]] = {}
        for place, kind in enumerate(map(type, block)):
            places.setdefault(kind, []).append(place)
        self.headers += [block[place] for place in places.get(ev.RunStarted, ())]
        kinds = (
            (kind, np.array(where, dtype=np.int64), EventFields([block[place] for place in where]))
            for kind, where in places.items()
        )
        self.add(EventFields(block), kinds)

    def add(self, block: Fields, kinds: Iterable[tuple[Any, Integers, Fields]]) -> None:
        """Add a block by its fields: those that all its events have, then each kind's, with their places in it."""
        times, who = block.whole("time"), block.named("process", self.processes)
        self.clocks.follow(who, times, len(self.processes))
        for kind, at, fields in kinds:
            tag = str(kind.__struct_config__.tag)
            self.kinds[tag] = self.kinds.get(tag, 0) + len(at)
            if kind is ev.RunStarted:
                self.put(kind, number=at + (self.events + 1), process=who[at])
            if kind is ev.Quiescent:
                self.put(kind, number=at + (self.events + 1))
            if kind is ev.Checkpoint and isinstance(fields, EventFields) and self._begins():
                self._checkpoint(fields.events[0])
                self.put(kind, number=at[:1] + (self.events + 1))
            if kind is ev.EpochCommitted:
                own = self._commits(fields)
                self.put(kind, **own, number=at + (self.events + 1), time=times[at], process=who[at])
            if kind is ev.UpdateReceived:
                owners = Owners(fields.named("table", self.named), self.named)
                self.put(kind, number=at + (self.events + 1), owner=fields.keyed(owners, "key", self.bases))
            way = _WAYS.get(kind)
            if way is not None:
                self.put(
                    kind, **way(self, fields), number=at + (self.events + 1), process=who[at],
                    operation=fields.whole("operation"), time=times[at],
                )  # fmt: skip
        if self.several:
            self.put(ev.Event, time=times)
        if self.first_time is None and len(times):
            self.first_time = int(times[0])
        self.last_time = max(self.last_time, int(times.max(initial=0)))
        self.events += block.many

    def put(self, kind: type, **part: Integers) -> None:
        """Add columns of one kind; what is small waits in half the room."""
        kept = {name: _small(column) if name in _SMALL else column for name, column in part.items()}
        self.parts.setdefault(kind.__name__, []).append(kept)

    def _updates(self, fields: Fields) -> Part:
        tables = Owners(fields.named("table", self.tables), self.tables)
        for table, which in tables.parts():
            for reader in self.readers.tables.get(table, ()):
                reader.take(fields.rows("row", which, ("table", table)), None)
        owner = fields.keyed(tables, "key", self.bases)
        return {"owner": owner, "table": tables.codes, "version": fields.whole("version")}

    def _writes(self, fields: Fields) -> Part:
        views = Owners(fields.named("view", self.views), self.views)
        owner = fields.keyed(views, "view_key", self.readers.records)
        for view, which in views.parts():
            reader = self.readers.views.get(view)
            if reader is not None:
                reader.take(fields.rows("row", which, ("view", view)), owner[which])
        counts, lines = fields.absorbed()
        self.put(
            ev.Absorbed,
            write=np.repeat(np.arange(self.writes, self.writes + fields.many), counts),
            base=lines.keyed(Owners(lines.named("table", self.named), self.named), "key", self.bases),
            low=lines.whole("from_version"),
            high=lines.whole("to_version"),
        )
        self.writes += fields.many
        signatures = {"expected": fields.signatures("expected"), "new": fields.signatures("new")}
        return {"owner": owner, "view": views.codes, **signatures}

    def _begins(self) -> bool:
        """Say whether nothing was done yet: a later checkpoint is no beginning, and not taken."""
        return ev.Checkpoint.__name__ not in self.parts and not any(map(self.kinds.get, _LATER))

    def _checkpoint(self, begun: ev.Checkpoint) -> None:
        """Take the base rows and view rows that a history begins with, before all others."""
        for table, lines in _by_name(begun.base):
            for reader in self.readers.tables.get(table, ()):
                reader.take(Objects([line[3] for line in lines]), None)
            owner = fill((self.bases.number(table, line[1]) for line in lines), len(lines))
            code = np.full(len(lines), self.tables[table])
            self.put(Based, owner=owner, table=code, version=fill((line[2] for line in lines), len(lines)))
        for view, lines in _by_name(begun.views):
            owner = fill((self.readers.records.number(view, line[1]) for line in lines), len(lines))
            if view in self.readers.views:
                self.readers.views[view].take(Objects([line[3] for line in lines]), owner)
            code = np.full(len(lines), self.views[view])
            self.put(Shown, owner=owner, view=code, signature=packed_column([line[2] for line in lines]))

    def _commits(self, fields: Fields) -> Part:
        counts, lines = fields.absorbed()
        self.put(
            Taken,
            commit=np.repeat(np.arange(self.committed, self.committed + fields.many), counts),
            base=lines.keyed(Owners(lines.named("table", self.named), self.named), "key", self.bases),
            low=lines.whole("from_version"),
            high=lines.whole("to_version"),
        )
        self.committed += fields.many
        epoch = epochs_packed(fields.whole("incarnation"), fields.whole("epoch"))
        return {"epoch": epoch, "pipeline": fields.named("pipeline", self.pipelines)}

    def _answers(self, fields: Fields) -> Part:
        return {"outcome": fields.named("outcome", self.outcomes)}

    def _write_answers(self, fields: Fields) -> Part:
        return {**self._answers(fields), "seen": fields.signatures("returned")}

    def columns(self, numbers: Integers | None = None) -> Columns:
        """Join calls with their returns; of a part of a history, `numbers` are those of its events in the whole."""
        order = self._merged(self.times()) if numbers is None else np.append(0, numbers)
        errors = {start.process: start.clock_error for start in self.headers}
        received = self.together(ev.UpdateReceived, "number", "owner")
        rests = self.together(ev.Quiescent, "number")["number"]
        commits = self.together(ev.EpochCommitted, "number", "time", "process", "epoch", "pipeline")
        begun = self.together(ev.Checkpoint, "number")
        if order is not None:
            rests = order[rests]
            for part in (received, commits, begun):
                part["number"] = order[part["number"]]
        widths = fill((errors.get(name, 0) for name in self.processes), len(self.processes))
        commits["time"] += widths[commits["process"]]

        def of(kinds: tuple[type, type], *own: str) -> Operations:
            calls, answers = (self.together(kind, *_FIELDS[kind]) for kind in kinds)
            return joined(calls, answers, widths, order, own)

        updates = of(_UPDATES, "version", "table")
        writes = of(_WRITES, "expected", "new", "view")
        if numbers is None:
            self._require_sound(updates, writes)
        return Columns(
            headers=tuple(self.headers),
            processes=tuple(self.processes),
            records=tuple(self.readers.records.known),
            bases=tuple(self.bases.known),
            updates=updates,
            writes=writes,
            lines=self.together(ev.Absorbed, "write", "base", "low", "high"),
            tables=tuple(self.tables),
            views=tuple(self.views),
            kinds=self.kinds,
            rest=int(rests.max(initial=self.rest)),
            received=received,
            commits=commits,
            taken=self.together(Taken, "commit", "base", "low", "high"),
            begun=begun,
            base=self.together(Based, "owner", "table", "version"),
            shown=self.together(Shown, "owner", "view", "signature"),
            events=self.events,
            first_time=self.first_time or 0,
            last_time=self.last_time,
        )

    def _require_sound(self, updates: Operations, writes: Operations) -> None:
        require_headers(self.headers, self.views, self.tables)
        require_begun(self.together(ev.RunStarted, "number", "process"), self.starts, self.events)
        require_operations(updates, writes)

    def times(self) -> Integers:
        """Return the time of each event, once."""
        return self.together(ev.Event, "time")["time"]

    def together(self, kind: type, *names: str) -> Part:
        """Make whole columns of the blocks; what they were made of is let go."""
        blocks = self.parts.pop(kind.__name__, [])
        empty = np.zeros(0, dtype=np.int64)
        return {
            name: np.concatenate(
                [block.pop(name) for block in blocks] or [empty], dtype=np.int64, casting="safe"
            )
            for name in names
        }

    def _merged(self, times: Integers) -> Integers | None:
        """Return for each event its number in the merged history; None where there is one file only."""
        if len(self.starts) < 2:
            return None
        file = np.zeros(len(times), dtype=np.int64)
        latest = times.copy()
        for number, (start, end) in enumerate(zip(self.starts, [*self.starts[1:], len(times)], strict=True)):
            file[start:end] = number
            latest[start:end] = np.maximum.accumulate(times[start:end])
        numbers = np.empty(len(times) + 1, dtype=np.int64)
        numbers[np.lexsort((file, latest)) + 1] = np.arange(1, len(times) + 1)
        return numbers


_WAYS: dict[type, Callable[[Gathered, Fields], Part]] = {
    ev.BaseUpdateCalled: Gathered._updates,
    ev.BaseUpdateReturned: Gathered._answers,
    ev.TestAndSetCalled: Gathered._writes,
    ev.TestAndSetReturned: Gathered._write_answers,
}
_SMALL = {
    "number",
    "process",
    "operation",
    "owner",
    "table",
    "view",
    "outcome",
    "write",
    "commit",
    "pipeline",
    "base",
    "version",
    "low",
    "high",
}
_LATER = ("base_update_called", "test_and_set_called", "view_read_called")
_COMMON = ("number", "process", "operation", "time")
_UPDATES = (ev.BaseUpdateCalled, ev.BaseUpdateReturned)
_WRITES = (ev.TestAndSetCalled, ev.TestAndSetReturned)
_FIELDS: dict[type, tuple[str, ...]] = {
    ev.BaseUpdateCalled: (*_COMMON, "owner", "table", "version"),
    ev.BaseUpdateReturned: (*_COMMON, "outcome"),
    ev.TestAndSetCalled: (*_COMMON, "owner", "view", "expected", "new"),
    ev.TestAndSetReturned: (*_COMMON, "outcome", "seen"),
}


def _by_name(lines: Iterable[Any]) -> Iterable[tuple[str, list[Any]]]:
    found: dict[str, list[Any]] = {}
    for line in lines:
        found.setdefault(line[0], []).append(line)
    return found.items()


def _small(column: Integers) -> Any:
    """Return a column in half its room, if it fits."""
    fits = not len(column) or (int(column.min()) >= -(1 << 31) and int(column.max()) < 1 << 31)
    return column.astype(np.int32) if fits else column


def blocks_of(opened: BinaryIO, size: int) -> Iterator[bytes]:
    """Read so many bytes of lines in blocks of whole ones."""
    while size > 0 and (block := opened.read(min(BLOCK, size))):
        block += opened.readline(size - len(block))
        size -= len(block)
        yield block
