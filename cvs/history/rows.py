"""Rows of a block, as readers ask about them: objects here, texts that were never made into objects in `columned.py`.

A null column and none at all are the same here, as everywhere.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from cvs.history.events import Row
from cvs.history.packing import Flags, Integers

Compute = Callable[[Row], int]
WHOLE_MOST = 1 << 62


class Rows(Protocol):
    """The rows of one table or view in a block, in the order of their calls."""

    many: int
    present: Flags  # whether there is a row, or null

    def widths(self) -> Integers:
        """Return how many columns each row names; 0 for no row."""
        ...

    def names(self) -> set[str]:
        """Return the columns that rows name."""
        ...

    def whole(self, name: str) -> tuple[Integers, Flags, Flags]:
        """Return a column's values where they are whole numbers of ordinary size, whether they are, and whether they
        are anything but null.
        """
        ...

    def computed(self, names: tuple[str, ...], compute: Compute, where: Flags) -> Integers:
        """Return a number for each chosen row, computed from these columns of it alone."""
        ...


class Objects:
    """Rows that are objects."""

    def __init__(self, rows: Sequence[Row | None]) -> None:
        self.rows, self.many = rows, len(rows)
        self.present: Flags = np.fromiter((row is not None for row in rows), np.bool_, self.many)

    def widths(self) -> Integers:
        """Count columns."""
        return np.fromiter((0 if row is None else len(row) for row in self.rows), np.int64, self.many)

    def names(self) -> set[str]:
        """Collect names."""
        return {name for row in self.rows if row is not None for name in row}

    def whole(self, name: str) -> tuple[Integers, Flags, Flags]:
        """Look at each value."""
        values = [None if row is None else row.get(name) for row in self.rows]
        there = np.fromiter((value is not None for value in values), np.bool_, self.many)
        is_whole = np.fromiter(map(_is_whole, values), np.bool_, self.many)
        chosen = (value if good else 0 for value, good in zip(values, is_whole.tolist(), strict=True))
        return np.fromiter(chosen, np.int64, self.many), is_whole, there

    def computed(self, names: tuple[str, ...], compute: Compute, where: Flags) -> Integers:
        """Ask for every row."""
        chosen = (self.rows[place] for place in np.flatnonzero(where).tolist())
        return np.fromiter((compute(row or {}) for row in chosen), np.int64, np.count_nonzero(where))


def _is_whole(value: Any) -> bool:
    return type(value) is int and -WHOLE_MOST < value < WHOLE_MOST
