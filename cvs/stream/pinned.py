"""What an epoch is made of, read from the feed again as often as it is run."""

from collections.abc import Iterable, Mapping
from typing import Any

from cvs.capture.changes import Change, TableDefinition
from cvs.capture.feed import Feed, Head
from cvs.errors import HistoryError
from cvs.programs.epoch import Control, Pin
from cvs.stream.build import SCANNED
from cvs.stream.tables import Names

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


def gone_back(taken: Mapping[str, int], heads: Mapping[str, Head]) -> str:
    """Name a stream of which more was taken than it has: the feed is another one, or an older copy. Empty: none.

    What came at the positions that were taken would be passed over, silently.
    """
    back = (stream for stream, head in heads.items() if head.position < taken.get(stream, 0))
    followed = [stream for stream, at in taken.items() if at and not stream.startswith(SCANNED)]
    return next(back, "" if not followed or any(stream in heads for stream in followed) else followed[0])


def refuse_stranger(feed: Feed, names: Names, control: Control) -> None:
    """Refuse a feed that does not know the views, although they took changes: it is another one.

    As many positions as were taken do not make it the same. What they need they declare before their first epoch runs.
    """
    if control.committed > names.epoch_before and not feed.knows(names.consumer):
        raise HistoryError(
            "the views took changes of another feed: this one does not know them",
            where="[feed] name",
            next_step="name the feed that the views follow; if it is lost, cvs rebuild --all",
        )


def refuse_gone_back(taken: Mapping[str, int], heads: Mapping[str, Head]) -> None:
    """Refuse to go on from such a feed."""
    if stream := gone_back(taken, heads):
        ends = heads[stream].position if stream in heads else 0
        raise HistoryError(
            f"{taken[stream]:,} changes of stream {stream} were taken, and the feed has {ends:,}: "
            "it is another feed, or an older copy",
            where="[feed] name",
            next_step="name the feed that the views follow; if it is lost, cvs rebuild --all",
        )
