"""Two incarnations side by side: the one that serves goes on, the new one is built and takes its place."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cvs.errors import HistoryError
from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import OtherCodeError
from cvs.stream.pipeline import Pipeline

FINISHING_EPOCHS_MAX = 3
"""The one at hand, and what it finds that must be pinned: a base table that nothing can follow any more."""


@dataclass(slots=True, kw_only=True)
class Succession:
    """The newest incarnation and, until it serves, the one before."""

    newest: Pipeline
    older: Pipeline | None
    say: Callable[[str], None]
    serving: Callable[[], None] = lambda: None  # told once, when the newest serves and shows everything
    leads: Callable[[], bool] = lambda: True
    _told: bool = False
    _scan: threading.Thread | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Read the control rows: another process may have led meanwhile."""
        self.newest.start()
        if self.older is not None:
            self.older.control = None

    def step(self) -> Any:
        """Let each run one epoch if it has one; None: neither had."""
        before = self._step_older()
        result = step(self.newest, self.say)
        self._begin_scan()
        if not self.newest.serves and self.newest.take_over():
            self.older = None
            self.say(f"incarnation {self.newest.recipe.names.incarnation} serves")
        self._tell()
        return result if before is None else before

    def _step_older(self) -> Any:
        if self.older is None or self.newest.overtaking:
            return None
        try:
            return step(self.older, self.say)
        except (
            StaleDriverError,
            OtherCodeError,
            HistoryError,
        ) as fault:  # what cannot go on must not keep the new one from its place
            self.say(f"no longer followed: {fault}")
            self.older = None
            return None

    def finish(self) -> None:
        """Run what is pinned and pin no more: who goes on from here may be of another version (H4)."""
        for pipeline in (self.older, self.newest):
            if pipeline is None:
                continue
            pipeline.ending = True
            for _attempt in range(FINISHING_EPOCHS_MAX):
                if pipeline.control is not None and pipeline.control.pinned:
                    step(pipeline, self.say)

    def close(self) -> None:
        """End the scan's thread."""
        self._ended.set()
        if self._scan is not None:
            self._scan.join()
        if self.newest.build is not None:
            self.newest.build.close()

    def _begin_scan(self) -> None:
        build, control = self.newest.build, self.newest.control
        if self._scan is None and build is not None and control is not None and control.pin.building:
            arguments = (lambda: self.newest.scan_ahead() if self.leads() else None, self._ended)
            self._scan = threading.Thread(target=build.run, args=arguments, name="scan", daemon=True)
            self._scan.start()

    def _tell(self) -> None:
        control = self.newest.control
        if self._told or control is None or not self.newest.serves:
            return
        if control.pin.building or control.pin.publishing:
            return
        self._told, self.older = True, None
        names = self.newest.recipe.names
        for number in range(1, names.incarnation):
            self.newest.feed.release(replace(names, incarnation=number).consumer)
        self.serving()


def step(pipeline: Pipeline, say: Callable[[str], None]) -> Any:
    """Run one epoch; a driver that was overtaken says so and goes on from the control row."""
    try:
        return pipeline.step()
    except StaleDriverError as overtaken:
        say(f"overtaken: {overtaken}")
        pipeline.start()
        return None
