"""Snapshot reads and wait tokens: the whole view as of one committed epoch (PROTOCOL section 5).

A state row keeps its image before the epoch that wrote it, so the state as of the committed epoch can be read
while the next one is being written. The committed epoch is read before and after; only if it did not move is
what was read a snapshot: a row may have been collected, or moved on twice, under a slow reader (H20, H21).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cassandra import InvalidRequest

from cvs.client.control import read_control
from cvs.errors import SpecificationError, StoreError
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.layout import quoted, state_table
from cvs.model.stages import Plan, Publication
from cvs.model.types import native, normal, normal_row
from cvs.programs.stage_bucket import SENTINEL, Bag, State
from cvs.programs.stage_codec import beyond, pack_key
from cvs.programs.stage_publish import PublishCompute
from cvs.programs.stage_zone import ZoneCompute
from cvs.store.session import CassandraSession

ATTEMPTS = 40
PAUSE_SECONDS = 0.02

Row = dict[str, Any]
Key = tuple[Any, ...]


class MovedOnError(Exception):
    """The pipeline committed, or went two epochs on, while a snapshot was being read."""


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

    def __init__(self, plan: Plan) -> None:
        self.publications = {it.view: PublishCompute(it, plan) for it in plan.publications}
        self.zones = {
            stage.name: zone
            for zone in (ZoneCompute(z, plan) for z in plan.zones)
            for stage in zone.zone.stages
        }

    def publication(self, view: str) -> PublishCompute:
        if view not in self.publications:
            raise SpecificationError(
                f"this pipeline keeps no view {view}",
                next_step=f"it keeps {', '.join(sorted(self.publications))}",
            )
        return self.publications[view]


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
            self._lives = {incarnation: _Kept(self._plan_of(incarnation))}
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
                rows = self._rows(view, key, first.committed, first.signature.incarnation)
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
        incarnation = read_control(self._session, self._keyspace).signature.incarnation
        publication = self._kept(incarnation).publication(view).publication
        types, names = _types(publication), publication.key
        if len(key) != len(names):
            raise SpecificationError(
                f"{len(key)} values for the key of {view}", next_step=f"give {', '.join(names)}"
            )
        normals = tuple(normal(types[name], value) for name, value in zip(names, key, strict=True))
        if snapshot:
            rows = self._snapshot(view, normals, ATTEMPTS).rows
            return next((row for found, row in rows.items() if pack_key(found) == pack_key(normals)), None)
        return self._plain(publication, normals)

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

    def _rows(self, view: str, key: Key | None, epoch: int, incarnation: int) -> dict[Key, Row]:
        """Return the view's rows as of an epoch; with a key, perhaps only some of them, that one surely."""
        kept = self._kept(incarnation)
        publication = kept.publication(view)
        contents: dict[str, Bag] = {}
        for edge in publication.publication.inputs:
            zone = kept.zones.get(edge.source)
            if zone is None:
                raise SpecificationError(
                    f"{view} has one row a base row: it keeps no state to take a snapshot of",
                    next_step="read it with snapshot=False: each row is strong by itself",
                )
            known = {} if key is None else publication.known(edge, key)
            contents[edge.source] = self._contents(zone, edge.source, known, epoch, incarnation)
        names = [name for name, _ in publication.publication.columns]
        rows = (row for row, _ in publication.rows(contents))
        found = {publication.key_of(row): dict(zip(names, row, strict=True)) for row in rows}
        # a key with a null is no row of Cassandra
        return {name: row for name, row in found.items() if None not in name}

    def _contents(
        self, zone: ZoneCompute, stage: str, known: Mapping[str, Any], epoch: int, incarnation: int
    ) -> Bag:
        place = zone.place(stage, known) if known else None
        buckets = range(zone.zone.buckets) if place is None else (place[0],)
        prefixes = () if place is None else place[1]
        table = state_table(self._keyspace, f"{zone.name}_{incarnation}").name
        text = f"SELECT row, now, row_epoch, alive, before, alive_before FROM {table} WHERE bucket = ?"
        found = Bag()
        for bucket in buckets:
            if prefixes:
                reads: list[tuple[str, tuple[Any, ...]]] = [
                    (f"{text} AND row >= ? AND row < ?", (bucket, p, beyond(p))) for p in prefixes
                ]
            else:
                reads = [(text, (bucket,))]
            rows = (row for statement, values in reads for row in self._read(statement, values))
            state = State(rows=_as_of(rows, epoch), keys=set(), prefixes=set(), everything=True)
            found.extend(zone.contents(state)[stage])
        return found

    def _read(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._session.execute(statement, values)
        except InvalidRequest as gone:  # because another incarnation took over and this one's tables went
            raise MovedOnError from gone


def _types(publication: Publication) -> dict[str, CqlType]:
    return {name: parse_type(kind) for name, kind in publication.columns}


def _as_of(stored: Iterable[tuple[Any, ...]], epoch: int) -> dict[bytes, bytes]:
    """Return rows as they stood at an epoch: a row that the next one wrote is read as it was before."""
    rows: dict[bytes, bytes] = {}
    for key, now, at, alive, before, alive_before in stored:
        if key in (None, SENTINEL):
            continue
        if at > epoch + 1:
            raise MovedOnError
        shown, there = (now, alive) if at <= epoch else (before, alive_before)
        if there:
            rows[key] = shown
    return rows
