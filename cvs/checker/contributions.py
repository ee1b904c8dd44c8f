"""What base versions contribute to a view of a known shape, and what its records showed: rows read into
columns, a block at a time.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cvs.checker.columns import Flags
from cvs.checker.shape import Shape
from cvs.history.columns import APPLIED, NONE, Columns, Integers, NotColumnarError, Numbering, Reader, fill
from cvs.history.events import Key, Row
from cvs.model.identity import row_identity

NOT_WHOLE = -(1 << 60)
"""Shown where a row holds what is no whole number of ordinary size: equal to no fold."""


@dataclass(slots=True)
class BaseRows(Reader):
    """Reads the rows of a base table: which view record each belongs to, and what it adds or shows there."""

    shape: Shape
    view: str
    records: Numbering
    contents: dict[Hashable, int]
    columns: list[list[Integers]] = field(default_factory=list)

    def take(self, rows: Sequence[Row | None], keys: Sequence[Key] | None = None) -> None:
        """Evaluate the view's row-wise part once for each row."""
        shape = self.shape
        kept = shape.kept(rows)
        there = [row for row, keep in zip(rows, kept, strict=True) if keep and row is not None]
        where = np.flatnonzero(np.array(kept, dtype=np.bool_))
        owners = fill(map(self.records.__getitem__, shape.names_of(self.view, there)), len(there))
        found = [owners, *self._values(there)]
        whole = []
        for number, values in enumerate(found):
            column = np.full(len(rows), 0 if number else NONE, dtype=np.int64)
            column[where] = values
            whole.append(column)
        self.columns.append(whole)

    def _values(self, rows: list[Row]) -> list[Integers]:
        if self.shape.grouped:
            return [
                fill(self.shape.numbers(place, rows), len(rows)) for place in range(len(self.shape.names))
            ]
        contents = self.contents
        return [fill((contents.setdefault(self.shape.content(r), len(contents)) for r in rows), len(rows))]

    def read(self) -> list[Integers]:
        """Return the owner of each row (NONE: in no record), then its values."""
        width = 1 + (len(self.shape.names) if self.shape.grouped else 1)
        return _whole(self.columns, width)


@dataclass(slots=True)
class ViewRows(Reader):
    """Reads the rows of a view: whether each is there, fits its key and columns, and what it shows."""

    shape: Shape
    contents: dict[Hashable, int]
    columns: list[list[Integers]] = field(default_factory=list)

    def take(self, rows: Sequence[Row | None], keys: Sequence[Key] | None) -> None:
        """Read the rows of a block."""
        shape = self.shape
        there = [row for row in rows if row is not None]
        present = np.array([row is not None for row in rows], dtype=np.bool_)
        if not shape.grouped:
            contents = self.contents
            numbers = [
                0 if row is None else contents.setdefault(row_identity(row), len(contents)) for row in rows
            ]
            self.columns.append([present.astype(np.int64), fill(numbers, len(rows))])
            return
        shown = zip(*([row.get(k) for row in there] for k in shape.key), strict=True)
        asked = (key for key, row in zip(keys or (), rows, strict=True) if row is not None)
        width = len(shape.key) + len(shape.names)
        fits = np.ones(len(rows), dtype=np.int64)
        fits[present] = [
            own == tuple(key) and len(row) == width for own, key, row in zip(shown, asked, there, strict=True)
        ]
        values = []
        for name in shape.names:
            column = np.zeros(len(rows), dtype=np.int64)
            column[present] = _numbers([row.get(name) for row in there])
            values.append(column)
        self.columns.append([present.astype(np.int64), fits, *values])

    def read(self) -> list[Integers]:
        """Return presence; of groups, whether the row fits, and its folds; of plain rows, their content."""
        return _whole(self.columns, 2 + (len(self.shape.names) if self.shape.grouped else 0))


def _whole(blocks: list[list[Integers]], width: int) -> list[Integers]:
    empty = np.zeros(0, dtype=np.int64)
    return [np.concatenate([block[place] for block in blocks] or [empty]) for place in range(width)]


def _numbers(values: list[object]) -> Integers:
    if not set(map(type, values)) <= {int} or not all(-(1 << 62) < v < 1 << 62 for v in values):  # type: ignore[operator]
        values = [v if type(v) is int and abs(v) < 1 << 62 else NOT_WHOLE for v in values]
    return np.array(values, dtype=np.int64)


@dataclass(slots=True, kw_only=True)
class Base:
    """Base versions as columns: sorted by record, then version."""

    start: Integers  # first place of each record's versions; the initial version 0 stands there
    at: Integers  # the place of each update
    called: Integers
    returned: Integers
    commit: Integers  # number of the event of its return


def base_of(run: Columns) -> Base:
    """Make the time-lines; gaps, twins and unknown outcomes are for the exact judge."""
    updates = run.updates
    version, record = updates.own["version"], updates.owner
    if not len(record) or (updates.outcome != APPLIED).any():
        raise NotColumnarError("base updates with an unknown outcome, or none at all")
    sizes = np.bincount(record, minlength=len(run.bases)) + 1
    start = np.concatenate(([0], np.cumsum(sizes)))
    if (version < 1).any() or (version >= sizes[record]).any():
        raise NotColumnarError("versions are missing")
    at = start[record] + version
    total = int(start[-1])
    if (np.bincount(at, minlength=total) > 1).any():
        raise NotColumnarError("two updates of one version")
    early = np.full(total, -(1 << 62))
    base = Base(start=start, at=at, called=early, returned=early.copy(), commit=np.full(total, NONE))
    base.called[at], base.returned[at], base.commit[at] = updates.called, updates.returned, updates.answered
    return base


@dataclass(slots=True, kw_only=True)
class Told:
    """What each base version contributes: to which view record, and what."""

    view: str
    record: Integers  # by place; NONE: to none
    content: Integers  # number of the contribution; 0: none
    values: list[Integers]  # the row count, then each name's number, by place
    stranger: Flags  # by place: contributes to a view record that nobody ever wrote
    strangers: Integers  # those view records


def told_of(rows: BaseRows, run: Columns, base: Base, written: Flags) -> Told:
    """Bring what was read of the base rows to the places of their versions."""
    total = len(base.called)
    own = base.at
    if rows.shape.table in run.tables:
        own = base.at[run.updates.own["table"] == run.tables.index(rows.shape.table)]
    else:
        own = base.at[:0]
    owner, *values = rows.read()
    record = np.full(total, NONE)
    record[own] = owner
    stranger = (record >= 0) & ~written[record]
    columns = []
    for column in ((owner >= 0).astype(np.int64), *values):
        placed = np.zeros(total, dtype=np.int64)
        placed[own] = column
        columns.append(placed)
    content = columns[1] if not rows.shape.grouped else _contents(columns)
    strangers = np.unique(record[stranger])
    record[stranger] = NONE
    return Told(
        view=rows.view, record=record, content=content, values=columns, stranger=stranger, strangers=strangers
    )


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
