"""The sidecar's life: settings and catalog in, one pipeline with its status server, until SIGTERM.

Beside a cluster's only node this process captures too, while it leads; on clusters of several nodes each node has its
own `cvs capture`, unless `[capture] cdc_raw` says otherwise.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from cvs.capture.opening import filled_by_others, open_feed
from cvs.capture.signals import end_on_signals
from cvs.client.control import control_if_any
from cvs.errors import SpecificationError, StoreError
from cvs.plan.sql import DeclaredView, base_names
from cvs.programs.epoch import Control
from cvs.sidecar.apply import retire
from cvs.sidecar.capturing import Capturing, feed_problems, silent
from cvs.sidecar.http import StatusServer
from cvs.sidecar.leadership import Leadership
from cvs.sidecar.logs import Told
from cvs.sidecar.requests import Asked, Requests
from cvs.sidecar.settings import Settings
from cvs.sidecar.status import StatusBoard
from cvs.sidecar.views import Views, cluster_address
from cvs.sidecar.watching import BoardWatcher, PipelineWatcher, WatchedView
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import CassandraSession, nodes_in
from cvs.stream.pipeline import Pipeline
from cvs.stream.runner import Life, RunSettings, run

Alter = Callable[[RunSettings], RunSettings]
COUNTED_AGAIN_AFTER = (2, 10, 60)
"""Seconds: who takes the lead because a node is restarted counts, or drops, while that node refuses."""
NOT_APPLIED = "no view is applied yet, next: cvs apply views.sql"


def serve(settings: Settings, *, log: Any, alter: Alter = lambda it: it) -> None:
    """Keep the applied views until the process is told to end; `alter` is how a test makes it fall."""
    ended = end_on_signals()
    with ExitStack() as left:
        session = CassandraSession(cluster_address(settings))
        left.callback(session.close)
        views = Views(session=session, settings=settings)
        _ = session.driver  # so that a cluster that cannot be reached is said before anything else
        with closing(open_feed(settings.feed.name)) as feed:
            feed.streams()  # so that brokers that do not answer are said before Spark is started
        board = StatusBoard(settings.views.state_keyspace, started_at=time.time())
        server = _start_server(settings, board)
        if server is not None:
            left.callback(server.stop)
            log.info("status page", url=f"http://{settings.http.host}:{server.port}/")
        declared = wait_applied(views, board, ended=ended, log=log)
        if not declared:
            log.info("ended")
            return
        views.catalog.create()
        watcher = BoardWatcher(board=board, views=_watched(views, declared))
        watcher.stands_by(_committed(session, settings))
        leadership = Leadership(
            session=session,
            keyspace=settings.views.state_keyspace,
            process=f"{socket.gethostname()}:{os.getpid()}",
            changed=lambda leads: _role(leads, board, log, watcher=watcher),
            standing_by=lambda: watcher.stands_by(_committed(session, settings)),
            leading=partial(_look, watcher, Told(log)),
            failed=ended.set,
        )
        capturing = Capturing.of(settings, ended=ended, log=log, leads=leadership.leads)
        leadership.start()
        left.callback(leadership.stop)
        if capturing is not None:
            capturing.start()
            left.callback(capturing.stop)
        try:
            own = capturing.problems if capturing is not None else tuple
            while _keep(views, watcher, own, alter=alter, log=log, leads=leadership.leads, ended=ended):
                log.info("other views are wanted")
        finally:
            ended.set()
    for part in (leadership, capturing):
        if part is not None and part.failure is not None:
            raise part.failure
    log.info("ended")


def wait_applied(
    views: Views, board: StatusBoard, *, ended: threading.Event, log: Any, seconds: float = 2.0
) -> tuple[DeclaredView, ...]:
    """Return the views that are applied, once there are some; none: told to end before."""
    while not ended.is_set():
        if declared := views.declared():
            board.change(problems=())
            return declared
        if not board.status.problems:
            board.change(problems=(NOT_APPLIED,))
            log.info(NOT_APPLIED)
        ended.wait(seconds)
    return ()


def _keep(
    views: Views,
    watcher: BoardWatcher,
    own_problems: Callable[[], tuple[str, ...]],
    *,
    alter: Alter,
    log: Any,
    leads: Callable[[], bool],
    ended: threading.Event,
) -> bool:
    """Keep the views that are applied now; return whether others were applied meanwhile."""
    declared = views.declared()
    if not declared:
        raise SpecificationError(
            "the views were taken away while they were kept", next_step="cvs apply views.sql"
        )
    watcher.views = _watched(views, declared)
    count_rows(watcher, log)
    settings = alter(_run_settings(views, declared))
    bases = {base for it in declared for base in base_names(it.definition)} - {it.name for it in declared}

    def problems() -> tuple[str, ...]:
        return (*own_problems(), *uncaptured(views, bases))

    asked = Asked(
        catalog=views.catalog,
        requests=Requests(views.session, keyspace=views.settings.views.state_keyspace),
        paused=lambda paused: _paused(paused, watcher, log),
        audited=lambda levels: _audited(levels, watcher),
        incarnation=settings.incarnation,
    )

    retiring = threading.Thread(
        target=retire_beside, args=(views, settings.incarnation, ended, log), name="retire", daemon=True
    )
    try:
        return run(
            settings,
            say=log.info,
            watch=lambda pipeline: watch(pipeline, watcher, asked, problems),
            leads=leads,
            ended=ended,
            serving=retiring.start,
            changed=lambda: views.catalog.incarnation() != settings.incarnation,
        )
    finally:
        if retiring.ident is not None:
            retiring.join()  # because the next incarnation may make a table that is being dropped


def retire_beside(
    views: Views,
    incarnation: int,
    ended: threading.Event,
    log: Any,
    *,
    pauses: tuple[float, ...] = (*COUNTED_AGAIN_AFTER, 0),
) -> None:
    """Drop what older incarnations had beside the epochs: each drop takes seconds where nodes must agree about it."""

    def go_on() -> bool:
        return not ended.is_set() and views.catalog.incarnation() == incarnation

    for pause in pauses:
        try:
            for table in retire(views, incarnation, go_on=go_on):
                log.info("dropped what an older incarnation had", table=table)
        except (StoreError, *UNANSWERED) as fault:
            log.warning("what an older incarnation had stays", why=str(fault), again_after=pause)
            if ended.wait(pause):
                return
        else:
            return


def count_rows(watcher: BoardWatcher, log: Any) -> None:
    """Count beside everything else: a large view takes minutes, and the lead is renewed in seconds."""

    def count() -> None:
        for pause in (*COUNTED_AGAIN_AFTER, 0):
            try:
                watcher.recount()
            except Exception as fault:  # noqa: BLE001 -- because a number on the board is not worth a sidecar
                log.info("rows were not counted", why=type(fault).__name__, again_after=pause)
                time.sleep(pause)
            else:
                return

    threading.Thread(target=count, name="count", daemon=True).start()


def _committed(session: CassandraSession, settings: Settings) -> Control | None:
    return control_if_any(session, settings.views.state_keyspace)


def _look(watcher: BoardWatcher, told: Told) -> None:
    watcher.leads()
    told.look(watcher.board.status)


def _paused(paused: bool, watcher: BoardWatcher, log: Any) -> None:
    watcher.paused = paused
    watcher.refresh()
    log.info("paused" if paused else "goes on")


def _audited(levels: dict[str, str], watcher: BoardWatcher) -> None:
    if levels != watcher.audited:
        watcher.audited = levels
        watcher.refresh()


def _role(leads: bool, board: StatusBoard, log: Any, *, watcher: BoardWatcher) -> None:
    board.change(leader=leads)
    log.info("leads" if leads else "stands by")
    if leads:
        count_rows(watcher, log)  # because another may have led since they were counted


def _run_settings(views: Views, declared: tuple[DeclaredView, ...]) -> RunSettings:
    settings, incarnation = views.settings, max(1, views.catalog.incarnation())
    older = _serving_life(views, incarnation)
    return RunSettings(
        address=cluster_address(settings),
        views_sql="\n".join(view.statement for view in views.made().values()),
        incarnation=incarnation,
        older=older,
        build_rows_a_second=settings.views.build_rows_per_second,
        base_keyspaces=_base_keyspaces(views, declared, older),
        feed=settings.feed.name,
        state_keyspace=settings.views.state_keyspace,
        replication=settings.views.replication_factor,
        record=Path(settings.recording.folder) if settings.recording.enabled else None,
        record_bytes=settings.recording.keep_mb << 20,
        spark_master=settings.spark.master,
        changes_an_epoch=settings.pipeline.changes_an_epoch,
        skew_ms=settings.pipeline.skew_ms,
    )


def _serving_life(views: Views, wanted: int) -> Life | None:
    """Return the incarnation that serves while the wanted one is built; None: the wanted one itself, or none does."""
    control = _committed(views.session, views.settings)
    serving = control.signature.incarnation if control is not None else wanted
    lives = views.catalog.lives()
    if control is None or serving == wanted or serving not in lives or control.pin.building:
        return None
    return Life(incarnation=serving, views_sql=lives[serving].views)


def _base_keyspaces(views: Views, declared: tuple[DeclaredView, ...], older: Life | None) -> tuple[str, ...]:
    everything = list(declared)
    if older is not None:
        with suppress(
            SpecificationError
        ):  # a base table of the old views is gone: nobody follows them any more
            everything += views.parsed(older.views_sql)
    bases = {base for view in everything for base in base_names(view.definition)}
    return tuple(sorted({base.split(".", 1)[0] for base in bases - {view.name for view in everything}}))


def _watched(views: Views, declared: tuple[DeclaredView, ...]) -> list[WatchedView]:
    plans = views.plans(declared)
    return [
        WatchedView(
            name=view.name,
            level=view.options.level,
            plan=plans[view.name],
            count=partial(views.count, view),
        )
        for view in declared
    ]


def watch(
    pipeline: Pipeline, watcher: BoardWatcher, asked: Asked, own_problems: Callable[[], tuple[str, ...]]
) -> None:
    """Let the board show what readers see: what serves, how far another is built, what is in the way."""
    pipeline.wishes = asked
    # an older one looks at the feed until it gives way
    if pipeline.recipe.names.incarnation == asked.incarnation:
        watcher.problems = lambda: tuple(dict.fromkeys((*own_problems(), *_feed_problems(pipeline))))
    pipeline.watchers.append(PipelineWatcher(board=watcher, pipeline=pipeline))


def uncaptured(views: Views, bases: Iterable[str]) -> tuple[str, ...]:
    """Say which base tables are not captured any more: views would go on, live, without what is written to them."""
    if filled_by_others(views.settings.feed.name):
        return ()
    found = views.session.driver.cluster.metadata.keyspaces  # the nodes tell the driver of each change
    tables = {
        base: found[ks].tables.get(name) for base in bases for ks, name in [base.split(".", 1)] if ks in found
    }
    off = sorted(base for base, table in tables.items() if table is not None and not table.options.get("cdc"))
    if not off:
        return ()
    return (
        f"changes of {', '.join(off)} are not captured: cdc is off; cvs apply views.sql, then cvs repair VIEW",
    )


def _feed_problems(pipeline: Pipeline) -> tuple[str, ...]:
    """Say what was wrong when the feed was last looked at: in a long epoch that is a while ago."""
    session = pipeline.session
    if pipeline.seen is None:
        return silent(pipeline.feed)
    nodes = nodes_in(session.driver, session.address.local_datacenter)
    known = {str(node.host_id): node.address for node in nodes}
    # the build would ask the feed, and who renews the lead must not wait for that
    building = pipeline.control is not None and pipeline.control.pin.building
    found = feed_problems(pipeline.seen, building=building, nodes=known, now=pipeline.seen_at)
    return (*silent(pipeline.feed), *found)


def _start_server(settings: Settings, board: StatusBoard) -> StatusServer | None:
    if settings.http.port == 0:
        return None
    return StatusServer(board, host=settings.http.host, port=settings.http.port)
