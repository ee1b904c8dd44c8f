"""Base rows read again with authority: what DELTA missed, or has and should not, becomes changes in the feed.

A scan alone only adds: it cannot say that a row or a value is gone, nor undo what never was in the base (H19). Here
DELTA is read first and the base afterwards, so whatever DELTA holds and the base lacks has been deleted, by a write
at least as late as the one that DELTA knows; and what stands in the base stands there whatever DELTA thinks of its
time. The changes carry write times just above what they contradict, so later captured writes go on as ever.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cvs.capture import changes as captured
from cvs.capture.changes import Change, Kind
from cvs.model.identity import key_identity
from cvs.model.stages import columns_read
from cvs.programs.delta import (
    CONFIRMED,
    NEVER,
    NO_PARTITION,
    NOTHING,
    SNAPSHOT,
    Cell,
    Deletion,
    Liveness,
    PartitionImage,
    RowImage,
    Visible,
    deletion_over,
    last_write,
    visible,
)
from cvs.programs.epoch_run import BaseReader, RowInDoubt, row_of
from cvs.programs.stage_codec import bucket_of, framed, pack, unpack
from cvs.programs.stage_delta import ReadImages, split
from cvs.programs.stored import decode_partition, decode_row
from cvs.stream.bases import PATH, image_of
from cvs.stream.build import Build
from cvs.stream.door import CassandraDoor
from cvs.stream.recipe import Recipe
from cvs.stream.scanned import RawRow, Selection

ROWS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Truth:
    """What a base row, and the statics of its partition, were found to be; no row: there is none."""

    row: RowImage | None
    statics: RowImage


@dataclass(slots=True, kw_only=True)
class Reread:
    """One pass over all base tables of a pipeline; `build` has a stream of its own and never scans."""

    recipe: Recipe
    door: CassandraDoor
    build: Build

    def run(self) -> dict[str, int]:
        """Correct DELTA where it differs from the base; return how many rows of each table were asked about."""
        return {base.name: self._table(base) for base in self.recipe.readers(columns_read(self.recipe.plan))}

    def _table(self, base: BaseReader) -> int:
        known = self._known(base)
        selection = self.build.selection(self.recipe.definitions[base.name])
        differing = [key for key, mark in self._scan(base, selection) if known.pop(key, None) != mark]
        suspects, count = [*differing, *known], 0
        for start in range(0, len(suspects), ROWS_AT_ONCE):
            changes = list(self._corrected(base, selection, suspects[start : start + ROWS_AT_ONCE]))
            self.build.put(changes)
            count += len({(it.key, it.clustering) for it in changes})
        return count

    def _known(self, base: BaseReader) -> dict[bytes, int]:
        """Return every row that DELTA takes to be there, by key: no more of it than tells rows apart."""
        found = {}
        for bucket in range(base.buckets):
            (blobs,) = self.door([ReadImages(table=base.delta, bucket=bucket, prefixes=(b"",))])
            for key, blob in blobs.items():
                partition, clustering = split(key)
                stored = None if clustering is None else decode_row(blob)
                if stored is not None and stored.now is not None:
                    found[key] = mark_of(base, partition, clustering or b"", stored.now)
        return found

    def _scan(self, base: BaseReader, selection: Selection) -> Iterator[tuple[bytes, int]]:
        for row in self.build.rows(selection):
            truth, clustering = truth_of(selection, row)
            seen = None if truth.row is None else visible(truth.row, truth.statics, selection.second(row))
            if seen is not None:
                partition = selection.partition(row)
                yield framed(partition, clustering), mark_of(base, partition, clustering, seen)

    def _corrected(self, base: BaseReader, selection: Selection, keys: list[bytes]) -> Iterator[Change]:
        """Read rows once more, DELTA first, and say what DELTA must be told of them."""
        images = self._images(base, keys)
        doubts = []
        for key in keys:
            partition, clustering = split(key)
            floors = selection.list_floors(images[key][0])
            doubts.append(RowInDoubt(base.name, partition, clustering or b"", floors))
        for key, (doubt, _, rows) in zip(keys, self.build.ask(doubts), strict=True):
            image, header = images[key]
            truth = Truth(None, NOTHING)
            if rows:
                truth, _ = truth_of(selection, rows[0], floors=dict(doubt.doubt))
            over = deletion_over(header, doubt.clustering, base.inside)
            row = correction(image, truth.row, floor=over.written if over else -NEVER)
            if row is not None:
                place = unpack(doubt.clustering) if doubt.clustering else ()
                yield change_of(Kind.ROW, selection.reference, doubt.partition, place, row)
            floor = header.deletion.written if header.deletion else -NEVER
            statics = correction(header.statics, truth.statics, floor=floor) if rows else None
            if statics is not None:
                yield change_of(Kind.STATIC, selection.reference, doubt.partition, (), statics)

    def _images(self, base: BaseReader, keys: list[bytes]) -> dict[bytes, tuple[RowImage, PartitionImage]]:
        """Return the image of each row, and of its partition."""
        requests = {key: (key, framed(split(key)[0])) for key in keys}
        asked = [
            ReadImages(table=base.delta, bucket=bucket_of(split(key)[0], base.buckets), keys=both)
            for key, both in requests.items()
        ]
        found = {}
        for key, blobs in zip(requests, self.door(asked), strict=True):
            row, header = blobs.get(key), blobs.get(requests[key][1])
            found[key] = (
                NOTHING if row is None else decode_row(row).image,
                NO_PARTITION if header is None else decode_partition(header).image,
            )
        return found


def mark_of(base: BaseReader, partition: bytes, clustering: bytes, seen: Visible) -> int:
    """Return what tells rows apart: their values, or the bytes of one that cannot be read, which views may not mind."""
    row, _ = row_of(base, partition, clustering, seen)
    return hash(repr(sorted(seen.items()))) if row is None else hash(key_identity(row))


def truth_of(
    selection: Selection, row: RawRow, *, floors: dict[str, int] | None = None
) -> tuple[Truth, bytes]:
    """Return what a read row says, and its packed clustering."""
    found, statics, clustering = None, NOTHING, b""
    for change in selection.changes(row, statics=True, floors=floors):
        if change.kind is Kind.STATIC:
            statics = image_of(change)
        else:
            found = image_of(change)
            clustering = pack(change.clustering) if change.clustering else b""
    return Truth(found, statics), clustering


def correction(known: RowImage, truth: RowImage | None, *, floor: int) -> RowImage | None:
    """Return what, merged into what is known, leaves what is true; None: nothing need be said.

    `floor`: up to when everything of the row is hidden by deletions of its partition.
    """
    if truth is None:
        there = known.liveness is not None or any(cell.value is not None for _, _, cell in known.cells)
        return RowImage(deletion=Deletion(last_write(known), 0)) if there else None
    floor = max(floor, known.deletion.written if known.deletion else -NEVER)
    before = {(column, path): cell for column, path, cell in known.cells}
    emptied = {column: it.written for column, it in known.complex_deletions}
    emptied |= {
        column: it.written for column, it in truth.complex_deletions
    }  # a list as a whole says it itself
    cells: dict[tuple[str, bytes], Cell] = {}
    for column, path, cell in truth.cells:
        old = before.pop((column, path), None)
        hidden = max(floor, emptied.get(column, -NEVER) if path != SNAPSHOT else -NEVER)
        if old is not None and old.value == cell.value and old.gone_at == cell.gone_at:
            continue
        if old is not None:
            hidden = max(hidden, old.written)
        cells[column, path] = cell if cell.written > hidden else _at(cell, hidden + 1)
    for (column, path), old in before.items():
        if old.value is not None and old.written > emptied.get(column, -NEVER):
            cells[column, path] = Cell(old.written, None, 0, 0)  # at one time what is gone wins (H17)
    liveness = truth.liveness
    if liveness is not None and liveness.written == CONFIRMED and floor >= CONFIRMED:
        liveness = Liveness(floor + 1, liveness.ttl, liveness.gone_at)  # a row without cells has only this
    if not cells and not truth.complex_deletions and known.liveness is not None:
        return None
    return RowImage(
        liveness, None, tuple((c, p, cells[c, p]) for c, p in sorted(cells)), truth.complex_deletions
    )


def _at(cell: Cell, written: int) -> Cell:
    return Cell(written, cell.value, cell.ttl, cell.gone_at)


def change_of(
    kind: Kind, reference: str, key: bytes, clustering: Iterable[bytes | None], image: RowImage
) -> Change:
    """Return an image as a captured change: what `bases.image_of` takes back apart."""
    liveness, deletion = image.liveness, image.deletion
    return Change(
        kind=kind,
        definition=reference,
        key=key,
        clustering=tuple(clustering),
        liveness=None
        if liveness is None
        else captured.Liveness(liveness.written, liveness.ttl, _second(liveness.gone_at)),
        deletion=None if deletion is None else captured.Deletion(deletion.written, deletion.local),
        cells=tuple(
            captured.Cell(
                column,
                cell.value,
                cell.written,
                _second(cell.gone_at),
                cell.ttl,
                path[len(PATH) :] if path.startswith(PATH) else None,
            )
            for column, path, cell in image.cells
        ),
        complex_deletions=tuple(
            (column, captured.Deletion(it.written, it.local)) for column, it in image.complex_deletions
        ),
        detail="\0".join(column for column, path, _ in image.cells if path == SNAPSHOT),
    )


def _second(gone_at: int) -> int | None:
    return None if gone_at == NEVER else gone_at
