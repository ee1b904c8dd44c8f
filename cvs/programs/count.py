"""COUNT and SUM as paper 001 prints them (algorithms 1-6), defects included: named variants for the suites.

`PaperSum` deletes a group whose sum equals the leaving value (`s = y`) although other rows may be in it;
`AggregateProgram` keeps a row count instead. COUNT has no such defect: its count is its row count.
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCount:
    """Algorithms 1-3: COUNT of rows by one column; the count itself says when the group is empty."""

    view: str
    table: str
    group: str
    name: str

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Delete from the old group and insert into the new one, if they differ (algorithm 3)."""
        left = None if entry.before is None else (entry.before[self.group],)
        joined = None if entry.after is None else (entry.after[self.group],)
        if left == joined:
            return in_order(())
        steps = [(key, by) for key, by in ((left, -1), (joined, 1)) if key is not None]
        return in_order(self._add(entry, key, by, policy) for key, by in steps)

    def _add(self, entry: Entry, key: Key, by: int, policy: Policy) -> Run:
        def change_of(rows: Rows, _known: Any) -> Change:
            return _added(rows, {self.group: key[0]}, (self.name, by), leaving=by < 0)

        return absorb(entry, key, change_of, policy=policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperSum:
    """Algorithms 4-6: SUM by one column, the record deleted where the sum equals the leaving value."""

    view: str
    table: str
    group: str
    argument: str
    name: str

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Add the difference in place, or delete and insert (algorithm 6)."""
        before, after = entry.before, entry.after
        if before is not None and after is not None and before[self.group] == after[self.group]:
            by = after[self.argument] - before[self.argument]
            return in_order((self._add(entry, after, by, policy),))
        runs = []
        if before is not None:
            runs.append(self._add(entry, before, -before[self.argument], policy, leaving=True))
        if after is not None:
            runs.append(self._add(entry, after, after[self.argument], policy))
        return in_order(runs)

    def _add(self, entry: Entry, row: Row, by: Any, policy: Policy, *, leaving: bool = False) -> Run:
        key = (row[self.group],)

        def change_of(rows: Rows, _known: Any) -> Change:
            return _added(rows, {self.group: key[0]}, (self.name, by), leaving=leaving)

        return absorb(entry, key, change_of, policy=policy)


def _added(rows: Rows, shown: Row, addition: tuple[str, Any], *, leaving: bool) -> Change:
    name, by = addition
    if leaving and RECORD not in rows:
        return MARK_ONLY
    total = rows.get(RECORD, {name: 0})[name] + by
    if leaving and total == 0:
        return Change(deletes=(RECORD,))
    return Change(puts=((RECORD, {**shown, name: total}),))
