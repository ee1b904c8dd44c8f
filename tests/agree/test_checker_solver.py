"""A solver as second opinion: the levels of small runs as formulas over orders, which share nothing with the search.

A time-line at a state is a chain of booleans, "version v or later"; what a state shows is a sum, a least value or a
table over them. z3 says whether the formula can be true. (Why only here: `cvs/checker/README.md`.)
"""

import itertools
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import z3

from cvs.checker import cuts
from cvs.checker.problem import Problem
from cvs.checker.verdict import Budget, Verdict
from tests.agree.problems import Toy, toy


class Formula:
    """What must be true of the base states that explain the states of a run."""

    def __init__(self, case: Toy) -> None:
        self.case, self.solver = case, z3.Solver()

    def cut(self, name: str) -> list[list[Any]]:
        """Return a base state: of each record, whether it is at each version."""
        at = []
        for record, images in enumerate(self.case.images):
            later = [z3.Bool(f"{name} {record} {version}") for version in range(1, len(images))]
            self.solver.add(*(z3.Implies(b, a) for a, b in itertools.pairwise(later)))
            known = [z3.BoolVal(True), *later, z3.BoolVal(False)]
            at.append([z3.And(a, z3.Not(b)) for a, b in itertools.pairwise(known)])
        return at

    def shows(self, cut: list[list[Any]], state: Any) -> Any:
        """Say that a base state shows this."""
        images, kind = self.case.images, self.case.kind
        if kind in ("sum", "count"):
            weights = [[v if kind == "sum" else int(v > 0) for v in each] for each in images]
            terms = (
                z3.If(b, w, 0)
                for each, own in zip(cut, weights, strict=True)
                for b, w in zip(each, own, strict=True)
            )
            return z3.Sum(*terms, z3.IntVal(0)) == state
        holding: Callable[[int, Callable[[int], bool]], Any] = lambda record, fits: z3.Or(  # noqa: E731
            *(b for b, value in zip(cut[record], images[record], strict=True) if fits(value))
        )
        every = range(len(images))
        if kind == "keyed":
            if not isinstance(state, tuple):
                return z3.BoolVal(False)
            return z3.And(*(holding(r, lambda v, r=r: v == state[r]) for r in every))
        if kind == "min":
            none_less = z3.And(*(holding(r, lambda v: v == 0 or (state > 0 and v >= state)) for r in every))
            return (
                z3.And(none_less, z3.Or(*(holding(r, lambda v: v == state) for r in every)))
                if state
                else none_less
            )
        return z3.Or(
            *(
                z3.And(holding(0, lambda v, a=a: v == a), holding(-1, lambda v, b=b: v == b))
                for a in set(images[0])
                for b in set(images[-1])
                if a * b == state
            )
        )

    def not_later(self, one: list[list[Any]], other: list[list[Any]]) -> None:
        """Demand that a base state comes before another, or is the same."""
        for earlier, later in zip(one, other, strict=True):
            for version in range(len(earlier)):
                self.solver.add(
                    z3.Implies(
                        z3.Or(*later[:version], z3.BoolVal(False)),
                        z3.Or(*earlier[:version], z3.BoolVal(False)),
                    )
                )

    def true(self) -> bool:
        """Ask."""
        found = self.solver.check()
        assert found != z3.unknown
        return bool(found == z3.sat)


def explained(case: Toy, states: tuple[Any, ...]) -> bool:
    """Say whether rising base states explain these states."""
    formula = Formula(case)
    before = None
    for number, state in enumerate(states):
        cut = formula.cut(str(number))
        formula.solver.add(formula.shows(cut, state))
        if before is not None:
            formula.not_later(before, cut)
        before = cut
    return formula.true()


def weak(case: Toy) -> bool:
    """Each state by itself."""
    return all(explained(case, (state,)) for state in set(case.states))


def pairwise(case: Toy) -> bool:
    """Each pair by itself."""
    states = case.states
    pairs = {(states[i], states[j]) for j in range(len(states)) for i in range(j)}
    return weak(case) and all(explained(case, pair) for pair in pairs)


def chain(case: Toy) -> bool:
    """All of them."""
    return explained(case, case.states)


def complete(case: Toy) -> bool:
    """A path of single updates shows the states, each in its turn, none left out."""
    shown = [s for i, s in enumerate(case.states) if not i or s != case.states[i - 1]]
    formula, length = Formula(case), sum(case.tops)
    turns = [z3.Int(f"turn {step}") for step in range(length + 1)]
    before = None
    for step, turn in enumerate(turns):
        cut = formula.cut(f"step {step}")
        done = z3.Sum(z3.IntVal(0), *(z3.If(b, v, 0) for each in cut for v, b in enumerate(each)))
        formula.solver.add(done == step)
        formula.solver.add(
            z3.Or(*(z3.And(turn == n, formula.shows(cut, state)) for n, state in enumerate(shown)))
        )
        if before is not None:
            formula.not_later(before, cut)
            formula.solver.add(turn >= turns[step - 1], turn <= turns[step - 1] + 1)
        before = cut
    formula.solver.add(turns[0] == 0, turns[-1] == len(shown) - 1)
    return formula.true()


OPINIONS: dict[str, tuple[Callable[[Toy], bool], Any]] = {
    "weak": (weak, cuts.weak),
    "strong-pairwise": (pairwise, cuts.pairwise),
    "strong": (chain, cuts.chain),
    "complete": (complete, cuts.complete),
}


def agree(seed: int, number: int) -> Counter[str]:
    chance, count = random.Random(seed), Counter[str]()
    for _ in range(number):
        case = toy(chance)
        for name, (opinion, search) in OPINIONS.items():
            problem = Problem(tops=case.tops, meaning=case.meaning, states=case.states)
            found, _ = search(problem, Budget(1_000_000))
            assert found is not Verdict.UNDECIDED
            assert (found is Verdict.HOLDS) == opinion(case), (name, case)
            count[f"{name} {found.value}"] += 1
    return count


def test_the_solver_agrees_with_the_search(told: Callable[[str], None]) -> None:
    count = agree(seed=3, number=25)
    assert min(count.values()) > 2, count
    told(f"a solver agreed on {sum(count.values()):,} verdicts, 0 disagreements")


@pytest.mark.slow
def test_the_solver_agrees_with_the_search_on_many(told: Callable[[str], None]) -> None:
    count = agree(seed=4, number=int(os.environ.get("CVS_EXAMPLES", "600")))
    told(f"a solver agreed on {sum(count.values()):,} verdicts, 0 disagreements")
