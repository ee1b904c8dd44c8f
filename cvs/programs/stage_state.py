"""What a stage sees of its bucket: the rows that were read, as of the epoch before, and its changes on top."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from cvs.programs.stage_bag import Bag


class NeedsError(Exception):
    """A stage asked for rows that were not read yet."""

    def __init__(self, keys: Iterable[bytes] = (), prefixes: Iterable[bytes] = ()) -> None:
        super().__init__("rows not read yet")
        self.keys = tuple(keys)
        self.prefixes = tuple(prefixes)


@dataclass(slots=True, kw_only=True)
class State:
    """A bucket as of the epoch before, with what this epoch changes on top."""

    rows: dict[bytes, bytes]
    keys: set[bytes]
    prefixes: set[bytes]
    everything: bool = False
    changed: dict[bytes, bytes | None] = field(default_factory=dict)
    outputs: dict[str, Bag] = field(default_factory=dict)  # of the stages that are done
    inside: dict[tuple[int, int], Bag] = field(default_factory=dict)  # what they passed on, by (stage, side)
    _ordered: list[bytes] = field(default_factory=list)  # keys of `rows`; made when first needed
    _touched: list[bytes] = field(default_factory=list)  # keys of `changed`

    def want(self, keys: Iterable[bytes] = (), prefixes: Iterable[bytes] = ()) -> None:
        """Say what will be asked for, so that it is read at once."""
        if self.everything:
            return
        missing = self._under_none([key for key in keys if key not in self.keys])
        unread = [p for p in prefixes if p not in self.prefixes]
        if missing or unread:
            raise NeedsError(missing, unread)

    def _under_none(self, keys: list[bytes]) -> list[bytes]:
        """Leave out keys that begin with a prefix that was read."""
        if not keys:
            return keys
        sizes = {len(prefix) for prefix in self.prefixes}  # few, while the prefixes are many
        return [key for key in keys if not any(key[:size] in self.prefixes for size in sizes)]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a row, None if it is not there."""
        if key not in self.keys:
            self.want(keys=(key,))
        return self.changed[key] if key in self.changed else self.rows.get(key)

    def under(self, prefix: bytes) -> dict[bytes, bytes]:
        """Return all rows whose key begins with a prefix; their neighbours in key order are not looked at."""
        self.want(prefixes=(prefix,))
        if len(self._ordered) != len(self.rows):
            self._ordered = sorted(self.rows)
        found = {key: self.rows[key] for key in beginning(self._ordered, prefix)}
        for key in beginning(self._touched, prefix):
            value = self.changed[key]
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found

    def learn(self, rows: Mapping[bytes, bytes], keys: set[bytes], prefixes: set[bytes]) -> None:
        """Add what was read too, of the same moment."""
        self.rows.update(rows)
        self.keys |= keys
        self.prefixes |= prefixes

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Forget what is changed in here if it turns out that more must be read first."""
        count = len(self.changed)
        try:
            yield
        except NeedsError:
            if count < len(self.changed):
                for key in list(self.changed)[count:]:
                    del self.changed[key]
                self._touched = sorted(self.changed)
            raise

    def put(self, key: bytes, value: bytes | None) -> None:
        """Give a row a value, or (None) let it go."""
        if key not in self.changed:
            insort(self._touched, key)
        self.changed[key] = value


def beginning(ordered: list[bytes], prefix: bytes) -> Iterator[bytes]:
    """Yield the keys of an ordered list that begin with a prefix."""
    for at in range(bisect_left(ordered, prefix), len(ordered)):
        if not ordered[at].startswith(prefix):
            return
        yield ordered[at]
