"""The bulk path of the lineage tier: accept, all at once, the view records whose certificates prove
everything.

For views that are sums and counts by group, or selections and projections, over one table. A view record is
accepted when its signature chain is, each write absorbed lines that go on from what it held, each row is
the fold of what was absorbed, at the end it is the fold of the final base state, every visible change of
each base record was absorbed one by one in the recorded order, and nothing was absorbed before it was
called. Then it is complete, in the recorded order, without future. All others are left to the exact judge.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from cvs.checker.columns import NONE, Chains, Flags, Ints, Writes, chains, fill, writes_of
from cvs.checker.contributions import Base, Told, base_of, told_of
from cvs.checker.shape import NotForBulkError, Shape, shape_of
from cvs.history import events as ev
from cvs.model.identity import key_identity, row_identity
from cvs.model.views import BaseTable, ViewDefinition

Definitions = Callable[[dict[str, Any]], ViewDefinition]


@dataclass(slots=True, kw_only=True)
class Accepted:
    """What the bulk path could show, and the measure of staleness on the way."""

    names: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    others: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    base_of_others: set[tuple[str, tuple[Any, ...]]] = field(default_factory=set)
    views: dict[str, "WholeView"] = field(default_factory=dict)
    writes: int = 0
    versions_behind: int = 0
    nanoseconds_behind: int = 0


@dataclass(slots=True, kw_only=True)
class WholeView:
    """What follows for a whole view all of whose records are accepted."""

    in_recorded_order: bool = False
    torn: list[tuple[int, int]] = field(default_factory=list)  # number of the first write, length


def accept(events: Sequence[Any], definition: Definitions, tables: dict[str, BaseTable]) -> Accepted | None:
    """Return the view records that are shown to be right; None where the run is not of the kind for this."""
    kinds: dict[type, list[Any]] = {}
    for event in events:
        kinds.setdefault(type(event), []).append(event)
    if ev.Checkpoint in kinds or ev.Quiescent not in kinds or ev.TestAndSetCalled not in kinds:
        return None
    if ev.ViewReadReturned in kinds or not isinstance(events[0], ev.RunStarted):
        return None
    shapes: dict[str, Shape] = {}
    for view in (v for start in kinds[ev.RunStarted] for v in start.views):
        shape = shape_of(definition(view), tables) if "relation" in view else None
        if shape is not None:
            shapes[str(view["name"])] = shape
    processes = {name: i for i, name in enumerate(set(map(attrgetter("process"), events)))}
    clock = {start.process: start.clock_error for start in kinds[ev.RunStarted]}
    errors = fill((clock.get(name, 0) for name in processes), len(processes))
    calls, returns = kinds[ev.TestAndSetCalled], kinds.get(ev.TestAndSetReturned, [])
    try:
        base = base_of(kinds, processes, errors)
        writes = writes_of(calls, returns, processes, errors)
        return _accept(writes, chains(writes), base, shapes)
    except NotForBulkError:
        return None


def _accept(writes: Writes, links: Chains, base: Base, shapes: dict[str, Shape]) -> Accepted:
    found = Accepted(writes=len(writes.calls))
    for view, shape in shapes.items():
        accepted = links.accepted.copy()
        accepted &= _of(writes, view)
        told = told_of(shape, view, base, writes)
        lines = _lines(writes, links, base, accepted)
        accepted &= _linear(lines, told, base, writes, links)
        accepted &= _folds(lines, told, shape=shape, writes=writes, links=links, accepted=accepted)
        _measure(found, lines, links=links, base=base, writes=writes, accepted=accepted)
        names = [name for name, yes in zip(writes.names, accepted.tolist(), strict=True) if yes]
        found.names += names
        if len(names) == sum(name[0] == view for name in writes.names) and not told.strangers:
            found.views[view] = _whole_view(lines, told, links, base, writes)
        else:
            _remember_others(found, told, base, writes, accepted & _of(writes, view))
    rest = {name[0] for name in writes.names} - found.views.keys() - {name for name, _ in found.names}
    if rest - {view for view, _ in found.others}:
        raise NotForBulkError
    return found


def _of(writes: Writes, view: str) -> Flags:
    return fill((name[0] == view for name in writes.names), len(writes.names)).astype(np.bool_)


def _remember_others(found: Accepted, told: Told, base: Base, writes: Writes, accepted: Flags) -> None:
    """Name the view records left over, and the base records that touch them or one nobody ever wrote."""
    left = np.flatnonzero(~accepted & _of(writes, told.view))
    found.others += [writes.names[i] for i in left.tolist()] + sorted(told.strangers, key=repr)
    open_records = np.zeros(len(writes.names) + 1, dtype=np.bool_)
    open_records[left] = True
    touched = open_records[told.record] | told.stranger
    numbers = np.unique(np.searchsorted(base.start, np.flatnonzero(touched), side="right") - 1)
    records = list(base.numbering.known)
    found.base_of_others |= {records[number] for number in numbers.tolist()}
    absorbed = {
        (line.table, key_identity(line.key))
        for number in np.flatnonzero(np.isin(writes.record, left)).tolist()
        for line in writes.calls[number].absorbed
    }
    found.base_of_others |= absorbed & base.numbering.known.keys()


def _whole_view(lines: "_Lines", told: Told, links: Chains, base: Base, writes: Writes) -> WholeView:
    """Find the base updates that two view records absorbed at two moments: in between the view was torn.

    Without any, no two view records ever share a base record, so their chains together are one links, and the
    order in which the writes took effect is a serialization of which every state was shown.
    """
    before = np.where(told.record[lines.low] == lines.record, told.content[lines.low], 0)
    after = np.where(told.record[lines.high] == lines.record, told.content[lines.high], 0)
    mine = np.flatnonzero(before != after)
    write = links.order[lines.write[mine]]
    moment, high = writes.returned[write], lines.high[mine]
    in_time = np.argsort(moment, kind="stable")
    commits = base.commit[high[in_time]]
    whole = WholeView(in_recorded_order=bool((commits[1:] >= commits[:-1]).all()))
    sort = np.lexsort((moment, high))
    twice = np.flatnonzero(high[sort][1:] == high[sort][:-1])
    for place in twice.tolist():
        first, second = sort[place], sort[place + 1]
        whole.torn.append((int(write[second]), int(moment[second] - moment[first])))
    return whole


@dataclass(slots=True, kw_only=True)
class _Lines:
    """Certificate lines of the applied writes, in the order of the chains."""

    write: Ints  # place in links.order
    record: Ints
    base: Ints
    low: Ints  # places of the versions; NONE: not known
    high: Ints


def _lines(writes: Writes, links: Chains, base: Base, accepted: Flags) -> _Lines:
    order = links.order
    calls = writes.calls
    absorbed = [calls[i].absorbed for i in order.tolist()]
    counts = fill(map(len, absorbed), len(absorbed))
    accepted[writes.record[order[counts == 0]]] = False
    flat = list(chain.from_iterable(absorbed))
    total = len(flat)
    write = np.repeat(np.arange(len(order)), counts)
    before = len(base.numbering.known)
    number = fill(map(base.numbering.__getitem__, map(attrgetter("table", "key"), flat)), total)
    number[number >= before] = NONE  # base records no update tells of
    low = fill(map(attrgetter("from_version"), flat), total)
    high = fill(map(attrgetter("to_version"), flat), total)
    sizes = np.diff(base.start)
    known = (number >= 0) & (low >= 0) & (high > low) & (high < sizes[number])
    accepted[writes.record[order[write[~known]]]] = False
    start = base.start[:-1][number]
    return _Lines(
        write=write,
        record=writes.record[order[write]],
        base=number,
        low=np.where(known, start + low, 0),
        high=np.where(known, start + high, 0),
    )


def _linear(lines: _Lines, told: Told, base: Base, writes: Writes, links: Chains) -> Flags:
    """C2, C3, C6, C7: lines go on from what is held, one visible change each, all of them, none too early."""
    many = len(writes.names)
    accepted = np.ones(many, dtype=np.bool_)

    def seen(place: Ints) -> Ints:
        return np.where(told.record[place] == lines.record, told.content[place], 0)

    before, after = seen(lines.low), seen(lines.high)
    pair = lines.record * len(base.start) + lines.base
    order = np.lexsort((lines.write, pair))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = pair[order][1:] != pair[order][:-1]
    held, reached = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    held[1:], reached[1:] = after[order][:-1], lines.high[order][:-1]
    start = base.start[:-1][lines.base[order]]
    wrong = np.where(first, before[order] != 0, (before[order] != held) | (lines.high[order] <= reached))
    wrong |= lines.low[order] < start
    accepted[lines.record[order[wrong]]] = False
    early = base.called[lines.high] > writes.returned[links.order[lines.write]]
    accepted[lines.record[early]] = False
    visible = before != after
    counted = np.bincount(lines.record[visible], minlength=many)
    single = np.bincount(lines.write[visible], minlength=int(lines.write.max(initial=0)) + 1) <= 1
    accepted[lines.record[~single[lines.write]]] = False
    accepted &= counted == _visible_changes(told, base, many)
    chosen = np.flatnonzero(visible)
    chosen = chosen[np.lexsort((lines.write[chosen], lines.record[chosen]))]
    commit, record = base.commit[lines.high[chosen]], lines.record[chosen]
    back = (commit[1:] < commit[:-1]) & (record[1:] == record[:-1])
    accepted[record[1:][back]] = False
    return accepted


def _visible_changes(told: Told, base: Base, many: int) -> Ints:
    """Count for each view record the base updates it could have shown."""
    inner = np.ones(len(told.record), dtype=np.bool_)
    inner[base.start[:-1]] = False
    place = np.flatnonzero(inner)
    same = told.record[place] == told.record[place - 1]
    changed = ~same | (told.content[place] != told.content[place - 1])
    entered = place[changed & (told.record[place] >= 0)]
    left = place[changed & ~same & (told.record[place - 1] >= 0)] - 1
    counts = np.bincount(told.record[entered], minlength=many) + np.bincount(
        told.record[left], minlength=many
    )
    return counts.astype(np.int64)


def _folds(
    lines: _Lines, told: Told, *, shape: Shape, writes: Writes, links: Chains, accepted: Flags
) -> Flags:
    """C4 and C5: each row is the fold of what is held; all changes absorbed, so the last is the final one."""
    result = np.ones(len(writes.names), dtype=np.bool_)
    order = links.order
    record = writes.record[order]
    rows = [writes.calls[i].row for i in order.tolist()]
    if not shape.grouped:
        result &= _one_base_record(lines, len(writes.names))
        last = np.zeros(len(order), dtype=np.int64)
        last[lines.write] = np.where(told.record[lines.high] == lines.record, told.content[lines.high], 0)
        for place in np.flatnonzero(accepted[record]).tolist():
            row = rows[place]
            content = () if row is None else row_identity(row)
            if content != told.contents[last[place]]:
                result[record[place]] = False
        return result
    first = np.searchsorted(record, record)
    count = _running(lines, told, told.values[0], order, first)
    absent = np.fromiter((row is None for row in rows), dtype=np.bool_, count=len(rows))
    result[record[absent != (count == 0)]] = False
    for name, values in zip(shape.names, told.values[1:], strict=True):
        total = _running(lines, told, values, order, first)
        result[record[~absent & (_shown(rows, name) != total)]] = False
    result[record[~_fits(shape, told.view, rows, writes, record)]] = False
    return result


def _one_base_record(lines: _Lines, many: int) -> Flags:
    """Say which view records absorbed one base record only."""
    low, high = np.full(many, 1 << 62), np.full(many, NONE)
    np.minimum.at(low, lines.record, lines.base)
    np.maximum.at(high, lines.record, lines.base)
    return np.asarray(low >= high, dtype=np.bool_)


def _fits(shape: Shape, view: str, rows: list[Any], writes: Writes, record: Ints) -> Flags:
    """Say which rows have their key and their folds, and nothing else; a deleted one has nothing to fit."""
    present = np.fromiter((row is not None for row in rows), dtype=np.bool_, count=len(rows))
    there = [row for row in rows if row is not None]
    keys = zip(
        repeat(view), zip(*(map(methodcaller("get", k), there) for k in shape.key), strict=True), strict=False
    )
    fits = np.ones(len(rows), dtype=np.bool_)
    number = fill(map(writes.numbering.__getitem__, keys), len(there))
    fits[present] = number == record[present]
    fits[present] &= fill(map(len, there), len(there)) == len(shape.key) + len(shape.names)
    return fits


NOT_WHOLE = -(1 << 60)


def _shown(rows: list[Any], name: str) -> Ints:
    """Return a column of the rows; what is no whole number of ordinary size equals no fold."""
    values = [NOT_WHOLE if row is None else row.get(name) for row in rows]
    if not all(type(value) is int and -(1 << 62) < value < 1 << 62 for value in values):
        values = [v if type(v) is int and abs(v) < 1 << 62 else NOT_WHOLE for v in values]
    return np.array(values, dtype=np.int64)


def _running(lines: _Lines, told: Told, values: Ints, order: Ints, first: Ints) -> Ints:
    """Sum the changes of what is held, from each record's first write on."""

    def mine(place: Ints) -> Ints:
        return np.where(told.record[place] == lines.record, values[place], 0)

    moved = np.bincount(lines.write, weights=mine(lines.high) - mine(lines.low), minlength=len(order))
    total = np.cumsum(moved.astype(np.int64))
    return np.asarray(total - (total - moved.astype(np.int64))[first], dtype=np.int64)


def _measure(
    found: Accepted, lines: _Lines, *, links: Chains, base: Base, writes: Writes, accepted: Flags
) -> None:
    """Measure staleness along the recorded order: what had returned before a write was called, less what is
    held.
    """
    mine = accepted[lines.record]
    if not mine.any():
        return
    order = np.flatnonzero(mine)
    order = order[np.lexsort((lines.write[order], lines.record[order]))]
    record, returned = lines.record[order], base.returned[lines.high[order]]
    called = writes.called[links.order[lines.write[order]]]
    width = int(max(returned.max(), called.max())) + 1
    floor = int(min(returned.min(), called.min()))
    span = width - floor + 1
    latest = np.maximum.accumulate(returned - floor + record * span)
    known = np.searchsorted(latest, called - floor + record * span)
    behind = known - (np.arange(len(order)) + 1)
    found.versions_behind = max(found.versions_behind, int(behind.max(initial=0)))
    late = np.flatnonzero(behind > 0)
    if len(late):
        gap = called[late] - returned[np.minimum(late + 1, len(returned) - 1)]
        found.nanoseconds_behind = max(found.nanoseconds_behind, int(gap.max(initial=0)))
