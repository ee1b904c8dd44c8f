"""The port: what the rest of cvs may ask of storage, and what an implementer owes.

The unit is one partition under one static signature (DESIGN section 4). Row keys and row bodies are values
that `model.types` can encode; a store keeps them as bytes or as they are, and gives them back equal.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cvs.model.outcome import Outcome
from cvs.model.signature import Signature

Key = tuple[Any, ...]  # because a key is made of column values of any type
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionId:
    """One partition of one state table: a view record (per entry) or a bucket (per epoch)."""

    table: str
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """What a read found: the signature (None: nothing was ever written) and the rows asked for."""

    signature: Signature | None
    rows: Mapping[Key, Body] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAndSet:
    """Replace `expected` by `new`, put and delete rows, all in one partition, or do nothing.

    `expected` None: only if no signature stands there (insert if not exists; per entry only, PROTOCOL H3).
    """

    __test__ = False  # because pytest would take the name for a test class

    partition: PartitionId
    expected: Signature | None
    new: Signature
    puts: tuple[tuple[Key, Body], ...] = ()
    deletes: tuple[Key, ...] = ()


class Store(Protocol):
    """The door. Every call may block; none retries a test-and-set by itself."""

    def read(
        self, partition: PartitionId, *, serial: bool = False, keys: Iterable[Key] | None = None
    ) -> Partition:
        """Read signature and rows (all, or those with `keys`) in one request.

        `serial` finishes rounds in flight, so the answer is linearizable with test-and-sets.
        """
        ...

    def test_and_set(self, request: TestAndSet) -> Outcome:
        """Ask once; the answer is honest: what is not surely applied or surely refused is unknown."""
        ...

    def read_base(self, table: str, key: Key) -> Body | None:
        """Read one base record as it is now."""
        ...

    def scan_base(self, table: str, column: str, value: object) -> list[Body]:
        """Read the base records whose column has a value (the paper's base-reading programs need it)."""
        ...
