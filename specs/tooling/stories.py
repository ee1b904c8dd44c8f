"""From a behaviour TLC found to a schedule the simulator replays with the real programs, and back to a verdict.

spec action        steps of the simulator (`cvs/simulate/world.py`)
Take(m, r, e)      take
Read(m)            go, until its test-and-set leaves (or nothing, if the entry was absorbed before)
Answered(m)        go: the store decides
Unknown(m)         lose (applied), delay (arrives later) or drop (never)
Late(request)      arrive (TLC calls it Next; told from Never by what it changed)
Crash(m)           crash (delay first, if its request still arrives)
Acknowledge(m)     go to the end of the entry, checkpoint
WriteBase, Never   nothing: all is written before; what never arrives was dropped
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cvs.history.events import TestAndSetCalled
from cvs.simulate.world import Scenario, Step, World, stream_of
from cvs.suite import story as suite_story
from cvs.suite.classes import view_class
from tooling import behaviours, tlc
from tooling.manifest import Configuration
from tooling.tlc import SpecsError
from tooling.values import parsed

SETS = {"union": "union", "intersection": "intersect", "difference": "except"}
CLASS_OF = {
    "count": ("count", "n"),
    "sum": ("sum", "total"),
    "avg": ("avg", "mean"),
    "min": ("min", "least"),
    "selection": ("selection", "y"),
    "projection": ("projection-keeping-key", "x"),
    "projection_rekeyed": ("projection-moving-key", "x"),
    **{name: (name_here, "x") for name, name_here in SETS.items()},
}
"""Program of the spec -> view class of the suite, and the column in which its records differ."""

POLICIES = {"signature": "signature_check", "permanent signature": "keep_deleted"}
SELECTION_LIMITS = 3 - 2  # the spec selects y < 3, the suite's class y < 2
TWELVE = 12  # the spec has no fractions: it shows an average times twelve
GO_MAX = 50  # pauses until a manager sends something; a program has fewer
STREAMS = 2
OWNED = ("any manager", "any delivery")
FREE = "flow control"  # without it entries have no owner
MARK = "mark"  # the programs have no signature without it: stories of the spec without it differ where it matters


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What TLC printed: the name of each action and the state after it."""

    actions: tuple[str, ...]
    states: tuple[dict[str, Any], ...]
    versions: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Story:
    """A schedule, what it is a schedule of, and what the spec says was shown."""

    program: str
    scenario: Scenario
    keys: dict[str, int]  # base record of the spec -> its key here
    schedule: list[Step] = field(default_factory=list)
    shown: dict[Any, list[Any]] = field(default_factory=dict)
    world: World


def behaviour(jar: Path, asked: Configuration, *, seed: int | None) -> Behaviour:
    """Find a counter-example of a configuration; with a seed, a random run that ends well."""
    off = asked.constants["Off"]
    off = sorted({*off, "any delivery"} if FREE in off else {*off, *OWNED})
    claim = asked.expected if seed is None else "UnfinishedInv"
    constants = {**asked.constants, "Off": off}
    again = Configuration(
        name=asked.name, module="Story", question="", claims=(claim,), expected=claim, states=None,
        time_class="default", constants=constants,
    )  # fmt: skip
    source = (
        "---- MODULE Story ----\nEXTENDS PerEntry, TLC\n"
        'ASSUME PrintT(<<"versions", [r \\in Records |-> Versions(r)]>>)\n====\n'
    )
    options = () if seed is None else ("-simulate", "num=1000", "-depth", "200", "-seed", str(seed))
    found = tlc.run(jar, "Story", again.cfg, source=source, options=options, claims=(claim,))
    if found.verdict != claim:
        raise SpecsError(f"{asked.name}: no behaviour found: {found.verdict}")
    return _read(found.output)


def _read(output: str) -> Behaviour:
    printed = re.search(r'^<<\s*"versions".*\n(?:[ \t]+.*\n)*', output, re.MULTILINE)
    if printed is None:
        raise SpecsError("TLC did not print the time-lines")
    (_, versions) = parsed(printed.group())
    actions, states = behaviours.printed(output)
    return Behaviour(actions=actions, states=states, versions=versions)


def story(asked: Configuration, seen: Behaviour) -> Story:
    """Drive the simulator along a behaviour and note the schedule."""
    keys = _keys(seen.versions)
    scenario = _scenario(asked, seen, keys)
    program = asked.constants["Program"]
    told = Story(program=program, scenario=scenario, keys=keys, world=World(scenario, record=True))
    for _ in scenario.writes:
        _step(told, ("write", 0, 0))
    late: list[Any] = []
    for number, action in enumerate(seen.actions[1:]):
        _act(told, action, seen.states[number:], late)
    told.shown = {
        _key_here(told, key): [_shown_of(told, state) for state in states]
        for key, states in seen.states[-1]["shown"].items()
    }
    return told


def _shown_of(told: Story, state: Any) -> Any:
    if not state:
        return None
    return (state[0], state[1] - SELECTION_LIMITS) if told.program == "selection" else state[0]


def _act(told: Story, action: str, states: Sequence[Any], late: list[Any]) -> None:
    before, after = states[:2]
    if action == "WriteBase":
        return
    if action == "Next":
        (request,) = before["orphans"] - after["orphans"]
        if request in late:
            _step(told, ("arrive", late.index(request), 0))
            late.remove(request)
        return
    who = next(m for m in before["manager"] if before["manager"][m] != after["manager"][m])
    m = int(who[1:]) - 1
    orphan = next(iter(after["orphans"] - before["orphans"]), None)
    arrives = orphan is not None and _arrives(orphan, states)
    if arrives:
        _step(told, ("delay", m, 0))
        late.append(orphan)
    if action == "Take":
        _step(told, ("take", m, _which(told, after["manager"][who])))
    elif action == "Read" and after["manager"][who]["stage"] == "wait":
        _until_sent(told, m)
    elif action == "Answered":
        _step(told, ("go", m, 0))
    elif action == "Unknown" and not arrives:
        _step(told, ("drop" if orphan is not None else "lose", m, 0))
    elif action == "Crash":
        _step(told, ("crash", m, 0))
    elif action == "Acknowledge":
        _until_done(told, m)
        told.schedule.append(("checkpoint", m, 0))
        told.world.take(("checkpoint", m, 0))


def _which(told: Story, taken: Any) -> int:
    """Choose the entry the spec's manager took; with flow control there is one to take."""
    if told.scenario.flow_control:
        return 0
    wanted = (_table(taken["record"]), (told.keys[taken["record"]],), taken["entry"])
    return [(e.table, e.key, e.version) for e in told.world.waiting].index(wanted)


def _arrives(orphan: Any, states: Sequence[Any]) -> bool:
    """Say whether the request changes the view later; one that is refused is as good as lost."""
    for before, after in itertools.pairwise(states):
        if orphan in before["orphans"] and orphan not in after["orphans"]:
            return bool(before["view"] != after["view"])
    return False


def _step(told: Story, step: Step) -> None:
    if not told.world.take(step):
        raise SpecsError(f"the simulator cannot do {step} after {told.schedule}: spec and code diverge")
    told.schedule.append(step)


def _until_sent(told: Story, manager: int) -> None:
    sent = _sent(told.world, manager)
    for _ in range(GO_MAX):
        _step(told, ("go", manager, 0))
        if _sent(told.world, manager) > sent:
            return
    raise SpecsError(f"manager {manager} sends nothing where the spec does: {told.schedule}")


def _until_done(told: Story, manager: int) -> None:
    for _ in range(GO_MAX):
        if told.world.tasks[manager] is None:
            return
        _step(told, ("go", manager, 0))
    raise SpecsError(f"manager {manager} does not end where the spec does: {told.schedule}")


def _sent(world: World, manager: int) -> int:
    return sum(isinstance(e, TestAndSetCalled) and e.process == f"m{manager}" for e in world.events)


def _scenario(asked: Configuration, seen: Behaviour, keys: dict[str, int]) -> Scenario:
    program, off = asked.constants["Program"], set(asked.constants["Off"])
    if program not in CLASS_OF or off - set(POLICIES) - {FREE, MARK}:
        raise SpecsError(f"{asked.name}: no simulator program or policy for it")
    variant = view_class(CLASS_OF[program][0]).variants[0]
    rows = {r: [_row(program, keys[r], v) for v in versions] for r, versions in sorted(seen.versions.items())}
    return Scenario(
        program=variant.program,
        policy=replace(variant.policy, **{POLICIES[rule]: False for rule in off - {FREE, MARK}}),
        initial=tuple((_table(r), (keys[r],), line[0]) for r, line in rows.items() if line[0]),
        writes=tuple((_table(r), (keys[r],), row) for r, line in rows.items() for row in line[1:]),
        managers=len(asked.constants["Managers"]),
        streams=STREAMS,
        flow_control=FREE not in off,
    )


def _table(record: str) -> str:
    return record[0]


def _keys(records: Iterable[str]) -> dict[str, int]:
    """Give each record a key: those of one table go to streams of their own; both tables share keys (sets do)."""
    names = sorted(records)
    if {_table(name) for name in names} == {"r", "s"}:
        both = (k for k in range(1, 1000) if [stream_of(t, (k,), STREAMS) for t in "rs"] == [0, 1])
        return dict.fromkeys(names, next(both))
    return {
        name: next(k for k in range(1, 1000) if stream_of("r", (k,), STREAMS) == number)
        for number, name in enumerate(names)
    }


def _row(program: str, key: int, version: Any) -> dict[str, Any] | None:
    if version["x"] == "-":
        return None
    y = version["y"] - (SELECTION_LIMITS if program == "selection" else 0)
    return {"k": key, "x": version["x"]} | ({} if program in SETS else {"y": y})


def _key_here(told: Story, key: Any) -> tuple[Any, ...]:
    """Name a view record as the real program does."""
    if told.program in SETS:
        return (next(iter(told.keys.values())), key)
    if told.program in ("projection", "selection"):
        return (told.keys[key],)
    return (key[0], told.keys[key[1]]) if told.program == "projection_rekeyed" else (key,)


def text_of(told: Story) -> str:
    """Write it as a `.story` file for `cvs replay`, with the levels the judge finds."""
    view, _ = CLASS_OF[told.program]
    named = [v for v in view_class(view).variants if v.policy == told.scenario.policy]
    found = next((v for v in named if v.program == told.scenario.program), None)
    if found is None:
        raise SpecsError(f"no program of view class {view} has this policy: the story has no file")
    story = suite_story.Story(
        view=view, program=found.name, scenario=told.scenario, schedule=tuple(told.schedule)
    )
    return suite_story.text_of(suite_story.with_levels(story))


def as_json(asked: Configuration, told: Story) -> dict[str, Any]:
    """Return the story as a file: its schedule is what `cvs.simulate.scheduler.replayed` takes."""
    return {
        "question": asked.name,
        "asks": asked.question,
        "managers": told.scenario.managers,
        "streams": told.scenario.streams,
        "initial": told.scenario.initial,
        "writes": told.scenario.writes,
        "schedule": told.schedule,
        "shown": [[*key, states] for key, states in told.shown.items()],
    }


def simulated_shown(told: Story) -> dict[Any, list[Any]]:
    """Return what each view record showed in the simulator, each state different from the one before."""
    found: dict[Any, list[Any]] = {}
    for at, row in told.world.shown:
        states = found.setdefault(at.key, [_value_of(told, told.world.initial.get(at.key))])
        value = _value_of(told, row)
        if states[-1] != value:
            states.append(value)
    return found


def _value_of(told: Story, row: Any) -> Any:
    if row is None:
        return None
    if told.program in SETS:
        return "in"
    if told.program == "selection":
        return (row["x"], row["y"])
    value = row[CLASS_OF[told.program][1]]
    return int(value * TWELVE) if told.program == "avg" else value


def agrees(told: Story) -> bool:
    """Say whether the real programs showed what the spec showed, record by record, state by state."""
    real = simulated_shown(told)
    return all(real.get(key, states[:1]) == states for key, states in told.shown.items())
