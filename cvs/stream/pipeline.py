"""The pipeline: one driver over one control row: pin, run, commit, again.

It can be killed at any line. What it needs to go on lies in the control row and in the feed; what it left half
done is done again under the same pin, and comes out the same.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import structs

from cvs.capture.feed import Feed, Head
from cvs.model.stages import columns_read
from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import (
    CONTROL_BUCKET,
    PUBLISHING,
    SETTLED_SECONDS,
    Control,
    Deadline,
    Pin,
    check_ours,
    commit,
    pin_next,
    read_control,
    settled,
    take_over,
)
from cvs.programs.epoch_run import EpochResult, Program, run_epoch, without_claim
from cvs.programs.epoch_whole import places, whole_step
from cvs.programs.stage_bucket import ALL_RULES, Rules, drive
from cvs.programs.stage_delta import DeltaInput
from cvs.programs.stage_images import RememberedImages
from cvs.store.session import CassandraSession
from cvs.stream.bases import delta_input, made_anew
from cvs.stream.build import PREFIX, Build
from cvs.stream.catalog import grace_seconds
from cvs.stream.door import CassandraDoor
from cvs.stream.phases import Wishes, pin_after
from cvs.stream.pinned import Definitions, gone_back, read_pinned, refuse_gone_back, refuse_stranger
from cvs.stream.portion import images_of, portion, some_that_wait
from cvs.stream.quarantine import put_quarantined
from cvs.stream.recipe import Recipe
from cvs.stream.retiring import renew_published, retire_rows
from cvs.stream.tasks import publish_spread, run_spread, uncollected
from cvs.stream.waiting import Waiting
from cvs.version import VERSION

CHANGES_AN_EPOCH = 20_000
"""How much one epoch takes: what bounds a driver's memory whatever the input rate."""
SPREAD_FROM = 5_000
"""Changes from which an epoch is worth Spark's tasks: below, a job costs more than the epoch."""
HEARTBEAT_SECONDS = 1.0
LATE_SECONDS = 24 * 3600
"""How much longer than the base table's gc_grace DELTA remembers what is gone (H16): hints live for gc_grace, and are
kept of nodes that are away for three hours."""
NOT_NEEDED = 2**62  # a position no stream comes to


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
    slices: Callable[[], int] = lambda: 2  # into how many an epoch is cut, as many as can run at once
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    program: Program = field(init=False)
    door: CassandraDoor = field(init=False)
    images: RememberedImages = field(init=False)
    control: Control | None = None
    build: Build | None = None
    build_rows_a_second: int = 0
    wishes: Callable[[], Wishes] = Wishes
    ending: bool = False  # what is pinned is finished, and no more is pinned
    late_seconds: int = LATE_SECONDS
    settled_seconds: int = SETTLED_SECONDS
    bound: int | None = None  # microseconds by which clocks may differ; None: no write-time line
    seconds: dict[str, float] = field(default_factory=dict)
    seen: Mapping[str, Head] | None = None  # the streams, as they were last looked at
    seen_at: float = 0.0
    _known: Definitions = field(init=False)
    _reads: Mapping[str, Collection[str]] = field(init=False)
    _last_pin: float = 0.0
    _waiting: Waiting = field(init=False)

    def __post_init__(self) -> None:
        """Make the plan ready; nothing is sent yet."""
        self.program = self.recipe.program()
        self.door = self.recipe.door(self.session)
        self.images = RememberedImages(self._ask)
        self._known = Definitions(self.feed, self.recipe.definitions)
        self._waiting = Waiting(self.feed, bound=self.bound or 0)
        self._reads = columns_read(self.recipe.plan)

    def start(self) -> Control:
        """Read the control row; a pinned epoch of other code is refused (H4).

        An incarnation that does not serve yet has a row of its own.
        """
        names = self.recipe.names
        control: Control = drive(read_control(), self.door)
        if control.signature.incarnation < names.incarnation:
            control = drive(read_control(names.building_bucket), self.door)
        self._check(control)
        refuse_stranger(self.feed, names, control)
        if self.build is None and control.pin.build:
            stream, pace = control.pin.build, self.build_rows_a_second
            self.build = Build(
                self.session, self.feed, self.recipe.definitions, stream=stream, rows_a_second=pace
            )
        self.control = control
        return control

    @property
    def serves(self) -> bool:
        """Say whether readers are shown this incarnation."""
        return self.control is not None and self.control.bucket == CONTROL_BUCKET

    @property
    def timeline(self) -> str:
        """Name the base time-line."""
        if self.bound is None:
            return "absorbed"
        return f"write-time, clocks within {self.bound // 1000:,} ms"

    def without_claim(self) -> Counter[str]:
        """Count the rows of each base table that were shown out of the order of write times (H12)."""
        found = drive(without_claim(self.program), self.door)
        return Counter({table: len(keys) for table, keys in found.items()})

    @property
    def overtaking(self) -> bool:
        """Say whether the incarnation that serves must stand still now: it would always have shown younger writes."""
        return self.bound is not None and self.control is not None and self._built(self.control.pin)

    def take_over(self) -> bool:
        """Take the place of the incarnation that serves, once all it may have shown is in this one.

        What it pinned it may have shown in part, so that counts. The epoch pinned with it shows all of every view.
        """
        control = self.control or self.start()
        if self.serves or control.pinned or not self._built(control.pin) or self.wishes().halt:
            return False
        serving, heads = drive(read_control(), self.door), self.heads()
        # of a feed that is lost nothing more is shown, and the scan saw what was
        if not control.pin.has_all(serving.pin) and not gone_back(serving.pin.until, heads):
            return False
        following = self._pin_after(control.pin, heads, built=True)
        assert following is not None, "what is built is published whether or not there is input"
        following = structs.replace(following, lifted=serving.pin.lifted)
        self.control = taken_over = drive(take_over(serving, control, following), self.door)
        self._check(taken_over)
        return self.serves

    def step(self) -> EpochResult | None:
        """Run one epoch if there is one to run; None: nothing to do."""
        if self.build is not None and self.build.failure is not None:
            raise self.build.failure
        control = self.control or self.start()
        if not control.pinned:
            following = self.next_pin(control.pin)
            if following is None:
                return None
            control = self.control = drive(pin_next(control, following), self.door)
            self._check(control)
            if not control.pinned:
                return None
        if control.committed == self.recipe.names.epoch_before:
            self._hold(control.pin.since if control.pin.line is None else control.pin.line.held)
        for watcher in self.watchers:
            watcher.running(control)
        result = uncollected(self._run)(control.pin)
        if result.doubts and self.build is not None:
            self.build.read_again(result.doubts)
        put_quarantined(self.session, self.recipe.names, control.pin.epoch, result.quarantined)
        for watcher in self.watchers:
            watcher.ran(control, result)
        started = self.monotonic()
        following = self.next_pin(control.pin, result.stopped) if self.serves or result.stopped else None
        self.control = drive(commit(control, following), self.door)
        self._took("commit", started)
        self._check(self.control)
        if self.control.committed > control.pin.epoch:
            raise StaleDriverError(
                f"epoch {control.pin.epoch} was committed by another driver, which is at {self.control.committed}"
            )
        for watcher in self.watchers:
            watcher.committed(self.control)
        self._hold(control.pin.taken)
        return result

    def _hold(self, positions: Mapping[str, int]) -> None:
        """Keep what is needed of the feed; of other incarnations' builds nothing is."""
        own = self.build.stream if self.build is not None else ""
        foreign = {s: NOT_NEEDED for s in self.feed.streams() if s.startswith(PREFIX) and s != own}
        self.feed.hold(self.recipe.names.consumer, {**foreign, **positions})

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
        changes, stopped, size = self._input(pin)
        stopped |= made_anew(pin.tables, self.recipe.identities)
        for table in {*stopped, *pin.stopped}:
            changes.pop(table, None)  # because what is followed in part is not followed
        self._took("feed", started)
        started = self.monotonic()
        if self.spread is not None and size >= self.spread_from:
            spread, slices = self.spread, self.slices()
            self.images.forget()
            result = run_spread(self.recipe, pin, changes, door=self.door, spread=spread, slices=slices)
        else:
            self.images.begin(pin.epoch)
            result = drive(run_epoch(self.program, pin, changes, rules=self.rules), self.images)
            self.images.finished(pin.epoch)
        result.stopped = {table: why for table, why in stopped.items() if table not in pin.stopped}
        if pin.publishing:
            self._publish_all(pin, result)
        self._took("epoch", started)
        return result

    def _input(self, pin: Pin) -> tuple[dict[str, DeltaInput], dict[str, str], int]:
        """Return what an epoch is made of, which tables nothing can follow any more, and how many changes it is."""
        tables = self.recipe.definitions
        if pin.line is not None:
            return self._waiting.input(pin, self._known, tables=tables, reads=self._reads)
        size = sum(stop - pin.since.get(stream, 0) for stream, stop in pin.until.items())
        found = read_pinned(self.feed, pin)
        changes, stopped = delta_input(
            found,
            self._known,
            tables=tables,
            reads=self._reads,
            begun=pin.begun,
            identities=pin.tables,
        )
        return changes, stopped, size

    def _publish_all(self, pin: Pin, result: EpochResult) -> None:
        """Show all of every view that was built; what an older incarnation left there goes afterwards."""
        for it in self.program.publications:
            if pin.views.get(it.publication.view) != PUBLISHING:
                continue
            renew_published(self.session, it.publication)
            where = places(self.program, it)
            if self.spread is None or self._small():
                whole = drive(whole_step(self.program, it, pin, where), self.door)
            else:
                count = self.slices()
                slices = [where[i::count] for i in range(count)]
                whole = publish_spread(self.recipe, pin, it.publication.view, slices, spread=self.spread)
            result.rows[it.publication.view] = whole.count
            result.show(it, whole.shown)
            if self.recipe.names.incarnation > 1 or it.publication.view in pin.lifted:
                retire_rows(self.session, it.publication, before=pin.write_time(it.publication.view))

    def _ask(self, requests: list[Any]) -> list[Any]:
        return self.door(requests)

    def _small(self) -> bool:
        """Say whether all that was scanned is less than what is worth Spark's tasks."""
        return self.build is not None and self.build.head.position < self.spread_from

    def _check(self, control: Control) -> None:
        check_ours(
            control,
            incarnation=self.recipe.names.incarnation,
            plan=self.recipe.hash,
            state=self.recipe.state,
            version=VERSION,
        )

    def heads(self) -> dict[str, Head]:
        """Return the durable end of each stream this pipeline follows: the nodes', and its own build's."""
        build = self.build.stream if self.build is not None else ""
        streams = [it for it in self.feed.streams() if it == build or not it.startswith(PREFIX)]
        self.seen_at = time.time()
        self.seen = found = {stream: self.feed.head(stream) for stream in streams}
        return found

    def waiting(self) -> int:
        """Return how many changes no epoch has taken, of what was last seen of the feed: other threads ask too."""
        taken = self.control.pin.until if self.control else {}
        return sum(head.position - taken.get(stream, 0) for stream, head in (self.seen or {}).items())

    def scan_ahead(self) -> int | None:
        """Return how many scanned rows no epoch has taken; None before the scan may begin."""
        control, build = self.control, self.build
        if control is None or build is None or not control.pin.until:
            return None
        return build.head.position - control.pin.until.get(build.stream, 0)

    def next_pin(self, last: Pin, stopped: Mapping[str, str] | None = None) -> Pin | None:
        """Return the pin for what the feed has beyond the last one; None if that is nothing.

        `stopped`: base tables that the last epoch found nothing can follow any more.
        """
        heads = self.heads()  # also while nothing may be pinned: what waits is said of them
        refuse_gone_back(last.until, heads)
        if (self.wishes().halt or self.ending) and not stopped:
            return None
        if last.begins and (self.build is None or not self.build.confirmed(heads)):
            return None
        return self._pin_after(last, heads, built=self.serves and self._built(last), stopped=stopped or {})

    def _built(self, last: Pin) -> bool:
        """Say whether a build was read to its end and all of it is in epochs."""
        build = self.build
        if build is None or not last.building or not build.done:
            return False
        return last.taken.get(build.stream, 0) >= build.head.position

    def _pin_after(
        self, last: Pin, heads: Mapping[str, Head], *, built: bool, stopped: Mapping[str, str] | None = None
    ) -> Pin | None:
        line, due, limit = None, False, self._limit(last, heads)
        if self.bound is not None:
            heads, line, due = self._waiting.proposed(last, heads, limit=limit)
        found = pin_after(
            last,
            heads,
            plan=self.recipe.plan,
            built=built,
            stopped=stopped or {},
            limit=limit,
            wishes=self.wishes(),
            due=due,
        )
        if found is None:
            return None
        resting = found.until == found.since and self.monotonic() - self._last_pin < self.heartbeat_seconds
        resting = resting and not due
        if resting and found.views == last.views and found.epoch > self.recipe.names.epoch_before + 1:
            return None  # because moving the clock alone is worth an epoch only now and then
        self._last_pin = self.monotonic()
        names = self.recipe.names
        first = found.epoch == names.epoch_before + 1
        found = structs.replace(
            found,
            plan=self.recipe.hash,
            state=self.recipe.state,
            version=VERSION,
            incarnation=names.incarnation,
            first=first,
            tables=self.recipe.identities if last.begins else last.tables,
            keeps={} if found.building else self._keeps(),
        )
        found = settled(found, int(time.time()), seconds=self.settled_seconds)
        return found if line is None else structs.replace(found, line=line)

    def _limit(self, last: Pin, heads: Mapping[str, Head]) -> int:
        """Return how many changes the next epoch may take: of large ones, and of those of large rows, fewer."""
        some = [] if last.begins else some_that_wait(self.feed, last.until, heads)
        if not some:
            return self.changes_an_epoch
        deadline, self.door.check = self.door.check, lambda: None  # because this is sent for no epoch
        try:
            found = self.door(images_of(self.program, self._known, some))
        finally:
            self.door.check = deadline
        return portion(self.changes_an_epoch, some, [image for images in found for image in images.values()])

    def _keeps(self) -> dict[str, int]:
        """Return for how long DELTA remembers what is gone of each base table."""
        graces = grace_seconds(self.session, self.recipe.definitions.values())
        return {table: grace + self.late_seconds for table, grace in graces.items()}

    def _took(self, what: str, started: float) -> None:
        self.seconds[what] = self.seconds.get(what, 0.0) + self.monotonic() - started
