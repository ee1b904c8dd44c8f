"""The tables of a pipeline: made before its control row names the incarnation, buckets, signatures and all.

What is made here is written with write time 1, older than every test-and-set, so making it twice, or by two
sidecars at once, changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cassandra.concurrent import execute_concurrent_with_args

from cvs.model.layout import TableLayout, create_statement, delta_table, published_table, quoted, state_table
from cvs.model.stages import Plan
from cvs.programs.epoch import CONTROL_TABLE
from cvs.programs.stage_bucket import SENTINEL
from cvs.store.session import CassandraSession

OLDEST = 1
"""Write time of what exists before the first epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Where a pipeline keeps its things; state and DELTA of another incarnation are other tables."""

    keyspace: str
    incarnation: int = 1

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

    def layouts(self, plan: Plan) -> Iterable[TableLayout]:
        """Return every table of the plan."""
        yield self.control()
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


def create(session: CassandraSession, plan: Plan, names: Names, *, replication: int = 1) -> None:
    """Make keyspace, tables, buckets with their signatures and sentinels, and the control row, in this order."""
    session.define(
        f"CREATE KEYSPACE IF NOT EXISTS {quoted(names.keyspace)} WITH replication = "
        f"{{'class': 'SimpleStrategy', 'replication_factor': {int(replication)}}}"
    )
    layouts = list(names.layouts(plan))
    for layout in layouts:
        session.define(create_statement(replace(layout, comment=session.marked(layout.comment))))
    for zone in plan.zones:
        _make_buckets(
            session, f"{names.keyspace}.{names.state(zone.name)}", range(zone.buckets), names.incarnation
        )
    _make_buckets(session, f"{names.keyspace}.{CONTROL_TABLE}", range(1), names.incarnation)


def _make_buckets(session: CassandraSession, table: str, buckets: Iterable[int], incarnation: int) -> None:
    put = session.prepared(
        f"INSERT INTO {table} (bucket, incarnation, epoch, chunk, last, row, row_epoch, alive) "
        f"VALUES (?, ?, 0, 0, true, ?, 0, false) USING TIMESTAMP {OLDEST}"
    )
    values = [(bucket, incarnation, SENTINEL) for bucket in buckets]
    execute_concurrent_with_args(session.driver, put, values, concurrency=64)
