"""The value tier: which base states can explain what a view showed (checker plan 5.1, 5.2).

A problem is a product of time-lines, what each view record would show of a cut, and the states they did
show. Nothing here knows where either came from. Every answer is exact or `Exhausted`.

How an explanation is found: some view record does not show what it should (`Shown`); in every explanation above
this cut one of the few base records that touch *it* is newer, so only those are advanced, and as far at once as
what it can show at all demands (`forms.py`). A cut that cannot be mended is dropped with all above it.

Why keeping minimal cuts is enough: whatever a larger cut can still reach, a smaller one can reach too, and
the top of the lattice is above both. So a chain search may forget every explanation that lies above another
one (dominance), and a failed cut proves that all cuts above it fail at the same step.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from cvs.checker.forms import Forms
from cvs.checker.problem import PLENTY, Problem, Shown, below, mirrored
from cvs.checker.verdict import Budget, Cut, Verdict, Witness

PATIENCE = 8
"""Cuts looked at for one explanation before a view record's whole table of values is worth its cost."""


@dataclass(slots=True)
class _Walk:
    """Looks for the cuts at or above a start, and not above a ceiling, that show a state."""

    problem: Problem
    position: int
    ceiling: Cut
    budget: Budget
    tried: int = 0

    def cuts(
        self, start: Cut, suspects: Iterable[int] | None = None, *, nearest: bool = True
    ) -> Iterator[Cut]:
        """Yield the minimal ones, nearest first (or, not `nearest`, only the first that is met).

        `suspects` are the view records that may not show what they should; the others do.
        """
        every = range(len(self.problem.parts)) if suspects is None else suspects
        queue: list[tuple[int, Cut, tuple[int, ...], bool]] = [(0, start, tuple(every), False)]
        seen, found = {start}, list[Cut]()
        while queue:
            _, cut, wrong, raised = heappop(queue)
            self.tried += 1
            self.budget.spend(1 + len(found) + len(cut) // 16)
            if any(below(f, cut) for f in found):
                continue
            if not raised:
                higher = self._raised(cut, wrong)
                if higher is None:
                    continue
                before, (cut, wrong) = cut, higher
                if cut != before:
                    if cut in seen:
                        continue
                    seen.add(cut)
                    if nearest:  # its turn comes after what is lower
                        heappush(queue, (sum(cut), cut, wrong, True))
                        continue
            if not wrong:
                found.append(cut)
                yield cut
                if not nearest:
                    return
                continue
            for place in self._branch(cut, wrong):
                child = (*cut[:place], cut[place] + 1, *cut[place + 1 :])
                self.budget.spend(1 + len(cut) // 16)
                if child not in seen:
                    seen.add(child)
                    again = tuple(dict.fromkeys((*wrong, *self.problem.touched[place])))
                    distance = sum(child) if nearest else -len(seen)
                    heappush(queue, (distance, child, again, False))

    def _raised(self, cut: Cut, suspects: tuple[int, ...]) -> tuple[Cut, tuple[int, ...]] | None:
        """Raise a cut as far as every explanation above it must be; return it with what is still wrong."""
        problem, at = self.problem, list(cut)
        hard = self.tried > PATIENCE
        waiting, wrong = dict.fromkeys(suspects), set[int]()
        while waiting:
            number, _ = waiting.popitem()
            part = problem.parts[number]
            local, value = tuple([at[p] for p in part.places]), part.values[self.position]
            wrong.discard(number)
            if part.at(local, self.budget) == value:
                continue
            tops = tuple([self.ceiling[p] for p in part.places])
            higher = part.raised(local, tops, value, self.budget, hard=hard)
            if higher is None or not below(higher, tops):
                return None
            wrong.add(number)
            for place, low, high in zip(part.places, local, higher, strict=True):
                if low != high:
                    at[place] = high
                    waiting |= dict.fromkeys(problem.touched[place])
        return tuple(at), tuple(sorted(wrong))

    def _branch(self, cut: Cut, wrong: tuple[int, ...]) -> list[int]:
        """Return the records one of which is newer in every explanation: those of the least free wrong part."""
        free = (
            [place for place in self.problem.parts[number].places if cut[place] < self.ceiling[place]]
            for number in wrong
        )
        return min(free, key=len)


def explanation(
    problem: Problem, position: int, budget: Budget, ceiling: Cut | None = None, floor: Cut | None = None
) -> Cut | None:
    """Return some base state that shows a state, if there is one (not below a floor, not above a ceiling)."""
    walk = _Walk(problem, position, ceiling or problem.tops, budget)
    return next(walk.cuts(floor or problem.bottom, nearest=False), None)


def converged(problem: Problem, _budget: Budget) -> tuple[Verdict, Witness]:
    """Compare the last state with the view of the last base state."""
    last = len(problem.states) - 1
    verdict = Verdict.HOLDS if problem.explains(problem.tops, last, PLENTY) else Verdict.VIOLATED
    facts = {"shown": problem.states[-1], "expected": problem.meaning(problem.tops)}
    return verdict, Witness(kind="final", positions=(last,), facts=facts)


def weak(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find a base state for every view state, or name the first state that has none."""
    found: dict[int, Cut] = {}
    firsts = problem.first_of_each()
    for position, first in firsts.items():
        if position == first:
            cut = explanation(problem, position, budget)
            if cut is None:
                return Verdict.VIOLATED, Witness(kind="state", positions=(position,))
            found[position] = cut
    return Verdict.HOLDS, Witness(kind="cuts", cuts=tuple(found[first] for first in firsts.values()))


def no_future(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find for every state a base state made only of versions that had been called by then."""
    ceilings = problem.ceilings or (problem.tops,) * len(problem.states)
    cuts: list[Cut] = []
    for position, ceiling in enumerate(ceilings):
        if position and not problem.changed[position] and below(cuts[-1], ceiling):
            cuts.append(cuts[-1])
            continue
        cut = explanation(problem, position, budget, ceiling)
        if cut is None:
            return Verdict.VIOLATED, Witness(kind="state", positions=(position,))
        cuts.append(cut)
    return Verdict.HOLDS, Witness(kind="cuts", cuts=tuple(cuts))


def chain(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find one monotone sequence of base states that explains all view states (strong, chain reading).

    Depth first, nearest explanation first. `failed[i]` holds cuts from which state i and what follows it
    cannot be explained; anything above one of them is not tried.
    """
    failed: list[list[Cut]] = [[] for _ in problem.states]
    walks = [_Walk(problem, 0, problem.tops, budget).cuts(problem.bottom)]
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
        following = position + 1
        if following == len(problem.states):
            return Verdict.HOLDS, Witness(kind="chain", cuts=(*taken, cut))
        budget.spend(1 + len(failed[following]))
        if any(below(bad, cut) for bad in failed[following]):
            continue
        taken.append(cut)
        walk = _Walk(problem, following, problem.tops, budget)
        walks.append(walk.cuts(cut, problem.changed[following]))
    return Verdict.VIOLATED, Witness(kind="prefix", positions=(deepest + 1,))


def pairwise(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find for each pair of states two ordered base states (strong, as paper 001 words it).

    A pair has two exactly if a minimal explanation of the first lies below a maximal one of the second.
    """
    firsts = problem.first_of_each()
    mirror = problem.upside_down()
    lowest, highest = dict[int, list[Cut]](), dict[int, list[Cut]]()
    for first in dict.fromkeys(firsts.values()):
        lowest[first] = list(_Walk(problem, first, problem.tops, budget).cuts(problem.bottom))
        high = _Walk(mirror, first, problem.tops, budget).cuts(problem.bottom)
        highest[first] = [mirrored(cut, problem.tops) for cut in high]
    pairs: list[Cut] = []
    places: list[int] = []
    asked: set[tuple[int, int]] = set()
    seen: dict[int, int] = {}
    for position, state in firsts.items():
        seen.setdefault(state, position)
        for earlier, place in seen.items():
            if (earlier, state) in asked:
                continue
            asked.add((earlier, state))
            lows, highs = lowest[earlier], highest[state]
            budget.spend(1 + len(lows) * len(highs))
            pair = next(((low, high) for low in lows for high in highs if below(low, high)), None)
            if pair is None:
                return Verdict.VIOLATED, Witness(kind="pair", positions=(place, position))
            pairs.extend(pair)
            places += (place, position)
    return Verdict.HOLDS, Witness(kind="pairs", cuts=tuple(pairs), positions=tuple(places))


def complete(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Find a serialization of all base updates of which the view showed every visible state, in order."""
    where = [i for i, changed in enumerate(problem.changed) if not i or changed]
    if not problem.explains(problem.bottom, 0, budget):
        return Verdict.VIOLATED, Witness(kind="prefix", positions=(0,))
    witness = next(filter(None, (_incomplete(part, settled=problem.settled) for part in problem.parts)), None)
    if witness is not None:
        return Verdict.VIOLATED, witness
    start = (0, problem.bottom)
    visited = {start}
    every = range(len(problem.tops))
    stack: list[tuple[tuple[int, Cut], Iterator[int]]] = [(start, iter(every))]
    deepest = 0
    while stack:
        (position, at), options = stack[-1]
        if position + 1 == len(where) and (at == problem.tops or not problem.settled):
            return Verdict.HOLDS, Witness(kind="path", cuts=tuple(node[1] for node, _ in stack))
        place = next(options, None)
        if place is None:
            stack.pop()
            continue
        node = _advanced(problem, where, (position, at), place, budget)
        if node is not None and node not in visited:
            visited.add(node)
            deepest = max(deepest, node[0])
            stack.append((node, iter(every)))
    return Verdict.VIOLATED, Witness(kind="prefix", positions=(where[min(deepest + 1, len(where) - 1)],))


def _incomplete(part: Shown, *, settled: bool) -> Witness | None:
    """Tell without a search, of a fold, that no order of the base updates shows what one view record showed."""
    forms, shown = part.forms, part.values
    moves = [i for i in range(1, len(shown)) if shown[i] != shown[i - 1]]
    if not isinstance(forms, Forms) or forms.fold.filtered or not moves:
        return None  # a group that was never shown may be left out for what it is
    changes = forms.changes() if settled else 0
    if len(moves) < changes:
        return Witness(kind="count", facts={"shown": len(moves), "changes": changes})
    if shown[0] is None and not forms.alone(shown[moves[0]]):
        return Witness(kind="prefix", positions=(moves[0],))
    return None


def _advanced(
    problem: Problem, where: list[int], node: tuple[int, Cut], place: int, budget: Budget
) -> tuple[int, Cut] | None:
    """Advance one record by one version, if that shows the same state still, or the next."""
    position, cut = node
    if cut[place] == problem.tops[place]:
        return None
    touched = problem.touched[place]
    child = (*cut[:place], cut[place] + 1, *cut[place + 1 :])
    budget.spend(1 + len(cut) // 16)
    if all(problem.shows(child, number, where[position], budget) for number in touched):
        return position, child
    if position + 1 < len(where):
        following = where[position + 1]
        if set(problem.changed[following]) <= set(touched) and all(
            problem.shows(child, number, following, budget) for number in touched
        ):
            return position + 1, child
    return None


def complete_recorded(problem: Problem, budget: Budget) -> tuple[Verdict, Witness]:
    """Compare with the one serialization that was recorded: a linear replay."""
    if problem.order is None:
        return Verdict.UNDECIDED, Witness(kind="path")
    where = [i for i, changed in enumerate(problem.changed) if not i or changed]
    cut, path, position = problem.bottom, [problem.bottom], 0
    if not problem.explains(cut, 0, budget):
        return Verdict.VIOLATED, Witness(kind="prefix", positions=(0,))
    for index in problem.order:
        onward = _advanced(problem, where, (position, cut), index, budget)
        if onward is None:
            break
        position, cut = onward
        path.append(cut)
    whole = len(path) == len(problem.order) + 1
    if position + 1 == len(where) and (whole or not problem.settled):
        return Verdict.HOLDS, Witness(kind="path", cuts=tuple(path))
    return Verdict.VIOLATED, Witness(kind="prefix", positions=(where[min(position + 1, len(where) - 1)],))
