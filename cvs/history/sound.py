"""What no valid history has, seen in columns: whoever meets it asks the strict reader, who says what and where."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.fields import APPLIED, REJECTED
from cvs.history.operations import Operations
from cvs.history.packing import NONE, Integers, Part

_NEVER = -(1 << 63)


@dataclass(slots=True)
class Clocks:
    """The clock of each process of a file, block by block."""

    first: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    latest: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def follow(self, who: Integers, times: Integers, processes: int) -> None:
        """Refuse a clock that goes back."""
        more = processes - len(self.latest)
        self.first, self.latest = (np.append(old, np.full(more, _NEVER)) for old in (self.first, self.latest))
        order = np.argsort(who.astype(np.uint16) if processes < 1 << 16 else who, kind="stable")
        who, times = who[order], times[order]
        before = np.append(_NEVER, times[:-1])
        first = np.flatnonzero(np.append(True, who[1:] != who[:-1])[: len(who)])
        before[first] = self.latest[who[first]]
        if (times < before).any():
            raise HistoryError.one_of_many("a clock goes back")
        fresh = first[before[first] == _NEVER]
        self.first[who[fresh]] = times[fresh]
        self.latest[who] = times  # the last of each stays

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the latest time of each process."""
        return zip(self.first.tolist(), self.latest.tolist(), strict=True)


def require_headers(headers: Iterable[ev.RunStarted], views: Iterable[str], tables: Iterable[str]) -> None:
    """Refuse headers of another format, or of several runs; and what was written to that none of them has."""
    kept = list(headers)
    if any(header.format != ev.FORMAT or header.clock_error < 0 for header in kept):
        raise HistoryError.one_of_many("another format")
    if len({header.run for header in kept}) > 1:
        raise HistoryError.one_of_many("several runs")
    _require_known(views, (str(view.get("name")) for header in kept for view in header.views))
    _require_known(tables, (str(table.get("name")) for header in kept for table in header.tables))


def require_begun(started: Part, starts: Sequence[int], events: int) -> None:
    """Refuse a file that does not begin with a header, and a process that has two."""
    begins = np.array([start for start in starts or [0] if start < events], np.int64)
    if not np.isin(begins + 1, started["number"]).all():
        raise HistoryError.one_of_many("a file does not begin with run_started")
    if len(np.unique(started["process"])) < len(started["process"]):
        raise HistoryError.one_of_many("a process has begun twice")


def _require_known(names: Iterable[str], defined: Iterable[str]) -> None:
    known = set(defined)
    if known and not known.issuperset(names):
        raise HistoryError.one_of_many("a table or view is not in the header")


def require_operations(updates: Operations, writes: Operations) -> None:
    """Refuse what no operation says."""
    versions = updates.own["version"]
    if (versions < 1).any():
        raise HistoryError.one_of_many("a version before the first")
    owner, version = updates.owner[updates.outcome == APPLIED], versions[updates.outcome == APPLIED]
    order = np.lexsort((version, owner))
    owner, version = owner[order], version[order]
    if ((owner[1:] == owner[:-1]) & (version[1:] == version[:-1])).any():
        raise HistoryError.one_of_many("two applied updates of one version")
    if (writes.own["expected"] == writes.own["new"]).any():
        raise HistoryError.one_of_many("a test-and-set that changes no signature")
    if ((writes.own["seen"] != NONE) & (writes.outcome != REJECTED)).any():
        raise HistoryError.one_of_many("a signature returned by what was not rejected")
