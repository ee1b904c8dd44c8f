"""Signatures as integers that sort as they do."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from cvs.errors import AssumptionError
from cvs.history import events as ev

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Part = dict[str, Integers]

NONE = -1
"""Stands for a signature that is absent (no record) or was not told, and for a place that is none."""

_CHUNK_BITS, _VERSION_BITS, _INCARNATION_BITS = 14, 36, 12
_SORTED_BITS = 62


class NotColumnarError(AssumptionError):
    """Something that has no place in columns: whoever asked takes the events themselves."""


def fill(values: Iterable[int], count: int) -> Integers:
    """Make a column."""
    try:
        return np.fromiter(values, dtype=np.int64, count=count)
    except OverflowError:
        raise NotColumnarError("a number has no place in 64 bits") from None


def ordered(values: Integers) -> Integers:
    """Return the places of values in their order, equal ones as they stand: both are sorted as one number."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    low, bits = int(values.min()), len(values).bit_length()
    if (int(values.max()) - low).bit_length() + bits > _SORTED_BITS:
        return np.argsort(values, kind="stable")
    both = (values - low) << bits | np.arange(len(values))
    both.sort()
    both &= (1 << bits) - 1
    return both


def packed(scalars: ev.Scalars | None) -> int:
    """Return a signature as one integer that sorts as the signature does; NONE for none."""
    return NONE if scalars is None else int(packed_column([scalars])[0])


def unpacked(value: int) -> ev.Scalars | None:
    """Return the signature of an integer that `packed` made."""
    if value == NONE:
        return None
    rest, last = value >> 1, bool(value & 1)
    version = rest >> _CHUNK_BITS
    return (
        version >> _VERSION_BITS,
        version & ((1 << _VERSION_BITS) - 1),
        rest & ((1 << _CHUNK_BITS) - 1),
        last,
    )


def packed_parts(parts: Sequence[Integers]) -> Integers:
    """Pack signatures given as four columns; one that does not fit is refused."""
    incarnation, version, chunk, last = parts
    wide = (incarnation >> _INCARNATION_BITS) | (version >> _VERSION_BITS) | (chunk >> _CHUNK_BITS)
    for place in np.flatnonzero(wide)[:1]:
        raise NotColumnarError(
            f"signature {[int(part[place]) for part in parts]} is too large or negative",
            next_step=f"versions below 2^{_VERSION_BITS}, chunks below 2^{_CHUNK_BITS}, "
            f"incarnations below 2^{_INCARNATION_BITS}",
        )
    whole: Integers = (((incarnation << _VERSION_BITS | version) << _CHUNK_BITS | chunk) << 1) | last
    return whole


def epochs_packed(incarnation: Integers, epoch: Integers) -> Integers:
    """Pack epochs, which are the beginnings of signatures."""
    zero = np.zeros(len(epoch), np.int64)
    return epoch_of(packed_parts([incarnation, epoch, zero, zero]))


def epoch_of(signatures: Integers) -> Integers:
    """Return the incarnations and versions of packed signatures, without their chunks."""
    return signatures >> (_CHUNK_BITS + 1)


_NO_SIGNATURE = (0, 0, 0, False)


def packed_column(signatures: Sequence[ev.Scalars | None]) -> Integers:
    """Pack many signatures at once."""
    count = len(signatures)
    flat = chain.from_iterable(signature or _NO_SIGNATURE for signature in signatures)
    parts = fill(flat, 4 * count).reshape(count, 4).T
    absent = np.fromiter((s is None for s in signatures), dtype=np.bool_, count=count)
    return np.where(absent, NONE, packed_parts(list(parts)))
