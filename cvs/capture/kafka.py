"""A feed in Kafka: for clusters, where the nodes' captures and Spark share no file system.

    <topic>.<stream>        one partition; offset = position, a message a change (its MessagePack)
    <topic>.<stream>.head   one partition, compacted: the durable end, clock and source; the last message counts
    <topic>.definitions     compacted: reference -> definition
    <topic>.holds           compacted: consumer -> positions it still needs

An append is: changes, all acknowledged by all in-sync replicas, then the head. Readers stop at the head, so what
a killed producer leaves behind it is seen when its successor publishes the next head; it comes again from the
log, at least once. Changes are not in transactions: their markers would make holes in the offsets, and positions
are dense. Heads are: a second producer of a stream fences the first, whose next append fails.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from cvs.capture.changes import Change, TableDefinition, decode_changes, encode_changes
from cvs.capture.feed import Head, Source, TakenError
from cvs.capture.folder import reference_of
from cvs.capture.kafka_reader import Brokers, TopicReader
from cvs.errors import HistoryError, StoreError

HEADS_BACK = 10
FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
STREAM_NAME = re.compile(r"[A-Za-z0-9_-]+")
_head = msgspec.msgpack.Decoder(Head)


Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def _alone(
    method: Callable[Concatenate["KafkaFeed", Arguments], Found],
) -> Callable[Concatenate["KafkaFeed", Arguments], Found]:
    """Let one thread in at a time: a build's scan and the epochs share a feed, whose consumers have places."""

    @wraps(method)
    def alone(self: "KafkaFeed", /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Found:
        with self._lock, self._brokers.asked():
            return method(self, *arguments, **named)

    return alone


class KafkaFeed:
    """The Kafka backend of `Feed`; the producer of a stream that began last is its only one."""

    def __init__(self, bootstrap: str, topic: str = "cvs-feed", *, replication: int = 1) -> None:
        """Remember the brokers; connect at first use."""
        self._brokers = Brokers(bootstrap)
        self._topic = topic
        self._replication = replication
        self._definitions: dict[str, TableDefinition] = {}
        self._producer: Any = None
        self._publishers: dict[str, Any] = {}  # of the heads of streams that this process produces
        self._reader = TopicReader(self._brokers)
        self._heads: dict[str, Head] = {}  # of streams that this process produces
        self._begun: set[str] = set()  # streams that are known to have a head
        self._lock = RLock()

    @property
    def silence(self) -> float:
        """Return for how many seconds the brokers are waited for now."""
        return self._brokers.silence

    @_alone
    def streams(self) -> list[str]:
        """Name the streams, sorted."""
        prefix, suffix = f"{self._topic}.", ".head"
        topics = self._brokers.topics()
        found = (name for name in topics if name.startswith(prefix) and name.endswith(suffix))
        return sorted(filter(self._has_head, (name[len(prefix) : -len(suffix)] for name in found)))

    @_alone
    def head(self, stream: str) -> Head:
        """Return the durable end."""
        topic = f"{self._topic}.{stream}.head"
        low, high = self._reader.ends(topic)
        window, found = HEADS_BACK, None
        while high > low and found is None:
            start = max(low, high - window)
            for found in self._reader.messages(topic, start, high):
                if found.offset() >= high - 2:  # behind it stands the marker of its transaction, if anything
                    break
            if found is None and start == low:
                break
            window *= 10
        if found is not None:
            return _head.decode(found.value())
        raise HistoryError(f"the feed has no stream {stream!r}", where=self._topic)

    @_alone
    def first(self, stream: str) -> int:
        """Return the oldest position still kept."""
        return self._reader.ends(f"{self._topic}.{stream}")[0]

    @_alone
    def read(self, stream: str, start: int, limit: int) -> list[Change]:
        """Return up to `limit` durable changes from `start` on."""
        end = min(self.head(stream).position, start + limit)
        if start < end and start < self.first(stream):
            raise HistoryError(
                f"position {start} of stream {stream!r} is no longer kept",
                where=self._topic,
                next_step="the views of this consumer must be rebuilt",
            )
        found = [
            decode_changes(m.value())[0] for m in self._reader.messages(f"{self._topic}.{stream}", start, end)
        ]
        if start < end and len(found) != end - start:
            raise HistoryError(f"stream {stream!r} has holes from {start} to {end}", where=self._topic)
        return found

    @_alone
    def definition(self, reference: str) -> TableDefinition:
        """Return the definition a change names."""
        if reference not in self._definitions:
            for key, value in self._table(f"{self._topic}.definitions").items():
                self._definitions[key] = msgspec.json.decode(value, type=TableDefinition)
        if reference not in self._definitions:
            raise HistoryError(f"the feed has no definition {reference}", where=self._topic)
        return self._definitions[reference]

    @_alone
    def hold(self, consumer: str, positions: Mapping[str, int]) -> None:
        """Declare what a consumer still needs."""
        topic = f"{self._topic}.holds"
        self._make(topic, compacted=True)
        held = msgspec.json.decode(self._table(topic).get(consumer, b"{}"), type=dict[str, int])
        merged = held | {stream: max(at, held.get(stream, 0)) for stream, at in positions.items()}
        self._send(topic, [(consumer.encode(), msgspec.json.encode(merged))])

    @_alone
    def knows(self, consumer: str) -> bool:
        """Say whether a consumer held something here."""
        topic = f"{self._topic}.holds"
        self._make(topic, compacted=True)
        return consumer in self._table(topic)

    @_alone
    def release(self, consumer: str) -> None:
        """Take back what a consumer held."""
        topic = f"{self._topic}.holds"
        self._make(topic, compacted=True)
        self._send(topic, [(consumer.encode(), None)])

    @_alone
    def define(self, definition: TableDefinition) -> str:
        """Store a definition; the same content has the same name."""
        reference = reference_of(definition)
        if reference not in self._definitions:
            topic = f"{self._topic}.definitions"
            self._make(topic, compacted=True)
            self._send(topic, [(reference.encode(), msgspec.json.encode(definition))])
            self._definitions[reference] = definition
        return reference

    @_alone
    def append(self, stream: str, changes: Sequence[Change], *, source: Source, clock: int) -> Head:
        """Append durably and make the new end visible."""
        topic = f"{self._topic}.{stream}"
        known = self._heads.get(stream) or self._begin(stream, topic)
        self._heads[stream] = known
        end = self._send(topic, [(None, encode_changes([change])) for change in changes])
        head = Head(max(end, known.position), max(clock, known.clock), source)
        self._publish(stream, head)
        self._heads[stream] = head
        return head

    @_alone
    def collect(self) -> int:
        """Let the broker delete what every holder has passed; it does not say how many bytes that frees."""
        topics = self._brokers.topics()
        holds = self._table(f"{self._topic}.holds") if f"{self._topic}.holds" in topics else {}
        needed = [msgspec.json.decode(value, type=dict[str, int]) for value in holds.values()]
        for stream in self.streams() if needed else ():
            before = min(hold.get(stream, 0) for hold in needed)
            if before > self.first(stream):
                partition = TopicPartition(f"{self._topic}.{stream}", 0, before)
                for future in self._brokers.admin.delete_records([partition]).values():
                    future.result(self._brokers.patience)
        return 0

    def close(self) -> None:
        """End the connections."""
        self._reader.close()
        self._publishers.clear()
        self._heads.clear()
        self._producer = None

    def _begin(self, stream: str, topic: str) -> Head:
        """Become the producer: what a predecessor appended without a head counts as appended."""
        if not STREAM_NAME.fullmatch(stream):
            raise HistoryError(
                f"{stream!r} cannot be part of a topic's name", next_step="name it with --stream"
            )
        self._make(topic, compacted=False)
        self._make(f"{topic}.head", compacted=True)
        self._publishers[stream] = self._fence(topic)
        known = self.head(stream) if self._has_head(stream) else Head(0)
        position = self._reader.ends(topic)[1]
        if position < known.position:
            raise HistoryError(
                f"the stream ends at {position}, but {known.position} was durable: the brokers lost changes",
                where=topic,
                next_step="rebuild the views, then start a new stream",
            )
        return Head(position, known.clock, known.source)

    def _has_head(self, stream: str) -> bool:
        """Say whether a first head was published: the topics of a stream are made before."""
        if stream not in self._begun:
            try:
                self.head(stream)
            except HistoryError:
                return False
            self._begun.add(stream)
        return True

    def _fence(self, topic: str) -> Any:
        """Become the only one who may publish heads: whoever did so before is fenced by the brokers."""
        publisher = Producer({**self._brokers.settings, "transactional.id": topic, "linger.ms": 0})
        try:
            publisher.init_transactions(self._brokers.patience)
        except KafkaException as fault:
            raise StoreError(
                f"Kafka gives no transaction, which guards a stream against a second capture: {fault}",
                where=topic,
                next_step="are transaction.state.log.replication.factor and min.isr met by the brokers?",
            ) from fault
        return publisher

    def _publish(self, stream: str, head: Head) -> None:
        """Make an end visible, as one transaction of a topic that nobody reads by position."""
        publisher, topic = self._publishers[stream], f"{self._topic}.{stream}.head"
        try:
            publisher.begin_transaction()
            publisher.produce(topic, msgspec.msgpack.encode(head), key=stream.encode(), partition=0)
            publisher.commit_transaction(self._brokers.patience)
        except KafkaException as fault:
            del self._publishers[stream], self._heads[stream]  # the next append begins anew, from what stands
            if fault.args[0].fatal() or fault.args[0].code() in FENCED:
                raise TakenError(
                    "another process writes this stream now",
                    where=topic,
                    next_step="end one of the two captures",
                ) from fault
            raise self._brokers.silent(f"Kafka did not take the head of {stream}: {fault}") from fault

    def _make(self, topic: str, *, compacted: bool) -> None:
        if topic in self._brokers.topics():
            return
        policy = (
            {"cleanup.policy": "compact"} if compacted else {"retention.ms": "-1", "retention.bytes": "-1"}
        )
        new = NewTopic(topic, num_partitions=1, replication_factor=self._replication, config=policy)
        for future in self._brokers.admin.create_topics([new]).values():
            try:
                future.result(self._brokers.patience)
            except KafkaException as fault:
                if "already exists" not in str(fault):
                    raise StoreError(f"Kafka made no topic: {fault}", where=topic) from fault
        deadline = time.monotonic() + self._brokers.patience
        while not self._has_leader(topic):
            if time.monotonic() > deadline:
                raise StoreError("Kafka made a topic that has no leader", where=topic)
            time.sleep(0.05)

    def _has_leader(self, topic: str) -> bool:
        found = self._brokers.topics(topic).get(topic)
        return bool(found and not found.error and found.partitions and found.partitions[0].leader >= 0)

    def _send(self, topic: str, messages: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        """Send messages in order; return the end when all in-sync replicas have all of them, or raise."""
        if self._producer is None:
            self._producer = Producer(
                {**self._brokers.settings, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
            )
        faults: list[Any] = []
        ends = [0]

        def delivered(fault: Any, message: Any) -> None:
            if fault:
                faults.append(fault)
            else:
                ends.append(message.offset() + 1)

        for key, value in messages:
            while True:
                try:
                    self._producer.produce(topic, value, key=key, partition=0, on_delivery=delivered)
                    break
                except BufferError:  # the local queue is full: let some out
                    self._producer.poll(0.1)
        left = self._producer.flush(self._brokers.patience)
        if faults or left:
            raise self._brokers.silent(
                f"Kafka did not take {left + len(faults)} of {len(messages)} messages of {topic}: {faults[:1]}"
            )
        return max(ends)

    def _table(self, topic: str) -> dict[str, bytes]:
        """Read a compacted topic as what it is: a table."""
        low, high = self._reader.ends(topic)
        rows = {
            message.key().decode(): message.value() for message in self._reader.messages(topic, low, high)
        }
        return {key: value for key, value in rows.items() if value is not None}  # none: taken back
