"""Each rule of the epoch protocol, off: the named violation is found; on: none."""

from pathlib import Path

import pytest

from cvs.simulate.hazards import NAMES
from cvs.suite.hazard_table import ELSEWHERE, HAZARDS, Hazard, hazard_markdown, run, violations

ROOT = Path(__file__).parents[3]
FOUND_WITHIN = 60
NONE_IN = 5


@pytest.mark.slow
@pytest.mark.parametrize("found", HAZARDS, ids=lambda hazard: hazard.rule)
def test_a_rule_turned_off_shows_its_violation(found: Hazard) -> None:
    assert any(found.violation in violations(run(found, s, off=True), found) for s in range(FOUND_WITHIN))


@pytest.mark.slow
@pytest.mark.parametrize("found", HAZARDS, ids=lambda hazard: hazard.rule)
def test_with_all_rules_on_nothing_is_violated(found: Hazard) -> None:
    for seed in range(NONE_IN):
        assert not violations(run(found, seed, off=False), found)


def test_every_hazard_has_a_switch_or_a_place_where_it_is_tested() -> None:
    assert sorted(h.rule for h in HAZARDS) == sorted(NAMES)
    switched = {name for h in HAZARDS for name in h.closes.split(", ")} - {"all", "PROTOCOL 3"}
    elsewhere = {name for e in ELSEWHERE for name in e.hazard.split(", ")}
    assert {f"H{number}" for number in range(1, 31)} == switched | elsewhere
    assert not switched & elsewhere
    for it in ELSEWHERE:
        assert all((ROOT / path).exists() for path in it.where), it


def test_the_readme_holds_the_switches_as_they_are() -> None:
    readme = (ROOT / "cvs" / "suite" / "README.md").read_text()
    assert hazard_markdown() in readme, "paste cvs.suite.hazard_table.hazard_markdown()"
