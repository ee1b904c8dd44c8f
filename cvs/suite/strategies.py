"""What worlds are made of: fault sets, base rows and updates of a view class, all from one random instance."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from cvs.programs.machine import Row
from cvs.simulate.scheduler import CALM, CRASHES, ZOMBIES, Faults
from cvs.simulate.world import Scenario, Write
from cvs.suite.classes import Variant, ViewClass


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSet:
    """A column of the level table."""

    name: str
    faults: Faults
    managers: int
    streams: int
    flow_control: bool = True
    meaning: str = ""


FAULT_SETS = (
    FaultSet(name="late", faults=CALM, managers=1, streams=1, meaning="one manager, behind the base"),
    FaultSet(name="concurrent", faults=CALM, managers=3, streams=3, meaning="three managers, three streams"),
    FaultSet(
        name="crashes",
        faults=CRASHES,
        managers=3,
        streams=3,
        meaning="and crashes, redelivery, lost answers and requests",
    ),
    FaultSet(
        name="zombies",
        faults=ZOMBIES,
        managers=3,
        streams=3,
        meaning="and late requests, and managers replaced while they still work",
    ),
    FaultSet(
        name="unordered",
        faults=CALM,
        managers=3,
        streams=3,
        flow_control=False,
        meaning="three managers without flow control",
    ),
)


def fault_set(name: str) -> FaultSet:
    """Return a fault set by its name."""
    return next(f for f in FAULT_SETS if f.name == name)


def scenario(
    shape: ViewClass, variant: Variant, faults: FaultSet, random: Random, *, updates: int
) -> tuple[Scenario, Faults]:
    """Make a world of a view class; writers are sometimes far ahead of the managers, sometimes not."""
    keys = 2 if len(shape.domains) > 1 else 3
    initial = tuple(_initial(shape, random, keys))
    rows = {(table, key): row for table, key, row in initial}
    writes = tuple(update_of(shape, random, rows, keys) for _ in range(updates))
    eager = random.choice((100, 300, 900))
    kinds = {name: getattr(faults.faults, name) for name in ("crash", "lose", "drop", "delay", "takeover")}
    made = Scenario(
        program=variant.program,
        policy=variant.policy,
        initial=initial,
        writes=writes,
        managers=faults.managers,
        streams=faults.streams,
        flow_control=faults.flow_control,
        remember=random.random() < 0.5,
        definition=shape.recorded_definition,
        tables=tuple(shape.tables.values()),
    )
    return made, Faults(**kinds, eager=eager)


def _initial(shape: ViewClass, random: Random, keys: int) -> list[Write]:
    parents: list[Write] = []
    if shape.constrained:
        parents = [("s", (k,), _row(shape, "s", k, random)) for k in range(1, keys + 1)]
    tables = [t for t in shape.domains if not (shape.constrained and t == "s")]
    others: list[Write] = [
        (table, (k,), _row(shape, table, k, random))
        for table in tables
        for k in range(1, keys + 1)
        if random.random() < 0.3
    ]
    return parents + others


def _row(shape: ViewClass, table: str, key: Any, random: Random) -> Row:
    drawn = {name: random.choice(domain) for name, domain in shape.domains[table].items()}
    return {"k": key, **drawn}


def update_of(
    shape: ViewClass, random: Random, rows: dict[tuple[str, Any], Mapping[str, Any] | None], keys: int
) -> Write:
    """Insert, delete or change one column of one row; the row as it will be then is kept in `rows`."""
    table = random.choice(tuple(shape.domains))
    key = (random.randint(1, keys),)
    now = rows.get((table, key))
    parent = shape.constrained and table == "s"
    if now is None:
        after: Row | None = _row(shape, table, key[0], random)
    elif random.random() < 0.3 and not parent:
        after = None
    else:
        name = random.choice(tuple(shape.domains[table]))
        after = {**now, name: random.choice(shape.domains[table][name])}
    rows[table, key] = after
    return table, key, after
