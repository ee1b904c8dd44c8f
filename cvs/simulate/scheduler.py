"""The scheduler: one random instance decides every step; what it decided is the schedule.

A run is a function of (scenario, faults, seed): the same three give the same steps and the same history,
byte for byte. No threads, no sleep, no clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from cvs.simulate.epochs import EpochWorld
from cvs.simulate.world import Scenario, Step, World

STEPS_MAX = 5_000
"""Random steps before a run is brought to rest without faults: faults for ever would never settle."""

ASLEEP_MAX = 80
"""Picks for which a manager that was replaced does nothing: long enough for its heir to go far."""

EPOCH_SLEEP_MAX = 120
"""Picks for which a driver sleeps: long enough for another to commit some epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often (of 1,000 steps of a busy manager) each thing goes wrong; and how eager writers are."""

    crash: int = 0
    lose: int = 0
    drop: int = 0
    delay: int = 0
    takeover: int = 0
    checkpoint: int = 100
    eager: int = 200  # of 1,000 steps: writes rather than propagation; 1,000: all writes first

    @property
    def bounds(self) -> tuple[tuple[str, int], ...]:
        """Return the kinds with their running totals."""
        total, bounds = 0, []
        for kind in ("crash", "lose", "drop", "delay", "takeover"):
            total += getattr(self, kind)
            if getattr(self, kind):
                bounds.append((kind, total))
        return tuple(bounds)


CALM = Faults()
CRASHES = Faults(crash=30, lose=30, drop=20)
ZOMBIES = Faults(crash=20, lose=20, drop=10, delay=40, takeover=30)


class Scheduler:
    """Picks the next step of a world; `schedule` is what it picked and what had a meaning."""

    def __init__(self, world: World, faults: Faults, random: Random) -> None:
        self.world = world
        self.faults = faults
        self.random = random
        self.schedule: list[Step] = []
        self._bounds = faults.bounds
        self._asleep: dict[int, int] = {}  # managers thought dead, and the pick at which they wake up
        self._picks = 0

    def run(self) -> list[Step]:
        """Run until everything is settled; return the schedule."""
        world, schedule = self.world, self.schedule
        for _ in range(STEPS_MAX):
            step = self._next()
            if world.take(step):
                schedule.append(step)
                if step[0] == "takeover":
                    self._asleep[step[1]] = self._picks + int(self.random.random() * ASLEEP_MAX)
            elif world.settled:
                break
        world.finish()
        return schedule

    def _next(self) -> Step:
        world, random = self.world, self.random.random
        if world.written < len(world.scenario.writes) and random() * 1000 < self.faults.eager:
            return ("write", 0, 0)
        self._picks += 1
        manager = int(random() * len(world.tasks))
        if self._asleep.get(manager, 0) > self._picks:
            manager = (manager + 1) % len(world.tasks)
        if world.tasks[manager] is None:
            return self._idle(manager)
        if self._bounds:
            luck = random() * 1000
            for kind, bound in self._bounds:
                if luck < bound:
                    return (kind, manager, 0)
        return ("go", manager, 0)

    def _idle(self, manager: int) -> Step:
        world, random = self.world, self.random.random
        if world.store.in_flight and random() < 0.2:
            return ("arrive", int(random() * len(world.store.in_flight)), 0)
        if random() * 1000 < self.faults.checkpoint:
            return ("checkpoint", int(random() * len(world.positions)), 0)
        return ("take", manager, int(random() * 8))


def simulated(
    scenario: Scenario, faults: Faults, seed: int, *, record: bool = False
) -> tuple[World, list[Step]]:
    """Run one scenario to its end under one seed."""
    world = World(scenario, record=record)
    schedule = Scheduler(world, faults, Random(seed)).run()  # noqa: S311 -- because chance is replayed, not secret
    return world, schedule


def replayed(scenario: Scenario, schedule: Iterable[Step], *, record: bool = False) -> World:
    """Run one scenario along a schedule; steps without meaning are passed over."""
    world = World(scenario, record=record)
    for step in schedule:
        world.take(step)
    world.finish()
    return world


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFaults:
    """How often (of 1,000 requests of a driver) each thing goes wrong, and how eager writers and readers are."""

    crash: int = 10
    lose: int = 30
    drop: int = 20
    delay: int = 30
    sleep: int = 10
    arrive: int = 30
    write: int = 60
    copy: int = 60
    read: int = 100
    forget: int = 0  # only where the rule against it is off

    @property
    def bounds(self) -> tuple[tuple[str, float], ...]:
        """Return the kinds of steps with their running totals, as shares of one."""
        total, bounds = 0, []
        for kind in ("write", "copy", "read", "arrive", "crash", "lose", "drop", "delay", "sleep", "forget"):
            total += getattr(self, kind)
            bounds.append((kind, total / 1000))
        return tuple(bounds)


def simulated_epochs(world: EpochWorld, faults: EpochFaults, chance: Random) -> list[Step]:
    """Run a world of epochs to its end; return the schedule that had a meaning."""
    schedule: list[Step] = []
    asleep = [0] * len(world.drivers)
    for pick in range(STEPS_MAX):
        luck = chance.random()
        kind = next((kind for kind, bound in faults.bounds if luck < bound), "go")
        number = chance.randrange(len(world.drivers))
        if kind == "sleep":
            asleep[number] = pick + chance.randrange(EPOCH_SLEEP_MAX)
            continue
        awake = next(
            (n % len(asleep) for n in range(number, number + len(asleep)) if asleep[n % len(asleep)] <= pick),
            None,
        )
        if kind in ("write", "copy"):
            step: Step = (kind, 0, 0)
        elif kind in ("arrive", "read", "forget"):
            step = (kind, 0 if kind == "read" else chance.randrange(4), 0)
        elif awake is None:
            continue
        else:
            step = (kind, awake, chance.randrange(8))
        if world.take(step):
            schedule.append(step)
        if world.settled or world.broken:
            break
    world.finish()
    return schedule


def replayed_epochs(world: EpochWorld, schedule: Iterable[Step]) -> EpochWorld:
    """Run a world of epochs along a schedule."""
    for step in schedule:
        world.take(step)
    world.finish()
    return world
