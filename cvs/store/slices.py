"""Slices of a partition that a replica gives up on, because more is deleted there than it reads.

Cassandra keeps a tombstone for gc_grace, ten days, and a replica that meets 100,000 of them before a page is full ends
the read (`tombstone_failure_threshold`). It would end it again however often it is asked; in halves, and halves of
those, it answers, since a slice that is narrow enough has fewer. The halves are of the space of keys, as where the
tombstones lie is what nobody may read: the first dozens of halves may be empty, one request each.
"""

from typing import Any

from cassandra import ReadFailure

TOO_MANY_TOMBSTONES = 0x0001
"""The reason a replica gives, in the native protocol from version 5 on."""


def given_up(answer: object) -> bool:
    """Say whether a replica met more tombstones than it may."""
    return isinstance(answer, ReadFailure) and TOO_MANY_TOMBSTONES in (answer.error_code_map or {}).values()


def halves(values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Cut a slice, bound as (bucket, low, high), in two; what names its rows by key cannot be cut."""
    if len(values) < 3:
        return []
    bucket, low, high = values
    between = middle(low, high)
    return [(bucket, low, between), (bucket, between, high)]


def middle(low: bytes, high: bytes) -> bytes:
    """Return a key between two others: greater than the first unless no key lies between, smaller than the second."""
    size = max(len(low), len(high)) + 1
    first, last = (int.from_bytes(it.ljust(size, b"\0")) for it in (low, high))
    return max(low, ((first + last) // 2).to_bytes(size).rstrip(b"\0"))
