"""What a whole view shows of one cut after another, without computing all of it each time.

Neighbouring cuts of a search, and the cuts of consecutive epochs, differ in few records. Of a linear view those
records touch few view records, and each of them is a fold over the records that touch it, so only these are
computed again. Any other view is recomputed.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cvs.checker.meaning import IMPOSSIBLE, Meaning
from cvs.checker.replay import BaseRecord, Key, Row
from cvs.checker.verdict import Cut


@dataclass(slots=True)
class WholeView:
    """Evaluates cuts of some records; `touching` names, for each view record, the base records that matter."""

    meaning: Meaning
    records: Sequence[BaseRecord]
    rows: Sequence[Sequence[Row | None]]
    touching: Mapping[Key, Iterable[BaseRecord]]
    _at: Cut | None = None
    _base: dict[BaseRecord, Row | None] = field(default_factory=dict)
    _shown: dict[Key, Hashable] = field(default_factory=dict)

    def value(self, cut: Cut) -> Hashable:
        """Return what the view shows, frozen."""
        if self._at is None or not self.meaning.linear or not self._moved(cut):
            self._base = {r: rows[v] for r, rows, v in zip(self.records, self.rows, cut, strict=True)}
            self._shown = dict(self.meaning.view(self._base))
        self._at = None if IMPOSSIBLE in self._shown.values() else cut
        return frozenset(self._shown.items())

    def _moved(self, cut: Cut) -> bool:
        """Go from the last cut to this one; False where the whole must be computed."""
        assert self._at is not None
        affected: set[Key] = set()
        for record, rows, before, now in zip(self.records, self.rows, self._at, cut, strict=True):
            if before != now:
                for version in (before, now):
                    affected.update(self.meaning.contribution(record, rows[version]))
                self._base[record] = rows[now]
        for key in affected:
            near = {record: self._base.get(record) for record in self.touching.get(key, ())}
            found = self.meaning.view(near)
            if IMPOSSIBLE in found.values():
                return False
            if key in found:
                self._shown[key] = found[key]
            else:
                self._shown.pop(key, None)
        return True
