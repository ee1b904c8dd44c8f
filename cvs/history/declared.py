"""Columns of histories whose tables declare types that JSON has not: what `merge.typed` does, without events.

Each different text of a column is brought to its type once, so a million prices cost what their different values do.
"""

from collections.abc import Mapping

import numpy as np

from cvs.history import events as ev
from cvs.history.columns import Reader, Readers
from cvs.history.fields import Numbering
from cvs.history.merge import PLAIN, Schema, plain
from cvs.history.packing import Flags, Integers
from cvs.history.rows import Compute, Rows
from cvs.model.views import BaseTable


def declared(
    readers: Readers, tables: Mapping[str, BaseTable], bases: Numbering | None = None
) -> tuple[Readers, Numbering]:
    """Return readers, and a numbering of base records, that are given values in their types; as they are if all are."""
    bases = Numbering() if bases is None else bases
    if plain(tables.values()):
        return readers, bases
    schema = Schema()
    for table in tables.values():
        schema.take(table)
    typed = {
        name: [_Typing(each, name, schema, tables) for each in own] for name, own in readers.tables.items()
    }
    return Readers(records=readers.records, tables=typed, views=readers.views), _Keys(schema, bases)


class _Keys(Numbering):
    """Numbers base records by their keys in their types."""

    def __init__(self, schema: Schema, numbering: Numbering) -> None:
        super().__init__()
        self._schema, self._numbering, self.known = schema, numbering, numbering.known

    def number(self, owner: str, key: ev.Key) -> int:
        """Bring the key to its types."""
        return self._numbering.number(owner, self._schema.key(owner, key))


class _Typing(Reader):
    """Gives a reader the rows of its table in their types."""

    def __init__(self, reader: Reader, table: str, schema: Schema, tables: Mapping[str, BaseTable]) -> None:
        self._reader, self._table, self._schema = reader, table, schema
        columns = tables[table].columns if table in tables else ()
        self.others = {name for name, kind in columns if kind not in PLAIN}
        self._computes: dict[Compute, Compute] = {}

    def take(self, rows: Rows, owners: Integers | None) -> None:
        """Pass them on."""
        self._reader.take(_Rows(rows, self), owners)

    def typed(self, compute: Compute) -> Compute:
        """Return the same function for the same, by which rows know what they computed before."""
        if compute not in self._computes:
            self._computes[compute] = lambda row: compute(self._schema.row(self._table, row) or {})
        return self._computes[compute]


class _Rows:
    """Rows of a table, in their types."""

    def __init__(self, rows: Rows, typing: _Typing) -> None:
        self._rows, self._typing = rows, typing
        self.many, self.present = rows.many, rows.present

    def widths(self) -> Integers:
        """Types change no widths."""
        return self._rows.widths()

    def names(self) -> set[str]:
        """... and no names."""
        return self._rows.names()

    def whole(self, name: str) -> tuple[Integers, Flags, Flags]:
        """Say that nothing is a whole number in a column of other numbers."""
        values, is_whole, there = self._rows.whole(name)
        return (
            (np.zeros_like(values), np.zeros_like(is_whole), there)
            if name in self._typing.others
            else (values, is_whole, there)
        )

    def computed(self, names: tuple[str, ...], compute: Compute, where: Flags) -> Integers:
        """Compute from values in their types."""
        return self._rows.computed(names, self._typing.typed(compute), where)
