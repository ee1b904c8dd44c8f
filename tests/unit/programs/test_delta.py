"""DELTA merges as Cassandra does: a semilattice whose ties are decided byte for byte."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvs.programs.delta import (
    EXPIRED_TTL,
    NEVER,
    NOTHING,
    Cell,
    Deletion,
    Liveness,
    PartitionImage,
    RangeDeletion,
    RowImage,
    StaleDriverError,
    hide,
    later_liveness,
    merge,
    merge_partition,
    next_expiry,
    reconcile,
    visible,
)
from cvs.programs.stored import StoredRow, absorb

TIMES = st.integers(1, 4)
CELLS = st.one_of(
    st.builds(Cell, TIMES, st.sampled_from([b"", b"a", b"b", b"\xff"])),
    st.builds(Cell, TIMES, st.none(), st.just(0), st.integers(1, 3)),
    st.builds(Cell, TIMES, st.sampled_from([b"a", b"b"]), st.integers(1, 2), st.integers(1, 3)),
)
DELETIONS = st.builds(Deletion, TIMES, st.integers(1, 3))
IMAGES = st.builds(
    lambda liveness, deletion, cells, complex_deletion: hide(
        RowImage(
            liveness,
            deletion,
            tuple((c, p, cell) for (c, p), cell in sorted(cells.items())),
            (("m", complex_deletion),) if complex_deletion else (),
        ),
        None,
    ),
    st.one_of(
        st.none(),
        st.builds(Liveness, TIMES, st.sampled_from([0, 5, EXPIRED_TTL]), st.sampled_from([NEVER, 2])),
    ),
    st.one_of(st.none(), DELETIONS),
    st.dictionaries(st.sampled_from([("a", b""), ("b", b""), ("m", b"1"), ("m", b"2")]), CELLS),
    st.one_of(st.none(), DELETIONS),
)


@given(IMAGES, IMAGES, IMAGES)
@settings(max_examples=100, deadline=None)
def test_merge_is_associative_commutative_idempotent(a: RowImage, b: RowImage, c: RowImage) -> None:
    """Copies may come in any order and any number of times."""
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(a, a) == a
    assert merge(NOTHING, a) == a


@given(st.lists(IMAGES, max_size=4), st.lists(DELETIONS, max_size=3), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_order_and_copies_of_changes_never_show(
    images: list[RowImage], deletions: list[Deletion], seed: int
) -> None:
    """Whatever order rows and partition deletions are absorbed in, epoch by epoch, the row looks the same."""
    changes: list[tuple[str, object]] = [("row", i) for i in images] + [("partition", d) for d in deletions]
    looks = set()
    for attempt in range(3):
        order = changes + random.Random(seed).sample(changes, len(changes) // 2)
        random.Random(seed + attempt).shuffle(order)
        header, rows = None, {}
        for epoch, (kind, it) in enumerate(order, start=1):
            done = absorb(
                epoch,
                1,
                header=header,
                rows=rows,
                header_changes=[PartitionImage(deletion=it)] if kind == "partition" else [],  # type: ignore[arg-type]
                row_changes={b"r": [it]} if kind == "row" else {},  # type: ignore[dict-item]
            )
            header, rows = done.header or header, rows | done.rows
        row = rows.get(b"r")
        looks.add(repr(row.now if row else None))
    assert len(looks) == 1


def test_ties_are_decided_as_cassandra_does() -> None:
    """Same write time: tombstone, then expiring, then live; then later deletion time; then larger bytes (H17)."""
    ladder = [
        Cell(1, b"a"),
        Cell(1, b"b"),
        Cell(1, b"\xff"),
        Cell(1, b"a", 9, 5),
        Cell(1, b"a", 9, 6),
        Cell(1, None, 0, 1),
        Cell(1, None, 0, 2),
        Cell(2, b""),
    ]
    for weaker, stronger in itertools.combinations(ladder, 2):
        assert reconcile(weaker, stronger) == reconcile(stronger, weaker) == stronger
    assert later_liveness(Liveness(1), Liveness(1, 5, 9)) == Liveness(1, 5, 9)
    assert later_liveness(Liveness(1, 5, 9), Liveness(1, EXPIRED_TTL, 3)) == Liveness(1, EXPIRED_TTL, 3)


def test_a_deletion_hides_what_comes_late() -> None:
    """H16: the older write arrives after the deletion, from another replica; it stays hidden."""
    first = absorb(
        1, 0, header=None, rows={}, header_changes=[PartitionImage(deletion=Deletion(5))], row_changes={}
    )
    late = RowImage(Liveness(4), None, (("a", b"", Cell(4, b"x")),))
    done = absorb(2, 0, header=first.header, rows={}, row_changes={b"r": [late]})
    assert (done.rows, done.emitted) == ({}, []), "nothing is seen of it, nor kept"
    newer = RowImage(Liveness(6), None, (("a", b"", Cell(6, b"y")),))
    again = absorb(3, 0, header=first.header, rows=done.rows, row_changes={b"r": [newer]})
    assert again.rows[b"r"].now == {"a": b"y"}


def test_a_range_deletion_takes_the_rows_inside() -> None:
    """Only the table knows what lies in a range; here: one byte names."""
    rows = {bytes([i]): StoredRow(1, RowImage(Liveness(1)), None, {}) for i in range(4)}
    ranged = PartitionImage(ranges=(RangeDeletion(b"\x01", True, b"\x02", True, Deletion(5)),))
    done = absorb(
        2,
        0,
        header=None,
        rows=rows,
        header_changes=[ranged],
        row_changes={},
        inside=lambda r, c: r.start <= c <= r.end,
    )
    assert [(it.clustering, it.now) for it in done.emitted] == [(b"\x01", None), (b"\x02", None)]
    merged = merge_partition(ranged, PartitionImage(deletion=Deletion(7)))
    assert merged == PartitionImage(deletion=Deletion(7))


def test_statics_show_beside_live_rows_only() -> None:
    """A static cell changes every row of its partition, and makes none."""
    rows = {
        b"1": StoredRow(1, RowImage(Liveness(1)), None, {}),
        b"2": StoredRow(1, RowImage(deletion=Deletion(1)), {}, None),
    }
    statics = PartitionImage(statics=RowImage(cells=(("s", b"", Cell(3, b"v")),)))
    done = absorb(2, 0, header=None, rows=rows, header_changes=[statics], row_changes={})
    assert [(it.clustering, it.before, it.now) for it in done.emitted] == [(b"1", {}, {"s": b"v"})]


def test_expiry_is_a_function_of_the_clock() -> None:
    """H13: a cell is seen until its second comes, and what an UPDATE made vanishes with its last cell."""
    image = RowImage(cells=(("a", b"", Cell(1, b"x", 10, 100)), ("b", b"", Cell(1, b"y", 20, 120))))
    assert visible(image, NOTHING, 99) == {"a": b"x", "b": b"y"}
    assert visible(image, NOTHING, 100) == {"b": b"y"}
    assert visible(image, NOTHING, 120) is None
    assert [next_expiry(image, clock) for clock in (50, 100, 120)] == [100, 120, None]
    lives_on = RowImage(Liveness(1), None, image.cells)
    assert visible(lives_on, NOTHING, 120) == {}


def test_a_row_at_the_epoch_is_emitted_and_put_again() -> None:
    """A replay must emit what the first attempt emitted; a newer row stops the driver (H2)."""
    change = RowImage(Liveness(3), None, (("a", b"", Cell(3, b"x")),))
    first = absorb(7, 0, header=None, rows={}, row_changes={b"r": [change]})
    replay = absorb(7, 0, header=None, rows=first.rows, row_changes={b"r": [change]})
    assert replay.rows == first.rows
    assert replay.emitted == first.emitted
    with pytest.raises(StaleDriverError):
        absorb(6, 0, header=None, rows=first.rows, row_changes={b"r": [change]})
    elsewhere = absorb(8, 0, header=None, rows=first.rows, row_changes={b"r": [change]})
    assert elsewhere.rows == {}, "a copy of what was absorbed changes nothing"


def test_collections_show_their_live_elements() -> None:
    """An overwritten collection loses its old elements by a complex deletion."""
    old = RowImage(cells=(("m", b"1", Cell(1, b"x")), ("m", b"2", Cell(3, b"y"))))
    overwrite = RowImage(cells=(("m", b"3", Cell(3, b"z")),), complex_deletions=(("m", Deletion(2)),))
    assert visible(merge(old, overwrite), NOTHING, 0) == {"m": [(b"2", b"y"), (b"3", b"z")]}
