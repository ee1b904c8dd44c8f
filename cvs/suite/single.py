"""One run, told: what `cvs simulate` and `cvs replay` answer with."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from cvs.errors import SpecificationError
from cvs.history.codec import line_of
from cvs.model.levels import Level
from cvs.model.values import many
from cvs.programs.predicted import predicted
from cvs.simulate.scheduler import simulated
from cvs.suite.classes import Variant, ViewClass, view_class
from cvs.suite.rules import without as turned_off
from cvs.suite.shrinking import shrunk
from cvs.suite.story import Story, narrated, story_of, text_of, told, with_levels
from cvs.suite.strategies import fault_set, scenario
from cvs.suite.table import constraint_kept
from cvs.suite.view_story import is_view_story, replayed_view_story


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRun:
    """What one simulated run has to say for itself."""

    met: bool
    lines: tuple[str, ...]
    result: dict[str, Any]
    story_text: str
    history_lines: tuple[bytes, ...]


def single_run(
    *, view: str, program: str, faults: str, seed: int, updates: int, without: tuple[str, ...], shrink: bool
) -> SingleRun:
    """Run, judge and tell one world."""
    shape = view_class(view)
    variant = _variant(shape, program)
    random = Random(seed)  # noqa: S311 -- because chance is replayed, not secret
    made, rates = scenario(shape, variant, fault_set(faults), random, updates=updates)
    _, schedule = simulated(turned_off(without, made), rates, seed)
    whole = Story(view=view, program=variant.name, scenario=made, schedule=tuple(schedule), without=without)
    story = with_levels(whole)
    if shrink:
        levels = (story.record, story.whole)
        story = shrunk(story, lambda s: constraint_kept(s) and _levels(s) == levels)
    expected = predicted(view, variant.name, faults)
    off = "".join(f" --without {rule}" for rule in without)
    asked = f"--view {view} --program {variant.name} --faults {faults} --updates {updates}{off}"
    story = replace(story, words=(f"cvs simulate --seed {seed} {asked}", *narrated(story)))
    world, _ = told(story, record=True)
    met = story.record.reaches(expected[0]) and story.whole.reaches(expected[1])
    result = {
        "view": view,
        "program": variant.name,
        "faults": faults,
        "seed": seed,
        "without": list(without),
        "record": story.record.value,
        "whole_view": story.whole.value,
        "predicted_record": expected[0].value,
        "predicted_whole_view": expected[1].value,
        "steps": len(story.schedule),
    }
    return SingleRun(
        met=met,
        lines=_lines(story, result, met=met, shrink=shrink),
        result=result,
        story_text=text_of(story),
        history_lines=tuple(line_of(event) for event in world.events),
    )


def _variant(shape: ViewClass, program: str) -> Variant:
    names = [v.name for v in shape.variants]
    if program and program not in names:
        raise SpecificationError(
            f'view class "{shape.name}" has no program "{program}"', next_step=f"one of {', '.join(names)}"
        )
    return shape.variant(program or names[0])


def _levels(story: Story) -> tuple[Level, Level]:
    judgement = told(story)[1]
    return judgement.record, judgement.view


def _lines(story: Story, result: dict[str, Any], *, met: bool, shrink: bool) -> tuple[str, ...]:
    off = f" without {', '.join(result['without'])}" if result["without"] else ""
    world = story.scenario
    title = f"run of {result['view']}, program {result['program']}, faults {result['faults']}, seed "
    people = ", ".join(
        [
            many(world.managers, "manager"),
            many(world.streams, "stream"),
            many(len(world.writes), "base update"),
            many(result["steps"], "step"),
        ]
    )
    smallest = (
        ": no smaller such run was found"
        if shrink
        else "; --story FILE --shrink writes the smallest such run"
    )
    return (
        f"{title}{result['seed']}{off}",
        people,
        "",
        *narrated(story),
        "",
        f"view record   {result['record']:<14} predicted {result['predicted_record']}",
        f"whole view    {result['whole_view']:<14} predicted {result['predicted_whole_view']}",
        "" if met else f"BELOW THE PREDICTION{smallest}",
    )


def replayed_story(text: str, where: str) -> tuple[bool, tuple[str, ...]]:
    """Replay one story: does it have the levels it is written down with, and what did it show."""
    if is_view_story(text):
        return replayed_view_story(text, where)
    story = story_of(text, where=where)
    _, judgement = told(story)
    kept = (judgement.record, judgement.view) == (story.record, story.whole)
    told_of = f"told as: record {story.record.value}, whole view {story.whole.value}"
    shown = narrated(story)
    return kept, (*(line for line in story.words if line not in shown), *shown, told_of)
