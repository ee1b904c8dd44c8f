"""Whatever DELTA took a row to be: with the correction merged into it, it is what the base says."""

import random

from cvs.capture.changes import Column, ColumnKind, Kind, TableDefinition
from cvs.programs.delta import (
    ASSUMED,
    CONFIRMED,
    NEVER,
    NOTHING,
    Cell,
    Deletion,
    Liveness,
    RowImage,
    hide,
    merge,
    visible,
)
from cvs.programs.stage_codec import pack
from cvs.stream.bases import base_reader, base_table, image_of
from cvs.stream.reread import change_of, correction, mark_of

CLOCK = 1_000
PLACES = (("a", b""), ("b", b""), ("m", b".x"), ("m", b".y"))
LATE = 10**6


def known_image(chance: random.Random) -> RowImage:
    """Anything that captured changes and scans may have left: deletions, tombstones, expiring and expired cells."""
    cells = []
    for column, path in PLACES:
        if chance.random() < 0.6:
            ends = chance.choice([NEVER, NEVER, CLOCK - 1, CLOCK + 9])
            value = chance.choice([b"1", b"2", None])
            cells.append((column, path, Cell(chance.randrange(50), value, 0, 5 if value is None else ends)))
    image = RowImage(
        chance.choice([None, Liveness(ASSUMED), Liveness(chance.randrange(50))]),
        chance.choice([None, Deletion(chance.randrange(50), 1)]),
        tuple(cells),
        chance.choice([(), (("m", Deletion(chance.randrange(50), 1)),)]),
    )
    return hide(image, None)


def true_image(chance: random.Random) -> RowImage | None:
    """What a base row may be read as: live cells only, and a guess at its liveness."""
    if chance.random() < 0.25:
        return None
    cells = tuple(
        (column, path, Cell(chance.randrange(60), chance.choice([b"1", b"2"]), 0, NEVER))
        for column, path in PLACES
        if chance.random() < 0.6
    )
    return RowImage(Liveness(ASSUMED) if cells else Liveness(CONFIRMED, 1, CLOCK + 99), None, cells)


def test_a_correction_leaves_what_is_true() -> None:
    """Missed writes and deletions, values that never were, times that are too late: 20,000 pairs of images."""
    chance = random.Random(6)
    said = 0
    for _ in range(20_000):
        known, truth = known_image(chance), true_image(chance)
        floor = chance.choice([-NEVER, -NEVER, 20, 55])
        known = hide(known, Deletion(floor)) if floor > 0 else known
        told = correction(known, truth, floor=floor)
        merged = known if told is None else merge(known, told)
        merged = hide(merged, Deletion(floor)) if floor > 0 else merged
        wanted = None if truth is None else visible(truth, NOTHING, CLOCK)
        assert visible(merged, NOTHING, CLOCK) == wanted, (known, truth, floor, told)
        said += told is not None
        later = merge(merged, RowImage(None, None, (("a", b"", Cell(LATE, b"9")),)))
        assert (visible(later, NOTHING, CLOCK) or {})["a"] == b"9", "what is captured later counts"
    assert said > 10_000


def test_rows_differ_also_where_a_column_cannot_be_read() -> None:
    """No view may read that column: then the row is shown, and a wrong value beside it must be found."""
    definition = TableDefinition(
        id="1",
        keyspace="s",
        name="t",
        columns=(
            Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),
            Column(name="at", type="date", kind=ColumnKind.REGULAR),
            Column(name="n", type="decimal", kind=ColumnKind.REGULAR),
        ),
    )
    base, key = base_reader(definition, base_table(definition), delta="d", buckets=1), b"\0\0\0\1"
    far, one, same, two = b"\xff" * 4, b"\0\0\0\0\1", b"\0\0\0\1\x0a", b"\0\0\0\0\2"

    def marked(at: bytes, n: bytes) -> int:
        return mark_of(base, key, b"", {"at": at, "n": n})

    assert marked(far, one) == marked(far, one)
    assert marked(far, one) != marked(far, two)
    assert marked(b"\x80\0\0\0", one) == marked(b"\x80\0\0\0", same), "1 and 1.0"


def test_what_is_known_is_not_said_again() -> None:
    """A row that is as the base says needs no change."""
    same = RowImage(Liveness(5), None, (("a", b"", Cell(5, b"1")),))
    assert correction(same, RowImage(Liveness(ASSUMED), None, same.cells), floor=-NEVER) is None
    assert correction(NOTHING, None, floor=-NEVER) is None


def test_a_correction_goes_through_the_feed_unchanged() -> None:
    """As a captured change and back it is the same image."""
    chance = random.Random(7)
    for _ in range(500):
        told = correction(known_image(chance), true_image(chance), floor=chance.choice([-NEVER, 20]))
        if told is not None:
            change = change_of(Kind.ROW, "t", b"k", (b"c",), told)
            assert image_of(change) == told
            assert pack(change.clustering) == pack((b"c",))
