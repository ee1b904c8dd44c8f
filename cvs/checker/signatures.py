"""Linearizability of one view record's test-and-sets and reads, in linear time along its signatures.

Signatures are unique and never forgotten, so the order of the writes is written in them: each applied
test-and-set is an edge from the signature it expected to the one it left (checker plan 5.3;
Gibbons and Korach 1997 for registers whose writes-to order is known). What is left is to compare that order
with time.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from cvs.checker.replay import UNTOUCHED, Attempt, Scalars, ViewRecord
from cvs.checker.verdict import Verdict, Witness
from cvs.model.outcome import OutcomeKind

_ROOT = "start"


@dataclass(slots=True, kw_only=True)
class ChainCheck:
    """The order of the writes that took effect, and everything that contradicts it."""

    order: list[Attempt]
    verdict: Verdict = Verdict.HOLDS
    problems: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    ambiguous: bool = False  # two unknown writes leave one signature: either may be the one that was seen

    def violated(self, why: str, *events: int) -> None:
        """Add a contradiction."""
        self.verdict = Verdict.VIOLATED
        self.problems.append((why, events))

    @property
    def witness(self) -> Witness | None:
        """Return the first contradiction as evidence."""
        if not self.problems:
            order = tuple(a.event for a in self.order)
            return Witness(kind="order", events=order) if self.verdict is Verdict.HOLDS else None
        why, events = self.problems[0]
        return Witness(kind="order", events=events, facts={"why": why})


@dataclass(slots=True)
class _Item:
    position: int
    rank: int  # the write first, then what saw its signature
    called: int
    returned: int
    event: int


def check_record(record: ViewRecord) -> ChainCheck:
    """Check one view record."""
    left = {a.new for a in record.attempts if a.outcome is OutcomeKind.APPLIED}
    observed = _observed(record, left) - left  # what an applied one left needs no unknown one to explain it
    successors: dict[Scalars | None, list[Attempt]] = defaultdict(list)
    for attempt in record.attempts:
        applied = attempt.outcome is OutcomeKind.APPLIED
        if applied or (attempt.outcome is OutcomeKind.UNKNOWN and attempt.new in observed):
            successors[attempt.expected].append(attempt)
    check = ChainCheck(order=[])
    positions = _walk(record, successors, check)
    _reads_of_nothing(record, positions, check)
    if check.verdict is Verdict.HOLDS:
        _compare_with_time(record, positions, check)
    return check


def _observed(record: ViewRecord, left: set[Scalars]) -> set[Scalars | None]:
    seen: set[Scalars | None] = {a.seen for a in record.attempts if a.seen is not None}
    seen |= {a.expected for a in record.attempts if a.outcome is OutcomeKind.APPLIED}
    seen |= {r.signature for r in record.reads if r.signature is not None}
    grows = True
    while grows:  # an unknown write known to have happened had seen what it expected
        before = len(seen)
        seen |= {
            a.expected for a in record.attempts if a.outcome is OutcomeKind.UNKNOWN and a.new in seen - left
        }
        grows = len(seen) > before
    return seen


def starts_of(record: ViewRecord) -> list[Scalars | None]:
    """Return the signatures a record can have before any write."""
    if record.known:
        return [record.initial_signature]
    return [None, UNTOUCHED]


def loose_ends(record: ViewRecord, check: ChainCheck) -> list[Attempt]:
    """Return the unknown writes that could have followed the last state of a record, one after another."""
    reached = {check.order[-1].new} if check.order else set(starts_of(record))
    taken = set(map(id, check.order))
    left = [a for a in record.attempts if a.outcome is OutcomeKind.UNKNOWN and id(a) not in taken]
    found: list[Attempt] = []
    while following := [a for a in left if a.expected in reached]:
        found += following
        reached |= {a.new for a in following}
        left = [a for a in left if a not in following]
    return found


def _walk(
    record: ViewRecord, successors: dict[Scalars | None, list[Attempt]], check: ChainCheck
) -> dict[Scalars | None, int]:
    """Follow the edges from the start; report forks, recurring signatures and writes without a parent."""
    start = next((s for s in starts_of(record) if s in successors), starts_of(record)[0])
    positions: dict[Scalars | None, int] = dict.fromkeys(starts_of(record), 0)
    at, placed = start, 0
    while at in successors:
        options = successors.pop(at)
        placed += len(options)
        first = min(options, key=lambda a: (a.outcome is not OutcomeKind.APPLIED, a.returned, a.event))
        others = [a for a in options if a is not first]
        if any(o.new != first.new or o.outcome is first.outcome is OutcomeKind.APPLIED for o in others):
            events = tuple(sorted(a.event for a in options))
            check.violated("two test-and-sets applied on one signature: one of them is lost", *events)
        if any((o.row, o.absorbed) != (first.row, first.absorbed) for o in others if o.new == first.new):
            check.ambiguous = check.ambiguous or first.outcome is OutcomeKind.UNKNOWN
        check.order.append(first)
        if first.new in positions:
            check.violated("a signature was left twice", first.event)
            break
        positions[first.new] = len(check.order)
        at = first.new
    for attempts in successors.values():
        for attempt in attempts:
            why = "a test-and-set applied on a signature that nobody left"
            check.violated(why, attempt.event)
    rest = [a for attempts in successors.values() for a in attempts]
    if rest:
        check.order = sorted([*check.order, *rest], key=lambda a: (a.new, a.returned))
    return positions


def _reads_of_nothing(record: ViewRecord, positions: dict[Scalars | None, int], check: ChainCheck) -> None:
    if check.verdict is not Verdict.HOLDS:
        return
    for attempt in record.attempts:
        if attempt.outcome is OutcomeKind.REJECTED and attempt.seen is not None:
            if attempt.seen == attempt.expected:
                check.violated("refused by the very signature it expected", attempt.event)
            elif attempt.seen not in positions:
                check.violated("refused by a signature that nobody left", attempt.event)
    for read in record.reads:
        if read.signature is not None and read.signature not in positions:
            check.violated("read a signature that nobody left", read.event)


def _compare_with_time(record: ViewRecord, positions: dict[Scalars | None, int], check: ChainCheck) -> None:
    """Walk the order with the latest call so far: who returned before it was placed too late."""
    items = [_Item(i, 0, a.called, a.returned, a.event) for i, a in enumerate(check.order, 1)]
    for attempt in record.attempts:
        if attempt.outcome is OutcomeKind.REJECTED and attempt.seen is not None:
            at = positions[attempt.seen]
            items.append(_Item(at, 1, attempt.called, attempt.returned, attempt.event))
    items.extend(
        _Item(positions[read.signature], 1, read.called, read.returned, read.event)
        for read in record.reads
        if read.signature is not None
    )
    items.sort(key=lambda item: (item.position, item.rank, item.called))
    latest, which = -(1 << 63), -1
    for item in items:
        if item.returned < latest:
            check.violated(
                "returned before something was called that its signature comes after", which, item.event
            )
            return
        if item.called > latest:
            latest, which = item.called, item.event
    _place_blind_refusals(record, positions, items, check)


def _place_blind_refusals(
    record: ViewRecord, positions: dict[Scalars | None, int], items: list[_Item], check: ChainCheck
) -> None:
    """Give each refusal that did not say what it saw the smallest place where it could have been refused.

    Smallest is best: a later place can only push others later. An unknown write nobody saw could make a place
    of its own; where only that could help, the answer is undecided.
    """
    blind = [a for a in record.attempts if a.outcome is OutcomeKind.REJECTED and a.seen is None]
    if not blind:
        return
    unseen = [a for a in record.attempts if a.outcome is OutcomeKind.UNKNOWN and a.new not in positions]
    placed: list[tuple[int, int]] = []
    for attempt in sorted(blind, key=lambda a: a.called):
        ended = [i.position for i in items if i.returned < attempt.called]
        low = max([0, *ended, *(p for p, returned in placed if returned < attempt.called)])
        high = min(
            (i.position - (i.rank == 0) for i in items if i.called > attempt.returned),
            default=len(check.order),
        )
        avoided = positions.get(attempt.expected, -1)
        place = next((p for p in range(low, high + 1) if p != avoided), None)
        if place is not None:
            placed.append((place, attempt.returned))
        elif unseen:
            check.verdict = Verdict.UNDECIDED
            return
        else:
            check.violated("refused although its signature was there all the while", attempt.event)
            return
