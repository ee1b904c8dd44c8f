"""Reading Kafka partitions by offset: no groups, no commits, an error where messages are missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cvs.errors import HistoryError, StoreError

WAIT_SECONDS = 30.0
QUIET = {"log_level": 2}  # what goes wrong is raised; the library would write each try on stderr
_SILENT = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


def no_answer(fault: KafkaException, bootstrap: str) -> StoreError:
    """Say that the brokers do not do what is asked, and where they should be."""
    return StoreError(
        f"Kafka does not answer: {fault.args[0].str()}",
        where=bootstrap,
        next_step="see that the brokers of [feed] name = kafka://host:port/topic run and can be reached",
    )


@contextmanager
def answered(bootstrap: str) -> Iterator[None]:
    """Say it in one message if the brokers do not do what is asked."""
    try:
        yield
    except KafkaException as fault:
        raise no_answer(fault, bootstrap) from fault


class TopicReader:
    """Reads partitions of topics; each keeps its place between calls."""

    def __init__(self, bootstrap: str) -> None:
        """Remember the brokers; connect at first use."""
        self._bootstrap = bootstrap
        self._consumers: dict[tuple[str, int], tuple[Any, int]] = {}  # -> consumer, offset it stands at

    def ends(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the oldest offset kept and the end."""
        consumer, _ = self._consumer(topic, partition)
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_SECONDS)
        except KafkaException as fault:
            if fault.args[0].code() in _SILENT:  # which is no news of the topic
                raise no_answer(fault, self._bootstrap) from fault
            raise HistoryError(f"the feed has no topic {topic}: {fault}", where=self._bootstrap) from fault
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
            message = consumer.poll(WAIT_SECONDS)
            if message is None:
                raise StoreError("Kafka gave no messages in time", where=f"{topic} from {at}")
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
                **QUIET,
                "bootstrap.servers": self._bootstrap,
                "group.id": "cvs-feed",
                "enable.auto.commit": False,
            }
            settings |= {"auto.offset.reset": "error", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
            consumer = Consumer(settings)
            with answered(self._bootstrap):
                consumer.list_topics(topic, timeout=WAIT_SECONDS)  # because it knows no partition before
            self._consumers[topic, partition] = (consumer, -1)
        return self._consumers[topic, partition]
