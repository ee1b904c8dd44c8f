"""Stage 0: one bucket of DELTA in one epoch: read images, merge, put images, return what moved.

Everything of one base partition lies in one bucket, under keys that begin with the partition's: first the
partition's own record (deletions, statics), then its rows. Puts carry the epoch as their write time, so a
zombie's put changes nothing; a replay puts the same bytes again and emits the same (H1).

Rows whose cells will expire are noted under the minute of their expiry in negative buckets, so the epoch whose
clock passes it finds them with one read (PROTOCOL section 4: expiry is an epoch input). Rows that are gone are noted
in the same way under the minute from which nothing need be remembered of them (H16).
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.programs.delta import Inside, PartitionImage, RowImage, forget, forget_partition, no_ranges
from cvs.programs.stage_codec import framed
from cvs.programs.stored import (
    Emitted,
    StoredPartition,
    StoredRow,
    absorb,
    decode_partition,
    decode_row,
    encode_stored,
)
from cvs.programs.untimely import Untimely

EXPIRY_SLOT_SECONDS = 60
SLOTS_AT_MOST = 100_000
SLOTS_KEPT = 24 * 60
"""Notes are deleted a day after their minute: an epoch may be run again, though hardly so long after its clock."""
UNTIMELY_BUCKET = -(2**31)
"""Where the rows are named that have no claim to the write-time line any more: no second of expiry comes to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadImages:
    """Ask for images of one bucket, by key and by key prefix; answered by a mapping of key to blob."""

    table: str
    bucket: int
    keys: tuple[bytes, ...] = ()
    prefixes: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PutImages:
    """Ask to put images with a write time; answered (by None) only when all are acknowledged at QUORUM.

    In the place of an image None deletes what is there.
    """

    table: str
    bucket: int
    images: tuple[tuple[bytes, bytes | None], ...]
    write_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropBucket:
    """Ask for a bucket of notes to be deleted with a write time; answered as a put is."""

    table: str
    bucket: int
    write_time: int


@dataclass(slots=True)
class PartitionChanges:
    """The changes of one base partition in one epoch."""

    header: list[PartitionImage] = field(default_factory=list)
    rows: dict[bytes, list[RowImage]] = field(default_factory=dict)
    untimely: Untimely | None = None  # those of them that come out of their order, where that matters


DeltaInput = dict[bytes, PartitionChanges]
Moved = tuple[bytes, Emitted]


def run_delta(
    changes: Mapping[bytes, PartitionChanges],
    *,
    table: str,
    bucket: int,
    epoch: int,
    clock: int,
    headers: bool,
    inside: Inside = no_ranges,
    keep: int = 0,
    settled: int = 0,
) -> Generator[list[Any], list[Any], list[Moved]]:
    """Absorb one bucket's changes; `headers`: the table can have statics, or more than one row a partition."""
    whole = [partition for partition, it in changes.items() if it.header]
    keys = [framed(p, c) for p, it in changes.items() if not it.header for c in it.rows]
    keys += [framed(p) for p, it in changes.items() if headers and not it.header]
    request = ReadImages(
        table=table,
        bucket=bucket,
        keys=tuple(sorted(keys)),
        prefixes=tuple(sorted(framed(partition) for partition in whole)),
    )
    (found,) = yield [request]
    stored = _by_partition(found, epoch, clock - keep if keep else 0)
    puts: list[tuple[bytes, bytes | None]] = []
    expiring: dict[int, list[tuple[bytes, bytes]]] = {}
    untimely: list[tuple[bytes, bytes]] = []
    moved: list[Moved] = []
    for partition in sorted(changes):
        header, rows = stored.get(partition, (None, {}))
        it = changes[partition]
        done = absorb(
            epoch,
            clock,
            header=header,
            rows=rows,
            header_changes=it.header,
            row_changes=it.rows,
            inside=inside,
            keep=keep,
            settled=settled,
        )
        if done.header is not None:
            puts.append((framed(partition), encode_stored(done.header)))
        puts += [(framed(partition, c), encode_stored(row)) for c, row in done.rows.items()]
        puts += [(framed(partition, *place), None) for place in done.dropped]
        for due, clustering in done.expiries:
            expiring.setdefault(expiry_bucket(due), []).append((_expiry_key(due, partition, clustering), b""))
        moved += [(partition, it) for it in done.emitted]
        if it.untimely is not None:
            odd = it.untimely.showing(header, rows, epoch=epoch, clock=clock, inside=inside)
            untimely += [(framed(partition, clustering), b"") for clustering in odd]
            moved += [(partition, Emitted(clustering, None, None, untimely=True)) for clustering in odd]
    if untimely:  # before the rows are put: a replay finds these done and no longer knows
        yield [PutImages(table=table, bucket=UNTIMELY_BUCKET, images=tuple(untimely), write_time=epoch)]
    requests = [PutImages(table=table, bucket=bucket, images=tuple(puts), write_time=epoch)] if puts else []
    requests += [
        PutImages(table=table, bucket=slot, images=tuple(sorted(images)), write_time=epoch)
        for slot, images in sorted(expiring.items())
    ]
    if requests:
        yield requests
    return moved


def _by_partition(
    found: Mapping[bytes, bytes], epoch: int, until: int
) -> dict[bytes, tuple[StoredPartition | None, dict[bytes, StoredRow]]]:
    """Read what is stored; of older epochs, what must still be remembered of it (H16)."""
    stored: dict[bytes, tuple[StoredPartition | None, dict[bytes, StoredRow]]] = {}
    for key, image in found.items():
        partition, clustering = split(key)
        header, rows = stored.get(partition, (None, {}))
        if clustering is None:
            header = decode_partition(image)
            if header.epoch < epoch and until > 0:
                header = StoredPartition(header.epoch, forget_partition(header.image, until))
        else:
            row = rows[clustering] = decode_row(image)
            if row.epoch < epoch and until > 0:
                rows[clustering] = StoredRow(row.epoch, forget(row.image, until), row.before, row.now)
        stored[partition] = (header, rows)
    return stored


def split(key: bytes) -> tuple[bytes, bytes | None]:
    """Split a key of DELTA into partition and clustering (None: the partition's own record)."""
    size = int.from_bytes(key[:4], "big")
    partition, rest = key[4 : 4 + size], key[4 + size :]
    return partition, rest[4:] if rest else None


def expiry_bucket(due: int) -> int:
    """Return the bucket that notes what expires at a second."""
    return -1 - due // EXPIRY_SLOT_SECONDS


def _expiry_key(due: int, partition: bytes, clustering: bytes) -> bytes:
    return due.to_bytes(8, "big") + framed(partition, clustering)


def untimely_rows(table: str) -> Generator[list[ReadImages], list[Any], list[tuple[bytes, bytes]]]:
    """Return (partition, clustering) of the rows that have no claim to the write-time line any more."""
    (found,) = yield [ReadImages(table=table, bucket=UNTIMELY_BUCKET, prefixes=(b"",))]
    return [(partition, clustering or b"") for partition, clustering in map(split, found)]


def drops_between(table: str, before: int, now: int, *, epoch: int) -> list[DropBucket]:
    """Return what deletes the notes of minutes that are long over; never of one that this epoch may read."""
    first, last = (second // EXPIRY_SLOT_SECONDS - SLOTS_KEPT for second in (before, now))
    over = range(max(first, 0), min(last, before // EXPIRY_SLOT_SECONDS))
    return [DropBucket(table=table, bucket=-1 - slot, write_time=epoch) for slot in over]


def due_between(
    table: str, before: int, now: int
) -> Generator[list[ReadImages], list[Any], list[tuple[bytes, bytes]]]:
    """Return (partition, clustering) of rows with something that expires in (before, now]."""
    if before == 0 or now <= before:
        return []
    first, last = before // EXPIRY_SLOT_SECONDS, now // EXPIRY_SLOT_SECONDS
    assert last - first < SLOTS_AT_MOST, "the clock jumped: read the base again, in a new incarnation"
    low, high = (before + 1).to_bytes(8, "big"), (now + 1).to_bytes(8, "big")
    slots = [ReadImages(table=table, bucket=-1 - slot, prefixes=(b"",)) for slot in range(first, last + 1)]
    answers = yield slots
    keys: Iterable[bytes] = sorted({key[8:] for found in answers for key in found if low <= key < high})
    return [(partition, clustering or b"") for partition, clustering in map(split, keys)]
