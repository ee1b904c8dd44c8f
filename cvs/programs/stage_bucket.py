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

A stage says what it needs by asking for it: a row it may not know yet raises `NeedsError`, and the machine reads
that too. Under the signature of what was read before, it is of the same moment: the state grows by it and the stages
that were done stay done. Under another one, everything is read again.

Rows that die are listed in a row of their own, and deleted by the bucket's next test-and-set, which is one of a later
epoch: nobody needs their images then (PROTOCOL section 2, collection). So what lies in a bucket is what lives, and what
died last, whatever came and went before.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.delta import StaleDriverError
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_state import NeedsError, State

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a stage keeps what some of its output rows come from: the bucket's key, and rows in that bucket."""

    key: bytes
    prefixes: tuple[bytes, ...]


class Compute(Protocol):
    """What a zone does to a bucket: changes the state, returns the changes of each stage's output by name."""

    def __call__(self, state: State, /) -> dict[str, Bag]:
        """Compute; may raise `NeedsError`, is then called again with the same state and more of its rows in it."""
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
    wanted = asked = _first_needs(compute)
    known: _Known | None = None
    serial = False
    for _attempt in range(ATTEMPTS):
        (found,) = yield [asked.request(table, bucket, serial=serial)]
        _check_not_newer(found, incarnation, epoch, rules)
        here = found.signature.version == epoch and rules.signatures
        if (here and not serial) or (known is not None and found.signature != known.signature):
            serial = serial or here  # because signature and rows must be of one commit (H28)
            known, asked = None, wanted
            continue
        known = _Known(found.signature) if known is None else known
        known.learn(found.rows, _before(found.rows, epoch, rules), asked)
        state = known.state
        try:
            outputs = compute(state)
        except NeedsError as needs:
            asked = _Asked(set(needs.keys), set(needs.prefixes))
            wanted = _Asked(wanted.keys | asked.keys, wanted.prefixes | asked.prefixes)
            continue
        dug = _bury(state)
        done = here and (found.signature.last or not rules.last_chunk_decides)
        if done:
            _check_written(known, epoch)
            return outputs
        chunks = list(_chunks(state, rules.rows_a_statement))
        first = found.signature.chunk + 1 if here else 0
        if (yield from _write(known, dug, chunks, first=first, place=(table, bucket), epoch=epoch)):
            return outputs
        known, asked = None, wanted
    raise StaleDriverError(f"bucket {bucket} of {table} did not come to rest in {ATTEMPTS} attempts")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of a bucket at once."""

    keys: set[bytes]
    prefixes: set[bytes]

    def request(self, table: str, bucket: int, *, serial: bool) -> ReadBucket:
        return ReadBucket(
            table=table,
            bucket=bucket,
            keys=tuple(sorted(self.keys)),
            prefixes=tuple(sorted(self.prefixes)),
            serial=serial,
        )


class _Known:
    """What was read of a bucket under one signature, in as many reads as the stages needed."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.rows: dict[bytes, StateRow] = {}
        self.state = State(rows={}, keys=set(), prefixes=set())

    def learn(self, rows: Mapping[bytes, StateRow], before: Mapping[bytes, bytes], asked: _Asked) -> None:
        self.rows.update(rows)
        self.state.learn(before, asked.keys, asked.prefixes)


def _first_needs(compute: Compute) -> _Asked:
    """Ask the stage what it needs before anything is read."""
    try:
        compute(State(rows={}, keys=set(), prefixes=set()))
    except NeedsError as needs:
        return _Asked({GRAVES, *needs.keys}, set(needs.prefixes))
    return _Asked({GRAVES}, set())


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


def _check_written(known: _Known, epoch: int) -> None:
    for key, value in known.state.changed.items():
        row = known.rows.get(key)
        if row is None or row.epoch != epoch or (row.now if row.alive else None) != value:
            raise StaleDriverError(f"a row that epoch {epoch} wrote is not there as this driver computes it")


def _write(
    known: _Known,
    dug: tuple[bytes, ...],
    chunks: list["_Chunk"],
    *,
    first: int,
    place: tuple[str, int],
    epoch: int,
) -> Generator[list[ReadBucket | SetBucket], list[Any], bool]:
    """Write chunk by chunk what is missing; False: read again."""
    table, bucket = place
    before = known.state.rows
    expected = known.signature
    for number in range(first, len(chunks)):
        last = number == len(chunks) - 1
        new = Signature(incarnation=expected.incarnation, version=epoch, chunk=number, last=last)
        request = SetBucket(
            table=table,
            bucket=bucket,
            expected=expected,
            new=new,
            puts=tuple((k, _row(known.rows.get(k), before.get(k), v, epoch)) for k, v in chunks[number]),
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
