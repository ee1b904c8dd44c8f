"""The store in memory: the same promises, no cluster; the simulator's and the tests' store."""

from collections.abc import Iterable

from cvs.model.outcome import APPLIED, Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.store.port import Body, Key, Partition, PartitionId, TestAndSet


class MemoryStore:
    """Partitions and base tables as dictionaries; every call is atomic."""

    def __init__(self) -> None:
        self.signatures: dict[PartitionId, Signature] = {}
        self.rows: dict[PartitionId, dict[Key, Body]] = {}
        self.base: dict[str, dict[Key, Body]] = {}

    def read(
        self, partition: PartitionId, *, serial: bool = False, keys: Iterable[Key] | None = None
    ) -> Partition:
        """Read signature and rows; always linearizable here."""
        rows = self.rows.get(partition, {})
        wanted = dict(rows) if keys is None else {k: rows[k] for k in keys if k in rows}
        return Partition(signature=self.signatures.get(partition), rows=wanted)

    def test_and_set(self, request: TestAndSet) -> Outcome:
        """Compare the scalars of the signature, then change all or nothing."""
        current = self.signatures.get(request.partition)
        if (current and current.scalars) != (request.expected and request.expected.scalars):
            return Outcome(kind=OutcomeKind.REJECTED, returned=current, reason="signature differs")
        rows = self.rows.setdefault(request.partition, {})
        for key in request.deletes:
            rows.pop(key, None)
        rows.update(request.puts)
        self.signatures[request.partition] = request.new
        return APPLIED

    def read_base(self, table: str, key: Key) -> Body | None:
        """Read one base record as it is now."""
        return self.base.get(table, {}).get(key)

    def scan_base(self, table: str, column: str, value: object) -> list[Body]:
        """Read the base records whose column has a value."""
        return [row for row in self.base.get(table, {}).values() if row.get(column) == value]
