import pytest

from cvs.errors import HistoryError
from cvs.model.levels import Level
from cvs.suite.shrinking import shrunk
from cvs.suite.single import replayed_story, single_run
from cvs.suite.story import narrated, story_of, text_of, told

TWICE = """\
# an entry is delivered again after a crash, and counted again
view count
program counter
managers 1
streams 1
managers remember
expect record not_converged
expect view not_converged
initial r [9] {"k":9,"x":"b","y":0}
update r [1] {"k":1,"x":"a","y":0}
update r [9] -
step write
step m0 take 0
step m0
step m0
step m0
step m0 crash
"""


def test_a_story_says_what_it_shows():
    story = story_of(TWICE)
    _, judgement = told(story)
    assert (judgement.record, judgement.view, judgement.worst) == (story.record, story.whole, ("a",))
    assert narrated(story)[0] == (
        'view record [\'a\'] shows: nothing; then {"x":"a","n":1}; then {"x":"a","n":2}'
    )


def test_a_story_is_read_as_it_was_written():
    assert text_of(story_of(TWICE)) == TWICE
    switched = TWICE.replace("expect record", "without rule signature-check\nexpect record")
    assert text_of(story_of(switched)) == switched
    unordered = TWICE.replace("managers remember", "without flow control")
    assert text_of(story_of(unordered)) == unordered
    steps = "".join(
        f"step {s}\n"
        for s in ("write", "m0", "m1 lose", "m0 takeover", "arrive 2", "checkpoint 1", "m0 take 3")
    )
    assert text_of(story_of(TWICE + steps)) == TWICE + steps


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("stpe write", 18),
        ("step m0 explode", 18),
        ("step x", 18),
        ("expect record splendid", 18),
        ("update r", 18),
        ("initial r [1] {", 18),
        ("managers many", 18),
    ],
)
def test_a_line_that_says_nothing_known_is_refused_with_its_number(line, number):
    with pytest.raises(HistoryError) as refusal:
        story_of(TWICE + line, where="a.story")
    assert refusal.value.where == f"a.story:{number}"


def test_an_unknown_view_or_program_is_refused():
    for bad in ("view splendid", "program splendid"):
        with pytest.raises(HistoryError):
            story_of(TWICE + bad)


def test_a_story_that_is_not_as_told_is_said_to_be_so():
    kept, _ = replayed_story(TWICE, "a")
    assert kept
    kept, lines = replayed_story(TWICE.replace("program counter", "program signature"), "a")
    assert not kept
    assert any("not_converged" in line for line in lines)


def test_shrinking_keeps_what_is_to_be_shown_and_drops_the_rest():
    long = story_of(TWICE + "step m0 take 0\nstep m0\nstep checkpoint 0\nstep write\n")
    small = shrunk(long, lambda story: told(story)[1].record is Level.NOT_CONVERGED)
    assert told(small)[1].record is Level.NOT_CONVERGED
    assert len(small.schedule) == 6
    assert len(small.scenario.writes) == 1
    assert not small.scenario.initial
    assert not small.scenario.remember


def test_only_what_shows_something_can_be_shrunk():
    with pytest.raises(AssertionError):
        shrunk(story_of(TWICE), lambda _: False)


def test_one_run_is_told_with_its_prediction():
    run = single_run(view="count", program="", faults="crashes", seed=3, updates=6, without=(), shrink=False)
    assert run.met
    assert run.result["predicted_record"] == "complete"
    assert run.history_lines[0].startswith(b'{"event":"run_started"')
    assert story_of(run.story_text).view == "count"


def test_a_rule_turned_off_falls_below_the_prediction():
    runs = [
        single_run(
            view="count",
            program="",
            faults="crashes",
            seed=seed,
            updates=8,
            without=("signature-check",),
            shrink=False,
        )
        for seed in range(12)
    ]
    fallen = [run for run in runs if not run.met]
    assert fallen
    assert not any(replayed_story(run.story_text, "x")[0] is False for run in fallen)
