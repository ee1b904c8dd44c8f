"""Serialized CQL values as Python values, by column name: what people read and the schema book computes with.

The values are those of `model.cql_bytes`; only here a user type becomes an object by field name, and bytes that
have no Python value (a custom type, a timestamp beyond the calendar) stay bytes.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from cvs.capture.changes import Cell, TableDefinition
from cvs.errors import HistoryError
from cvs.model.cql_bytes import decode_cql
from cvs.model.cql_type import CqlType, UserTypes, parse_type

Value = Any  # because a column may hold any CQL value

MULTI_CELL = ("list", "set", "map", "udt")  # unless frozen
CUSTOM = CqlType(name="blob")  # named by its Java class, in single quotes: only that class knows more
EMPTY = (
    "empty"  # of the hidden column of a table with COMPACT STORAGE that is all key: its cells have no bytes
)


def user_types_of(definition: TableDefinition) -> UserTypes:
    """Return the fields of the user types that a table uses."""
    return {user_type.name: user_type.fields for user_type in definition.user_types}


def type_of(text: str, user_types: UserTypes) -> CqlType:
    """Parse a column's type as `system_schema` spells it."""
    return CUSTOM if "'" in text or text == EMPTY else parse_type(text, user_types)


def is_multi_cell(kind: CqlType) -> bool:
    """Tell whether a column of this type has a cell an element."""
    return kind.name in MULTI_CELL and not kind.frozen


class Reader:
    """Turns raw values of one table into Python values, by column name."""

    def __init__(self, definition: TableDefinition) -> None:
        """Parse the table's types once."""
        user_types = user_types_of(definition)
        texts = {name: text for name, text, _, _ in definition.dropped}
        texts |= {column.name: column.type for column in definition.columns}
        self.types: Mapping[str, CqlType] = {n: type_of(text, user_types) for n, text in texts.items()}

    def value(self, column: str, data: bytes | None) -> Value:
        """Return the value of a whole column (also: of a key column)."""
        return _value(self.types[column], data)

    def element(self, cell: Cell) -> tuple[Value, Value]:
        """Return (path, value) of a cell of a non-frozen collection or user type."""
        kind, path = self.types[cell.column], cell.path or b""
        match kind.name:
            case "map":
                return _value(kind.parts[0], path), _value(kind.parts[1], cell.value)
            case "set":
                return _value(kind.parts[0], path), None
            case "list":
                return UUID(bytes=path), _value(kind.parts[0], cell.value)
            case _:
                field = int.from_bytes(path, "big")
                return kind.fields[field], _value(kind.parts[field], cell.value)


def _value(kind: CqlType, data: bytes | None) -> Value:
    if kind.name == "counter" and data:
        return _sum_of_shards(data)
    try:
        value = decode_cql(kind, data)
    except HistoryError:
        return data
    return dict(zip(kind.fields, value, strict=True)) if kind.fields and value is not None else value


def _sum_of_shards(context: bytes) -> int:
    """Add up a counter's shards: a header of two-byte entries, then (id 16, clock 8, count 8) each.

    A captured change has only the shards that its write touched: with one replica that is the counter's value.
    """
    header = 2 + 2 * abs(int.from_bytes(context[:2], "big", signed=True))
    counts = (context[at + 24 : at + 32] for at in range(header, len(context), 32))
    return sum(int.from_bytes(count, "big", signed=True) for count in counts)
