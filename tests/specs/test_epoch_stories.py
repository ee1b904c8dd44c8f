"""What TLC finds in the epoch protocol, the real drivers do in the simulator, request by request; the judge agrees."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cvs.embedded.artifacts import jars
from cvs.model.levels import Level
from cvs.suite.view_story import replayed_view_story, with_levels

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import epoch_stories, manifest

RUNNER = Path(__file__).resolve().parents[2] / "specs" / "run.py"
QUESTIONS = {c.name: c for c in manifest.configurations()}
RANDOM = replace(
    QUESTIONS["Epoch_FourEntriesLate"], constants={**QUESTIONS["Epoch_FourEntriesLate"].constants, "Lates": 6}
)
OFF = [
    name
    for name, asked in QUESTIONS.items()
    if asked.module == "Epoch"
    and asked.constants["Off"]
    and set(asked.constants["Off"]) <= set(epoch_stories.RULES)
]
SEEN_LATER = {"Epoch_H1WallClock"}
"""DELTA is wrong, and no change follows that would show it in a view: the feed of the spec is too short for that."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def counter_examples() -> dict[str, Any]:
    jar = jars("tlc")[0]
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = pool.map(lambda name: epoch_stories.counter_example(jar, QUESTIONS[name]), OFF)
        return dict(zip(OFF, found, strict=True))


@pytest.fixture(scope="module")
def random_ones() -> list[Any]:
    return epoch_stories.random_ones(jars("tlc")[0], RANDOM, seed=7, number=30)


def levels(story: Any) -> list[Level]:
    return [level for pair in story.expected.values() for level in pair]


def test_random_behaviours_of_the_protocol_are_those_of_the_real_drivers(random_ones: list[Any]) -> None:
    """Control row, DELTA, every bucket and every published row are the same after each action; the judge is content."""
    actions = set()
    for states in random_ones:
        told = epoch_stories.story(RANDOM, states)
        assert not told.difference
        assert len(told.actions) == len(states) - 1
        assert all(level.reaches(Level.STRONG) for level in levels(epoch_stories.view_story(told)))
        actions.update(told.actions)
    every = {
        "PinNext",
        "Begin",
        "Image",
        "Put",
        "Bucket",
        "SetBucket",
        "Publish",
        "Commit",
        "Resolve",
        "Arrive",
        "Stop",
    }
    assert actions == every, f"never seen: {every - actions}"


@pytest.mark.parametrize("name", OFF)
def test_a_counter_example_happens_to_drivers_without_the_rule_and_to_no_others(
    name: str, counter_examples: dict[str, Any]
) -> None:
    """Rule off: the same states to the last, and the judge sees it. The same schedule with the rule on: strong."""
    told = epoch_stories.story(QUESTIONS[name], counter_examples[name])
    assert not told.difference
    story = epoch_stories.view_story(told)
    assert (Level.NOT_CONVERGED in levels(story)) == (name not in SEEN_LATER)
    assert story.without
    assert all(level.reaches(Level.STRONG) for level in levels(with_levels(replace(story, without=()))))


def test_every_rule_of_the_spec_is_off_in_some_story_or_has_a_reason() -> None:
    """`combine` is the one that has a reason (`epoch_stories.RULES`), `replays checked` is part of it."""
    off = {rule for asked in QUESTIONS.values() if asked.module == "Epoch" for rule in asked.constants["Off"]}
    assert off - set(epoch_stories.RULES) == {"combine"}
    assert {epoch_stories.RULES[rule] for name in OFF for rule in QUESTIONS[name].constants["Off"]} == set(
        epoch_stories.RULES.values()
    )


def test_a_driver_that_does_something_else_is_told_apart(random_ones: list[Any]) -> None:
    """A spec state that is not the simulator's, and drivers without a rule the spec has."""
    states = random_ones[0]
    at = next(n for n, state in enumerate(states) if state["delta"]["r1"]["epoch"])
    wrong = {**states[at], "delta": {**states[at]["delta"], "r1": {"now": "b", "epoch": 9, "before": "a"}}}
    told = epoch_stories.story(RANDOM, [*states[:at], wrong, *states[at + 1 :]])
    assert f"after {at} actions" in told.difference
    assert "delta" in told.difference
    other = replace(RANDOM, constants={**RANDOM.constants, "Off": ["before image"]})
    assert epoch_stories.story(other, states).difference


def test_a_counter_example_becomes_a_story_file_that_replays(tmp_path: Path) -> None:
    """`run.py story Epoch_.. --story FILE`, then `cvs replay FILE`: the levels written down are the levels it has."""
    file = tmp_path / "assumed.story"
    line = [sys.executable, str(RUNNER), "story", "Epoch_NoBeforeImage", "--story", str(file)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "without rule images-before" in file.read_text()
    assert replayed_view_story(file.read_text(), str(file))[0]
    lied = file.read_text().replace("not_converged", "strong")
    assert not replayed_view_story(lied, str(file))[0]
