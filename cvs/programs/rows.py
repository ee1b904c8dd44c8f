"""Selection and the projections that keep the key (paper 001, algorithms 11-19): one view record a base row.

The whole new row is written, never only its changed fields: out of order, changed fields alone build rows
that were in no base state (paper 001, section 2.3). `changed_fields_only` is that program, kept as a named,
failing variant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cvs.programs.machine import (
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

Compiled = Callable[[Row], Any]  # because a column holds any CQL value
Condition = Callable[[Row], Any]


def everything(_row: Row) -> bool:
    """Be true of every row."""
    return True


def column(name: str) -> Compiled:
    """Return the value of one column."""
    return lambda row: row.get(name)


def contribution(row: Row | None, where: Condition) -> Row | None:
    """Return the row if it counts: there, and the condition true (not false, not null)."""
    return row if row is not None and where(row) is True else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowProgram:
    """Keeps one view record for each base row that satisfies `where`; its key must contain the base key."""

    view: str
    table: str
    key: tuple[tuple[str, Compiled], ...]
    columns: tuple[tuple[str, Compiled], ...]
    where: Condition = everything
    changed_fields_only: bool = False

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Write the row under its new key, take it away under its old one."""
        before = contribution(entry.before, self.where)
        after = contribution(entry.after, self.where)
        left = None if before is None else self._key(before)
        stays = None if after is None else self._key(after)
        runs = []
        if left is not None and left != stays:
            runs.append(absorb(entry, left, _leave, policy=policy))
        if after is not None and stays is not None:
            runs.append(absorb(entry, stays, self._put(entry, after), policy=policy))
        return in_order(runs)

    def _key(self, row: Row) -> Key:
        return tuple(value(row) for _, value in self.key)

    def _put(self, entry: Entry, after: Row) -> Callable[[Rows, Any], Change]:
        whole = {name: value(after) for name, value in self.key + self.columns}

        def change_of(rows: Rows, _known: Any) -> Change:
            if not self.changed_fields_only or RECORD not in rows or entry.before is None:
                return Change(puts=((RECORD, whole),))
            old = {name: value(entry.before) for name, value in self.columns}
            changed = {name: whole[name] for name in old if whole[name] != old[name]}
            return Change(puts=((RECORD, {**rows[RECORD], **changed}),))

        return change_of


def _leave(rows: Rows, _known: Any) -> Change:
    return Change(deletes=(RECORD,)) if RECORD in rows else MARK_ONLY
