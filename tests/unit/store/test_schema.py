"""What `system_schema` says of a table, in the model's words."""

from types import SimpleNamespace
from typing import Any

from cvs.store.schema import static_compact, tables_of_rows


def column(name: str, kind: str, position: int, cql: str, *, keyspace: str = "shop") -> dict[str, Any]:
    return {
        "keyspace_name": keyspace,
        "table_name": "customers",
        "column_name": name,
        "kind": kind,
        "position": position,
        "type": cql,
    }


def test_key_columns_come_first_and_user_types_are_spelled_out() -> None:
    rows = [
        column("name", "regular", -1, "text"),
        column("c2", "clustering", 1, "int"),
        column("c1", "clustering", 0, "int"),
        column("id", "partition_key", 0, "int"),
        column("home", "regular", -1, "frozen<address>"),
        column("odd", "regular", -1, "'org.example.Type'"),
    ]
    types = [
        {
            "keyspace_name": "shop",
            "type_name": "address",
            "field_names": ["street", "zip"],
            "field_types": ["text", "int"],
        },
        {
            "keyspace_name": "other",
            "type_name": "address",
            "field_names": ["planet"],
            "field_types": ["text"],
        },
    ]
    (found,) = tables_of_rows(rows, types).values()
    assert (found.partition_key, found.clustering_key) == (("id",), ("c1", "c2"))
    assert [name for name, _ in found.columns] == ["id", "c1", "c2", "home", "name", "odd"]
    assert dict(found.columns)["home"] == "frozen<udt<street:text, zip:int>>"
    assert dict(found.columns)["odd"] == "'org.example.Type'"


def test_only_cassandras_own_keyspaces_are_left_out() -> None:
    """A user's keyspace may be called like one of Cassandra's, and more."""
    rows = [
        column("id", "partition_key", 0, "int", keyspace=keyspace)
        for keyspace in ("system", "system_auth", "systematics", "system_of_mine")
    ]
    assert set(tables_of_rows(rows)) == {"systematics.customers", "system_of_mine.customers"}


def test_a_static_table_with_compact_storage_is_as_cql_shows_it() -> None:
    """To `system_schema` it has a clustering column that no statement may name: a build asked for it."""
    rows = [
        column("id", "partition_key", 0, "int"),
        column("column1", "clustering", 0, "text"),
        column("v", "static", -1, "int"),
        column("value", "regular", -1, "blob"),
    ]
    (found,) = tables_of_rows(rows, (), {"shop.customers"}).values()
    assert (found.key, found.columns) == (("id",), (("id", "int"), ("v", "int")))
    (found,) = tables_of_rows(rows).values()
    assert found.key == ("id", "column1"), "so it is once DROP COMPACT STORAGE has shown its columns"


def test_a_column_that_holds_nothing_is_none_of_a_tables() -> None:
    """What was all key WITH COMPACT STORAGE shows one: `SELECT *` over it was refused (""empty" is no CQL type")."""
    rows = [column("id", "partition_key", 0, "int"), column("value", "regular", -1, "empty")]
    (found,) = tables_of_rows(rows).values()
    assert found.columns == (("id", "int"),)


def test_static_tables_with_compact_storage_are_told_by_their_flags() -> None:
    flags = {
        "one": {"compound"},
        "two": {"compound", "counter"},
        "three": {"dense"},
        "four": set(),
        "five": {"counter"},
    }
    rows = [("shop", name, it) for name, it in flags.items()] + [
        ("shop", "six", None),
        ("system", "x", set()),
    ]
    session: Any = SimpleNamespace(execute=lambda _: rows)
    assert static_compact(session) == {"shop.four", "shop.five"}
