"""The switches of per-entry mode: with one off, the suite must find the violation it is named for.

P1-P3 are paper 000's properties of a right maintainer: every update exactly once, its effect on a view
record all at once, and every base record's time-line kept.
"""

from dataclasses import dataclass
from random import Random
from typing import Literal

from cvs.model.levels import Level
from cvs.programs.machine import Row
from cvs.simulate.scheduler import CALM, Faults, simulated
from cvs.simulate.world import World
from cvs.suite.classes import view_class
from cvs.suite.judged import form, judged, view_of
from cvs.suite.rules import without
from cvs.suite.strategies import FaultSet, scenario

Violation = Literal["counted twice", "lost update", "resurrected record", "step back in time"]

UPDATES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One rule that can be turned off, the violation that then appears, and the property it protects."""

    name: str
    violation: Violation
    protects: str
    view: str
    faults: Faults
    managers: int = 2
    why: str


SWITCHES = (
    Switch(
        name="signature-check",
        violation="counted twice",
        protects="P1",
        view="count",
        faults=Faults(crash=100, checkpoint=50),
        why="a redelivered entry is absorbed again (paper 001, example 2)",
    ),
    Switch(
        name="unknown-resolution",
        violation="lost update",
        protects="P1",
        view="count",
        faults=Faults(drop=200),
        why="a request that never arrived is taken for applied",
    ),
    Switch(
        name="keeping-deleted-signatures",
        violation="resurrected record",
        protects="P1",
        view="projection-moving-key",
        faults=Faults(crash=60, delay=150, takeover=60, checkpoint=50),
        why="with the record its memory is gone: an old insert comes again and finds nothing against it",
    ),
    Switch(
        name="flow-control",
        violation="step back in time",
        protects="P3",
        view="top-2",
        faults=CALM,
        managers=3,
        why="a later version of a base record overtakes an earlier one (paper 001, example 3)",
    ),
)


def switch(name: str) -> Switch:
    """Return a switch by its name."""
    return next(s for s in SWITCHES if s.name == name)


def world_of(found: Switch, seed: int, *, off: bool) -> World:
    """Run the world a switch is tried in; with the rule on, only the rule differs."""
    shape = view_class(found.view)
    random = Random(f"{found.name}/{seed}")  # noqa: S311 -- because chance is replayed, not secret
    column = FaultSet(name="", faults=found.faults, managers=found.managers, streams=found.managers)
    made, faults = scenario(shape, shape.variants[0], column, random, updates=UPDATES)
    return simulated(without((found.name,) if off else (), made), faults, seed)[0]


def violations(world: World, found: Switch) -> frozenset[Violation]:
    """Name what went wrong in a run: at its end against the view of the last base state, or on its way."""
    shape = view_class(found.view)
    base: dict[str, list[Row]] = {
        table: list(world.store.base.get(table, {}).values()) for table in shape.domains
    }
    right = view_of(shape, base)
    shown = {key: form(row) for key, row in world.store.view().items()}
    seen: set[Violation] = set()
    if set(shown) - set(right):
        seen.add("resurrected record")
    if found.view == "count":
        rows = sum(len(found_rows) for found_rows in base.values())
        counted = sum(int(row["n"]) for row in world.store.view().values())
        seen |= {"counted twice"} if counted > rows else set()
        seen |= {"lost update"} if counted < rows else set()
    if not judged(world, shape).record.reaches(Level.STRONG):
        seen.add("step back in time")
    return frozenset(seen)
