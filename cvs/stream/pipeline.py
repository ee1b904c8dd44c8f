"""The pipeline: one driver over one control row: pin, run, commit, again.

It can be killed at any line. What it needs to go on lies in the control row and in the feed; what it left half
done is done again under the same pin, and comes out the same.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import structs

from cvs.capture.changes import Change, TableDefinition
from cvs.capture.feed import Feed
from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import Control, Deadline, Pin, check_ours, commit, next_pin, pin_next, read_control
from cvs.programs.epoch_run import EpochResult, Program, run_epoch
from cvs.programs.stage_bucket import ALL_RULES, Rules, drive
from cvs.store.session import CassandraSession
from cvs.stream.bases import delta_input
from cvs.stream.door import CassandraDoor
from cvs.stream.recipe import Recipe
from cvs.stream.tasks import run_spread

CHANGES_AN_EPOCH = 20_000
"""How much one epoch takes: what bounds a driver's memory whatever the input rate."""
SPREAD_FROM = 5_000
"""Changes from which an epoch is worth Spark's tasks: below, a job costs more than the epoch."""
HEARTBEAT_SECONDS = 1.0
FEED_PAGE = 5_000


class Watcher(Protocol):
    """Who wants to know of each epoch: the recorder, the status page, a bench."""

    def running(self, control: Control) -> None:
        """An epoch is about to be run, or run again."""

    def ran(self, control: Control, result: EpochResult) -> None:
        """An epoch ran and is about to be committed."""

    def committed(self, control: Control) -> None:
        """The epoch is committed."""


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """A recipe, the feed it follows, and the door to its tables."""

    recipe: Recipe
    feed: Feed
    session: CassandraSession
    watchers: list[Watcher] = field(default_factory=list)
    monotonic: Callable[[], float] = time.monotonic
    rules: Rules = ALL_RULES
    changes_an_epoch: int = CHANGES_AN_EPOCH
    spread: Any = None  # runs slices in Spark tasks; None: every epoch runs in this process
    spread_from: int = SPREAD_FROM
    spread_slices: int = 2
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    program: Program = field(init=False)
    door: CassandraDoor = field(init=False)
    control: Control | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _known: "_Known" = field(init=False)
    _last_pin: float = 0.0

    def __post_init__(self) -> None:
        """Make the plan ready; nothing is sent yet."""
        self.program = self.recipe.program()
        self.door = self.recipe.door(self.session)
        self._known = _Known(self.feed, self.recipe.definitions)

    def start(self) -> Control:
        """Read the control row; a pinned epoch of other code is refused (H4)."""
        self.control = drive(read_control(), self.door)
        self._check(self.control)
        return self.control

    def step(self) -> EpochResult | None:
        """Run one epoch if there is one to run; None: nothing to do."""
        control = self.control or self.start()
        if not control.pinned:
            following = self.next_pin(control.pin)
            if following is None:
                return None
            control = self.control = drive(pin_next(control, following), self.door)
            self._check(control)
            if not control.pinned:
                return None
        for watcher in self.watchers:
            watcher.running(control)
        result = self._run(control.pin)
        for watcher in self.watchers:
            watcher.ran(control, result)
        started = self.monotonic()
        self.control = drive(commit(control, self.next_pin(control.pin)), self.door)
        self._took("commit", started)
        self._check(self.control)
        if self.control.committed > control.pin.epoch:
            raise StaleDriverError(
                f"epoch {control.pin.epoch} was committed by another driver, which is at {self.control.committed}"
            )
        for watcher in self.watchers:
            watcher.committed(self.control)
        self.feed.hold(self.recipe.names.keyspace, control.pin.until)
        return result

    def drain(self, *, seconds: float = 60.0) -> int:
        """Run epochs until there is nothing to do; return how many."""
        end, count = self.monotonic() + seconds, 0
        while self.monotonic() < end and self.step() is not None:
            count += 1
        return count

    def _run(self, pin: Pin) -> EpochResult:
        deadline = Deadline(read_at=self.monotonic())
        self.door.check = lambda: deadline.check(self.monotonic())
        started = self.monotonic()
        changes = delta_input(read_pinned(self.feed, pin), self._known)
        self._took("feed", started)
        started = self.monotonic()
        size = sum(stop - pin.since.get(stream, 0) for stream, stop in pin.until.items())
        if self.spread is not None and size >= self.spread_from:
            spread, slices = self.spread, self.spread_slices
            result = run_spread(self.recipe, pin, changes, door=self.door, spread=spread, slices=slices)
        else:
            result = drive(run_epoch(self.program, pin, changes, rules=self.rules), self.door)
        self._took("epoch", started)
        return result

    def _check(self, control: Control) -> None:
        check_ours(control, incarnation=self.recipe.names.incarnation, plan=self.recipe.hash)

    def next_pin(self, last: Pin) -> Pin | None:
        """Return the pin for what the feed has beyond the last one; None if that is nothing."""
        heads = {stream: self.feed.head(stream) for stream in self.feed.streams()}
        found = next_pin(
            last,
            heads={stream: head.position for stream, head in heads.items()},
            watermark=min((head.clock for head in heads.values()), default=0),
            limit=self.changes_an_epoch,
        )
        if found is None:
            return None
        resting = found.until == found.since and self.monotonic() - self._last_pin < self.heartbeat_seconds
        if resting:
            return None  # because moving the clock alone is worth an epoch only now and then
        self._last_pin = self.monotonic()
        incarnation = self.recipe.names.incarnation
        return structs.replace(found, plan=self.recipe.hash, incarnation=incarnation, first=found.epoch == 1)

    def _took(self, what: str, started: float) -> None:
        self.seconds[what] = self.seconds.get(what, 0.0) + self.monotonic() - started


def read_pinned(feed: Feed, pin: Pin) -> Iterable[Change]:
    """Read exactly the changes an epoch is made of."""
    for stream in sorted(pin.until):
        position, end = pin.since.get(stream, 0), pin.until[stream]
        while position < end:
            found = feed.read(stream, position, min(FEED_PAGE, end - position))
            assert found, f"stream {stream} ends at {position}, but {end} is pinned"
            yield from found
            position += len(found)


class _Known(dict[str, TableDefinition]):
    """Definitions by reference, of the tables a plan reads; others are passed over."""

    def __init__(self, feed: Feed, wanted: Mapping[str, TableDefinition]) -> None:
        super().__init__()
        self._feed, self._wanted = feed, wanted

    def get(self, reference: str, default: Any = None) -> Any:
        """Look the reference up in the feed, once."""
        if reference not in self:
            definition = self._feed.definition(reference)
            self[reference] = definition if definition.full_name in self._wanted else None  # type: ignore[assignment]
        return self[reference] or default
