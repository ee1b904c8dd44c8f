"""Brokers that do not answer are the environment's fault, and are named; no broker is needed for that."""

import pytest

from cvs.capture import kafka, kafka_reader, topics
from cvs.capture.kafka import KafkaFeed
from cvs.capture.outbox import Outbox
from cvs.capture.topics import TopicsFeed
from cvs.errors import StoreError

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kafka, kafka_reader, topics):
        monkeypatch.setattr(module, "WAIT_SECONDS", 0.3)


def test_a_feed_whose_brokers_are_away_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StoreError, match="Kafka does not answer") as refusal:
        KafkaFeed(NOBODY).streams()
    assert refusal.value.where == NOBODY
    assert "kafka://host:port/topic" in refusal.value.next_step
    assert not capfd.readouterr().err


def test_silence_is_not_taken_for_a_topic_that_is_not_there() -> None:
    """A stream would vanish from the feed while a broker restarts."""
    with pytest.raises(StoreError, match="Kafka does not answer"):
        KafkaFeed(NOBODY).first("n1")
    with pytest.raises(StoreError, match="Kafka does not answer"):
        TopicsFeed(NOBODY, lambda _: True, {}, Outbox).streams()
