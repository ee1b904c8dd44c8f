"""Snapshot readers that write down what they saw, so that the judge can decide the view as a whole.

A read says which epoch it shows; which base state that is, the epoch's commit says (`certificates.py`). The
judge holds both against the base writers' own log: neither the reader nor the pipeline is believed.
"""

import itertools
import time
from collections.abc import Callable, Sequence

from cvs.client.snapshot import ViewReader
from cvs.errors import StoreError
from cvs.history import events as ev
from cvs.manager.recorder import Recorder
from cvs.store.outcomes import UNANSWERED

PAUSE_SECONDS = 0.2
"""After a read that failed: a node or the pipeline is away."""


class SnapshotReader:
    """Scans views as of one epoch and records each scan; one that fails stays a call without a return."""

    def __init__(self, reader: ViewReader, recorder: Recorder, *, process: str = "reader") -> None:
        self._reader = reader
        self._recorder = recorder
        self._process = process
        self._numbers = itertools.count(1)

    def read(self, view: str) -> int | None:
        """Scan a view; return the epoch it was seen at, None if there was no answer."""
        number = next(self._numbers)
        called = ev.ViewReadCalled(
            process=self._process,
            time=time.time_ns(),
            operation=number,
            view=view,
            view_key=None,
            snapshot=True,
        )
        self._recorder.record(called)
        try:
            seen = self._reader.scan(view)
        except (StoreError, *UNANSWERED):
            return None
        returned = ev.ViewReadReturned(
            process=self._process,
            time=time.time_ns(),
            operation=number,
            rows=tuple((key, dict(row)) for key, row in seen.rows.items()),
            epoch=seen.epoch,
        )
        self._recorder.record(returned)
        return seen.epoch

    def run(self, views: Sequence[str], stopped: Callable[[], bool], *, pause: float) -> None:
        """Read the views in turn until stopped."""
        for view in itertools.cycle(views):
            if stopped():
                return
            time.sleep(pause if self.read(view) is not None else PAUSE_SECONDS)
