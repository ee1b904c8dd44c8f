"""The bulk path of the lineage tier: accept, all at once, the view records whose certificates prove
everything.

For views that are sums and counts by group, or selections and projections, over one table. A view record is
accepted when its signature chain is, each write absorbed lines that go on from what it held, each row is
the fold of what was absorbed, at the end it is the fold of the final base state, and nothing was absorbed
before it was called. Then it is strong, without future: what it held is a chain. If every visible change of each
base record was absorbed one by one, it is complete, and in the recorded order if they followed it; if it showed
fewer states than there are changes that show in any order, as where an epoch is absorbed at once, it is not
(`changes.py`). All others are left to the exact judge.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cvs.checker.changes import (
    Lines,
    Short,
    Stale,
    changes_of,
    final_of,
    first_seen,
    settled,
    stale_of,
    visible,
)
from cvs.checker.columns import Chains, chains, resolved
from cvs.checker.contributions import Base, BaseRows, Contents, Told, ViewRows, base_of, told_of
from cvs.checker.shape import Shape, shape_of
from cvs.checker.wholes import Snapshots, WholeView, snapshots_of, whole_view
from cvs.history import events as ev
from cvs.history.columns import Columns, Gathered, Readers
from cvs.history.fields import Name, Numbering
from cvs.history.operations import ENDLESS
from cvs.history.packing import NONE, Flags, Integers, NotColumnarError, ordered
from cvs.model.definitions import is_defined
from cvs.model.views import BaseTable, ViewDefinition

Definitions = Callable[[dict[str, Any]], ViewDefinition]


@dataclass(slots=True, kw_only=True)
class Bulk:
    """The views the bulk path knows, and the readers of their rows."""

    readers: Readers
    written: frozenset[str] = frozenset()  # of a part: views that are written to in any part
    bases: dict[str, BaseRows] = field(default_factory=dict)
    views: dict[str, ViewRows] = field(default_factory=dict)


def bulk_of(
    headers: Iterable[ev.RunStarted],
    definition: Definitions,
    tables: Mapping[str, BaseTable],
    owned: Callable[[str, Sequence[Any]], bool] | None = None,
    written: frozenset[str] = frozenset(),
) -> Bulk:
    """Recognize the views of a run; a view the bulk path does not know is none of its readers.

    View records that are not `owned` are of another part: nothing contributes to them here. A view that is `written`
    in another part only may yet have records here that nobody wrote.
    """
    records, by_table = Numbering(owned), dict[str, list[BaseRows]]()
    bases, shown = dict[str, BaseRows](), dict[str, ViewRows]()
    for view in (v for start in headers for v in start.views):
        name = str(view.get("name", ""))
        shape: Shape | None = shape_of(definition(view), tables) if is_defined(view) else None
        if shape is None or name in bases:
            continue
        contents = Contents()
        bases[name] = BaseRows(shape, name, records, contents)
        shown[name] = ViewRows(shape, name, records, contents)
        by_table.setdefault(shape.table, []).append(bases[name])
    readers = Readers(records=records, tables=by_table, views=shown)
    return Bulk(readers=readers, written=written, bases=bases, views=shown)


@dataclass(slots=True, kw_only=True)
class Accepted:
    """What the bulk path could show, and the measure of staleness on the way."""

    names: list[Name] = field(default_factory=list)  # proved strong
    short: dict[str, Short] = field(default_factory=dict)  # ... of which so many are proved not complete
    still: dict[str, int] = field(
        default_factory=dict
    )  # ... and so many nobody wrote: they have no certificates
    elsewise: dict[str, int] = field(
        default_factory=dict
    )  # ... and so many absorbed one by one, but not in the recorded order
    others: list[Name] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # views of other kinds
    base_of_others: set[Name] = field(default_factory=set)
    views: dict[str, WholeView] = field(default_factory=dict)
    snapshots: dict[str, Snapshots] = field(default_factory=dict)
    stale: dict[str, Stale] = field(default_factory=dict)

    def leave_out(self, others: set[str]) -> None:
        """Forget what is of some views."""
        self.names = [name for name in self.names if name[0] not in others]
        self.others = [name for name in self.others if name[0] not in others]
        self.unknown = [name for name in self.unknown if name not in others]


def accept(run: Columns, bulk: Bulk) -> Accepted | None:
    """Return the view records that are shown to be right; None where the run is not of the kind for this."""
    told = run.kinds.get("checkpoint", 0) > len(run.begun["number"]) or run.kinds.get("view_read_returned", 0)
    if not len(run.writes.owner) or told or _moved(run):
        return None
    try:
        return _accept(run, bulk)
    except NotColumnarError:
        return None


def _moved(run: Columns) -> bool:
    """Say whether a base update was under way after the last rest, or there is none."""
    answered = run.updates.answered
    last = max(run.updates.number.max(initial=0), answered[answered < ENDLESS].max(initial=0))
    return not run.rest > last


def accept_events(
    events: list[Any], definition: Definitions, tables: Mapping[str, BaseTable]
) -> Accepted | None:
    """Do so for events that are in hand, as one file."""
    bulk = bulk_of((e for e in events if isinstance(e, ev.RunStarted)), definition, tables)
    gathered = Gathered(bulk.readers)
    try:
        gathered.take(events)
        return accept(gathered.columns(), bulk)
    except NotColumnarError:
        return None


def _accept(run: Columns, bulk: Bulk) -> Accepted:
    run = replace(run, writes=resolved(run.writes))
    base = base_of(run)
    links = chains(run.writes, len(run.records), run.shown)
    writes = settled(run.writes, links)
    written = np.bincount(writes.owner, minlength=len(run.records)) > 0
    found = Accepted()
    view_of = np.full(len(run.records), NONE, dtype=np.int64)
    view_of[writes.owner] = writes.own["view"]
    view_of[run.shown["owner"]] = run.shown["view"]
    written[run.shown["owner"]] = True
    for view in dict.fromkeys((*run.views, *sorted(bulk.written))):
        if view not in bulk.bases or bulk.bases[view].unfit:
            found.unknown.append(view)
            continue
        told = told_of(bulk.bases[view], bulk.views[view], run=run, base=base, written=written)
        if view not in run.views:
            _remember_others(found, run, told, base, left=np.zeros(len(run.records), np.bool_))
            continue
        mine = view_of == run.views.index(view)
        accepted = links.accepted & mine
        accepted[told.unsure] = False
        lines = _lines(run, links, base, told, accepted)
        complete, recorded = _linear(lines, told, base, accepted)
        early = base.called[lines.high] > writes.returned[links.order[lines.write]]
        accepted[lines.record[early]] = False
        accepted &= _folds(lines, told, base, shown=bulk.views[view], run=run, links=links)
        complete &= accepted
        short, stale, strong = None, Stale(), accepted
        if (accepted & ~complete).any():
            final_of(lines, told, base, accepted)
            changes = changes_of(lines, told, base, accepted & ~complete)
            short = changes.short(lines, links, writes)
            strong, accepted = accepted, complete | short.records
            found.short[view] = short
            stale = stale_of(stale, changes.of(short.records), links, writes)
        found.elsewise[view] = int(np.count_nonzero(complete & ~recorded))
        found.stale[view] = stale_of(stale, lines.absorbed(base, complete), links, writes)
        found.still[view] = int(
            np.count_nonzero(accepted & (np.bincount(writes.owner, minlength=len(mine)) == 0))
        )
        found.names += [run.records[i] for i in np.flatnonzero(accepted).tolist()]
        if (strong == mine).all() and not len(told.strangers):
            whole = whole_view(lines, told, base, links, writes, complete=bool(complete[mine].all()))
            if not complete[mine].all():
                whole.complete, whole.in_recorded_order = (
                    False if short is not None and short.many else None,
                    False,
                )
            found.views[view] = whole
            if len(run.commits["number"]):
                snapshots = snapshots_of(run, lines, told, base=base, links=links, writes=writes)
                if snapshots is not None:
                    found.snapshots[view] = snapshots
        if not (accepted == mine).all() or len(told.strangers):
            _remember_others(found, run, told, base, left=mine & ~accepted)
    return found


def _remember_others(found: Accepted, run: Columns, told: Told, base: Base, *, left: Flags) -> None:
    """Name the view records left over, and the base records that touch them or one nobody ever wrote."""
    found.others += [run.records[i] for i in (*np.flatnonzero(left).tolist(), *told.strangers.tolist())]
    touched = (left[told.record] & (told.record >= 0)) | told.stranger
    numbers = np.searchsorted(base.start, np.flatnonzero(touched), side="right") - 1
    absorbed = run.lines["base"][left[run.writes.owner[run.lines["write"]]]]
    known = np.unique(np.concatenate((numbers, absorbed)))
    known = known[(np.diff(base.start)[known] > 1) | base.unsure[known]]
    found.base_of_others |= {run.bases[n] for n in (*known.tolist(), *np.flatnonzero(base.unsure).tolist())}


def _lines(run: Columns, links: Chains, base: Base, told: Told, accepted: Flags) -> Lines:
    order, all_of = links.order, run.lines
    rank = np.full(len(run.writes.owner), NONE, dtype=np.int64)
    rank[order] = np.arange(len(order))
    write = rank[all_of["write"]]
    chosen = np.flatnonzero(write >= 0)
    chosen = chosen[ordered(write[chosen])]
    write, number = write[chosen], all_of["base"][chosen]
    low, high = (all_of[name][chosen] - base.first[number] for name in ("low", "high"))
    counts = np.bincount(write, minlength=len(order))
    accepted[run.writes.owner[order[counts == 0]]] = False
    sizes = np.diff(base.start)
    known = (low >= 0) & (high > low) & (high < sizes[number])
    record = run.writes.owner[order[write]]
    accepted[record[~known]] = False
    start = base.start[:-1][number]
    low, high = np.where(known, start + low, 0), np.where(known, start + high, 0)
    before = np.where(told.record[low] == record, told.content[low], 0)
    after = np.where(told.record[high] == record, told.content[high], 0)
    wide = np.flatnonzero((before != after) & (high - low > 1))
    at = first_seen(record, low, high, wide, told=told, base=base)
    return Lines(
        write=write, record=record, base=number, low=low, high=high, at=at, before=before, after=after
    )  # fmt: skip


def _linear(lines: Lines, told: Told, base: Base, accepted: Flags) -> tuple[Flags, Flags]:
    """C2, C3: lines go on from what is held.

    Returns which view records absorbed all that they can see one by one (C6), and which so in the recorded order.
    """
    many = len(accepted)
    complete = np.ones(many, dtype=np.bool_)
    pair = lines.record * len(base.start) + lines.base
    order = ordered(pair)  # within a pair they stand in the order of the writes
    pair, before, after = pair[order], lines.before[order], lines.after[order]
    high = lines.high[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = pair[1:] != pair[:-1]
    held, reached = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    held[1:], reached[1:] = after[:-1], high[:-1]
    begin = base.start[lines.base[order]]
    begun = np.where(told.record[begin] == lines.record[order], told.content[begin], 0)
    wrong = np.where(first, before != begun, (before != held) | (high <= reached))
    accepted[lines.record[order[wrong]]] = False
    visible = lines.before != lines.after
    counted = np.bincount(lines.record[visible], minlength=many)
    single = np.bincount(lines.write[visible], minlength=int(lines.write.max(initial=0)) + 1) <= 1
    complete[lines.record[~single[lines.write]]] = False
    complete &= counted == _visible_changes(told, base, many)
    chosen = np.flatnonzero(visible)  # by record and write, as the lines are
    commit, record = base.commit[lines.at[chosen]], lines.record[chosen]
    back = (commit[1:] < commit[:-1]) & (record[1:] == record[:-1])
    recorded = complete.copy()
    recorded[record[1:][back]] = False
    return complete, recorded


def _visible_changes(told: Told, base: Base, many: int) -> Integers:
    """Count for each view record the base updates it could have shown."""
    record, _ = visible(told, base)
    return np.bincount(record, minlength=many).astype(np.int64)


def _folds(lines: Lines, told: Told, base: Base, *, shown: ViewRows, run: Columns, links: Chains) -> Flags:
    """C4: each row is the fold of what is held, the one of a checkpoint of what was there at first."""
    own = run.writes.own["view"] == run.views.index(told.view)
    rank = np.cumsum(own) - 1  # of a write among those of this view
    within = own[links.order]
    order = links.order[within]
    record, place = run.writes.owner[order], len(told.opening) + rank[order]
    many = len(links.accepted)
    number = np.flatnonzero(told.record[base.start[:-1]] >= 0)
    start = base.start[number]
    owner = told.record[start]  # of what was there at first
    if not shown.shape.grouped:
        result = _one_base_record(lines, owner, number, many)
        result &= _spread(told.opening, told.shown, many) == _spread(owner, told.content[start], many)
        last = np.zeros(len(links.order), dtype=np.int64)
        last[lines.write] = lines.after
        result[record[told.shown[place] != last[within]]] = False
        return result
    result = np.ones(many, dtype=np.bool_)
    present, fits, *values = shown.read()
    first = np.searchsorted(record, record)
    count = np.zeros(0, np.int64)
    for column, folded in zip((present, *values), told.values, strict=True):
        begun = np.bincount(owner, weights=folded[start], minlength=many).astype(np.int64)
        total = _running(lines, told, folded, within, first) + begun[record]
        opened = _spread(told.opening, column, many)
        if not len(count):
            count, some = total, begun > 0
            result &= (opened > 0) == some
            result[record[(column[place] == 0) != (count == 0)]] = False
            continue
        result &= ~some | (opened == begun)
        result[record[(count > 0) & (column[place] != total)]] = False
    result[
        np.concatenate((told.opening, record))[np.concatenate((fits[: len(told.opening)], fits[place])) == 0]
    ] = False
    return result


def _spread(owner: Integers, values: Integers, many: int) -> Integers:
    """Return the first values by whose they are, 0 for others."""
    found = np.zeros(many, np.int64)
    found[owner] = values[: len(owner)]
    return found


def _one_base_record(lines: Lines, owner: Integers, number: Integers, many: int) -> Flags:
    """Say which view records had one base record only, at first and in what they absorbed."""
    low, high = np.full(many, 1 << 62), np.full(many, NONE)
    for records, bases in ((lines.record, lines.base), (owner, number)):
        np.minimum.at(low, records, bases)
        np.maximum.at(high, records, bases)
    return np.asarray(low >= high, dtype=np.bool_)


def _running(lines: Lines, told: Told, values: Integers, within: Flags, first: Integers) -> Integers:
    """Sum the changes of what is held, from each record's first write on."""
    moved = np.where(told.record[lines.high] == lines.record, values[lines.high], 0)
    moved -= np.where(told.record[lines.low] == lines.record, values[lines.low], 0)
    sums = np.bincount(lines.write, weights=moved, minlength=len(within)).astype(np.int64)[within]
    total = np.cumsum(sums)
    return np.asarray(total - (total - sums)[first], dtype=np.int64)
