"""Calls joined with their returns, by (process, operation), over columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cvs.errors import HistoryError
from cvs.history.fields import UNKNOWN
from cvs.history.packing import NONE, Integers, NotColumnarError, Part

ENDLESS = 1 << 62
"""When an operation returned that nobody heard of again."""

_SPARSE_MOST, _SPARSE_LEAST = 16, 1 << 20  # how many numbers of operations may be unused


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Calls with what came of them, one position a call; times are widened by the clocks' errors."""

    owner: Integers  # number of the base record, or of the view record
    called: Integers
    returned: Integers  # ENDLESS if unknown
    outcome: Integers  # position in OUTCOMES
    number: Integers  # of the event of the call, from 1
    answered: Integers  # ... of the return, or ENDLESS
    own: Part  # what only this kind has


def joined(
    calls: Part, answers: Part, errors: Integers, order: Integers | None, own: tuple[str, ...]
) -> Operations:
    """Find the return of each call by (process, operation)."""
    place = _answer_of(calls, answers)
    outcome = np.append(answers["outcome"], UNKNOWN)[place]
    widened = answers["time"] + errors[answers["process"]]
    number, answered = calls["number"], np.append(answers["number"], 0)[place]
    if order is not None:
        number, answered = order[number], order[answered]
    if (answered[place >= 0] < number[place >= 0]).any():
        raise HistoryError.one_of_many("returns before their calls")
    part = {name: calls[name] for name in own}
    if "seen" in answers:
        part["seen"] = np.append(answers["seen"], NONE)[place]
    return Operations(
        owner=calls["owner"],
        called=calls["time"] - errors[calls["process"]],
        returned=np.where(outcome == UNKNOWN, ENDLESS, np.append(widened, ENDLESS)[place]),
        outcome=outcome,
        number=number,
        answered=np.where(place < 0, ENDLESS, answered),
        own=part,
    )


def _answer_of(calls: Part, answers: Part) -> Integers:
    """Return the place of each call's return, or NONE: by a table with a place for every operation there may be."""
    mine, theirs = _operations(calls, answers)
    kind: Any = np.int32 if max(len(mine), len(theirs)) < 1 << 31 else np.int64
    every, answered = np.arange(len(mine), dtype=kind), np.arange(len(theirs), dtype=kind)
    table: Any = np.full(int(max(mine.max(initial=0), theirs.max(initial=0))) + 1, NONE, dtype=kind)
    place: Integers = np.full(len(mine), NONE, dtype=kind)
    table[mine] = every
    called = table[theirs]
    good = bool((table[mine] == every).all() and (called >= 0).all())
    if good:
        place[called] = answered
    if not good or (place[called] != answered).any():
        raise NotColumnarError("returns without calls, or operations that stand there twice")
    return place


def _operations(calls: Part, answers: Part) -> tuple[Integers, Integers]:
    """Return numbers from 0 for the pairs of process and operation, few of them unused."""
    process = np.concatenate((calls["process"], answers["process"]))
    operation = np.concatenate((calls["operation"], answers["operation"]))
    if (np.abs(operation) >= ENDLESS >> 1).any():
        raise NotColumnarError("operations have numbers that are too large")
    many = int(process.max(initial=0)) + 1
    low, high = np.full(many, ENDLESS), np.full(many, -ENDLESS)
    np.minimum.at(low, process, operation)
    np.maximum.at(high, process, operation)
    sizes = np.where(low <= high, high - low + 1, 0)
    if sizes.sum(dtype=np.float64) > _SPARSE_MOST * len(operation) + _SPARSE_LEAST:
        known, rank = np.unique(operation, return_inverse=True)
        _, whole = np.unique(process * len(known) + rank, return_inverse=True)
    else:
        whole = (np.cumsum(sizes) - sizes - low)[process] + operation
    return whole[: len(calls["process"])], whole[len(calls["process"]) :]
