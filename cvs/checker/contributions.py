"""What base versions contribute to a view of a known shape, and what its records showed: rows read into
columns, a block at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from operator import methodcaller
from typing import Any

import numpy as np

from cvs.checker.shape import Computed, Shape
from cvs.history.columns import Columns, Reader
from cvs.history.fields import APPLIED, UNKNOWN, Numbering
from cvs.history.packing import NONE, Flags, Integers, NotColumnarError
from cvs.history.rows import WHOLE_MOST, Compute, Rows
from cvs.model.expressions import Row
from cvs.model.identity import identity

NOT_WHOLE = -(1 << 60)
"""Shown where a row holds what is no whole number of ordinary size: equal to no fold."""

_MOST = 1 << 40
_EXACT = Context(prec=60, traps=[Inexact])


class BaseRows(Reader):
    """Reads the rows of a base table: which view record each belongs to, and what it adds or shows there."""

    def __init__(self, shape: Shape, view: str, records: Numbering, contents: "Contents") -> None:
        self.shape, self.view, self.contents = shape, view, contents
        self._owner: Compute = lambda row: records.number(view, shape.key_of(row))
        folds = zip(shape.arguments, shape.counts, shape.scales, strict=True)
        self._adds = [_adding(*fold) for fold in folds]
        self._shows = [(c.names, contents.number(name, c.of)) for name, c in shape.shown]
        self.columns: list[list[Integers]] = []
        self.unfit = False  # something is added up that is no whole number of ordinary size

    def take(self, rows: Rows, owners: Integers | None = None) -> None:
        """Evaluate the view's row-wise part."""
        try:
            if not self.unfit:
                self._take(rows)
        except NotColumnarError:
            self.unfit = True
            self.columns.clear()

    def _take(self, rows: Rows) -> None:
        where = rows.present.copy()
        for keep in self.shape.keeps:
            where[where] = rows.computed(keep.names, keep.of, where) > 0
        mine = rows.computed(self.shape.key_columns, self._owner, where)
        if self.shape.grouped:
            values = [adds(rows, where) for adds in self._adds]
        else:
            values = [rows.computed(names, number, where) for names, number in self._shows]
        whole = []
        for number, chosen in enumerate((mine, *values)):
            column = np.full(rows.many, 0 if number else NONE, dtype=np.int64)
            column[where] = chosen
            whole.append(column)
        self.columns.append(whole)

    def read(self) -> list[Integers]:
        """Return the owner of each row (NONE: in no record), then its values; once."""
        return _whole(self.columns, 1 + (len(self._adds) if self.shape.grouped else len(self._shows)))


def _adding(argument: Computed | None, counts: bool, scale: int) -> Callable[[Rows, Flags], Integers]:
    """Return what says what rows add to a fold; whatever is no small whole number is not for bulk."""
    if argument is None:
        return lambda _, where: np.ones(np.count_nonzero(where), dtype=np.int64)
    compute = argument.of
    if argument.plain is None:
        number = _present(compute) if counts else _small(compute)
        return lambda rows, where: rows.computed(argument.names, number, where)
    name = argument.plain
    if scale > 1:
        units = _units(compute, scale)
        return lambda rows, where: rows.computed((name,), units, where)

    def add(rows: Rows, where: Flags) -> Integers:
        values, is_whole, there = rows.whole(name)
        if counts:
            return there[where].astype(np.int64)
        chosen = values[where]
        if not is_whole[where].all() or (np.abs(chosen) >= _MOST).any():
            raise NotColumnarError("values that are no whole numbers of ordinary size")
        return chosen

    return add


def _present(compute: Callable[[Row], Any]) -> Compute:
    return lambda row: int(compute(row) is not None)


def _small(compute: Callable[[Row], Any]) -> Compute:
    def small(row: Row) -> int:
        value = compute(row)
        if type(value) is not int or not -_MOST < value < _MOST:
            raise NotColumnarError("values that are no whole numbers of ordinary size")
        return value

    return small


def _units(compute: Callable[[Row], Any], scale: int) -> Compute:
    def units(row: Row) -> int:
        found = in_units(compute(row), scale)
        if not -_MOST < found < _MOST:
            raise NotColumnarError("decimals that are large, or have many places")
        return found

    return units


def in_units(value: Any, scale: int) -> int:
    """Return how many units a decimal is; what is no whole number of them is as no fold is."""
    if type(value) is not Decimal or not value.is_finite() or abs(value.adjusted()) > 18:
        return 0 if type(value) is Decimal and value == 0 else NOT_WHOLE
    try:
        units = _EXACT.multiply(value, scale)
    except Inexact:
        return NOT_WHOLE
    whole = int(units)
    return whole if units == whole and abs(whole) < WHOLE_MOST else NOT_WHOLE


class Contents:
    """Numbers the values of each column of a view, the same for base rows and for view rows; null is 0."""

    def __init__(self) -> None:
        self.values: dict[str, dict[Any, int]] = {}

    def number(self, name: str, value: Callable[[Row], Any]) -> Compute:
        """Return what numbers a value of a column."""
        known = self.values.setdefault(name, {None: 0})
        return lambda row: known.setdefault(identity(value(row)), len(known))


class ViewRows(Reader):
    """Reads the rows of a view: whether each is there, fits its key and columns, and what it shows."""

    def __init__(self, shape: Shape, view: str, records: Numbering, contents: Contents) -> None:
        self.shape = shape
        self._owner: Compute = lambda row: records.number(view, tuple(map(row.get, shape.key)))
        self._shows = [(name, contents.number(name, methodcaller("get", name))) for name, _ in shape.shown]
        self.columns: list[list[Integers]] = []

    def take(self, rows: Rows, owners: Integers | None) -> None:
        """Read the rows of a block."""
        assert owners is not None, "view records have owners"
        shape, present = self.shape, rows.present
        fits = np.zeros(rows.many, dtype=np.bool_)
        if shape.grouped:
            own = rows.computed(shape.key, self._owner, present)
            fits[present] = own == owners[present]
            fits &= rows.widths() == len(shape.key) + len(shape.names)
            fits |= ~present
            shown = [_numbers(rows, *it) for it in zip(shape.names, shape.scales, strict=True)]
        else:
            fits |= present
            for name in rows.names() - {name for name, _ in self._shows}:
                fits &= ~rows.whole(name)[2]
            shown = []
            for name, number in self._shows:
                column = np.zeros(rows.many, dtype=np.int64)
                column[present] = rows.computed((name,), number, present)
                shown.append(column)
        self.columns.append([present.astype(np.int8), fits.astype(np.int8), *shown])

    def read(self) -> list[Integers]:
        """Return presence, whether the row fits, and its folds or the numbers of what its columns show; once."""
        return _whole(self.columns, 2 + (len(self.shape.names) if self.shape.grouped else len(self._shows)))


def _whole(blocks: list[list[Integers]], width: int) -> list[Integers]:
    """Make whole columns of the blocks, which are let go."""
    empty = np.zeros(0, dtype=np.int64)
    taken = list(blocks)
    blocks.clear()
    return [np.concatenate([block[place] for block in taken] or [empty]) for place in range(width)]


def _numbers(rows: Rows, name: str, scale: int) -> Integers:
    if scale > 1:
        column = np.zeros(rows.many, dtype=np.int64)
        units = rows.computed((name,), lambda row: in_units(row.get(name), scale), rows.present)
        column[rows.present] = units
        return column
    values, is_whole, _ = rows.whole(name)
    return np.where(is_whole | ~rows.present, values, NOT_WHOLE)


@dataclass(slots=True, kw_only=True)
class Base:
    """Base versions as columns: sorted by record, then version; after them a place for what is no version."""

    start: Integers  # first place of each record's versions; the initial version stands there
    first: Integers  # its number: 0, or what a checkpoint says
    at: Integers  # the place of each update
    unsure: Flags  # by record: the outcome of an update is unknown, so it has no versions here
    called: Integers
    returned: Integers
    commit: Integers  # number of the event of its return


def base_of(run: Columns) -> Base:
    """Make the time-lines; gaps and twins are for the exact judge, and records with unknown outcomes."""
    updates, record = run.updates, run.updates.owner
    if not len(record):
        raise NotColumnarError("no base updates")
    unsure = np.zeros(len(run.bases), np.bool_)
    unsure[record[updates.outcome == UNKNOWN]] = True
    real = np.flatnonzero((updates.outcome == APPLIED) & ~unsure[record])
    first = np.zeros(len(run.bases), np.int64)
    first[run.base["owner"]] = run.base["version"]
    owner, version = record[real], updates.own["version"][real] - first[record[real]]
    sizes = np.bincount(owner, minlength=len(run.bases)) + 1
    start = np.concatenate(([0], np.cumsum(sizes)))
    if (version < 1).any() or (version >= sizes[owner]).any():
        raise NotColumnarError("versions are missing")
    total = int(start[-1])
    at = np.full(len(record), total)
    at[real] = mine = start[owner] + version
    if (np.bincount(mine, minlength=total) > 1).any():
        raise NotColumnarError("two updates of one version")
    early = np.full(total + 1, -(1 << 62))
    base = Base(
        start=start,
        first=first,
        at=at,
        unsure=unsure,
        called=early,
        returned=early.copy(),
        commit=np.full(total + 1, NONE),
    )
    for column, known in ((base.called, updates.called), (base.returned, updates.returned)):
        column[mine] = known[real]
    base.commit[mine] = updates.answered[real]
    return base


@dataclass(slots=True, kw_only=True)
class Told:
    """What each base version contributes: to which view record, and what."""

    view: str
    grouped: bool
    record: Integers  # by place; NONE: to none
    content: Integers  # number of the contribution; 0: none
    shown: Integers  # of plain rows, by write of the view: the number of what it shows; 0: no row
    opening: Integers  # view records of which a checkpoint tells the row, as the first of what the view shows
    values: list[Integers]  # the row count, then each name's number, by place
    stranger: Flags  # by place: contributes to a view record that nobody ever wrote
    strangers: Integers  # view records that nobody ever wrote and something contributes to, or may
    unsure: Integers  # view records to which something contributes of which that is not known


def told_of(rows: BaseRows, view: ViewRows, *, run: Columns, base: Base, written: Flags) -> Told:
    """Bring what was read of the base rows to the places of their versions."""
    total = len(base.called)
    table = run.tables.index(rows.shape.table) if rows.shape.table in run.tables else NONE
    mine, begun = run.updates.own["table"] == table, run.base["owner"][run.base["table"] == table]
    own = np.concatenate((base.start[begun], base.at[mine]))
    number = np.concatenate((begun, run.updates.owner[mine]))
    owner, *values = rows.read()
    record = np.full(total, NONE)
    record[own] = owner
    record[-1] = NONE
    unsure = np.unique(owner[(owner >= 0) & base.unsure[number]])
    stranger = (record >= 0) & ~written[record]
    columns = []
    for column in ((owner >= 0).astype(np.int64), *values):
        placed = np.zeros(total, dtype=np.int64)
        placed[own] = column
        columns.append(placed)
    content, shown = _contents(columns), np.zeros(0, dtype=np.int64)
    if not rows.shape.grouped:
        present, fits, *seen = view.read()
        both = _contents([np.concatenate(pair) for pair in zip(columns, (present, *seen), strict=True)])
        content, shown = both[:total], np.where(present > fits, NOT_WHOLE, both[total:])
    code = run.views.index(rows.view) if rows.view in run.views else NONE
    strangers = np.unique(np.concatenate((record[stranger], unsure[~written[unsure]])))
    record[stranger] = NONE
    return Told(
        view=rows.view, grouped=rows.shape.grouped, record=record, content=content, shown=shown, values=columns,
        opening=run.shown["owner"][run.shown["view"] == code],
        stranger=stranger, strangers=strangers, unsure=unsure,
    )  # fmt: skip


def _contents(columns: list[Integers]) -> Integers:
    """Give equal contributions equal numbers, and none the number 0."""
    present, *values = columns
    content = present
    for column in values:
        low = int(column.min(initial=0))
        width = int(column.max(initial=0)) - low + 1
        if int(content.max(initial=0)) < (1 << 62) // max(width, 1) - 1:
            content = content * width + (column - low)
        else:
            _, number = np.unique(column, return_inverse=True)
            _, content = np.unique(content * (int(number.max(initial=0)) + 1) + number, return_inverse=True)
    return np.where(present > 0, content + 1, 0)
