"""Which keys Cassandra can hold: one rule for who publishes rows and for who judges what was published."""

from collections.abc import Iterable, Sequence
from typing import Any

KEY_BYTES_MAX = 65_000
"""Cassandra's limit is 65,535 for a partition key and for all clustering columns, what separates them included."""


def refusal(key: Sequence[Any], partition_columns: int) -> str:
    """Say why no row can have this key, of which the first columns are the partition key; empty: one can.

    Of a key of which it is not known (0) nothing is said.
    """
    if not partition_columns:
        return ""
    if (
        None in key
    ):  # planned for where it may be; rows of what had COMPACT STORAGE may lack clustering columns too
        return "a key column is null"
    if partition_columns == 1 and key and key[0] in ("", b""):
        return "an empty value cannot be the whole partition key"
    if sum(map(_most, key)) <= KEY_BYTES_MAX:
        return ""
    for name, part in (
        ("partition key", key[:partition_columns]),
        ("clustering columns", key[partition_columns:]),
    ):
        if size(part) > KEY_BYTES_MAX:
            return f"the {name} would have more than {KEY_BYTES_MAX:,} bytes"
    return ""


def size(values: Iterable[Any]) -> int:
    """Return the bytes that values have in a key."""
    return sum(map(_size, values))


def _most(value: Any) -> int:
    """Return a bound of the bytes that a value has in a key, quickly."""
    return 4 * len(value) if isinstance(value, str) else _size(value)


def _size(value: Any) -> int:
    """Return the bytes that a value has in a key; of what is small anyway nothing.

    It is the same of what stands in for a value (`identity`): a map's entries are pairs there.
    """
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, _OF_PARTS):
        return sum(4 + _size(part) for part in (value.items() if isinstance(value, dict) else value))
    return 0


_OF_PARTS = (tuple, list, frozenset, set, dict)
