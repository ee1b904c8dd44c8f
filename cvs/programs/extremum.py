"""MIN and MAX that read the base (paper 001, algorithms 7-9), to the letter and repaired.

Four programs in one: `letter` keeps the paper's count of rows at the minimum, the others do not;
`always_scan` reads the base whenever the minimum would change, not only when its last row leaves.

Why the count had to go (README, "How ours differs"): a scan that sees a row whose insert is still on its way,
followed by that insert, counts the row twice; when it is deleted, one ghost remains and the minimum never
rises again. Without the count every leaving minimum is looked up anew, which converges.

The programs that keep value -> multiplicity rows and never read the base are in `aggregate.py`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from cvs.programs.machine import (
    HIDDEN,
    MARK_ONLY,
    RECORD,
    Action,
    Change,
    Entry,
    Policy,
    Row,
    Rows,
    Run,
    ScanBase,
    absorb,
    in_order,
)

COUNT = HIDDEN + "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremumProgram:
    """Keeps the smallest (or, with `largest`, the largest) value of one column by another."""

    view: str
    table: str
    group: str
    argument: str
    name: str
    largest: bool = False
    always_scan: bool = False
    letter: bool = False

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Take the old value out, bring the new one in; as the paper, always in this order."""
        before, after = entry.before, entry.after
        in_place = before is not None and after is not None and before[self.group] == after[self.group]
        if in_place and not self.letter:
            return in_order((self._replace(entry, policy),))
        runs = []
        if before is not None:
            runs.append(self._leave(entry, before, policy))
        if after is not None:
            runs.append(self._join(entry, after, policy))
        return in_order(runs)

    def _better(self, value: Any, than: Any) -> bool:
        return bool(value > than) if self.largest else bool(value < than)

    def _record(self, group: Any, value: Any, count: int = 1) -> Change:
        shown = {self.group: group, self.name: value}
        return Change(puts=((RECORD, {**shown, COUNT: count} if self.letter else shown),))

    def _scan(self, group: Any) -> Generator[Action, Any, Change]:
        """Look the extremum of a group up in the base: the record to put, or its deletion."""
        rows = yield ScanBase(self.table, self.group, group)
        values = [row[self.argument] for row in rows]
        if not values:
            return Change(deletes=(RECORD,))
        return self._record(group, max(values) if self.largest else min(values))

    def _absorb(self, entry: Entry, group: Any, decide: Any, policy: Policy) -> Run:
        """Decide from the rows found; where the answer is None, the base decides."""

        def consult(rows: Rows) -> Generator[Action, Any, Change]:
            decided: Change | None = decide(rows.get(RECORD))
            if decided is not None:
                return decided
            scanned = yield from self._scan(group)
            return MARK_ONLY if scanned.deletes and RECORD not in rows else scanned

        return absorb(entry, (group,), lambda _, change: change, policy=policy, consult=consult)

    def _join(self, entry: Entry, row: Row, policy: Policy) -> Run:
        group, value = row[self.group], row[self.argument]

        def decide(record: Row | None) -> Change | None:
            if record is None or self._better(value, record[self.name]):
                return None if self.always_scan else self._record(group, value)
            if self.letter and value == record[self.name]:
                return self._record(group, value, record[COUNT] + 1)
            return MARK_ONLY

        return self._absorb(entry, group, decide, policy)

    def _leave(self, entry: Entry, row: Row, policy: Policy) -> Run:
        group, value = row[self.group], row[self.argument]

        def decide(record: Row | None) -> Change | None:
            if record is None or value != record[self.name]:
                return MARK_ONLY
            if self.letter and record[COUNT] > 1:
                return self._record(group, value, record[COUNT] - 1)
            return None

        return self._absorb(entry, group, decide, policy)

    def _replace(self, entry: Entry, policy: Policy) -> Run:
        """Change a value inside its group with one test-and-set."""
        assert entry.before is not None
        assert entry.after is not None
        group, old, new = entry.before[self.group], entry.before[self.argument], entry.after[self.argument]
        if old == new:
            return in_order(())

        def decide(record: Row | None) -> Change | None:
            if record is not None and not self._better(new, record[self.name]):
                return None if old == record[self.name] else MARK_ONLY
            return None if self.always_scan else self._record(group, new)

        return self._absorb(entry, group, decide, policy)
