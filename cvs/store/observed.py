"""What a live cluster can tell a planner: rows, different values, bounds and update rates of its tables.

Rows are estimated from a sample: the partitions that follow a token, and which share of the token range they fill.
A table that a sample takes in whole is counted, not estimated. Rates are differences of Cassandra's own write
counters over some seconds (`system_views.local_write_latency`, each node by itself), divided by the replicas.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from cassandra.query import SimpleStatement
from cassandra.util import Date

from cvs.model.layout import quoted
from cvs.model.views import BaseTable
from cvs.store.session import CassandraSession

SAMPLE_ROWS = 5_000
TOKENS = 2**64
FIRST_TOKEN = -(2**63)
WRITES = "SELECT keyspace_name, table_name, count FROM system_views.local_write_latency"


@dataclass(slots=True, kw_only=True)
class Observed:
    """As `cvs explain --statistics` takes it: by table, and by `table.column`."""

    rows: dict[str, int] = field(default_factory=dict)
    distinct: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, tuple[Any, Any]] = field(default_factory=dict)


def observe(session: CassandraSession, tables: Iterable[BaseTable], *, sample: int = SAMPLE_ROWS) -> Observed:
    """Sample each table once."""
    found = Observed()
    for table in tables:
        _sampled(session, table, sample, found)
    return found


def write_rates(
    session: CassandraSession, *, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> dict[str, float]:
    """Return the writes a second of each table over a window: mutations of partitions, replicas not counted."""
    before = _writes(session)
    sleep(seconds)
    after = _writes(session)
    replicas = _replicas(session)
    return {
        table: (count - before.get(table, 0)) / seconds / max(1, replicas.get(table.split(".")[0], 1))
        for table, count in after.items()
    }


def estimated_distinct(values: Mapping[Any, int], rows: int) -> int:
    """Estimate different values in all rows from how often each was sampled (Haas and others: Duj1)."""
    sampled, different = sum(values.values()), len(values)
    once = sum(1 for count in values.values() if count == 1)
    if not sampled:
        return 0
    return max(different, min(rows, round(sampled * different / (sampled - once + once * sampled / rows))))


def _sampled(session: CassandraSession, table: BaseTable, sample: int, found: Observed) -> None:
    names = [name for name, _ in table.columns]
    partition = ", ".join(quoted(name) for name in table.partition_key)
    full = ".".join(quoted(part) for part in table.name.split(".", 1))
    columns = ", ".join(quoted(name) for name in names)
    read = f"SELECT token({partition}), {columns} FROM {full} LIMIT ?"
    rows = session.execute(read, (sample,))
    if len(rows) < sample:
        count = len(rows)
    else:
        # The last partition may be cut: it ends the range that was seen whole.
        last = rows[-1][0]
        whole = [row for row in rows if row[0] != last] or rows
        count = max(len(rows), round(len(whole) * TOKENS / max(1, last - FIRST_TOKEN)))
        rows = whole
    found.rows[table.name] = count
    for place, name in enumerate(names, start=1):
        values = [row[place] for row in rows if row[place] is not None]
        found.distinct[f"{table.name}.{name}"] = estimated_distinct(Counter(map(repr, values)), max(1, count))
        ordered = [value for value in map(_comparable, values) if value is not None]
        if ordered and len(ordered) == len(values):
            found.bounds[f"{table.name}.{name}"] = (min(ordered), max(ordered))


def _comparable(value: Any) -> Any:
    """Return a value that has an order like a number's; None: it has not."""
    if isinstance(value, bool | datetime):
        return None
    if isinstance(value, Date):
        try:
            value = value.date()
        except ValueError:
            return None  # because Cassandra's dates reach beyond Python's years
    return value if isinstance(value, int | float | Decimal | date) and value == value else None


def _writes(session: CassandraSession) -> dict[str, int]:
    """Sum the counters of all nodes: a virtual table tells of the node that is asked only."""
    total: dict[str, int] = {}
    for host in session.driver.cluster.metadata.all_hosts():
        for keyspace, table, count in session.driver.execute(SimpleStatement(WRITES), host=host):
            name = f"{keyspace}.{table}"
            total[name] = total.get(name, 0) + count
    return total


def _replicas(session: CassandraSession) -> dict[str, int]:
    """Return how many copies each keyspace keeps."""
    rows = session.execute("SELECT keyspace_name, replication FROM system_schema.keyspaces")
    return {
        name: sum(int(n) for option, n in options.items() if option != "class" and str(n).isdigit())
        for name, options in rows
    }
