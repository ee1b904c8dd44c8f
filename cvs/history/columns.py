"""A big history as columns: what the fast judge needs of test-and-sets and reads, as NumPy arrays.

Only the fields named here are looked at; keys stay bytes until the last moment. The file is trusted to be
valid: `validate.py` says whether it is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from cvs.errors import AssumptionError, HistoryError
from cvs.history.events import Key, Scalars
from cvs.model.outcome import OutcomeKind
from cvs.model.values import from_json

ENDLESS = 1 << 62
"""When an operation returned that nobody heard of again."""

NONE = -1
"""Stands for a signature that is absent (no record) or was not told."""

OUTCOMES = tuple(OutcomeKind)
UNKNOWN = OUTCOMES.index(OutcomeKind.UNKNOWN)
_CODES = {kind.value: code for code, kind in enumerate(OUTCOMES)}
_BLOCK = 1 << 20  # bytes decoded at once: small enough for the objects to stay in the processor's cache

_CHUNK_BITS, _VERSION_BITS, _INCARNATION_BITS = 14, 36, 12

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Test-and-sets, or reads of one view record: one position an operation, in the order of their calls."""

    record: Integers  # position in `records`
    process: Integers  # position in `processes`
    operation: Integers
    called: Integers
    returned: Integers  # ENDLESS if unknown
    outcome: Integers  # position in OUTCOMES; of a read: applied, or unknown if it never returned
    expected: Integers  # packed signature or NONE; of a read: NONE
    new: Integers  # likewise
    seen: Integers  # what a refused condition or a read saw, packed, or NONE
    line: Integers  # number of the event of the call, from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """One run: its view records, its processes with their clock errors, and its operations."""

    records: tuple[tuple[str, Key], ...]
    processes: tuple[str, ...]
    clock_errors: Integers
    test_and_sets: Operations
    reads: Operations
    events: int


def packed(scalars: Scalars | None) -> int:
    """Return a signature as one integer that sorts as the signature does; NONE for none."""
    if scalars is None:
        return NONE
    incarnation, version, chunk, last = scalars
    if chunk >> _CHUNK_BITS or version >> _VERSION_BITS or incarnation >> _INCARNATION_BITS:
        raise AssumptionError(
            f"signature {list(scalars)} is too large or negative",
            next_step=f"versions below 2^{_VERSION_BITS}, chunks below 2^{_CHUNK_BITS}, "
            f"incarnations below 2^{_INCARNATION_BITS}",
        )
    return (((incarnation << _VERSION_BITS | version) << _CHUNK_BITS | chunk) << 1) | last


def unpacked(value: int) -> Scalars | None:
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


class _Line(msgspec.Struct, frozen=True, gc=False, tag_field="event"):
    process: str


class _Started(_Line, frozen=True, gc=False, tag="run_started"):
    clock_error: int = 0


class _Called(_Line, frozen=True, gc=False, tag="test_and_set_called"):
    time: int
    operation: int
    view: str
    view_key: msgspec.Raw
    expected: Scalars | None
    new: Scalars


class _Returned(_Line, frozen=True, gc=False, tag="test_and_set_returned"):
    time: int
    operation: int
    outcome: str
    returned: Scalars | None = None


class _ReadCalled(_Line, frozen=True, gc=False, tag="view_read_called"):
    time: int
    operation: int
    view: str
    view_key: msgspec.Raw


class _ReadReturned(_Line, frozen=True, gc=False, tag="view_read_returned"):
    time: int
    operation: int
    signature: Scalars | None = None


def _other(tag: str) -> Any:
    return msgspec.defstruct(f"_{tag}", [], bases=(_Line,), tag_field="event", tag=tag, frozen=True, gc=False)


_OTHERS = tuple(
    map(
        _other,
        (
            *("base_update_called", "base_update_returned", "update_received", "manager_crashed"),
            *("epoch_committed", "checkpoint", "quiescent"),
        ),
    )
)
_KINDS: Any = _Started | _Called | _Returned | _ReadCalled | _ReadReturned
for _kind in _OTHERS:
    _KINDS = _KINDS | _kind
_DECODER: Any = msgspec.json.Decoder(_KINDS)


def columns_of(data: bytes | Iterable[bytes]) -> Columns:
    """Return the columns of NDJSON, given whole or in pieces that end at line ends."""
    gathered = Gathered()
    for block in _blocks(data):
        try:
            gathered.take(_DECODER.decode_lines(block))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, OverflowError) as error:
            raise HistoryError(
                f"not a valid history: {error}", next_step="`cvs convert` lists every mistake with its line"
            ) from error
    return gathered.columns()


def _blocks(data: bytes | Iterable[bytes]) -> Iterator[memoryview | bytes]:
    if not isinstance(data, bytes):
        yield from data
        return
    view, start = memoryview(data), 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _BLOCK) + 1
        if end <= start:
            end = data.find(b"\n", start) + 1 or len(data)
        yield view[start:end]
        start = end


@dataclass(slots=True)
class Names:
    """Numbers for things, in the order in which they were met."""

    numbers: dict[Any, int] = field(default_factory=dict)

    def of(self, things: list[Any]) -> Integers:
        """Return the number of each thing; loops run in C, because this is called for every event."""
        numbers = self.numbers
        for thing in dict.fromkeys(things):
            numbers.setdefault(thing, len(numbers))
        return np.fromiter(map(numbers.__getitem__, things), dtype=np.int64, count=len(things))


def _integers(lines: list[Any], name: str) -> Integers:
    return np.fromiter(map(attrgetter(name), lines), dtype=np.int64, count=len(lines))


_FIELDS = ("record", "process", "operation", "time", "expected", "new", "line")
_ANSWERS = ("process", "operation", "time", "outcome", "seen")


@dataclass(slots=True)
class Gathered:
    """Columns block by block; calls and returns meet at the end."""

    records: Names = field(default_factory=Names)
    processes: Names = field(default_factory=Names)
    errors: dict[str, int] = field(default_factory=dict)
    blocks: dict[str, list[dict[str, Integers]]] = field(
        default_factory=lambda: {name: [] for name in ("called", "returned", "read", "seen")}
    )
    events: int = 0

    def take(self, block: list[Any]) -> None:
        """Add a block of decoded lines."""
        kinds = list(map(type, block))
        for line in _only(block, kinds, _Started)[0]:
            self.errors[line.process] = line.clock_error
        for call, name in ((_Called, "called"), (_ReadCalled, "read")):
            lines, numbers = _only(block, kinds, call)
            if call is _ReadCalled:  # because a read of the whole view is of no record
                kept = [i for i, line in enumerate(lines) if bytes(line.view_key) != b"null"]
                lines, numbers = [lines[i] for i in kept], numbers[kept]
            if lines:
                self.blocks[name].append(self._calls(lines, numbers))
        for answer, name in ((_Returned, "returned"), (_ReadReturned, "seen")):
            lines, _ = _only(block, kinds, answer)
            if lines:
                self.blocks[name].append(self._answers(lines))
        self.events += len(block)

    def _calls(self, lines: list[Any], numbers: Integers) -> dict[str, Integers]:
        nothing = np.full(len(lines), NONE, dtype=np.int64)
        writes = type(lines[0]) is _Called
        keys = map(bytes, map(attrgetter("view_key"), lines))
        return {
            "record": self.records.of(list(zip(map(attrgetter("view"), lines), keys, strict=True))),
            "process": self.processes.of(list(map(attrgetter("process"), lines))),
            "operation": _integers(lines, "operation"),
            "time": _integers(lines, "time"),
            "expected": packed_column(list(map(attrgetter("expected"), lines))) if writes else nothing,
            "new": packed_column(list(map(attrgetter("new"), lines))) if writes else nothing,
            "line": numbers + (self.events + 1),
        }

    def _answers(self, lines: list[Any]) -> dict[str, Integers]:
        writes = type(lines[0]) is _Returned
        said = map(attrgetter("outcome"), lines) if writes else repeat("applied", len(lines))
        try:
            outcome = np.fromiter(map(_CODES.__getitem__, said), dtype=np.int64, count=len(lines))
        except KeyError as error:
            raise HistoryError(f"{error} is no outcome", next_step=f"one of {', '.join(_CODES)}") from error
        return {
            "process": self.processes.of(list(map(attrgetter("process"), lines))),
            "operation": _integers(lines, "operation"),
            "time": _integers(lines, "time"),
            "outcome": outcome,
            "seen": packed_column(list(map(attrgetter("returned" if writes else "signature"), lines))),
        }

    def columns(self) -> Columns:
        """Join calls with their returns."""
        joined = {
            name: _joined(_together(self.blocks[name], _FIELDS), _together(self.blocks[answers], _ANSWERS))
            for name, answers in (("called", "returned"), ("read", "seen"))
        }
        records, positions = _records(self.records)
        processes = tuple(self.processes.numbers)
        return Columns(
            records=records,
            processes=processes,
            clock_errors=np.array([self.errors.get(name, 0) for name in processes], dtype=np.int64),
            test_and_sets=_placed(joined["called"], positions),
            reads=_placed(joined["read"], positions),
            events=self.events,
        )


def _only(block: list[Any], kinds: list[type], kind: type) -> tuple[list[Any], Integers]:
    """Return the lines of one kind and their places in the block."""
    numbers = [number for number, own in enumerate(kinds) if own is kind]
    return [block[number] for number in numbers], np.array(numbers, dtype=np.int64)


def packed_parts(parts: list[Integers]) -> Integers:
    """Pack signatures given as four columns; the first that does not fit is refused."""
    incarnation, version, chunk, last = parts
    wide = (incarnation >> _INCARNATION_BITS) | (version >> _VERSION_BITS) | (chunk >> _CHUNK_BITS)
    for place in np.flatnonzero(wide)[:1]:
        packed((int(incarnation[place]), int(version[place]), int(chunk[place]), bool(last[place])))
    whole: Integers = (((incarnation << _VERSION_BITS | version) << _CHUNK_BITS | chunk) << 1) | last
    return whole


def packed_column(signatures: list[Scalars | None]) -> Integers:
    """Pack many signatures at once."""
    whole = np.full(len(signatures), NONE, dtype=np.int64)
    present = [scalars for scalars in signatures if scalars is not None]
    if not present:
        return whole
    parts = np.fromiter(chain.from_iterable(present), dtype=np.int64, count=4 * len(present))
    values = packed_parts(list(parts.reshape(len(present), 4).T))
    if len(present) == len(signatures):
        return values
    whole[[place for place, scalars in enumerate(signatures) if scalars is not None]] = values
    return whole


def _together(blocks: list[dict[str, Integers]], names: tuple[str, ...]) -> dict[str, Integers]:
    empty = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([block[name] for block in blocks] or [empty]) for name in names}


def _joined(calls: dict[str, Integers], answers: dict[str, Integers]) -> Operations:
    """Find the return of each call by (process, operation): both sides sorted, then looked up."""
    count = len(calls["record"])
    returned = np.full(count, ENDLESS, dtype=np.int64)
    outcome = np.full(count, UNKNOWN, dtype=np.int64)
    seen = np.full(count, NONE, dtype=np.int64)
    if len(answers["process"]) and count:
        order = np.lexsort((answers["operation"], answers["process"]))
        ours = _compound(calls, answers)
        theirs = _compound(answers, answers)[order]
        place = np.minimum(np.searchsorted(theirs, ours), len(theirs) - 1)
        found = theirs[place] == ours
        source = order[place[found]]
        outcome[found], seen[found] = answers["outcome"][source], answers["seen"][source]
        returned[found] = answers["time"][source]
        returned[outcome == UNKNOWN] = ENDLESS
    return Operations(
        **{name: calls[name] for name in ("record", "process", "operation", "expected", "new", "line")},
        called=calls["time"],
        returned=returned,
        outcome=outcome,
        seen=seen,
    )


def _compound(side: dict[str, Integers], answers: dict[str, Integers]) -> Integers:
    """Return one number for process and operation, for this join only."""
    least = int(answers["operation"].min())
    width = int(answers["operation"].max()) - least + 1
    inside = (side["operation"] >= least) & (side["operation"] < least + width)
    return np.where(inside, side["process"] * width + (side["operation"] - least), -1)


def _records(names: Names) -> tuple[tuple[tuple[str, Key], ...], Integers]:
    """Decode each key once; keys that were written differently and are the same become one record."""
    known: dict[tuple[str, Any], int] = {}
    positions = []
    records: list[tuple[str, Key]] = []
    for view, raw in names.numbers:
        key = from_json(msgspec.json.decode(raw))
        if not isinstance(key, tuple):
            raise HistoryError(f"a view key is a list, not {raw[:40]!r}")
        name = (view, key)
        if name not in known:
            known[name] = len(records)
            records.append(name)
        positions.append(known[name])
    return tuple(records), np.array(positions, dtype=np.int64)


def _placed(operations: Operations, positions: Integers) -> Operations:
    if not len(operations.record):
        return operations
    changed = {name: getattr(operations, name) for name in Operations.__slots__}
    return Operations(**{**changed, "record": positions[operations.record]})
