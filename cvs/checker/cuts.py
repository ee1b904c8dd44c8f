"""The value tier: which base states can explain what a view showed (checker plan 5.1, 5.2).

A problem is a product of time-lines, a function from cuts to what the view would show, and the states it did
show. Nothing here knows where either came from. Every answer is exact or `Exhausted`.

Why keeping minimal cuts is enough: whatever a larger cut can still reach, a smaller one can reach too, and
the top of the lattice is above both. So a chain search may forget every explanation that lies above another
one (dominance), and a failed cut proves that all cuts above it fail at the same step.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from cvs.checker.verdict import Budget, Cut, Verdict, Witness


@dataclass(slots=True, kw_only=True)
class Problem:
    """`tops`: last version of each record; `meaning`: cut -> shown value; `states`: what was shown, in
    order.
    """

    tops: Cut
    meaning: Callable[[Cut], Hashable]
    states: tuple[Hashable, ...]
    order: tuple[int, ...] | None = None  # the recorded commit order, as record indexes
    ceilings: tuple[Cut, ...] | None = None  # for no-future: versions called before state i was there
    settled: bool = True  # nothing follows the last state; else the end may still come
    _memo: dict[Cut, Hashable] = field(default_factory=dict)

    def value(self, cut: Cut, budget: Budget) -> Hashable:
        """Return what the view would show of a cut; each cut is computed once."""
        if cut not in self._memo:
            budget.spend()
            self._memo[cut] = self.meaning(cut)
        return self._memo[cut]

    @property
    def bottom(self) -> Cut:
        """Return the first base state."""
        return (0,) * len(self.tops)


def below(lower: Cut, upper: Cut) -> bool:
    """Say whether no record is newer in the first cut."""
    return all(a <= b for a, b in zip(lower, upper, strict=True))


def steps(cut: Cut, tops: Cut) -> Iterator[Cut]:
    """Advance one record by one version, in every possible way."""
    for index, top in enumerate(tops):
        if cut[index] < top:
            yield (*cut[:index], cut[index] + 1, *cut[index + 1 :])


def lattice(budget: Budget, *, start: Cut, ceiling: Cut) -> Iterator[Cut]:
    """Walk every cut between two, nearest first; each visit costs a step."""
    layer = {start}
    while layer:
        following: set[Cut] = set()
        for cut in sorted(layer):
            budget.spend()
            yield cut
            following.update(s for s in steps(cut, ceiling))
        layer = following


def converged(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Compare the last state with the view of the last base state."""
    expected = problem.value(problem.tops, budget)
    shown = problem.states[-1]
    verdict = Verdict.HOLDS if shown == expected else Verdict.VIOLATED
    facts = {"shown": shown, "expected": expected}
    return verdict, Witness(kind="final", positions=(len(problem.states) - 1,), facts=facts)


def weak(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find a base state for every view state, or name the first state that has none."""
    missing = set(problem.states)
    found: dict[Hashable, Cut] = {}
    for cut in lattice(budget, start=problem.bottom, ceiling=problem.tops):
        value = problem.value(cut, budget)
        if value in missing:
            found[value] = cut
            missing.discard(value)
            if not missing:
                break
    if missing:
        first = next(i for i, state in enumerate(problem.states) if state in missing)
        return Verdict.VIOLATED, Witness(kind="state", positions=(first,))
    return Verdict.HOLDS, Witness(kind="cuts", cuts=tuple(found[state] for state in problem.states))


def no_future(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find for every state a base state made only of versions that had been called by then."""
    ceilings = problem.ceilings or (problem.tops,) * len(problem.states)
    cuts: list[Cut] = []
    for position, (state, ceiling) in enumerate(zip(problem.states, ceilings, strict=True)):
        if position and state == problem.states[position - 1] and below(cuts[-1], ceiling):
            cuts.append(cuts[-1])
            continue
        walk = lattice(budget, start=problem.bottom, ceiling=ceiling)
        cut = next((c for c in walk if problem.value(c, budget) == state), None)
        if cut is None:
            return Verdict.VIOLATED, Witness(kind="state", positions=(position,))
        cuts.append(cut)
    return Verdict.HOLDS, Witness(kind="cuts", cuts=tuple(cuts))


def _next_minimal(problem: Problem, budget: Budget, start: Cut, target: Hashable) -> Iterator[Cut]:
    """Yield the minimal cuts at or above `start` that show `target`, nearest first."""
    found: list[Cut] = []
    layer = {start}
    while layer:
        following: set[Cut] = set()
        for cut in sorted(layer):
            budget.spend()
            if any(below(f, cut) for f in found):
                continue
            if problem.value(cut, budget) == target:
                found.append(cut)
                yield cut
            else:
                following.update(steps(cut, problem.tops))
        layer = following


def chain(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find one monotone sequence of base states that explains all view states (strong, chain reading).

    Depth first, nearest explanation first. `failed[i]` holds cuts from which state i and what follows it
    cannot be explained; anything above one of them is not tried.
    """
    states = problem.states
    failed: list[list[Cut]] = [[] for _ in states]
    walks = [_next_minimal(problem, budget, problem.bottom, states[0])]
    taken: list[Cut] = []
    deepest = -1
    while walks:
        position = len(walks) - 1
        cut = next(walks[-1], None)
        if cut is None:
            walks.pop()
            if taken:
                failed[position].append(taken.pop())
            continue
        deepest = max(deepest, position)
        if position + 1 == len(states):
            return Verdict.HOLDS, Witness(kind="chain", cuts=(*taken, cut))
        budget.spend(1 + len(failed[position + 1]))
        if any(below(bad, cut) for bad in failed[position + 1]):
            continue
        taken.append(cut)
        walks.append(_next_minimal(problem, budget, cut, states[position + 1]))
    return Verdict.VIOLATED, Witness(kind="prefix", positions=(deepest + 1,))


def pairwise(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find for each pair of states two ordered base states (strong, as paper 001 words it)."""
    wanted = set(problem.states)
    lowest: dict[Hashable, list[Cut]] = {}
    highest: dict[Hashable, list[Cut]] = {}
    for cut in lattice(budget, start=problem.bottom, ceiling=problem.tops):
        value = problem.value(cut, budget)
        if value not in wanted:
            continue
        minimal = lowest.setdefault(value, [])
        if not any(below(low, cut) for low in minimal):
            minimal.append(cut)
        maximal = highest.setdefault(value, [])
        budget.spend(len(maximal))
        maximal[:] = [high for high in maximal if not below(high, cut)]
        maximal.append(cut)
    first: dict[tuple[Hashable, Hashable], tuple[int, int]] = {}
    seen: dict[Hashable, int] = {}
    for position, state in enumerate(problem.states):
        seen.setdefault(state, position)
        for earlier, place in seen.items():
            first.setdefault((earlier, state), (place, position))
    pairs: list[Cut] = []
    for (one, other), positions in first.items():
        budget.spend()
        lows, highs = lowest.get(one, []), highest.get(other, [])
        pair = next(((low, high) for low in lows for high in highs if below(low, high)), None)
        if pair is None:
            return Verdict.VIOLATED, Witness(kind="pair", positions=positions)
        pairs.extend(pair)
    places = tuple(p for positions in first.values() for p in positions)
    return Verdict.HOLDS, Witness(kind="pairs", cuts=tuple(pairs), positions=places)


def without_stutter(states: tuple[Hashable, ...]) -> tuple[tuple[Hashable, ...], tuple[int, ...]]:
    """Drop repetitions; return the states left and where each first stood."""
    kept = [i for i, state in enumerate(states) if not i or state != states[i - 1]]
    return tuple(states[i] for i in kept), tuple(kept)


def complete(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find a serialization of all base updates of which the view showed every visible state, in order."""
    states, where = without_stutter(problem.states)
    if problem.value(problem.bottom, budget) != states[0]:
        return Verdict.VIOLATED, Witness(kind="prefix", positions=(0,))
    start = (0, problem.bottom)
    visited = {start}
    stack: list[tuple[tuple[int, Cut], Iterator[Cut]]] = [(start, steps(problem.bottom, problem.tops))]
    deepest = 0
    while stack:
        (position, at), options = stack[-1]
        if position + 1 == len(states) and (at == problem.tops or not problem.settled):
            return Verdict.HOLDS, Witness(kind="path", cuts=tuple(node[1] for node, _ in stack))
        cut = next(options, None)
        if cut is None:
            stack.pop()
            continue
        value = problem.value(cut, budget)
        budget.spend()
        if value != states[position]:
            if position + 1 == len(states) or value != states[position + 1]:
                continue
            position += 1
        node = (position, cut)
        if node not in visited:
            visited.add(node)
            deepest = max(deepest, position)
            stack.append((node, steps(cut, problem.tops)))
    return Verdict.VIOLATED, Witness(kind="prefix", positions=(where[min(deepest + 1, len(where) - 1)],))


def complete_recorded(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Compare with the one serialization that was recorded: a linear replay."""
    if problem.order is None:
        return Verdict.UNDECIDED, Witness(kind="path")
    states, where = without_stutter(problem.states)
    cut, path = problem.bottom, [problem.bottom]
    for index in problem.order:
        cut = (*cut[:index], cut[index] + 1, *cut[index + 1 :])
        path.append(cut)
    shown, _ = without_stutter(tuple(problem.value(c, budget) for c in path))
    if (shown if problem.settled else shown[: len(states)]) == states:
        return Verdict.HOLDS, Witness(kind="path", cuts=tuple(path))
    differs = next((i for i, (a, b) in enumerate(zip(shown, states, strict=False)) if a != b), None)
    position = min(len(shown), len(states)) if differs is None else differs
    return Verdict.VIOLATED, Witness(kind="prefix", positions=(where[min(position, len(where) - 1)],))
