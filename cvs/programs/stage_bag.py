"""A bag: what flows between the stages of a plan, rows with how often they come or (negative) go."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cvs.programs.stage_codec import Values, pack


class Bag:
    """Rows with multiplicities; what nets to zero is not there.

    `sorted` is what a stage made of these changes; it is made once, though a stage computes again after each read.
    """

    __slots__ = ("entries", "sorted")

    def __init__(self, pairs: Iterable[tuple[Values, int]] = ()) -> None:
        self.entries: dict[bytes, tuple[Values, int]] = {}
        self.sorted: Any = None
        for row, count in pairs:
            self.add(row, count)

    def add(self, row: Values, count: int, name: bytes = b"") -> None:
        """Add (or take out, if negative) a row some times; `name`: its bytes, if they are known."""
        name = name or pack(row)
        self.sorted = None
        entries = self.entries
        if name in entries:
            count += entries[name][1]
            if not count:
                del entries[name]
                return
        if count:
            entries[name] = (row, count)

    def take(self, changes: "Changes", edge: Callable[[Values], Values | None]) -> None:
        """Add what an edge makes of changes: as `add` does, which called for every row would cost as much again."""
        entries, self.sorted = self.entries, None
        for row, count in changes:
            made = edge(row)
            if made is None:
                continue
            name = pack(made)
            known = entries.get(name)
            total = count if known is None else count + known[1]
            if total:
                entries[name] = (made, total)
            elif known is not None:
                del entries[name]

    def extend(self, other: "Changes") -> None:
        """Add all of another bag, or of changes that are not packed yet."""
        if not isinstance(other, Bag):
            for row, count in other:
                self.add(row, count)
            return
        if not self.entries:
            self.entries, self.sorted = dict(other.entries), None
            return
        for name, (
            row,
            count,
        ) in other.entries.items():  # because packing rows again would be most of the cost
            self.add(row, count, name)

    def __iter__(self) -> Iterator[tuple[Values, int]]:
        return iter(self.entries.values())

    def named(self) -> Iterable[tuple[bytes, tuple[Values, int]]]:
        """Return (bytes, (row, count)): who has the bytes need not pack the row again."""
        return self.entries.items()

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self._counts() == other._counts()

    def _counts(self) -> dict[bytes, int]:
        return {name: count for name, (_, count) in self.entries.items()}

    __hash__ = None  # type: ignore[assignment]  # because a bag changes

    def __repr__(self) -> str:
        return f"Bag({list(self)!r})"


Unpacked = list[tuple[Values, int]]
"""Changes of a base table: most go over no edge; what does is another row, packed where it arrives."""
Changes = Bag | Unpacked
