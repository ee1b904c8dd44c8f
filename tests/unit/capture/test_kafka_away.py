"""Brokers that do not answer are the environment's fault, and are named; no broker is needed for that."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cvs.capture import kafka_reader
from cvs.capture.kafka import KafkaFeed
from cvs.capture.kafka_reader import Brokers, TopicReader
from cvs.capture.outbox import Outbox
from cvs.capture.topics import TopicsFeed
from cvs.errors import HistoryError, StoreError

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_reader, "SOON_SECONDS", 0.3)


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


def test_others_see_since_when_an_answer_is_waited_for() -> None:
    """The status page is drawn by another thread than the one that waits."""
    brokers, asked, seen = Brokers(NOBODY), threading.Event(), threading.Event()

    def ask() -> None:
        with brokers.asked():
            asked.set()
            seen.wait(60)

    thread = threading.Thread(target=ask)
    thread.start()
    asked.wait(60)
    assert brokers.silence > 0
    seen.set()
    thread.join()
    assert brokers.silence == 0


def test_brokers_that_did_not_answer_are_not_waited_for_as_long_again() -> None:
    """A sidecar whose broker had died took 30 s to know it and 40 more to end."""
    brokers = Brokers(NOBODY)
    brokers.answered = True
    assert brokers.patience == kafka_reader.WAIT_SECONDS
    with pytest.raises(StoreError), brokers.asked():
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))
    assert brokers.patience == kafka_reader.SOON_SECONDS


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (KafkaError._DESTROY_BROKER, StoreError, "Kafka does not answer"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, HistoryError, "the feed has no topic t"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, HistoryError, "the feed has no topic t"),  # it is being made
    ],
)
def test_brokers_that_die_say_nothing_of_a_topic(code: int, error: type[Exception], said: str) -> None:
    """One that died while it was asked was said to lack the topic, as if the feed were damaged (exit code 4)."""

    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(code))

    reader = TopicReader(Brokers(NOBODY))
    consumer = SimpleNamespace(get_watermark_offsets=refuse)
    reader._consumers["t", 0] = (consumer, -1)
    with pytest.raises(error, match=said):
        reader.ends("t")
