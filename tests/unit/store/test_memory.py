"""The in-memory store keeps the port's promises."""

from cvs.model.outcome import OutcomeKind
from cvs.model.signature import UNTOUCHED, Signature
from cvs.store.memory import MemoryStore
from cvs.store.port import PartitionId, TestAndSet

GROUP = PartitionId(table="by_region", key=("EU",))


def test_a_stale_signature_is_rejected_with_what_stands_there() -> None:
    """The second of two test-and-sets from one signature is refused and changes nothing."""
    store = MemoryStore()
    first = TestAndSet(partition=GROUP, expected=None, new=UNTOUCHED, puts=(((), {"n": 1}),))
    second = TestAndSet(partition=GROUP, expected=None, new=Signature(version=9), puts=(((), {"n": 9}),))
    assert store.test_and_set(first).kind is OutcomeKind.APPLIED
    refused = store.test_and_set(second)
    assert (refused.kind, refused.returned) == (OutcomeKind.REJECTED, UNTOUCHED)
    assert store.read(GROUP).rows == {(): {"n": 1}}


def test_base_records_are_found_by_key_and_by_column() -> None:
    """Base-reading programs see the base as it is now."""
    store = MemoryStore()
    store.base["orders"] = {(1,): {"id": 1, "region": "EU"}, (2,): {"id": 2, "region": "US"}}
    assert store.read_base("orders", (1,)) == {"id": 1, "region": "EU"}
    assert store.scan_base("orders", "region", "US") == [{"id": 2, "region": "US"}]
