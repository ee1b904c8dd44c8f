"""A feed by its name: a folder, or `kafka://host:port[,host:port]/topic`."""

from cvs.capture.folder import FolderFeed
from cvs.capture.kafka import KafkaFeed
from cvs.errors import SpecificationError

KAFKA = "kafka://"


def open_feed(name: str) -> FolderFeed | KafkaFeed:
    """Open the feed that a name says."""
    if not name.startswith(KAFKA):
        return FolderFeed(name)
    bootstrap, _, topic = name.removeprefix(KAFKA).partition("/")
    if not bootstrap or not topic:
        raise SpecificationError(
            f"{name!r} names no feed", next_step="say kafka://host:port/topic, or the folder of a feed"
        )
    return KafkaFeed(bootstrap, topic)
