"""Reads of a view record whose test-and-sets are known: was the row there, in an order that time allows?

The order of the writes is written in their signatures; a read that tells its signature has its place in it. One that
tells only the row may have several: it is given the smallest that time leaves, in the order of the calls, because a
later place can only push others later. Rows that a write of unknown outcome may have left are undecided.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate

from cvs.checker.meaning import frozen_row
from cvs.checker.replay import Attempt, Read, Scalars, ViewRecord
from cvs.checker.signatures import ChainCheck, starts_of
from cvs.checker.snapshots import Epoch, shown_at, signed_states
from cvs.checker.subject import State
from cvs.checker.verdict import Verdict
from cvs.model.outcome import OutcomeKind

Problem = tuple[str, tuple[int, ...]]


@dataclass(slots=True)
class Reads:
    """What is wrong with the reads of one record, and whether an unknown write could explain what seems so."""

    problems: list[Problem] = field(default_factory=list)
    unsure: bool = False


def check_reads(
    record: ViewRecord,
    whole: Iterable[Read],
    states: Sequence[State],
    check: ChainCheck,
    committed: Mapping[int | None, Epoch],
) -> Reads:
    """Check the reads of a record, and its row in plain reads of the `whole` view: each row has its own moment."""
    found = Reads()
    if check.verdict is Verdict.VIOLATED or not (record.attempts or record.known):
        return found
    positions = {a.new: at for at, a in enumerate(check.order, 1)} | dict.fromkeys(starts_of(record), 0)
    taken = set(map(id, check.order))
    maybe = [a for a in record.attempts if a.outcome is OutcomeKind.UNKNOWN and id(a) not in taken]
    plain = [read for read in whole if not read.snapshot]
    for read in record.reads:
        value = frozen_row(read.rows.get(record.key))
        if read.snapshot:
            epoch = committed.get(read.epoch)
            if epoch is not None and value != shown_at(signed_states(check.order, states), epoch):
                found.problems.append((f"read a row that epoch {read.epoch} does not have", (read.event,)))
        elif read.signature is None:
            plain.append(read)
        elif value != states[positions[read.signature]].value:
            if any(a.new == read.signature and frozen_row(a.row) == value for a in maybe):
                found.unsure = True
            else:
                found.problems.append(("read a row that is not its signature's", (read.event,)))
    if plain:
        _place(record, plain, states=states, positions=positions, maybe=maybe, found=found)
    return found


def _place(
    record: ViewRecord,
    plain: list[Read],
    *,
    states: Sequence[State],
    positions: Mapping[Scalars | None, int],
    maybe: Sequence[Attempt],
    found: Reads,
) -> None:
    seen = [(r.called, r.returned, positions[r.signature]) for r in record.reads if r.signature is not None]
    seen += [
        (a.called, a.returned, positions[a.seen])
        for a in record.attempts
        if a.outcome is OutcomeKind.REJECTED and a.seen is not None
    ]
    window = _Window(states, seen)
    where: dict[Hashable, list[int]] = {}
    for position, state in enumerate(states):
        where.setdefault(state.value, []).append(position)
    blind = [a for a in record.attempts if a.outcome is OutcomeKind.REJECTED and a.seen is None]
    pool: list[Read | Attempt] = [*plain, *blind]
    for one in sorted(pool, key=lambda one: (one.called, one.event)):
        low, high = window.of(one)
        if isinstance(one, Attempt):
            place = low + (low == positions.get(one.expected, -1))
            why, left = "refused although its signature was there all the while", bool(maybe)
        else:
            value = frozen_row(one.rows.get(record.key))
            options = where.get(value, [])
            at = bisect_left(options, low)
            place = options[at] if at < len(options) else high + 1
            why = "read a row that was not there then"
            left = any(frozen_row(a.row) == value and a.called <= one.returned for a in maybe)
        if place <= high:
            window.took(one, place)
        elif left:
            found.unsure = True
        else:
            found.problems.append((why, (one.event,)))


class _Window:
    """The places that time leaves to a read: after all that returned before it, before all that was called later."""

    def __init__(self, states: Sequence[State], seen: Sequence[tuple[int, int, int]]) -> None:
        self.called, self.returned = [s.called for s in states], [s.returned for s in states]
        by_return = sorted((returned, position) for _, returned, position in seen)
        by_call = sorted((called, position) for called, _, position in seen)
        self.ended = [returned for returned, _ in by_return]
        self.least = list(accumulate((position for _, position in by_return), max))
        self.began = [called for called, _ in by_call]
        self.most = list(accumulate((position for _, position in reversed(by_call)), min))[::-1]
        self.placed: list[tuple[int, int]] = []  # returned, position: of reads not yet behind all others
        self.floor = 0

    def of(self, read: Read | Attempt) -> tuple[int, int]:
        """Return the first and the last place."""
        while self.placed and self.placed[0][0] < read.called:
            self.floor = max(self.floor, heappop(self.placed)[1])
        low, high = bisect_left(self.returned, read.called) - 1, bisect_right(self.called, read.returned) - 1
        if before := bisect_left(self.ended, read.called):
            low = max(low, self.least[before - 1])
        after = bisect_right(self.began, read.returned)
        if after < len(self.most):
            high = min(high, self.most[after])
        return max(low, self.floor), high

    def took(self, read: Read | Attempt, position: int) -> None:
        """Remember a place."""
        heappush(self.placed, (read.returned, position))
