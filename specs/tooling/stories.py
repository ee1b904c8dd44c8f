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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.history.events import TestAndSetCalled
from cvs.model.views import AggregateFunction
from cvs.programs.aggregate import Aggregated, AggregateProgram
from cvs.programs.machine import Policy
from cvs.programs.rows import column
from cvs.simulate.world import Scenario, Step, World, stream_of
from tooling import tlc
from tooling.manifest import Configuration
from tooling.tlc import SpecsError
from tooling.values import parsed

FUNCTIONS = {"count": AggregateFunction.COUNT, "sum": AggregateFunction.SUM, "min": AggregateFunction.MIN}
POLICIES = {"signature": "signature_check", "permanent signature": "keep_deleted"}
GO_MAX = 50  # pauses until a manager sends something; a program has fewer
STREAMS = 2
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

    scenario: Scenario
    schedule: list[Step] = field(default_factory=list)
    shown: dict[str, list[int | None]] = field(default_factory=dict)
    world: World


def behaviour(jar: Path, asked: Configuration, *, seed: int | None) -> Behaviour:
    """Find a counter-example of a configuration; with a seed, a random run that ends well."""
    off = sorted({*asked.constants["Off"], *OWNED})
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
    actions, states = [], []
    for head, body in re.findall(
        r"^State \d+: <(\w+)[^>]*>\n((?:(?!\n\n).)*)", output, re.DOTALL | re.MULTILINE
    ):
        actions.append(head)
        parts = re.split(r"(?:^|\n)/\\ (\w+) = ", "\n" + body)[1:]
        states.append({name: parsed(value) for name, value in zip(parts[::2], parts[1::2], strict=True)})
    return Behaviour(actions=tuple(actions), states=tuple(states), versions=versions)


def story(asked: Configuration, seen: Behaviour) -> Story:
    """Drive the simulator along a behaviour and note the schedule."""
    scenario = _scenario(asked, seen)
    told = Story(scenario=scenario, world=World(scenario, record=True))
    for _ in scenario.writes:
        _step(told, ("write", 0, 0))
    late: list[Any] = []
    for number, action in enumerate(seen.actions[1:]):
        _act(told, action, seen.states[number:], late)
    told.shown = {k: [s[0] if s else None for s in states] for k, states in seen.states[-1]["shown"].items()}
    return told


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
        _step(told, ("take", m, 0))
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


def _scenario(asked: Configuration, seen: Behaviour) -> Scenario:
    program = asked.constants["Program"]
    policy = {POLICIES[rule]: False for rule in asked.constants["Off"] if rule in POLICIES}
    if program not in FUNCTIONS or len(policy) != len(asked.constants["Off"]):
        raise SpecsError(f"{asked.name}: no simulator program or policy for it")
    keys = {"r1": _key_of_stream(0), "r2": _key_of_stream(1)}
    lines = {r: [_row(v) for v in versions] for r, versions in seen.versions.items()}
    argument = None if program == "count" else column("y")
    aggregate = Aggregated(name=program, function=FUNCTIONS[program], argument=argument)
    return Scenario(
        program=AggregateProgram(
            view="v", table="r", group=(("x", column("x")),), aggregates=(aggregate,)
        ),
        policy=Policy(**policy),
        initial=tuple(("r", (keys[r],), rows[0]) for r, rows in sorted(lines.items()) if rows[0]),
        writes=tuple(("r", (keys[r],), row) for r, rows in sorted(lines.items()) for row in rows[1:]),
        managers=len(asked.constants["Managers"]),
        streams=STREAMS,
    )  # fmt: skip


def _key_of_stream(stream: int) -> int:
    return next(k for k in range(1, 1000) if stream_of("r", (k,), STREAMS) == stream)


def _row(version: Any) -> dict[str, Any] | None:
    return None if version["x"] == "-" else dict(version)


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
        "shown": told.shown,
    }


def simulated_shown(world: World) -> dict[str, list[int | None]]:
    """Return what each view record showed in the simulator, each state different from the one before."""
    found: dict[str, list[int | None]] = {}
    for at, row in world.shown:
        key = str(at.key[0])
        states = found.setdefault(key, [_value_of(world.initial.get(at.key))])
        value = _value_of(row)
        if states[-1] != value:
            states.append(value)
    return found


def _value_of(row: Any) -> int | None:
    return None if row is None else next(value for name, value in row.items() if name != "x")


def agrees(told: Story) -> bool:
    """Say whether the real programs showed what the spec showed, record by record, state by state."""
    real = simulated_shown(told.world)
    return all(real.get(key, states) == states for key, states in told.shown.items())
