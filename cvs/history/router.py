"""A piece of a history divided by the records that its events are of, batch by batch, without making events of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zlib import crc32

import msgspec
import numpy as np

from cvs.errors import CvsError, HistoryError
from cvs.history import events as ev
from cvs.history.carried import Arrow, Headers, arrowed, events_of, fields_of, gather, packed, spread, tag_of
from cvs.history.columns import Gathered, Readers
from cvs.history.declared import declared
from cvs.history.fields import Fields, Numbering
from cvs.history.packing import NONE, Flags, Integers, Part
from cvs.model.definitions import table_from_json
from cvs.model.identity import key_identity

Operation = tuple[str, int]
Whose = tuple[int, int]  # WRITE or BASE, and the record's number; NONE, NONE: nobody's
Earlier = Callable[[set[Operation]], Mapping[Operation, Whose]]
Piece = tuple[int, int, str, bytes]  # side, part, kind, packed table

WRITE, BASE = 1, 2
Place = tuple[int, int]  # of several files: the latest time; then the place
NOWHERE = (-(1 << 62), -1)
TOUCH = "touch"
"""Tables of which part a base record touches by a certificate, and of the version that it names."""

_OWN: dict[type, tuple[str, ...]] = {
    ev.TestAndSetCalled: ("number", "process", "operation", "owner"),
    ev.TestAndSetReturned: ("number", "process", "operation"),
    ev.BaseUpdateCalled: ("number", "process", "operation", "owner"),
    ev.BaseUpdateReturned: ("number", "process", "operation"),
    ev.ViewReadCalled: ("number",),
    ev.ViewReadReturned: ("number", "process", "operation"),
    ev.UpdateReceived: ("number", "owner"),
    ev.EpochCommitted: ("number",),
    ev.Quiescent: ("number",),
}
_RARE = (ev.ViewReadCalled, ev.EpochCommitted, ev.Quiescent)
_ANSWERS = (ev.TestAndSetReturned, ev.BaseUpdateReturned, ev.ViewReadReturned)
_CARRIED = (ev.TestAndSetCalled, ev.BaseUpdateCalled, ev.ViewReadCalled, *_ANSWERS, ev.UpdateReceived)


def number_of(owner: str, key: Iterable[Any]) -> int:
    """Return one number for equal names, in every process; different names may share one."""
    told = [hash(v) if isinstance(v, int | float | Decimal) else v for v in key_identity(tuple(key))]
    return crc32(f"{owner} {told!r}".encode(errors="surrogatepass"))


class Hashed(Numbering):
    """Numbers records the same in every process; where two share a number, more is carried than must be."""

    def number(self, owner: str, key: ev.Key) -> int:
        """Hash the name."""
        return number_of(owner, key)


@dataclass(slots=True, kw_only=True)
class Told:
    """What a piece of a history tells of the whole."""

    events: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    processes: set[str] = field(default_factory=set)
    views: set[str] = field(default_factory=set)  # written to
    tables: set[str] = field(default_factory=set)  # updated
    headers: list[ev.RunStarted] = field(default_factory=list)
    clocks: dict[str, tuple[int, int]] = field(default_factory=dict)  # of its file: first and latest time
    begun: list[str] = field(default_factory=list)  # processes that have a header
    commits: list[ev.EpochCommitted] = field(default_factory=list)  # without their certificates
    rest: int | None = None  # when all was propagated
    rested: Place = NOWHERE
    updated: Place = NOWHERE  # the last event of a base update
    first_time: int | None = None
    last_time: int = -(1 << 62)
    refusal: CvsError | None = (
        None  # an answer: what a Spark task raises comes with its stack, and others are killed
    )

    def add(self, other: "Told") -> None:
        """Add what the next piece tells; raise what it met."""
        if other.refusal is not None:
            raise other.refusal
        self._go_on(other)
        self.events += other.events
        for kind, many in other.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + many
        self.processes |= other.processes
        self.views |= other.views
        self.tables |= other.tables
        self.headers += other.headers
        self.commits += other.commits
        if other.rested > self.rested:
            self.rest, self.rested = other.rest, other.rested
        self.updated = max(self.updated, other.updated)
        self.first_time = min((t for t in (self.first_time, other.first_time) if t is not None), default=None)
        self.last_time = max(self.last_time, other.last_time)

    def begin(self) -> None:
        """Say that another file begins."""
        self.clocks = {}

    def _go_on(self, other: "Told") -> None:
        """Refuse what cannot follow in one file."""
        for process in other.begun:
            if process in self.begun:
                raise HistoryError.one_of_many(f'a second run_started of process "{process}"')
            self.begun.append(process)
        for process, (first, last) in other.clocks.items():
            start, before = self.clocks.get(process, (first, first))
            if first < before:
                raise HistoryError.one_of_many(
                    f'the clock of process "{process}" goes back, from {before} to {first}'
                )
            self.clocks[process] = (start, last)


class _Routed(Gathered):
    """Gathers operations, and where events of other kinds stand."""

    def add(self, block: Fields, kinds: Iterable[tuple[Any, Integers, Fields]]) -> None:
        """Add a block by its fields."""
        kept = list(kinds)
        for kind, at, fields in kept:
            number = at + (self.events + 1)
            if kind is ev.ViewReadReturned:
                who = block.named("process", self.processes)[at]
                self.put(kind, number=number, process=who, operation=fields.whole("operation"))
            elif kind is ev.ViewReadCalled:
                self.put(kind, number=number)
        super().add(block, kept)


@dataclass(slots=True)
class _Read:
    """A batch as columns of each kind of event; those of rare kinds as objects too."""

    whole: Gathered
    names: list[str]
    kinds: dict[Any, Part]
    rare: list[tuple[int, Any]]
    times: Integers
    lines: Part

    def calls(self) -> Part:
        """Return the calls of all operations, test-and-sets first, and on which side they are."""
        calls = [
            {**self.kinds[kind], "side": np.full(len(self.kinds[kind]["number"]), side)}
            for kind, side in ((ev.TestAndSetCalled, WRITE), (ev.BaseUpdateCalled, BASE))
        ]
        numbers, reads = {name: n for n, name in enumerate(self.names)}, []
        for number, event in self.rare:
            if isinstance(event, ev.ViewReadCalled):
                whole = event.view_key is None
                whose = (NONE, NONE) if whole else (WRITE, number_of(event.view, event.view_key or ()))
                reads.append((number, numbers[event.process], event.operation, *whose))
        columns = np.array(reads, np.int64).reshape(-1, 5).T
        read = dict(zip(("number", "process", "operation", "side", "owner"), columns, strict=True))
        return _stacked([*calls, read])


class Router:
    """Divides one piece; a return goes where its call went, and `earlier` finds calls that stand before the piece."""

    def __init__(
        self, parts: int, headers: Headers = (), *, several: bool = False, earlier: Earlier = lambda _: {}
    ) -> None:
        self.parts, self.headers, self.several, self.earlier = parts, headers, several, earlier
        self.tables = {t.name: t for header in headers for t in map(table_from_json, header.tables)}
        self.told = Told()
        self.open: dict[Operation, Whose] = {}  # what was called here and has not returned

    def route(self, batch: Arrow, first: int) -> Iterator[Piece]:
        """Yield what goes where; `first` is the place of the first event in the history.

        Nothing after a batch that is no history: what is wrong with it is `told`.
        """
        if self.told.refusal is None:
            try:
                yield from self._route(batch, first)
            except CvsError as refusal:
                self.told.refusal = refusal

    def _route(self, batch: Arrow, first: int) -> Iterator[Piece]:
        read = self._read(batch)
        whose = np.full((2, batch.num_rows), NONE)  # side and number of each event
        calls, received = read.calls(), read.kinds[ev.UpdateReceived]
        whose[:, calls["number"] - 1] = calls["side"], calls["owner"]
        whose[:, received["number"] - 1] = np.full(len(received["owner"]), BASE), received["owner"]
        self._answer(calls, _stacked([read.kinds[kind] for kind in _ANSWERS]), read.names, whose)
        columns = {"at": np.arange(first, first + batch.num_rows), "base": whose[1]}
        if self.several:
            columns["latest"] = np.maximum.accumulate(np.append(self.told.last_time, read.times))[1:]
        more = {name: arrowed(column) for name, column in columns.items()}
        for kind in _CARRIED:
            yield from self._pieces(batch, kind, read.kinds[kind]["number"] - 1, whose, more)
        yield from self._touched(read)
        self.told.add(_told(read, columns))

    def calls(self, batch: Arrow) -> dict[Operation, Whose]:
        """Return whose each operation is that is called there."""
        read = self._read(batch)
        return _by_name(read.calls(), read.names)

    def _read(self, batch: Arrow) -> _Read:
        import pyarrow as pa

        readers, bases = declared(Readers(records=Hashed()), self.tables, Hashed())
        whole, table = _Routed(readers, bases=bases), pa.Table.from_batches([batch])
        gather(whole, table)
        kinds = {kind: whole.together(kind, *names) for kind, names in _OWN.items()}
        numbers = np.sort(np.concatenate([kinds[kind]["number"] for kind in _RARE]))
        rare = events_of(table.take(arrowed(numbers - 1)), self.headers) if len(numbers) else ()
        return _Read(
            whole=whole,
            names=list(whole.processes),
            kinds=kinds,
            rare=list(zip(numbers.tolist(), rare, strict=True)),
            times=whole.times(),
            lines=whole.together(ev.Absorbed, "write", "base", "high"),
        )

    def _answer(self, calls: Part, answers: Part, names: list[str], whose: Integers) -> None:
        """Find the calls of returns: here, in an earlier batch, or in an earlier piece."""
        place = _places(calls, answers, names)
        here = place >= 0
        whose[:, answers["number"][here] - 1] = calls["side"][place[here]], calls["owner"][place[here]]
        strays = _by_name(
            _chosen({**answers, "side": answers["number"], "owner": answers["number"]}, ~here), names
        )
        known = {operation: self.open.pop(operation) for operation in strays.keys() & self.open.keys()}
        if missing := strays.keys() - known.keys():
            known |= self.earlier(missing)
        for operation, (number, _) in strays.items():
            if operation not in known:
                raise _mistake(operation, "returned and was not called before, or returned twice")
            whose[:, number - 1] = known[operation]
        waits = np.ones(len(calls["number"]), np.bool_)
        waits[place[here]] = False
        fresh = _by_name(_chosen(calls, waits), names)
        for operation in fresh.keys() & self.open.keys():
            raise _mistake(operation, "is called twice")
        self.open |= fresh

    def _pieces(
        self, batch: Arrow, kind: Any, rows: Integers, whose: Integers, more: dict[str, Arrow]
    ) -> Iterator[Piece]:
        import pyarrow as pa

        names = ["line"] if "line" in batch.schema.names else fields_of(kind)
        held = pa.RecordBatch.from_pydict({**{name: batch[name] for name in names}, **more})
        for side in (WRITE, BASE):
            mine = rows[whose[0][rows] == side]
            for to, piece in spread(held, mine, whose[1][mine] % self.parts):
                yield side, to, tag_of(kind), packed(piece)

    def _touched(self, read: _Read) -> Iterator[Piece]:
        """Tell base records whom certificates say they touch; the certificates of epochs only name versions."""
        import pyarrow as pa

        part = read.kinds[ev.TestAndSetCalled]["owner"][read.lines["write"]] % self.parts
        commits = [event for _, event in read.rare if isinstance(event, ev.EpochCommitted)]
        more = [(number_of(a.table, a.key), NONE, a.to_version) for event in commits for a in event.absorbed]
        columns = np.array(more, np.int64).reshape(-1, 3).T
        own = (read.lines["base"], part, read.lines["high"])
        base, part, version = (np.append(*pair) for pair in zip(own, columns, strict=True))
        held = pa.RecordBatch.from_pydict(
            {"base": arrowed(base), "part": arrowed(part), "version": arrowed(version)}
        )
        for to, piece in spread(held, np.arange(len(base)), base % self.parts):
            yield BASE, to, TOUCH, packed(piece)


def _told(read: _Read, columns: dict[str, Integers]) -> Told:
    def last(*kinds: Any) -> Place:
        row = max(int(read.kinds[kind]["number"].max(initial=0)) for kind in kinds) - 1
        latest = int(columns["latest"][row]) if "latest" in columns else 0
        return (latest, int(columns["at"][row])) if row >= 0 else NOWHERE

    events = [event for _, event in read.rare]
    errors = {start.process: start.clock_error for start in read.whole.headers}
    rests = [e.time + errors.get(e.process, 0) for e in events if isinstance(e, ev.Quiescent)]
    return Told(
        events=read.whole.events,
        kinds=read.whole.kinds,
        processes=set(read.names),
        views=set(read.whole.views),
        tables=set(read.whole.tables),
        headers=read.whole.headers,
        clocks=dict(zip(read.names, read.whole.clocks.spans(), strict=True)),
        begun=[header.process for header in read.whole.headers],
        commits=[msgspec.structs.replace(e, absorbed=()) for e in events if isinstance(e, ev.EpochCommitted)],
        rest=rests[-1] if rests else None,
        rested=last(ev.Quiescent),
        updated=last(ev.BaseUpdateCalled, ev.BaseUpdateReturned),
        first_time=int(read.times[0]) if len(read.times) else None,
        last_time=int(read.times.max(initial=-(1 << 62))),
    )


def _places(calls: Part, answers: Part, names: list[str]) -> Integers:
    """Return the place of each return's call; NONE where it is not here."""
    both = np.append(calls["operation"], answers["operation"])
    order = np.lexsort((both, np.append(calls["process"], answers["process"])))
    many = len(calls["number"])
    process = np.append(calls["process"], answers["process"])[order]
    same = np.append(False, (process[1:] == process[:-1]) & (both[order][1:] == both[order][:-1]))
    is_call = order < many
    for place in np.flatnonzero(same & is_call)[:1].tolist():  # because the sort is stable, calls stand first
        raise _mistake((names[process[place]], int(both[order][place])), "is called twice")
    found = np.full(len(both) - many, NONE)
    answered = np.flatnonzero(same & ~is_call)
    pairs = answered[is_call[answered - 1]]
    found[order[pairs] - many] = order[pairs - 1]
    for place in answered[~is_call[answered - 1]][:1].tolist():
        raise _mistake((names[process[place]], int(both[order][place])), "returned twice")
    return found


def _mistake(operation: Operation, what: str) -> HistoryError:
    return HistoryError.one_of_many(f'operation {operation[1]} of "{operation[0]}" {what}')


def _stacked(parts: list[Part]) -> Part:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _chosen(part: Part, which: Flags) -> Part:
    return {name: column[which] for name, column in part.items()}


def _by_name(calls: Part, names: list[str]) -> dict[Operation, Whose]:
    columns = (calls[name].tolist() for name in ("process", "operation", "side", "owner"))
    return {(names[p], o): (side, owner) for p, o, side, owner in zip(*columns, strict=True)}
