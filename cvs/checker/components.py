"""A problem taken apart: base records that share no view record, near or far, cannot constrain each other.

Base records and the view records they touch fall into components. A cut is a product of cuts of the components
and is ordered componentwise, so *weak* and *strong* (chain) hold of the whole exactly if they hold of each
(checker plan 5.2). *Complete* needs one common order and does not come apart.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from cvs.checker.problem import Problem, below
from cvs.checker.verdict import Budget, Cut, Exhausted, Verdict, Witness

Decider = Callable[[Problem, Budget], tuple[Verdict, Witness]]


@dataclass(slots=True)
class Component:
    """Places of base records, and the numbers of the parts that hang on them."""

    places: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


def components_of(problem: Problem) -> list[Component]:
    """Return the components; a part that hangs on no record is one by itself."""
    leader = list(range(len(problem.tops)))

    def find(at: int) -> int:
        while leader[at] != at:
            leader[at] = at = leader[leader[at]]
        return at

    for part in problem.parts:
        for other in part.places[1:]:
            leader[find(other)] = find(part.places[0])
    found: dict[int, Component] = {}
    for number, part in enumerate(problem.parts):
        root = find(part.places[0]) if part.places else -1 - number
        found.setdefault(root, Component()).numbers.append(number)
    for place in range(len(leader)):
        if find(place) in found:
            found[find(place)].places.append(place)
    return list(found.values())


def by_component(decide: Decider) -> Decider:
    """Return what decides weak or strong of the whole by deciding it of each component.

    One component that fails is enough; one on which the budget is used up is passed over until then.
    """

    def decided(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
        parts = components_of(problem)
        if len(parts) < 2:
            return decide(problem, budget)
        cuts = [list(problem.bottom) for _ in problem.states]
        exhausted = False
        for number, part in enumerate(parts):
            own = problem.among(part.places, part.numbers)
            firsts = [next(each)[0] for _, each in groupby(enumerate(own.states), key=lambda item: item[1])]
            share = budget.share(len(parts) - number)
            try:
                verdict, witness = decide(own.at(firsts), share)
            except Exhausted:
                exhausted = True
                continue
            finally:
                budget.left -= share.spent
            if verdict is not Verdict.HOLDS:
                where = tuple(firsts[position] for position in witness.positions)
                return verdict, Witness(kind=witness.kind, positions=where)
            _spread(witness.cuts, firsts, part.places, cuts)
        if exhausted:
            raise Exhausted
        whole = tuple(map(tuple, cuts))
        rising = all(below(a, b) for a, b in pairwise(whole))
        return Verdict.HOLDS, Witness(kind="chain" if rising else "cuts", cuts=whole)

    return decided


def _spread(own: tuple[Cut, ...], firsts: list[int], places: list[int], cuts: list[list[int]]) -> None:
    """Write the cuts of a component's states into those of the whole."""
    for cut, start, end in zip(own, firsts, [*firsts[1:], len(cuts)], strict=True):
        for whole in cuts[start:end]:
            for place, version in zip(places, cut, strict=True):
                whole[place] = version
