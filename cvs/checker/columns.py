"""Columns: a run as arrays, and the signature check of all view records at once.

The bulk path only ever *accepts*: a view record it accepts is right by the same rules as in `signatures.py`;
every other one goes to the exact, slower judge, which also finds the words. So it needs no second opinion on
what is wrong, and the two are compared in `tests/agree`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from cvs.checker.replay import ENDLESS, UNTOUCHED
from cvs.checker.shape import NotForBulkError
from cvs.history import events as ev
from cvs.model.identity import key_identity

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NONE = -1
APPLIED, REJECTED, NOT_SENT, UNKNOWN = range(4)
_OUTCOMES = {"applied": APPLIED, "rejected": REJECTED, "not_sent": NOT_SENT, "unknown": UNKNOWN}
_VERSION_BITS, _CHUNK_BITS = 36, 14


_NOTHING = (-1, -1, -1, -1)


def packed(signatures: Iterable[Sequence[Any] | None], count: int) -> Ints:
    """Pack the scalars of signatures into integers that keep their order; no record is -1."""
    flat = chain.from_iterable(signature or _NOTHING for signature in signatures)
    scalars = np.fromiter(flat, dtype=np.int64, count=4 * count).reshape(count, 4)
    incarnation, version, chunk, last = scalars.T
    if (
        (incarnation >= 1 << 11).any()
        or (version >= 1 << _VERSION_BITS).any()
        or (chunk >= 1 << _CHUNK_BITS).any()
    ):
        raise NotForBulkError
    whole = (((incarnation << _VERSION_BITS) | version) << _CHUNK_BITS | chunk) << 1 | last
    return np.where(incarnation < 0, NONE, whole)


class Numbering(dict[Any, int]):
    """Numbers pairs of a name and a key in the order of their first appearance; equal keys get one number."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[str, tuple[Any, ...]], int] = {}

    def __missing__(self, raw: tuple[str, tuple[Any, ...]]) -> int:
        number = self.known.setdefault((raw[0], key_identity(raw[1])), len(self.known))
        self[raw] = number
        return number


def process_numbers(events: Sequence[Any], processes: dict[str, int]) -> Ints:
    """Return the number of each event's process."""
    return fill(map(processes.__getitem__, map(attrgetter("process"), events)), len(events))


def times_of(events: Sequence[Any], errors: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Return each event's time, and the error of its clock."""
    return fill(map(attrgetter("time"), events), len(events)), errors[numbers]


@dataclass(slots=True, kw_only=True)
class Writes:
    """All test-and-sets, as they were called."""

    calls: list[ev.TestAndSetCalled]
    record: Ints  # number of the (view, view key)
    names: list[tuple[str, tuple[Any, ...]]]
    numbering: Numbering
    expected: Ints
    new: Ints
    seen: Ints
    outcome: Ints
    called: Ints
    returned: Ints


def fill(values: Iterable[int], count: int) -> Ints:
    """Make a column."""
    return np.fromiter(values, dtype=np.int64, count=count)


def operations(events: Sequence[Any], numbers: Ints) -> Ints:
    """Return what joins a call with its return: process and operation in one integer."""
    told = fill(map(attrgetter("operation"), events), len(events))
    if (told < 0).any() or (told >= 1 << 40).any():
        raise NotForBulkError
    return numbers << 40 | told


def joined(mine: Ints, theirs: Ints) -> Ints:
    """Return for each call the place of its return, or -1."""
    order = np.argsort(theirs, kind="stable")
    if not len(order):
        return np.full(len(mine), NONE, dtype=np.int64)
    place = np.minimum(np.searchsorted(theirs[order], mine), len(order) - 1)
    return np.where(theirs[order][place] == mine, order[place], NONE)


@dataclass(slots=True, kw_only=True)
class Pairs:
    """Calls with what came of them; times are widened by the clock errors."""

    called: Ints
    returned: Ints
    outcome: Ints
    place: Ints  # of the return, among the returns; -1: none


def pairs_of(calls: Sequence[Any], returns: Sequence[Any], processes: dict[str, int], errors: Ints) -> Pairs:
    """Join calls and returns; a call nobody heard of again is unknown."""
    mine, theirs = process_numbers(calls, processes), process_numbers(returns, processes)
    place = joined(operations(calls, mine), operations(returns, theirs))
    if np.count_nonzero(place >= 0) != len(returns) or len(np.unique(place[place >= 0])) != len(returns):
        raise NotForBulkError  # returns without calls, or twins: the validator has the words
    words = map(_OUTCOMES.__getitem__, map(attrgetter("outcome"), returns))
    kind = np.append(fill(words, len(returns)), UNKNOWN)[place]
    called, error = times_of(calls, errors, mine)
    back, widened = times_of(returns, errors, theirs)
    returned = np.append(back + widened, ENDLESS)[place]
    return Pairs(
        called=called - error,
        returned=np.where(kind == UNKNOWN, ENDLESS, returned),
        outcome=kind,
        place=place,
    )


def writes_of(
    calls: list[ev.TestAndSetCalled],
    returns: list[ev.TestAndSetReturned],
    processes: dict[str, int],
    errors: Ints,
) -> Writes:
    """Make the columns of the test-and-sets."""
    count = len(calls)
    pairs = pairs_of(calls, returns, processes, errors)
    seen = np.append(packed(map(attrgetter("returned"), returns), len(returns)), NONE)[pairs.place]
    numbering = Numbering()
    record = fill(map(numbering.__getitem__, map(attrgetter("view", "view_key"), calls)), count)
    return Writes(
        calls=calls,
        record=record,
        names=list(numbering.known),
        numbering=numbering,
        expected=packed(map(attrgetter("expected"), calls), count),
        new=packed(map(attrgetter("new"), calls), count),
        seen=seen,
        outcome=pairs.outcome,
        called=pairs.called,
        returned=pairs.returned,
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
    untouched = packed([UNTOUCHED], 1)[0]
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
