"""From a behaviour of `Epoch.tla` to a schedule of the real drivers in the simulator, compared after every action.

What differs between two states tells the action. Drivers are those of `cvs/simulate/epochs.py` over two views: rows
counted by group, and groups counted.

spec action              steps of the simulator
PinNext                  the last driver does only this: go, go (read the control row, test-and-set), crash
Begin(d)                 none where it goes on from its own commit; else it reads the control row (after a crash)
Image, Bucket, Resolve   go: that read
Put, SetBucket, Commit   go; left behind: delay (it takes effect later) or drop (it never does)
Publish                  go: the put of that table
Stop                     none where its round was over: it stops by itself; else crash
Arrive                   arrive, if it takes effect
Forget                   forget
(what a pin takes)       write, as far as the spec's next pin goes, before a driver looks what there is to pin
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cvs.programs.epoch import CONTROL_TABLE
from cvs.programs.stage_bucket import ReadBucket, SetBucket
from cvs.programs.stage_delta import PutImages, ReadImages
from cvs.programs.stage_publish import PutRows
from cvs.simulate.epochs import EpochScenario, EpochWorld
from cvs.simulate.hazards import epoch_world
from cvs.simulate.world import Step
from cvs.suite import view_story as suite_story
from cvs.suite.user_views import UserViews, user_views
from tooling import behaviours, epoch_states, tlc
from tooling.behaviours import State
from tooling.epoch_states import ROWS, group_of, place_of
from tooling.manifest import Configuration
from tooling.tlc import SpecsError

SQL = """CREATE TABLE s.r (k int PRIMARY KEY, x text);
CREATE MATERIALIZED VIEW s.counts AS SELECT x, COUNT(*) AS n FROM s.r WHERE x IS NOT NULL GROUP BY x;
CREATE MATERIALIZED VIEW s.total AS SELECT COUNT(*) AS g FROM s.counts;
"""
RULES = {
    "epoch write time": "epoch-write-times",
    "equality": "stop-when-newer",
    "exact condition": "exact-condition",
    "permanent signature": "permanent-signatures",
    "pin": "pinned-input",
    "commit known": "resolve-unknown-commits",
    "publish before commit": "publish-before-commit",
    "before image": "images-before",
    "acknowledged": "puts-acknowledged",
}
"""Rule of the spec -> its name in `cvs/simulate/hazards.py`.

Not there: "combine": two test-and-sets of one bucket emit one change twice, which ends the epoch as impossible where
the spec goes on; `cvs suite --hazards` shows it with a self join.
"""

FREEDOMS = ("own pace", "row by row")
"""What tasks and Cassandra may do and the simulator does not: leave a round, put the rows of a request one by one."""

FEED = (("r1", "a"), ("r2", "a"), ("r1", "b"), ("r2", "b"))
DEPTH_MAX = 400
LASTING = "LastingInv"
SOURCE = """---- MODULE EpochStory ----
EXTENDS Epoch
\\* Nobody needs to do anything any more, and what is shown is wrong.
LastingInv == control.since = Entries /\\ late = {} =>
                \\A b \\in Buckets : published[b].value = ViewAt[Entries][b]
\\* A feed only grows: what is taken or pinned goes at least as far as what others took.
Reached == IF control'.until > 0 THEN control'.until ELSE control'.since
Grows ==
  /\\ \\A d, other \\in Drivers : driver[d].at = "start" /\\ driver'[d].e > 0 =>
       driver'[d].until >= control.until /\\ driver'[d].until >= driver[other].until
  /\\ control' # control => \\A d \\in Drivers : Reached >= driver[d].until
\\* The programs end where the spec counts below nothing.
Possible == \\A d \\in Drivers : driver[d].at \\in {"one", "two"} => \\A x \\in DOMAIN driver[d].left :
  driver[d].left[x].is = "set" =>
    driver[d].left[x].want[3].before + Entering(driver[d], x[1], x[2]) >= Leaving(driver[d], x[1], x[2])
====
"""


@dataclass(slots=True, kw_only=True)
class Story:
    """A schedule, the world it moved, and where spec and code first differ (empty: nowhere)."""

    user: UserViews
    scenario: EpochScenario
    without: tuple[str, ...]
    world: EpochWorld
    schedule: list[Step] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    late: list[Any] = field(
        default_factory=list
    )  # messages that will arrive, in the order of `world.in_flight`
    followed: dict[int, Any] = field(default_factory=dict)  # driver -> the control row it made itself
    difference: str = ""

    @property
    def pinner(self) -> int:
        """The driver that does nothing but pin."""
        return self.scenario.drivers - 1


def counter_example(jar: Path, asked: Configuration) -> tuple[State, ...]:
    """Find a behaviour that ends with wrong rows shown for good; if there is none, one that breaks the claim."""
    for claim in (LASTING, asked.expected):
        found = tlc.run(jar, "EpochStory", _cfg(asked, claim), source=SOURCE, claims=(claim,))
        if found.verdict == claim:
            return behaviours.printed(found.output)[1]
    raise SpecsError(f"{asked.name}: no behaviour found: {found.verdict}")


def random_ones(jar: Path, asked: Configuration, *, seed: int, number: int) -> list[tuple[State, ...]]:
    """Let TLC write random behaviours, each to its end."""
    options = (
        "-simulate",
        f"file=FOLDER/behaviour,num={number}",
        "-depth",
        str(DEPTH_MAX),
        "-seed",
        str(seed),
    )
    with TemporaryDirectory(prefix="cvs-behaviours-") as folder:
        tlc.run(jar, "EpochStory", _cfg(asked, None), source=SOURCE, options=options, keep=Path(folder))
        found = [behaviours.written(file.read_text()) for file in sorted(Path(folder).iterdir())]
    if len(found) != number:
        raise SpecsError(f"{asked.name}: {len(found)} behaviours written, {number} asked for")
    return found


def _cfg(asked: Configuration, claim: str | None) -> str:
    constants = {**asked.constants, "Off": sorted({*asked.constants["Off"], *FREEDOMS})}
    again = replace(asked, module="EpochStory", claims=(claim,) if claim else (), constants=constants)
    return again.cfg + "ACTION_CONSTRAINT Grows\nCONSTRAINT Possible\n"


def story(asked: Configuration, states: Sequence[State]) -> Story:
    """Drive the simulator along a behaviour and note the schedule; stop where the two differ."""
    off = set(asked.constants["Off"]) - set(FREEDOMS)
    if off - set(RULES):
        raise SpecsError(f"{asked.name}: no world of the simulator is without {sorted(off - set(RULES))}")
    user = user_views(SQL)
    writes = tuple(("s.r", (ROWS[row],), {"k": ROWS[row], "x": group_of(to)}) for row, to in FEED)
    scenario = EpochScenario(
        plan=user.plan,
        writes=writes[: asked.constants["Entries"]],
        drivers=len(asked.constants["Drivers"]) + 1,
        readers=1,
        copies=False,
    )
    without = tuple(sorted(RULES[rule] for rule in off))
    told = Story(
        user=user, scenario=scenario, without=without, world=epoch_world(replace(scenario, off=without))
    )
    for number in range(len(states) - 1):
        action = _act(told, states[number:], pin="pin" not in off)
        told.actions.append(action)
        told.difference = _difference(told, action, states[number + 1])
        if told.difference:
            break
    for name, driver in sorted(states[-1]["driver"].items()):
        if driver["at"] != "start":  # who sleeps at the end of a behaviour sleeps for ever
            _step(told, "crash", _number(name))
    return told


def _difference(told: Story, action: str, state: State) -> str:
    real = epoch_states.seen(told.world)
    for name, value in real.items():
        if value != state[name]:
            return (
                f"after {len(told.actions)} actions ({action}) {name} is {value}, in the spec {state[name]}"
            )
    return ""


def _number(driver: str) -> int:
    return int(driver[1:]) - 1


def _act(told: Story, states: Sequence[State], *, pin: bool) -> str:
    """Do what the spec did between the first two states; return the name of the action."""
    before, after = states[:2]
    gone, left = before["late"] - after["late"], after["late"] - before["late"]
    who = next((d for d in sorted(before["driver"]) if before["driver"][d] != after["driver"][d]), None)
    if gone:
        (message,) = gone
        if message in told.late:
            _step(told, "arrive", told.late.index(message))
            told.late.remove(message)
        return "Arrive"
    kind = "go"
    if left:
        (message,) = left
        arrives = _takes_effect(message, states)
        kind = "delay" if arrives else "drop"
        told.late += [message] if arrives else []
        if who is None:
            who, row = _putter(before, dict(message))
            return _item(told, _number(who), before["driver"][who], before["driver"][who], kind, row)
    if who is None:
        return _nobody(told, before, after)
    my, now, number = before["driver"][who], after["driver"][who], _number(who)
    if now["at"] == "commit":
        _write_for(told, who, states[1:])
    if my["at"] == "start":
        _begin(told, number, before["control"], 0 if pin else now["until"])
        return "Begin"
    if my["at"] == "commit":
        _step(told, kind, number, _place(told, number, _is_set(CONTROL_TABLE, 0)))
        told.followed[number] = after["control"]
        return "Commit"
    if my["at"] == "unknown":
        _step(told, "go", number)
        return "Resolve"
    if now["at"] == "start" and any(item["is"] == "stop" for item in dict(my["left"]).values()):
        if not _reads_control(told, number):
            _step(told, "crash", number)
        return "Stop"
    return _item(told, number, my, now, kind)


def _nobody(told: Story, before: State, after: State) -> str:
    """Do what no driver of the spec does."""
    if before["control"] != after["control"]:
        _write_to(told, after["control"]["until"])
        for kind in ("go", "go", "crash"):
            _step(told, kind, told.pinner)
        return "PinNext"
    (bucket,) = [b for b in before["state"] if before["state"][b] != after["state"][b]]
    _step(told, "forget", epoch_states.forgettable(told.world).index(place_of(told.world, bucket)))
    return "Forget"


def _begin(told: Story, number: int, control: State, taken: int) -> None:
    _write_to(told, taken)
    driver = told.world.drivers[number]
    images = bool(driver.requests) and all(isinstance(r, ReadImages) for r in driver.requests)
    if images and not driver.answers and told.followed.get(number) == control:
        return
    if not _reads_control(told, number):
        _step(told, "crash", number)
    _step(told, "go", number)
    if not all(isinstance(r, ReadImages) for r in told.world.drivers[number].requests):
        _step(told, "crash", number)  # because it still had something to publish
        _step(told, "go", number)


def _reads_control(told: Story, number: int) -> bool:
    """Say whether a driver is about to read the control row."""
    requests = told.world.drivers[number].requests
    return len(requests) == 1 and isinstance(requests[0], ReadBucket) and requests[0].table == CONTROL_TABLE


def _item(told: Story, number: int, my: State, now: State, kind: str, item: Any = None) -> str:
    """Send the one request that brought an item of the driver's stage further (or, named, did not)."""
    left, after = dict(my["left"]), dict(now["left"])
    item = item or next(x for x in left if now["at"] != my["at"] or after.get(x) != left[x])
    action, wanted = _request_of(told, my["at"], item, left[item]["is"])
    stops = told.world.stops
    _step(told, kind, number, _place(told, number, wanted))
    must = not now["open"] and any(x["is"] == "stop" for x in after.values())
    if must != (told.world.stops > stops):
        raise SpecsError(
            f"driver {number} {'goes on' if must else 'stops'} where the spec does not: {told.schedule}"
        )
    return action


def _request_of(told: Story, at: str, item: Any, does: str) -> tuple[str, Callable[[Any], bool]]:
    """Name the action, and how its request is known among those of the driver's round."""
    if at == "delta":
        kind, bucket = (ReadImages if does == "read" else PutImages), epoch_states.delta_bucket(item)
        return ("Image" if does == "read" else "Put"), lambda r: isinstance(r, kind) and r.bucket == bucket
    if at == "publish":
        table = "s.total" if item == frozenset({"t"}) else "s.counts"
        return "Publish", lambda r: isinstance(r, PutRows) and r.publication == table
    place = place_of(told.world, item[0])
    return ("SetBucket", _is_set(*place)) if does == "set" else ("Bucket", _is_read(*place))


def _is_set(table: str, bucket: int) -> Callable[[Any], bool]:
    return lambda r: isinstance(r, SetBucket) and (r.table, r.bucket) == (table, bucket)


def _is_read(table: str, bucket: int) -> Callable[[Any], bool]:
    return lambda r: isinstance(r, ReadBucket) and (r.table, r.bucket) == (table, bucket)


def _place(told: Story, number: int, wanted: Callable[[Any], bool]) -> int:
    """Return which of a driver's unanswered requests it is."""
    driver = told.world.drivers[number]
    unanswered = [r for i, r in enumerate(driver.requests) if i not in driver.answers]
    for place, request in enumerate(unanswered):
        if wanted(request):
            return place
    raise SpecsError(f"driver {number} asks for {unanswered} where the spec does not: {told.schedule}")


def _step(told: Story, kind: str, which: int, choice: int = 0) -> None:
    step = (kind, which, choice)
    if not told.world.take(step):
        raise SpecsError(f"the simulator cannot do {step} after {told.schedule}: spec and code diverge")
    told.schedule.append(step)


def _putter(before: State, message: State) -> tuple[str, str]:
    """Return a driver that has this put to send, and its row: a put that times out leaves its driver as it was."""
    row = message["row"]
    return next(
        (name, row)
        for name, my in sorted(before["driver"].items())
        if my["e"] == message["e"] and row in my["open"] and my["left"][row]["is"] == "put"
    )


def _takes_effect(message: Any, states: Sequence[State]) -> bool:
    for before, after in itertools.pairwise(states[1:]):
        if message in before["late"] and message not in after["late"]:
            return any(before[name] != after[name] for name in ("control", "delta", "state"))
    return False


def _write_to(told: Story, position: int) -> None:
    while told.world.written < position:
        _step(told, "write", 0)


def _write_for(told: Story, who: str, states: Sequence[State]) -> None:
    """Write what the driver's commit pins next: it computes that before it asks, and asks the same again.

    What the commit of another, or nobody's, overtakes need not be there.
    """
    for number, (before, after) in enumerate(itertools.pairwise(states)):
        was, now = before["driver"][who]["at"], after["driver"][who]["at"]
        if was == "commit" != now:
            left = after["late"] - before["late"]
            if not left:
                moved = before["control"] != after["control"]
                return _write_to(told, after["control"]["until"] if moved else 0)
            (message,) = left
            if now != "unknown" or _takes_effect(message, states[number:]):
                return _write_to(told, dict(message)["until"])
        elif was == "unknown" and now not in ("unknown", "commit"):
            return None
    return None


def view_story(told: Story) -> suite_story.ViewStory:
    """Return it as a story of views, with the levels the judge finds."""
    return suite_story.with_levels(
        suite_story.ViewStory(
            user=told.user, scenario=told.scenario, schedule=tuple(told.schedule), without=told.without
        )
    )


def text_of(told: Story) -> str:
    """Write it as a `.story` file for `cvs replay`."""
    return suite_story.text_of(view_story(told))


def as_json(asked: Configuration, told: Story) -> dict[str, Any]:
    """Return the story as a file."""
    return {
        "question": asked.name,
        "asks": asked.question,
        "without": told.without,
        "actions": told.actions,
        "schedule": told.schedule,
        "agrees": not told.difference,
        "difference": told.difference,
    }
