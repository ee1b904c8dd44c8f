"""Views that keep the contributing rows beside the record: joins of every kind, top-k, semi-joins, sets.

A partition holds, for one value of the partitioning key (the join key; a top-k's group), every base row that
has it, of every table; what readers see is computed from these rows alone. No base read: what a test-and-set
shows is the view of exactly the entries absorbed, so each partition is strong, at the price of keeping the
rows (reverse-join state; DESIGN section 3).

The record of such a partition shows one column, `rows`: the view rows of the partition in a fixed order. A
null in a join key matches nothing: such rows go to a partition of their own base row, so that outer joins
keep them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cvs.programs.machine import (
    HIDDEN,
    MARK_ONLY,
    RECORD,
    Change,
    Entry,
    Key,
    Policy,
    Row,
    Rows,
    Run,
    absorb,
    in_order,
)
from cvs.programs.rows import Compiled

Sides = Mapping[str, tuple[Row, ...]]
"""Contributing rows by side, each in the order of their base keys."""

Shown = Callable[[Sides], tuple[Row, ...]]

Kind = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One input: a table under a name (a self-join has two sides of one table), and what partitions it."""

    name: str
    table: str
    partition: tuple[Compiled, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProgram:
    """Keeps contributing rows by partition and shows what `shown_of` makes of them."""

    view: str
    sides: tuple[Side, ...]
    shown_of: Shown

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Change every partition the old or the new row belongs to, once each, old ones first."""
        touched: dict[Key, list[tuple[Key, Row | None]]] = {}
        for row, is_new in ((entry.before, False), (entry.after, True)):
            for side in self.sides:
                if row is not None and side.table == entry.table:
                    at = touched.setdefault(_partition(side, row, entry.key), [])
                    at.append(((side.name, *entry.key), row if is_new else None))
        if entry.before == entry.after:
            return in_order(())
        return in_order(self._absorb(entry, key, tuple(kept), policy) for key, kept in touched.items())

    def _absorb(
        self, entry: Entry, key: Key, kept: tuple[tuple[Key, Row | None], ...], policy: Policy
    ) -> Run:
        return absorb(entry, key, lambda rows, _: self._change(rows, dict(kept)), policy=policy)

    def _change(self, rows: Rows, kept: Mapping[Key, Row | None]) -> Change:
        after = {key: row for key, row in rows.items() if key != RECORD and kept.get(key, row) is not None}
        after |= {key: row for key, row in kept.items() if row is not None}
        gone = [key for key, row in kept.items() if row is None and key in rows]
        puts: list[tuple[Key, Row]] = [(key, row) for key, row in kept.items() if row is not None]
        if not gone and not puts:
            return MARK_ONLY
        if not after:
            return Change(deletes=tuple(rows))
        visible = self.shown_of(self._by_side(after))
        puts.append((RECORD, {"rows": visible, HIDDEN + "hidden": not visible}))
        return Change(puts=tuple(puts), deletes=tuple(gone))

    def _by_side(self, rows: Rows) -> Sides:
        ordered = sorted(rows, key=repr)
        return {side.name: tuple(rows[k] for k in ordered if k[0] == side.name) for side in self.sides}


def _partition(side: Side, row: Row, base_key: Key) -> Key:
    values = tuple(value(row) for value in side.partition)
    return values if None not in values else (*values, side.name, *base_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """How the rows of two sides that share a key are joined; columns are named `side.column`."""

    kind: Kind
    left: str
    right: str
    right_columns: tuple[str, ...]
    left_columns: tuple[str, ...]
    residual: Callable[[Row], Any] = lambda _: True

    def __call__(self, sides: Sides) -> tuple[Row, ...]:
        """Return the joined rows of one partition."""
        left = [_named(self.left, self.left_columns, row) for row in sides[self.left]]
        right = [_named(self.right, self.right_columns, row) for row in sides[self.right]]
        pairs = [
            (i, j)
            for i, mine in enumerate(left)
            for j, other in enumerate(right)
            if self.residual({**mine, **other}) is True
        ]
        matched_left = {i for i, _ in pairs}
        matched_right = {j for _, j in pairs}
        if self.kind == "semi":
            return tuple(row for i, row in enumerate(left) if i in matched_left)
        if self.kind == "anti":
            return tuple(row for i, row in enumerate(left) if i not in matched_left)
        joined = [{**left[i], **right[j]} for i, j in pairs]
        if self.kind in ("left", "full"):
            nothing = _named(self.right, self.right_columns, None)
            joined += [{**row, **nothing} for i, row in enumerate(left) if i not in matched_left]
        if self.kind in ("right", "full"):
            nothing = _named(self.left, self.left_columns, None)
            joined += [{**nothing, **row} for j, row in enumerate(right) if j not in matched_right]
        return tuple(joined)


def _named(side: str, columns: tuple[str, ...], row: Row | None) -> dict[str, Any]:
    return {f"{side}.{name}": None if row is None else row.get(name) for name in columns}


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The first `limit` rows of the one side after `offset`, in a total order: ties broken by all columns."""

    side: str
    order: Callable[[Row], Any]
    limit: int
    offset: int = 0

    def __call__(self, sides: Sides) -> tuple[Row, ...]:
        """Return the rows shown of one group."""
        ordered = sorted(
            sides[self.side], key=lambda row: (self.order(row), repr(sorted(row.items(), key=repr)))
        )
        return tuple(ordered[self.offset : self.offset + self.limit])


@dataclass(frozen=True, slots=True, kw_only=True)
class NotIn:
    """NOT IN, SQL's null rules: one null on the right empties the result, unless the right side is empty.

    Needs both sides whole, so its only partition is the view itself (partitioning key of no columns).
    """

    left: str
    right: str
    value: Compiled
    among: Compiled

    def __call__(self, sides: Sides) -> tuple[Row, ...]:
        """Return the left rows whose value is surely not among the right ones."""
        among = [self.among(row) for row in sides[self.right]]
        if not among:
            return sides[self.left]
        if None in among:
            return ()
        return tuple(row for row in sides[self.left] if self.value(row) not in (None, *among))
