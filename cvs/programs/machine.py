"""The machine every per-entry program is made of: one view record, one test-and-set, bounded attempts.

Two rules. A program never touches a store: it yields an action and is sent the answer, so the simulator, the
memory store and Cassandra run the same code. And it never writes what it did not compute from the very
signature it conditions on, so two managers can race and neither update is lost (paper 001, example 1).

One run on one view record moves through five states (`TRANSITIONS` is the whole table):

    READING ──found──> ASKING ──applied──> DONE
       ^                 │ │
       │   refused,      │ └──unknown──> RESOLVING ──found──> ASKING (or DONE: it was us)
       └── not sent ─────┘

The bound on attempts is part of the state, not of the caller: a run that has used it up ends in GAVE_UP, and
the manager hands the entry over again later; skipping it would lose an update for ever. An unknown outcome is
resolved by one SERIAL read and our own mark in the signature, never by a blind second try.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import UNTOUCHED, Signature

Key = tuple[Any, ...]  # because a key is made of column values of any type
Row = Mapping[str, Any]
Rows = Mapping[Key, Row]

RECORD: Key = ()
"""The row key of the visible record inside its partition; every other row is hidden state beside it."""

HIDDEN = "#"
"""First character of columns that belong to the program and are not shown to readers."""


class Freshness(Enum):
    """What a read of a view record must be good for."""

    CACHED = "cached"  # the manager may answer from what it last wrote: a test-and-set will tell
    FRESH = "fresh"
    SERIAL = "serial"  # finishes rounds in flight: the only read that resolves an unknown outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One base update as a stream hands it over: `entry` counts within the stream, in time-line order."""

    stream: str
    entry: int
    table: str
    key: Key
    version: int
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class ReadView:
    """Ask for signature and rows of one view record; answered by a `Found`."""

    key: Key
    freshness: Freshness = Freshness.CACHED


@dataclass(frozen=True, slots=True)
class ReadBase:
    """Ask for one base record as it is now; answered by a row or None."""

    table: str
    key: Key


@dataclass(frozen=True, slots=True)
class ScanBase:
    """Ask for the base records whose column has a value, as they are now; answered by a list of rows."""

    table: str
    column: str
    value: Any  # because a column holds any CQL value


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAndSet:
    """Ask to change one view record on condition of its signature; answered by an Outcome."""

    __test__ = False  # because pytest would take the name for a test class

    key: Key
    expected: Signature | None
    new: Signature
    puts: tuple[tuple[Key, Row], ...]
    deletes: tuple[Key, ...]
    row: Row | None  # the visible record after it
    entry: Entry


Action = ReadView | ReadBase | ScanBase | TestAndSet


@dataclass(frozen=True, slots=True)
class Found:
    """What a read of a view record saw; `cached`: remembered by the manager, maybe no longer true."""

    signature: Signature | None
    rows: Rows
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """New and vanished rows of one view record; both empty: the entry leaves only its mark."""

    puts: tuple[tuple[Key, Row], ...] = ()
    deletes: tuple[Key, ...] = ()


MARK_ONLY = Change()


class Unknowns(Enum):
    """What a program does when it cannot know whether its test-and-set was applied."""

    RESOLVE = "resolve"
    TAKE_FOR_APPLIED = "take-for-applied"  # a named, failing variant: loses updates
    TAKE_FOR_REFUSED = "take-for-refused"  # harmless with the signature check, doubles without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The switches of per-entry mode; all at their defaults is the program we stand for.

    `signature_check` off is the paper's counter-based test-and-set: conditions still compare a counter, but
    nothing tells that an entry was absorbed before. `keep_deleted` off forgets the signature with the record.
    `mark_always` off is the paper's letter: an entry that changes nothing leaves no mark.
    """

    signature_check: bool = True
    keep_deleted: bool = True
    unknowns: Unknowns = Unknowns.RESOLVE
    mark_always: bool = True
    attempts_max: int = 64


SIGNATURE_BASED = Policy()
COUNTER_BASED = Policy(signature_check=False)


class Ending(Enum):
    """How a run on one view record ended."""

    APPLIED = "applied"
    PROCESSED = "processed"  # the signature says that this entry was absorbed before
    NOTHING = "nothing"  # there was nothing to change
    GAVE_UP = "gave_up"  # the bound was reached: hand the entry over again


class State(Enum):
    """Where a run on one view record stands."""

    READING = "reading"
    RESOLVING = "resolving"
    DONE = "done"


TRANSITIONS: Mapping[tuple[Unknowns, OutcomeKind], State] = {
    (unknowns, kind): state
    for unknowns in Unknowns
    for kind, state in (
        (OutcomeKind.APPLIED, State.DONE),
        (OutcomeKind.REJECTED, State.READING),
        (OutcomeKind.NOT_SENT, State.READING),
        (
            OutcomeKind.UNKNOWN,
            {
                Unknowns.RESOLVE: State.RESOLVING,
                Unknowns.TAKE_FOR_APPLIED: State.DONE,
                Unknowns.TAKE_FOR_REFUSED: State.READING,
            }[unknowns],
        ),
    )
}
"""(what the policy does with unknowns, outcome of the test-and-set) -> next state."""

ChangeOf = Callable[[Rows, Any], Change | None]
"""From the rows found (and what was consulted) to the change; None: the record is none of our business."""

Consultation = Callable[[Rows], Generator[Action, Any, Any]]
"""Base reads a program needs before it can compute, made after the signature was read (base-reading only)."""

Run = Generator[Action, Any, Ending]


class UpdateProgram(Protocol):
    """What a view class supplies: how one entry changes the view records it touches."""

    @property
    def view(self) -> str:
        """Name the view it maintains."""
        ...

    def propagate(self, entry: Entry, policy: Policy) -> Run:
        """Return the run that makes every view record the entry touches absorb it."""
        ...


@dataclass(slots=True)
class _Attempts:
    used: int
    limit: int
    freshness: Freshness = Freshness.CACHED

    def next(self) -> bool:
        self.used += 1
        return self.used <= self.limit


def absorb(
    entry: Entry, key: Key, change_of: ChangeOf, *, policy: Policy, consult: Consultation | None = None
) -> Run:
    """Let one view record absorb one entry: read, compute, test-and-set, until it is settled."""
    attempts = _Attempts(used=0, limit=policy.attempts_max)
    while attempts.next():
        found: Found = yield ReadView(key, attempts.freshness)
        signature = found.signature
        if policy.signature_check and signature and signature.processed(entry.stream, entry.entry):
            return Ending.PROCESSED
        known = None if consult is None else (yield from consult(found.rows))
        change = change_of(found.rows, known)
        if change is None or (change == MARK_ONLY and not policy.mark_always):
            if not found.cached:
                return Ending.NOTHING
            # Only a test-and-set tells that a remembered record is current; to do nothing takes a real read.
            attempts.freshness = Freshness.FRESH
            continue
        outcome: Outcome = yield _request(entry, key, found, change, policy=policy)
        state = TRANSITIONS[policy.unknowns, outcome.kind]
        if state is State.DONE:
            return Ending.APPLIED
        attempts.freshness = Freshness.SERIAL if state is State.RESOLVING else Freshness.FRESH
    return Ending.GAVE_UP


def _request(entry: Entry, key: Key, found: Found, change: Change, *, policy: Policy) -> TestAndSet:
    """Make the request; forgetting variants reset the signature when the visible record goes."""
    new = (found.signature or UNTOUCHED).absorbing(entry.stream, entry.entry)
    if not policy.signature_check:
        new = Signature(incarnation=new.incarnation, version=new.version)
    row = None if RECORD in change.deletes else found.rows.get(RECORD)
    row = dict(change.puts).get(RECORD, row)
    if row is None and not policy.keep_deleted:
        new = UNTOUCHED
    # Of a put and a deletion of one row in one batch Cassandra lets the deletion win.
    assert not any(key in change.deletes for key, _ in change.puts), "a row is both put and deleted"
    return TestAndSet(
        key=key,
        expected=found.signature,
        new=new,
        puts=change.puts,
        deletes=change.deletes,
        row=row,
        entry=entry,
    )


def in_order(runs: Iterable[Run]) -> Run:
    """Run one after the other; the first that gives up ends the program, so the entry comes again whole."""
    ending = Ending.NOTHING
    for run in runs:
        ended = yield from run
        if ended is Ending.GAVE_UP:
            return ended
        if ended is not Ending.NOTHING:
            ending = ended
    return ending


def shown(row: Row | None) -> dict[str, Any] | None:
    """Return what a reader sees of a visible record: the hidden columns stripped, nothing if it is hidden."""
    if row is None or row.get(HIDDEN + "hidden"):
        return None
    return {name: value for name, value in row.items() if not name.startswith(HIDDEN)}
