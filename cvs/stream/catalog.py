"""What the pipeline asks of a cluster's schema: the base tables, as capture and as the model have them."""

from collections.abc import Iterable

from cvs.capture.changes import Column, ColumnKind, TableDefinition, UserType
from cvs.store.session import CassandraSession

OURS = "cvs "  # so begin the comments of all tables that cvs makes
_KINDS = {
    "partition_key": ColumnKind.PARTITION_KEY,
    "clustering": ColumnKind.CLUSTERING,
    "static": ColumnKind.STATIC,
    "regular": ColumnKind.REGULAR,
}


def definitions(
    session: CassandraSession, keyspaces: Iterable[str], *, captured: bool = True
) -> dict[str, TableDefinition]:
    """Return the captured tables of some keyspaces, by full name; else all of them that are not ours.

    Counters cannot be followed, and are not among them.
    """
    found = {}
    for keyspace in sorted(set(keyspaces)):
        types = _user_types(session, keyspace)
        rows = session.execute(
            "SELECT table_name, id, cdc, comment, flags FROM system_schema.tables WHERE keyspace_name = ?",
            (keyspace,),
        )
        for name, identity, cdc, comment, flags in rows:
            followed = cdc if captured else not (comment or "").startswith(OURS)
            if not followed or "counter" in (flags or ()):  # a counter's log holds no values
                continue
            found[f"{keyspace}.{name}"] = TableDefinition(
                id=str(identity),
                keyspace=keyspace,
                name=name,
                columns=_columns(session, keyspace, name),
                user_types=types,
            )
    return found


def grace_seconds(session: CassandraSession, tables: Iterable[TableDefinition]) -> dict[str, int]:
    """Return for how long Cassandra keeps what was deleted of tables; of one that is gone nothing."""
    keyspaces = session.driver.cluster.metadata.keyspaces
    found = {}
    for it in tables:
        keyspace = keyspaces.get(it.keyspace)
        table = None if keyspace is None else keyspace.tables.get(it.name)
        if table is not None:
            found[it.full_name] = int(table.options["gc_grace_seconds"])
    return found


def _columns(session: CassandraSession, keyspace: str, name: str) -> tuple[Column, ...]:
    rows = session.execute(
        "SELECT column_name, type, kind, position, clustering_order FROM system_schema.columns "
        "WHERE keyspace_name = ? AND table_name = ?",
        (keyspace, name),
    )
    columns = [
        Column(
            name=column, type=kind, kind=_KINDS[place], position=position, descending=order.lower() == "desc"
        )
        for column, kind, place, position, order in rows
    ]
    return tuple(sorted(columns, key=lambda it: (it.kind, it.position, it.name)))


def _user_types(session: CassandraSession, keyspace: str) -> tuple[UserType, ...]:
    rows = session.execute(
        "SELECT type_name, field_names, field_types FROM system_schema.types WHERE keyspace_name = ?",
        (keyspace,),
    )
    return tuple(
        UserType(name=name, fields=tuple(zip(names, kinds, strict=True))) for name, names, kinds in rows
    )
