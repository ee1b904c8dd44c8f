"""The one columnar door: a big history as NumPy arrays, block by block, from lines or from Parquet.

Values stay outside: whoever judges says by `Readers` what it needs of base rows and view records, and gets them
a block at a time, so that a million rows are never objects all at once. Calls and returns are joined at the end.
What the file claims is trusted; `validate.py` says whether it is valid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from cvs.errors import AssumptionError
from cvs.history import events as ev
from cvs.model.identity import key_identity
from cvs.model.outcome import OutcomeKind

ENDLESS = 1 << 62
"""When an operation returned that nobody heard of again."""

NONE = -1
"""Stands for a signature that is absent (no record) or was not told, and for a place that is none."""

OUTCOMES = tuple(OutcomeKind)
CODES = {kind.value: code for code, kind in enumerate(OUTCOMES)}
APPLIED, REJECTED, UNKNOWN = map(
    OUTCOMES.index, (OutcomeKind.APPLIED, OutcomeKind.REJECTED, OutcomeKind.UNKNOWN)
)
BLOCK = 1 << 20  # bytes decoded at once: small enough for the objects to stay in the processor's cache

_CHUNK_BITS, _VERSION_BITS, _INCARNATION_BITS, _OPERATION_BITS = 14, 36, 12, 40

Integers = npt.NDArray[np.int64]
Part = dict[str, Integers]
Name = tuple[str, ev.Key]


class NotColumnarError(AssumptionError):
    """Something that has no place in these columns: whoever asked takes the events themselves."""


def packed(scalars: ev.Scalars | None) -> int:
    """Return a signature as one integer that sorts as the signature does; NONE for none."""
    return NONE if scalars is None else int(packed_column([scalars])[0])


def unpacked(value: int) -> ev.Scalars | None:
    """Return the signature of an integer that `packed` made."""
    if value == NONE:
        return None
    rest, last = value >> 1, bool(value & 1)
    version = rest >> _CHUNK_BITS
    return (
        version >> _VERSION_BITS,
        version & ((1 << _VERSION_BITS) - 1),
        rest & ((1 << _CHUNK_BITS) - 1),
        last,
    )


def packed_parts(parts: Sequence[Integers]) -> Integers:
    """Pack signatures given as four columns; one that does not fit is refused."""
    incarnation, version, chunk, last = parts
    wide = (incarnation >> _INCARNATION_BITS) | (version >> _VERSION_BITS) | (chunk >> _CHUNK_BITS)
    for place in np.flatnonzero(wide)[:1]:
        raise NotColumnarError(
            f"signature {[int(part[place]) for part in parts]} is too large or negative",
            next_step=f"versions below 2^{_VERSION_BITS}, chunks below 2^{_CHUNK_BITS}, "
            f"incarnations below 2^{_INCARNATION_BITS}",
        )
    whole: Integers = (((incarnation << _VERSION_BITS | version) << _CHUNK_BITS | chunk) << 1) | last
    return whole


_NO_SIGNATURE = (0, 0, 0, False)


def packed_column(signatures: Sequence[ev.Scalars | None]) -> Integers:
    """Pack many signatures at once."""
    count = len(signatures)
    flat = chain.from_iterable(signature or _NO_SIGNATURE for signature in signatures)
    parts = np.fromiter(flat, dtype=np.int64, count=4 * count).reshape(count, 4).T
    absent = np.fromiter((s is None for s in signatures), dtype=np.bool_, count=count)
    return np.where(absent, NONE, packed_parts(list(parts)))


class Numbering(dict[Any, int]):
    """Numbers pairs of a name and a key in the order of their first appearance; equal keys get one number.

    Those that are not `owned` get NONE.
    """

    def __init__(self, owned: Callable[[str, ev.Key], bool] | None = None) -> None:
        super().__init__()
        self.known: dict[Name, int] = {}
        self.owned = owned

    def __missing__(self, raw: Name) -> int:
        mine = self.owned is None or self.owned(*raw)
        number = self.known.setdefault((raw[0], key_identity(raw[1])), len(self.known)) if mine else NONE
        self[raw] = number
        return number


def fill(values: Iterable[int], count: int) -> Integers:
    """Make a column."""
    return np.fromiter(values, dtype=np.int64, count=count)


class Reader:
    """Takes the rows of one table, or of one view, in the order of their calls; `None` is a deleted row."""

    def take(self, rows: Sequence[ev.Row | None], keys: Sequence[ev.Key] | None) -> None:
        """Take the rows of a block; of a view, with their view keys."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class Readers:
    """Who reads the rows of base tables, and of views, and how view records are numbered."""

    records: Numbering = field(default_factory=Numbering)
    tables: Mapping[str, Sequence[Reader]] = field(default_factory=dict)
    views: Mapping[str, Reader] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Calls with what came of them, one position a call; times are widened by the clocks' errors."""

    owner: Integers  # number of the base record, or of the view record
    called: Integers
    returned: Integers  # ENDLESS if unknown
    outcome: Integers  # position in OUTCOMES
    number: Integers  # of the event of the call, from 1
    answered: Integers  # ... of the return, or ENDLESS
    own: Part  # what only this kind has


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
    events: int
    first_time: int
    last_time: int


class Names(dict[Any, int]):
    """Numbers for things, in the order in which they were met."""

    def __missing__(self, thing: Any) -> int:
        number = self[thing] = len(self)
        return number

    def of(self, things: Sequence[Any]) -> Integers:
        """Return the number of each thing."""
        return fill(map(self.__getitem__, things), len(things))


@dataclass(slots=True)
class Gathered:
    """Columns block by block."""

    readers: Readers
    bases: Numbering = field(default_factory=Numbering)
    processes: Names = field(default_factory=Names)
    tables: Names = field(default_factory=Names)
    views: Names = field(default_factory=Names)
    headers: list[ev.RunStarted] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)  # events before each file
    events: int = 0
    writes: int = 0

    def begin(self) -> None:
        """Say that another file begins."""
        self.starts.append(self.events)

    def take(self, block: Sequence[Any]) -> None:
        """Add some events of one file, in its order."""
        times = _column("time", block)
        who = self.processes.of(_each("process", block))
        places: dict[Any, list[int]] = {}
        for place, kind in enumerate(map(type, block)):
            places.setdefault(kind, []).append(place)
        for kind, where in places.items():
            lines = [block[place] for place in where]
            self.count(kind.__struct_config__.tag, len(lines))
            if kind is ev.RunStarted:
                self.headers += lines
            way = _WAYS.get(kind)
            if way is not None:
                at = np.array(where, dtype=np.int64)
                self.put(
                    kind, **way(self, lines), number=at + (self.events + 1), process=who[at],
                    operation=_column("operation", lines), time=times[at],
                )  # fmt: skip
        self.put(ev.Event, time=times)
        self.events += len(block)

    def count(self, tag: Any, many: int) -> None:
        """Count events of a kind."""
        self.kinds[str(tag)] = self.kinds.get(str(tag), 0) + many

    def put(self, kind: type, **part: Integers) -> None:
        """Add columns of one kind."""
        self.parts.setdefault(kind.__name__, []).append(part)

    def _updates(self, lines: list[ev.BaseUpdateCalled]) -> Part:
        names = _each("table", lines)
        rows = _each("row", lines)
        for table in dict.fromkeys(names):
            own = (
                rows if len(set(names)) == 1 else [r for r, n in zip(rows, names, strict=True) if n == table]
            )
            for reader in self.readers.tables.get(table, ()):
                reader.take(own, None)
        pairs = zip(names, _each("key", lines), strict=True)
        return {
            "owner": fill(map(self.bases.__getitem__, pairs), len(lines)),
            "table": self.tables.of(names),
            "version": _column("version", lines),
        }

    def _writes(self, lines: list[ev.TestAndSetCalled]) -> Part:
        names, keys, rows = _each("view", lines), _each("view_key", lines), _each("row", lines)
        for view in dict.fromkeys(names):
            reader = self.readers.views.get(view)
            if reader is not None:
                mine = [place for place, name in enumerate(names) if name == view]
                reader.take([rows[place] for place in mine], [keys[place] for place in mine])
        absorbed = _each("absorbed", lines)
        counts = fill(map(len, absorbed), len(lines))
        flat = list(chain.from_iterable(absorbed))
        pairs = zip(_each("table", flat), _each("key", flat), strict=True)
        self.put(
            ev.Absorbed,
            write=np.repeat(np.arange(self.writes, self.writes + len(lines)), counts),
            base=fill(map(self.bases.__getitem__, pairs), len(flat)),
            low=_column("from_version", flat),
            high=_column("to_version", flat),
        )
        self.writes += len(lines)
        return {
            "owner": fill(map(self.readers.records.__getitem__, zip(names, keys, strict=True)), len(lines)),
            "view": self.views.of(names),
            "expected": packed_column(_each("expected", lines)),
            "new": packed_column(_each("new", lines)),
        }

    def _answers(self, lines: list[Any]) -> Part:
        return {"outcome": fill(map(CODES.__getitem__, _each("outcome", lines)), len(lines))}

    def _write_answers(self, lines: list[ev.TestAndSetReturned]) -> Part:
        return {**self._answers(lines), "seen": packed_column(_each("returned", lines))}

    def columns(self) -> Columns:
        """Join calls with their returns."""
        times = self._together(ev.Event, "time")["time"]
        order = self._merged(times)
        errors = {start.process: start.clock_error for start in self.headers}
        widths = np.array([errors.get(name, 0) for name in self.processes], dtype=np.int64)
        updates, answers = (self._together(kind, *_FIELDS[kind]) for kind in _UPDATES)
        writes, replies = (self._together(kind, *_FIELDS[kind]) for kind in _WRITES)
        return Columns(
            headers=tuple(self.headers),
            processes=tuple(self.processes),
            records=tuple(self.readers.records.known),
            bases=tuple(self.bases.known),
            updates=_joined(updates, answers, widths, order, ("version", "table")),
            writes=_joined(writes, replies, widths, order, ("expected", "new", "view")),
            lines=self._together(ev.Absorbed, "write", "base", "low", "high"),
            tables=tuple(self.tables),
            views=tuple(self.views),
            kinds=self.kinds,
            events=self.events,
            first_time=int(times[0]) if len(times) else 0,
            last_time=int(times.max(initial=0)),
        )

    def _together(self, kind: type, *names: str) -> Part:
        """Make whole columns of the blocks; what they were made of is let go."""
        blocks = self.parts.pop(kind.__name__, [])
        empty = np.zeros(0, dtype=np.int64)
        return {name: np.concatenate([block.pop(name) for block in blocks] or [empty]) for name in names}

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


_WAYS: dict[type, Callable[[Gathered, list[Any]], Part]] = {
    ev.BaseUpdateCalled: Gathered._updates,
    ev.BaseUpdateReturned: Gathered._answers,
    ev.TestAndSetCalled: Gathered._writes,
    ev.TestAndSetReturned: Gathered._write_answers,
}
_COMMON = ("number", "process", "operation", "time")
_UPDATES = (ev.BaseUpdateCalled, ev.BaseUpdateReturned)
_WRITES = (ev.TestAndSetCalled, ev.TestAndSetReturned)
_FIELDS: dict[type, tuple[str, ...]] = {
    ev.BaseUpdateCalled: (*_COMMON, "owner", "table", "version"),
    ev.BaseUpdateReturned: (*_COMMON, "outcome"),
    ev.TestAndSetCalled: (*_COMMON, "owner", "view", "expected", "new"),
    ev.TestAndSetReturned: (*_COMMON, "outcome", "seen"),
}


def _each(name: str, lines: Sequence[Any]) -> list[Any]:
    return list(map(attrgetter(name), lines))


def _column(name: str, lines: Sequence[Any]) -> Integers:
    return fill(map(attrgetter(name), lines), len(lines))


def _joined(
    calls: Part, answers: Part, errors: Integers, order: Integers | None, own: tuple[str, ...]
) -> Operations:
    """Find the return of each call by (process, operation): one side sorted, the other looked up."""
    mine, theirs = _compound(calls), _compound(answers)
    sort = np.argsort(theirs, kind="stable")
    ranked = theirs[sort]
    place = np.full(len(mine), NONE, dtype=np.int64)
    if len(ranked):
        at = np.minimum(np.searchsorted(ranked, mine), len(ranked) - 1)
        place = np.where(ranked[at] == mine, sort[at], NONE)
    if np.count_nonzero(place >= 0) != len(theirs) or (ranked[1:] == ranked[:-1]).any():
        raise NotColumnarError("returns without calls, or operations that stand there twice")
    outcome = np.append(answers["outcome"], UNKNOWN)[place]
    widened = answers["time"] + errors[answers["process"]]
    number, answered = calls["number"], np.append(answers["number"], 0)[place]
    if order is not None:
        number, answered = order[number], order[answered]
    part = {name: calls[name] for name in own}
    if "seen" in answers:
        part["seen"] = np.append(answers["seen"], NONE)[place]
    return Operations(
        owner=calls["owner"],
        called=calls["time"] - errors[calls["process"]],
        returned=np.where(outcome == UNKNOWN, ENDLESS, np.append(widened, ENDLESS)[place]),
        outcome=outcome,
        number=number,
        answered=np.where(place < 0, ENDLESS, answered),
        own=part,
    )


def _compound(side: Part) -> Integers:
    """Return one number for process and operation."""
    operation = side["operation"]
    if (
        (operation < 0).any()
        or (operation >= 1 << _OPERATION_BITS).any()
        or (side["process"] >= 1 << 22).any()
    ):
        raise NotColumnarError(f"operations are numbered from 0 to 2^{_OPERATION_BITS} here")
    return side["process"] << _OPERATION_BITS | operation


def blocks_of(data: bytes) -> Iterator[bytes]:
    """Cut lines into blocks of whole ones."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + BLOCK) + 1
        if end <= start:
            end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end
