"""A feed is opened by its name."""

from pathlib import Path

import pytest

from cvs.capture.folder import FolderFeed
from cvs.capture.opening import open_feed
from cvs.errors import SpecificationError


def test_a_path_is_a_folder(tmp_path: Path) -> None:
    feed = open_feed(str(tmp_path))
    assert isinstance(feed, FolderFeed)
    assert feed.root == tmp_path


def test_kafka_needs_brokers_and_a_topic() -> None:
    with pytest.raises(SpecificationError, match="names no feed"):
        open_feed("kafka://broker:9092")


@pytest.mark.parametrize("scheme", ["outbox", "debezium"])
def test_topics_of_others_need_a_node_that_knows_the_tables(scheme: str) -> None:
    for query in ("", "?cql=a&cql=b", "?node=a"):
        with pytest.raises(SpecificationError, match="whom to ask"):
            open_feed(f"{scheme}+kafka://broker:9092/topic{query}")
