"""The epoch: one control row is the whole state machine; everything an epoch does follows from its pin.

    PINNED(c, e=c+1) --stage 0, stages, publish--> commit e and pin e+1 in one test-and-set --> PINNED(c+1, e+1)
                                                   or commit e alone ------------------------> IDLE(c+1)
    IDLE(c) --pin c+1 when there is input--> PINNED(c, c+1)

The control row is a bucket like any other: its signature's version is the committed epoch, its chunk says
whether the next one is pinned, its one row holds the last pin. So the same test-and-set, the same outcomes and
the same store serve it (PROTOCOL section 1). An epoch is a pure function of (state as of c, pin): two drivers
that run the same pin write the same things, and a zombie can only repeat what was or will be written anyway.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from cvs.errors import StoreError
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.delta import StaleDriverError
from cvs.programs.line import Line
from cvs.programs.stage_bucket import BucketRead, ReadBucket, SetBucket, StateRow

CONTROL_TABLE = "control"
CONTROL_BUCKET = 0
EPOCHS_A_LIFE = 10**10
"""How many epochs an incarnation may have: so epochs increase over incarnations and none knows of another's."""
PIN_ROW = b"pin"
PINNED = 1
IDLE = 0
BUILDING, PUBLISHING, LIVE, BROKEN, PAUSED = "building", "publishing", "live", "broken", "paused"
"""What a view is: its state is being filled and nothing is shown; all of it is being shown; it follows; it cannot;
its state follows, and its table stands still."""
DEADLINE_SECONDS = 3600.0
"""Nothing is sent for an epoch later than this after its pin was read (H27)."""
SETTLED_SECONDS = 3 * 3600
"""So long after its commit nobody sends anything for an epoch: deadline, the commit's own, clocks that differ."""

ATTEMPTS = 20


def place(epoch: int) -> str:
    """Say which epoch it is, to people: the 8th of the second incarnation is no 10,000,000,008."""
    before, number = divmod(epoch, EPOCHS_A_LIFE)
    return f"{number:,} of incarnation {before + 1}" if before else f"{number:,}"


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """All that an epoch's result depends on, beside the state as of the epoch before."""

    epoch: int
    incarnation: int = 1
    first: bool = False  # the first epoch of its incarnation
    since: dict[str, int] = {}  # feed positions, by stream: from, inclusive
    until: dict[str, int] = {}  # ... to, exclusive
    clock_before: int = 0  # seconds: what had expired by then was seen by the epoch before
    clock: int = 0
    watermark: int = (
        0  # microseconds: every base write acknowledged before it is in this epoch or an older one
    )
    watermark_before: int = 0  # ... before it is in an older one
    plan: str = ""  # hash of plan and code: other code may not run the epoch (H4)
    state: str = (
        ""  # hash of what rows of state mean: whoever reads them otherwise may not go on; empty: not known
    )
    version: str = ""  # of the cvs that pinned it, for messages
    begun: int = 0  # microseconds: where the build's changes begin; its scan saw no row truncated earlier
    build: str = ""  # the stream of the feed that carries what was in the base tables before
    stopped: dict[str, str] = {}  # base table -> why its changes no longer count (truncated, dropped, a gap)
    quarantine: tuple[str, ...] = ()
    views: dict[str, str] = {}  # view -> building, publishing, live, broken, paused; not named: live
    lifted: dict[str, int] = {}  # view -> what the write times of its rows begin at, beside the epoch
    tables: dict[str, str] = {}  # base table -> id of the one a build began with; not named: any of that name
    keeps: dict[str, int] = {}  # base table -> seconds DELTA remembers what is gone; not named: for good
    settled: int = 0  # no driver is left that may send anything for this epoch, or for an older one
    settling: tuple[int, int] = (0, 0)  # an epoch, and a second of drivers' clocks at which it was committed
    line: Line | None = None  # which write times it takes; None: all, as they come (the absorbed time-line)

    def write_time(self, view: str) -> int:
        """Return the write time of what this epoch puts into a view's table.

        It grows with the epochs, since a lift is never taken back; so the later epoch always stands.
        """
        return self.lifted.get(view, 0) + self.epoch

    @property
    def taken(self) -> Mapping[str, int]:
        """Return the positions below which nothing waits for a later epoch."""
        return self.until if self.line is None else {**self.until, **self.line.held}

    def has_all(self, shown: "Pin") -> bool:
        """Say whether what this epoch left has all that another incarnation may have shown under its pin.

        Of two on the write-time line it takes that W is as far; else that nothing waits that the other took.
        """
        taken = self.taken
        if self.line is not None and shown.line is not None and self.line.upto >= shown.line.upto:
            taken = self.until
        return all(taken.get(stream, 0) >= at for stream, at in shown.until.items() if stream != shown.build)

    @property
    def building(self) -> bool:
        """Say whether the views are being filled, and not shown."""
        return BUILDING in self.views.values()

    @property
    def begins(self) -> bool:
        """Say whether the next epoch fixes where a build begins."""
        return self.building and not self.until

    @property
    def publishing(self) -> bool:
        """Say whether this epoch shows all of every view."""
        return PUBLISHING in self.views.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The control row as read: the committed epoch, and the pin of the next one unless idle."""

    signature: Signature
    pin: Pin
    bucket: int = CONTROL_BUCKET

    @property
    def committed(self) -> int:
        """Return the epoch that is done."""
        return self.signature.version

    @property
    def committed_watermark(self) -> int:
        """Return the moment (microseconds) before which every acknowledged base write is committed."""
        return self.pin.watermark_before if self.pinned else self.pin.watermark

    @property
    def committed_positions(self) -> Mapping[str, int]:
        """Return the positions of the feed below which everything is committed."""
        return self.pin.since if self.pinned and self.pin.line is None else self.pin.taken

    @property
    def pinned(self) -> bool:
        """Say whether the pin is of the epoch after the committed one."""
        return self.signature.chunk == PINNED


encode_pin = msgspec.msgpack.Encoder(order="sorted").encode
_decode = msgspec.msgpack.Decoder(Pin).decode

ControlMachine = Generator[list[Any], list[Any], Control]


def read_control(bucket: int = CONTROL_BUCKET) -> ControlMachine:
    """Read the control row at SERIAL: what is read here finishes rounds in flight."""
    (found,) = yield [ReadBucket(table=CONTROL_TABLE, bucket=bucket, everything=True, serial=True)]
    return control_of(found, bucket)


def control_of(found: BucketRead, bucket: int = CONTROL_BUCKET) -> Control:
    """Read the control row out of its bucket."""
    stored = found.rows.get(PIN_ROW)
    incarnation = found.signature.incarnation
    pin = (
        Pin(epoch=found.signature.version, incarnation=incarnation) if stored is None else _decode(stored.now)
    )
    return Control(signature=found.signature, pin=pin, bucket=bucket)


def take_over(serving: Control, built: Control, pin: Pin) -> ControlMachine:
    """Put a built incarnation in the place of the one that serves, its next epoch pinned, in one test-and-set.

    Refused if the other committed or pinned anything since it was read; what stands is returned.
    """
    seen = Control(
        signature=Signature(incarnation=built.signature.incarnation, version=built.committed),
        pin=built.pin,
        bucket=serving.bucket,
    )
    return _move(seen, pin, committed=built.committed, pinned=True, expected=serving.signature)


def pin_next(control: Control, pin: Pin) -> ControlMachine:
    """Pin the epoch after the committed one; if another driver pinned first, its pin stands."""
    assert not control.pinned, "a pin is never changed"
    return _move(control, pin, committed=control.committed, pinned=True)


def commit(control: Control, following: Pin | None) -> ControlMachine:
    """Commit the pinned epoch, and pin the next in the same test-and-set if there is input for it."""
    assert control.pinned, "only a pinned epoch can be committed"
    return _move(control, following or control.pin, committed=control.pin.epoch, pinned=following is not None)


def _move(
    control: Control, pin: Pin, *, committed: int, pinned: bool, expected: Signature | None = None
) -> ControlMachine:
    """Ask for one step of the control row and return the row as it then stands, whoever moved it.

    An unknown outcome is resolved by a SERIAL read before anything else is written (H10).
    """
    if pinned and pin.epoch != committed + 1:
        raise AssertionError(f"epoch {pin.epoch} cannot follow {committed}")
    seen = expected or control.signature
    incarnation = control.signature.incarnation
    new = Signature(incarnation=incarnation, version=committed, chunk=PINNED if pinned else IDLE)
    row = StateRow(now=encode_pin(pin), epoch=committed, alive=True)
    request = SetBucket(
        table=CONTROL_TABLE,
        bucket=control.bucket,
        expected=seen,
        new=new,
        puts=((PIN_ROW, row),),
    )
    for _attempt in range(ATTEMPTS):
        (outcome,) = yield [request]
        if outcome.kind is OutcomeKind.APPLIED:
            return Control(signature=new, pin=pin, bucket=control.bucket)
        stands = yield from read_control(control.bucket)
        if stands.signature.scalars != seen.scalars:
            return stands
    raise StaleDriverError("the control row did not answer a test-and-set")


class OtherCodeError(StoreError):
    """An epoch that other code began, or state that was made under another plan: going on would write other things."""


def check_ours(control: Control, *, incarnation: int, plan: str, state: str = "", version: str = "") -> None:
    """Refuse to run an epoch pinned under other code, another plan or another incarnation (H4).

    Between two epochs other code may go on, if rows of state mean the same to it.
    """
    if control.signature.incarnation != incarnation:
        raise StaleDriverError(
            f"the pipeline is at incarnation {control.signature.incarnation}, this driver at {incarnation}"
        )
    check_state(control, state=state, version=version)
    pin = control.pin
    if control.pinned and pin.plan != plan:
        raise OtherCodeError(
            f"epoch {pin.epoch} was begun by {_named(pin.version)} and not finished; {_named(version)} may not run it",
            next_step="start what began it and end it with SIGTERM, which finishes the epoch; or cvs rebuild --all",
        )


def check_state(control: Control, *, state: str, version: str) -> None:
    """Refuse to go on with state whose rows mean something else to this code: it would misread them (H4)."""
    pin = control.pin
    if state and pin.state and pin.state != state:
        raise OtherCodeError(
            f"state was made by {_named(pin.version)} under another plan than {_named(version)} has for these views",
            next_step="cvs rebuild --all: it is made anew, and readers see the views as they stand until it is",
        )


def _named(version: str) -> str:
    return f"cvs {version}" if version else "another cvs"


def next_pin(
    last: Pin, *, heads: Mapping[str, int], watermark: int, limit: int, always: bool = False
) -> Pin | None:
    """Return the pin that takes what is durable beyond the last one, at most `limit` changes; None: nothing.

    `always`: also without input, because something else that epochs depend on has changed.

    The clock never steps back, and moves only with the watermark (H13). A stream that is new starts at 0.
    """
    since = {stream: last.until.get(stream, 0) for stream in {*heads, *last.until}}
    until, left = {}, limit
    for stream in sorted(since):
        take = min(left, max(heads.get(stream, 0) - since[stream], 0))
        until[stream] = since[stream] + take
        left -= take
    behind = any(until[s] < heads.get(s, 0) for s in until)
    mark = last.watermark if behind else max(last.watermark, watermark)
    clock = max(last.clock, mark // 1_000_000)
    if until == since and clock == last.clock and not always:
        return None
    return msgspec.structs.replace(
        last,
        epoch=last.epoch + 1,
        first=False,
        since=since,
        until=until,
        clock_before=last.clock,
        clock=clock,
        watermark_before=last.watermark,
        watermark=mark,
    )


def settled(pin: Pin, now: int, *, seconds: int = SETTLED_SECONDS) -> Pin:
    """Return a pin that knows which epochs are settled at a second of the driver's clock; it commits the one before."""
    epoch, at = pin.settling
    if now - at < seconds:
        return pin
    return msgspec.structs.replace(pin, settled=epoch, settling=(pin.epoch - 1, now))


@dataclass(slots=True, kw_only=True)
class Deadline:
    """When a driver must stop sending for an epoch: monotonic time, taken as an argument (H27)."""

    read_at: float
    seconds: float = DEADLINE_SECONDS

    def check(self, now: float) -> None:
        """Stop a driver that slept through its epoch."""
        if now - self.read_at > self.seconds:
            raise StaleDriverError(
                f"the pin was read {now - self.read_at:.0f} s ago: too late to send anything"
            )
