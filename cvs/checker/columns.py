"""The signature check of all view records at once, over columns.

It only ever *accepts*: a view record it accepts is right by the same rules as in `signatures.py`; every other
one goes to the exact, slower judge, which also finds the words. So it needs no second opinion on what is wrong,
and the two are compared in `tests/agree`.
"""

from dataclasses import dataclass, replace

import numpy as np

from cvs.checker.replay import UNTOUCHED
from cvs.history.fields import APPLIED, NOT_SENT, REJECTED, UNKNOWN
from cvs.history.operations import Operations
from cvs.history.packing import NONE, Flags, Integers, Part, ordered, packed


@dataclass(slots=True, kw_only=True)
class Chains:
    """The applied writes in the order of their signatures, and which view records are accepted."""

    order: Integers  # numbers of writes, by record and position
    accepted: Flags  # by record
    stale: Integers  # numbers of writes that make a record wrong for certain: the order is sound, time contradicts it


def chains(writes: Operations, many: int, begun: Part | None = None) -> Chains:
    """Accept every view record whose signatures and times agree; leave the others to the exact check.

    `begun`: owners and signatures of the view records that a checkpoint tells of.
    """
    accepted = np.ones(many, dtype=np.bool_)
    own, seen = writes.own, writes.own["seen"]
    blind = (writes.outcome == UNKNOWN) | ((writes.outcome == REJECTED) & (seen == NONE))
    accepted[writes.owner[blind]] = False
    order = _by_record(writes)
    record, new, expected = writes.owner[order], own["new"][order], own["expected"][order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = record[1:] != record[:-1]
    parent = np.empty_like(new)
    parent[1:] = new[:-1]
    begins = (expected == NONE) | (expected == packed(UNTOUCHED))
    if begun is not None and len(begun["owner"]):
        known, signature = np.zeros(many, np.bool_), np.full(many, NONE)
        known[begun["owner"]], signature[begun["owner"]] = True, begun["signature"]
        goes_on = (expected == signature[record]) & (new != expected)
        begins = np.where(known[record], goes_on, begins)
    follows = np.where(first, begins, expected == parent)
    follows &= first | (new != parent)
    accepted[record[~follows]] = False
    stale = _accept_times(writes, order, accepted)
    return Chains(order=order, accepted=accepted, stale=stale)


def resolved(writes: Operations) -> Operations:
    """Say what became of writes that nobody heard of again, where others tell (`signatures.py` says the same)."""
    unknown = np.flatnonzero(writes.outcome == UNKNOWN)
    if not len(unknown):
        return writes
    outcome, by_record = writes.outcome.copy(), ordered(writes.owner)
    records = np.unique(writes.owner[unknown])
    starts, ends = (
        np.searchsorted(writes.owner[by_record], records, side=side) for side in ("left", "right")
    )
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        _resolve(writes, by_record[start:end].tolist(), outcome)
    return replace(writes, outcome=outcome)


def _resolve(writes: Operations, mine: list[int], outcome: Integers) -> None:
    """Of one record: who was built on took effect; whose place another took, or whose signature, did not.

    Where one may have come last, or two may be meant, all stay unknown.
    """
    new, expected = ({i: int(writes.own[name][i]) for i in mine} for name in ("new", "expected"))
    expected = {i: NONE if it == packed(UNTOUCHED) else it for i, it in expected.items()}
    took = [i for i in mine if outcome[i] == APPLIED]
    left, built = {new[i] for i in took}, {expected[i] for i in took}
    open_ = [i for i in mine if outcome[i] == UNKNOWN]
    while found := [i for i in open_ if new[i] in built - left]:
        if len({new[i] for i in found}) < len(found):
            return
        took += found
        left, built = left | {new[i] for i in found}, built | {expected[i] for i in found}
        open_ = [i for i in open_ if i not in found]
    if any(expected[i] not in built and new[i] not in left for i in open_):
        return
    outcome[took] = APPLIED
    outcome[open_] = NOT_SENT


def _by_record(writes: Operations) -> Integers:
    """Sort the applied writes by record and signature; what was written in that order is sorted already."""
    applied = np.flatnonzero(writes.outcome == APPLIED)
    record, new = writes.owner[applied], writes.own["new"][applied]
    order = applied[ordered(record)]
    record, new = writes.owner[order], writes.own["new"][order]
    if ((new[1:] < new[:-1]) & (record[1:] == record[:-1])).any():
        order = order[np.lexsort((new, record))]
    return order


def _accept_times(writes: Operations, order: Integers, accepted: Flags) -> Integers:
    """Compare the order with time: one pass of running maxima over writes and what saw their signatures.

    Returns what comes too late in records whose order is certain.
    """
    record, new = writes.owner[order], writes.own["new"][order]
    starts = np.searchsorted(record, np.arange(len(accepted)))
    position = np.arange(len(order)) - starts[record] if len(order) else order
    seen = writes.own["seen"]
    refused = np.flatnonzero((writes.outcome == REJECTED) & (seen != NONE))
    items, owner = order, record
    if len(refused):
        place = _position_of(writes, refused, record, new)
        wrong = (place < 0) | (seen[refused] == writes.own["expected"][refused])
        accepted[writes.owner[refused[wrong]]] = False
        refused, place = refused[~wrong], place[~wrong]
        items = np.concatenate((order, refused))
        at = np.concatenate((position, place))
        rank = np.concatenate((np.zeros(len(order), np.int64), np.ones(len(refused), np.int64)))
        items = items[np.lexsort((writes.called[items], rank, at, writes.owner[items]))]
        owner = writes.owner[items]
    if not len(items):
        return items
    called, returned = writes.called[items], writes.returned[items]
    called, returned, width = side_by_side(called, returned, len(accepted))
    latest = np.maximum.accumulate(called + owner * width)
    ended = returned + owner * width
    late = np.zeros(len(items), dtype=np.bool_)
    late[1:] = ended[1:] < latest[:-1]
    stale: Integers = items[late & accepted[owner]]
    accepted[owner[late]] = False
    return stale


def side_by_side(one: Integers, other: Integers, groups: int) -> tuple[Integers, Integers, int]:
    """Return two columns of times from 0, and a width so large that groups can be laid side by side.

    What is later than all of the first column is as late as a time needs to be. Where so many groups of so long
    a time have no place in 64 bits, ranks stand for times.
    """
    origin, end = int(one.min()), int(one.max()) + 1
    first, second = one, np.clip(other, origin - 1, end)
    width = end - origin + 3
    if width * (groups + 1) >= 1 << 62:
        known, ranks = np.unique(np.concatenate((first, second)), return_inverse=True)
        return ranks[: len(one)], ranks[len(one) :], len(known) + 1
    return first - origin + 1, second - origin + 1, width


def _position_of(writes: Operations, refused: Integers, record: Integers, new: Integers) -> Integers:
    """Return the position of the signature each refusal saw, or -1: found by one merge of sorted pairs."""
    if not len(new):
        return np.full(len(refused), NONE, dtype=np.int64)
    values, rank = np.unique(np.concatenate((new, writes.own["seen"][refused])), return_inverse=True)
    many = len(values)
    left = record * many + rank[: len(new)]
    right = writes.owner[refused] * many + rank[len(new) :]
    place = np.minimum(np.searchsorted(left, right), len(left) - 1)
    starts = np.searchsorted(record, writes.owner[refused])
    return np.where(left[place] == right, place - starts, NONE)
