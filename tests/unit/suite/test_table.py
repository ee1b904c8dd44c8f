import os
from dataclasses import replace
from pathlib import Path

import pytest

from cvs.model.levels import Granularity, Level
from cvs.programs.predicted import FAULT_SET_NAMES, PREDICTIONS, predicted
from cvs.suite.classes import CLASSES
from cvs.suite.reports import aligned, predicted_table
from cvs.suite.story import story_of, told
from cvs.suite.strategies import FAULT_SETS
from cvs.suite.switches import SWITCHES, violations, world_of
from cvs.suite.table import Cell, cells, constraint_kept, counter_example, examined, markdown, needed

STORIES = Path(__file__).parents[2] / "stories" / "programs"
CELLS = {cell.name: cell for cell in cells()}


def test_every_variant_is_predicted_once_and_every_prediction_has_a_program():
    variants = [(c.name, v.name) for c in CLASSES for v in c.variants]
    lines = [(p.view_class, p.variant) for p in PREDICTIONS]
    assert sorted(lines) == sorted(variants)
    assert [f.name for f in FAULT_SETS] == list(FAULT_SET_NAMES)


def test_fields_left_out_say_why_and_every_line_says_where_it_comes_from():
    for line in PREDICTIONS:
        assert (None in (*line.record, *line.view)) == bool(line.excluded)
        assert line.citation


def test_harsher_faults_never_promise_more_and_a_view_never_more_than_its_records():
    for line in PREDICTIONS:
        levels = [level for level in line.record[:4] if level]
        assert levels == sorted(levels, key=lambda level: -level.rank)
        for record, view in zip(line.record, line.view, strict=True):
            assert record is None or record.reaches(view)


@pytest.mark.parametrize("name", sorted(CELLS))
def test_no_run_falls_below_its_prediction(name):
    assert examined(CELLS[name], runs=2, seed=1_000).kept


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CELLS))
def test_no_run_of_many_falls_below_its_prediction(name):
    """Twenty judged runs a cell; `make nightly PART=levels-CLASS` asks for thousands, from its own seed."""
    runs, seed = int(os.environ.get("CVS_EXAMPLES", "20")), int(os.environ.get("CVS_SEED", "0"))
    found = examined(CELLS[name], runs=runs, seed=seed * 1_000_000)
    assert found.kept, (name, found)


def test_a_prediction_that_is_too_high_is_caught():
    cell = CELLS["min/base-reading/late"]
    found = examined(replace(cell, record=Level.STRONG), runs=400)
    assert not found.kept
    assert found.record is Level.WEAK


@pytest.mark.parametrize("granularity", list(Granularity))
def test_every_level_above_a_prediction_has_its_story(granularity):
    for cell in needed(granularity):
        file = STORIES / f"{cell.name.replace('/', '--')}--{granularity.value}.story"
        story = story_of(file.read_text(), where=file.name)
        assert (story.view, story.program) == (cell.prediction.view_class, cell.prediction.variant)
        told_of = story.record if granularity is Granularity.RECORD else story.whole
        assert told_of is cell.predicted(granularity), file.name
        assert story.scenario.flow_control is cell.faults.flow_control
        assert constraint_kept(story)
        if cell.faults.name in ("late", "concurrent"):
            assert {step[0] for step in story.schedule} <= {"write", "take", "go", "checkpoint"}


@pytest.mark.parametrize("file", sorted(STORIES.glob("*.story")), ids=lambda file: file.stem)
def test_every_story_is_as_told(file):
    story = story_of(file.read_text(), where=file.name)
    _, judgement = told(story)
    assert (judgement.record, judgement.view) == (story.record, story.whole)


def test_a_counter_example_is_found_and_small():
    story = counter_example(CELLS["sum/letter/late"], Granularity.RECORD, runs=50)
    assert story.record is Level.NOT_CONVERGED
    assert len(story.scenario.writes) + len(story.scenario.initial) <= 4


def test_a_counter_example_that_does_not_exist_is_not_found():
    cell = replace(CELLS["top-2/kept/late"], record=Level.WEAK)
    assert counter_example(cell, Granularity.RECORD, runs=20) is None


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.name)
def test_a_rule_turned_off_shows_the_violation_it_is_named_for_and_turned_on_none(switch):
    seeds = range(60)
    assert any(switch.violation in violations(world_of(switch, s, off=True), switch) for s in seeds)
    assert not any(violations(world_of(switch, s, off=False), switch) for s in range(20))


def test_the_table_in_words_has_a_line_for_each_prediction():
    report = predicted_table()
    assert len(report.lines) == 1 + len(PREDICTIONS)
    assert any("weak / converged" in line for line in report.lines)
    assert predicted("min", "base-reading", "late") == (Level.WEAK, Level.CONVERGED)
    assert predicted("sum", "letter", "zombies") == (Level.NOT_CONVERGED, Level.NOT_CONVERGED)
    with pytest.raises(KeyError):
        predicted("splendid", "base-reading", "late")


def test_the_readme_holds_the_table_as_it_is():
    readme = Path(__file__).parents[3] / "cvs" / "suite" / "README.md"
    assert markdown() in readme.read_text(), "paste cvs.suite.table.markdown() under The level table"


def test_columns_are_aligned():
    assert aligned([("a", "bbb", "c"), ("aaa", "b", "cc")]) == ("a    bbb  c", "aaa  b    cc")


def test_a_cell_is_named_after_what_it_tries():
    assert isinstance(CELLS["count/signature/zombies"], Cell)
    assert len(CELLS) == sum(level is not None for p in PREDICTIONS for level in p.record)
