"""A feed by its name.

    PATH                                                    a folder
    kafka://HOST:PORT[,HOST:PORT]/TOPIC                     ours, in Kafka
    outbox+kafka://HOST:PORT/TOPIC?cql=HOST[:PORT]          an application's outbox (`outbox.py`)
    debezium+kafka://HOST:PORT/PREFIX?cql=HOST[:PORT]       topics of Debezium's Cassandra connector (`debezium.py`)

The last two hold what a build reads of tables that are full already in topics of ours, `TOPIC.cvs.*`.
They do not say what tables are like: any node of the cluster is asked, as CVS_CLUSTER_USERNAME with
CVS_CLUSTER_PASSWORD, with the TLS of CVS_CLUSTER_CA_FILE, if they are set.
"""

import os
from collections.abc import Mapping
from urllib.parse import parse_qs

from cvs.capture.changes import TableDefinition
from cvs.capture.debezium import Debezium
from cvs.capture.folder import FolderFeed
from cvs.capture.kafka import KafkaFeed
from cvs.capture.node import NodeConnection
from cvs.capture.outbox import Outbox
from cvs.capture.schema import SYSTEM_KEYSPACES, SchemaBook
from cvs.capture.topics import JoinedFeed, TopicsFeed
from cvs.errors import SpecificationError
from cvs.store.session import ClusterAddress

CQL_PORT = 9042

AnyFeed = FolderFeed | KafkaFeed | JoinedFeed


def filled_by_others(name: str) -> bool:
    """Say whether a feed's changes come from somebody else than `cvs capture`."""
    return name.startswith(("outbox+kafka://", "debezium+kafka://"))


def refuse_filled_by_others(name: str) -> None:
    """Refuse to capture into a feed that others fill: each change would be in it twice, and each DROP of long ago."""
    if filled_by_others(name):
        raise SpecificationError(
            "others fill this feed: no commit log is captured into it",
            where=name,
            next_step="leave [capture] cdc_raw out, and run no `cvs capture`",
        )


def open_feed(name: str) -> AnyFeed:
    """Open the feed that a name says."""
    scheme, separator, rest = name.partition("kafka://")
    if not separator or scheme not in ("", "outbox+", "debezium+"):
        return FolderFeed(name)
    place, _, query = rest.partition("?")
    bootstrap, _, topic = place.partition("/")
    if not bootstrap or not topic:
        raise SpecificationError(
            f"{name!r} names no feed", next_step="say kafka://host:port/topic, or the folder of a feed"
        )
    if not scheme:
        return KafkaFeed(bootstrap, topic)
    nodes = parse_qs(query).get("cql", [])
    if len(nodes) != 1:
        raise SpecificationError(
            f"{name!r} does not say whom to ask for the tables",
            next_step="end it with ?cql=host:port of a node",
        )
    definitions = _definitions(nodes[0])
    if scheme == "outbox+":
        others = TopicsFeed(bootstrap, lambda found: found == topic, definitions, Outbox)
    else:
        others = TopicsFeed(
            bootstrap, lambda found: found.removeprefix(f"{topic}.") in definitions, definitions, Debezium
        )
    return JoinedFeed(others, KafkaFeed(bootstrap, f"{topic}.cvs"))


def _definitions(node: str) -> Mapping[str, TableDefinition]:
    """Ask a node for all tables of users."""
    host, _, port = node.partition(":")
    names = ("username", "password", "ca_file", "certificate_file", "key_file")
    told = {name: os.environ.get(f"CVS_CLUSTER_{name.upper()}", "") for name in names}
    entry = ClusterAddress(contact_points=(host,), **told)  # type: ignore[arg-type]  # because all are texts
    connection = NodeConnection(host, int(port or CQL_PORT), entry=entry)
    book = SchemaBook()
    try:
        book.load(connection.schema())
    finally:
        connection.close()
    return {d.full_name: d for d in book.definitions.values() if d.keyspace not in SYSTEM_KEYSPACES}
