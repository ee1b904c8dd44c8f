"""An application that knows only the plain driver: at rest, views of its tables show its own final state."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from cassandra.cluster import Cluster, Session

from cvs.capture.folder import FolderFeed
from cvs.capture.node import NodeConnection
from cvs.capture.runner import Capture
from cvs.embedded.node import Node
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.pipeline import Pipeline
from cvs.stream.recipe import recipe_of
from cvs.stream.tables import Names, create
from tests.cluster.application import TABLES, TTL_MAX, Application

pytestmark = pytest.mark.cluster

ACTS = 900
VIEWS = """
CREATE MATERIALIZED VIEW {space}.by_room AS
  SELECT room, COUNT(*) AS readings, SUM(value) AS total, MIN(value) AS low FROM {space}.readings GROUP BY room;
CREATE MATERIALIZED VIEW {space}.by_owner AS
  SELECT owner, COUNT(*) AS readings FROM {space}.readings WHERE owner IS NOT NULL GROUP BY owner;
CREATE MATERIALIZED VIEW {space}.noted AS
  SELECT room, at, note, tags, limits, steps, mark, marks FROM {space}.readings WHERE note IS NOT NULL;
CREATE MATERIALIZED VIEW {space}.responsible AS
  SELECT a.id, r.room, r.at, a.balance, a.status, r.value
  FROM {space}.accounts a JOIN {space}.readings r ON a.owner = r.owner;
"""


@contextmanager
def followed(node: Node, space: str, folder: Path) -> Iterator[Pipeline]:
    """Capture and pipeline beside the application, each in a thread, until the block ends."""
    feed = FolderFeed(folder / "feed")
    connection = NodeConnection(node.address, node.native_port)
    capture = Capture(connection, feed, delete=False, wanted=lambda it: it.keyspace == space)
    session = CassandraSession(ClusterAddress(contact_points=(node.address,), port=node.native_port))
    names = Names(keyspace=f"{space}_cvs")
    recipe, _ = recipe_of(session, VIEWS.format(space=space), names=names, keyspaces=(space,))
    create(session, recipe.plan, names)
    pipeline = Pipeline(recipe=recipe, feed=FolderFeed(folder / "feed"), session=session)
    stop = threading.Event()
    failed: list[BaseException] = []

    def drive() -> None:
        try:
            while not stop.is_set():
                if pipeline.step() is None:
                    time.sleep(0.01)
        except BaseException as failure:  # noqa: BLE001 -- because the test's thread must hear of it
            failed.append(failure)

    threads = [threading.Thread(target=capture.run, args=(stop,)), threading.Thread(target=drive)]
    for thread in threads:
        thread.start()
    try:
        yield pipeline
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        capture.close()
        feed.close()
        session.close()
    assert not failed, failed


def wait_shown(pipeline: Pipeline, *, seconds: float = 60.0) -> None:
    now, end = time.time() * 1e6, time.monotonic() + seconds
    while pipeline.control is None or pipeline.control.committed_watermark <= now:
        assert time.monotonic() < end, "the views never caught up"
        time.sleep(0.05)


def compare(application: Application, session: Session, space: str) -> None:
    shown = {
        row.room: (row.readings, row.total, row.low)
        for row in session.execute(f"SELECT * FROM {space}.by_room")
    }
    assert shown == application.by_room()
    owners = {row.owner: row.readings for row in session.execute(f"SELECT * FROM {space}.by_owner")}
    assert owners == application.by_owner()
    noted = {
        (row.room, row.at): (row.note, row.tags, row.limits, row.steps, row.mark, row.marks)
        for row in session.execute(f"SELECT * FROM {space}.noted")
    }
    assert noted == application.noted()
    responsible = {
        (row.id, row.room, row.at): (row.balance, row.status, row.value)
        for row in session.execute(f"SELECT * FROM {space}.responsible")
    }
    assert responsible == application.responsible()


def test_views_show_the_final_state_of_an_application(cassandra_node: Node, tmp_path: Path) -> None:
    """Partial updates, deletes of every width, TTLs, batches, LWTs, JSON, collections, statics."""
    space = f"app_{uuid4().hex[:8]}"
    with Cluster([cassandra_node.address], port=cassandra_node.native_port) as cluster:
        session = cluster.connect()
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        session.execute(f"CREATE KEYSPACE {space} WITH replication = {replication}")
        for table in TABLES:
            session.execute(table.format(space=space))
        application = Application(session, space, seed=11)
        with followed(cassandra_node, space, tmp_path) as pipeline:
            for _ in range(ACTS):
                application.act()
            time.sleep(TTL_MAX + 1)  # because then nothing is about to expire
            wait_shown(pipeline)
            compare(application, session, space)
            application.delete_partition()
            wait_shown(pipeline)
            compare(application, session, space)
        assert len(application.done) == len(application.kinds)
        assert application.readings()
        assert application.noted()
        assert application.responsible()
