"""The epoch machines' requests, carried out on Cassandra: many statements in flight, few and large.

Reads are repeated, puts are repeated (their write time is the epoch, so a repeated put is the same put), a
test-and-set is sent once and its answer becomes an honest outcome: what is not surely applied or surely
refused is unknown, and the machine resolves it by a SERIAL read.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any

from cassandra import ConsistencyLevel, InvalidRequest, Unauthorized
from cassandra.query import BatchStatement, BatchType

from cvs.errors import StoreError
from cvs.model.cql_type import parse_type
from cvs.model.layout import quoted
from cvs.model.outcome import APPLIED, Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.model.stages import Publication
from cvs.model.types import native
from cvs.programs.stage_bucket import SENTINEL, BucketRead, ReadBucket, SetBucket, decode_state, encode_state
from cvs.programs.stage_codec import Values, beyond
from cvs.programs.stage_delta import DropBucket, PutImages, ReadImages
from cvs.programs.stage_publish import PutRows
from cvs.store.outcomes import outcome_of_error, words
from cvs.store.sending import answers_of
from cvs.store.session import CassandraSession
from cvs.store.slices import given_up, halves
from cvs.stream.batches import batches, together
from cvs.stream.long_keys import images_of, slice_of, stored_image, stored_key
from cvs.stream.weights import SAMPLED, Weights

PUTS_PACKED = 500
PUT_TRIES = 60
TRY_SECONDS = 0.5
OVERSIZED = re.compile("exceeds allowed maximum|oversized|too large", re.IGNORECASE)
SIGNATURE = "incarnation, epoch, chunk, last"
READ = f"SELECT {SIGNATURE}, row, stored FROM"

Read = tuple[str, Values, int, str]
"""A statement, its values, the consistency it is read at, and its table; of three values the last two bound a slice."""
Check = Callable[[], None]


@dataclass(slots=True)
class Meter:
    """Where a door's time went, and how much it carried: for benches and the status page."""

    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, seconds: float, requests: list[Any]) -> None:
        """Add what one round took."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.counts[name] = self.counts.get(name, 0) + len(requests)
        self.rows[name] = self.rows.get(name, 0) + sum(map(_size, requests))

    def clear(self) -> None:
        """Begin again."""
        for measured in (self.seconds, self.counts, self.rows):
            measured.clear()


class CassandraDoor:
    """One keyspace of state, DELTA and control, and any published tables."""

    def __init__(
        self,
        session: CassandraSession,
        *,
        keyspace: str,
        publications: Mapping[str, Publication],
        check: Check = lambda: None,
    ) -> None:
        """`check` is asked before anything is sent: it stops a driver that slept through its deadline (H27)."""
        self._session = session
        self._keyspace = keyspace
        self._publications = publications
        self.check = check
        self.meter = Meter()
        self._weights = Weights()

    def __call__(self, requests: list[Any]) -> list[Any]:
        """Carry out a round: by kind, everything of a kind in flight together."""
        self.check()
        answers: list[Any] = [None] * len(requests)
        kinds: dict[type, list[int]] = {}
        for index, request in enumerate(requests):
            kinds.setdefault(type(request), []).append(index)
        for kind, places in kinds.items():
            started = time.monotonic()
            asked = [requests[index] for index in places]
            found = self._carry(kind, asked)
            self.meter.add(kind.__name__, time.monotonic() - started, asked)
            for index, answer in zip(places, found, strict=True):
                answers[index] = answer
        return answers

    def _carry(self, kind: type, requests: list[Any]) -> list[Any]:
        if kind is ReadBucket:
            return self._read_buckets(requests)
        if kind is SetBucket:
            return [_outcome(it) for it in self._all([self._set(r) for r in requests])]
        if kind is ReadImages:
            return self._read_images(requests)
        if kind is DropBucket:
            self._repeated([self._drop(r) for r in requests])
        else:
            puts = [self._images(r) if kind is PutImages else self._rows(r) for r in requests]
            self._repeated(self._packed(chain.from_iterable(puts)))
        return [None] * len(requests)

    def _read_buckets(self, requests: list[ReadBucket]) -> list[BucketRead]:
        self._sample(requests, self._read_buckets)
        found: list[list[Any]] = [[] for _ in requests]
        reads = [(index, read) for index, request in enumerate(requests) for read in self._reads(request)]
        for (index, _), rows in zip(reads, self._answered([read for _, read in reads]), strict=True):
            found[index].extend(rows)
        answers = []
        for request, rows in zip(requests, found, strict=True):
            signatures = {row[:4] for row in rows}
            self._weights.note(request.table, (row[5] for row in rows))
            if len(signatures) > 1:
                answers += self._read_buckets([request])  # because two moments were seen: start again
                continue
            if not signatures:
                raise StoreError(
                    f"bucket {request.bucket} of {self._keyspace}.{request.table} has no signature",
                    next_step="make a new incarnation: a signature that is gone looks like an untouched bucket",
                )
            answers.append(_bucket(rows))
        return answers

    def _reads(self, request: ReadBucket) -> Iterable[Read]:
        table = f"{self._keyspace}.{request.table}"
        level = self._session.serial if request.serial else ConsistencyLevel.QUORUM
        if request.everything:
            yield f"{READ} {table} WHERE bucket = ?", (request.bucket,), level, request.table
            return
        keys, at_once = [SENTINEL, *request.keys], self._weights.at_once(request.table)
        for start in range(0, len(keys), at_once):
            part = keys[start : start + at_once]
            yield (
                f"{READ} {table} WHERE bucket = ? AND row IN ?",
                (request.bucket, part),
                level,
                request.table,
            )
        for prefix in request.prefixes:
            text = f"{READ} {table} WHERE bucket = ? AND row >= ? AND row < ?"
            yield text, (request.bucket, prefix, beyond(prefix)), level, request.table

    def _answered(self, reads: list[Read]) -> list[Any]:
        """Carry reads out; a slice in which a replica met too much that is deleted is read in halves."""
        asked = [self._paged(self._bound(text, values, level), table) for text, values, level, table in reads]
        answers = self._repeated(asked, halved=True)
        for index, answer in enumerate(answers):
            if given_up(answer):
                answers[index] = [
                    row for half in self._answered(_halves(reads[index], answer)) for row in half
                ]
        return answers

    def _set(self, request: SetBucket) -> Any:
        self._session.check_serial(self._keyspace, request.table)
        table = f"{self._keyspace}.{request.table}"
        batch = BatchStatement(
            batch_type=BatchType.UNLOGGED,
            consistency_level=ConsistencyLevel.QUORUM,
            serial_consistency_level=self._session.serial,
        )
        condition = self._session.prepared(
            f"UPDATE {table} SET incarnation = ?, epoch = ?, chunk = ?, last = ? WHERE bucket = ? "
            "IF incarnation = ? AND epoch = ? AND chunk = ? AND last = ?"
        )
        batch.add(condition, (*request.new.scalars, request.bucket, *request.expected.scalars))
        put = self._session.prepared(f"INSERT INTO {table} (bucket, row, stored) VALUES (?, ?, ?)")
        for key, row in request.puts:
            batch.add(put, (request.bucket, key, encode_state(row)))
        delete = f"DELETE FROM {table} WHERE bucket = ? AND row = ?"
        for key in request.deletes:
            batch.add(self._session.prepared(delete), (request.bucket, key))
        return batch

    def _read_images(self, requests: list[ReadImages]) -> list[dict[bytes, bytes]]:
        self._sample(requests, self._read_images)
        asked: list[tuple[int, bytes, Any]] = []
        for index, request in enumerate(requests):
            table = f"{self._keyspace}.{request.table}"
            read = f"SELECT base_key, image FROM {table} WHERE bucket = ?"
            keys, at_once = list(map(stored_key, request.keys)), self._weights.at_once(request.table)
            for start in range(0, len(keys), at_once):
                part = (request.bucket, keys[start : start + at_once])
                asked.append((index, b"", self._bound(f"{read} AND base_key IN ?", part)))
            for prefix in request.prefixes:
                text = f"{read} AND base_key >= ? AND base_key < ?" if prefix else read
                bound = self._bound(text, (request.bucket, *(slice_of(prefix) if prefix else ())))
                asked.append((index, prefix, self._paged(bound, request.table)))
        answers: list[dict[bytes, bytes]] = [{} for _ in requests]
        for (index, prefix, _), rows in zip(asked, self._repeated([it for _, _, it in asked]), strict=True):
            answers[index].update(images_of(rows, prefix))
        for request, images in zip(requests, answers, strict=True):
            self._weights.note(request.table, images.values())
        return answers

    def _sample(self, requests: list[Any], read: Callable[[list[Any]], Any]) -> None:
        """Look at one row of some buckets before many of a table are read that nobody read yet."""
        many = [it for it in requests if len(it.keys) > 1]
        unknown = self._weights.unknown(it.table for it in many)
        some = [replace(it, keys=it.keys[-1:], prefixes=()) for it in many if it.table in unknown]
        if some:
            read(some[:SAMPLED])

    def _images(self, request: PutImages) -> Iterator[Any]:
        """Return puts that are bound one by one, when their turn comes."""
        put = self._session.prepared(
            f"INSERT INTO {self._keyspace}.{request.table} (bucket, base_key, image) VALUES (?, ?, ?) USING TIMESTAMP ?"
        )
        delete = self._session.prepared(
            f"DELETE FROM {self._keyspace}.{request.table} USING TIMESTAMP ? WHERE bucket = ? AND base_key = ?"
        )
        bucket, at = request.bucket, request.write_time
        return (
            delete.bind((at, bucket, stored_key(key)))
            if image is None
            else put.bind((bucket, stored_key(key), stored_image(key, image), at))
            for key, image in request.images
        )

    def _drop(self, request: DropBucket) -> Any:
        text = f"DELETE FROM {self._keyspace}.{request.table} USING TIMESTAMP ? WHERE bucket = ?"
        return self._bound(text, (request.write_time, request.bucket))

    def _rows(self, request: PutRows) -> Iterator[Any]:
        """Return puts and deletes in the same way."""
        publication = self._publications[request.publication]
        names = [name for name, _ in publication.columns]
        columns = ", ".join(quoted(name) for name in names)
        marks = ", ".join("?" for _ in names)
        table = ".".join(quoted(part) for part in request.publication.split(".", 1))
        put = self._session.prepared(f"INSERT INTO {table} ({columns}) VALUES ({marks}) USING TIMESTAMP ?")
        where = " AND ".join(f"{quoted(name)} = ?" for name in publication.key)
        delete = self._session.prepared(f"DELETE FROM {table} USING TIMESTAMP ? WHERE {where}")
        natives = [_native(kind) for _, kind in publication.columns]
        of_key = [natives[names.index(name)] for name in publication.key]
        at = request.write_time
        puts = ((*_made(natives, row), at) for row in request.puts)
        deletes = ((at, *_made(of_key, key)) for key in request.deletes)
        return chain(map(put.bind, puts), map(delete.bind, deletes))

    def _packed(self, puts: Iterable[Any]) -> Iterable[Any]:
        """Pack puts into few statements: by replicas, whole partitions side by side.

        Some at a time, each bound when its turn comes: what was packed first is written while the rest is bound.
        """
        metadata = self._session.driver.cluster.metadata
        alone = len(metadata.all_hosts()) == 1
        coming = iter(puts)
        while some := list(islice(coming, PUTS_PACKED)):
            homes: dict[Any, dict[tuple[str, bytes], list[Any]]] = {}
            for put in some:
                partition = put.routing_key
                home = None if alone else tuple(metadata.get_replicas(put.keyspace, partition))
                # what two tables of a keyspace have under one key is one mutation, that of two keyspaces is not
                homes.setdefault(home, {}).setdefault((put.keyspace, partition), []).append(put)
            for partitions in homes.values():
                yield from map(together, batches(partitions.values()))

    def _bound(self, text: str, values: Values, level: int = ConsistencyLevel.QUORUM) -> Any:
        statement = self._session.prepared(text).bind(values)
        statement.consistency_level = level
        return statement

    def _paged(self, statement: Any, table: str) -> Any:
        statement.fetch_size = self._weights.page(table)
        return statement

    def _all(self, statements: Iterable[Any]) -> list[Any]:
        """Send statements; return each one's rows, or the exception it ended in."""
        return [_rows_of(it) for it in answers_of(self._session.driver, statements, check=self.check)]

    def _repeated(self, statements: Iterable[Any], *, halved: bool = False) -> list[Any]:
        """Send reads and puts until each is answered: both mean the same however often they are sent.

        `halved`: who asks reads in halves what a replica gave up, so that is an answer.
        """
        sent: list[Any] = []
        answers = self._all(_noted(statements, sent))
        waiting: Iterable[int] = range(len(answers))
        for _ in range(PUT_TRIES):
            again = []
            for index in waiting:
                answer = answers[index]
                if isinstance(answer, InvalidRequest | Unauthorized):
                    raise _refused("a statement", answer)
                if isinstance(answer, Exception) and not (halved and given_up(answer)):
                    again.append(index)
                    failure = answer
            if not again:
                return answers
            waiting = again
            time.sleep(TRY_SECONDS)
            self.check()
            for index, answer in zip(again, self._all([sent[index] for index in again]), strict=True):
                answers[index] = answer
        raise StoreError(
            f"the cluster does not answer: {words(failure)}",
            next_step="see that a quorum of its nodes is up",
        )


def _noted(statements: Iterable[Any], sent: list[Any]) -> Iterator[Any]:
    """Note statements as they are made: one by one, while those before are on their way."""
    for statement in statements:
        sent.append(statement)
        yield statement


def _halves(read: Read, failure: Exception) -> list[Read]:
    """Cut a slice in two."""
    text, values, level, table = read
    parts = halves(values)
    if not parts:
        raise StoreError(f"the cluster refuses to read a few rows by their keys: {failure}") from failure
    return [(text, part, level, table) for part in parts]


def _size(request: Any) -> int:
    """Count the rows a request names."""
    parts = ("keys", "prefixes", "images", "puts", "deletes")
    return sum(len(getattr(request, part, ())) for part in parts)


def _native(kind: str) -> Callable[[Any], Any]:
    """Return what turns a canonical value into what the driver takes; most types need nothing."""
    cql = parse_type(kind)
    return partial(native, cql) if cql.parts or cql.name == "inet" else _same


def _made(natives: list[Callable[[Any], Any]], values: Values) -> Iterator[Any]:
    return (make(value) for make, value in zip(natives, values, strict=True))


def _same(value: Any) -> Any:
    return value


def _rows_of(result: Any) -> Any:
    if isinstance(result, Exception):
        return result
    try:
        rows = list(result)
    except Exception as failure:  # noqa: BLE001 -- because a later page can fail in every way a first one can
        return failure
    answered = result.response_future  # its timer holds it, and all it sent, until it would have timed out
    answered.query = answered.message = answered.query_plan = None
    return rows


def _bucket(rows: list[Any]) -> BucketRead:
    incarnation, epoch, chunk, last = rows[0][:4]
    found = {row[4]: decode_state(row[5]) for row in rows if row[4] is not None and row[4] != SENTINEL}
    signature = Signature(incarnation=incarnation, version=epoch, chunk=chunk, last=last)
    return BucketRead(signature=signature, rows=found)


def _refused(what: str, refusal: Exception) -> StoreError:
    """Return the end of a driver whose request a node does not take, however often it is asked."""
    said = str(getattr(refusal, "message", refusal))
    error = StoreError(
        f"the cluster refuses {what}: {said}",
        next_step="raise commitlog_segment_size (a node takes half of it at once), restart the nodes, then this"
        if OVERSIZED.search(said)
        else "",
    )
    error.__cause__ = refusal
    return error


def _outcome(answer: Any) -> Outcome:
    """Say what is known after a test-and-set."""
    if isinstance(answer, InvalidRequest | Unauthorized):
        raise _refused("a test-and-set", answer)
    if isinstance(answer, Exception):
        return outcome_of_error(answer)
    return APPLIED if answer[0][0] else Outcome(kind=OutcomeKind.REJECTED)
