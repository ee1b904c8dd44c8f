"""For people who test their own view maintainer: record what it does, then `cvs audit` the file.

Views are known by their names here; `cvs convert m1.ndjson --define views.sql --to run.ndjson` says what they are.

    with open("m1.ndjson", "ab", buffering=0) as file:
        history = History(write=file.write, clock=time.time_ns, process="m1", run="my run")
        history.base_update("shop.orders", (1,), {"region": "EU"}, version=1).applied()
        call = history.test_and_set("by_region", ("EU",), expected=None, new=(0, 1, 0, True), row={"n": 1},
                                    absorbed=[("shop.orders", (1,), 0, 1)])
        ...                       # send the request here: the call is already written
        call.applied()            # or .rejected(signature seen), .not_sent(), .unknown(), or nothing

A call is written before it returns to you, so it is on its way to the disk before your request leaves. A call
whose answer you never write is unknown, which is the truth.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.codec import line_of
from cvs.model.definitions import definition_to_json
from cvs.model.outcome import OutcomeKind
from cvs.model.views import BaseTable, ViewDefinition

Value = Any  # because a column may hold any CQL value
Key = tuple[Value, ...]
Line = tuple[str, Key, int, int]
"""Of a certificate: table, key, from version, to version."""


@dataclass(slots=True)
class Call:
    """One operation that was called; say its outcome once, or never if it is unknown."""

    returned: Callable[[OutcomeKind, ev.Scalars | None], ev.AnyEvent]
    write: Callable[[ev.AnyEvent], None]
    said: bool = False

    def applied(self) -> None:
        """Say that it took effect."""
        self._say(OutcomeKind.APPLIED)

    def rejected(self, seen: ev.Scalars | None = None) -> None:
        """Say that its condition failed, and which signature it saw, if the answer told."""
        self._say(OutcomeKind.REJECTED, seen)

    def not_sent(self) -> None:
        """Say that it surely never left: only if nothing was handed to the network."""
        self._say(OutcomeKind.NOT_SENT)

    def unknown(self) -> None:
        """Say that nobody knows; the same as saying nothing."""
        self._say(OutcomeKind.UNKNOWN)

    def _say(self, kind: OutcomeKind, seen: ev.Scalars | None = None) -> None:
        if self.said:
            raise HistoryError("the outcome of this call was said already")
        self.said = True
        self.write(self.returned(kind, seen))


@dataclass(slots=True, kw_only=True)
class History:
    """The record one process keeps; give each process its own, and its own file."""

    write: Callable[[bytes], object]
    clock: Callable[[], int]
    process: str
    run: str
    views: Iterable[ViewDefinition | str] = ()
    tables: Iterable[BaseTable] = ()
    clock_error: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    _operation: int = 0

    def __post_init__(self) -> None:
        """Write the header."""
        views = tuple({"name": v} if isinstance(v, str) else definition_to_json(v) for v in self.views)
        self._event(
            ev.RunStarted,
            run=self.run,
            views=views,
            tables=tuple(map(definition_to_json, self.tables)),
            clock_error=self.clock_error,
            settings=dict(self.settings),
        )

    def _event(self, kind: type[Any], **fields: Any) -> None:
        self._write(kind(process=self.process, time=self.clock(), **fields))

    def _write(self, event: ev.AnyEvent) -> None:
        self.write(line_of(event))

    def _next(self) -> int:
        self._operation += 1
        return self._operation

    def base_update(
        self,
        table: str,
        key: Key,
        row: Mapping[str, Value] | None,
        *,
        version: int,
        write_time: int | None = None,
    ) -> Call:
        """Write that a base update leaves: the whole row after it, None for a delete."""
        operation = self._next()
        whole = None if row is None else dict(row)
        self._event(
            ev.BaseUpdateCalled,
            operation=operation,
            table=table,
            key=_key(key),
            version=version,
            row=whole,
            write_time=write_time,
        )
        return Call(lambda kind, _: self._base_returned(operation, kind), self._write)

    def _base_returned(self, operation: int, kind: OutcomeKind) -> ev.AnyEvent:
        return ev.BaseUpdateReturned(
            process=self.process, time=self.clock(), operation=operation, outcome=kind.value
        )

    def received(
        self, table: str, key: Key, *, version: int, stream: str, entry: int, attempt: int = 1
    ) -> None:
        """Write that an entry of a stream was handed to you; also when it comes again."""
        self._event(
            ev.UpdateReceived,
            stream=stream,
            entry=entry,
            table=table,
            key=_key(key),
            version=version,
            attempt=attempt,
        )

    def test_and_set(
        self,
        view: str,
        key: Key,
        *,
        expected: ev.Scalars | None,
        new: ev.Scalars,
        row: Mapping[str, Value] | None,
        absorbed: Iterable[Line] = (),
    ) -> Call:
        """Write that a test-and-set leaves; `absorbed` is its certificate: (table, key, from, to version)."""
        operation = self._next()
        self._event(
            ev.TestAndSetCalled,
            operation=operation,
            view=view,
            view_key=_key(key),
            expected=None if expected is None else _signature(expected),
            new=_signature(new),
            row=None if row is None else dict(row),
            absorbed=_lines(absorbed),
        )
        return Call(lambda kind, seen: self._set_returned(operation, kind, seen), self._write)

    def _set_returned(self, operation: int, kind: OutcomeKind, seen: ev.Scalars | None) -> ev.AnyEvent:
        return ev.TestAndSetReturned(
            process=self.process,
            time=self.clock(),
            operation=operation,
            outcome=kind.value,
            returned=None if seen is None else _signature(seen),
        )

    def read(self, view: str, key: Key | None = None, *, snapshot: bool = False) -> int:
        """Write that a read leaves (key None: of the whole view); `read_returned` takes the number."""
        operation = self._next()
        view_key = None if key is None else _key(key)
        self._event(ev.ViewReadCalled, operation=operation, view=view, view_key=view_key, snapshot=snapshot)
        return operation

    def read_returned(
        self,
        operation: int,
        rows: Iterable[tuple[Key, Mapping[str, Value]]],
        *,
        signature: ev.Scalars | None = None,
        epoch: int | None = None,
    ) -> None:
        """Write what a read saw; no rows if there was no view record; `epoch` of a snapshot."""
        seen = tuple((_key(key), dict(row)) for key, row in rows)
        shown = None if signature is None else _signature(signature)
        self._event(ev.ViewReadReturned, operation=operation, rows=seen, signature=shown, epoch=epoch)

    def committed(
        self,
        epoch: int,
        *,
        absorbed: Iterable[Line],
        pipeline: str = "pipeline",
        incarnation: int = 0,
    ) -> None:
        """Write that snapshots may show an epoch now, and the base updates that it has more than the last."""
        self._event(
            ev.EpochCommitted,
            pipeline=pipeline,
            incarnation=incarnation,
            epoch=epoch,
            absorbed=_lines(absorbed),
        )

    def crashed(self, victim: str) -> None:
        """Write that a process died."""
        self._event(ev.ManagerCrashed, victim=victim)

    def quiescent(self) -> None:
        """Write that everything before this was propagated: convergence can be judged."""
        self._event(ev.Quiescent)


def _key(key: Any) -> Key:
    """Refuse what a person takes for a key of one part; a text would be one of many."""
    if not isinstance(key, tuple | list):
        raise HistoryError(f"a key is a list of values, not {key!r}", next_step=f"write ({key!r},)")
    return tuple(key)


def _signature(scalars: Any) -> ev.Scalars:
    if not isinstance(scalars, tuple | list) or [*map(type, scalars)] != [int, int, int, bool]:
        raise HistoryError(
            f"a signature is (incarnation, version, chunk, last), not {scalars!r}",
            next_step="write (0, n, 0, True) where you only count versions",
        )
    return tuple(scalars)


def _lines(absorbed: Iterable[Line]) -> tuple[ev.Absorbed, ...]:
    return tuple(
        ev.Absorbed(table=table, key=_key(key), from_version=before, to_version=after)
        for table, key, before, after in absorbed
    )
