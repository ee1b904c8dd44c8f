"""Stories: one scenario, one schedule and the level it must have, as text a reader of the papers can follow.

    # free words: what happens and why it matters
    view count
    program counter
    managers 1
    streams 1
    expect record not_converged
    expect view not_converged
    initial r [1] {"k": 1, "x": "a", "y": 0}
    update r [2] {"k": 2, "x": "a", "y": 1}
    update r [1] -
    step write
    step m0 take 0
    step m0 crash

`without flow control`, `managers remember` and `without rule NAME` (rules.py) may stand before the steps.
Steps are those of `simulate.world`; after the last one the world comes to rest without further faults.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from cvs.errors import HistoryError
from cvs.model.levels import Level
from cvs.programs.machine import Row
from cvs.simulate.scheduler import replayed
from cvs.simulate.world import Scenario, Step, World, Write
from cvs.suite.classes import CLASSES, ViewClass, view_class
from cvs.suite.judged import Judgement, judged
from cvs.suite.rules import without

KINDS_OF_MANAGER = {"take", "go", "lose", "drop", "delay", "unsent", "crash", "takeover"}
REPEATED = ("initial", "update", "step", "words", "without")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A scenario by name, its schedule, and what must come of it."""

    view: str
    program: str
    scenario: Scenario
    schedule: tuple[Step, ...] = ()
    record: Level = Level.NOT_CONVERGED
    whole: Level = Level.NOT_CONVERGED
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()  # rules turned off; the scenario is given with them on

    @property
    def shape(self) -> ViewClass:
        """Return the view class it is about."""
        return view_class(self.view)


def told(story: Story, *, record: bool = False) -> tuple[World, Judgement]:
    """Replay a story and judge what came of it."""
    world = replayed(without(story.without, story.scenario), story.schedule, record=record)
    return world, judged(world, story.shape)


def narrated(story: Story) -> tuple[str, ...]:
    """Say in lines what the decisive view record showed, one state after the other."""
    world, judgement = told(story)
    key = judgement.worst
    first = world.initial.get(key or ())
    seen: list[str] = [_words(first)]
    others = 0
    for at, row in world.shown:
        if at.key == key and _words(row) != seen[-1]:
            seen.append(_words(row))
        others += at.key != key
    lines = [f"view record {list(key or ())} shows: " + "; then ".join(seen)] if key is not None else []
    lines.append(f"level of the worst view record: {judgement.record.value}; of the whole view: ")
    return (*lines[:-1], lines[-1] + judgement.view.value)


def _words(row: Row | None) -> str:
    return "nothing" if row is None else msgspec.json.encode(row, enc_hook=str).decode()


def text_of(story: Story) -> str:
    """Write a story down."""
    world = story.scenario
    lines = [f"# {line}" for line in story.words]
    lines += [f"view {story.view}", f"program {story.program}"]
    lines += [f"managers {world.managers}", f"streams {world.streams}"]
    lines += ["without flow control"] if not world.flow_control else []
    lines += ["managers remember"] if world.remember else []
    lines += [f"without rule {name}" for name in story.without]
    lines += [f"expect record {story.record.value}", f"expect view {story.whole.value}"]
    lines += [_write("initial", write) for write in world.initial]
    lines += [_write("update", write) for write in world.writes]
    lines += [f"step {_step(step)}" for step in story.schedule]
    return "\n".join(lines) + "\n"


def _write(word: str, write: Write) -> str:
    table, key, row = write
    return f"{word} {table} {_json(list(key))} {'-' if row is None else _json(row)}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _step(step: Step) -> str:
    kind, which, choice = step
    if kind == "write":
        return "write"
    if kind == "go":
        return f"m{which}"
    if kind == "take":
        return f"m{which} take {choice}"
    return f"m{which} {kind}" if kind in KINDS_OF_MANAGER else f"{kind} {which}"


def lines_of(
    text: str, read: Callable[[str], Iterable[tuple[str, Any]]], *, where: str, page: str
) -> dict[str, list[Any]]:
    """Read a text line by line into what it says under each name; a line that says nothing known is refused."""
    told: dict[str, list[Any]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            for name, value in read(line.strip()):
                told.setdefault(name, []).append(value)
        except (ValueError, LookupError, TypeError, AttributeError, msgspec.DecodeError) as mistake:
            reason = str(mistake).strip("'")
            more = "" if reason in line else f" ({reason})"
            raise HistoryError(
                f"a story has no such line: {line!r}{more}",
                where=f"{where}:{number}",
                next_step=f"see {page} for the lines a story may have",
            ) from None
    return told


def story_of(text: str, *, where: str = "story") -> Story:
    """Read a story; the last line counts where only one can."""
    told = lines_of(text, _read, where=where, page="cvs/suite/README.md")
    return _composed({name: said if name in REPEATED else said[-1] for name, said in told.items()}, where)


def _composed(told_of: dict[str, Any], where: str) -> Story:
    shape = next((c for c in CLASSES if c.name == told_of.get("view")), None)
    variant = next((v for v in shape.variants if v.name == told_of.get("program")), None) if shape else None
    if shape is None or variant is None:
        raise HistoryError(
            f'no view class "{told_of.get("view")}" with a program "{told_of.get("program")}"',
            where=where,
            next_step="`cvs suite --table` lists them",
        )
    for write in (*told_of.get("initial", ()), *told_of.get("update", ())):
        _require_columns(write, shape, where)
    scenario = Scenario(
        program=variant.program,
        policy=variant.policy,
        initial=tuple(told_of.get("initial", ())),
        writes=tuple(told_of.get("update", ())),
        managers=told_of.get("managers", 1),
        streams=told_of.get("streams", 1),
        flow_control=not told_of.get("unordered", False),
        remember=told_of.get("remember", False),
        definition=shape.recorded_definition,
        tables=tuple(shape.tables.values()),
    )
    return Story(
        view=shape.name,
        program=variant.name,
        scenario=scenario,
        schedule=tuple(told_of.get("step", ())),
        record=told_of.get("record", Level.NOT_CONVERGED),
        whole=told_of.get("whole", Level.NOT_CONVERGED),
        words=tuple(told_of.get("words", ())),
        without=tuple(told_of.get("without", ())),
    )


def _require_columns(write: Write, shape: ViewClass, where: str) -> None:
    """Refuse a row that programs would not find their columns in."""
    table, _, row = write
    columns = {name: [c for c, _ in base.columns] for name, base in shape.tables.items()}
    if (row is None and table in columns) or (
        row is not None and sorted(row) == sorted(columns.get(table, ()))
    ):
        return
    wanted = " and ".join(f"{name} ({', '.join(named)})" for name, named in columns.items())
    raise HistoryError(
        f'view class "{shape.name}" has no such row: {_write("update", write)}',
        where=where,
        next_step=f"write rows of {wanted}",
    )


def _read(line: str) -> Iterator[tuple[str, Any]]:
    word, _, rest = line.partition(" ")
    if not line:
        return
    if word == "#":
        yield "words", rest
    elif word in ("view", "program"):
        yield word, rest
    elif line == "managers remember":
        yield "remember", True
    elif line.startswith("without rule "):
        yield "without", line.removeprefix("without rule ")
    elif line == "without flow control":
        yield "unordered", True
    elif word in ("managers", "streams"):
        yield word, _at_least_one(int(rest))
    elif word == "expect":
        granularity, _, level = rest.partition(" ")
        yield {"record": "record", "view": "whole"}[granularity], Level(level)
    elif word in ("initial", "update"):
        table, key, row = rest.split(" ", 2)
        decoded = None if row == "-" else msgspec.json.decode(row, type=dict[str, Any])
        yield word, (table, tuple(msgspec.json.decode(key, type=list[Any])), decoded)
    elif word == "step":
        yield "step", _step_of(rest.split())
    else:
        raise ValueError(word)


def _at_least_one(many: int) -> int:
    if many < 1:
        raise ValueError("at least 1")
    return many


def _step_of(words: list[str]) -> Step:
    if words == ["write"]:
        return ("write", 0, 0)
    if words[0] in ("arrive", "checkpoint"):
        return (words[0], int(words[1]), 0)
    if not words[0].startswith("m"):
        raise ValueError(words[0])
    manager = int(words[0][1:])
    kind = words[1] if len(words) > 1 else "go"
    if kind not in KINDS_OF_MANAGER:
        raise ValueError(kind)
    return (kind, manager, int(words[2]) if len(words) > 2 else 0)


def with_levels(story: Story) -> Story:
    """Return the story with the levels it really has as its expectation."""
    _, judgement = told(story)
    return replace(story, record=judgement.record, whole=judgement.view)
