"""The core of the epoch protocol holds for any number of epochs, drivers and late requests, and z3 can say no."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

import inductive


def test_every_step_keeps_the_invariant_and_some_state_satisfies_it() -> None:
    """No bound on anything; the assumptions are not empty."""
    assert inductive.broken() == []
    assert not inductive.vacuous()


@pytest.mark.parametrize(
    ("rule", "step"),
    [
        ("exact condition", "apply"),
        ("permanent signature", "collect"),
        ("commit known", "commit"),
        ("stop when newer", "compute"),
    ],
)
def test_without_a_rule_one_step_breaks_it(rule: str, step: str) -> None:
    """Each rule is needed by the step it belongs to."""
    assert inductive.broken(rule) == [step]
