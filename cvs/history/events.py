"""Event types: one frozen type for each kind of thing that happened in a run.

Times are integers in nanoseconds of the recording process's clock. An operation is two events, *called* and
*returned*, joined by (`process`, `operation`); a call without its return is an unknown outcome.
Keys are lists of values, rows are objects; values are encoded by the table in `model/types.py`.
"""

from typing import Any

import msgspec

FORMAT = 1

Key = tuple[Any, ...]
Row = dict[str, Any]
Scalars = tuple[int, int, int, bool]  # incarnation, version, chunk, last


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", forbid_unknown_fields=True):
    """What every event has: who, when."""

    process: str
    time: int


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """First event of a file: what the run is about."""

    format: int = FORMAT
    run: str
    views: tuple[dict[str, Any], ...] = ()  # view definitions as `model.views` writes them
    tables: tuple[dict[str, Any], ...] = ()
    clock_error: int = 0  # nanoseconds by which this process's clock may differ from true time
    settings: dict[str, Any] = {}


class BaseUpdateCalled(Event, frozen=True, kw_only=True, tag="base_update_called"):
    """A writer sends a base update: the whole row after it, or null for a delete."""

    operation: int
    table: str
    key: Key
    version: int  # position on the record's time-line, from 1; 0 is the initial version
    row: Row | None
    write_time: int | None = None  # by which the base itself orders writes, in its own unit


class BaseUpdateReturned(Event, frozen=True, kw_only=True, tag="base_update_returned"):
    """The writer got its answer: applied, rejected, not_sent or unknown."""

    operation: int
    outcome: str


class UpdateReceived(Event, frozen=True, kw_only=True, tag="update_received"):
    """A manager was handed an entry of a stream; the same entry may come again."""

    stream: str
    entry: int
    table: str
    key: Key
    version: int
    attempt: int = 1


class Absorbed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A certificate line: this write moved this base record's contribution from one version to another."""

    table: str
    key: Key
    from_version: int
    to_version: int


class TestAndSetCalled(Event, frozen=True, kw_only=True, tag="test_and_set_called"):
    """A test-and-set of one view record leaves: condition, new signature, new row (null: deleted)."""

    __test__ = False

    operation: int
    view: str
    view_key: Key
    expected: Scalars | None  # null: only if there is no record
    new: Scalars
    row: Row | None
    absorbed: tuple[Absorbed, ...] = ()


class TestAndSetReturned(Event, frozen=True, kw_only=True, tag="test_and_set_returned"):
    """Its answer; `returned` is the signature a refused condition saw, if it said."""

    __test__ = False

    operation: int
    outcome: str
    returned: Scalars | None = None


class ViewReadCalled(Event, frozen=True, kw_only=True, tag="view_read_called"):
    """A reader asks for one view record, or (`view_key` null) for the whole view."""

    operation: int
    view: str
    view_key: Key | None
    snapshot: bool = False


class ViewReadReturned(Event, frozen=True, kw_only=True, tag="view_read_returned"):
    """What the reader saw: rows by view key; `signature` where the reader can see it."""

    operation: int
    rows: tuple[tuple[Key, Row], ...]
    signature: Scalars | None = None
    epoch: int | None = None


class ManagerCrashed(Event, frozen=True, kw_only=True, tag="manager_crashed"):
    """A process died; what it had called stays unknown."""

    victim: str


class EpochCommitted(Event, frozen=True, kw_only=True, tag="epoch_committed"):
    """The control row says that an epoch is done; `absorbed` is its certificate, the base updates it took in."""

    pipeline: str
    incarnation: int
    epoch: int
    absorbed: tuple[Absorbed, ...] = ()


class ClaimVoid(Event, frozen=True, kw_only=True, tag="claim_void"):
    """A pipeline says that it showed a base record out of the order of write times, and knows so."""

    table: str
    key: Key


class Checkpoint(Event, frozen=True, kw_only=True, tag="checkpoint"):
    """Base and view state at a point, so that older events may be dropped."""

    base: tuple[tuple[str, Key, int, Row | None], ...]
    views: tuple[tuple[str, Key, Scalars | None, Row | None], ...]


class Quiescent(Event, frozen=True, kw_only=True, tag="quiescent"):
    """Everything written before this was propagated: convergence can be judged here."""


AnyEvent = (
    RunStarted
    | BaseUpdateCalled
    | BaseUpdateReturned
    | UpdateReceived
    | TestAndSetCalled
    | TestAndSetReturned
    | ViewReadCalled
    | ViewReadReturned
    | ManagerCrashed
    | EpochCommitted
    | ClaimVoid
    | Checkpoint
    | Quiescent
)
