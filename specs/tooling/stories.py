"""From a behaviour TLC found to a schedule the simulator replays with the real programs, and back to a verdict.

spec action        steps of the simulator (`cvs/simulate/world.py`)
WriteBase(r)       write, where programs read the base; elsewhere all is written before
Take(m, r, e)      take; go, if the program scans the base before anything else
Read(m)            go, until the view record was read: then its test-and-set leaves, or the base is asked
ReadBase(m)        go, if the program asks the base here; then its test-and-set leaves
Answered(m)        go: the store decides
Unknown(m)         lose (applied), delay (arrives later) or drop (never)
NotSent(m)         unsent
Late(request)      arrive (TLC calls it Next; told from Never by what it changed)
Crash(m)           crash (delay first, if its request still arrives)
Acknowledge(m)     go to the end of the entry, checkpoint
Never              nothing: what never arrives was dropped
"""

import inspect
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.programs.machine import ReadBase, ReadView, ScanBase, TestAndSet
from cvs.simulate.world import Scenario, Step, World, stream_of
from cvs.suite import story as suite_story
from cvs.suite.classes import view_class
from cvs.suite.judged import judged
from tooling import behaviours, programs, tlc
from tooling.manifest import Configuration
from tooling.tlc import HOLDS, SpecsError
from tooling.values import parsed

GO_MAX = 50  # pauses until a manager sends something; a program has fewer
OWNED = ("any manager", "any delivery")


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
    out: set[int] = field(default_factory=set)  # managers whose test-and-set has left, unanswered so far
    late: list[Any] = field(default_factory=list)


def behaviour(jar: Path, asked: Configuration, *, seed: int | None) -> Behaviour:
    """Find a counter-example of a configuration; with a seed, a random run that ends well."""
    off = asked.constants["Off"]
    off = sorted({*off, "any delivery"} if programs.FREE in off else {*off, *OWNED})
    if seed is None and asked.expected == HOLDS:
        raise SpecsError(f"{asked.name} has no counter-example; random runs of it: simulate")
    claim = asked.expected if seed is None else "UnfinishedInv"
    constants = {**asked.constants, "Off": off, "FaultSets": ["given"]}
    again = Configuration(
        name=asked.name, module="Story", question="", claims=(claim,), expected=claim, states=None,
        time_class="default", constants=constants,
    )  # fmt: skip
    source = (
        "---- MODULE Story ----\nEXTENDS PerEntry\n"
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
    program = asked.constants["Program"]
    streams, keys = programs.keys(program, sorted(seen.versions))
    scenario = _scenario(asked, seen, keys, streams)
    told = Story(program=program, scenario=scenario, keys=keys, world=World(scenario, record=True))
    if any(seen.states[0]["base"].values()):  # all is written before anything is taken
        for _ in scenario.writes:
            _step(told, ("write", 0, 0))
    for number, action in enumerate(seen.actions[1:]):
        _act(told, action, seen.states[number:])
    told.shown = {
        programs.view_key(program, key, keys): [programs.spec_value(program, it, keys) for it in states]
        for key, states in seen.states[-1]["shown"].items()
    }
    return told


def _act(told: Story, action: str, states: Sequence[Any]) -> None:
    before, after = states[:2]
    if action == "WriteBase":
        _step(told, ("write", 0, 0))
        return
    if action == "Next":
        _arrive(told, before, after)
        return
    who = next(m for m in before["manager"] if before["manager"][m] != after["manager"][m])
    m = int(who[1:]) - 1
    was, now = before["manager"][who], after["manager"][who]
    orphan = next(iter(after["orphans"] - before["orphans"]), None)
    arrives = orphan is not None and _arrives(orphan, states)
    if arrives:
        _answer(told, m, "delay")
        told.late.append(orphan)
    if action == "Take":
        _take(told, m, now)
    elif action == "Read" and not _elsewhere(told, was, before):
        _view_read(told, m)
    elif action == "ReadBase" and isinstance(_asking(told, m), ReadBase | ScanBase):
        _step(told, ("go", m, 0))
    elif action in ("Answered", "NotSent"):
        _answer(told, m, "go" if action == "Answered" else "unsent")
    elif action == "Unknown" and not arrives:
        _answer(told, m, "drop" if orphan is not None else "lose")
    elif action == "Crash":
        _step(told, ("crash", m, 0))
        told.out.discard(m)
    elif action == "Acknowledge":
        _until_done(told, m)
        _step(told, ("checkpoint", _stream(told, was["record"]), 0))
    if action in ("Read", "ReadBase") and now["stage"] == "wait" and not _is_sending(told, m):
        raise SpecsError(f"manager {m} sends nothing where the spec does: {told.schedule}")


def _arrive(told: Story, before: Any, after: Any) -> None:
    (request,) = before["orphans"] - after["orphans"]
    if request in told.late:
        _step(told, ("arrive", told.late.index(request), 0))
        told.late.remove(request)


def _arrives(orphan: Any, states: Sequence[Any]) -> bool:
    """Say whether the request changes the view later; one that is refused is as good as lost."""
    for before, after in itertools.pairwise(states):
        if orphan in before["orphans"] and orphan not in after["orphans"]:
            return bool(before["view"] != after["view"])
    return False


def _take(told: Story, manager: int, taken: Any) -> None:
    """Take the entry the spec's manager took, and do what a program does before it reads any view record."""
    table, key = programs.table(told.program, taken["record"]), (told.keys[taken["record"]],)
    world = told.world
    if world.scenario.flow_control:
        owned = [s for s, owner in enumerate(world.owners) if owner == manager]
        ready = [s for s in owned if world.positions[s] < len(world.logs[s])]
        choice = ready.index(_stream(told, taken["record"]))
    else:
        choice = [(e.table, e.key, e.version) for e in world.waiting].index((table, key, taken["entry"]))
    _step(told, ("take", manager, choice))
    if told.program in programs.FOREIGN and table == "s":
        while world.tasks[manager] is not None and not isinstance(_asking(told, manager), ReadView):
            _step(told, ("go", manager, 0))


def _elsewhere(told: Story, was: Any, before: Any) -> bool:
    """Say whether the spec passes over a view record that the scan of the program did not find."""
    if told.program not in programs.FOREIGN or was["record"][0] == "r":
        return False
    lefts = sorted(record for record in before["base"] if record[0] == "r")
    return lefts[was["step"] - 1] not in was["found"]


def _asking(told: Story, manager: int) -> Any:
    """Return what a manager has asked, or is about to ask; None before its first step and after its last."""
    task = told.world.tasks[manager]
    return None if task is None else inspect.getgeneratorlocals(task.steps).get("action")


def _is_sending(told: Story, manager: int) -> bool:
    return isinstance(_asking(told, manager), TestAndSet) and manager not in told.out


def _answer(told: Story, manager: int, kind: str) -> None:
    """Let the test-and-set of a manager leave, one way or another."""
    if not _is_sending(told, manager):
        raise SpecsError(f"manager {manager} has nothing to send where the spec does: {told.schedule}")
    _step(told, (kind, manager, 0))
    told.out.add(manager)


def _step(told: Story, step: Step) -> None:
    if not told.world.take(step) and step[0] != "checkpoint":
        raise SpecsError(f"the simulator cannot do {step} after {told.schedule}: spec and code diverge")
    told.schedule.append(step)


def _view_read(told: Story, manager: int) -> None:
    """Go until the manager has read a view record; what it read before (a scan) and the last answer come first."""
    for _ in range(GO_MAX):
        if _is_sending(told, manager):
            raise SpecsError(f"manager {manager} sends where the spec reads: {told.schedule}")
        reading = isinstance(_asking(told, manager), ReadView)
        _step(told, ("go", manager, 0))
        told.out.discard(manager)
        if reading or told.world.tasks[manager] is None:
            return
    raise SpecsError(f"manager {manager} reads nothing where the spec does: {told.schedule}")


def _until_done(told: Story, manager: int) -> None:
    for _ in range(GO_MAX):
        if told.world.tasks[manager] is None:
            return
        _step(told, ("go", manager, 0))
        told.out.discard(manager)
    raise SpecsError(f"manager {manager} does not end where the spec does: {told.schedule}")


def _writes(seen: Behaviour) -> list[str]:
    """Return the base records in the order in which the behaviour writes them."""
    return [
        next(r for r, version in after["base"].items() if version != before["base"][r])
        for before, after in itertools.pairwise(seen.states)
        if before["base"] != after["base"]
    ]


def _scenario(asked: Configuration, seen: Behaviour, keys: dict[str, int], streams: int) -> Scenario:
    program, off = asked.constants["Program"], set(asked.constants["Off"])
    rows = {
        record: [programs.row(program, record, version, keys) for version in versions]
        for record, versions in sorted(seen.versions.items())
    }
    left = {record: iter(line[1:]) for record, line in rows.items()}
    order = [*_writes(seen), *(record for record, line in rows.items() for _ in line[1:])]
    at = {record: (programs.table(program, record), (key,)) for record, key in keys.items()}
    missing = object()
    writes = [(*at[record], next(left[record], missing)) for record in order]
    return Scenario(
        program=programs.real(program).program,
        policy=programs.policy_of(off),
        initial=tuple((*at[record], line[0]) for record, line in rows.items() if line[0]),
        writes=tuple(write for write in writes if write[2] is not missing),
        managers=len(asked.constants["Managers"]),
        streams=streams,
        flow_control=programs.FREE not in off,
    )


def _stream(told: Story, record: str) -> int:
    return stream_of(programs.table(told.program, record), (told.keys[record],), told.scenario.streams)


def text_of(told: Story) -> str:
    """Write it as a `.story` file for `cvs replay`, with the levels the judge finds."""
    view = programs.real(told.program).view
    named = [v for v in view_class(view).variants if v.policy == told.scenario.policy]
    found = next((v for v in named if v.program == told.scenario.program), None)
    if found is None:
        raise SpecsError(f"no program of view class {view} has this policy: the story has no file")
    story = suite_story.Story(
        view=view, program=found.name, scenario=told.scenario, schedule=tuple(told.schedule)
    )
    return suite_story.text_of(suite_story.with_levels(story))


def as_json(asked: Configuration, told: Story) -> dict[str, Any]:
    """Return the story, brought to its end and judged; its schedule is what `cvs.simulate.scheduler.replayed` takes."""
    shown = {key: list(map(_listed, states)) for key, states in told.shown.items()}
    told.world.finish()
    judgement = judged(told.world, view_class(programs.real(told.program).view))
    return {
        "question": asked.name,
        "asks": asked.question,
        "managers": told.scenario.managers,
        "streams": told.scenario.streams,
        "initial": told.scenario.initial,
        "writes": told.scenario.writes,
        "schedule": told.schedule,
        "shown": [[*key, states] for key, states in shown.items()],
        "record": judgement.record.value,
        "whole_view": judgement.view.value,
    }


def _listed(state: Any) -> Any:
    return sorted(state, key=repr) if isinstance(state, frozenset) else state


def simulated_shown(told: Story) -> dict[Any, list[Any]]:
    """Return what each view record showed in the simulator, each state different from the one before."""
    found: dict[Any, list[Any]] = {}
    value = programs.real(told.program).value
    for at, row in told.world.shown:
        first = told.world.initial.get(at.key)
        states = found.setdefault(at.key, [None if first is None else value(first)])
        now = None if row is None else value(row)
        if states[-1] != now:
            states.append(now)
    return found


def agrees(told: Story) -> bool:
    """Say whether the real programs showed what the spec showed, record by record, state by state."""
    real = simulated_shown(told)
    return all(real.get(key, states[:1]) == states for key, states in told.shown.items())
