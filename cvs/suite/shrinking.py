"""Shrinking: the smallest story that still does what was found, by cutting and looking again.

Any part of a schedule is a schedule, so cutting is all there is: halves, quarters, single steps; then base
updates, initial rows, managers and streams; again until nothing more can go.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from cvs.suite.story import Story
from cvs.suite.view_story import ViewStory

Some = TypeVar("Some", Story, ViewStory)

TRIES_MAX = 4_000
"""Replays one shrinking may cost; some two milliseconds each, some ten where views of SQL are judged."""


def shrunk(story: Some, still: Callable[[Some], bool]) -> Some:
    """Return the smallest story found of which `still` is true; the given one must be."""
    assert still(story), "only what shows something can be shrunk"
    tries = 0
    progress = True
    while progress and tries < TRIES_MAX:
        progress = False
        for candidate in _smaller(story) if isinstance(story, Story) else _smaller_views(story):
            tries += 1
            if tries >= TRIES_MAX:
                break
            if still(candidate):
                story, progress = candidate, True
                break
    return story


def _smaller(story: Story) -> Iterator[Story]:
    """Yield simpler stories, the boldest cuts first."""
    world = story.scenario
    if world.managers > 1:
        yield replace(story, scenario=replace(world, managers=world.managers - 1))
    if world.streams > 1:
        yield replace(story, scenario=replace(world, streams=world.streams - 1))
    if world.remember:
        yield replace(story, scenario=replace(world, remember=False))
    yield from _shorter(story)


def _smaller_views(story: ViewStory) -> Iterator[ViewStory]:
    """Yield simpler stories of the user's views, the boldest cuts first."""
    world = story.scenario
    if world.drivers > 1:
        yield replace(story, scenario=replace(world, drivers=world.drivers - 1))
    if world.copies:
        yield replace(story, scenario=replace(world, copies=False))
    yield from _shorter(story)


def _shorter(story: Some) -> Iterator[Some]:
    """Yield the story with a part of its schedule, of its base updates or of its initial rows gone."""
    world: Any = story.scenario  # because both kinds of scenario have these three
    for schedule in cuts(story.schedule):
        yield replace(story, schedule=tuple(schedule))
    for name in ("writes", "initial"):
        for part in cuts(getattr(world, name)):
            yield replace(story, scenario=replace(world, **{name: tuple(part)}))


def cuts(whole: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the sequence without one of its parts, large parts first."""
    size = len(whole)
    while size:
        for start in range(0, len(whole), size):
            yield [*whole[:start], *whole[start + size :]]
        size //= 2
