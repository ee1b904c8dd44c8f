"""The sidecar's life: settings and catalog in, one pipeline with its status server, until SIGTERM.

Where `[capture] cdc_raw` is set, this process captures the node beside it too; on clusters of several nodes each
node has its own `cvs capture`.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from cvs.capture.folder import FolderFeed
from cvs.capture.node import NodeConnection
from cvs.capture.runner import Capture
from cvs.errors import SpecificationError
from cvs.plan.sql import DeclaredView, base_names
from cvs.sidecar.http import StatusServer
from cvs.sidecar.settings import Settings
from cvs.sidecar.status import StatusBoard
from cvs.sidecar.views import Views, cluster_address
from cvs.sidecar.watching import BoardWatcher, WatchedView
from cvs.store.session import CassandraSession
from cvs.stream.pipeline import Pipeline
from cvs.stream.runner import RunSettings, run

Say = Callable[[str], None]


def serve(settings: Settings, *, say: Say) -> None:
    """Keep the applied views until the process is told to end."""
    session = CassandraSession(cluster_address(settings))
    views = Views(session=session, settings=settings)
    declared = views.declared()
    if not declared:
        raise SpecificationError("no view is applied yet", next_step="cvs apply views.sql")
    run_settings = _run_settings(settings, views, declared)
    board = StatusBoard(settings.views.state_keyspace, started_at=time.time())
    watched = _watched(views, declared)
    session.close()
    stop = threading.Event()
    capture = _start_capture(settings, stop)
    server = _start_server(settings, board, say)
    try:
        run(run_settings, say=say, watch=lambda pipeline: _watch(pipeline, board, watched))
    finally:
        stop.set()
        if server is not None:
            server.stop()
        if capture is not None:
            capture.join()


def _run_settings(settings: Settings, views: Views, declared: tuple[DeclaredView, ...]) -> RunSettings:
    names = {view.name for view in declared}
    bases = {base for view in declared for base in base_names(view.definition)} - names
    return RunSettings(
        address=cluster_address(settings),
        views_sql="\n".join(view.statement for view in views.kept().values()),
        base_keyspaces=tuple(sorted({base.split(".", 1)[0] for base in bases})),
        feed=Path(settings.feed.folder),
        state_keyspace=settings.views.state_keyspace,
        replication=settings.views.replication_factor,
        record=Path(settings.recording.folder) if settings.recording.enabled else None,
        spark_master=settings.spark.master,
    )


def _watched(views: Views, declared: tuple[DeclaredView, ...]) -> list[WatchedView]:
    kept = views.kept()
    return [
        WatchedView(
            name=view.name,
            level=view.options.level,
            plan=view.sql,
            row_count=len(views.rows(view)),
            paused=kept[view.name].paused,
        )
        for view in declared
    ]


def _watch(pipeline: Pipeline, board: StatusBoard, watched: list[WatchedView]) -> None:
    def queued() -> int:
        feed, control = pipeline.feed, pipeline.control
        taken = control.pin.until if control else {}
        return sum(feed.head(stream).position - taken.get(stream, 0) for stream in feed.streams())

    watcher = BoardWatcher(board=board, views=watched, queued=queued, seconds=lambda: pipeline.seconds)
    pipeline.watchers.append(watcher)


def _start_server(settings: Settings, board: StatusBoard, say: Say) -> StatusServer | None:
    if settings.http.port == 0:
        return None
    server = StatusServer(board, host=settings.http.host, port=settings.http.port)
    say(f"status page: http://{settings.http.host}:{server.port}/")
    return server


def _start_capture(settings: Settings, stop: threading.Event) -> threading.Thread | None:
    if not settings.capture.cdc_raw:
        return None
    cluster = settings.cluster
    connection = NodeConnection(
        cluster.contact_points[0],
        cluster.port,
        username=cluster.username,
        password=cluster.password.reveal if cluster.password else "",
    )
    capture = Capture(
        connection,
        FolderFeed(Path(settings.feed.folder)),
        folder=Path(settings.capture.cdc_raw),
        eager=settings.capture.mode == "eager",
    )

    def follow() -> None:
        try:
            capture.run(stop)
        finally:
            capture.close()

    thread = threading.Thread(target=follow, name="capture")
    thread.start()
    return thread
