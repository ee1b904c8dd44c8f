"""Reading Kafka partitions by offset: no groups, no commits, an error where messages are missing."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from cvs.errors import HistoryError, StoreError

WAIT_SECONDS = 30.0
SOON_SECONDS = 5.0
"""For brokers that never answered this process, or not the last time. Others may be being restarted."""
QUIET = {"log_level": 2}  # what goes wrong is raised; the library would write each try on stderr
_SILENT = (
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._DESTROY_BROKER,  # the connection to one that died was given up meanwhile
)


class Brokers:
    """Who holds the topics: what to say where they do not answer, and since when they have not."""

    def __init__(self, bootstrap: str) -> None:
        """Remember them; connect at first use."""
        self.bootstrap = bootstrap
        self.settings: dict[str, Any] = {**QUIET, "bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.settings)
        self.answered = False
        self._since = 0.0

    @property
    def patience(self) -> float:
        """Return for how many seconds an answer is worth waiting for."""
        return WAIT_SECONDS if self.answered else SOON_SECONDS

    @property
    def silence(self) -> float:
        """Return for how many seconds one is waited for now."""
        since = self._since  # once: the thread that waits may have its answer
        return time.monotonic() - since if since else 0.0

    @contextmanager
    def asked(self) -> Iterator[float]:
        """Note since when an answer is waited for; say it in one message if none comes."""
        before, self._since = self._since, self._since or time.monotonic()
        try:
            yield self.patience
        except KafkaException as fault:
            raise self.silent(f"Kafka does not answer: {fault.args[0].str()}") from fault
        finally:
            self._since = before

    def silent(self, what: str) -> StoreError:
        """Say what they do not do, and where they should be; the next time they get less time."""
        self.answered = False
        return StoreError(
            what,
            where=self.bootstrap,
            next_step="see that the brokers of [feed] name = kafka://host:port/topic run and can be reached",
        )

    def topics(self, name: str | None = None, *, client: Any = None) -> Mapping[str, Any]:
        """Return what is known of all topics, or of one; `client`: who learns of it too."""
        with self.asked() as seconds:
            found: Mapping[str, Any] = (client or self.admin).list_topics(name, timeout=seconds).topics
            self.answered = True
        return found


class TopicReader:
    """Reads partitions of topics; each keeps its place between calls."""

    def __init__(self, brokers: Brokers) -> None:
        """Connect at first use."""
        self._brokers = brokers
        self._consumers: dict[tuple[str, int], tuple[Any, int]] = {}  # -> consumer, offset it stands at

    def ends(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the oldest offset kept and the end."""
        consumer, _ = self._consumer(topic, partition)
        with self._brokers.asked() as seconds:
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=seconds)
            except KafkaException as fault:
                if fault.args[0].code() in _SILENT:  # which is no news of the topic
                    raise
                where = self._brokers.bootstrap
                raise HistoryError(f"the feed has no topic {topic}: {fault}", where=where) from fault
        self._brokers.answered = True
        return low, high

    def messages(self, topic: str, start: int, end: int, partition: int = 0) -> Iterator[Any]:
        """Yield messages at offsets from `start` up to `end`: fewer if compacted, or in transactions (markers)."""
        consumer, at = self._consumer(topic, partition)
        if start >= end:
            return
        if at != start:
            consumer.assign([TopicPartition(topic, partition, start)])
        self._consumers[topic, partition] = (consumer, -1)  # whoever stops early has moved it
        at = start
        while at < end:
            with self._brokers.asked() as seconds:
                message = consumer.poll(seconds)
            if message is None:
                raise self._brokers.silent(f"Kafka gave no messages of {topic} from {at} in time")
            if message.error() and message.error().code() != KafkaError._PARTITION_EOF:
                raise StoreError(f"Kafka: {message.error()}", where=topic)
            at = message.offset() + (not message.error())
            if not message.error() and message.offset() < end:
                yield message
        self._consumers[topic, partition] = (consumer, at if at == end else -1)

    def close(self) -> None:
        """End the connections."""
        for consumer, _ in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _consumer(self, topic: str, partition: int) -> tuple[Any, int]:
        if (topic, partition) not in self._consumers:
            settings = {
                **self._brokers.settings,
                "group.id": "cvs-feed",
                "enable.auto.commit": False,
            }
            settings |= {"auto.offset.reset": "error", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
            consumer = Consumer(settings)
            self._brokers.topics(topic, client=consumer)  # because it knows no partition before
            self._consumers[topic, partition] = (consumer, -1)
        return self._consumers[topic, partition]
