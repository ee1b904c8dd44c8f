"""K-FK join by reading the base (paper 001, algorithm 10): D(x, y, z) = R(x, y) join S(y, z), y a key of S.

The paper leaves concurrent propagation out. To the letter, an insert into R reads S(y), an update of S(y)
finds no view record yet, and the insert then writes the old z for good. Here an update of S leaves its mark
on every view record whose base row refers to y, there or not, so the insert's test-and-set is refused and S
is read again. View records are found by reading R by y: a view record whose row no longer refers to y has an
update of its own on the way. And z is read where it is written, never taken from the entry: on a view record that came
after it, an old update of S, held by a manager thought dead, meets no mark (found by TLC; `specs/README.md`, diary).

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
    letter: bool = False  # the parent's columns as its entry has them

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Follow algorithm 10: the child's changes one record, the parent's updates all that refer to it."""
        if entry.table == self.child:
            return in_order((self._child(entry, policy),))
        if entry.before is None or entry.after is None:
            return in_order(())  # the constraint says that nothing refers to a parent that comes or goes
        return self._parent(entry, policy)

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

    def _parent(self, entry: Entry, policy: Policy) -> Run:
        referring = yield ScanBase(self.child, self.reference, entry.key[0])
        keys = sorted(((row[self.child_key],) for row in referring), key=repr)
        ending: Ending = yield from in_order(self._update(entry, key, policy) for key in keys)
        return ending

    def _update(self, entry: Entry, key: Key, policy: Policy) -> Run:
        """Show the parent as it is now: a manager thought dead may come with an update that is long overtaken."""

        def refers(rows: Rows) -> bool:
            return RECORD in rows and bool(rows[RECORD][self.reference] == entry.key[0])

        def consult(rows: Rows) -> Generator[Action, Any, Row | None]:
            if self.letter or not refers(rows):
                return entry.after
            parent: Row | None = yield ReadBase(self.parent, entry.key)
            return parent

        def change_of(rows: Rows, parent: Row | None) -> Change:
            if parent is None or not refers(rows):
                return MARK_ONLY
            return self._joined(rows[RECORD], parent)

        return absorb(entry, key, change_of, policy=policy, consult=consult)


def _vanish(rows: Rows, _known: Any) -> Change:
    return Change(deletes=(RECORD,)) if RECORD in rows else MARK_ONLY
