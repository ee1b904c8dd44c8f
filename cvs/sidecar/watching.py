"""Watches a pipeline's epochs and keeps the status board: lag, rows, rates, where the time went."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cvs.programs.epoch import Control
from cvs.programs.epoch_run import EpochResult
from cvs.sidecar.status import EpochStatus, StatusBoard, ViewState, ViewStatus

BUILDING_STATES: Mapping[str, ViewState] = {"building": "building", "live": "live", "degraded": "degraded"}


@dataclass(slots=True, kw_only=True)
class WatchedView:
    """What the board says of a view beside what its epochs say."""

    name: str
    level: str
    plan: str = ""
    row_count: int = 0
    paused: bool = False


@dataclass(slots=True, kw_only=True)
class BoardWatcher:
    """A watcher of epochs that writes the board after each commit."""

    board: StatusBoard
    views: list[WatchedView]
    clock: Callable[[], float] = time.time
    queued: Callable[[], int] = lambda: 0
    seconds: Callable[[], Mapping[str, float]] = dict
    problems: Callable[[], tuple[str, ...]] = tuple
    _started: float = 0.0
    _before: dict[str, float] = field(default_factory=dict)
    _control: Control | None = None
    _grown: dict[str, int] = field(default_factory=dict)

    def stands_by(self, control: Control | None) -> None:
        """Show what another process commits; None: nothing was committed ever."""
        states = control.pin.views if control else {}
        watermark = control.committed_watermark / 1e6 if control else 0.0
        lag_ms = max(0.0, self.clock() - watermark) * 1000 if watermark else 0.0
        views = tuple(self._view(view, states, lag_ms) for view in self.views)
        self.board.change(
            views=views, watermark=watermark, committed_epoch=control.committed if control else 0
        )

    def running(self, control: Control) -> None:
        """Note when the epoch began and what it is made of."""
        self._started = self.clock()
        self._before = dict(self.seconds())
        self._control = control

    def ran(self, control: Control, result: EpochResult) -> None:
        """Count the rows that came and went; they count once the epoch is committed, however often it ran."""
        self._grown = {
            name: sum((shown.now is not None) - (shown.before is not None) for shown in moved)
            for name, moved in result.shown.items()
        }

    def committed(self, control: Control) -> None:
        """Put the epoch and the views, as it left them, on the board."""
        pin = (self._control or control).pin
        now = self.clock()
        lag_ms = max(0.0, (now - pin.watermark / 1e6) * 1000) if pin.watermark else 0.0
        spent = self.seconds()
        phases = tuple((name, (spent[name] - self._before.get(name, 0.0)) * 1000) for name in spent)
        epoch = EpochStatus(
            epoch=control.committed,
            committed_at=now,
            change_count=sum(until - pin.since.get(stream, 0) for stream, until in pin.until.items()),
            duration_ms=(now - self._started) * 1000,
            lag_ms=lag_ms,
            phases_ms=phases,
        )
        for view in self.views:
            view.row_count += self._grown.pop(view.name, 0)
        views = tuple(self._view(view, pin.views, lag_ms) for view in self.views)
        self.board.committed(epoch, views, queued_change_count=self.queued())
        self.board.change(watermark=pin.watermark / 1e6, problems=self.problems())

    def _view(self, view: WatchedView, states: Mapping[str, str], lag_ms: float) -> ViewStatus:
        state: ViewState = "paused" if view.paused else BUILDING_STATES[states.get(view.name, "live")]
        return ViewStatus(
            name=view.name,
            state=state,
            declared_level=view.level,
            lag_ms=lag_ms,
            row_count=view.row_count,
            plan=view.plan,
        )
