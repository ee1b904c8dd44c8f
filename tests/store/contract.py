"""What every store promises, as tests that a store's own test class inherits."""

from uuid import uuid4

from cvs.model.outcome import OutcomeKind
from cvs.model.signature import UNTOUCHED, Signature
from cvs.store.port import Body, Key, Partition, PartitionId, Store, TestAndSet

FIRST = Signature(version=1, entries=(("s", 4),))
SECOND = Signature(version=2, entries=(("s", 4), ("t", 9)))
EMPTY: Key = ()


def create(place: PartitionId, body: Body | None = None) -> TestAndSet:
    puts = ((EMPTY, body),) if body is not None else ()
    return TestAndSet(partition=place, expected=None, new=FIRST, puts=puts)


class StoreContract:
    """Inherit it and give `store`, `table` and `base_table` fixtures."""

    @staticmethod
    def place(table: str) -> PartitionId:
        return PartitionId(table=table, key=(f"EU-{uuid4()}", 7, None))

    def test_nothing_stands_where_nothing_was_written(self, store: Store, table: str) -> None:
        """An untouched partition has no signature and no rows."""
        assert store.read(self.place(table), serial=True) == Partition(signature=None)

    def test_the_first_write_is_for_whoever_comes_first(self, store: Store, table: str) -> None:
        """Of two inserts the second is refused, with the signature that stands there, and changes nothing."""
        place = self.place(table)
        assert store.test_and_set(create(place, {"n": 1})).kind is OutcomeKind.APPLIED
        refused = store.test_and_set(create(place, {"n": 9}))
        assert refused.kind is OutcomeKind.REJECTED
        assert store.read(place, serial=True) == Partition(signature=FIRST, rows={EMPTY: {"n": 1}})

    def test_a_stale_signature_is_refused_and_told_what_stands(self, store: Store, table: str) -> None:
        """A refused test-and-set brings back the scalars of the signature that stands."""
        place = self.place(table)
        store.test_and_set(create(place))
        stale = TestAndSet(
            partition=place, expected=SECOND, new=Signature(version=3), puts=((EMPTY, {"n": 9}),)
        )
        refused = store.test_and_set(stale)
        assert refused.kind is OutcomeKind.REJECTED
        assert refused.returned is not None
        assert refused.returned.scalars == FIRST.scalars
        assert store.read(place, serial=True).rows == {}

    def test_puts_and_deletes_go_together(self, store: Store, table: str) -> None:
        """One test-and-set changes several rows of a partition and its signature at once."""
        place = self.place(table)
        old, new = ("a", 1), ("b", 2)
        store.test_and_set(TestAndSet(partition=place, expected=None, new=FIRST, puts=((old, {"n": 1}),)))
        swap = TestAndSet(
            partition=place, expected=FIRST, new=SECOND, puts=((new, {"n": 2, "s": "ß"}),), deletes=(old,)
        )
        assert store.test_and_set(swap).kind is OutcomeKind.APPLIED
        assert store.read(place) == Partition(signature=SECOND, rows={new: {"n": 2, "s": "ß"}})

    def test_a_condition_compares_scalars_only(self, store: Store, table: str) -> None:
        """Entries travel with the signature; only its scalars are the condition."""
        place = self.place(table)
        store.test_and_set(create(place))
        bare = Signature(version=FIRST.version)
        request = TestAndSet(partition=place, expected=bare, new=SECOND)
        assert store.test_and_set(request).kind is OutcomeKind.APPLIED

    def test_some_rows_can_be_read_alone(self, store: Store, table: str) -> None:
        """Reading by row keys gives those that stand there, and the signature also where none does."""
        place = self.place(table)
        rows = tuple(((n,), {"n": n}) for n in range(5))
        store.test_and_set(TestAndSet(partition=place, expected=None, new=FIRST, puts=rows))
        assert store.read(place, keys=[(1,), (9,)]) == Partition(signature=FIRST, rows={(1,): {"n": 1}})
        assert store.read(place, keys=[(9,)]) == Partition(signature=FIRST)

    def test_many_rows_are_read_whole(self, store: Store, table: str) -> None:
        """A partition of several pages is one answer under one signature."""
        place = self.place(table)
        signature: Signature | None = None
        for start in range(0, 6000, 1000):
            new = Signature(version=start + 1)
            puts = tuple(((n,), {"n": n}) for n in range(start, start + 1000))
            store.test_and_set(TestAndSet(partition=place, expected=signature, new=new, puts=puts))
            signature = new
        found = store.read(place)
        assert (found.signature, len(found.rows)) == (signature, 6000)

    def test_untouched_is_a_signature_like_any_other(self, store: Store, table: str) -> None:
        """Zero is a signature that a condition can name; it is not the same as none (PROTOCOL section 2)."""
        place = self.place(table)
        store.test_and_set(TestAndSet(partition=place, expected=None, new=UNTOUCHED))
        assert store.test_and_set(create(place)).kind is OutcomeKind.REJECTED
        assert (
            store.test_and_set(TestAndSet(partition=place, expected=UNTOUCHED, new=FIRST)).kind
            is OutcomeKind.APPLIED
        )

    def test_base_records_are_read_as_they_are(self, store: Store, base_table: str) -> None:
        """Base-reading programs find records by key and by a column's value."""
        assert store.read_base(base_table, (1,)) == {"id": 1, "region": "EU"}
        assert store.read_base(base_table, (9,)) is None
        assert store.scan_base(base_table, "region", "US") == [{"id": 2, "region": "US"}]
