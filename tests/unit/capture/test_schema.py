"""The definitions at a place of the log: what a node shows, moved on by what the log says."""

from typing import Any
from uuid import UUID

from cvs.capture.schema import SchemaBook

OLD, NEW = str(UUID(int=1)), str(UUID(int=2))


def column(name: str, kind: str = "regular") -> dict[str, Any]:
    position = -1 if kind == "regular" else 0
    place = {"keyspace_name": "k", "table_name": "t", "column_name": name}
    return place | {"type": "int", "kind": kind, "position": position, "clustering_order": "asc"}


def shown(table_id: str, *columns: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    row = {"keyspace_name": "k", "table_name": "t", "id": table_id, "cdc": True}
    return {"tables": [row], "views": [], "columns": list(columns), "types": [], "dropped_columns": []}


def names(book: SchemaBook, table_id: str) -> list[str]:
    return [it.name for it in book.definitions[table_id].columns]


def test_a_table_made_anew_has_no_column_of_the_one_before() -> None:
    """Its DROP stood in a segment without a captured change, which nobody read: a clustering column stayed."""
    book = SchemaBook()
    book.load(shown(OLD, column("p", "partition_key"), column("c", "clustering"), column("x")))
    fresh = shown(NEW, column("p", "partition_key"), column("d", "clustering"))
    book.load(fresh)
    assert (names(book, NEW), names(book, OLD)) == (["p", "d"], ["p", "c", "x"])
    assert book.dropped == {OLD}
    assert book.load(fresh) == []


def test_a_column_that_the_node_shows_no_more_is_gone_and_may_come_back() -> None:
    book = SchemaBook()
    both = shown(OLD, column("p", "partition_key"), column("x"))
    book.load(both)
    book.load(shown(OLD, column("p", "partition_key")))
    assert names(book, OLD) == ["p"]
    book.load(both)
    assert names(book, OLD) == ["p", "x"]


def test_of_a_table_that_the_node_does_not_show_everything_is_kept() -> None:
    """The log has not come to its DROP yet, or the node is just making it."""
    book = SchemaBook()
    book.load(shown(OLD, column("p", "partition_key"), column("x")))
    book.load({name: [] for name in ("tables", "views", "columns", "types", "dropped_columns")})
    assert names(book, OLD) == ["p", "x"]
    assert not book.dropped
