"""Union, intersection and difference of two tables (paper 001, section 2.4), on whole rows R(k, x), S(k, x).

`SetByBase` shows the exact result and reads the other table's row; `SetByCounter` keeps beside each row which
tables have it and lets only what the operation wants be shown, so it never reads the base.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

from cvs.programs.machine import (
    HIDDEN,
    MARK_ONLY,
    RECORD,
    Action,
    Change,
    Entry,
    Key,
    Policy,
    ReadBase,
    Row,
    Rows,
    Run,
    absorb,
    in_order,
)

Operation = Literal["union", "intersect", "except"]


def wanted(operation: Operation, *, left: bool, right: bool) -> bool:
    """Say whether a row that is in these tables is in the result."""
    if operation == "union":
        return left or right
    return left and (right if operation == "intersect" else not right)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProgram:
    """What both variants share: which rows an entry takes out of a table and which it brings in."""

    view: str
    left: str
    right: str
    columns: tuple[str, ...]
    operation: Operation
    by_base: bool = False

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Take the old row out, bring the new one in."""
        old, new = self._key(entry.before), self._key(entry.after)
        if old == new:
            return in_order(())
        absorb_one = self._by_base if self.by_base else self._by_counter
        steps = [(key, there) for key, there in ((old, False), (new, True)) if key is not None]
        return in_order(absorb_one(entry, key, there, policy) for key, there in steps)

    def _key(self, row: Row | None) -> Key | None:
        return None if row is None else tuple(row[name] for name in self.columns)

    def _by_counter(self, entry: Entry, key: Key, there: bool, policy: Policy) -> Run:
        side = HIDDEN + ("left" if entry.table == self.left else "right")

        def change_of(rows: Rows, _known: Any) -> Change:
            record = {HIDDEN + "left": False, HIDDEN + "right": False, **rows.get(RECORD, {}), side: there}
            if not record[HIDDEN + "left"] and not record[HIDDEN + "right"]:
                return Change(deletes=(RECORD,)) if RECORD in rows else MARK_ONLY
            shown = wanted(self.operation, left=record[HIDDEN + "left"], right=record[HIDDEN + "right"])
            row = {**record, **dict(zip(self.columns, key, strict=True)), HIDDEN + "hidden": not shown}
            return Change(puts=((RECORD, row),))

        return absorb(entry, key, change_of, policy=policy)

    def _by_base(self, entry: Entry, key: Key, there: bool, policy: Policy) -> Run:
        """Trust the entry for its own table and read the other one, as the paper's first variant does."""
        mine_is_left = entry.table == self.left
        other = self.right if mine_is_left else self.left

        def consult(_rows: Rows) -> Generator[Action, Any, bool]:
            row: Row | None = yield ReadBase(other, entry.key)
            return self._key(row) == key

        def change_of(rows: Rows, other_there: bool) -> Change:
            left, right = (there, other_there) if mine_is_left else (other_there, there)
            if wanted(self.operation, left=left, right=right):
                return Change(puts=((RECORD, dict(zip(self.columns, key, strict=True))),))
            return Change(deletes=(RECORD,)) if RECORD in rows else MARK_ONLY

        return absorb(entry, key, change_of, policy=policy, consult=consult)
