"""Columns: a run as arrays, and the signature check of all view records at once.

The bulk path only ever *accepts*: a view record it accepts is right by the same rules as in `signatures.py`;
every other one goes to the exact, slower judge, which also finds the words. So it needs no second opinion on
what is wrong, and the two are compared in `tests/agree`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cvs.checker.replay import ENDLESS
from cvs.history import events as ev
from cvs.model.identity import key_identity

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NONE = -1
APPLIED, REJECTED, NOT_SENT, UNKNOWN = range(4)
_OUTCOMES = {"applied": APPLIED, "rejected": REJECTED, "not_sent": NOT_SENT, "unknown": UNKNOWN}
_VERSION_BITS, _CHUNK_BITS = 36, 14


def packed(signature: Sequence[Any] | None) -> int:
    """Pack the scalars of a signature into one integer that keeps their order; no record is -1."""
    if signature is None:
        return NONE
    incarnation, version, chunk, last = signature
    return int((((incarnation << _VERSION_BITS) | version) << _CHUNK_BITS | chunk) << 1 | last)


@dataclass(slots=True, kw_only=True)
class Writes:
    """All test-and-sets, as they were called."""

    calls: list[ev.TestAndSetCalled]
    record: Ints  # number of the (view, view key)
    names: list[tuple[str, tuple[Any, ...]]]
    expected: Ints
    new: Ints
    seen: Ints
    outcome: Ints
    called: Ints
    returned: Ints


def fill(values: Iterable[int], count: int) -> Ints:
    """Make a column."""
    return np.fromiter(values, dtype=np.int64, count=count)


def numbered(values: Iterable[Any], count: int) -> tuple[Ints, list[Any]]:
    """Number values in the order of their first appearance."""
    numbers: dict[Any, int] = {}
    column = fill((numbers.setdefault(value, len(numbers)) for value in values), count)
    return column, list(numbers)


def joined(calls: Sequence[Any], returns: Sequence[Any], processes: dict[str, int]) -> Ints:
    """Return for each call the place of its return, or -1; joined by process and operation."""
    mine = fill((processes[e.process] << 40 | e.operation for e in calls), len(calls))
    theirs = fill((processes[e.process] << 40 | e.operation for e in returns), len(returns))
    order = np.argsort(theirs, kind="stable")
    if not len(order):
        return np.full(len(calls), NONE, dtype=np.int64)
    place = np.minimum(np.searchsorted(theirs[order], mine), len(order) - 1)
    found = theirs[order][place] == mine
    return np.where(found, order[place], NONE)


def outcomes(returns: Sequence[Any], place: Ints, errors: Callable[[str], int]) -> tuple[Ints, Ints]:
    """Return outcome and widened return time of each call; a call nobody heard of again is unknown."""
    kinds = np.append(fill((_OUTCOMES[e.outcome] for e in returns), len(returns)), UNKNOWN)
    times = np.append(fill((e.time + errors(e.process) for e in returns), len(returns)), ENDLESS)
    kind = kinds[place]
    return kind, np.where(kind == UNKNOWN, ENDLESS, times[place])


def writes_of(
    calls: list[ev.TestAndSetCalled],
    returns: list[ev.TestAndSetReturned],
    processes: dict[str, int],
    errors: Callable[[str], int],
) -> Writes:
    """Make the columns of the test-and-sets."""
    count = len(calls)
    place = joined(calls, returns, processes)
    kind, returned = outcomes(returns, place, errors)
    seen = np.append(fill((packed(e.returned) for e in returns), len(returns)), NONE)[place]
    record, names = numbered(((e.view, key_identity(e.view_key)) for e in calls), count)
    return Writes(
        calls=calls,
        record=record,
        names=names,
        expected=fill((packed(e.expected) for e in calls), count),
        new=fill((packed(e.new) for e in calls), count),
        seen=seen,
        outcome=kind,
        called=fill((e.time - errors(e.process) for e in calls), count),
        returned=returned,
    )


@dataclass(slots=True, kw_only=True)
class Chains:
    """The applied writes in the order of their signatures, and which view records are accepted."""

    order: Ints  # numbers of writes, by record and position
    accepted: Flags  # by record


def chains(writes: Writes) -> Chains:
    """Accept every view record whose signatures and times agree; leave the others to the exact check."""
    accepted = np.ones(len(writes.names), dtype=np.bool_)
    blind = (writes.outcome == UNKNOWN) | ((writes.outcome == REJECTED) & (writes.seen == NONE))
    accepted[writes.record[blind]] = False
    applied = np.flatnonzero(writes.outcome == APPLIED)
    order = applied[np.lexsort((writes.new[applied], writes.record[applied]))]
    record, new, expected = writes.record[order], writes.new[order], writes.expected[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = record[1:] != record[:-1]
    parent = np.empty_like(new)
    parent[1:] = new[:-1]
    untouched = packed((0, 0, 0, True))
    begins = (expected == NONE) | (expected == untouched)
    follows = np.where(first, begins, expected == parent)
    follows &= first | (new != parent)
    accepted[record[~follows]] = False
    _accept_times(writes, order, accepted)
    return Chains(order=order, accepted=accepted)


def _accept_times(writes: Writes, order: Ints, accepted: Flags) -> None:
    """Compare the order with time: one pass of running maxima over writes and what saw their signatures."""
    record, new = writes.record[order], writes.new[order]
    starts = np.searchsorted(record, np.arange(len(writes.names)))
    position = np.arange(len(order)) - starts[record] if len(order) else order
    refused = np.flatnonzero((writes.outcome == REJECTED) & (writes.seen != NONE))
    place = _position_of(writes, refused, record, new)
    wrong = (place < 0) | (writes.seen[refused] == writes.expected[refused])
    accepted[writes.record[refused[wrong]]] = False
    refused, place = refused[~wrong], place[~wrong]
    items = np.concatenate((order, refused))
    at = np.concatenate((position, place))
    rank = np.concatenate((np.zeros(len(order), np.int64), np.ones(len(refused), np.int64)))
    if not len(items):
        return
    sort = np.lexsort((writes.called[items], rank, at, writes.record[items]))
    items = items[sort]
    origin = writes.called[items].min()
    width = int(writes.called[items].max() - origin) + 2
    offset = writes.record[items] * width
    called = writes.called[items] - origin + 1 + offset
    returned = np.minimum(writes.returned[items] - origin + 1, width - 1) + offset
    latest = np.maximum.accumulate(called)
    late = np.zeros(len(items), dtype=np.bool_)
    late[1:] = returned[1:] < latest[:-1]
    accepted[writes.record[items[late]]] = False


def _position_of(writes: Writes, refused: Ints, record: Ints, new: Ints) -> Ints:
    """Return the position of the signature each refusal saw, or -1: found by one merge of sorted pairs."""
    if not len(refused) or not len(new):
        return np.full(len(refused), NONE, dtype=np.int64)
    values, rank = np.unique(np.concatenate((new, writes.seen[refused])), return_inverse=True)
    many = len(values)
    left = record * many + rank[: len(new)]
    right = writes.record[refused] * many + rank[len(new) :]
    place = np.minimum(np.searchsorted(left, right), len(left) - 1)
    starts = np.searchsorted(record, writes.record[refused])
    return np.where(left[place] == right, place - starts, NONE)
