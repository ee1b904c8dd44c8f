"""What DELTA stores of base rows and partitions, and how an epoch's changes are absorbed in it (PROTOCOL section 3).

A stored row tells what it was before its epoch and what it is now; so an epoch that is run again emits what it emitted
before, and puts the same bytes again.
"""

from collections.abc import Iterable, Mapping

import msgspec

from cvs.programs.delta import (
    FARTHEST,
    NO_PARTITION,
    NOTHING,
    Deletion,
    Doubt,
    Inside,
    PartitionImage,
    RowImage,
    StaleDriverError,
    Visible,
    hide,
    in_doubt,
    last_end,
    last_end_of_partition,
    last_write,
    lists_in_doubt,
    merge,
    merge_partition,
    next_expiry,
    no_ranges,
    visible,
)
from cvs.programs.slices import covering


class StoredRow(msgspec.Struct, frozen=True, array_like=True):
    """The one blob of a base row: image and what was emitted, before and now, at `epoch` (H17: one blob)."""

    epoch: int
    image: RowImage
    before: Visible | None
    now: Visible | None


class StoredPartition(msgspec.Struct, frozen=True, array_like=True):
    """The one blob of a base partition's deletions and statics."""

    epoch: int
    image: PartitionImage


class Emitted(msgspec.Struct, frozen=True):
    """One base row moved from `before` to `now`; None is absence. `written`: the latest write in its image."""

    clustering: bytes
    before: Visible | None
    now: Visible | None
    written: int = 0
    doubt: Doubt | None = None
    untimely: bool = False


class Absorbed(msgspec.Struct, frozen=True):
    """What absorbing one partition's changes asks for: puts, emissions, and times at which rows are looked at again.

    Dropped are rows (and, with no clustering, the partition's own record) of which there is nothing to remember.
    """

    header: StoredPartition | None
    rows: dict[bytes, StoredRow]
    emitted: list[Emitted]
    expiries: list[tuple[int, bytes]]
    dropped: list[tuple[bytes, ...]]


def absorb(
    epoch: int,
    clock: int,
    *,
    header: StoredPartition | None,
    rows: Mapping[bytes, StoredRow],
    header_changes: Iterable[PartitionImage] = (),
    row_changes: Mapping[bytes, list[RowImage]],
    inside: Inside = no_ranges,
    keep: int = 0,
    settled: int = 0,
) -> Absorbed:
    """Absorb one epoch's changes of one base partition.

    `rows` holds every stored row the changes or due expiries touch, and all stored rows of the partition if
    there are `header_changes`. A row at this epoch is emitted and put again, unread otherwise (replay).

    `keep`: seconds for which what is gone is remembered (0: for good); what is stored was read by `forget`.
    What is empty after that is dropped if it was so before this epoch and is not written in it: so a replay, which
    finds it or not, emits the same. And only if no driver is left that may run the epoch that put it (`settled`).
    """
    if header is not None and header.epoch > epoch:
        raise StaleDriverError(f"partition at epoch {header.epoch} seen by a driver of {epoch}")
    partition = NO_PARTITION if header is None else header.image
    new_header = None
    if changed := list(header_changes):
        partition = merge_partition(partition, *changed)
        new_header = StoredPartition(epoch, partition)
    out = Absorbed(new_header, {}, [], [], [])
    statics_end = next_expiry(partition.statics, clock)
    if new_header is not None and (lists := lists_in_doubt(partition.statics, clock)):
        out.emitted.append(Emitted(b"", None, None, 0, lists))
    if header is not None and new_header is None and partition == NO_PARTITION and header.epoch <= settled:
        out.dropped.append(())
    elif keep and (new_header is not None or (header is not None and b"" in row_changes)):
        _note_end(out, b"", max(clock, last_end_of_partition(partition)) + keep)
    places = sorted({*rows, *row_changes})
    deletion_over_row = covering(partition, inside, rows=len(places))
    for clustering in places:
        stored = stood = rows.get(clustering)
        if stored is not None and stored.epoch > epoch:
            raise StaleDriverError(f"row at epoch {stored.epoch} seen by a driver of {epoch}")
        if stored is None or stored.epoch < epoch:
            changes = row_changes.get(clustering, [])
            over = deletion_over_row(clustering)
            stored = _move(stood, changes, over, partition.statics, epoch=epoch, clock=clock)
            may_go = -1 if changes else settled
            if stored is None and stood and _dropped(out, clustering, stood, clock, settled=may_go):
                continue
        if stored is not None:
            _note(out, clustering, stored, clock)
        if statics_end is not None and (stored is not None or new_header is not None):
            out.expiries.append((statics_end, clustering))
        it = stored if stored is not None or clustering not in row_changes else stood
        if keep and it is not None and it.now is None:
            _note_end(out, clustering, max(clock, last_end(it.image)) + keep)
    return out


def _dropped(out: Absorbed, clustering: bytes, stood: StoredRow, clock: int, *, settled: int) -> bool:
    """Tell of a row that did not move if it is in doubt; drop it, and say so, if there is nothing to remember of it."""
    doubt = in_doubt(stood.image, clock)
    if doubt is not None:
        out.emitted.append(Emitted(clustering, None, None, 0, doubt))
    if stood.image != NOTHING or stood.now is not None or stood.epoch > settled:
        return False
    out.dropped.append((clustering,))
    return True


def _note_end(out: Absorbed, clustering: bytes, end: int) -> None:
    """Have a row, or the partition's own record, looked at again when there may be nothing to remember of it."""
    if end < FARTHEST:
        out.expiries.append((end + 1, clustering))


def _move(
    stored: StoredRow | None,
    changes: Iterable[RowImage],
    over: Deletion | None,
    statics: RowImage,
    *,
    epoch: int,
    clock: int,
) -> StoredRow | None:
    """Return the row as of this epoch, or None if neither its image nor its look changed."""
    known = image = NOTHING if stored is None else stored.image
    for change in changes:
        image = merge(image, change)
    if over is not None:
        image = hide(image, over)
    now = visible(image, statics, clock)
    before = None if stored is None else stored.now
    if image == known and now == before:
        return None
    return StoredRow(epoch, image, before, now)


def _note(out: Absorbed, clustering: bytes, stored: StoredRow, clock: int) -> None:
    out.rows[clustering] = stored
    doubt = in_doubt(stored.image, clock)
    if stored.before != stored.now or doubt is not None:
        out.emitted.append(Emitted(clustering, stored.before, stored.now, last_write(stored.image), doubt))
    due = next_expiry(stored.image, clock)
    if due is not None:
        out.expiries.append((due, clustering))


encode_stored = msgspec.msgpack.Encoder().encode
decode_row = msgspec.msgpack.Decoder(StoredRow).decode
decode_partition = msgspec.msgpack.Decoder(StoredPartition).decode
