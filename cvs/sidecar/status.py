"""Status: what the sidecar knows about itself, as one value that page, metrics, health and `cvs status` read.

The pipeline writes it after each epoch; readers get a whole, never a half-updated one.
"""

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Literal

ViewState = Literal["building", "live", "paused", "degraded", "broken"]
STILL_SECONDS = 5.0  # without a commit: even an idle pipeline moves its clock each second
RECENT_EPOCHS_MAX = 600  # ten minutes at one epoch a second: what the page draws


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStatus:
    """One view as an operator sees it."""

    name: str
    state: ViewState
    declared_level: str
    audited_level: str = ""  # empty: never audited
    lag_ms: float = 0.0
    row_count: int = 0
    quarantined_count: int = 0
    untimely_count: int = 0  # base rows that were shown out of the order of write times
    plan: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStatus:
    """One committed epoch: how much it carried and where its time went."""

    epoch: int
    committed_at: float
    change_count: int
    duration_ms: float
    lag_ms: float
    phases_ms: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The whole."""

    pipeline: str
    leader: bool = False
    started_at: float = 0.0
    committed_epoch: int = 0
    watermark: float = 0.0
    queued_change_count: int = 0
    timeline: str = ""  # the base time-line that levels refer to
    building: str = ""  # how far a build is; empty: none goes on
    build_part: float = 0.0  # of the base tables that is read
    views: tuple[ViewStatus, ...] = ()
    epochs: tuple[EpochStatus, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Say whether reads of every view are served at its declared level."""
        return bool(self.views) and all(view.state in ("live", "paused") for view in self.views)


class StatusBoard:
    """Holds the current status; one writer, many readers."""

    def __init__(self, pipeline: str, *, started_at: float) -> None:
        self._lock = threading.Lock()
        self._status = Status(pipeline=pipeline, started_at=started_at)
        self._epochs: deque[EpochStatus] = deque(maxlen=RECENT_EPOCHS_MAX)

    @property
    def status(self) -> Status:
        """Return the latest whole status."""
        with self._lock:
            return replace(self._status, epochs=tuple(self._epochs))

    def committed(
        self, epoch: EpochStatus, views: tuple[ViewStatus, ...], *, queued_change_count: int
    ) -> None:
        """Note a committed epoch and the views as it left them."""
        with self._lock:
            self._epochs.append(epoch)
            self._status = replace(
                self._status,
                committed_epoch=epoch.epoch,
                views=views,
                queued_change_count=queued_change_count,
            )

    def stands_still(self, now: float, *, problems: tuple[str, ...], queued_change_count: int) -> None:
        """Let time pass without a commit: what is shown grows old, what waits grows, and why is said."""
        with self._lock:
            shown = self._status
            if self._epochs and now - self._epochs[-1].committed_at < STILL_SECONDS:
                return
            lag_ms = max(0.0, now - shown.watermark) * 1000 if shown.watermark else 0.0
            views = tuple(replace(view, lag_ms=lag_ms) for view in shown.views)
            self._status = replace(
                shown, views=views, problems=problems, queued_change_count=queued_change_count
            )

    def change(self, **fields: object) -> None:
        """Replace single fields (leader, problems, watermark)."""
        with self._lock:
            self._status = replace(self._status, **fields)  # type: ignore[arg-type]  # because names are checked by replace
