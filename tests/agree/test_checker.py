"""The search against brute force, and every witness against the independent verifier."""

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from cvs.checker import brute, cuts
from cvs.checker.problem import Problem
from cvs.checker.verdict import Budget, Exhausted, Verdict
from cvs.checker.verify import verify
from tests.agree.problems import Toy, toy

DECIDERS = {
    "converged": (cuts.converged, brute.converged),
    "weak": (cuts.weak, brute.weak),
    "strong-pairwise": (cuts.pairwise, brute.pairwise),
    "strong": (cuts.chain, brute.chain),
    "complete": (cuts.complete, brute.complete),
}


def agree(seed: int, number: int) -> Counter[str]:
    chance = random.Random(seed)
    count: Counter[str] = Counter()
    for _ in range(number):
        case = toy(chance)
        truth = {}
        for name, (decide, slow) in DECIDERS.items():
            if name == "complete" and sum(case.tops) > 6:
                continue
            problem = Problem(tops=case.tops, meaning=case.meaning, states=case.states)
            verdict, witness = decide(problem, Budget(1_000_000))
            truth[name] = slow(case.tops, case.meaning, case.states)
            assert (verdict is Verdict.HOLDS) == truth[name], (name, case)
            rechecked = verify(
                f"{name} {verdict.value}", witness, tops=case.tops, meaning=case.meaning, states=case.states
            )
            assert rechecked is True, (name, case, verdict, witness)
            count[f"{name} {verdict.value}"] += 1
        assert not truth["strong"] or truth["strong-pairwise"], case
        assert not truth["strong-pairwise"] or truth["weak"], case
        if truth.get("complete"):
            assert truth["strong"], case
    return count


def test_search_and_brute_force_agree(told: Callable[[str], None]) -> None:
    count = agree(seed=1, number=600)
    assert min(count.values()) > 20, count
    told(f"agreed on {sum(count.values()):,} verdicts, 0 disagreements")


@pytest.mark.slow
def test_search_and_brute_force_agree_on_many(told: Callable[[str], None]) -> None:
    count = agree(
        seed=int(os.environ.get("CVS_SEED", "2")), number=int(os.environ.get("CVS_EXAMPLES", "21000"))
    )
    assert sum(count.values()) > 4 * int(os.environ.get("CVS_EXAMPLES", "21000"))
    told(f"agreed on {sum(count.values()):,} verdicts, 0 disagreements")


@pytest.mark.parametrize(
    ("images", "states"),
    [(((0, 1, 0),), (1, 0, 1)), (((0, 1, 10), (0, 100, 10, 1000)), (1, 10, 1001))],
)
def test_pairwise_is_weaker_than_chain(images: tuple[tuple[int, ...], ...], states: tuple[int, ...]) -> None:
    """Both examples of checker plan 5.1: every pair is explicable, no one chain explains all."""
    case = Toy(images, "sum", states)
    problem = Problem(tops=case.tops, meaning=case.meaning, states=states)
    assert cuts.pairwise(problem, Budget(10_000))[0] is Verdict.HOLDS
    assert cuts.chain(problem, Budget(10_000))[0] is Verdict.VIOLATED


def test_a_budget_that_is_used_up_is_not_a_verdict() -> None:
    problem = Problem(tops=(9,) * 6, meaning=sum, states=(0, 55, 54))
    with pytest.raises(Exhausted):
        cuts.chain(problem, Budget(1_000))
