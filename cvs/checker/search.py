"""General linearizability of one register: for histories without signatures (checker plan 5.2, 5.3).

Just-in-time linearization (Lowe 2017, after Wing and Gong 1993): walk the calls and returns in time; keep
every configuration, that is the register's value, which of the pending operations have taken effect, and how
many of each class of crashed ones. An operation is made to take effect at its return at the latest. Three
rules keep the configurations few: what does not change the value takes effect as soon as it may; crashed
operations that do the same are counted, not told apart (symmetry); of two configurations that differ only in
the crashed operations spent, the thriftier one can do all the other can (dominance).
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from cvs.checker.replay import ENDLESS
from cvs.checker.verdict import Budget, Exhausted, Verdict

READ, WRITE, SWAP, DIFFERS, APPEND = range(5)
"""Of a register: read a · write a · swap a for b · saw something other than a (a refusal) · append a."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one register; `returned` is ENDLESS if nobody heard of it again."""

    kind: int
    a: Hashable
    b: Hashable
    called: int
    returned: int
    event: int = -1


@dataclass(slots=True, kw_only=True)
class Searched:
    """The answer: a legal order of events, or the return at which none was left and the furthest order."""

    verdict: Verdict
    order: tuple[int, ...] = ()
    event: int | None = None
    steps: int = 0
    reason: str = ""


Link = tuple[int, "Link"] | None
Counts = tuple[int, ...]
Spot = tuple[Hashable, int]


BEAMS = (8, 64, 512, 4_096, 1 << 60)
"""How many configurations one pass keeps. A narrow pass that gets through has found an order; one that does
not proves nothing unless it never had to drop any, so the next one is wider."""


def linearizable(operations: Iterable[Operation], initial: Hashable, *, budget: int = 1_000_000) -> Searched:
    """Search for an order of the operations that time and the register allow."""
    moments = _moments(operations)
    spent = 0
    for beam in BEAMS:
        walk = _Walk(initial, Budget(budget - spent), beam)
        found = _pass(walk, moments, budget)
        spent = budget - walk.budget.left
        if found.verdict is not Verdict.VIOLATED or not walk.dropped:
            break
    return found


def _moments(operations: Iterable[Operation]) -> list[tuple[int, int, int, Operation]]:
    """Return calls and returns in the order of time; intervals are closed, so at one instant calls come
    first.
    """
    moments: list[tuple[int, int, int, Operation]] = []
    for number, operation in enumerate(operations):
        if operation.returned >= ENDLESS and operation.kind in (READ, DIFFERS):
            continue  # because a read nobody got says nothing
        moments.append((operation.called, 0, number, operation))
        if operation.returned < ENDLESS:
            moments.append((operation.returned, 1, number, operation))
    moments.sort(key=lambda m: m[:3])
    return moments


def _pass(walk: "_Walk", moments: list[tuple[int, int, int, Operation]], budget: int) -> Searched:
    """Walk once through time with the configurations that the beam leaves."""
    try:
        for _, returns, number, operation in moments:
            if not returns:
                walk.call(number, operation)
            elif not walk.finish(number):
                order = _unlink(walk.furthest)
                return Searched(
                    verdict=Verdict.VIOLATED,
                    order=order,
                    event=operation.event,
                    steps=budget - walk.budget.left,
                )
    except Exhausted:
        return Searched(
            verdict=Verdict.UNDECIDED, steps=budget, reason=f"the budget of {budget:,} steps is used up"
        )
    link = next(iter(walk.configurations.values()))[0][1]
    return Searched(verdict=Verdict.HOLDS, order=_unlink(link), steps=budget - walk.budget.left)


def _unlink(link: Link) -> tuple[int, ...]:
    order: list[int] = []
    while link is not None:
        order.append(link[0])
        link = link[1]
    return tuple(reversed(order))


@dataclass(slots=True)
class _Walk:
    initial: Hashable
    budget: Budget
    beam: int
    dropped: bool = False
    configurations: dict[Spot, list[tuple[Counts, Link]]] = field(default_factory=dict)
    bits: dict[int, int] = field(default_factory=dict)  # number -> bit of a pending operation
    free: list[int] = field(default_factory=list)
    reads: dict[Hashable, int] = field(default_factory=dict)  # value -> bits of pending reads of it
    differs: dict[int, Operation] = field(default_factory=dict)
    movers: dict[int, Operation] = field(default_factory=dict)
    pending: dict[int, Operation] = field(default_factory=dict)
    classes: dict[tuple[int, Hashable, Hashable], int] = field(default_factory=dict)
    crashed: list[tuple[Operation, int]] = field(default_factory=list)
    swaps: dict[Hashable, list[int]] = field(default_factory=dict)  # crashed ones, by the value they need
    always: list[int] = field(default_factory=list)  # crashed ones that need no value
    furthest: Link = None
    depth: int = -1

    def __post_init__(self) -> None:
        self.configurations[self.initial, 0] = [((), None)]

    def call(self, number: int, operation: Operation) -> None:
        """Take note of a call; what changes nothing takes effect wherever it may."""
        if operation.returned >= ENDLESS:
            name = (operation.kind, operation.a, operation.b)
            place = self.classes.setdefault(name, len(self.crashed))
            if place == len(self.crashed):
                self.crashed.append((operation, 0))
                (self.swaps.setdefault(operation.a, []) if operation.kind == SWAP else self.always).append(
                    place
                )
            self.crashed[place] = (operation, self.crashed[place][1] + 1)
            return
        bit = self.free.pop() if self.free else 1 << len(self.bits)
        self.bits[number] = bit
        self.pending[bit] = operation
        if operation.kind == READ:
            self.reads[operation.a] = self.reads.get(operation.a, 0) | bit
        elif operation.kind == DIFFERS:
            self.differs[bit] = operation
        else:
            self.movers[bit] = operation
            return
        before, self.configurations = self.configurations, {}
        for (value, mask), variants in before.items():
            self.budget.spend(len(variants))
            fits = value == operation.a if operation.kind == READ else value != operation.a
            for counts, link in variants:
                if fits:
                    self._add(self.configurations, (value, mask | bit), counts, (operation.event, link))
                else:
                    self._add(self.configurations, (value, mask), counts, link)

    def finish(self, number: int) -> bool:
        """Make the operation take effect in every configuration; say whether any is left."""
        bit = self.bits.pop(number)
        after: dict[Spot, list[tuple[Counts, Link]]] = {}
        seen: dict[Spot, list[tuple[Counts, Link]]] = {}
        waiting: dict[int, list[tuple[Spot, Counts, Link]]] = {}
        for spot, variants in self.configurations.items():
            for counts, link in variants:
                waiting.setdefault(sum(counts), []).append((spot, counts, link))
        spend, made = self.budget.spend, 0
        while waiting:
            cost = min(waiting)
            stack = waiting[cost]
            if not stack or made >= self.beam:
                self.dropped = self.dropped or bool(stack)
                del waiting[cost]
                continue
            (value, mask), counts, link = stack.pop()
            spend()
            if mask & bit:
                made += self._add(after, (value, mask & ~bit), counts, link)
                continue
            if not self._add(seen, (value, mask), counts, link):
                continue
            for other, mover in self.movers.items():
                if not mask & other:
                    moved = _moved(mover, value)
                    if moved is not None:
                        stack.append(self._settle(moved[0], mask | other, counts, (mover.event, link)))
            for place in (*self.swaps.get(value, ()), *self.always):
                mover, available = self.crashed[place]
                used = counts[place] if place < len(counts) else 0
                moved = _moved(mover, value)
                if used < available and moved is not None and moved[0] != value:
                    padded = (*counts, *(0,) * (place + 1 - len(counts)))
                    spent = (*padded[:place], used + 1, *padded[place + 1 :])
                    settled = self._settle(moved[0], mask, spent, (mover.event, link))
                    waiting.setdefault(cost + 1, []).append(settled)
        operation = self.pending.pop(bit)
        self.movers.pop(bit, None)
        self.differs.pop(bit, None)
        if operation.kind == READ:
            self.reads[operation.a] &= ~bit
        self.free.append(bit)
        if after:
            self.configurations = after
            self.furthest = next(iter(after.values()))[0][1]
        return bool(after)

    def _settle(self, value: Hashable, mask: int, counts: Counts, link: Link) -> tuple[Spot, Counts, Link]:
        """Let every pending operation that changes nothing take effect where it may."""
        fresh = self.reads.get(value, 0) & ~mask
        for bit, operation in self.differs.items():
            if not mask & bit and value != operation.a:
                fresh |= bit
        rest = fresh
        while rest:
            bit = rest & -rest
            link = (self.pending[bit].event, link)
            rest ^= bit
        return (value, mask | fresh), counts, link

    def _add(
        self, into: dict[Spot, list[tuple[Counts, Link]]], spot: Spot, counts: Counts, link: Link
    ) -> bool:
        """Keep a configuration unless a thriftier one is there; drop those it makes needless."""
        variants = into.get(spot)
        if variants is None:
            into[spot] = [(counts, link)]
            return True
        if any(_thriftier(known, counts) for known, _ in variants):
            return False
        variants[:] = [v for v in variants if not _thriftier(counts, v[0])]
        variants.append((counts, link))
        return True


def _moved(operation: Operation, value: Hashable) -> tuple[Hashable] | None:
    """Return the value after an operation, or None where it cannot take effect."""
    kind = operation.kind
    if kind == WRITE:
        return (operation.a,)
    if kind == SWAP:
        return (operation.b,) if value == operation.a else None
    if kind == APPEND:
        return (f"{value}{operation.a}",)
    return None


def _thriftier(one: Counts, other: Counts) -> bool:
    return (not one) or (all(a <= b for a, b in zip(one, other, strict=False)) and not any(one[len(other) :]))
