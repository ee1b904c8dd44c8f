"""The hazards of PROTOCOL.md, each a switch: with its rule off the named violation is found, with all on none.

P1-P3 are paper 000's properties of a right maintainer: every update exactly once, its effect on the view all at
once, every base record's time-line kept. What is no matter of interleaving is tested elsewhere; `ELSEWHERE` says
where, and a test looks whether it is there.
"""

from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Literal

from cvs.model.levels import Level
from cvs.model.recompute import recompute_all
from cvs.programs.machine import Row
from cvs.simulate.epochs import EpochWorld
from cvs.simulate.hazards import epoch_world
from cvs.simulate.scheduler import EpochFaults, simulated_epochs
from cvs.suite.user_views import UserViews, Workload, epoch_scenario, judged_view, user_views

HazardViolation = Literal[
    "counted wrong",
    "lost record",
    "resurrected record",
    "wrong record",
    "step back in time",
    "torn snapshot",
    "stuck",
    "impossible state",
]

UPDATES = 10

TABLES = """
CREATE TABLE s.r (k int PRIMARY KEY, x text, y int);
"""
COUNTED = "CREATE MATERIALIZED VIEW s.v AS SELECT x, COUNT(*) AS n FROM s.r WHERE x IS NOT NULL GROUP BY x;"
PAIRED = "CREATE MATERIALIZED VIEW s.v AS SELECT a.k AS k, b.k AS l FROM s.r a JOIN s.r b ON a.x = b.x;"
WHOLE = "CREATE MATERIALIZED VIEW s.v AS SELECT k, x, y FROM s.r;"
COPIED = "CREATE MATERIALIZED VIEW s.v AS SELECT k, x FROM s.r;"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """One rule that can be turned off, the hazards it closes, the violation that then appears, what it protects."""

    rule: str  # its name in `simulate.hazards`
    closes: str
    violation: HazardViolation
    protects: str
    why: str
    sql: str = COUNTED
    copies: bool = True
    half_repaired: bool = False
    apart: bool = False
    faults: EpochFaults = EpochFaults()  # noqa: RUF009 -- because it is frozen


ZOMBIES = EpochFaults(sleep=40, crash=0, delay=0, lose=0, drop=0, write=100)
DYING = EpochFaults(crash=40, sleep=20, write=100)
LATE = EpochFaults(delay=120, arrive=15, sleep=0, crash=0, write=100)

HAZARDS = (
    Hazard(
        rule="signatures",
        closes="all",
        violation="counted wrong",
        protects="P1",
        faults=DYING,
        why="a replayed epoch is absorbed again (paper 001, example 2)",
    ),
    Hazard(
        rule="epoch-write-times",
        closes="H1",
        violation="wrong record",
        protects="P3",
        faults=ZOMBIES,
        why="a zombie's put is the newest by wall clock and sets DELTA back",
    ),
    Hazard(
        rule="stop-when-newer",
        closes="H2",
        violation="counted wrong",
        protects="P1",
        faults=ZOMBIES,
        why="a zombie takes the state of a later epoch for that before its own",
    ),
    Hazard(
        rule="exact-condition",
        closes="H3",
        violation="counted wrong",
        protects="P1",
        faults=EpochFaults(sleep=80, crash=0, delay=0, lose=0, drop=0, write=60),
        why="a zombie's test-and-set meets a condition that no longer tells what it read",
    ),
    Hazard(
        rule="pinned-input",
        closes="H4",
        violation="counted wrong",
        protects="P1",
        faults=DYING,
        why="a replay takes what came since, and the next epoch takes it again",
    ),
    Hazard(
        rule="positions-in-the-control-row",
        closes="H5",
        violation="counted wrong",
        protects="P1",
        copies=False,
        faults=DYING,
        why="positions live in the driver's checkpoint; a lost one goes on from the newest",
    ),
    Hazard(
        rule="one-test-and-set-a-bucket",
        closes="H6",
        violation="stuck",
        protects="P1",
        sql=PAIRED,
        faults=DYING,
        why="the second of two test-and-sets of an epoch finds its epoch done; the check of replays stops it for ever",
    ),
    Hazard(
        rule="last-chunk-decides",
        closes="H7",
        violation="stuck",
        protects="P1",
        sql=PAIRED,
        faults=DYING,
        why="after a crash between two chunks the first counts as all; the check of replays stops it for ever",
    ),
    Hazard(
        rule="no-cache-of-rows",
        closes="H8",
        violation="counted wrong",
        protects="P1",
        faults=ZOMBIES,
        why="a driver answers itself from rows it read before another driver wrote them",
    ),
    Hazard(
        rule="resolve-unknown-commits",
        closes="H10",
        violation="counted wrong",
        protects="P1",
        faults=EpochFaults(drop=150, crash=40, write=100),
        why="a commit that never arrived is taken for done, and the next epoch runs on a pin nobody has",
    ),
    Hazard(
        rule="state-before-the-epoch",
        closes="H11",
        violation="counted wrong",
        protects="P1",
        faults=DYING,
        why="a driver that goes on after a chunk computes from rows the epoch has changed",
    ),
    Hazard(
        rule="row-liveness-kept",
        closes="H15",
        violation="lost record",
        protects="P1",
        sql=COPIED,
        faults=EpochFaults(),
        why="a row whose columns are all null exists by its liveness alone",
    ),
    Hazard(
        rule="deletions-kept",
        closes="H16",
        violation="step back in time",
        protects="P3",
        sql=COPIED,
        faults=EpochFaults(copy=15, write=100),
        why="a late copy of an older write finds no deletion against it",
    ),
    Hazard(
        rule="read-the-epoch-again",
        closes="H20, H21",
        violation="torn snapshot",
        protects="P2",
        faults=EpochFaults(read=60, write=300, sleep=0, crash=0, delay=0),
        why="a slow reader puts together rows of different epochs",
    ),
    Hazard(
        rule="deadline",
        closes="H27",
        violation="resurrected record",
        protects="P3",
        sql=COPIED,
        faults=LATE,
        why="a put arrives after the deletion that hid it was purged",
    ),
    Hazard(
        rule="publish-before-commit",
        closes="H30",
        violation="wrong record",
        protects="P1",
        faults=DYING,
        why="what a driver did not get to after its commit nobody publishes",
    ),
    Hazard(
        rule="serial-read-of-what-is-done",
        closes="H28",
        violation="stuck",
        protects="P1",
        faults=EpochFaults(lose=120, crash=30, sleep=20, write=100),
        half_repaired=True,
        why="a replay finds the new signature beside old rows; the check of replays stops it for ever",
    ),
    Hazard(
        rule="nobody-else-writes",
        closes="H29",
        violation="counted wrong",
        protects="P1",
        why="a row that somebody else wrote by wall clock hides what epochs write to it",
    ),
    Hazard(
        rule="permanent-signatures",
        closes="H3",
        violation="counted wrong",
        protects="P1",
        faults=EpochFaults(forget=100, sleep=40, crash=0, delay=0, lose=0, drop=0, write=100),
        why="a bucket that was collected looks untouched: a zombie fills it again",
    ),
    Hazard(
        rule="images-before",
        closes="PROTOCOL 3",
        violation="counted wrong",
        protects="P1",
        faults=DYING,
        why="a replay finds its rows in DELTA already and emits no change",
    ),
    Hazard(
        rule="puts-acknowledged",
        closes="PROTOCOL 3",
        violation="counted wrong",
        protects="P1",
        faults=EpochFaults(drop=120, crash=0, sleep=0, write=100),
        why="a put that never arrived is taken for done: the next change finds an older image",
    ),
    Hazard(
        rule="write-time-line",
        closes="H12",
        violation="step back in time",
        protects="P3",
        sql=WHOLE,
        copies=False,
        apart=True,
        faults=EpochFaults(write=120, copy=150),
        why="logs of two replicas are taken as they come: a row has a write and not the one before it",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A hazard that the simulator has no switch for: where its rule is shown to matter instead."""

    hazard: str
    why: str
    where: tuple[str, ...]


ELSEWHERE = (
    Elsewhere(
        hazard="H9",
        why="what is durable is a matter of the feed: only durable positions are heads",
        where=("tests/unit/capture/test_tail.py", "tests/unit/capture/test_folder.py"),
    ),
    Elsewhere(
        hazard="H13, H14, H17",
        why="laws of DELTA's merge and of liveness as a function of (cell, clock)",
        where=("tests/unit/programs/test_delta.py",),
    ),
    Elsewhere(hazard="H18, H19, H23", why="builds and rebuilds", where=("specs/README.md",)),
    Elsewhere(
        hazard="H22", why="no promise: plain CQL below QUORUM may step back", where=("cvs/client/README.md",)
    ),
    Elsewhere(
        hazard="H24", why="quarantine is pinned; nothing fills it yet", where=("cvs/stream/README.md",)
    ),
    Elsewhere(hazard="H25", why="sums and canonical keys", where=("property_tests/test_model_values.py",)),
    Elsewhere(
        hazard="H26",
        why="the sentinel: what a condition walks is the cost of a read, not its answer",
        where=("tests/store/contract.py", "specs/README.md"),
    ),
)


def hazard(rule: str) -> Hazard:
    """Return a switch by the name of its rule."""
    return next(h for h in HAZARDS if h.rule == rule)


@cache
def _views(sql: str) -> UserViews:
    return user_views(TABLES + sql)


def run(found: Hazard, seed: int, *, off: bool) -> EpochWorld:
    """Run the world a switch is tried in; with the rule on, only the rule differs."""
    random = Random(f"{found.rule}/{seed}")  # noqa: S311 -- because chance is replayed, not secret
    user = _views(found.sql)
    scenario = epoch_scenario(user, Workload(user), random, updates=UPDATES)
    scenario = replace(
        scenario,
        drivers=2,
        copies=found.copies,
        half_repaired=found.half_repaired,
        apart=found.apart,
        off=(found.rule,) if off else (),
    )
    world = epoch_world(scenario)
    simulated_epochs(world, found.faults, random)
    return world


def violations(world: EpochWorld, found: Hazard) -> frozenset[HazardViolation]:
    """Name what went wrong in a run."""
    user = _views(found.sql)
    (view,) = user.views
    base: dict[str, list[Row]] = {
        "s.r": [line.rows[-1] for line in world.timelines.values() if line.rows[-1]]
    }
    names = [name for name, _ in user.publication(view).columns]
    right = {
        tuple(row[name] for name in user.publication(view).key): tuple(row[name] for name in names)
        for row in recompute_all([view.definition], base, user.tables)[view.name].values()
    }
    shown = dict(world.door.showing(user.publication(view).table))
    seen: set[HazardViolation] = set()
    if world.broken:
        seen.add("stuck" if "never come to rest" in world.broken else "impossible state")
    if shown.keys() - right.keys():
        seen.add("resurrected record")
    if right.keys() - shown.keys():
        seen.add("lost record")
    if any(shown[key] != right[key] for key in shown.keys() & right.keys()):
        seen.add("wrong record")
    if seen and found.sql == COUNTED:
        seen.add("counted wrong")
    judgement = judged_view(world, user, view)
    if not judgement.record.reaches(Level.STRONG):
        seen.add("step back in time")
    if not judgement.view.reaches(Level.STRONG):
        seen.add("torn snapshot")
    return frozenset(seen)


def hazard_markdown() -> str:
    """Return both tables as the README holds them."""
    lines = ["| rule off | hazard | violation found | protects | why |", "|---|---|---|---|---|"]
    lines += [f"| `{h.rule}` | {h.closes} | {h.violation} | {h.protects} | {h.why} |" for h in HAZARDS]
    lines += ["", "| no switch here | why | where |", "|---|---|---|"]
    lines += [f"| {e.hazard} | {e.why} | {', '.join(f'`{w}`' for w in e.where)} |" for e in ELSEWHERE]
    return "\n".join(lines)
