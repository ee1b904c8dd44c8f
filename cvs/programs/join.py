"""K-FK join by reading the base (paper 001, algorithm 10): D(x, y, z) = R(x, y) join S(y, z), y a key of S.

The paper leaves concurrent propagation out. To the letter, an insert into R reads S(y), an update of S(y)
finds no view record yet, and the insert then writes the old z for good. Here an update of S leaves its mark
on every view record whose base row refers to y, there or not, so the insert's test-and-set is refused and S
is read again. View records are found by reading R by y: a view record whose row no longer refers to y has an
update of its own on the way.

The join that reads no base (reverse-join state) is `KeptProgram` in `kept.py`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from cvs.programs.machine import (
    MARK_ONLY,
    RECORD,
    Action,
    Change,
    Ending,
    Entry,
    Key,
    Policy,
    ReadBase,
    Row,
    Rows,
    Run,
    ScanBase,
    absorb,
    in_order,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKeyJoin:
    """One view record a row of `child` (R), with columns of the `parent` (S) row it refers to."""

    view: str
    child: str
    parent: str
    child_key: str
    reference: str  # the column of the child that holds the parent's key
    parent_columns: tuple[str, ...]

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Follow algorithm 10: the child's changes one record, the parent's updates all that refer to it."""
        if entry.table == self.child:
            return in_order((self._child(entry, policy),))
        if entry.before is None or entry.after is None:
            return in_order(())  # the constraint says that nothing refers to a parent that comes or goes
        return self._parent(entry, entry.after, policy)

    def _child(self, entry: Entry, policy: Policy) -> Run:
        row = entry.after
        if row is None:
            return absorb(entry, entry.key, _vanish, policy=policy)

        def consult(_rows: Rows) -> Generator[Action, Any, Row | None]:
            parent: Row | None = yield ReadBase(self.parent, (row[self.reference],))
            return parent

        def change_of(rows: Rows, parent: Row | None) -> Change:
            return _vanish(rows, None) if parent is None else self._joined(row, parent)

        return absorb(entry, entry.key, change_of, policy=policy, consult=consult)

    def _joined(self, child: Row, parent: Row) -> Change:
        columns = {name: parent[name] for name in self.parent_columns}
        return Change(puts=((RECORD, {**child, **columns}),))

    def _parent(self, entry: Entry, parent: Row, policy: Policy) -> Run:
        referring = yield ScanBase(self.child, self.reference, entry.key[0])
        keys = sorted(((row[self.child_key],) for row in referring), key=repr)
        ending: Ending = yield from in_order(self._update(entry, key, parent, policy) for key in keys)
        return ending

    def _update(self, entry: Entry, key: Key, parent: Row, policy: Policy) -> Run:
        columns = {name: parent[name] for name in self.parent_columns}

        def change_of(rows: Rows, _known: Any) -> Change:
            record = rows.get(RECORD)
            if record is None or record[self.reference] != entry.key[0]:
                return MARK_ONLY
            return Change(puts=((RECORD, {**record, **columns}),))

        return absorb(entry, key, change_of, policy=policy)


def _vanish(rows: Rows, _known: Any) -> Change:
    return Change(deletes=(RECORD,)) if RECORD in rows else MARK_ONLY
