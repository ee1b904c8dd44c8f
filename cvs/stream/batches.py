"""Puts packed into few statements, each within what Cassandra takes without a warning.

Of a batch over several partitions a node as it comes warns above 10 of them and above 5 KiB, and refuses it above
50 KiB; of one within a partition it does neither (`BatchStatement.verifyBatchSize`).
"""

from collections.abc import Iterable
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.query import BatchStatement, BatchType

ROWS_A_PUT = 100
BYTES_A_PUT = 48 * 1024
PARTITIONS_A_PUT = 10
BYTES_APART = 5 * 1024
ROW_OVERHEAD, VALUE_OVERHEAD = 64, 20
"""Bytes that a node counts beside the values: at most so many."""


def batches(partitions: Iterable[list[Any]]) -> Iterable[list[Any]]:
    """Cut puts, partition by partition, into batches within the bounds; a large partition shares with no other."""
    batch: list[Any] = []
    size = count = 0
    for partition in partitions:
        weight = sum(map(weight_of, partition))
        if weight > BYTES_APART:
            yield from _slices(partition)
            continue
        if size + weight > BYTES_APART or count == PARTITIONS_A_PUT:
            yield batch
            batch, size, count = [], 0, 0
        batch += partition
        size += weight
        count += 1
    if batch:
        yield batch


def _slices(partition: list[Any]) -> Iterable[list[Any]]:
    """Cut the puts of one partition."""
    batch: list[Any] = []
    size = 0
    for put in partition:
        weight = weight_of(put)
        if batch and (len(batch) == ROWS_A_PUT or size + weight > BYTES_A_PUT):
            yield batch
            batch, size = [], 0
        batch.append(put)
        size += weight
    yield batch


def weight_of(put: Any) -> int:
    """Return how large Cassandra takes a put to be, or a little more."""
    values = put.values
    size = sum(len(value) for value in values if isinstance(value, bytes))
    return ROW_OVERHEAD + VALUE_OVERHEAD * len(values) + size


def together(puts: list[Any]) -> Any:
    """Return puts as one statement; unlogged: each is repeated until answered, and means the same however often."""
    if len(puts) == 1:
        return puts[0]
    batch = BatchStatement(batch_type=BatchType.UNLOGGED, consistency_level=ConsistencyLevel.QUORUM)
    batch.add_all(puts, [None] * len(puts))
    return batch
