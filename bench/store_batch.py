"""What a test-and-set of 200 rows costs its client, without a node: our adapter's batch beside the bare driver's.

    python bench/store_batch.py

Processor time of the thread, so a busy machine shifts it little. The bare driver is given encoded bytes; the
adapter encodes.
"""

import re
import statistics
import time
from collections.abc import Callable
from typing import cast

from cassandra.cqltypes import BooleanType, BytesType, Int32Type, LongType
from cassandra.protocol import ColumnMetadata
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from cvs.model.signature import Signature
from cvs.model.values import encode_row, encode_value
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession

ROWS = 200
ROUNDS = 15
REPEATS = 40
SCALARS = {"incarnation": LongType, "version": LongType, "chunk": Int32Type, "last": BooleanType}
UPDATED = (*SCALARS, "absorbed", "record", *SCALARS)


class Unconnected:
    """As much of a session as building a batch takes."""

    serial = 8

    def __init__(self) -> None:
        self._prepared: dict[str, PreparedStatement] = {}

    def check_serial(self, _keyspace: str, _table: str) -> None:
        """Nothing is mixed here."""

    def prepared(self, statement: str) -> PreparedStatement:
        """Make the statement as the server's answer would."""
        if statement not in self._prepared:
            listed = re.search(r"\(([^)]*)\) VALUES", statement)
            names = listed[1].split(", ") if listed else UPDATED
            columns = [ColumnMetadata("k", "t", name, SCALARS.get(name, BytesType)) for name in names]
            place = list(names).index("record")
            self._prepared[statement] = PreparedStatement(
                columns, b"q" * 16, [place], statement, "k", 5, None, b"m"
            )
        return self._prepared[statement]


def milliseconds(build: Callable[[], object]) -> str:
    """Measure one way to build the batch."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(REPEATS):
            build()
        rounds.append((time.thread_time() - began) * 1000 / REPEATS)
    return f"{statistics.median(rounds):.2f} ms ({min(rounds):.2f}-{max(rounds):.2f})"


def main() -> None:
    """Print both."""
    session = Unconnected()
    store = CassandraStore(cast(CassandraSession, session), keyspace="k")
    puts = tuple(((row,), {"total": 7, "count": row}) for row in range(ROWS))
    old, new = (Signature(version=n, entries=(("s", n),)) for n in (1, 2))
    place = PartitionId(table="t", key=(1, 2, 3))
    request = TestAndSet(partition=place, expected=old, new=new, puts=puts)
    record, entries = encode_value(place.key), encode_value(new.entries)
    bodies = [(encode_value(key), encode_row(body)) for key, body in puts]
    condition = session.prepared("UPDATE k.t SET")
    put = session.prepared("INSERT INTO k.t (record, row, body) VALUES (?, ?, ?)")

    def bare() -> BatchStatement:
        batch = BatchStatement(BatchType.LOGGED)
        batch.add(condition, (*new.scalars, entries, record, *old.scalars))
        for key, body in bodies:
            batch.add(put, (record, key, body))
        return batch

    same = [
        [(kind, name, list(values)) for kind, name, values in batch._statements_and_parameters]
        for batch in (bare(), store._batch(request))
    ]
    assert same[0] == same[1], "the two batches say different things"
    print(f"bare driver, bytes given: {milliseconds(bare)}")
    print(f"adapter, values encoded:  {milliseconds(lambda: store._batch(request))}")


if __name__ == "__main__":
    main()
