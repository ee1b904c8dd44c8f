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
from cvs.checker.verdict import QUESTIONS, Budget, Exhausted, Verdict, used_up

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
    process: Hashable = None


@dataclass(slots=True, kw_only=True)
class Searched:
    """The answer: a legal order of events, or the return at which none was left and the furthest order."""

    verdict: Verdict
    order: tuple[int, ...] = ()
    event: int | None = None
    steps: int = 0
    reason: str = ""


Link = tuple[int, "Link"] | None
Spot = tuple[Hashable, int]
Variant = tuple[int, int, Link]
"""Crashed operations spent: how many of each class, packed; how many in all; and the order so far."""

_LANE = 32
"""Bits of one class in the packed counts; the highest of a lane is its guard, never set."""
_USED = (1 << (_LANE - 1)) - 1


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
        return Searched(verdict=Verdict.UNDECIDED, steps=budget, reason=used_up(budget, budget // QUESTIONS))
    link = next(iter(walk.configurations.values()))[0][2]
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
    configurations: dict[Spot, list[Variant]] = field(default_factory=dict)
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
    guards: int = 0  # one bit a class: what makes comparing all lanes one subtraction
    furthest: Link = None

    def __post_init__(self) -> None:
        self.configurations[self.initial, 0] = [(0, 0, None)]

    def call(self, number: int, operation: Operation) -> None:
        """Take note of a call; what changes nothing takes effect wherever it may."""
        if operation.returned >= ENDLESS:
            name = (operation.kind, operation.a, operation.b)
            place = self.classes.setdefault(name, len(self.crashed))
            if place == len(self.crashed):
                self.crashed.append((operation, 0))
                self.guards |= 1 << (_LANE * (place + 1) - 1)
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
            if (value == operation.a) is (operation.kind == READ):
                told: list[Variant] = [(c, cost, (operation.event, link)) for c, cost, link in variants]
                self.configurations[value, mask | bit] = told
            else:
                self.configurations[value, mask] = variants

    def finish(self, number: int) -> bool:
        """Make the operation take effect in every configuration; say whether any is left."""
        bit = self.bits.pop(number)
        after: dict[Spot, list[Variant]] = {}
        seen: dict[Spot, list[Variant]] = {}
        waiting: dict[int, list[tuple[Spot, Variant]]] = {}
        for spot, variants in self.configurations.items():
            for variant in variants:
                waiting.setdefault(variant[1], []).append((spot, variant))
        movers = tuple(self.movers.items())
        made, beam = 0, self.beam
        while waiting:
            cost = min(waiting)
            stack = waiting[cost]
            if not stack or made >= beam:
                self.dropped = self.dropped or bool(stack)
                del waiting[cost]
                continue
            (value, mask), variant = stack.pop()
            self.budget.spend()
            if mask & bit:
                made += self._add(after, (value, mask & ~bit), variant)
                continue
            if not self._add(seen, (value, mask), variant):
                continue
            counts, _, link = variant
            for other, mover in movers:
                if not mask & other:
                    moved = _moved(mover, value)
                    if moved is not None:
                        told = (counts, cost, (mover.event, link))
                        stack.append(self._settle(moved[0], mask | other, told))
            for place in (*self.swaps.get(value, ()), *self.always):
                mover, available = self.crashed[place]
                moved = _moved(mover, value)
                if counts >> _LANE * place & _USED < available and moved is not None and moved[0] != value:
                    told = (counts + (1 << _LANE * place), cost + 1, (mover.event, link))
                    waiting.setdefault(cost + 1, []).append(self._settle(moved[0], mask, told))
        self._forget(bit)
        if after:
            self.configurations = after
            self.furthest = next(iter(after.values()))[0][2]
        return bool(after)

    def _forget(self, bit: int) -> None:
        operation = self.pending.pop(bit)
        self.movers.pop(bit, None)
        self.differs.pop(bit, None)
        if operation.kind == READ:
            self.reads[operation.a] &= ~bit
        self.free.append(bit)

    def _settle(self, value: Hashable, mask: int, variant: Variant) -> tuple[Spot, Variant]:
        """Let every pending operation that changes nothing take effect where it may."""
        fresh = self.reads.get(value, 0) & ~mask
        for bit, operation in self.differs.items():
            if not mask & bit and value != operation.a:
                fresh |= bit
        if fresh:
            counts, cost, link = variant
            rest = fresh
            while rest:
                bit = rest & -rest
                link = (self.pending[bit].event, link)
                rest ^= bit
            variant = (counts, cost, link)
        return (value, mask | fresh), variant

    def _add(self, into: dict[Spot, list[Variant]], spot: Spot, variant: Variant) -> bool:
        """Keep a configuration unless a thriftier one is there; drop those it makes needless.

        One is thriftier if it spent no more of any class: no lane borrows from its guard.
        """
        variants = into.get(spot)
        if variants is None:
            into[spot] = [variant]
            return True
        guards, mine = self.guards, variant[0]
        guarded = mine | guards
        for known in variants:
            if (guarded - known[0]) & guards == guards:
                return False
        variants[:] = [v for v in variants if ((v[0] | guards) - mine) & guards != guards]
        variants.append(variant)
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
