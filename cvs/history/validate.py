"""Is this a history? Every complaint at once, each with file and line.

A complaint is about the record, never about the run: a lost update is a finding of the judge, a return without
a call is a complaint. `torn` complaints are what a crash leaves at the end of a file; they can be forgiven.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cvs.errors import CvsError, HistoryError
from cvs.history import events as ev
from cvs.history.codec import event_of
from cvs.model.cql_type import parse_type
from cvs.model.definitions import is_defined, table_from_json, view_from_json
from cvs.model.identity import Key, key_identity
from cvs.model.outcome import OutcomeKind
from cvs.model.scope import require_columns
from cvs.model.types import normal
from cvs.model.views import BaseTable

SHOWN_MAX = 20
OUTCOMES = frozenset(kind.value for kind in OutcomeKind)
_FIELDS: dict[str, dict[str, bool]] = {
    str(kind.__struct_config__.tag): {
        f.name: f.default is msgspec.NODEFAULT and f.default_factory is msgspec.NODEFAULT
        for f in msgspec.structs.fields(kind)
    }
    for kind in ev.AnyEvent.__args__
}
"""Of each kind of event: its fields, and whether a line must have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing that is wrong with a record of a run."""

    file: str
    line: int
    what: str
    torn: bool = False

    def __str__(self) -> str:
        """Write it the way editors jump to."""
        return f"{self.file}:{self.line}: {self.what}"


@dataclass(slots=True, kw_only=True)
class Checked:
    """What a file holds: the events that could be read, the lines they stand on, and every complaint."""

    file: str
    events: list[ev.AnyEvent] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)

    def complain(self, line: int, what: str, *, torn: bool = False) -> None:
        """Keep a complaint."""
        self.complaints.append(Complaint(file=self.file, line=line, what=what, torn=torn))


def checked(data: bytes, file: str = "history") -> Checked:
    """Read a file's content and list everything that is wrong with it."""
    found = Checked(file=file)
    _read_lines(data, found)
    _Examiner(found).examine()
    found.complaints.sort(key=lambda c: c.line)
    return found


def require_valid(found: Iterable[Checked], *, forgive_torn: bool = False, shown: int = SHOWN_MAX) -> None:
    """Refuse histories with complaints, a line each (or the first ones and how many more)."""
    complaints = [c for one in found for c in one.complaints if not (forgive_torn and c.torn)]
    if not complaints:
        return
    more = (
        [f"and {len(complaints) - shown} more; `cvs convert` lists them"] if len(complaints) > shown else []
    )
    raise HistoryError(
        "\n  ".join(
            [
                f"not a valid history, {len(complaints)} complaint{'s' * (len(complaints) > 1)}:",
                *map(str, complaints[:shown]),
                *more,
            ]
        ),
        where=complaints[0].file,
        next_step="cvs convert RUN --forgive-torn --to whole.ndjson"
        if all(complaint.torn for complaint in complaints)
        else "cvs/history/README.md documents every field",
    )


def _read_lines(data: bytes, found: Checked) -> None:
    lines = data.split(b"\n")
    whole = lines.pop() == b""  # what follows the last line end is nothing, or a torn line
    if not whole:
        lines.append(data[data.rfind(b"\n") + 1 :])
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            found.complain(number, "an empty line")
            continue
        try:
            event = event_of(line)
        except CvsError as error:
            torn = not whole and number == len(lines) > 1  # what has one line was never a history
            if torn:
                found.complain(number, "a torn last line: the process died while writing it", torn=True)
            else:
                _complain_of_line(line, number, str(error), found)
        else:
            found.events.append(event)
            found.lines.append(number)


def _complain_of_line(line: bytes, number: int, reason: str, found: Checked) -> None:
    """Say all that is wrong with the names in a line, or else the reason of the decoder."""
    try:
        raw = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raw = None
    if not isinstance(raw, dict):
        found.complain(number, f"not a JSON object: {reason}")
        return
    fields = _FIELDS.get(str(raw.get("event")))
    if fields is None:
        found.complain(number, f"no kind of event: {raw.get('event')!r}")
        return
    unknown = sorted(set(raw) - set(fields) - {"event"})
    missing = [name for name, required in fields.items() if required and name not in raw]
    for name in unknown:
        found.complain(number, f'{raw["event"]} has no field "{name}"')
    for name in missing:
        found.complain(number, f'{raw["event"]} needs its field "{name}"')
    if not unknown and not missing:
        found.complain(number, reason)


@dataclass(slots=True)
class _Examiner:
    """Goes through the events of one file and complains."""

    found: Checked
    line: int = 0
    clocks: dict[str, int] = field(default_factory=dict)
    headers: dict[str, ev.RunStarted] = field(default_factory=dict)
    calls: dict[tuple[str, int], tuple[type, int]] = field(default_factory=dict)
    returned: dict[tuple[str, int], int] = field(default_factory=dict)
    updates: dict[tuple[str, int], ev.BaseUpdateCalled] = field(default_factory=dict)
    versions: dict[tuple[str, Key, int], int] = field(default_factory=dict)
    tables: dict[str, BaseTable] = field(default_factory=dict)
    views: dict[str, int | None] = field(default_factory=dict)  # by name: how many parts its keys have
    reads: dict[tuple[str, int], str] = field(default_factory=dict)

    def examine(self) -> None:
        if not self.found.events and not self.found.complaints:
            self.found.complain(1, "an empty history")
        for line, event in zip(self.found.lines, self.found.events, strict=True):
            self.line = line
            self._in_order(event)
            examine = _EXAMINERS.get(type(event))
            if examine is not None:
                examine(self, event)

    def complain(self, what: str) -> None:
        self.found.complain(self.line, what)

    def _in_order(self, event: ev.AnyEvent) -> None:
        before = self.clocks.get(event.process)
        if not self.clocks and not isinstance(event, ev.RunStarted):
            self.complain(f'the first event of process "{event.process}" is not run_started')
        if before is not None and event.time < before:
            self.complain(f'the clock of process "{event.process}" goes back, from {before} to {event.time}')
        self.clocks[event.process] = max(event.time, before if before is not None else event.time)

    def started(self, event: ev.RunStarted) -> None:
        if event.format != ev.FORMAT:
            self.complain(f"format {event.format}; this tool reads {ev.FORMAT}")
        if event.process in self.headers:
            self.complain(f'a second run_started of process "{event.process}"')
        if any(header.run != event.run for header in self.headers.values()):
            self.complain(f'run "{event.run}" in a file of another run')
        if event.clock_error < 0:
            self.complain("clock_error is negative")
        self.headers[event.process] = event
        for take, definitions in ((self._table, event.tables), (self._view, event.views)):
            for definition in definitions:
                try:
                    take(definition)
                except CvsError as error:
                    self.complain(f"run_started: {error}")

    def _table(self, definition: dict[str, Any]) -> None:
        table = table_from_json(definition)
        for _, kind in table.columns:
            parse_type(kind)
        self.tables[table.name] = table

    def _view(self, definition: dict[str, Any]) -> None:
        """Take a view: by its definition, or by its name alone if only the name is known."""
        if not is_defined(definition):
            self.views.setdefault(str(definition["name"]), None)
        else:
            view = view_from_json(definition)
            require_columns(view, self.tables)
            self.views[view.name] = len(view.key)

    def called(self, event: Any) -> None:
        operation = (event.process, event.operation)
        if operation in self.calls:
            self.complain(
                f'process "{event.process}" called operation {event.operation} already '
                f"on line {self.calls[operation][1]}"
            )
        self.calls[operation] = (type(event), self.line)

    def answered(self, event: Any) -> None:
        operation = (event.process, event.operation)
        call = self.calls.get(operation)
        if call is None:
            self.complain(f'process "{event.process}" returned operation {event.operation} without a call')
        elif call[0] is not _CALL_OF[type(event)]:
            self.complain(f"operation {event.operation} was called on line {call[1]} as something else")
        elif operation in self.returned:
            self.complain(f"operation {event.operation} returned already on line {self.returned[operation]}")
        self.returned[operation] = self.line
        outcome = getattr(event, "outcome", None)
        if outcome is not None and outcome not in OUTCOMES:
            self.complain(f'"{outcome}" is no outcome; one of {", ".join(sorted(OUTCOMES))}')
        if getattr(event, "returned", None) is not None and outcome != OutcomeKind.REJECTED.value:
            self.complain("only a rejected test-and-set returns a signature")

    def base_update(self, event: ev.BaseUpdateCalled) -> None:
        self.called(event)
        if event.version < 1:
            self.complain("the first base update of a record makes version 1")
        self.updates[event.process, event.operation] = event
        table = self.tables.get(event.table)
        if table is not None:
            self._fits(table, event)
        elif self.tables:
            self.complain(f'table "{event.table}" is not in the header')

    def base_update_answered(self, event: ev.BaseUpdateReturned) -> None:
        """Two updates may claim one version, but only one of them can have been applied."""
        self.answered(event)
        update = self.updates.get((event.process, event.operation))
        if update is None or event.outcome != OutcomeKind.APPLIED.value:
            return
        version = (update.table, key_identity(update.key), update.version)
        if self.versions.setdefault(version, self.line) != self.line:
            self.complain(
                f"version {update.version} of {update.table} {list(update.key)} was applied already "
                f"on line {self.versions[version]}"
            )

    def _fits(self, table: BaseTable, event: ev.BaseUpdateCalled) -> None:
        types = dict(table.columns)
        if len(event.key) != len(table.key):
            self.complain(f"a key of {table.name} has {len(table.key)} parts, not {len(event.key)}")
        for name, value in (event.row or {}).items():
            if name not in types:
                self.complain(f'table "{table.name}" has no column "{name}"')
            else:
                self._typed(types[name], name, value)

    def _typed(self, kind: str, name: str, value: Any) -> None:
        try:
            normal(kind, value)
        except CvsError as error:
            self.complain(f'column "{name}": {error}')

    def written(self, event: ev.TestAndSetCalled) -> None:
        self.called(event)
        self._known_view(event.view, event.view_key)
        if event.expected == event.new:
            self.complain("a test-and-set that leaves its signature as it was cannot be told from none")

    def read(self, event: ev.ViewReadCalled) -> None:
        self.called(event)
        self.reads[event.process, event.operation] = event.view
        self._known_view(event.view, *(() if event.view_key is None else (event.view_key,)))

    def read_answered(self, event: ev.ViewReadReturned) -> None:
        self.answered(event)
        view = self.reads.get((event.process, event.operation))
        if view is not None:
            self._keyed(view, *(key for key, _ in event.rows))

    def _known_view(self, view: str, *keys: Key) -> None:
        if self.views and view not in self.views:
            self.complain(f'view "{view}" is not in the header')
        self._keyed(view, *keys)

    def _keyed(self, view: str, *keys: Key) -> None:
        for complaint in dict.fromkeys(wrong_keys(((view, key) for key in keys), self.views)):
            self.complain(complaint)

    def checkpoint(self, event: ev.Checkpoint) -> None:
        for view, key, _, _ in event.views:
            self._keyed(view, key)
        _complain_of_twins(self, "base record", [(t, key_identity(k)) for t, k, _, _ in event.base])
        _complain_of_twins(self, "view record", [(v, key_identity(k)) for v, k, _, _ in event.views])


def wrong_keys(names: Iterable[tuple[str, Key]], parts: Mapping[str, int | None]) -> Iterator[str]:
    """Yield what is wrong with keys that have another number of parts than those of their views."""
    for name, key in names:
        many = parts.get(name)
        if many is not None and len(key) != many:
            yield f'a key of view "{name}" has {many} part{"s" * (many != 1)}, not {len(key)}'


def require_keys(names: Iterable[tuple[str, Key]], definitions: Iterable[Mapping[str, Any]]) -> None:
    """Refuse such keys in what was not read line by line."""
    parts = {str(view.get("name")): len(view["key"]) for view in definitions if "key" in view}
    for complaint in wrong_keys(names, parts):
        raise HistoryError.one_of_many(complaint)


def _complain_of_twins(examiner: _Examiner, noun: str, names: Sequence[tuple[str, Key]]) -> None:
    seen: set[tuple[str, Key]] = set()
    for name in names:
        if name in seen:
            examiner.complain(f"checkpoint has {noun} {name[0]} {list(name[1])} twice")
        seen.add(name)


_CALL_OF: dict[type, type] = {
    ev.BaseUpdateReturned: ev.BaseUpdateCalled,
    ev.TestAndSetReturned: ev.TestAndSetCalled,
    ev.ViewReadReturned: ev.ViewReadCalled,
}

_EXAMINERS: dict[type, Callable[[_Examiner, Any], None]] = {
    ev.RunStarted: _Examiner.started,
    ev.BaseUpdateCalled: _Examiner.base_update,
    ev.BaseUpdateReturned: _Examiner.base_update_answered,
    ev.TestAndSetCalled: _Examiner.written,
    ev.TestAndSetReturned: _Examiner.answered,
    ev.ViewReadCalled: _Examiner.read,
    ev.ViewReadReturned: _Examiner.read_answered,
    ev.Checkpoint: _Examiner.checkpoint,
}
