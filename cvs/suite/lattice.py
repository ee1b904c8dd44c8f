"""All base states of a small world at once, each a bit of a number: a level is decided by a few shifts.

The judge proper (`checker.cuts`) searches base states one by one, which is right for recorded runs of any size. The
worlds of the suite have some hundred base states, and thousands of runs are asked of them: here a set of base states
is one whole number, bit i the cut with number i (mixed radix, one digit a base record), and "one version later in
record d" is a shift by the weight of its digit. `property_tests/test_lattice.py` holds both against each other.
"""

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations_with_replacement, pairwise
from typing import TypeVar

from cvs.checker.verdict import Cut
from cvs.model.levels import Level

CUTS_MAX = 20_000
"""Base states of a world that are looked at all; bigger worlds are searched."""

Shown = TypeVar("Shown", bound=Hashable)

CutSet = int
"""A set of cuts: bit i says whether cut i is in it."""


class Lattice:
    """The cuts of a world: every combination of versions of its base records."""

    __slots__ = ("_digits", "bottom", "top")

    def __init__(self, tops: Cut) -> None:
        size = 1
        weights = []
        for top in reversed(tops):
            weights.append(size)
            size *= top + 1
        self.bottom: CutSet = 1
        self.top: CutSet = 1 << (size - 1)
        self._digits = [
            (weight, top, _below_top(weight, top, size))
            for weight, top in zip(reversed(weights), tops, strict=True)
            if top
        ]

    def steps(self, cuts: CutSet) -> CutSet:
        """Return the cuts one version later in one record."""
        found = 0
        for weight, _, free in self._digits:
            found |= (cuts & free) << weight
        return found

    def above(self, cuts: CutSet) -> CutSet:
        """Return the cuts at or above one of them."""
        for weight, top, free in self._digits:
            for _ in range(top):
                cuts |= (cuts & free) << weight
        return cuts

    def walked(self, cuts: CutSet, within: CutSet) -> CutSet:
        """Return the cuts that are reached step by step without leaving a set."""
        while (further := cuts | (self.steps(cuts) & within)) != cuts:
            cuts = further
        return cuts


def _below_top(weight: int, top: int, size: int) -> CutSet:
    """Return the cuts whose digit of this weight is not the last: one block of zeros at the end of each turn."""
    turn = weight * (top + 1)
    block = (1 << (weight * top)) - 1
    found = 0
    for start in range(0, size, turn):
        found |= block << start
    return found


def level(lattice: Lattice, seen: Sequence[CutSet]) -> Level:
    """Return the level of states, each given as the cuts that show it; equal neighbours are one state."""
    if not seen[-1] & lattice.top:
        return Level.NOT_CONVERGED
    if _chain(lattice, seen):
        return Level.COMPLETE if _complete(lattice, seen) else Level.STRONG
    return Level.WEAK if all(seen) else Level.CONVERGED


def is_pairwise(lattice: Lattice, seen: Sequence[CutSet]) -> bool:
    """Say whether for every two states some cuts explain them in the same order."""
    above = {one: lattice.above(one) for one in seen}
    return all(above[earlier] & later for earlier, later in set(combinations_with_replacement(seen, 2)))


def _chain(lattice: Lattice, seen: Sequence[CutSet]) -> bool:
    reached = seen[0]
    for _, state in pairwise(seen):
        reached = lattice.above(reached) & state
    return bool(reached)


def _complete(lattice: Lattice, seen: Sequence[CutSet]) -> bool:
    reached = lattice.walked(lattice.bottom & seen[0], seen[0])
    for _, state in pairwise(seen):
        reached = lattice.walked(lattice.steps(reached) & state, state)
    return bool(reached & lattice.top)


def showing(views: Iterable[Shown]) -> dict[Shown, CutSet]:
    """Return for each thing that cuts show, in the order of their numbers, the set of those that show it."""
    found: dict[Shown, CutSet] = {}
    for number, view in enumerate(views):
        found[view] = found.get(view, 0) | 1 << number
    return found
