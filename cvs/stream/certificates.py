"""From epoch logs and the base writers' log to one history with certificates, after the run.

A certificate says which versions of which base records a view record absorbed in an epoch. The pipeline does
not carry that along; it is found here from what moved: base rows touch the view records that the view of them
alone (with the other tables as they were) has before an epoch, and after it. Certificates are claims: the judge
evaluates every cut they name against the writers' log, so a wrong one can only make a good run look bad.

A version of a base record is known by its write time: writers use the write time as their operation's number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.model.keys import refusal
from cvs.model.recompute import recompute
from cvs.model.views import BaseTable, ViewDefinition
from cvs.programs.stage_codec import Values
from cvs.stream.epochs import Epoch, carried
from cvs.stream.reach import BaseRecord, BaseRows, Reach, Row

Scalars = tuple[int, int, int, bool]
PROCESS = "pipeline"
TOGETHER = 4_096
Move = tuple[str, BaseRecord, int, Row | None, Row | None]
"""Of a base row: its table, itself, the version it has now, before and now."""


@dataclass(slots=True)
class _View:
    definition: ViewDefinition
    reach: Reach
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: dict[Values, Row | None] = field(default_factory=dict)
    signatures: dict[Values, Scalars] = field(default_factory=dict)
    held: dict[tuple[Values, BaseRecord], int] = field(default_factory=dict)
    touched: set[Values] = field(default_factory=set)  # view records that moved since they were last shown
    due: dict[Values, set[BaseRecord]] = field(default_factory=dict)  # what they absorb when they are shown
    partner_of: dict[BaseRecord, set[Values]] = field(default_factory=dict)
    beside: list[BaseRecord] = field(default_factory=list)  # what moved that no view record hangs on alone
    taken: dict[Values, int] = field(default_factory=dict)  # how many of these a view record has taken in

    def relate(self, found: Mapping[Values, set[BaseRecord]]) -> None:
        """Note what view records hang on.

        With several tables for good: a record that joined under a key may move on while its partner is elsewhere;
        when the partner comes back, the view record must hold the newer version too.
        """
        for key, records in found.items():
            self.due.setdefault(key, set()).update(records)
            for record in records if len(self.reach.tables) > 1 else ():
                self.partner_of.setdefault(record, set()).add(key)

    def moved(self, found: Mapping[Values, set[BaseRecord]]) -> None:
        """Note the view records that base records moved out of, or into."""
        self.relate(found)
        self.touched.update(found)

    def follow(self, moved: Iterable[BaseRecord]) -> None:
        """Let view records that base records joined in take in where these are now."""
        for record in moved:
            if record[0] in self.reach.beside:
                self.beside.append(record)
            for key in self.partner_of.get(record, ()):
                self.due.setdefault(key, set()).add(record)

    def absorb(self, key: Values) -> set[BaseRecord]:
        """Return what a view record absorbs now that it is shown."""
        beside = self.beside[self.taken.get(key, 0) :]
        self.taken[key] = len(self.beside)
        return self.due.pop(key, set()).union(beside)


class Assembler:
    """Turns logs into a history."""

    def __init__(
        self,
        views: Iterable[tuple[ViewDefinition, tuple[str, ...], tuple[str, ...]]],
        tables: Mapping[str, BaseTable],
    ) -> None:
        """`views`: definition, columns and key of each published table."""
        self._tables = dict(tables)
        self._base = BaseRows(self._tables)
        self._views = {
            view.name: _View(view, Reach(view, self._tables, self._base), columns, key)
            for view, columns, key in views
        }
        self._versions: dict[tuple[BaseRecord, int], int] = {}
        self._known: dict[BaseRecord, int] = {}
        self._taken: dict[BaseRecord, int] = {}
        self._untaken: list[Move] = []  # what moved since the last commit that snapshots may name
        self._operation = 0

    def begin(
        self,
        base: Mapping[str, Mapping[Values, Row]],
        moving: Iterable[BaseRecord],
        *,
        signature: Scalars,
        time: int,
    ) -> ev.Checkpoint:
        """Begin with rows that were there before the first epoch; the views are taken to have been right then.

        `moving`: base records that move later; what hangs on others absorbs nothing of them.
        """
        for table, rows in base.items():
            for key, row in rows.items():
                self._base.put((table, key), row)
                self._known[table, key] = 0
        rows_that_move = {it: self._base.tables[it[0]].get(it[1]) for it in moving}
        views: list[tuple[str, Values, Scalars | None, Row | None]] = []
        for name, view in self._views.items():
            everything = {table: list(self._base.tables[table].values()) for table in view.reach.tables}
            for row in recompute(view.definition, everything, self._tables).values():
                key = tuple(row[column] for column in view.key)
                if refusal(key, view.definition.partition):
                    continue  # no table holds it: it is in quarantine
                view.rows[key], view.signatures[key] = row, signature
                views.append((name, key, signature, row))
            if len(view.reach.tables) > 1:
                view.relate(view.reach.touched(rows_that_move))
        lines = ((table, key, 0, row) for table, rows in base.items() for key, row in rows.items())
        return ev.Checkpoint(process=PROCESS, time=time, base=tuple(lines), views=tuple(views))

    def history(
        self,
        writers: Iterable[Any],
        ran: list[Epoch],
        *,
        run: str,
        before: ev.Checkpoint | None = None,
        void: Mapping[str, Iterable[Values]] | None = None,
    ) -> list[Any]:
        """Return all events, in time order, ending in rest; `before`: what `begin` said.

        `void`: base records, by table, that were shown out of the order of write times.
        """
        written = list(writers)
        self._number(written)
        ran = carried(ran)
        found: list[Any] = []
        for epoch in ran:
            found += self._events(epoch)
        if ran:
            found.append(_commit(ran[0], number=0, time=ran[0].started, lines=()))
        everything = sorted([*written, *found], key=lambda event: event.time)
        first = everything[0].time if everything else 0
        processes = {event.process for event in everything}
        start = [
            ev.RunStarted(
                process=process,
                time=first,
                run=run,
                views=tuple(definition_to_json(view.definition) for view in self._views.values()),
                tables=tuple(definition_to_json(table) for table in self._tables.values()),
            )
            for process in sorted(processes)
        ]
        last = everything[-1].time if everything else 0
        claims = [
            ev.ClaimVoid(process=PROCESS, time=last, table=table, key=key)
            for table, keys in (void or {}).items()
            for key in keys
        ]
        rest = ev.Quiescent(process=PROCESS, time=last)
        return [*start, *([before] if before else []), *everything, *claims, rest]

    def _number(self, written: Iterable[Any]) -> None:
        for event in written:
            if isinstance(event, ev.BaseUpdateCalled):
                self._versions[(event.table, tuple(event.key)), event.operation] = event.version

    def _events(self, epoch: Epoch) -> list[Any]:
        """Return what an epoch did to each view record it touched."""
        moves = [self._move(*base) for base in epoch.bases]
        shown: dict[str, dict[Values, Row | None]] = {name: {} for name in self._views}
        for name, key, row in self._rows(epoch.shown):
            shown[name][key] = row
        for some in _apart(moves):
            self._moved(some)
        found: list[Any] = []
        for table, record, version, _, _ in moves:
            self._operation += 1
            found.append(
                ev.UpdateReceived(
                    process=PROCESS,
                    time=epoch.started,
                    stream=PROCESS,
                    entry=self._operation,
                    table=table,
                    key=record[1],
                    version=version,
                )
            )
        for name, view in self._views.items():
            if name in epoch.hidden:
                continue  # it absorbs all of this when it is shown again
            if (
                name in epoch.whole
            ):  # it has no other rows: what it showed before and does not show now is gone
                shown[name] |= {key: None for key in view.rows if key not in shown[name]}
            for key in sorted({*shown[name], *view.touched}, key=repr):
                row = shown[name][key] if key in shown[name] else view.rows.get(key)
                absorbed = {record: self._known[record] for record in view.absorb(key)}
                found += self._write(view, key, row, absorbed, epoch)
            view.touched.clear()
        for again, (moment, rows) in enumerate(epoch.otherwise, start=1):
            replay = replace(epoch, started=moment, ran=moment)
            for name, key, row in self._rows(rows):
                found += self._write(self._views[name], key, row, {}, replay, again=again)
        self._untaken += moves
        if epoch.committed and not self._views.keys() & {*epoch.hidden}:
            # else its snapshot is no view of one base state: a view stood still and the others went on
            found.append(_commit(epoch, number=epoch.number, time=epoch.committed, lines=self._taken_in()))
        return found

    def _rows(self, shown: Iterable[Values]) -> Iterator[tuple[str, Values, Row | None]]:
        """Return what an epoch showed of the views that are judged."""
        for name, key, now in shown:
            if name in self._views:
                columns = self._views[name].columns
                yield name, key, None if now is None else dict(zip(columns, now, strict=True))

    def _moved(self, moves: Sequence[Move]) -> None:
        """Take in base records that moved together, each once: what is shown is as before all of them, or after."""
        tables = {record[0] for _, record, _, _, _ in moves}
        views = [view for view in self._views.values() if tables & {*view.reach.tables}]
        for view in views:
            view.moved(view.reach.touched({record: before for _, record, _, before, _ in moves}))
        for _, record, _, _, now in moves:
            self._base.put(record, now)
        for view in views:
            view.moved(view.reach.touched({record: now for _, record, _, _, now in moves}))
            view.follow(record for _, record, _, _, _ in moves)

    def _taken_in(self) -> Values:
        """Return the certificate of an epoch: the cut its snapshots show, as steps from the commit before."""
        lines = []
        for _, record, version, _, _ in self._untaken:
            held = self._taken.get(record, 0)
            if version > held:
                lines.append(
                    ev.Absorbed(table=record[0], key=record[1], from_version=held, to_version=version)
                )
                self._taken[record] = version
        self._untaken.clear()
        return tuple(lines)

    def _move(self, table: str, written: int, before: Values | None, now: Values | None) -> Move:
        base = self._tables[table]
        names = [name for name, _ in base.columns]
        rows = [None if row is None else dict(zip(names, row, strict=True)) for row in (before, now)]
        some = rows[1] or rows[0]
        assert some is not None, "a base row moved from nothing to nothing"
        record = (table, tuple(some[name] for name in base.key))
        version = self._versions.get((record, written), self._known.get(record, 0))
        self._known[record] = version
        return table, record, version, rows[0], rows[1]

    def _write(
        self,
        view: _View,
        key: Values,
        row: Row | None,
        absorbed: Mapping[BaseRecord, int],
        epoch: Epoch,
        *,
        again: int = 0,
    ) -> list[Any]:
        new = (epoch.incarnation, epoch.number, again, True)
        lines = []
        for record, version in absorbed.items():
            held = view.held.get((key, record), 0)
            if version > held:
                lines.append(
                    ev.Absorbed(table=record[0], key=record[1], from_version=held, to_version=version)
                )
                view.held[key, record] = version
        expected = view.signatures.get(key)
        if not lines and row == view.rows.get(key):
            return []
        self._operation += 1
        view.rows[key], view.signatures[key] = row, new
        called = ev.TestAndSetCalled(
            process=PROCESS,
            time=epoch.started,
            operation=self._operation,
            view=view.definition.name,
            view_key=key,
            expected=expected,
            new=new,
            row=row,
            absorbed=tuple(lines),
        )
        returned = ev.TestAndSetReturned(
            process=PROCESS, time=epoch.ran, operation=self._operation, outcome="applied"
        )
        return [called, returned]


def _apart(moves: Iterable[Move]) -> Iterator[list[Move]]:
    """Cut moves where a base record moves again, and where they get many: they are held more than once."""
    some: dict[BaseRecord, Move] = {}
    for move in moves:
        if move[1] in some or len(some) >= TOGETHER:
            yield list(some.values())
            some = {}
        some[move[1]] = move
    if some:
        yield list(some.values())


def _commit(epoch: Epoch, *, number: int, time: int, lines: Values) -> ev.EpochCommitted:
    return ev.EpochCommitted(
        process=PROCESS,
        time=time,
        pipeline=PROCESS,
        incarnation=epoch.incarnation,
        epoch=number,
        absorbed=lines,
    )
