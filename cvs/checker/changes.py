"""What base updates do to view records, one visible change each, and which write absorbed it.

A change is *certain* to show if it moves a shown column, in whatever order it is applied: then a serialization
of all base updates shows at least one state more than there are certain changes. So a view record that showed fewer is
not complete, whatever else is true (one write that absorbs a whole epoch).
"""

from dataclasses import dataclass, replace

import numpy as np

from cvs.checker.columns import Chains, side_by_side
from cvs.checker.contributions import Base, Told
from cvs.history.operations import Operations
from cvs.history.packing import NONE, Flags, Integers, ordered


@dataclass(slots=True, kw_only=True)
class Lines:
    """Certificate lines of the applied writes, in the order of the chains."""

    write: Integers  # place in links.order
    record: Integers
    base: Integers
    low: Integers  # places of the versions
    high: Integers
    at: Integers  # of the first version in between that the record can tell from the one before; else `high`
    before: Integers  # what the record sees of the two
    after: Integers

    def absorbed(self, base: Base, chosen: Flags) -> "Absorbed":
        """Return the visible changes of some records, each of which has a line of its own."""
        mine = np.flatnonzero((self.before != self.after) & chosen[self.record])
        return Absorbed(
            record=self.record[mine], returned=base.returned[self.at[mine]], write=self.write[mine]
        )


@dataclass(slots=True, kw_only=True)
class Absorbed:
    """Visible changes: when each had returned, and which write absorbed it (NONE: none)."""

    record: Integers
    returned: Integers
    write: Integers  # place in links.order


@dataclass(slots=True, kw_only=True)
class Short:
    """View records that showed fewer states than there are in any order of the base updates."""

    records: Flags
    record: int = NONE  # one of them
    event: int | None = None  # its first write that absorbed several changes, if one did
    shown: int = 0
    changes: int = 0

    @property
    def many(self) -> int:
        """Count them."""
        return int(np.count_nonzero(self.records))


@dataclass(slots=True, kw_only=True)
class Changes:
    """The visible changes of some view records."""

    record: Integers
    returned: Integers
    certain: Flags
    write: Integers  # place in links.order of the write that absorbed it, or NONE
    chosen: Flags  # the view records

    def of(self, records: Flags) -> Absorbed:
        """Return those of some records."""
        mine = records[self.record]
        return Absorbed(record=self.record[mine], returned=self.returned[mine], write=self.write[mine])

    def short(self, lines: Lines, links: Chains, writes: Operations) -> Short:
        """Find the view records that showed too few states: a state changes only where a write absorbs something."""
        many = len(self.chosen)
        moving = np.unique(lines.write[lines.before != lines.after])
        shown = np.bincount(writes.owner[links.order[moving]], minlength=many)
        changes = np.bincount(self.record[self.certain], minlength=many)
        found = Short(records=self.chosen & (shown < changes))
        if not found.many:
            return found
        mine = self.certain & (self.write >= 0) & found.records[self.record]
        several = links.order[np.bincount(self.write[mine], minlength=len(links.order)) > 1]
        found.record = int(np.flatnonzero(found.records)[0])
        if len(several):
            first = several[np.argmin(writes.number[several])]
            found.record, found.event = int(writes.owner[first]), int(writes.number[first])
        found.shown, found.changes = int(shown[found.record]), int(changes[found.record])
        return found


def settled(writes: Operations, links: Chains) -> Operations:
    """Return the writes with their intervals as narrow as their places in the chains allow.

    A write took effect before whatever follows it in its chain returned.
    """
    order = links.order
    record, returned = writes.owner[order], writes.returned[order]
    if not ((returned[1:] < returned[:-1]) & (record[1:] == record[:-1])).any():
        return writes
    known, rank = np.unique(returned, return_inverse=True)
    rank = np.minimum.accumulate((rank + record * len(known))[::-1])[::-1] - record * len(known)
    narrow = writes.returned.copy()
    narrow[order] = known[rank]
    return replace(writes, returned=narrow)


def visible(told: Told, base: Base) -> tuple[Integers, Integers]:
    """Return view records and places of the base versions that change what they see."""
    inner = np.ones(len(told.record), dtype=np.bool_)
    inner[base.start] = False
    place = np.flatnonzero(inner)
    same = told.record[place] == told.record[place - 1]
    changed = ~same | (told.content[place] != told.content[place - 1])
    entered = place[changed & (told.record[place] >= 0)]
    left = place[changed & ~same & (told.record[place - 1] >= 0)]
    return np.concatenate((told.record[entered], told.record[left - 1])), np.concatenate((entered, left))


def first_seen(
    record: Integers, low: Integers, high: Integers, wide: Integers, *, told: Told, base: Base
) -> Integers:
    """Return where what lines tell shows first: some of them (`wide`) pass over versions that may show nothing."""
    at = high.copy()
    if len(wide):
        owner, place = visible(told, base)
        room = len(told.record)
        known = np.sort(owner * room + place)
        wanted = record[wide] * room + low[wide]
        found = (
            known[np.minimum(np.searchsorted(known, wanted, side="right"), len(known) - 1)]
            - record[wide] * room
        )
        at[wide] = np.where((found > low[wide]) & (found <= high[wide]), found, high[wide])
    return at


def certain(told: Told, record: Integers, place: Integers) -> Flags:
    """Say which changes move a shown column: those show wherever they stand in an order."""
    if not told.grouped:
        return np.ones(len(place), np.bool_)
    found = np.zeros(len(place), np.bool_)
    for column in told.values[1:]:
        now = np.where(told.record[place] == record, column[place], 0)
        found |= now != np.where(told.record[place - 1] == record, column[place - 1], 0)
    return found


def final_of(lines: Lines, told: Told, base: Base, accepted: Flags) -> None:
    """C5: accept only what at the end holds what the last version of each base record contributes."""
    last = base.start[1:] - 1
    owner, content = told.record[last], told.content[last]
    pairs = _Pairs(lines, base)
    ends = pairs.ends()
    own = lines.base[ends]
    final = np.where(owner[own] == lines.record[ends], content[own], 0)
    accepted[lines.record[ends[lines.after[ends] != final]]] = False
    start = base.start[:-1]
    for one, other in ((last, start), (start, last)):
        stays = (told.record[one] == told.record[other]) & (told.content[one] == told.content[other])
        moved = np.flatnonzero((told.record[one] >= 0) & ~stays)
        owner = told.record[one[moved]]
        accepted[owner[pairs.rank(owner, moved) == NONE]] = False


def changes_of(lines: Lines, told: Told, base: Base, chosen: Flags) -> Changes:
    """Find the changes of some view records, and the writes that absorbed them."""
    record, place = visible(told, base)
    mine = np.flatnonzero(chosen[record])
    record, place = record[mine], place[mine]
    number = np.searchsorted(base.start, place, side="right") - 1
    line = _Pairs(lines, base).absorbing(record, number, place)
    return Changes(
        record=record,
        returned=base.returned[place],
        certain=certain(told, record, place),
        write=np.where(line >= 0, np.append(lines.write, NONE)[line], NONE),
        chosen=chosen,
    )


class _Pairs:
    """Finds the lines of pairs of a view record and a base record."""

    def __init__(self, lines: Lines, base: Base) -> None:
        self._wide = len(base.start)
        self._room = int(base.start[-1]) + 1
        pair = lines.record * self._wide + lines.base
        self._order = ordered(pair)
        pair = pair[self._order]
        first = np.ones(len(pair), np.bool_)
        first[1:] = pair[1:] != pair[:-1]
        self._last = np.append(first[1:], True) if len(pair) else first
        self._known = pair[first]
        self._keys = (np.cumsum(first) - 1) * self._room + lines.high[self._order]

    def ends(self) -> Integers:
        """Return the last line of each pair."""
        return self._order[self._last]

    def rank(self, record: Integers, base: Integers) -> Integers:
        """Return the rank of each pair, NONE for one without lines."""
        wanted = record * self._wide + base
        if not len(self._known):
            return np.full(len(wanted), NONE)
        place = np.minimum(np.searchsorted(self._known, wanted), len(self._known) - 1)
        return np.where(self._known[place] == wanted, place, NONE)

    def absorbing(self, record: Integers, base: Integers, place: Integers) -> Integers:
        """Return the first line of each pair that goes as far as this version, or NONE."""
        rank = self.rank(record, base)
        at = np.searchsorted(self._keys, rank * self._room + place)
        inside = (rank >= 0) & (at < len(self._keys))
        at = np.minimum(at, max(len(self._keys) - 1, 0))
        inside[inside] = self._keys[at[inside]] // self._room == rank[inside]
        return np.where(inside, np.append(self._order, NONE)[at], NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """The most that any state was behind what had returned before its write was called."""

    versions: int = 0
    nanoseconds: int = 0

    def worse(self, since: Integers, until: Integers, called: Integers, returned: Integers) -> "Stale":
        """Count changes that states `since` to `until` missed; `called`: of each state, rising."""
        missed = np.flatnonzero(since < until)
        if not len(missed):
            return self
        since, until, room = since[missed], until[missed], len(called) + 1
        behind = np.cumsum(np.bincount(since, minlength=room) - np.bincount(until, minlength=room))
        gap = called[until - 1] - returned[missed]
        return Stale(
            versions=max(self.versions, int(behind.max())),
            nanoseconds=max(self.nanoseconds, int(gap.max())),
        )


def stale_of(so_far: Stale, absorbed: Absorbed, links: Chains, writes: Operations) -> Stale:
    """Measure: a change that had returned is missed by every state from there to the one that absorbs it."""
    record, many = absorbed.record, len(links.accepted)
    if not len(record) or not len(links.order):  # nothing happened, or nobody showed anything for certain
        return so_far
    owner, moment = writes.owner[links.order], writes.called[links.order]
    called, returned, width = side_by_side(moment, absorbed.returned, many)
    called += owner * width
    latest = np.maximum.accumulate(called)
    ends = np.searchsorted(owner, np.arange(many), side="right")
    until = np.where(absorbed.write == NONE, ends[record], absorbed.write)
    since = np.searchsorted(latest, returned + record * width, side="right")
    which = np.maximum.accumulate(np.where(called == latest, np.arange(len(called)), 0))
    return so_far.worse(since, until, moment[which], absorbed.returned)
