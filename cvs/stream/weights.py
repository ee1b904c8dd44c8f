"""What rows of state weigh, table by table, as they were last read: how many of them one read may ask for."""

from collections.abc import Iterable

KEYS_A_READ = 400
ROWS_A_PAGE, ROWS_A_PAGE_UNKNOWN = 5_000, 200
BYTES_A_READ, SIZE_UNKNOWN, SAMPLED = 128 * 1024, 4096, 32
"""How much one read should bring: as many as are in flight are answered at once, out of a node's memory, and the
driver's time grows with the square of what comes at once. What a row weighs is looked at in so many buckets of a table
that nobody read yet; where there are none, it is taken to weigh so much.
"""


class Weights:
    """Bytes of a row, by table."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def unknown(self, tables: Iterable[str]) -> set[str]:
        """Return those of which nothing was read; from now on something is assumed."""
        found = set(tables) - self._sizes.keys()
        self._sizes |= dict.fromkeys(found, SIZE_UNKNOWN)
        return found

    def note(self, table: str, blobs: Iterable[bytes | None]) -> None:
        """Note what rows of a table weigh."""
        sizes = [len(blob) for blob in blobs if blob]
        if sizes:
            self._sizes[table] = sum(sizes) // len(sizes)

    def at_once(self, table: str) -> int:
        """Return how many rows one read asks for by their keys."""
        return max(1, min(KEYS_A_READ, BYTES_A_READ // max(1, self._sizes.get(table, SIZE_UNKNOWN))))

    def page(self, table: str) -> int:
        """Return how many rows of a slice come at once."""
        size = self._sizes.get(table)
        return max(1, min(ROWS_A_PAGE, ROWS_A_PAGE_UNKNOWN if size is None else BYTES_A_READ // max(1, size)))
