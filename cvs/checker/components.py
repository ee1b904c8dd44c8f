"""A whole view taken apart: base records that share no view record, near or far, cannot constrain each other.

Of a linear view, base records and the view records they touch fall into components. A cut is a product of cuts
of the components and is ordered componentwise, so *weak* and *strong* (chain) hold of the whole exactly if they
hold of each (checker plan 5.2). *Complete* needs one common order and does not come apart.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from cvs.checker.cuts import Problem
from cvs.checker.evaluation import WholeView
from cvs.checker.replay import Key
from cvs.checker.subject import Index, Lattice
from cvs.checker.verdict import Budget, Cut, Verdict, Witness

Decider = Callable[[Problem, Budget], tuple[Verdict, Witness]]


@dataclass(frozen=True, slots=True)
class Component:
    """Places of base records in the lattice, and the view records they touch."""

    places: tuple[int, ...]
    keys: frozenset[Key]


def components_of(lattice: Lattice, index: Index) -> list[Component]:
    """Return the components of a linear view."""
    place = {record: i for i, record in enumerate(lattice.records)}
    leader = list(range(len(place)))

    def find(at: int) -> int:
        while leader[at] != at:
            leader[at] = at = leader[leader[at]]
        return at

    touching = {key: [place[r] for r in records if r in place] for key, records in index.touching.items()}
    for places in touching.values():
        for other in places[1:]:
            leader[find(other)] = find(places[0])
    members: dict[int, list[int]] = {}
    keys: dict[int, set[Key]] = {}
    for at in range(len(place)):
        members.setdefault(find(at), []).append(at)
    for key, places in touching.items():
        if places:
            keys.setdefault(find(places[0]), set()).add(key)
    return [Component(tuple(each), frozenset(keys.get(root, ()))) for root, each in members.items()]


def by_component(decide: Decider, lattice: Lattice, index: Index) -> Decider:
    """Return what decides weak or strong of the whole by deciding it of each component."""
    parts = components_of(lattice, index)
    if len(parts) < 2:
        return decide

    def decided(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
        known = frozenset().union(*(part.keys for part in parts))
        still = {k: v for k, v in index.meaning.view({}).items() if k not in known}
        shown = [dict(state) for state in problem.states]  # type: ignore[call-overload]
        for position, state in enumerate(shown):
            if {k: v for k, v in state.items() if k not in known} != still:
                return Verdict.VIOLATED, Witness(kind="state", positions=(position,))
        cuts = [list(problem.bottom) for _ in shown]
        for part in parts:
            states = [frozenset((k, state[k]) for k in part.keys if k in state) for state in shown]
            verdict, witness = decide(_problem_of(part, states, lattice, index), budget)
            if verdict is not Verdict.HOLDS:
                return verdict, witness
            for whole, own in zip(cuts, witness.cuts, strict=True):
                for place, version in zip(part.places, own, strict=True):
                    whole[place] = version
        kind = "chain" if all(map(_below, cuts, cuts[1:])) else "cuts"
        return Verdict.HOLDS, Witness(kind=kind, cuts=tuple(map(tuple, cuts)))

    return decided


def _below(lower: list[int], upper: list[int]) -> bool:
    return all(a <= b for a, b in zip(lower, upper, strict=True))


def _problem_of(part: Component, states: Sequence[Hashable], lattice: Lattice, index: Index) -> Problem:
    """Cut a whole view's problem down to one component."""
    records = [lattice.records[place] for place in part.places]
    rows = [lattice.rows[place] for place in part.places]
    view = WholeView(index.meaning, records, rows, index.touching)

    def meaning(cut: Cut) -> Hashable:
        found = view.value(cut)
        assert isinstance(found, frozenset)
        return frozenset(item for item in found if item[0] in part.keys)

    return Problem(
        tops=tuple(len(lattice.numbers[place]) - 1 for place in part.places),
        meaning=meaning,
        states=tuple(states),
    )
