"""DELTA: the last image of each base row, by Cassandra's own reconciliation, byte for byte.

An image is a **join semilattice**: `merge` is associative, commutative and idempotent, so copies from several
replicas, duplicates, late hints and repairs may arrive in any order and any number (PROTOCOL section 3). A
captured change has the same type as an image: it is the part of the image that the mutation wrote.

Ties in write time (H17), after Cassandra's `Cells.reconcile`: what can vanish beats what cannot, a tombstone
beats an expiring cell, then the later deletion time, then the larger serialized value, unsigned.

Deletions are kept even without rows: a late copy of an older write must stay hidden, until none can come (H16,
`forget`). Expiry is a function of (cell, clock), never a tombstone with an invented time (H13).
"""

from collections.abc import Callable
from typing import Any

import msgspec

NEVER = 2**63 - 1
"""The deletion time of what does not expire."""

MICROSECONDS = 1_000_000
EXPIRED_TTL = 2**31 - 1
"""The time to live by which Cassandra marks a liveness that has run out."""

ASSUMED = -(2**62)
"""Write time of a scanned row's liveness, which CQL cannot read (H18): older than everything captured. When the row's
last live cell is gone, the row is *in doubt* and read again."""

CONFIRMED = ASSUMED + 1
"""Write time of a liveness that a scan did see, in a row without live cells; in doubt again when its time is over."""

SNAPSHOT = b"*"
"""Path of a list that was read as a whole, without its paths: another cell beside it puts the row in doubt."""

FARTHEST = 60 * 2**30
"""Seconds: what a writer dated later than any clock is kept for good."""

ROW_BYTES_MAX = 1 << 20
"""What a row may show: views keep it several times over, and Cassandra takes 16 MiB at once, as it comes."""
TOO_LARGE = ""
"""In the place of all columns of a row that shows more: how many bytes. No column has this name."""

Doubt = tuple[tuple[str, int], ...]
"""Why a row must be read again: lists with the latest write known of each; none: whether it exists."""

Visible = dict[str, bytes | list[tuple[bytes, bytes]]]
"""What a reader sees of a row: serialized value by column; a collection as its live (path, value) cells."""

Bound = tuple[Any, ...]  # because clustering values of any type bound a range
OrderKey = Callable[[Bound], Any]


class Deletion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everything written up to and including `written` is gone; deletions are versioned values."""

    written: int
    local: int = 0


class Liveness(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an INSERT leaves beside its cells: the row exists even when all its columns are null."""

    written: int
    ttl: int = 0
    gone_at: int = NEVER


class Cell(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One column (or element of a collection): `value` None is a tombstone, deleted at `gone_at`."""

    written: int
    value: bytes | None
    ttl: int = 0
    gone_at: int = NEVER


class RowImage(msgspec.Struct, frozen=True, array_like=True, gc=False):
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


def merge_partition(a: PartitionImage, *others: PartitionImage) -> PartitionImage:
    """Merge what several sources say about one partition, beside its rows: together, since each may add one range."""
    deletion, statics = a.deletion, a.statics
    for b in others:
        deletion, statics = later_deletion(deletion, b.deletion), merge(statics, b.statics)
    floor = _floor(deletion)
    strongest: dict[tuple[bytes, bool, bytes, bool], RangeDeletion] = {}
    for it in (it for image in (a, *others) for it in image.ranges):
        place = (it.start, it.start_inclusive, it.end, it.end_inclusive)
        known = strongest.get(place)
        if it.deletion.written > floor and (
            known is None or later_deletion(known.deletion, it.deletion) != known.deletion
        ):
            strongest[place] = it
    return PartitionImage(
        deletion, tuple(strongest[place] for place in sorted(strongest)), hide(statics, deletion)
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


def forget(image: RowImage, until: int) -> RowImage:
    """Drop deletions, and what has expired, of before a second: nothing they must hide is to come any more (H16).

    No reader sees a difference. Beside a list that was read as a whole everything stays: it tells of doubt.
    """
    written_until = until * MICROSECONDS
    cells = [it for it in image.cells if it[2].gone_at >= until or it[2].written >= written_until]
    if len(cells) < len(image.cells) and any(path == SNAPSHOT for _, path, _ in image.cells):
        return image
    deletion, liveness = _remembered(image.deletion, until), image.liveness
    complex_deletions = [it for it in image.complex_deletions if _remembered(it[1], until)]
    if liveness is not None and CONFIRMED < liveness.written < written_until and liveness.gone_at < until:
        liveness = None
    found = RowImage(liveness, deletion, tuple(cells), tuple(complex_deletions))
    return image if found == image else found


def forget_partition(image: PartitionImage, until: int) -> PartitionImage:
    """Drop in the same way what a partition has beside its rows."""
    return PartitionImage(
        _remembered(image.deletion, until),
        tuple(it for it in image.ranges if _remembered(it.deletion, until)),
        forget(image.statics, until),
    )


def _remembered(it: Deletion | None, until: int) -> Deletion | None:
    return None if it is None or (it.local < until and it.written < until * MICROSECONDS) else it


def last_end(image: RowImage) -> int:
    """Return the last second at which something of a row was deleted, or expires; 0: nothing."""
    ends = [(it.gone_at, it.written) for _, _, it in image.cells if it.gone_at != NEVER]
    if image.liveness is not None and image.liveness.gone_at != NEVER:
        ends.append((image.liveness.gone_at, image.liveness.written))
    deletions = [it for _, it in image.complex_deletions]
    deletions += [] if image.deletion is None else [image.deletion]
    ends += [(it.local, it.written) for it in deletions]
    return max((max(ended, written // MICROSECONDS) for ended, written in ends), default=0)


def last_end_of_partition(image: PartitionImage) -> int:
    """Return the same of what a partition has beside its rows."""
    deletions = [RowImage(deletion=it) for it in (image.deletion, *(it.deletion for it in image.ranges))]
    return max(map(last_end, (image.statics, *deletions)))


def live(cell: Cell, clock: int) -> bool:
    """Say whether a reader at `clock` (seconds) sees the cell."""
    return cell.value is not None and clock < cell.gone_at


def visible(image: RowImage, statics: RowImage, clock: int) -> Visible | None:
    """Return what a reader sees of a row, None if there is none; statics show only beside a live row.

    Of a row that is too large for views, only how large it is.
    """
    liveness = image.liveness
    exists = liveness is not None and liveness.ttl != EXPIRED_TTL
    if liveness is not None and clock >= liveness.gone_at:
        exists = exists and liveness.written == CONFIRMED
    columns: Visible = {}
    _show(image, clock, columns)
    if not exists and not columns:
        return None
    _show(statics, clock, columns)
    size = sum(map(_size, columns.values()))
    return columns if size <= ROW_BYTES_MAX else {TOO_LARGE: b"%d" % size}


def _size(shown: bytes | list[tuple[bytes, bytes]]) -> int:
    return len(shown) if isinstance(shown, bytes) else sum(len(path) + len(value) for path, value in shown)


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


class StaleDriverError(Exception):
    """Something carries an epoch above ours: another driver went on, and this one must stop (H2)."""
