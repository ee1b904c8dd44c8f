"""Reading a whole table of the user's cluster: parts of the token ring side by side, page after page.

What is read is never held: rows are handed on one by one, and a page is asked for while the one before it is worked on.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from cvs.errors import SpecificationError
from cvs.model.cql_type import parse_type
from cvs.model.layout import quoted
from cvs.model.types import normal
from cvs.model.values import spelled
from cvs.model.views import BaseTable
from cvs.programs.epoch_run import told_key
from cvs.store.sending import ROWS_FIRST, next_page
from cvs.store.session import CassandraSession

Row = dict[str, Any]  # because columns have any CQL type
LOWEST, TOKENS = -(2**63), 2**64
PARTS = 16
ASKED_AT_ONCE = 2
COURTESY = 19
ROWS_A_PAGE = 1_000
_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "double"})
CANONICAL = _NUMBERS | {"ascii", "text", "varchar", "boolean", "uuid", "timeuuid", "blob"}
"""Types whose values the driver hands over in the form the model knows."""


def canonical_form(columns: Iterable[tuple[str, str]]) -> Callable[[Row], Row]:
    """Return what brings a row that the driver gave, in place, to the form the model knows."""
    parsed = [(name, parse_type(kind)) for name, kind in columns]
    strange = [(name, kind) for name, kind in parsed if kind.name not in CANONICAL]

    def formed(row: Row) -> Row:
        for name, kind in strange:
            row[name] = normal(kind, row[name])
        return row

    return formed


def give_way() -> None:
    """Let what follows the base on this machine go first: whoever only reads can wait."""
    os.nice(COURTESY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """Some columns of a base table, read at QUORUM each time somebody goes through them."""

    session: CassandraSession
    table: BaseTable
    unread: set[str]
    excluded: frozenset[tuple[str, str]] = frozenset()  # (table, key) of rows in quarantine
    left_out: tuple[str, ...] = ()  # columns of which only the write times are read

    @classmethod
    def of(
        cls,
        session: CassandraSession,
        table: BaseTable,
        wanted: set[str] | None,
        *,
        unread: set[str],
        excluded: frozenset[tuple[str, str]],
    ) -> "TableScan":
        """Scan the wanted columns (None: all) and the key; keys of rows that count for nothing go into `unread`."""
        kept = tuple(it for it in table.columns if wanted is None or it[0] in wanted or it[0] in table.key)
        narrow, left_out = replace(table, columns=kept), tuple(n for n, _ in set(table.columns) - set(kept))
        return cls(session=session, table=narrow, unread=unread, excluded=excluded, left_out=left_out)

    def __iter__(self) -> Iterator[Row]:
        """Give each row; a partition of statics alone has none, one that cannot be read adds nothing (H24).

        Of a row whose INSERT has expired Cassandra says nothing if no column is asked for by which it lives on.
        """
        names = [name for name, _ in self.table.columns]
        formed = canonical_form(self.table.columns)
        clustered = self.table.clustering_key[:1]
        times = (f"maxwritetime({quoted(name)})" for name in self.left_out)
        asked = ", ".join([*map(quoted, names), *times])
        for page in pages(self.session, self.table.name, asked, self.table.partition_key):
            for values in page:
                row = dict(zip(names, values, strict=False))
                if clustered and row[clustered[0]] is None:
                    continue
                try:
                    formed(row)
                    counts = not self.excluded or self._told(row) not in self.excluded
                except SpecificationError:
                    counts = False
                if counts:
                    yield row
                else:
                    self.unread.add(" ".join([self.table.name, *map(spelled, map(row.get, self.table.key))]))

    def _told(self, row: Row) -> tuple[str, str]:
        key = map(row.get, self.table.key)
        return self.table.name, told_key(value for value in key if value is not None)


def pages(
    session: CassandraSession, table: str, asked: str, partition_key: Sequence[str]
) -> Iterator[list[tuple[Any, ...]]]:
    """Read a table in pages, in no order; the next pages of several parts are on their way meanwhile."""
    name = ".".join(quoted(part) for part in table.split(".", 1))
    token = f"token({', '.join(map(quoted, partition_key))})"
    statement = session.prepared(f"SELECT {asked} FROM {name} WHERE {token} > ? AND {token} <= ?")
    edges = [LOWEST + TOKENS * n // PARTS - (n == PARTS) for n in range(PARTS + 1)]
    waiting = deque(pairwise(edges))
    running: deque[Any] = deque()
    while waiting or running:
        while waiting and len(running) < ASKED_AT_ONCE:
            bound = statement.bind(waiting.popleft())
            bound.fetch_size = ROWS_FIRST
            running.append(session.driver.execute_async(bound))
        future = running.popleft()
        rows = future.result().current_rows
        if future.has_more_pages:
            size = sum(len(value) for row in rows for value in row if isinstance(value, str | bytes))
            next_page(future, size, len(rows), most=ROWS_A_PAGE)
            running.append(future)
        yield rows
