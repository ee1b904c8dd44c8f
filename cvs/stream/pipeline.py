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
from cvs.model.stages import Plan
from cvs.programs.epoch import Control, Deadline, Pin, check_ours, commit, next_pin, pin_next, read_control
from cvs.programs.epoch_run import EpochResult, Program, run_epoch
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_delta import DeltaInput
from cvs.store.session import CassandraSession
from cvs.stream.bases import base_reader, delta_input
from cvs.stream.door import CassandraDoor
from cvs.stream.tables import Names

CHANGES_AN_EPOCH = 20_000
"""How much one epoch takes: what bounds a driver's memory whatever the input rate."""
DELTA_BUCKETS = 64
FEED_PAGE = 5_000


class Watcher(Protocol):
    """Who wants to know of each epoch: the recorder, the status page, a bench."""

    def ran(self, control: Control, result: EpochResult) -> None:
        """An epoch ran and is about to be committed."""

    def committed(self, control: Control) -> None:
        """The epoch is committed."""


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """A plan, the feed it follows, and the door to its tables."""

    plan: Plan
    plan_hash: str
    names: Names
    feed: Feed
    session: CassandraSession
    definitions: Mapping[str, TableDefinition]  # by full name
    watchers: list[Watcher] = field(default_factory=list)
    monotonic: Callable[[], float] = time.monotonic
    changes_an_epoch: int = CHANGES_AN_EPOCH
    program: Program = field(init=False)
    door: CassandraDoor = field(init=False)
    control: Control | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the plan ready; nothing is sent yet."""
        readers = [
            base_reader(
                self.definitions[base.name], base, delta=self.names.delta(base.name), buckets=DELTA_BUCKETS
            )
            for base in self.plan.bases
        ]
        tables = {zone.name: self.names.state(zone.name) for zone in self.plan.zones}
        self.program = Program.of(self.plan, readers, tables)
        self.door = CassandraDoor(
            self.session,
            keyspace=self.names.keyspace,
            publications={publication.table: publication for publication in self.plan.publications},
        )

    def start(self) -> Control:
        """Read the control row; a pinned epoch of other code is refused (H4)."""
        self.control = drive(read_control(), self.door)
        check_ours(self.control, incarnation=self.names.incarnation, plan=self.plan_hash)
        return self.control

    def step(self) -> EpochResult | None:
        """Run one epoch if there is one to run; None: nothing to do."""
        control = self.control or self.start()
        if not control.pinned:
            following = self.next_pin(control.pin)
            if following is None:
                return None
            control = self.control = drive(pin_next(control, following), self.door)
            check_ours(control, incarnation=self.names.incarnation, plan=self.plan_hash)
            if not control.pinned:
                return None
        result = self._run(control.pin)
        for watcher in self.watchers:
            watcher.ran(control, result)
        started = self.monotonic()
        self.control = drive(commit(control, self.next_pin(control.pin)), self.door)
        self._took("commit", started)
        check_ours(self.control, incarnation=self.names.incarnation, plan=self.plan_hash)
        for watcher in self.watchers:
            watcher.committed(self.control)
        self.feed.hold(self.names.keyspace, control.pin.until)
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
        changes = self._changes(pin)
        self._took("feed", started)
        started = self.monotonic()
        result: EpochResult = drive(run_epoch(self.program, pin, changes), self.door)
        self._took("epoch", started)
        return result

    def _changes(self, pin: Pin) -> dict[str, DeltaInput]:
        return delta_input(read_pinned(self.feed, pin), _Known(self.feed, self.definitions))

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
        first = found.epoch == 1
        return structs.replace(found, plan=self.plan_hash, incarnation=self.names.incarnation, first=first)

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
