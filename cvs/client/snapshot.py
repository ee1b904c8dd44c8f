"""Snapshot reads and wait tokens: the whole view as of one committed epoch (PROTOCOL section 5).

A state row keeps its image before the epoch that wrote it, so the state as of the committed epoch can be read
while the next one is being written. The committed epoch is read before and after; only if it did not move is
what was read a snapshot: a row may have been collected, or moved on twice, under a slow reader (H20, H21).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cassandra import InvalidRequest, ReadFailure

from cvs.client.control import read_control
from cvs.errors import SpecificationError, StoreError
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.layout import quoted, state_table
from cvs.model.stages import Plan, Publication
from cvs.model.types import native, normal, normal_row
from cvs.programs.epoch import Control
from cvs.programs.stage_bucket import SENTINEL, BucketRead, ReadBucket, StateRow, decode_state, drive
from cvs.programs.stage_codec import beyond, pack_key
from cvs.programs.stage_publish import PublishCompute
from cvs.programs.stage_snapshot import MovedOnError, SnapshotReader
from cvs.programs.stage_zone import ZoneCompute
from cvs.store.session import CassandraSession
from cvs.store.slices import given_up, halves

ATTEMPTS = 40
PAUSE_SECONDS = 0.02

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """What a writer may wait for: every base write acknowledged at QUORUM before `moment` (microseconds)."""

    keyspace: str
    moment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All rows of a view as of one epoch, by key; every base write before `watermark` is in it."""

    epoch: int
    watermark: int
    rows: Mapping[Key, Row]


class _Kept:
    """A plan made ready to be read: what one incarnation keeps."""

    def __init__(self, plan: Plan, *, keyspace: str, incarnation: int) -> None:
        zones = [ZoneCompute(zone, plan) for zone in plan.zones]
        tables = {zone.name: state_table(keyspace, f"{zone.name}_{incarnation}").name for zone in zones}
        self.readers = {
            it.view: SnapshotReader(PublishCompute(it, plan), zones, tables) for it in plan.publications
        }

    def reader(self, view: str) -> SnapshotReader:
        if view not in self.readers:
            raise SpecificationError(
                f"this pipeline keeps no view {view}",
                next_step=f"it keeps {', '.join(sorted(self.readers))}",
            )
        return self.readers[view]


class ViewReader:
    """Reads the views of one pipeline, whatever incarnation of it serves."""

    def __init__(self, session: CassandraSession, *, keyspace: str, plan_of: Callable[[int], Plan]) -> None:
        """`keyspace` holds the pipeline's state; `plan_of` returns the plan that an incarnation runs."""
        self._session = session
        self._keyspace = keyspace
        self._plan_of = plan_of
        self._lives: dict[int, _Kept] = {}

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def __enter__(self) -> "ViewReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def scan(self, view: str, *, attempts: int = ATTEMPTS) -> Snapshot:
        """Return the whole view as of one committed epoch."""
        return self._snapshot(view, None, attempts)

    def _kept(self, incarnation: int) -> _Kept:
        if incarnation not in self._lives:
            plan = self._plan_of(incarnation)
            self._lives = {incarnation: _Kept(plan, keyspace=self._keyspace, incarnation=incarnation)}
        return self._lives[incarnation]

    def _snapshot(self, view: str, key: Key | None, attempts: int) -> Snapshot:
        for _ in range(attempts):
            first = read_control(self._session, self._keyspace)
            if first.pin.building:
                raise StoreError(
                    f"{view} is being built: there is no state of it to show yet",
                    where=self._keyspace,
                    next_step="`cvs status` says how far it is",
                )
            try:
                rows = self._rows(view, key, first)
            except MovedOnError:
                time.sleep(PAUSE_SECONDS)
                continue
            if read_control(self._session, self._keyspace).committed == first.committed:
                return Snapshot(epoch=first.committed, watermark=first.committed_watermark, rows=rows)
        raise StoreError(
            f"no snapshot of {view} in {attempts} attempts: epochs are shorter than the read",
            next_step="read single keys, or lengthen the pipeline's epochs",
        )

    def read(self, view: str, *key: Any, snapshot: bool = True) -> Row | None:
        """Return the row with a whole primary key; without `snapshot` it is what plain CQL shows."""
        if snapshot:
            return next(iter(self._snapshot(view, key, ATTEMPTS).rows.values()), None)
        incarnation = read_control(self._session, self._keyspace).signature.incarnation
        publication = self._kept(incarnation).reader(view).publication.publication
        return self._plain(publication, _normal_key(publication, key))

    def _plain(self, publication: Publication, key: Key) -> Row | None:
        types = _types(publication)
        table = ".".join(quoted(part) for part in publication.table.split(".", 1))
        where = " AND ".join(f"{quoted(name)} = ?" for name in publication.key)
        found = self._session.execute(
            f"SELECT {', '.join(map(quoted, types))} FROM {table} WHERE {where}",
            tuple(native(types[name], value) for name, value in zip(publication.key, key, strict=True)),
        )
        return normal_row(types, dict(zip(types, found[0], strict=True))) if found else None

    def token(self, *, skew_seconds: float = 0.25, clock: Callable[[], float] = time.time) -> Token:
        """Return a token for what this client has written at QUORUM so far."""
        return Token(self._keyspace, round((clock() + skew_seconds) * 1e6))

    def wait(self, token: Token, *, seconds: float = 30.0) -> int:
        """Wait until the views show everything the token stands for; return the epoch that does."""
        end = time.monotonic() + seconds
        while True:
            control = read_control(self._session, self._keyspace)
            if control.committed_watermark >= token.moment:
                return control.committed
            if time.monotonic() > end:
                behind = (token.moment - control.committed_watermark) / 1e6
                raise StoreError(
                    f"the views are still {behind:.1f} s behind the token after {seconds:.0f} s",
                    where=self._keyspace,
                    next_step="see `cvs status`: a stalled capture stream holds the watermark",
                )
            time.sleep(PAUSE_SECONDS)

    def _rows(self, view: str, key: Key | None, control: Control) -> dict[Key, Row]:
        """Return the view's rows as of the committed epoch, or the one with a key."""
        reader = self._kept(control.signature.incarnation).reader(view)
        publication = reader.publication.publication
        wanted = None if key is None else _normal_key(publication, key)
        if not reader.possible:
            raise SpecificationError(
                f"{view} has one row a base row: it keeps no state to take a snapshot of",
                next_step="read it with snapshot=False: each row is strong by itself",
            )

        def answers(requests: list[ReadBucket]) -> list[BucketRead]:
            return [BucketRead(signature=control.signature, rows=self._bucket(it)) for it in requests]

        found = drive(reader.rows(control.committed, key=wanted), answers)
        names = [name for name, _ in publication.columns]
        return {
            name: dict(zip(names, row, strict=True))
            for name, row in found.items()
            if None not in name  # because such a key is no row of Cassandra
            and (wanted is None or pack_key(name) == pack_key(wanted))
        }

    def _bucket(self, request: ReadBucket) -> dict[bytes, StateRow]:
        """Read rows of a bucket; pages of several moments do no harm, since every row says its epoch."""
        text = f"SELECT row, stored FROM {request.table} WHERE bucket = ?"
        reads: list[tuple[str, tuple[Any, ...]]] = [
            (f"{text} AND row >= ? AND row < ?", (request.bucket, prefix, beyond(prefix)))
            for prefix in request.prefixes
        ] or [(text, (request.bucket,))]
        return {
            key: decode_state(image)
            for statement, values in reads
            for key, image in self._read(statement, values)
            if key not in (None, SENTINEL)
        }

    def _read(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._session.execute(statement, values)
        except InvalidRequest as gone:  # because another incarnation took over and this one's tables went
            raise MovedOnError from gone
        except ReadFailure as failure:
            parts = halves(values) if given_up(failure) else []
            if not parts:
                raise
        return [row for part in parts for row in self._read(statement, part)]


def _types(publication: Publication) -> dict[str, CqlType]:
    return {name: parse_type(kind) for name, kind in publication.columns}


def _normal_key(publication: Publication, key: Key) -> Key:
    """Return a key with its values as the state has them; one with too few or too many is refused."""
    types, names = _types(publication), publication.key
    if len(key) != len(names):
        raise SpecificationError(
            f"{len(key)} values for the key of {publication.view}", next_step=f"give {', '.join(names)}"
        )
    return tuple(normal(types[name], value) for name, value in zip(names, key, strict=True))
