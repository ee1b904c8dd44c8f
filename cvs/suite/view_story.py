"""Stories of the user's own views: text, base writes, schedule and levels in one file that can be replayed.

    # free words
    sql CREATE TABLE shop.orders (id int PRIMARY KEY, city text);
    sql CREATE MATERIALIZED VIEW shop.by_city AS SELECT city, COUNT(*) AS n FROM shop.orders GROUP BY city;
    drivers 2
    changes an epoch 3
    without rule signatures
    expect shop.by_city record strong
    expect shop.by_city view strong
    initial shop.orders [1] {"id": 1, "city": "a"}
    update shop.orders [1] -
    step write
    step d0 0

Steps are those of `simulate.epochs`; after the last one the world comes to rest without further faults.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from cvs.model.levels import Level
from cvs.model.values import from_json, to_json
from cvs.programs.machine import Key, Row
from cvs.simulate.epochs import EpochScenario, EpochWorld
from cvs.simulate.feeds import Door, Naming
from cvs.simulate.hazards import epoch_world
from cvs.simulate.scheduler import replayed_epochs
from cvs.simulate.world import Step, Write
from cvs.suite.judged import Judgement
from cvs.suite.story import lines_of
from cvs.suite.user_views import UserViews, judged_view, user_views

KINDS = {"lose", "drop", "delay", "crash"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStory:
    """A scenario of the user's views, its schedule, and the levels that must come of it: record, whole view."""

    user: UserViews
    scenario: EpochScenario  # given with all rules on
    schedule: tuple[Step, ...] = ()
    without: tuple[str, ...] = ()
    expected: dict[str, tuple[Level, Level]] = field(default_factory=dict)
    words: tuple[str, ...] = ()


def world_of(story: ViewStory, *, door: Door | None = None, naming: Naming | None = None) -> EpochWorld:
    """Replay a story."""
    world = epoch_world(replace(story.scenario, off=story.without), door=door, naming=naming)
    return replayed_epochs(world, story.schedule)


def levels_of(world: EpochWorld, user: UserViews) -> dict[str, Judgement]:
    """Judge every view of a settled run."""
    return {view.name: judged_view(world, user, view) for view in user.views}


def with_levels(story: ViewStory) -> ViewStory:
    """Return the story with the levels it really has as its expectation."""
    found = levels_of(world_of(story), story.user)
    return replace(story, expected={name: (j.record, j.view) for name, j in found.items()})


def narrated(world: EpochWorld, view: str, judgement: Judgement) -> tuple[str, ...]:
    """Say what the decisive record of a view showed, one state after the other, and the base it came from."""
    key = judgement.worst
    lines = []
    if world.broken:
        lines.append(f"a driver found what cannot be: {world.broken}")
    if key is not None:
        states = [world.initial[view].get(key), *(row for at, row in world.shown[view] if at.key == key)]
        lines.append(f"view record {_json(list(key))} shows: " + "; then ".join(map(_row, states)))
    for (table, base_key), line in sorted(world.timelines.items(), key=repr):
        lines.append(
            f"base record {table} {_json(list(base_key))} was: " + "; then ".join(map(_row, line.rows))
        )
    words = f"level of the worst view record: {judgement.record.value}; of the whole view"
    return (*lines, f"{words}: {judgement.view.value}")


def _row(row: Row | None) -> str:
    return "nothing" if row is None else _json(dict(row))


def _json(value: Any) -> str:
    if isinstance(value, dict):
        value = {name: to_json(part) for name, part in value.items()}
    else:
        value = [to_json(part) for part in value]
    return msgspec.json.encode(value).decode()


def text_of(story: ViewStory) -> str:
    """Write a story down."""
    world = story.scenario
    lines = [f"# {line}" for line in story.words]
    lines += [f"sql {line}" for line in story.user.text.strip().splitlines()]
    lines += [f"drivers {world.drivers}", f"changes an epoch {world.limit}"]
    lines += [] if world.copies else ["without copies"]
    lines += [f"without rule {name}" for name in story.without]
    for view, (record, whole) in story.expected.items():
        lines += [f"expect {view} record {record.value}", f"expect {view} view {whole.value}"]
    lines += [_write("initial", write) for write in world.initial]
    lines += [_write("update", write) for write in world.writes]
    lines += [f"step {_step(step)}" for step in story.schedule]
    return "\n".join(lines) + "\n"


def _write(word: str, write: Write) -> str:
    table, key, row = write
    return f"{word} {table} {_json(list(key))} {'-' if row is None else _json(dict(row))}"


def _step(step: Step) -> str:
    kind, which, choice = step
    if kind in ("write", "copy"):
        return kind
    if kind in ("arrive", "forget"):
        return f"{kind} {which}"
    if kind == "read":
        return f"r{which}"
    if kind == "crash":
        return f"d{which} crash"
    return f"d{which} {choice}" if kind == "go" else f"d{which} {kind} {choice}"


def replayed_view_story(text: str, where: str) -> tuple[bool, tuple[str, ...]]:
    """Replay a story: does each view have the levels it is told with, and what did the worst one show."""
    story = story_of(text, where=where)
    world = world_of(story)
    found = levels_of(world, story.user)
    kept = all((found[name].record, found[name].view) == levels for name, levels in story.expected.items())
    worst = min(found, key=lambda name: found[name].record.rank)
    shown = narrated(world, worst, found[worst])
    return kept, (*(line for line in story.words if line not in shown), *shown)


def is_view_story(text: str) -> bool:
    """Say whether a story is about the user's own views."""
    return any(line.startswith("sql ") for line in text.splitlines())


def story_of(text: str, *, where: str = "story") -> ViewStory:
    """Read a story; a line that says nothing we know is refused with its number."""
    told = lines_of(text, _read, where=where, page="cvs/suite/view_story.py")
    expected: dict[str, dict[str, Level]] = {}
    for view, granularity, level in told.get("expect", ()):
        expected.setdefault(view, {})[granularity] = level
    user = user_views("\n".join(told.get("sql", ())))
    scenario = EpochScenario(
        plan=user.plan,
        initial=tuple(told.get("initial", ())),
        writes=tuple(told.get("update", ())),
        drivers=told.get("drivers", (2,))[-1],
        limit=told.get("changes", (4,))[-1],
        copies="alone" not in told,
    )
    return ViewStory(
        user=user,
        scenario=scenario,
        schedule=tuple(told.get("step", ())),
        without=tuple(told.get("without", ())),
        expected={view: (found["record"], found["view"]) for view, found in expected.items()},
        words=tuple(told.get("words", ())),
    )


def _read(line: str) -> Iterator[tuple[str, Any]]:
    word, _, rest = line.partition(" ")
    if not line:
        return
    if word == "#":
        yield "words", rest
    elif word == "sql":
        yield "sql", rest
    elif word == "drivers":
        yield "drivers", int(rest)
    elif line.startswith("changes an epoch "):
        yield "changes", int(line.removeprefix("changes an epoch "))
    elif line == "without copies":
        yield "alone", True
    elif line.startswith("without rule "):
        yield "without", line.removeprefix("without rule ")
    elif word == "expect":
        view, granularity, level = rest.rsplit(" ", 2)
        yield "expect", (view, {"record": "record", "view": "view"}[granularity], Level(level))
    elif word in ("initial", "update"):
        yield word, _write_of(rest)
    elif word == "step":
        yield "step", _step_of(rest.split())
    else:
        raise ValueError(word)


def _write_of(rest: str) -> Write:
    table, rest = rest.split(" ", 1)
    decoder = msgspec.json.Decoder()
    end = _end_of_key(rest)
    key: Key = tuple(map(from_json, decoder.decode(rest[:end])))
    row = rest[end:].strip()
    if row == "-":
        return table, key, None
    return table, key, {name: from_json(value) for name, value in decoder.decode(row).items()}


def _end_of_key(text: str) -> int:
    """Return where a JSON list at the beginning of a text ends; strings may hold brackets."""
    depth, quoted, at = 0, False, 0
    while at < len(text):
        letter = text[at]
        if quoted and letter == "\\":
            at += 1
        elif letter == '"':
            quoted = not quoted
        elif not quoted:
            depth += (letter in "[{") - (letter in "]}")
            if depth == 0:
                return at + 1
        at += 1
    raise ValueError("a key that does not end")


def _step_of(words: list[str]) -> Step:
    if words[0] in ("write", "copy"):
        return (words[0], 0, 0)
    if words[0] in ("arrive", "forget"):
        return (words[0], int(words[1]), 0)
    if words[0][0] == "r":
        return ("read", int(words[0][1:]), 0)
    if words[0][0] != "d":
        raise ValueError(words[0])
    number = int(words[0][1:])
    if words[1] in KINDS:
        return (words[1], number, int(words[2]) if len(words) > 2 else 0)
    return ("go", number, int(words[1]))
