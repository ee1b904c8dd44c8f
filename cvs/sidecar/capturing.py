"""The capture inside a sidecar: a thread that follows the node beside it while the sidecar leads.

A capture that cannot go on ends the sidecar, with the reason: views that silently stand still would be worse.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvs.capture.node import NodeConnection
from cvs.capture.opening import open_feed
from cvs.capture.runner import Capture, Status
from cvs.errors import CvsError, MissingEnvironmentError
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import cluster_address

WAIT_SECONDS = 0.5
STILL_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class Capturing:
    """One node's capture, and what it has to say."""

    settings: Settings
    ended: threading.Event
    log: Any
    leads: Callable[[], bool]
    failure: Exception | None = None
    _status: Status | None = None
    _thread: threading.Thread | None = None
    _pause: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls, settings: Settings, *, ended: threading.Event, log: Any, leads: Callable[[], bool]
    ) -> "Capturing | None":
        """Return the capture that the settings ask for; a folder that is not there is refused at once."""
        folder = settings.capture.cdc_raw
        if not folder:
            return None
        if not Path(folder).is_dir():
            raise MissingEnvironmentError(
                "the node's cdc_raw folder is not here",
                where=folder,
                next_step="correct [capture] cdc_raw; the node's cassandra.yaml has it as cdc_raw_directory",
            )
        return cls(settings=settings, ended=ended, log=log, leads=leads)

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
        status = self._status
        if status is None:
            return ()
        still = time.time() - status.head.clock / 1e6
        found = [status.alarm] if status.alarm else []
        if still > STILL_SECONDS:
            found.append(f"capture of stream {status.stream} stands still since {still:.0f} s")
        return tuple(found)

    def _guarded(self) -> None:
        try:
            while not self.ended.is_set():
                if self.leads():
                    self._follow()
                self.ended.wait(WAIT_SECONDS)
        except Exception as fault:  # noqa: BLE001 -- because whatever ends the capture must end the sidecar
            self.failure = fault
            what = fault.what if isinstance(fault, CvsError) else f"{type(fault).__name__}: {fault}"
            self.log.error("capture ended", what=what)  # noqa: TRY400 -- because it is raised again at the end
            self.ended.set()

    def _follow(self) -> None:
        """Capture until the end, or until another leads."""
        cluster = self.settings.cluster
        connection = NodeConnection(
            cluster.contact_points[0], cluster.port, entry=cluster_address(self.settings)
        )
        feed = open_feed(self.settings.feed.name)
        capture = Capture(
            connection,
            feed,
            folder=Path(self.settings.capture.cdc_raw),
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
            self._status = None

    def _while_leading(self) -> None:
        while self.leads() and not self.ended.wait(WAIT_SECONDS):
            pass
        self._pause.set()

    def _note(self, status: Status) -> None:
        self._status = status
        if status.alarm:
            self.log.warning("capture", alarm=status.alarm)
