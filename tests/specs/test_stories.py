"""What TLC finds in the spec, the real programs do in the simulator, and the judge says the same of it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cvs.checker.classify import judge
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.replay import replay
from cvs.embedded.artifacts import jars
from cvs.model.levels import Level
from cvs.suite.classes import view_class
from cvs.suite.judged import judged
from cvs.suite.single import replayed_story

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import manifest, programs, stories, values

RUNNER = Path(__file__).resolve().parents[2] / "specs" / "run.py"
QUESTIONS = {c.name: c for c in manifest.configurations()}


def told(name, seed=None):
    asked = QUESTIONS[name]
    return stories.story(asked, stories.behaviour(jars("tlc")[0], asked, seed=seed))


def levels(story):
    """Bring a story to its end and judge it: the worst view record, the whole view."""
    shape = view_class(programs.real(story.program).view)
    story.world.finish()
    judgement = judged(story.world, shape)
    if story.program == "sum":  # the judge of histories says the same
        found = judge(replay(story.world.events), lambda _: DefinitionMeaning(shape.definition))
        verdicts = {(it.property, it.verdict.value) for each in found.judged for it in each.findings}
        assert (("converged", "violated") in verdicts) == (judgement.record is Level.NOT_CONVERGED)
    return judgement.record, judgement.view


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("CounterOnlyInvalid", Level.NOT_CONVERGED),
        ("NoFlowControl", Level.NOT_CONVERGED),
        ("ForgottenSignature", Level.NOT_CONVERGED),
        ("SumWithoutCount", Level.CONVERGED),
        ("MinPaperNotConverged", Level.NOT_CONVERGED),
        ("MinPaperNotStrong", Level.WEAK),
        ("JoinReadNotStrong", Level.WEAK),
        ("JoinReadTwoManagers", Level.NOT_CONVERGED),
        ("JoinReadLateRequest", Level.NOT_CONVERGED),
    ],
)
def test_a_counter_example_happens_to_the_real_program_and_the_judge_sees_it(name, record):
    """The same states are shown, record by record, and the judge finds the violation the spec names."""
    story = told(f"PerEntry_{name}")
    assert stories.agrees(story), (story.shown, stories.simulated_shown(story))
    assert levels(story)[0] is record


@pytest.mark.slow
def test_a_late_request_at_a_forgotten_signature_is_refused_by_its_mark():
    """Without the mark, versions that start at 1 again are met; the program's signature names the entry."""
    story = told("PerEntry_ForgottenSignatureNoMark")
    shown = stories.simulated_shown(story)
    differing = {key for key, states in story.shown.items() if shown[key] != states}
    assert differing
    assert all(shown[key] == story.shown[key][:-1] for key in differing), (
        "it is the last request that is refused"
    )


@pytest.mark.slow
def test_a_counter_example_becomes_a_story_file_that_replays(tmp_path):
    """`run.py story --story FILE`, then `cvs replay FILE`: the level written down is the level it has."""
    file = tmp_path / "lost.story"
    line = [sys.executable, str(RUNNER), "story", "PerEntry_NoFlowControl"]
    done = subprocess.run([*line, "--story", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "without flow control" in file.read_text()
    kept, _lines = replayed_story(file.read_text(), str(file))
    assert kept
    lied = file.read_text().replace("expect record not_converged", "expect record strong")
    assert not replayed_story(lied, str(file))[0]


@pytest.fixture(scope="module")
def random_ones():
    """One random behaviour of each program, with the rules off that its mildest line of the level table has off."""
    lines = sorted(
        (asked for asked in QUESTIONS.values() if asked.levels), key=lambda it: -len(it.constants["Off"])
    )
    names = {asked.constants["Program"]: asked.name for asked in lines}.values()
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(names, pool.map(lambda name: told(name, 3), names), strict=True))


@pytest.mark.slow
def test_random_behaviours_of_every_program_are_those_of_the_real_one(random_ones):
    """Faults of zombies and all: the same states, record by record; the judge finds nothing below the line's level."""
    moved, differing = set(), {}
    for name, story in random_ones.items():
        shown = stories.simulated_shown(story)
        if not stories.agrees(story):
            differing[name] = (story.shown, shown)
        moved.update(story.program for states in story.shown.values() if len(states) > 1)
        worst = QUESTIONS[name].levels.get("zombies", ["not_converged"] * 2)
        assert all(found.reaches(Level(least)) for found, least in zip(levels(story), worst, strict=True)), (
            name
        )
    assert not differing
    assert moved == set(programs.REAL) == {story.program for story in random_ones.values()}, (
        "nothing ever changed"
    )


@pytest.mark.slow
def test_a_story_of_another_program_is_told_apart():
    """A spec that showed something else than the simulator is noticed."""
    story = told("PerEntry_Level_sum_signature", 1)
    key, states = next((k, s) for k, s in story.shown.items() if len(s) > 1)
    story.shown[key] = states[:-1]
    assert not stories.agrees(story)


def test_printed_values_are_read_back():
    """Records, functions, sequences, sets, strings, numbers and truth values."""
    text = '[a |-> <<1, "x">>, b |-> {2, -3}, c |-> (1 :> TRUE @@ 2 :> [d |-> {}])]'
    assert values.parsed(text) == {
        "a": (1, "x"),
        "b": frozenset({2, -3}),
        "c": {1: True, 2: {"d": frozenset()}},
    }
