"""Kafka topics that others fill, as a feed: an outbox, or Debezium's topics. Read only.

A partition is a stream, `topic:partition`, and a message's offset is its position. Positions are dense: where the
topic has no message (a transaction's marker) or one that says nothing (a heartbeat, a Kafka tombstone), a change
stands that changes nothing. Retention is the owner's: a hold cannot be honoured, and a reader that comes too late
is told so. A compacted topic has lost changes and is refused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from confluent_kafka.admin import ConfigResource, ResourceType

from cvs.capture.changes import Change, TableDefinition
from cvs.capture.feed import Head, Source, of_node
from cvs.capture.folder import reference_of
from cvs.capture.kafka import KafkaFeed
from cvs.capture.kafka_reader import Brokers, TopicReader
from cvs.capture.messages import NOTHING, ChangeMaker
from cvs.errors import CvsError, HistoryError, SpecificationError

Told = TypeVar("Told")
BEHIND_MAX = 4_096
"""Messages, about, that are looked through from the end for one that says a clock."""


class Reading(Protocol):
    """A format of messages."""

    def change(self, data: bytes | None, offset: int) -> Change:
        """Return what a message changes."""

    def clock(self, data: bytes | None) -> int:
        """Return the moment a message says its partition has reached."""


class TopicsFeed:
    """Topics of others, read as a feed (`feed.Feed`)."""

    def __init__(
        self,
        bootstrap: str,
        wanted: Callable[[str], bool],
        definitions: Mapping[str, TableDefinition],
        reading: Callable[[dict[str, ChangeMaker]], Reading],
    ) -> None:
        """Read the topics that `wanted` chooses; `definitions` by full table name."""
        makers = {name: ChangeMaker(found, reference_of(found)) for name, found in definitions.items()}
        self._definitions = {maker.reference: maker.definition for maker in makers.values()}
        self._reading = reading(makers)
        self._wanted = wanted
        self._brokers = Brokers(bootstrap)
        self._reader = TopicReader(self._brokers)
        self._checked: set[str] = set()
        self._heads: dict[str, Head] = {}

    @property
    def silence(self) -> float:
        """Return for how many seconds the brokers are waited for now."""
        return self._brokers.silence

    def streams(self) -> list[str]:
        """Name the partitions of the topics, sorted."""
        topics = self._brokers.topics()
        found = [name for name in topics if self._wanted(name)]
        for name in found:
            self._refuse_compacted(name)
        return sorted(f"{name}:{number}" for name in found for number in topics[name].partitions)

    def head(self, stream: str) -> Head:
        """Return the end of a partition; the clock is what the last message says that says one.

        Behind it may stand what says none, as the end of a transaction: who writes in transactions leaves one last.
        """
        topic, partition = _split(stream)
        low, high = self._reader.ends(topic, partition)
        known = self._heads.get(stream)
        if known is not None and known.position == high:
            return known
        clock, behind = 0, 1
        while not clock and behind <= BEHIND_MAX:
            for message in self._reader.messages(topic, max(low, high - behind), high, partition):
                said = self._told(stream, message.offset(), lambda: self._reading.clock(message.value()))  # noqa: B023
                clock = said or clock
            behind = behind * 16 if high - behind > low else BEHIND_MAX + 1
        self._heads[stream] = found = Head(high, clock, Source(0, high))
        return found

    def first(self, stream: str) -> int:
        """Return the oldest offset still kept."""
        return self._reader.ends(*_split(stream))[0]

    def read(self, stream: str, start: int, limit: int) -> list[Change]:
        """Return what is at `start`, `start + 1`, ...: one change a position."""
        topic, partition = _split(stream)
        low, high = self._reader.ends(topic, partition)
        end = min(high, start + limit)
        if start < low and start < end:
            raise HistoryError(
                f"position {start} of stream {stream!r} is no longer kept",
                where=topic,
                next_step="the views of this consumer must be rebuilt; raise the topic's retention",
            )
        found: list[Change] = []
        for message in self._reader.messages(topic, start, end, partition):
            offset, data = message.offset(), message.value()
            found += [NOTHING] * (offset - start - len(found))
            found.append(self._told(stream, offset, lambda: self._reading.change(data, offset)))  # noqa: B023
        return found + [NOTHING] * (max(0, end - start) - len(found))

    @property
    def references(self) -> Collection[str]:
        """Name the definitions of the tables there are."""
        return self._definitions.keys()

    def definition(self, reference: str) -> TableDefinition:
        """Return the definition a change names: the table as it was when this feed was opened."""
        if reference not in self._definitions:
            raise HistoryError(f"the feed has no definition {reference}", next_step="open the feed again")
        return self._definitions[reference]

    def hold(self, consumer: str, positions: Mapping[str, int]) -> None:
        """Do nothing: retention is the topics' own."""

    def knows(self, consumer: str) -> bool:
        """Say yes: nobody keeps who reads topics of others."""
        return True

    def release(self, consumer: str) -> None:
        """Do nothing: retention is the topics' own."""

    def define(self, definition: TableDefinition) -> str:
        """Refuse: others fill these topics."""
        raise _read_only()

    def append(self, stream: str, changes: Sequence[Change], *, source: Source, clock: int) -> Head:
        """Refuse: others fill these topics."""
        raise _read_only()

    def collect(self) -> int:
        """Do nothing: retention is the topics' own."""
        return 0

    def close(self) -> None:
        """End the connections."""
        self._reader.close()

    def _refuse_compacted(self, topic: str) -> None:
        if topic in self._checked:
            return
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (answer,) = self._brokers.admin.describe_configs([resource]).values()
        with self._brokers.asked() as seconds:
            found = answer.result(seconds)
        if "compact" in found["cleanup.policy"].value:
            raise SpecificationError(
                f"topic {topic} is compacted: changes of it are lost", next_step="set cleanup.policy=delete"
            )
        self._checked.add(topic)

    @staticmethod
    def _told(stream: str, offset: int, read: Callable[[], Told]) -> Told:
        """Say where a message stands that cannot be read."""
        try:
            return read()
        except CvsError as refusal:
            raise HistoryError(
                refusal.what, where=f"{stream}, offset {offset}", next_step=refusal.next_step
            ) from refusal


class JoinedFeed:
    """Topics of others with streams of ours beside them: a build's scan and what consumers hold need a place."""

    def __init__(self, others: TopicsFeed, own: KafkaFeed) -> None:
        """Read both; write to our own."""
        self._others = others
        self._own = own

    def _of(self, stream: str) -> "TopicsFeed | KafkaFeed":
        return self._own if of_node(stream) else self._others

    @property
    def silence(self) -> float:
        """Return for how many seconds the brokers are waited for now."""
        return max(self._others.silence, self._own.silence)

    def streams(self) -> list[str]:
        """Name the streams of both, sorted."""
        return sorted([*self._others.streams(), *self._own.streams()])

    def head(self, stream: str) -> Head:
        """Return the durable end."""
        return self._of(stream).head(stream)

    def first(self, stream: str) -> int:
        """Return the oldest position still kept."""
        return self._of(stream).first(stream)

    def read(self, stream: str, start: int, limit: int) -> list[Change]:
        """Return changes from `start` on."""
        return self._of(stream).read(stream, start, limit)

    def definition(self, reference: str) -> TableDefinition:
        """Return the definition a change names; the same content has the same name in both."""
        known = reference in self._others.references
        return self._others.definition(reference) if known else self._own.definition(reference)

    def hold(self, consumer: str, positions: Mapping[str, int]) -> None:
        """Hold what is ours; retention of the topics is their owner's."""
        if ours := {stream: at for stream, at in positions.items() if of_node(stream)}:
            self._own.hold(consumer, ours)

    def knows(self, consumer: str) -> bool:
        """Say yes: nobody keeps who reads topics of others."""
        return True

    def release(self, consumer: str) -> None:
        """Take back what a consumer held."""
        self._own.release(consumer)

    def define(self, definition: TableDefinition) -> str:
        """Store a definition beside our streams."""
        return self._own.define(definition)

    def append(self, stream: str, changes: Sequence[Change], *, source: Source, clock: int) -> Head:
        """Append to a stream of ours; others fill the topics."""
        return self._of(stream).append(stream, changes, source=source, clock=clock)

    def collect(self) -> int:
        """Delete what every consumer has passed of our streams."""
        return self._own.collect()

    def close(self) -> None:
        """End the connections."""
        self._others.close()
        self._own.close()


def _split(stream: str) -> tuple[str, int]:
    topic, _, number = stream.rpartition(":")
    if not topic or not number.isdigit():
        raise HistoryError(f"the feed has no stream {stream!r}")
    return topic, int(number)


def _read_only() -> SpecificationError:
    return SpecificationError("this feed is filled by others", next_step="append to a folder or to kafka://")
