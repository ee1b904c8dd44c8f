"""One zone over one bucket in one epoch: read, compute, one test-and-set; a replay emits the same again.

The whole of it rests on one idea: **the state as of e-1 can be rebuilt from a bucket at any moment of e**,
because each row keeps its image before the epoch that wrote it. So a first run, a run that goes on after
some chunks, and a replay compute the same thing from the same state, and differ only in what is still to be
written (PROTOCOL section 2):

    signature > e, or a row > e   stop this driver: another one went on (H2)
    signature < e                 compute; the condition is exactly the signature read (H3)
    signature = e, not last       compute; write the chunks that are missing (H7)
    signature = e, last           compute; write nothing; every row to be written must stand there at e
    refused                       discard everything and read again

A stage says what it needs by asking for it: a row it may not know yet raises `Needs`, and the machine reads
that too, under the same signature, before it computes again.

Rows that die are listed in a row of their own, and deleted by the bucket's next test-and-set, which is one of a later
epoch: nobody needs their images then (PROTOCOL section 2, collection). So what lies in a bucket is what lives, and what
died last, whatever came and went before.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.delta import StaleDriverError
from cvs.programs.stage_bag import Bag

SENTINEL = b""
"""Key of the row every bucket begins with: a condition on a static looks for the first live row (H26)."""

GRAVES = b"\x00"
"""Key of the row that lists the rows which the last test-and-set let die; no key of a stage begins like it."""

ATTEMPTS = 50

BYTES_A_STATEMENT = 512 * 1024
"""What the rows of one test-and-set weigh at most; Cassandra refuses mutations above 16 MiB, and its lower limits on
batches are not asked of conditional ones."""


class StateRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row of a bucket: its value as of `epoch`, and the one before."""

    now: bytes
    epoch: int
    alive: bool
    before: bytes = b""
    before_epoch: int = 0
    alive_before: bool = False


encode_state = msgspec.msgpack.Encoder().encode
decode_state = msgspec.msgpack.Decoder(StateRow).decode
_encode_keys = msgspec.msgpack.Encoder().encode
_decode_keys = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBucket:
    """Ask for the signature and some rows of a bucket; `everything` asks for all of them."""

    table: str
    bucket: int
    keys: tuple[bytes, ...] = ()
    prefixes: tuple[bytes, ...] = ()
    everything: bool = False
    serial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRead:
    """The answer; signature and rows are of one moment, or the reader starts again."""

    signature: Signature
    rows: Mapping[bytes, StateRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBucket:
    """Ask to change a bucket on condition of its signature; answered by an `Outcome`."""

    table: str
    bucket: int
    expected: Signature
    new: Signature
    puts: tuple[tuple[bytes, StateRow], ...] = ()
    deletes: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of PROTOCOL section 2 as switches: with one off, the hazard it closes appears (tests show each)."""

    stop_when_newer: bool = True  # H2
    last_chunk_decides: bool = True  # H7
    as_of_before: bool = True  # H11 and H2: a replay computes from the state before the epoch
    signatures: bool = True  # all of it: absorb whatever comes, as a naive maintainer does
    rows_a_statement: int = 1000  # no rule: what one test-and-set carries at most
    read_again: bool = True  # H20, H21: a snapshot counts only if the committed epoch did not move


ALL_RULES = Rules()


class NeedsError(Exception):
    """A stage asked for rows that were not read yet."""

    def __init__(self, keys: Iterable[bytes] = (), prefixes: Iterable[bytes] = ()) -> None:
        super().__init__("rows not read yet")
        self.keys = tuple(keys)
        self.prefixes = tuple(prefixes)


@dataclass(slots=True, kw_only=True)
class State:
    """A bucket as of the epoch before, with what this epoch changes on top."""

    rows: dict[bytes, bytes]
    keys: set[bytes]
    prefixes: set[bytes]
    everything: bool = False
    changed: dict[bytes, bytes | None] = field(default_factory=dict)
    _ordered: list[bytes] = field(default_factory=list)  # keys of `rows`; made when first needed
    _touched: list[bytes] = field(default_factory=list)  # keys of `changed`

    def want(self, keys: Iterable[bytes] = (), prefixes: Iterable[bytes] = ()) -> None:
        """Say what will be asked for, so that it is read at once."""
        if self.everything:
            return
        missing = self._under_none([key for key in keys if key not in self.keys])
        unread = [p for p in prefixes if p not in self.prefixes]
        if missing or unread:
            raise NeedsError(missing, unread)

    def _under_none(self, keys: list[bytes]) -> list[bytes]:
        """Leave out keys that begin with a prefix that was read."""
        if not keys:
            return keys
        sizes = {len(prefix) for prefix in self.prefixes}  # few, while the prefixes are many
        return [key for key in keys if not any(key[:size] in self.prefixes for size in sizes)]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a row, None if it is not there."""
        if key not in self.keys:
            self.want(keys=(key,))
        return self.changed[key] if key in self.changed else self.rows.get(key)

    def under(self, prefix: bytes) -> dict[bytes, bytes]:
        """Return all rows whose key begins with a prefix; their neighbours in key order are not looked at."""
        self.want(prefixes=(prefix,))
        if len(self._ordered) != len(self.rows):
            self._ordered = sorted(self.rows)
        found = {key: self.rows[key] for key in beginning(self._ordered, prefix)}
        for key in beginning(self._touched, prefix):
            value = self.changed[key]
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found

    def put(self, key: bytes, value: bytes | None) -> None:
        """Give a row a value, or (None) let it go."""
        if key not in self.changed:
            insort(self._touched, key)
        self.changed[key] = value


def beginning(ordered: list[bytes], prefix: bytes) -> Iterator[bytes]:
    """Yield the keys of an ordered list that begin with a prefix."""
    for at in range(bisect_left(ordered, prefix), len(ordered)):
        if not ordered[at].startswith(prefix):
            return
        yield ordered[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a stage keeps what some of its output rows come from: the bucket's key, and rows in that bucket."""

    key: bytes
    prefixes: tuple[bytes, ...]


class Compute(Protocol):
    """What a zone does to a bucket: changes the state, returns the changes of each stage's output by name."""

    def __call__(self, state: State, /) -> dict[str, Bag]:
        """Compute; may raise `NeedsError`."""
        ...


BucketMachine = Generator[list[ReadBucket | SetBucket], list[Any], dict[str, Bag]]


def run_bucket(
    compute: Compute,
    *,
    table: str,
    bucket: int,
    incarnation: int,
    epoch: int,
    rules: Rules = ALL_RULES,
) -> BucketMachine:
    """Bring one bucket to `epoch` and return the changes of its stages' outputs, whatever happened before."""
    wanted, prefixes = _first_needs(compute)
    serial = False
    for _attempt in range(ATTEMPTS):
        ask = ReadBucket(
            table=table,
            bucket=bucket,
            keys=tuple(sorted(wanted)),
            prefixes=tuple(sorted(prefixes)),
            serial=serial,
        )
        (found,) = yield [ask]
        _check_not_newer(found, incarnation, epoch, rules)
        here = found.signature.version == epoch and rules.signatures
        if here and not serial:
            serial = True  # because signature and rows must be of one commit (H28)
            continue
        state = State(rows=_before(found.rows, epoch, rules), keys=wanted, prefixes=prefixes)
        try:
            outputs = compute(state)
        except NeedsError as needs:
            wanted.update(needs.keys)
            prefixes.update(needs.prefixes)
            continue
        dug = _bury(state)
        done = here and (found.signature.last or not rules.last_chunk_decides)
        if done:
            _check_written(found, state, epoch)
            return outputs
        chunks = list(_chunks(state, rules.rows_a_statement))
        first = found.signature.chunk + 1 if here else 0
        if (yield from _write(found, state, dug, chunks, first=first, place=(table, bucket), epoch=epoch)):
            return outputs
    raise StaleDriverError(f"bucket {bucket} of {table} did not come to rest in {ATTEMPTS} attempts")


def _first_needs(compute: Compute) -> tuple[set[bytes], set[bytes]]:
    """Ask the stage what it needs before anything is read."""
    try:
        compute(State(rows={}, keys=set(), prefixes=set()))
    except NeedsError as needs:
        return {GRAVES, *needs.keys}, set(needs.prefixes)
    return {GRAVES}, set()


def _bury(state: State) -> tuple[bytes, ...]:
    """List the rows that die in this epoch; return those that died before it and stay dead: they may go.

    Computed from the state before and the changes alone, like the changes, so a replay lists and deletes the same.
    """
    listed = state.get(GRAVES)
    dead = sorted(key for key, value in state.changed.items() if value is None)
    if dead or listed is not None:
        state.put(GRAVES, _encode_keys(dead) if dead else None)
    return () if listed is None else tuple(key for key in _decode_keys(listed) if key not in state.changed)


def _check_not_newer(found: BucketRead, incarnation: int, epoch: int, rules: Rules) -> None:
    if found.signature.incarnation != incarnation:
        raise StaleDriverError(
            f"bucket of incarnation {found.signature.incarnation}, driver of {incarnation}"
        )
    newest = max([found.signature.version, *(row.epoch for row in found.rows.values())])
    if rules.stop_when_newer and newest > epoch:
        raise StaleDriverError(f"bucket at epoch {newest}, driver of {epoch}")


def _before(rows: Mapping[bytes, StateRow], epoch: int, rules: Rules) -> dict[bytes, bytes]:
    """Return the live values as of the epoch before."""
    as_of = {}
    for key, row in rows.items():
        if key == SENTINEL:
            continue
        if row.epoch >= epoch and rules.as_of_before and rules.signatures:
            if row.alive_before:
                as_of[key] = row.before
        elif row.alive:
            as_of[key] = row.now
    return as_of


def _check_written(found: BucketRead, state: State, epoch: int) -> None:
    for key, value in state.changed.items():
        row = found.rows.get(key)
        if row is None or row.epoch != epoch or (row.now if row.alive else None) != value:
            raise StaleDriverError(f"a row that epoch {epoch} wrote is not there as this driver computes it")


def _write(
    found: BucketRead,
    state: State,
    dug: tuple[bytes, ...],
    chunks: list["_Chunk"],
    *,
    first: int,
    place: tuple[str, int],
    epoch: int,
) -> Generator[list[ReadBucket | SetBucket], list[Any], bool]:
    """Write chunk by chunk what is missing; False: read again."""
    table, bucket = place
    expected = found.signature
    for number in range(first, len(chunks)):
        last = number == len(chunks) - 1
        new = Signature(incarnation=expected.incarnation, version=epoch, chunk=number, last=last)
        request = SetBucket(
            table=table,
            bucket=bucket,
            expected=expected,
            new=new,
            puts=tuple((k, _row(found.rows.get(k), state.rows.get(k), v, epoch)) for k, v in chunks[number]),
            deletes=dug if last else (),
        )
        (outcome,) = yield [request]
        if not applied(outcome):
            return False
        expected = new
    return True


_Chunk = list[tuple[bytes, bytes | None]]


def _chunks(state: State, rows: int) -> Iterator[_Chunk]:
    """Cut the changes into test-and-sets: by what they are computed from alone, so a replay cuts the same (H7)."""
    chunk: _Chunk = []
    size = 0
    for key, value in sorted(state.changed.items()):
        weight = len(key) + len(value or b"") + len(state.rows.get(key, b""))
        if chunk and (len(chunk) == rows or size + weight > BYTES_A_STATEMENT):
            yield chunk
            chunk, size = [], 0
        chunk.append((key, value))
        size += weight
    yield chunk


def applied(outcome: Outcome) -> bool:
    """Say whether a test-and-set surely took effect; anything else is read again, never sent again blindly."""
    return outcome.kind is OutcomeKind.APPLIED


def _row(stood: StateRow | None, before: bytes | None, value: bytes | None, epoch: int) -> StateRow:
    if stood is None:
        before_epoch = 0
    else:
        before_epoch = stood.before_epoch if stood.epoch == epoch else stood.epoch
    return StateRow(value or b"", epoch, value is not None, before or b"", before_epoch, before is not None)


Machine = Generator[list[Any], list[Any], Any]


def together(machines: Iterable[Machine]) -> Generator[list[Any], list[Any], list[Any]]:
    """Run machines side by side: each round asks for what all of them ask for; return what they return."""
    running = list(machines)
    results: list[Any] = [None] * len(running)
    pending: dict[int, list[Any]] = {}
    for index, machine in enumerate(running):
        _advance(machine, None, index, pending, results)
    while pending:
        order = list(pending)
        answers = yield [request for index in order for request in pending[index]]
        at = 0
        current, pending = pending, {}
        for index in order:
            count = len(current[index])
            _advance(running[index], answers[at : at + count], index, pending, results)
            at += count
    return results


def _advance(
    machine: Machine, answers: Any, index: int, pending: dict[int, list[Any]], results: list[Any]
) -> None:
    try:
        pending[index] = machine.send(answers) if answers is not None else next(machine)
    except StopIteration as stop:
        results[index] = stop.value


def drive(machine: Machine, door: Callable[[list[Any]], list[Any]]) -> Any:
    """Run a machine to its end through a door."""
    try:
        requests = next(machine)
        while True:
            requests = machine.send(door(requests))
    except StopIteration as stop:
        return stop.value
