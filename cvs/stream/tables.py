"""The tables of a pipeline: made before its control row names the incarnation, buckets, signatures and all.

What is made here is written with write time 1, older than every test-and-set, so making it twice, or by two
sidecars at once, changes nothing.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cvs.client.control import of_an_older_cvs
from cvs.model.layout import TableLayout, create_statement, delta_table, published_table, quoted, state_table
from cvs.model.stages import Plan
from cvs.programs.epoch import (
    BUILDING,
    CONTROL_BUCKET,
    CONTROL_TABLE,
    EPOCHS_A_LIFE,
    PIN_ROW,
    Pin,
    encode_pin,
)
from cvs.programs.stage_bucket import SENTINEL, StateRow, encode_state
from cvs.store.sending import carry_out
from cvs.store.session import CassandraSession

QUARANTINE_TABLE = "quarantine"
OLDEST = 1
"""Write time of what exists before the first epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Where a pipeline keeps its things; state and DELTA of another incarnation are other tables."""

    keyspace: str
    incarnation: int = 1

    @property
    def epoch_before(self) -> int:
        """Return the epoch before the first one of this incarnation."""
        return (self.incarnation - 1) * EPOCHS_A_LIFE

    @property
    def consumer(self) -> str:
        """Return the name under which this incarnation holds its place in the feed."""
        return self.keyspace if self.incarnation == 1 else f"{self.keyspace}-{self.incarnation}"

    @property
    def building_bucket(self) -> int:
        """Return where the control row is until this incarnation serves: the first has nobody to wait for."""
        return CONTROL_BUCKET if self.incarnation == 1 else self.incarnation

    def state(self, zone: str) -> str:
        """Return the table of a zone's state."""
        return self._layout_state(zone).name.split(".", 1)[1]

    def delta(self, base: str) -> str:
        """Return the table of a base table's DELTA."""
        return self._layout_delta(base).name.split(".", 1)[1]

    def _layout_state(self, zone: str) -> TableLayout:
        return state_table(self.keyspace, f"{zone}_{self.incarnation}")

    def _layout_delta(self, base: str) -> TableLayout:
        return delta_table(self.keyspace, f"{base}_{self.incarnation}")

    def quarantine(self) -> TableLayout:
        """Return the table of what contributes nothing, and why."""
        return TableLayout(
            name=f"{self.keyspace}.{QUARANTINE_TABLE}",
            columns=(
                ("incarnation", "bigint"),
                ("source", "text"),
                ("key", "text"),
                ("reason", "text"),
                ("epoch", "bigint"),
            ),
            partition_key=("incarnation",),
            clustering=(("source", False), ("key", False)),
            comment="cvs quarantine: rows that contribute nothing to views, and why",
        )

    def layouts(self, plan: Plan) -> Iterable[TableLayout]:
        """Return every table of the plan."""
        yield self.control()
        yield self.quarantine()
        yield from (self._layout_delta(base.name) for base in plan.bases)
        yield from (self._layout_state(zone.name) for zone in plan.zones)
        yield from (published_table(publication) for publication in plan.publications)

    def control(self) -> TableLayout:
        """Return the control table: a state table like any other, the same in every incarnation."""
        state = state_table(self.keyspace, "x")
        return TableLayout(
            name=f"{self.keyspace}.{CONTROL_TABLE}",
            columns=state.columns,
            partition_key=state.partition_key,
            clustering=state.clustering,
            static=state.static,
            comment="cvs control row: the committed epoch and the pin of the next",
        )


def create(
    session: CassandraSession, plan: Plan, names: Names, *, replication: int = 1, build: str = ""
) -> None:
    """Make keyspace, tables, buckets with their signatures and sentinels, and the control row, in this order.

    `build` names the feed's stream that will carry what the base tables hold: until it is absorbed no view is shown.
    """
    known = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?"
    if not session.execute(known, (names.keyspace,)):  # else the role would have to be allowed to make any
        session.define(
            f"CREATE KEYSPACE IF NOT EXISTS {quoted(names.keyspace)} WITH replication = "
            f"{{'class': 'SimpleStrategy', 'replication_factor': {int(replication)}}}"
        )
    _refuse_older(session, names)
    session.define_all(definitions(session, names.layouts(plan)))
    for zone in plan.zones:
        table = f"{names.keyspace}.{names.state(zone.name)}"
        _make_buckets(session, table, range(zone.buckets), names.incarnation, 0)
    control, before = f"{names.keyspace}.{CONTROL_TABLE}", names.epoch_before
    if build:
        views = {publication.view: BUILDING for publication in plan.publications}
        pin = Pin(epoch=before, incarnation=names.incarnation, build=build, views=views)
        put = f"INSERT INTO {control} (bucket, row, stored) VALUES (?, ?, ?) "
        row = StateRow(now=encode_pin(pin), epoch=before, alive=True)
        values = (names.building_bucket, PIN_ROW, encode_state(row))
        # because of two that were never begun the later counts; seconds are older than every ballot's microseconds
        session.execute(f"{put} USING TIMESTAMP {int(time.time())}", values)
    _make_buckets(session, control, [names.building_bucket], names.incarnation, before)


def definitions(session: CassandraSession, layouts: Iterable[TableLayout]) -> list[str]:
    """Return the statements that make tables, each with the mark of the session's serial level."""
    return [create_statement(replace(it, comment=session.marked(it.comment))) for it in layouts]


def state_id(session: CassandraSession, keyspace: str) -> str:
    """Name a state as no other is: where all was dropped and made again, numbers of epochs begin again too."""
    query = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?"
    ((found,),) = session.insist(query, (keyspace, CONTROL_TABLE))
    return str(found.hex)


def _refuse_older(session: CassandraSession, names: Names) -> None:
    """Tables that are there must have today's columns: `IF NOT EXISTS` would pass over them."""
    keyspace = session.driver.cluster.metadata.keyspaces.get(names.keyspace)
    control = keyspace.tables.get(CONTROL_TABLE) if keyspace is not None else None
    if control is not None and not {name for name, _ in names.control().columns} <= set(control.columns):
        raise of_an_older_cvs(names.control().name)


def _make_buckets(
    session: CassandraSession, table: str, buckets: Iterable[int], incarnation: int, epoch: int
) -> None:
    put = session.prepared(
        f"INSERT INTO {table} (bucket, incarnation, epoch, chunk, last, row) "
        f"VALUES (?, ?, ?, 0, true, ?) USING TIMESTAMP {OLDEST}"
    )
    carry_out(session.driver, (put.bind((bucket, incarnation, epoch, SENTINEL)) for bucket in buckets))
