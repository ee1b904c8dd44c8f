"""From epoch logs and the base writers' log to one history with certificates, after the run.

A certificate says which versions of which base records a view record absorbed in an epoch. The pipeline does
not carry that along; it is found here from what moved: a base row touches the view records that the view of
that row alone (with the other tables as they were) has. Certificates are claims: the judge evaluates every
cut they name against the writers' log, so a wrong one can only make a good run look bad.

A version of a base record is known by its write time: writers use the write time as their operation's number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from cvs.errors import AssumptionError
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.model.recompute import recompute
from cvs.model.views import Aggregate, BaseTable, Join, Relation, Scan, Select, SetOperation, ViewDefinition
from cvs.programs.stage_codec import Value, Values
from cvs.stream.recording import BUILT, COMMITTED, RAN, RUNNING, UNJUDGED, read_log

Row = dict[str, Value]
BaseRecord = tuple[str, Values]
Scalars = tuple[int, int, int, bool]
PROCESS = "pipeline"


@dataclass(slots=True, kw_only=True)
class Epoch:
    """What the logs say of one epoch."""

    incarnation: int
    number: int
    started: int
    ran: int = 0
    committed: int = 0
    built: bool = False
    unjudged: str = ""  # the log that says it showed more rows than a record keeps
    bases: Values = ()
    shown: Values = ()
    otherwise: list[tuple[int, Values]] = field(default_factory=list)  # replays that showed something else


@dataclass(slots=True)
class _View:
    definition: ViewDefinition
    reach: ViewDefinition
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: dict[Values, Row | None] = field(default_factory=dict)
    signatures: dict[Values, Scalars] = field(default_factory=dict)
    held: dict[tuple[Values, BaseRecord], int] = field(default_factory=dict)


class Assembler:
    """Turns logs into a history."""

    def __init__(
        self,
        views: Iterable[tuple[ViewDefinition, tuple[str, ...], tuple[str, ...]]],
        tables: Mapping[str, BaseTable],
    ) -> None:
        """`views`: definition, columns and key of each published table."""
        self._tables = dict(tables)
        self._views = {
            view.name: _View(
                view,
                replace(view, relation=reach(view.relation)),
                tuple(sorted(set(scans(view.relation)))),
                columns,
                key,
            )
            for view, columns, key in views
        }
        self._base: dict[str, dict[Values, Row]] = {name: {} for name in self._tables}
        self._versions: dict[tuple[BaseRecord, int], int] = {}
        self._known: dict[BaseRecord, int] = {}
        self._taken: dict[BaseRecord, int] = {}
        self._operation = 0

    def begin(
        self, base: Mapping[str, Mapping[Values, Row]], *, signature: Scalars, time: int
    ) -> ev.Checkpoint:
        """Begin with rows that were there before the first epoch; the views are taken to have been right then."""
        for table, rows in base.items():
            self._base[table].update(rows)
            self._known.update(((table, key), 0) for key in rows)
        views: list[tuple[str, Values, Scalars | None, Row | None]] = []
        for name, view in self._views.items():
            everything = {table: list(self._base[table].values()) for table in view.tables}
            for row in recompute(view.definition, everything, self._tables).values():
                key = tuple(row[column] for column in view.key)
                view.rows[key], view.signatures[key] = row, signature
                views.append((name, key, signature, row))
            for table in view.tables if len(view.tables) > 1 else ():
                for record, row in self._base[table].items():
                    view.held.update(((key, (table, record)), 0) for key in self._keys(view, table, row))
        lines = ((table, key, 0, row) for table, rows in self._base.items() for key, row in rows.items())
        return ev.Checkpoint(process=PROCESS, time=time, base=tuple(lines), views=tuple(views))

    def history(
        self, writers: Iterable[Any], ran: list[Epoch], *, run: str, before: ev.Checkpoint | None = None
    ) -> list[Any]:
        """Return all events, in time order, ending in rest; `before`: what `begin` said."""
        written = list(writers)
        self._number(written)
        ran = _carried(ran)
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
        return [*start, *([before] if before else []), *everything, ev.Quiescent(process=PROCESS, time=last)]

    def _number(self, written: Iterable[Any]) -> None:
        for event in written:
            if isinstance(event, ev.BaseUpdateCalled):
                self._versions[(event.table, tuple(event.key)), event.operation] = event.version

    def _events(self, epoch: Epoch) -> list[Any]:
        """Return what an epoch did to each view record it touched."""
        moves = [self._move(*base) for base in epoch.bases]
        shown: dict[str, dict[Values, Row | None]] = {name: {} for name in self._views}
        for name, key, now in epoch.shown:
            view = self._views[name]
            shown[name][key] = None if now is None else dict(zip(view.columns, now, strict=True))
        touched: dict[str, dict[Values, dict[BaseRecord, int]]] = {name: {} for name in self._views}
        for table, record, version, before, now in moves:
            for view in self._views.values():
                if table in view.tables:
                    for key in self._keys(view, table, before) | self._keys(view, table, now):
                        touched[view.definition.name].setdefault(key, {})[record] = version
            self._apply(table, record, now)
        self._join_partners(touched)
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
            for key in sorted({*shown[name], *touched[name]}, key=repr):
                row = shown[name][key] if key in shown[name] else view.rows.get(key)
                found += self._write(view, key, row, touched[name].get(key, {}), epoch)
        for again, (moment, rows) in enumerate(epoch.otherwise, start=1):
            replay = replace(epoch, started=moment, ran=moment)
            for name, key, now in rows:
                view = self._views[name]
                row = None if now is None else dict(zip(view.columns, now, strict=True))
                found += self._write(view, key, row, {}, replay, again=again)
        if epoch.committed:
            lines = self._taken_in(moves)
            found.append(_commit(epoch, number=epoch.number, time=epoch.committed, lines=lines))
        return found

    def _taken_in(self, moves: Iterable[tuple[str, BaseRecord, int, Row | None, Row | None]]) -> Values:
        """Return the certificate of an epoch: the cut its snapshots show, as steps from the epoch before."""
        lines = []
        for _, record, version, _, _ in moves:
            held = self._taken.get(record, 0)
            if version > held:
                lines.append(
                    ev.Absorbed(table=record[0], key=record[1], from_version=held, to_version=version)
                )
                self._taken[record] = version
        return tuple(lines)

    def _move(
        self, table: str, written: int, before: Values | None, now: Values | None
    ) -> tuple[str, BaseRecord, int, Row | None, Row | None]:
        base = self._tables[table]
        names = [name for name, _ in base.columns]
        rows = [None if row is None else dict(zip(names, row, strict=True)) for row in (before, now)]
        some = rows[1] or rows[0]
        assert some is not None, "a base row moved from nothing to nothing"
        record = (table, tuple(some[name] for name in base.key))
        version = self._versions.get((record, written), self._known.get(record, 0))
        self._known[record] = version
        return table, record, version, rows[0], rows[1]

    def _keys(self, view: _View, table: str, row: Row | None) -> set[Values]:
        if row is None:
            return set()
        others = {name: list(self._base[name].values()) for name in view.tables if name != table}
        found = recompute(view.reach, {**others, table: [row]}, self._tables)
        return {tuple(record[name] for name in view.key) for record in found.values()}

    def _join_partners(self, touched: dict[str, dict[Values, dict[BaseRecord, int]]]) -> None:
        """Add, for views of several tables, the records a touched view record joins with, or once did.

        A record that joined under the key before may have moved on while its partner was elsewhere; when the
        partner comes back, the view record must hold the newer version too.
        """
        for view in self._views.values():
            keys = touched[view.definition.name]
            if len(view.tables) < 2 or not keys:
                continue
            for table in view.tables:
                for key, row in self._base[table].items():
                    record = (table, key)
                    for shown in self._keys(view, table, row) & keys.keys():
                        keys[shown].setdefault(record, self._known[record])
            for shown, record in view.held:
                if shown in keys:
                    keys[shown].setdefault(record, self._known[record])

    def _apply(self, table: str, record: BaseRecord, now: Row | None) -> None:
        if now is None:
            self._base[table].pop(record[1], None)
        else:
            self._base[table][record[1]] = now

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


def epochs(logs: Iterable[Path]) -> list[Epoch]:
    """Return the epochs that ran to their end, in order, whichever processes ran them and how often."""
    found: dict[tuple[int, int], Epoch] = {}
    for log in logs:
        for moment, kind, incarnation, number, *rest in read_log(log):
            epoch = found.setdefault(
                (incarnation, number), Epoch(incarnation=incarnation, number=number, started=moment)
            )
            epoch.started = min(epoch.started, moment)
            if kind == UNJUDGED:
                epoch.unjudged = str(log)
            if kind in (RAN, BUILT, UNJUDGED) and not epoch.ran:
                epoch.ran, epoch.built = moment, kind == BUILT
                epoch.bases, epoch.shown = rest
            elif kind == RAN and rest != [epoch.bases, epoch.shown]:
                epoch.otherwise.append((moment, rest[1]))
            elif kind == COMMITTED:
                epoch.committed = min(epoch.committed or moment, moment)
            else:
                assert kind in (RUNNING, RAN, BUILT, UNJUDGED), kind
    ran = [found[place] for place in sorted(found) if found[place].ran]
    for epoch, following in pairwise(ran):
        epoch.committed = epoch.committed or following.started  # nothing runs before what it is pinned after
    return ran


def _carried(found: Iterable[Epoch]) -> list[Epoch]:
    """Give what moved while nothing was shown to the epoch that shows it: no level is claimed before.

    What an older incarnation showed meanwhile is its own; its epochs come first.
    """
    shown: list[Epoch] = []
    carried: Values = ()
    for epoch in found:
        if epoch.unjudged:
            raise AssumptionError(
                f"epoch {epoch.number} showed a whole view at once, with more rows than a record keeps",
                where=epoch.unjudged,
                next_step="judge by `cvs verify`, or a run over smaller base tables",
            )
        if epoch.built:
            carried += epoch.bases
            continue
        epoch.bases, carried = carried + epoch.bases, ()
        shown.append(epoch)
    return shown


def _commit(epoch: Epoch, *, number: int, time: int, lines: Values) -> ev.EpochCommitted:
    return ev.EpochCommitted(
        process=PROCESS,
        time=time,
        pipeline=PROCESS,
        incarnation=epoch.incarnation,
        epoch=number,
        absorbed=lines,
    )


def reach(relation: Relation) -> Relation:
    """Return what a base row can touch: of INTERSECT and EXCEPT, what either side has; of groups, all.

    A condition on a group is left out, because it may be true of the group and not of what one row makes of it.
    """
    if isinstance(relation, Scan):
        return relation
    if isinstance(relation, Select) and aggregates(relation.source):
        return reach(relation.source)
    if isinstance(relation, SetOperation):
        return replace(relation, kind="union", left=reach(relation.left), right=reach(relation.right))
    if isinstance(relation, Join):
        return replace(relation, left=reach(relation.left), right=reach(relation.right))
    return replace(relation, source=reach(relation.source))


def aggregates(relation: Relation) -> bool:
    """Say whether a relation's rows are made of groups of rows."""
    if isinstance(relation, Scan):
        return False
    if isinstance(relation, Join | SetOperation):
        return aggregates(relation.left) or aggregates(relation.right)
    return isinstance(relation, Aggregate) or aggregates(relation.source)


def scans(relation: Relation) -> Iterable[str]:
    """Name the tables a relation reads."""
    if isinstance(relation, Scan):
        yield relation.table
    elif isinstance(relation, Join | SetOperation):
        yield from scans(relation.left)
        yield from scans(relation.right)
    else:
        yield from scans(relation.source)
