"""The live schema as the model's words have it: read over CQL, user types spelled out."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cvs.errors import SpecificationError
from cvs.model.cql_type import UserTypes, parse_type
from cvs.model.views import BaseTable
from cvs.store.session import CassandraSession

CASSANDRAS_OWN = frozenset(
    (
        "system",
        "system_auth",
        "system_distributed",
        "system_schema",
        "system_traces",
        "system_cluster_metadata",
    )
)
"""Keyspaces that no view is about; what starts like them may well be a user's."""

_COLUMNS = ("keyspace_name", "table_name", "column_name", "kind", "position", "type")
_TYPES = ("keyspace_name", "type_name", "field_names", "field_types")

Rows = Iterable[Mapping[str, Any]]  # because a row of system_schema has texts, numbers and lists


def base_tables(session: CassandraSession) -> dict[str, BaseTable]:
    """Return all tables that are not Cassandra's own, by full name."""
    return tables_of_rows(
        _read(session, "columns", _COLUMNS), _read(session, "types", _TYPES), static_compact(session)
    )


def static_compact(session: CassandraSession) -> set[str]:
    """Return the tables made `WITH COMPACT STORAGE` without clustering, by full name.

    To Cassandra their columns are static, beside a clustering column and a value that no statement may name.
    """
    rows = _read(session, "tables", ("keyspace_name", "table_name", "flags"))
    return {
        f"{row['keyspace_name']}.{row['table_name']}"
        for row in rows
        if row["keyspace_name"] not in CASSANDRAS_OWN
        and row["flags"] is not None
        and not {"compound", "dense", "super"} & {*row["flags"]}
    }


def tables_of_rows(columns: Rows, types: Rows = (), compact: Collection[str] = ()) -> dict[str, BaseTable]:
    """Return tables from the rows of `system_schema.columns` and `types`; `compact`: static ones, as CQL shows them."""
    user_types: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {}
    for row in types:
        fields = tuple(zip(row["field_names"], row["field_types"], strict=True))
        user_types.setdefault(row["keyspace_name"], {})[row["type_name"]] = fields
    by_table: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in columns:
        hidden = (
            row["kind"] in ("clustering", "regular")
            and f"{row['keyspace_name']}.{row['table_name']}" in compact
        )
        hidden = (
            hidden or row["type"] == "empty"
        )  # of what is all key and had COMPACT STORAGE: it holds nothing
        if row["keyspace_name"] not in CASSANDRAS_OWN and not hidden:
            by_table.setdefault((row["keyspace_name"], row["table_name"]), []).append(row)
    return {f"{k}.{t}": _table(f"{k}.{t}", rows, user_types.get(k, {})) for (k, t), rows in by_table.items()}


def _read(session: CassandraSession, table: str, names: tuple[str, ...]) -> Rows:
    rows = session.execute(f"SELECT {', '.join(names)} FROM system_schema.{table}")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _table(name: str, rows: list[Mapping[str, Any]], user_types: UserTypes) -> BaseTable:
    def key(kind: str) -> tuple[str, ...]:
        parts = [row for row in rows if row["kind"] == kind]
        return tuple(row["column_name"] for row in sorted(parts, key=lambda row: row["position"]))

    partition, clustering = key("partition_key"), key("clustering")
    types = {row["column_name"]: _spelled_out(row["type"], user_types) for row in rows}
    first = (*partition, *clustering)
    others = sorted((row["kind"] != "static", row["column_name"]) for row in rows)
    rest = [column for _, column in others if column not in first]
    return BaseTable(
        name=name,
        columns=tuple((column, types[column]) for column in (*first, *rest)),
        partition_key=partition,
        clustering_key=clustering,
    )


def _spelled_out(text: str, user_types: UserTypes) -> str:
    try:
        return str(parse_type(text, user_types))
    except SpecificationError:
        return text  # because a custom type in a table of no view is nobody's mistake; a view that uses it is refused
