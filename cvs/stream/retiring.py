"""What an older incarnation left: rows of published tables, published tables of another shape, tables of its own."""

import re
from collections.abc import Iterable

from cvs.model.layout import create_statement, published_table, quoted
from cvs.model.stages import Publication
from cvs.store.sending import carry_out
from cvs.store.session import CassandraSession


def renew_published(session: CassandraSession, publication: Publication) -> None:
    """Make a published table anew if its columns or key are others: Cassandra cannot change a key."""
    layout = published_table(publication)
    keyspace, name = layout.name.split(".", 1)
    cluster = session.driver.cluster
    cluster.refresh_keyspace_metadata(keyspace)
    found = cluster.metadata.keyspaces[keyspace].tables.get(name)
    if found is not None:
        columns = {column.name: _plain(column.cql_type) for column in found.columns.values()}
        descending = [(it.name, it.is_reversed) for it in found.clustering_key]
        same = (
            columns == {column: _plain(kind) for column, kind in layout.columns}
            and [it.name for it in found.partition_key] == list(layout.partition_key)
            and descending == list(layout.clustering)
        )
        if same:
            return
        session.define(f"DROP TABLE IF EXISTS {quoted(keyspace)}.{quoted(name)}")
    session.define(create_statement(layout))


def _plain(kind: str) -> tuple[bool, str]:
    """Return a type so that two spellings of it are equal: `frozen` counts only outside, where it changes the cells."""
    inside = re.sub(r"frozen|[<> ]", "", kind)
    return kind.startswith("frozen<"), re.sub(r"\bvarchar\b", "text", inside)


def retire_rows(session: CassandraSession, publication: Publication, *, before: int) -> None:
    """Delete rows that were put before an epoch and not put since.

    The delete carries the epoch before it as its write time, so it can hide nothing that was put since; a row whose
    columns tell no write time (all of them null, or none) gets one for certain.
    """
    table = ".".join(quoted(part) for part in publication.table.split(".", 1))
    keys = [quoted(name) for name in publication.key]
    others = [quoted(name) for name, _ in publication.columns if name not in publication.key]
    times = "".join(f", maxwritetime({name})" for name in others)
    rows = session.driver.execute(session.prepared(f"SELECT {', '.join(keys)}{times} FROM {table}").bind(()))
    old = (
        row[: len(keys)]
        for row in rows
        if max((at for at in row[len(keys) :] if at is not None), default=0) < before
    )
    where = " AND ".join(f"{key} = ?" for key in keys)
    delete = session.prepared(f"DELETE FROM {table} USING TIMESTAMP ? WHERE {where}")
    carry_out(session.driver, (delete.bind((before - 1, *key)) for key in old))


def drop_tables(session: CassandraSession, tables: Iterable[str]) -> None:
    """Drop tables that nothing uses any more."""
    for table in tables:
        session.define(f"DROP TABLE IF EXISTS {'.'.join(quoted(part) for part in table.split('.', 1))}")
