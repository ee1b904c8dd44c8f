"""What an epoch is made of, read from the feed again as often as it is run."""

from collections.abc import Iterable, Mapping
from typing import Any

from cvs.capture.changes import Change, TableDefinition
from cvs.capture.feed import Feed
from cvs.programs.epoch import Pin

FEED_PAGE = 5_000


def read_pinned(feed: Feed, pin: Pin) -> Iterable[Change]:
    """Read exactly the changes an epoch is made of."""
    for stream in sorted(pin.until):
        position, end = pin.since.get(stream, 0), pin.until[stream]
        while position < end:
            found = feed.read(stream, position, min(FEED_PAGE, end - position))
            assert found, f"stream {stream} ends at {position}, but {end} is pinned"
            yield from found
            position += len(found)


class Definitions(dict[str, TableDefinition]):
    """Definitions by reference, of the tables a plan reads; others are passed over."""

    def __init__(self, feed: Feed, wanted: Mapping[str, TableDefinition]) -> None:
        super().__init__()
        self._feed, self._wanted = feed, wanted

    def get(self, reference: str, default: Any = None) -> Any:
        """Look the reference up in the feed, once; a change that says nothing of any table names none."""
        if not reference:
            return default
        if reference not in self:
            definition = self._feed.definition(reference)
            self[reference] = definition if definition.full_name in self._wanted else None  # type: ignore[assignment]
        return self[reference] or default
