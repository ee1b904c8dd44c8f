"""The capture inside a sidecar: a thread that follows the node beside it while the sidecar leads.

A capture that cannot go on ends the sidecar, with the reason: views that silently stand still would be worse. So is
a feed into which nobody captures: `feed_problems` says it.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.capture.feed import Feed, Head, TakenError, of_node
from cvs.capture.node import NodeConnection
from cvs.capture.opening import filled_by_others, open_feed, refuse_filled_by_others
from cvs.capture.runner import Capture, Status
from cvs.errors import CvsError, MissingEnvironmentError, StoreError
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import cluster_address
from cvs.stream.build import ALWAYS, PREFIX

AUTO = "auto"
WAIT_SECONDS = 0.5
STILL_SECONDS = 60.0
SILENT_SECONDS = 3.0
SILENT = "the feed does not answer: see that what [feed] names runs and can be reached"
HOST_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(slots=True, kw_only=True)
class Capturing:
    """One node's capture, and what it has to say."""

    settings: Settings
    folder: Path
    ended: threading.Event
    log: Any
    leads: Callable[[], bool]
    failure: Exception | None = None
    _status: Status | None = None
    _feed: Feed | None = None
    _thread: threading.Thread | None = None
    _pause: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls, settings: Settings, *, ended: threading.Event, log: Any, leads: Callable[[], bool]
    ) -> "Capturing | None":
        """Return the capture that the settings ask for; a folder that is not there is refused at once."""
        folder = settings.capture.cdc_raw
        if folder == AUTO:
            beside = folder_beside(settings)
            said = {"folder": str(beside)} if beside else {"next": "cvs capture beside each node"}
            log.info("captures" if beside else "captures no node itself", **said)
            return (
                None
                if beside is None
                else cls(settings=settings, folder=beside, ended=ended, log=log, leads=leads)
            )
        if not folder:
            return None
        refuse_filled_by_others(settings.feed.name)
        if not Path(folder).is_dir():
            raise MissingEnvironmentError(
                "the node's cdc_raw folder is not here",
                where=folder,
                next_step="correct [capture] cdc_raw; the node's cassandra.yaml has it as cdc_raw_directory",
            )
        return cls(settings=settings, folder=Path(folder), ended=ended, log=log, leads=leads)

    def start(self) -> None:
        """Follow the node in a thread."""
        self._thread = threading.Thread(target=self._guarded, name="capture")
        self._thread.start()

    def stop(self) -> None:
        """Wait for the thread; `ended` is set by then."""
        self._pause.set()
        if self._thread is not None:
            self._thread.join()

    def problems(self) -> tuple[str, ...]:
        """Say what needs a person."""
        status, feed = self._status, self._feed
        alarm = (status.alarm,) if status is not None and status.alarm else ()
        return (*alarm, *(silent(feed) if feed is not None else ()))

    def _guarded(self) -> None:
        try:
            while not self.ended.is_set():
                if self.leads():
                    self._follow()
                self.ended.wait(WAIT_SECONDS)
        except TakenError as taken:
            if self.settings.capture.cdc_raw != AUTO:
                self._give_up(taken)
            self.log.info("a `cvs capture` follows the node already", where=taken.where)
        except Exception as fault:  # noqa: BLE001 -- because whatever ends the capture must end the sidecar
            self._give_up(fault)

    def _give_up(self, fault: Exception) -> None:
        if isinstance(fault, OSError):
            fault = MissingEnvironmentError.of_system(
                fault,
                where=f"feed {self.settings.feed.name}",
                next_step="mend it and start again: capture goes on where the feed ends, while cdc_raw lasts",
            )
        self.failure = fault
        what = fault.what if isinstance(fault, CvsError) else f"{type(fault).__name__}: {fault}"
        self.log.error("capture ended", what=what)
        self.ended.set()

    def _follow(self) -> None:
        """Capture until the end, or until another leads."""
        connection = _connection(self.settings)
        self._feed = feed = open_feed(self.settings.feed.name)
        capture = Capture(
            connection,
            feed,
            folder=self.folder,
            eager=self.settings.capture.mode == "eager",
        )
        self._pause.clear()
        led = threading.Thread(target=self._while_leading, name="capture-lead", daemon=True)
        led.start()
        try:
            capture.run(self._pause, each=self._note)
        finally:
            capture.close()
            feed.close()
            self._status = self._feed = None

    def _while_leading(self) -> None:
        while self.leads() and not self.ended.wait(WAIT_SECONDS):
            pass
        self._pause.set()

    def _note(self, status: Status) -> None:
        self._status = status
        if status.alarm:
            self.log.warning("capture", alarm=status.alarm)


def folder_beside(settings: Settings) -> Path | None:
    """Return the cdc_raw folder of a cluster's only node, if we may read it here and the feed is ours to write."""
    if filled_by_others(settings.feed.name):
        return None
    connection = _connection(settings)
    try:
        alone, folder = not connection.peers(), connection.settings().cdc_raw
    except StoreError:  # we may not ask it: then capture has a role of its own
        return None
    finally:
        connection.close()
    return folder if alone and folder.is_dir() and os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def silent(feed: Feed) -> tuple[str, ...]:
    """Say that somebody waits for a feed's answer; nothing if nobody does, or not for long."""
    return (SILENT,) if feed.silence > SILENT_SECONDS else ()


def feed_problems(
    heads: Mapping[str, Head], *, building: bool, nodes: Mapping[str, str], now: float
) -> tuple[str, ...]:
    """Say which nodes nobody captures, as far as the streams of a feed show it; `nodes`: their addresses by host id."""
    streams = {name: head for name, head in heads.items() if not name.startswith(PREFIX)}
    if not streams:
        return ("nothing is captured: the feed has no stream; start `cvs capture` beside each node",)
    found = []
    if not any(map(of_node, streams)):
        silent = [name for name, head in streams.items() if not head.clock]
        if building and silent:
            found.append(
                f"a build waits for a message or heartbeat in each partition: {', '.join(silent)} had none yet"
            )
    else:
        found += _alone(
            nodes, {name for name, head in streams.items() if head.clock < ALWAYS}, building=building
        )
    for name, head in sorted(streams.items()):
        if head.clock and (still := now - head.clock / 1e6) > STILL_SECONDS:
            found.append(f"stream {name} stands still since {still:.0f} s: {_to_do(name, nodes)}")
    return tuple(found)


def _to_do(stream: str, nodes: Mapping[str, str]) -> str:
    """Say what lets a stream go on, or end: views wait for that of a node that left, for ever."""
    if not of_node(stream):
        return "are there heartbeats?"
    if _left(stream, nodes):
        end = "`cvs capture --last` on its cdc_raw ends its stream (disk lost: repair, then `cvs feed end`)"
        return f"no node of the datacentre has this host id; if it left for good, {end}"
    return f"does its `cvs capture` run{f' beside {nodes[stream]}' if stream in nodes else ''}?"


def _left(stream: str, nodes: Mapping[str, str]) -> bool:
    """Say whether a stream is that of a node that is here no more: its name is a host id, as nobody chooses one."""
    return bool(nodes) and stream not in nodes and HOST_ID.fullmatch(stream) is not None


def _alone(nodes: Mapping[str, str], streams: set[str], *, building: bool) -> Iterator[str]:
    """Say which nodes have no stream: what they alone take no view ever shows. Streams may have names of their own."""
    alone = sorted(nodes[it] for it in nodes.keys() - streams)
    named = {it for it in streams - nodes.keys() if not _left(it, nodes)}
    if len(alone) > len(named):
        waits = ", and a build waits for all" if building else ""
        where = "the others" if named else ", ".join(alone)
        captured = len(nodes) - len(alone) + len(named)
        yield f"{captured} of {len(nodes)} nodes are captured{waits}: `cvs capture` beside {where}"


def _connection(settings: Settings) -> NodeConnection:
    cluster = settings.cluster
    return NodeConnection(cluster.contact_points[0], cluster.port, entry=cluster_address(settings))
