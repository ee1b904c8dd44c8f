"""Base tables from the CQL text of a schema (those of a live cluster: `store/schema.py`).

Only what a view needs is read: columns, types, primary key. Statements other than CREATE TABLE are passed over.
"""

import re
from collections.abc import Iterable

from cvs.errors import SpecificationError
from cvs.model.views import BaseTable

_TOKEN = re.compile(
    r"""\s+|--[^\n]*|//[^\n]*|/\*.*?\*/|"((?:[^"]|"")*)"|'(?:[^']|'')*'|([A-Za-z_][\w]*)|(-?\d+(?:\.\d+)?)|(.)""",
    re.S,
)
_CREATE = ("create", "table")


def tables_of_schema(text: str) -> dict[str, BaseTable]:
    """Return the tables of a CQL schema (`DESCRIBE SCHEMA`, or what an application keeps in a file)."""
    found: dict[str, BaseTable] = {}
    keyspace = ""
    for statement in _statements(text):
        words = [word.lower() for word in statement[:2]]
        if words[:1] == ["use"] and len(statement) > 1:
            keyspace = statement[1]
        if tuple(words) == _CREATE:
            table = _table(statement[2:], keyspace)
            found[table.name] = table
    if not found:
        raise SpecificationError(
            "the schema has no CREATE TABLE", next_step="give the output of DESCRIBE SCHEMA"
        )
    return found


def _statements(text: str) -> Iterable[list[str]]:
    current: list[str] = []
    for match in _TOKEN.finditer(text):
        quoted, word, number, mark = match.groups()
        if mark == ";":
            yield current
            current = []
        elif quoted is not None:
            current.append(quoted.replace('""', '"'))
        elif word is not None:
            current.append(word.lower())
        elif number is not None or mark is not None:
            current.append(number or mark)
        elif match[0].startswith("'"):
            current.append(match[0])
    if current:
        yield current


def _table(tokens: list[str], keyspace: str) -> BaseTable:
    position = 3 if tokens[:3] == ["if", "not", "exists"] else 0
    try:
        name = tokens[position]
        if tokens[position + 1] == ".":
            name, position = f"{name}.{tokens[position + 2]}", position + 2
        elif keyspace:
            name = f"{keyspace}.{name}"
        else:
            raise SpecificationError(
                f"table `{name}` has no keyspace", next_step="write keyspace.table, or USE keyspace"
            )
        body = _body(tokens[position + 1 :])
    except (IndexError, ValueError):
        raise SpecificationError(
            f"CREATE TABLE {' '.join(tokens[:4])} is not complete", next_step="check it with cqlsh"
        ) from None
    return _columns(name, body)


def _body(tokens: list[str]) -> list[list[str]]:
    """Return the entries between the outer parentheses, split at commas of depth one."""
    if tokens[0] != "(":
        raise ValueError
    entries: list[list[str]] = [[]]
    depth = 0
    for part in tokens:
        depth += (part in "(<") - (part in ")>") if len(part) == 1 else 0
        if depth == 0:
            return entries
        if part == "," and depth == 1:
            entries.append([])
        elif not (part == "(" and depth == 1 and entries == [[]]):
            entries[-1].append(part)
    raise ValueError


def _columns(name: str, entries: list[list[str]]) -> BaseTable:
    columns: list[tuple[str, str]] = []
    partition: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    for entry in entries:
        if entry[:2] == ["primary", "key"]:
            partition, clustering = _key(entry[2:])
            continue
        column, rest = entry[0], entry[1:]
        if rest[-2:] == ["primary", "key"]:
            partition, rest = (column,), rest[:-2]
        if rest and rest[-1] == "static":
            rest = rest[:-1]
        columns.append((column, _type(rest)))
    if not partition:
        raise SpecificationError(f"table {name} has no primary key", next_step="check it with cqlsh")
    return BaseTable(name=name, columns=tuple(columns), partition_key=partition, clustering_key=clustering)


def _type(tokens: list[str]) -> str:
    text = "".join(tokens).replace(",", ", ")
    return "text" if text == "varchar" else text


def _key(tokens: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    inner = tokens[1:-1]
    if inner[0] != "(":
        names = [t for t in inner if t != ","]
        return (names[0],), tuple(names[1:])
    end = inner.index(")")
    return tuple(t for t in inner[1:end] if t != ","), tuple(t for t in inner[end + 1 :] if t != ",")
