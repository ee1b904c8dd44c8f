"""A running pipeline's own recording as a history, also where its beginning is gone.

Nobody wrote down what the base writers did, so the base time-line is the *absorbed* one: what DELTA took in, in its
order. And a rolling recording forgets: what the base tables held before its first epoch is found backwards, from what
DELTA holds now and what each recorded move replaced. Views are taken to have been right then; what they did since is
judged.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.model.expressions import Column
from cvs.model.stages import Plan, columns_read
from cvs.model.views import BaseTable, Join, Named, Project, Relation, Scan, SetOperation
from cvs.plan.sql import DeclaredView
from cvs.programs.epoch_run import BaseReader, Program, row_of, without_claim
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_codec import Values
from cvs.programs.stage_delta import ReadImages, split
from cvs.programs.stored import decode_row
from cvs.store.session import CassandraSession
from cvs.stream.certificates import Assembler
from cvs.stream.epochs import Epoch, epochs
from cvs.stream.recipe import recipe_of
from cvs.stream.tables import Names

BASE = "base"
Row = dict[str, Any]  # because columns have any CQL type
Rows = dict[Values, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What can be judged of a recording."""

    events: list[Any]
    incarnation: int
    first: int  # epochs
    last: int
    left_out: int  # epochs before `first` that the files have, but not from one state on
    unshown: tuple[
        str, ...
    ] = ()  # views that stood still at the end: what they show is no view of what was absorbed
    built: bool = False  # nothing moved since the views were built, so that is what is told


def recorded(
    session: CassandraSession,
    logs: Iterable[Path],
    *,
    views_sql: str,
    keyspaces: tuple[str, ...],
    names: Names,
    captured: bool = True,
    last: int = 0,
) -> Recorded:
    """Read DELTA and the files of an incarnation; return what they tell of the last base changes, 0: of all."""
    recipe, declared = recipe_of(session, views_sql, names=names, keyspaces=keyspaces, captured=captured)
    program, door = recipe.program(), recipe.door(session)
    images, void = images_of(program, door), drive(without_claim(program), door)
    ran = [it for it in epochs(logs) if it.incarnation == names.incarnation]
    told = f"{names.keyspace}, recorded"
    return history_of(declared, recipe.plan, ran, images, run=told, last=last, void=void)


def history_of(
    declared: Iterable[DeclaredView],
    plan: Plan,
    ran: list[Epoch],
    images: "Images",
    *,
    run: str,
    last: int = 0,
    void: Mapping[str, Iterable[Values]] | None = None,
) -> Recorded:
    """Return the history from the first epoch after which none is missing.

    `images`: what DELTA held at some moment before the epochs were read, so that these tell all that is younger.
    """
    unshown = ran[-1].hidden if ran else ()
    described = [it for it in _described(declared) if it[0].name not in unshown]
    kept, told = _latest(ran, last, unshown), _told(plan)
    if not kept or not described:
        raise HistoryError(
            "the recording has no epoch that can be judged",
            next_step="wait until the views are live, or resume paused ones, and something was written",
        )
    first = _at_first(images, kept, told)
    built = [] if any(epoch.bases for epoch in kept) else _with_build(ran, last)
    if built and not any((nothing := _at_first(images, built, told)).values()):
        kept, first = built, nothing
    assembler = Assembler(described, {table.name: table for table in plan.bases})
    signature = (kept[0].incarnation, kept[0].number - 1, 0, True)
    moving = {
        (table, told[table].both(before, now)[0]) for epoch in kept for table, _, before, now in epoch.bases
    }
    before = assembler.begin(first, moving, signature=signature, time=kept[0].started)
    events = assembler.history(_numbered(kept, told), kept, run=run, before=before, void=void)
    return Recorded(
        events=events,
        incarnation=kept[0].incarnation,
        first=kept[0].number,
        last=kept[-1].number,
        left_out=len(ran) - len(kept),
        unshown=unshown,
        built=kept is built,
    )


def _with_build(ran: list[Epoch], changes: int) -> list[Epoch]:
    """Return all epochs, those that built the views with them; none where one is missing, or more is asked for."""
    missing = any(after.number != before.number + 1 for before, after in pairwise(ran))
    many = changes and sum(len(epoch.bases) for epoch in ran) > changes
    return [] if missing or many or any(epoch.unjudged for epoch in ran) else ran


def _latest(ran: list[Epoch], changes: int, unshown: Iterable[str]) -> list[Epoch]:
    """Return the last epochs of which none is missing, that together have about so many base changes."""
    start, count = len(ran), 0
    found = start
    while start > 0 and not ran[start - 1].built and not ran[start - 1].unjudged:
        if start < len(ran) and ran[start].number != ran[start - 1].number + 1:
            break
        start -= 1
        count += len(ran[start].bases)
        if _may_begin(ran, start, unshown):
            found = start
            if changes and count >= changes:
                break
    return ran[found:]


def _may_begin(ran: list[Epoch], place: int, unshown: Iterable[str]) -> bool:
    """Say whether views are known to have been right before an epoch: none stood still then."""
    epoch, before = ran[place], ran[place - 1] if place else None
    if before is None or before.number + 1 != epoch.number:
        return not epoch.whole and not {*epoch.hidden}.difference(unshown)
    return before.built or bool(before.unjudged) or not {*before.hidden}.difference(unshown)


@dataclass(frozen=True, slots=True)
class Image:
    """What DELTA holds of a base row: what it is as of an epoch, and what it was before."""

    epoch: int
    before: Row | None
    now: Row | None


Images = Mapping[str, Mapping[Values, Image]]


def images_of(program: Program, door: Callable[[list[Any]], list[Any]]) -> Images:
    """Read all of DELTA, bucket by bucket."""
    told = _told(program.plan)
    return {base.name: _of_base(base, told[base.name], door) for base in program.bases}


def _of_base(base: BaseReader, told: "_Told", door: Callable[[list[Any]], list[Any]]) -> dict[Values, Image]:
    found: dict[Values, Image] = {}
    for bucket in range(base.buckets):
        (blobs,) = door([ReadImages(table=base.delta, bucket=bucket, prefixes=(b"",))])
        for key, blob in blobs.items():
            partition, clustering = split(key)
            stored = None if clustering is None else decode_row(blob)
            if stored is None:
                continue
            before, now = (
                row_of(base, partition, clustering or b"", it)[0] for it in (stored.before, stored.now)
            )
            if before is not None or now is not None:
                place, both = told.both(before, now)
                found[place] = Image(stored.epoch, *both)
    return found


def _at_first(images: Images, kept: list[Epoch], told: Mapping[str, "_Told"]) -> dict[str, Rows]:
    """Return the base rows as they were before the first epoch."""
    last = kept[-1].number
    found: dict[str, dict[Values, Row | None]] = {
        table: {key: it.now if it.epoch <= last else it.before for key, it in rows.items()}
        for table, rows in images.items()
    }
    for epoch in reversed(kept):
        for table, _, before, now in epoch.bases:
            key, rows = told[table].both(before, now)
            found[table][key] = rows[0]
    return {
        table: {key: row for key, row in rows.items() if row is not None} for table, rows in found.items()
    }


def _numbered(kept: list[Epoch], told: Mapping[str, "_Told"]) -> list[Any]:
    """Return the absorbed base time-line, each move a version of its own, and name the versions in the moves."""
    written: list[Any] = []
    versions: dict[tuple[str, Values], int] = {}
    for epoch in kept:
        moves = []
        for table, at, before, now in epoch.bases:
            key, rows = told[table].both(before, now)
            version = versions[table, key] = versions.get((table, key), 0) + 1
            number = len(written)
            called = ev.BaseUpdateCalled(
                process=BASE,
                time=epoch.started,
                operation=number,
                table=table,
                key=key,
                version=version,
                row=rows[1],
                write_time=at,
            )
            done = ev.BaseUpdateReturned(
                process=BASE, time=epoch.started, operation=number, outcome="applied"
            )
            written += [called, done]
            moves.append((table, number, before, now))
        epoch.bases = tuple(moves)
    return written


class _Told:
    """What a recording tells of a base table's rows: the key, and of the other columns those that views read."""

    def __init__(self, table: BaseTable, read: Collection[str]) -> None:
        self._key, self._names = table.key, [name for name, _ in table.columns]
        self._told = {name for name in self._names if name in read or name in table.key}

    def both(self, before: Values | None, now: Values | None) -> tuple[Values, tuple[Row | None, Row | None]]:
        """Return the key of a row that moved, and what it was and is."""
        old, new = (None if row is None else self._row(row) for row in (before, now))
        some = new or old
        assert some is not None, "a base row moved from nothing to nothing"
        return tuple(some[name] for name in self._key), (old, new)

    def _row(self, row: Values) -> Row:
        return {name: value for name, value in zip(self._names, row, strict=True) if name in self._told}


def _told(plan: Plan) -> dict[str, _Told]:
    read = columns_read(plan)
    return {table.name: _Told(table, read[table.name]) for table in plan.bases}


def _described(declared: Iterable[DeclaredView]) -> list[tuple[Any, tuple[str, ...], tuple[str, ...]]]:
    """Return the views over base tables alone: what another view stands for takes its place."""
    known: dict[str, DeclaredView] = {}
    found = []
    for view in declared:
        relation = inlined(view.definition.relation, known)
        whole = replace(view.definition, relation=relation, partition=len(view.key.partition))
        known[view.name] = replace(view, definition=whole)
        found.append((whole, tuple(name for name, _ in view.columns), tuple(view.key.columns)))
    return found


def inlined(relation: Relation, views: Mapping[str, DeclaredView]) -> Relation:
    """Return a relation that scans no view; `views` are such already."""
    if isinstance(relation, Scan):
        view = views.get(relation.table)
        if view is None:
            return relation
        named = (Named(name=f"{relation.alias}.{name}", expression=Column(name)) for name, _ in view.columns)
        return Project(source=view.definition.relation, columns=tuple(named))
    if isinstance(relation, Join | SetOperation):
        return replace(relation, left=inlined(relation.left, views), right=inlined(relation.right, views))
    return replace(relation, source=inlined(relation.source, views))
