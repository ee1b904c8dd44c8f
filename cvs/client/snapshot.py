"""Snapshot reads and wait tokens: the whole view as of one committed epoch (PROTOCOL section 5).

A state row keeps its image before the epoch that wrote it, so the state as of the committed epoch can be read
while the next one is being written. The committed epoch is read before and after; only if it did not move is
what was read a snapshot: a row may have been collected, or moved on twice, under a slow reader (H20, H21).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cvs.client.control import read_control
from cvs.errors import SpecificationError, StoreError
from cvs.model.layout import state_table
from cvs.model.stages import Plan
from cvs.programs.stage_bucket import SENTINEL, Bag, State
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


class ViewReader:
    """Reads the views of one pipeline."""

    def __init__(self, session: CassandraSession, *, keyspace: str, plan: Plan) -> None:
        """`keyspace` holds the pipeline's state; `plan` is the one it runs."""
        self._session = session
        self._keyspace = keyspace
        self._publications = {it.view: PublishCompute(it, plan) for it in plan.publications}
        self._zones = {
            stage.name: zone
            for zone in (ZoneCompute(z, plan) for z in plan.zones)
            for stage in zone.zone.stages
        }

    def scan(self, view: str, *, attempts: int = ATTEMPTS) -> Snapshot:
        """Return the whole view as of one committed epoch."""
        publication = self._publication(view)
        for _ in range(attempts):
            first = read_control(self._session, self._keyspace)
            try:
                rows = self._rows(publication, first.committed, first.signature.incarnation)
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
        """Return one row; without `snapshot` it is what plain CQL shows."""
        if snapshot:
            return self.scan(view).rows.get(key)
        publication = self._publication(view).publication
        names = [name for name, _ in publication.columns]
        where = " AND ".join(f"{name} = ?" for name in publication.key)
        found = self._session.execute(
            f"SELECT {', '.join(names)} FROM {publication.table} WHERE {where}", key
        )
        return dict(zip(names, found[0], strict=True)) if found else None

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

    def _publication(self, view: str) -> PublishCompute:
        if view not in self._publications:
            raise SpecificationError(
                f"this pipeline keeps no view {view}",
                next_step=f"it keeps {', '.join(sorted(self._publications))}",
            )
        return self._publications[view]

    def _rows(self, publication: PublishCompute, epoch: int, incarnation: int) -> dict[Key, Row]:
        contents: dict[str, Bag] = {}
        for edge in publication.publication.inputs:
            zone = self._zones.get(edge.source)
            if zone is None:
                raise SpecificationError(
                    f"{publication.publication.view} has one row a base row: it keeps no state to take a snapshot of",
                    next_step="read it with snapshot=False: each row is strong by itself",
                )
            contents[edge.source] = self._contents(zone, edge.source, epoch, incarnation)
        names = [name for name, _ in publication.publication.columns]
        rows = (row for row, _ in publication.rows(contents))
        return {publication.key_of(row): dict(zip(names, row, strict=True)) for row in rows}

    def _contents(self, zone: ZoneCompute, stage: str, epoch: int, incarnation: int) -> Bag:
        table = state_table(self._keyspace, f"{zone.name}_{incarnation}").name
        text = f"SELECT row, now, row_epoch, alive, before, alive_before FROM {table} WHERE bucket = ?"
        found = Bag()
        for bucket in range(zone.zone.buckets):
            rows: dict[bytes, bytes] = {}
            for key, now, at, alive, before, alive_before in self._session.execute(text, (bucket,)):
                if key in (None, SENTINEL):
                    continue
                if at > epoch + 1:
                    raise MovedOnError
                shown, there = (now, alive) if at <= epoch else (before, alive_before)
                if there:
                    rows[key] = shown
            state = State(rows=rows, keys=set(), prefixes=set(), everything=True)
            found.extend(zone.contents(state)[stage])
        return found
