"""The base log as columns, and what each base version contributes to a view of a known shape."""

from collections.abc import Hashable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from cvs.checker.columns import APPLIED, NONE, Flags, Ints, Numbering, Writes, fill, pairs_of
from cvs.checker.shape import NotForBulkError, Shape
from cvs.history import events as ev


@dataclass(slots=True, kw_only=True)
class Base:
    """Base versions as columns: sorted by record, then version."""

    numbering: Numbering
    start: Ints  # first place of each record's versions; the initial version 0 stands there
    called: Ints
    returned: Ints
    commit: Ints  # place in the recorded order
    rows: list[dict[str, Any] | None]


def base_of(kinds: dict[type, list[Any]], processes: dict[str, int], errors: Ints) -> Base:
    """Make the columns of the base updates; gaps, twins and unknown outcomes are for the exact judge."""
    calls = kinds.get(ev.BaseUpdateCalled, [])
    pairs = pairs_of(calls, kinds.get(ev.BaseUpdateReturned, []), processes, errors)
    if not len(calls) or (pairs.outcome != APPLIED).any():
        raise NotForBulkError
    numbering = Numbering()
    record = fill(map(numbering.__getitem__, map(attrgetter("table", "key"), calls)), len(calls))
    version = fill(map(attrgetter("version"), calls), len(calls))
    sizes = np.bincount(record, minlength=len(numbering.known)) + 1
    start = np.concatenate(([0], np.cumsum(sizes)))
    if (version < 1).any() or (version >= sizes[record]).any():
        raise NotForBulkError
    at = start[record] + version
    total = int(start[-1])
    if (np.bincount(at, minlength=total) > 1).any():
        raise NotForBulkError
    rows: list[dict[str, Any] | None] = [None] * total
    for where, call in zip(at.tolist(), calls, strict=True):
        rows[where] = call.row
    early = np.full(total, -(1 << 62))
    base = Base(
        numbering=numbering,
        start=start,
        called=early,
        returned=early.copy(),
        commit=np.full(total, NONE),
        rows=rows,
    )
    base.called[at], base.returned[at], base.commit[at] = pairs.called, pairs.returned, pairs.place
    return base


@dataclass(slots=True, kw_only=True)
class Told:
    """What each base version contributes: to which view record, and what."""

    view: str
    record: Ints  # by place; NONE: to none
    content: Ints  # number of the contribution; 0: none
    values: list[Ints]  # the row count, then each name's number, by place
    contents: list[Hashable]  # of plain rows
    stranger: Flags  # by place: contributes to one of the strangers
    strangers: set[Any]  # view records that nobody ever wrote, and that something contributes to


def told_of(shape: Shape, view: str, base: Base, writes: Writes) -> Told:
    """Evaluate the view's row-wise part once for each base version."""
    total = len(base.rows)
    mine = np.zeros(total, dtype=np.bool_)
    for (table, _), index in base.numbering.known.items():
        mine[base.start[index] : base.start[index + 1]] = table == shape.table
    places = np.flatnonzero(mine)
    kept = np.fromiter((shape.kept(base.rows[p]) for p in places.tolist()), dtype=np.bool_, count=len(places))
    places = places[kept]
    rows = [row for p in places.tolist() if (row := base.rows[p]) is not None]
    many = len(writes.names)
    named = ((view, key) for key in shape.keys_of(rows))
    number = fill(map(writes.numbering.__getitem__, named), len(rows))
    strange = number >= many
    names = list(writes.numbering.known)
    strangers = {names[n] for n in np.unique(number[strange]).tolist()}
    record = np.full(total, NONE)
    record[places] = np.where(strange, NONE, number)
    told = Told(
        view=view,
        record=record,
        content=np.zeros(total, dtype=np.int64),
        values=[],
        contents=[()],
        stranger=np.zeros(total, dtype=np.bool_),
        strangers=strangers,
    )
    told.stranger[places] = strange
    (_numbers if shape.grouped else _contents)(told, shape, places, rows)
    return told


def _numbers(told: Told, shape: Shape, places: Ints, rows: list[Any]) -> None:
    """Fill in what each version adds; equal contributions get equal numbers."""
    content = np.ones(len(places), dtype=np.int64)
    column = np.zeros(len(told.record), dtype=np.int64)
    column[places] = 1
    told.values.append(column)
    for name in range(len(shape.names)):
        values = fill(shape.numbers(name, rows), len(rows))
        column = np.zeros(len(told.record), dtype=np.int64)
        column[places] = values
        told.values.append(column)
        known, number = np.unique(values, return_inverse=True)
        _, content = np.unique(content * (len(known) + 1) + number, return_inverse=True)
    told.content[places] = content + 1


def _contents(told: Told, shape: Shape, places: Ints, rows: list[Any]) -> None:
    """Fill in the row each version shows."""
    contents: dict[Hashable, int] = {(): 0}
    told.content[places] = fill(
        (contents.setdefault(shape.content(r), len(contents)) for r in rows), len(rows)
    )
    told.contents = list(contents)
