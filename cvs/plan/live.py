"""Base tables of a live cluster, read once over CQL."""

from collections.abc import Sequence
from typing import Any

from cvs.errors import StoreError
from cvs.model.views import BaseTable
from cvs.plan.cql import tables_of_rows

_COLUMNS = (
    "SELECT keyspace_name, table_name, column_name, kind, position, type FROM system_schema.columns"
    " WHERE keyspace_name = %s"
)


def tables_of_cluster(hosts: Sequence[str], port: int, keyspace: str | None) -> dict[str, BaseTable]:
    """Return the tables of one keyspace, or of all that are not Cassandra's own."""
    from cassandra.cluster import Cluster, NoHostAvailable  # because the driver is slow to import

    cluster = Cluster([host.strip() for host in hosts], port=port)
    try:
        session = cluster.connect()
        names = [keyspace] if keyspace else _keyspaces(session)
        rows = [row._asdict() for name in names for row in session.execute(_COLUMNS, (name,))]
    except NoHostAvailable as failure:
        raise StoreError(
            f"no host of {', '.join(hosts)} answers on port {port}",
            where=str(failure)[:200],
            next_step="check --contact-points and --port, or give --schema",
        ) from None
    finally:
        cluster.shutdown()
    return tables_of_rows(rows)


def _keyspaces(session: Any) -> list[str]:
    rows = session.execute("SELECT keyspace_name FROM system_schema.keyspaces")
    return [row.keyspace_name for row in rows if not row.keyspace_name.startswith("system")]
