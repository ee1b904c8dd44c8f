"""DELTA: the last image of each base row, by Cassandra's own reconciliation, byte for byte.

An image is a **join semilattice**: `merge` is associative, commutative and idempotent, so copies from several
replicas, duplicates, late hints and repairs may arrive in any order and any number (PROTOCOL section 3). A
captured change has the same type as an image: it is the part of the image that the mutation wrote.

Ties in write time (H17), after Cassandra's `Cells.reconcile`: what can vanish beats what cannot, a tombstone
beats an expiring cell, then the later deletion time, then the larger serialized value, unsigned.

Deletions are kept even without rows: a late copy of an older write must stay hidden (H16). Expiry is a
function of (cell, clock), never a tombstone with an invented time (H13).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

NEVER = 2**63 - 1
"""The deletion time of what does not expire."""

EXPIRED_TTL = 2**31 - 1
"""The time to live by which Cassandra marks a liveness that has run out."""

ASSUMED = -(2**62)
"""Write time of a scanned row's liveness, which CQL cannot read (H18): older than everything captured. When the row's
last live cell is gone, the row is *in doubt* and read again."""

CONFIRMED = ASSUMED + 1
"""Write time of a liveness that a scan did see, in a row without live cells; in doubt again when its time is over."""

SNAPSHOT = b"*"
"""Path of a list that was read as a whole, without its paths: another cell beside it puts the row in doubt."""

Doubt = tuple[tuple[str, int], ...]
"""Why a row must be read again: lists with the latest write known of each; none: whether it exists."""

Visible = dict[str, bytes | list[tuple[bytes, bytes]]]
"""What a reader sees of a row: serialized value by column; a collection as its live (path, value) cells."""

Bound = tuple[Any, ...]  # because clustering values of any type bound a range
OrderKey = Callable[[Bound], Any]


class Deletion(msgspec.Struct, frozen=True, array_like=True):
    """Everything written up to and including `written` is gone; deletions are versioned values."""

    written: int
    local: int = 0


class Liveness(msgspec.Struct, frozen=True, array_like=True):
    """What an INSERT leaves beside its cells: the row exists even when all its columns are null."""

    written: int
    ttl: int = 0
    gone_at: int = NEVER


class Cell(msgspec.Struct, frozen=True, array_like=True):
    """One column (or element of a collection): `value` None is a tombstone, deleted at `gone_at`."""

    written: int
    value: bytes | None
    ttl: int = 0
    gone_at: int = NEVER


class RowImage(msgspec.Struct, frozen=True, array_like=True):
    """All that is known of one row; `cells` and `complex_deletions` are sorted, so equal images have equal bytes."""

    liveness: Liveness | None = None
    deletion: Deletion | None = None
    cells: tuple[tuple[str, bytes, Cell], ...] = ()
    complex_deletions: tuple[tuple[str, Deletion], ...] = ()


class RangeDeletion(msgspec.Struct, frozen=True, array_like=True):
    """Rows between two prefixes of the clustering key are gone; an empty prefix bounds nothing."""

    start: bytes
    start_inclusive: bool
    end: bytes
    end_inclusive: bool
    deletion: Deletion


class PartitionImage(msgspec.Struct, frozen=True, array_like=True):
    """What a base partition has beside its rows: its deletion, range deletions and static cells."""

    deletion: Deletion | None = None
    ranges: tuple[RangeDeletion, ...] = ()
    statics: RowImage = RowImage()


NOTHING = RowImage()
NO_PARTITION = PartitionImage()


def reconcile(a: Cell, b: Cell) -> Cell:
    """Return the cell that wins, exactly as every replica would decide."""
    if a.written != b.written:
        return a if a.written > b.written else b
    a_ends, b_ends = a.gone_at != NEVER, b.gone_at != NEVER
    if a_ends != b_ends:
        return a if a_ends else b
    if a_ends:
        a_dead, b_dead = a.value is None, b.value is None
        if a_dead != b_dead:
            return a if a_dead else b
        if a.gone_at != b.gone_at:
            return a if a.gone_at > b.gone_at else b
    if a.value != b.value:
        return a if (a.value or b"") > (b.value or b"") else b
    return a if a.ttl >= b.ttl else b  # because equal cells must give equal bytes whichever came first


def later_deletion(a: Deletion | None, b: Deletion | None) -> Deletion | None:
    """Return the deletion that hides more."""
    if a is None or b is None:
        return a or b
    return a if (a.written, a.local) >= (b.written, b.local) else b


def later_liveness(a: Liveness | None, b: Liveness | None) -> Liveness | None:
    """Return the liveness that supersedes the other (Cassandra's `LivenessInfo.supersedes`)."""
    return a or b if a is None or b is None else a if _liveness_rank(a) >= _liveness_rank(b) else b


def _liveness_rank(it: Liveness) -> tuple[int, bool, bool, int, int]:
    return (it.written, it.ttl == EXPIRED_TTL, it.gone_at != NEVER, it.gone_at, it.ttl)


def merge(a: RowImage, b: RowImage) -> RowImage:
    """Merge two images of one row; what a deletion hides is dropped, the deletion stays."""
    if a is NOTHING:
        return b if b.deletion is None and not b.complex_deletions else hide(b, None)
    deletion = later_deletion(a.deletion, b.deletion)
    cells = {(column, path): cell for column, path, cell in a.cells}
    for column, path, cell in b.cells:
        known = cells.get((column, path))
        cells[column, path] = cell if known is None else reconcile(known, cell)
    complex_deletions = dict(a.complex_deletions)
    for column, deleted in b.complex_deletions:
        complex_deletions[column] = later_deletion(complex_deletions.get(column), deleted) or deleted
    merged = RowImage(
        later_liveness(a.liveness, b.liveness),
        deletion,
        tuple([(c, p, cells[c, p]) for c, p in (cells if len(cells) == len(a.cells) else sorted(cells))]),
        tuple(sorted(complex_deletions.items())),
    )
    return hide(merged, None) if deletion is not None or complex_deletions else merged


def hide(image: RowImage, by: Deletion | None) -> RowImage:
    """Drop what the image's own deletions, and `by` from its partition, hide."""
    row_floor = max(_floor(image.deletion), _floor(by))
    complex_floors = {column: deleted.written for column, deleted in image.complex_deletions}
    liveness = image.liveness
    if liveness is not None and liveness.written <= row_floor:
        liveness = None
    return RowImage(
        liveness,
        image.deletion,
        tuple(
            entry
            for entry in image.cells
            if entry[2].written > max(row_floor, complex_floors.get(entry[0], -NEVER))
        ),
        tuple(entry for entry in image.complex_deletions if entry[1].written > row_floor),
    )


def _floor(deletion: Deletion | None) -> int:
    return -NEVER if deletion is None else deletion.written


def merge_partition(a: PartitionImage, b: PartitionImage) -> PartitionImage:
    """Merge what two sources say about one partition, beside its rows."""
    deletion = later_deletion(a.deletion, b.deletion)
    floor = _floor(deletion)
    strongest: dict[tuple[bytes, bool, bytes, bool], RangeDeletion] = {}
    for it in (*a.ranges, *b.ranges):
        place = (it.start, it.start_inclusive, it.end, it.end_inclusive)
        known = strongest.get(place)
        if it.deletion.written > floor and (
            known is None or later_deletion(known.deletion, it.deletion) != known.deletion
        ):
            strongest[place] = it
    return PartitionImage(
        deletion,
        tuple(strongest[place] for place in sorted(strongest)),
        hide(merge(a.statics, b.statics), deletion),
    )


def deletion_over(partition: PartitionImage, clustering: bytes, inside: "Inside") -> Deletion | None:
    """Return the strongest deletion of the partition that covers a row."""
    found = partition.deletion
    for it in partition.ranges:
        if inside(it, clustering):
            found = later_deletion(found, it.deletion)
    return found


Inside = Callable[[RangeDeletion, bytes], bool]
"""Whether a row lies in a range: only the table's comparators know."""


def no_ranges(_range: RangeDeletion, _clustering: bytes) -> bool:
    """Answer for tables without clustering columns: a range covers nothing."""
    return False


def live(cell: Cell, clock: int) -> bool:
    """Say whether a reader at `clock` (seconds) sees the cell."""
    return cell.value is not None and clock < cell.gone_at


def visible(image: RowImage, statics: RowImage, clock: int) -> Visible | None:
    """Return what a reader sees of a row, None if there is none; statics show only beside a live row."""
    liveness = image.liveness
    exists = liveness is not None and liveness.ttl != EXPIRED_TTL
    if liveness is not None and clock >= liveness.gone_at:
        exists = exists and liveness.written == CONFIRMED
    columns: Visible = {}
    _show(image, clock, columns)
    if not exists and not columns:
        return None
    _show(statics, clock, columns)
    return columns


def _show(image: RowImage, clock: int, columns: Visible) -> None:
    for column, path, cell in image.cells:
        if cell.value is None or clock >= cell.gone_at:
            continue
        if not path:
            columns[column] = cell.value
            continue
        elements = columns.setdefault(column, [])
        assert isinstance(elements, list), f"column {column} is both plain and a collection"
        elements.append((path, cell.value))


def next_expiry(image: RowImage, clock: int) -> int | None:
    """Return the first second after `clock` at which something a reader sees now will be gone."""
    times = [cell.gone_at for _, _, cell in image.cells if cell.value is not None]
    times += [image.liveness.gone_at] if image.liveness else []
    return min((at for at in times if clock < at != NEVER), default=None)


def last_write(image: RowImage) -> int:
    """Return the latest write time in an image, 0 if it has none."""
    latest = max((cell.written for _, _, cell in image.cells), default=0)
    for part in (image.liveness, image.deletion):
        if part is not None and part.written > latest:
            latest = part.written
    return latest


def in_doubt(image: RowImage, clock: int) -> Doubt | None:
    """Say why a row that was scanned must be read again; None: all that matters is known."""
    lists, it = lists_in_doubt(image, clock), image.liveness
    if it is None or it.written > CONFIRMED or it.ttl == EXPIRED_TTL:
        return lists or None
    guessed = it.written == ASSUMED or clock >= it.gone_at
    return lists if lists or (guessed and not any(live(cell, clock) for _, _, cell in image.cells)) else None


def lists_in_doubt(image: RowImage, clock: int) -> Doubt:
    """Name the lists that were read as a whole and written, or began to expire, since."""
    found = []
    for column, path, cell in image.cells:
        if path != SNAPSHOT:
            continue
        others = [it.written for name, _, it in image.cells if name == column]
        if len(others) > 1 or clock >= cell.gone_at:
            found.append((column, max(others)))
    return tuple(found)


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


class StaleDriverError(Exception):
    """Something carries an epoch above ours: another driver went on, and this one must stop (H2)."""


class Emitted(msgspec.Struct, frozen=True):
    """One base row moved from `before` to `now`; None is absence. `written`: the latest write in its image."""

    clustering: bytes
    before: Visible | None
    now: Visible | None
    written: int = 0
    doubt: Doubt | None = None
    untimely: bool = False


class Absorbed(msgspec.Struct, frozen=True):
    """What absorbing one partition's changes asks for: puts, emissions, and times at which rows will expire."""

    header: StoredPartition | None
    rows: dict[bytes, StoredRow]
    emitted: list[Emitted]
    expiries: list[tuple[int, bytes]]


def absorb(
    epoch: int,
    clock: int,
    *,
    header: StoredPartition | None,
    rows: Mapping[bytes, StoredRow],
    header_changes: Iterable[PartitionImage] = (),
    row_changes: Mapping[bytes, list[RowImage]],
    inside: Inside = no_ranges,
) -> Absorbed:
    """Absorb one epoch's changes of one base partition.

    `rows` holds every stored row the changes or due expiries touch, and all stored rows of the partition if
    there are `header_changes`. A row at this epoch is emitted and put again, unread otherwise (replay).
    """
    if header is not None and header.epoch > epoch:
        raise StaleDriverError(f"partition at epoch {header.epoch} seen by a driver of {epoch}")
    partition = NO_PARTITION if header is None else header.image
    new_header = None
    for change in header_changes:
        partition = merge_partition(partition, change)
        new_header = StoredPartition(epoch, partition)
    out = Absorbed(new_header, {}, [], [])
    statics_end = next_expiry(partition.statics, clock)
    if new_header is not None and (lists := lists_in_doubt(partition.statics, clock)):
        out.emitted.append(Emitted(b"", None, None, 0, lists))
    for clustering in sorted({*rows, *row_changes}):
        stored = rows.get(clustering)
        if stored is not None and stored.epoch > epoch:
            raise StaleDriverError(f"row at epoch {stored.epoch} seen by a driver of {epoch}")
        if stored is None or stored.epoch < epoch:
            changes = row_changes.get(clustering, [])
            over = deletion_over(partition, clustering, inside)
            stood, stored = stored, _move(stored, changes, over, partition.statics, epoch=epoch, clock=clock)
            if stored is None and stood is not None and (doubt := in_doubt(stood.image, clock)) is not None:
                out.emitted.append(Emitted(clustering, None, None, 0, doubt))
        if stored is not None:
            _note(out, clustering, stored, clock)
        if statics_end is not None and (stored is not None or new_header is not None):
            out.expiries.append((statics_end, clustering))
    return out


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
    image = NOTHING if stored is None else stored.image
    for change in changes:
        image = merge(image, change)
    if over is not None:
        image = hide(image, over)
    now = visible(image, statics, clock)
    before = None if stored is None else stored.now
    if stored is not None and image == stored.image and now == before:
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
