"""The sidecar's life: settings and catalog in, one pipeline with its status server, until SIGTERM.

Where `[capture] cdc_raw` is set, this process captures the node beside it too, while it leads; on clusters of
several nodes each node has its own `cvs capture`.
"""

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cvs.client.control import read_control
from cvs.errors import SpecificationError, StoreError
from cvs.plan.sql import DeclaredView, base_names
from cvs.programs.epoch import Control
from cvs.sidecar.capturing import Capturing
from cvs.sidecar.http import StatusServer
from cvs.sidecar.leadership import Leadership
from cvs.sidecar.settings import Settings
from cvs.sidecar.status import StatusBoard
from cvs.sidecar.views import Views, cluster_address
from cvs.sidecar.watching import BoardWatcher, WatchedView
from cvs.store.session import CassandraSession
from cvs.stream.pipeline import Pipeline
from cvs.stream.runner import RunSettings, end_on_signals, run

Alter = Callable[[RunSettings], RunSettings]


def serve(settings: Settings, *, log: Any, alter: Alter = lambda it: it) -> None:
    """Keep the applied views until the process is told to end; `alter` is how a test makes it fall."""
    ended = end_on_signals()
    with ExitStack() as closing:
        session = CassandraSession(cluster_address(settings))
        closing.callback(session.close)
        views = Views(session=session, settings=settings)
        declared = views.declared()
        if not declared:
            raise SpecificationError("no view is applied yet", next_step="cvs apply views.sql")
        views.catalog.create()
        board = StatusBoard(settings.views.state_keyspace, started_at=time.time())
        watcher = BoardWatcher(board=board, views=_watched(views, declared))
        watcher.stands_by(_committed(session, settings))
        server = _start_server(settings, board)
        if server is not None:
            closing.callback(server.stop)
            log.info("status page", url=f"http://{settings.http.host}:{server.port}/")
        leadership = Leadership(
            session=session,
            keyspace=settings.views.state_keyspace,
            process=f"{socket.gethostname()}:{os.getpid()}",
            changed=lambda leads: _role(leads, board, log),
            standing_by=lambda: watcher.stands_by(_committed(session, settings)),
        )
        capturing = Capturing.of(settings, ended=ended, log=log, leads=leadership.leads)
        leadership.start()
        closing.callback(leadership.stop)
        if capturing is not None:
            watcher.problems = capturing.problems
            capturing.start()
            closing.callback(capturing.stop)
        try:
            run(
                alter(_run_settings(settings, views, declared)),
                say=log.info,
                watch=lambda pipeline: _watch(pipeline, watcher),
                leads=leadership.leads,
                ended=ended,
            )
        finally:
            ended.set()
    if capturing is not None and capturing.failure is not None:
        raise capturing.failure
    log.info("ended")


def _committed(session: CassandraSession, settings: Settings) -> Control | None:
    try:
        return read_control(session, settings.views.state_keyspace)
    except StoreError:
        return None


def _role(leads: bool, board: StatusBoard, log: Any) -> None:
    board.change(leader=leads)
    log.info("leads" if leads else "stands by")


def _run_settings(settings: Settings, views: Views, declared: tuple[DeclaredView, ...]) -> RunSettings:
    names = {view.name for view in declared}
    bases = {base for view in declared for base in base_names(view.definition)} - names
    return RunSettings(
        address=cluster_address(settings),
        views_sql="\n".join(view.statement for view in views.kept().values()),
        base_keyspaces=tuple(sorted({base.split(".", 1)[0] for base in bases})),
        feed=settings.feed.name,
        state_keyspace=settings.views.state_keyspace,
        replication=settings.views.replication_factor,
        record=Path(settings.recording.folder) if settings.recording.enabled else None,
        spark_master=settings.spark.master,
        changes_an_epoch=settings.pipeline.changes_an_epoch,
    )


def _watched(views: Views, declared: tuple[DeclaredView, ...]) -> list[WatchedView]:
    kept, plans = views.kept(), views.plans(declared)
    return [
        WatchedView(
            name=view.name,
            level=view.options.level,
            plan=plans[view.name],
            row_count=len(views.rows(view)),
            paused=kept[view.name].paused,
        )
        for view in declared
    ]


def _watch(pipeline: Pipeline, watcher: BoardWatcher) -> None:
    def queued() -> int:
        feed, control = pipeline.feed, pipeline.control
        taken = control.pin.until if control else {}
        return sum(feed.head(stream).position - taken.get(stream, 0) for stream in feed.streams())

    watcher.queued = queued
    watcher.seconds = lambda: pipeline.seconds
    pipeline.watchers.append(watcher)


def _start_server(settings: Settings, board: StatusBoard) -> StatusServer | None:
    if settings.http.port == 0:
        return None
    return StatusServer(board, host=settings.http.host, port=settings.http.port)
