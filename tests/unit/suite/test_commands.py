import json
from random import Random

import pytest

from cvs.cli import run
from cvs.errors import ExitCode
from cvs.model.levels import Level
from cvs.report.hand import judge_events
from cvs.report.summary import summarize
from cvs.simulate.scheduler import Faults, simulated
from cvs.suite.classes import view_class
from cvs.suite.strategies import FaultSet, scenario


def answer(capsys, *arguments):
    code = run(list(arguments))
    return code, capsys.readouterr().out


def test_simulate_says_the_level_and_writes_story_and_history(capsys, tmp_path):
    story, history = tmp_path / "a.story", tmp_path / "a.ndjson"
    code, out = answer(
        capsys,
        "simulate",
        "--seed",
        "7",
        "--faults",
        "crashes",
        "--story",
        str(story),
        "--history",
        str(history),
    )
    assert code == ExitCode.MET
    assert "predicted complete" in out
    assert json.loads(history.read_text().splitlines()[-1])["event"] == "quiescent"
    assert answer(capsys, "replay", str(story))[0] == ExitCode.MET


def test_simulate_leaves_with_the_exit_code_of_a_violation(capsys):
    codes = {
        answer(
            capsys, "simulate", "--seed", str(seed), "--faults", "crashes", "--without", "signature-check"
        )[0]
        for seed in range(8)
    }
    assert codes == {ExitCode.MET, ExitCode.VIOLATED}


def test_simulate_refuses_a_program_the_class_does_not_have(capsys):
    assert answer(capsys, "simulate", "--seed", "1", "--program", "splendid")[0] == ExitCode.USAGE


def test_replay_names_the_story_that_is_not_as_told(capsys, tmp_path):
    code, _ = answer(capsys, "simulate", "--seed", "1", "--story", str(tmp_path / "a.story"))
    told = (tmp_path / "a.story").read_text()
    (tmp_path / "b.story").write_text(told.replace("expect record complete", "expect record weak"))
    code, out = answer(capsys, "replay", str(tmp_path))
    assert code == ExitCode.VIOLATED
    assert "NOT AS TOLD  " in out
    assert "b.story" in out
    code, out = answer(capsys, "replay", str(tmp_path), "--json")
    assert [told["as_told"] for told in json.loads(out)["result"]] == [True, False]


def test_replay_refuses_what_is_no_story(capsys, tmp_path):
    (tmp_path / "a.story").write_text("once upon a time")
    assert answer(capsys, "replay", str(tmp_path / "a.story"))[0] == ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    "arguments",
    [
        ("--table",),
        ("--runs", "1", "--only", "union"),
        ("--switches", "--runs", "40"),
        ("--hazards", "--only", "deletions", "--runs", "3"),
    ],
)
def test_suite_answers_in_words_and_as_data(capsys, arguments):
    code, out = answer(capsys, "suite", *arguments)
    assert (code, bool(out)) == (ExitCode.MET, True)
    code, out = answer(capsys, "suite", *arguments, "--json")
    assert json.loads(out)["result"]


def test_suite_writes_the_stories_that_must_exist(capsys, tmp_path):
    folder, only = str(tmp_path), "projection-keeping-key"
    code, out = answer(capsys, "suite", "--counter-examples", folder, "--only", only, "--runs", "40")
    assert (code, out.splitlines()[0]) == (ExitCode.MET, f"2 stories written to {folder}, 0 missing")
    assert {file.name for file in tmp_path.iterdir()} == {
        f"{only}--signature--unordered--record.story",
        f"{only}--signature--unordered--view.story",
    }


@pytest.mark.parametrize(
    "view", ["count", "min", "selection", "foreign-key-join", "union", "projection-moving-key"]
)
def test_the_audit_judges_a_simulated_history_as_the_suite_did(capsys, tmp_path, view):
    history = tmp_path / "run.ndjson"
    for seed, faults in ((7, "crashes"), (8, "unordered")):
        arguments = ("simulate", "--seed", str(seed), "--view", view, "--faults", faults)
        _, out = answer(capsys, *arguments, "-o", str(history), "--json")
        told = json.loads(out)["result"]
        _, out = answer(capsys, "audit", str(history), "--json")
        found = {part["granularity"]: part["level"] for part in json.loads(out)["result"]["granularities"]}
        for part, level in (("record", told["record"]), ("view", told["whole_view"])):
            proved, not_refuted = (
                Level(found[part][side].replace(" ", "_")) for side in ("proved", "not_refuted")
            )
            # The simulator knows the order of writes that overlap in time; the history leaves it open.
            assert not_refuted.reaches(Level(level))
            assert proved is Level(level) or (proved is Level.STRONG and not_refuted is Level.COMPLETE)


def test_lost_and_late_answers_leave_nothing_undecided(tmp_path):
    """Marks in the signatures and a last look at every record tell which of two unknown writes took effect."""
    faults = Faults(crash=20, lose=150, drop=100, delay=60)
    for name in ("count", "projection-moving-key"):
        shape = view_class(name)
        column = FaultSet(name="", faults=faults, managers=3, streams=3)
        for seed in range(15):
            made, rates = scenario(shape, shape.variants[0], column, Random(seed), updates=12)
            world, _ = simulated(made, rates, seed, record=True)
            document = summarize(judge_events(list(world.events)), [], {"record": "strong"})
            assert document["exit_code"] == ExitCode.MET, (name, seed)


def test_a_shrunk_run_is_not_advised_to_be_shrunk(capsys, tmp_path):
    asked = [
        "simulate",
        "--seed",
        "1",
        "--view",
        "sum",
        "--faults",
        "crashes",
        "--without",
        "signature-check",
    ]
    assert "--shrink writes the smallest such run" in answer(capsys, *asked)[1]
    story = tmp_path / "a.story"
    _, out = answer(capsys, *asked, "--shrink", "--story", str(story))
    assert "no smaller such run was found" in out
    assert "--shrink" not in out
    assert "1 manager, 1 stream, 1 base update" in out
    command = story.read_text().splitlines()[0].removeprefix("# cvs ").split()
    assert answer(capsys, *command, "--story", str(tmp_path / "b.story"))[0] == ExitCode.VIOLATED


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("stp m0", "a story has no such line: 'stp m0'\n"),
        ("step wrte", "a story has no such line: 'step wrte'\n"),
        ("expect nothing weak", "a story has no such line: 'expect nothing weak'\n"),
        ("update r 5 {}", "a story has no such line: 'update r 5 {}' (Expected `array`"),
        ("update r [5] []", "a story has no such line: 'update r [5] []' (Expected `object`"),
        ("managers 0", "a story has no such line: 'managers 0' (at least 1)"),
        ('update r [5] {"k":5}', 'view class "sum" has no such row: update r [5] {"k":5}'),
        ("update q [5] -", 'view class "sum" has no such row: update q [5] -'),
    ],
)
def test_a_wrong_line_of_a_story_is_one_message_that_says_it_once(capsys, tmp_path, line, told):
    story = tmp_path / "a.story"
    answer(capsys, "simulate", "--seed", "1", "--view", "sum", "--story", str(story))
    story.write_text(f"{story.read_text()}{line}\n")
    assert run(["replay", str(story)]) == ExitCode.BAD_INPUT
    assert told in capsys.readouterr().err
