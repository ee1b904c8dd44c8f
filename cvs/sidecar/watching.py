"""Watches a pipeline's epochs and keeps the status board: lag, rows, rates, where the time went."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cvs.model.values import many
from cvs.programs.epoch import BROKEN, BUILDING, LIVE, PAUSED, PUBLISHING, Control, Pin
from cvs.programs.epoch_run import EpochResult
from cvs.sidecar.status import EpochStatus, StatusBoard, ViewState, ViewStatus
from cvs.store.outcomes import UNANSWERED
from cvs.stream.phases import reason, sources
from cvs.stream.pipeline import Pipeline
from cvs.stream.quarantine import quarantined

COUNTS = 5
"""How often rows are counted until nothing moved meanwhile."""
OUT_OF_ORDER = "{} shown out of the order of write times (late, or ahead of the clocks)"
SILENT = "the cluster does not say how far the pipeline is: what is shown is what was known"
STATES: Mapping[str, ViewState] = {
    BUILDING: "building",
    PUBLISHING: "building",
    LIVE: "live",
    BROKEN: "broken",
    PAUSED: "paused",
    "degraded": "degraded",
}


@dataclass(slots=True, kw_only=True)
class WatchedView:
    """What the board says of a view beside what its epochs say."""

    name: str
    level: str
    plan: str = ""
    count: Callable[[], int] = lambda: 0
    row_count: int = 0


@dataclass(slots=True, kw_only=True)
class BoardWatcher:
    """A watcher of epochs that writes the board after each commit."""

    board: StatusBoard
    views: list[WatchedView]
    clock: Callable[[], float] = time.time
    queued: Callable[[], int] = lambda: 0
    seconds: Callable[[], Mapping[str, float]] = dict
    problems: Callable[[], tuple[str, ...]] = tuple
    problem: Callable[[Pin, str], str] = lambda _pin, _view: ""
    quarantined: Callable[[str], int] = lambda _view: 0
    untimely: Callable[[str], int] = lambda _view: 0
    audited: Mapping[str, str] = field(default_factory=dict)  # view -> level
    paused: bool = False  # the whole pipeline
    _started: float = 0.0
    _runs: bool = False  # an epoch
    _steps: int = 0
    _before: dict[str, float] = field(default_factory=dict)
    _control: Control | None = None
    _seen: Control | None = None  # the last that was committed, by whichever process
    _grown: dict[str, int] = field(default_factory=dict)
    _whole: dict[str, int] = field(default_factory=dict)

    def stands_by(self, control: Control | None) -> None:
        """Show what another process commits; None: nothing was committed ever, or the cluster does not say."""
        silent = control is None and self._seen is not None
        control = self._seen = control or self._seen
        pin = control.pin if control else Pin(epoch=0)
        watermark = control.committed_watermark / 1e6 if control else 0.0
        lag_ms = max(0.0, self.clock() - watermark) * 1000 if watermark else 0.0
        views = tuple(self._view(view, pin, lag_ms) for view in self.views)
        self.board.change(
            views=views,
            watermark=watermark,
            committed_epoch=control.committed if control else 0,
            problems=(SILENT,) if silent else (),
        )

    def recount(self) -> None:
        """Count the rows of the views again, if it can be while no epoch moves any; else about right."""
        for view in self.views:
            for _ in range(COUNTS):
                steps, still = self._steps, not self._runs
                view.row_count = view.count()
                if still and steps == self._steps:
                    break

    def refresh(self) -> None:
        """Show the views again: what is asked of them changed, or which they are."""
        pin = self._control.pin if self._control else Pin(epoch=0)
        lags = {shown.name: shown.lag_ms for shown in self.board.status.views}
        self.board.change(views=tuple(self._view(view, pin, lags.get(view.name, 0.0)) for view in self.views))

    def leads(self) -> None:
        """Look at the board while nothing is committed: its lag grows, and what is in the way is on it."""
        self.board.stands_still(self.clock(), problems=self.problems(), queued_change_count=self.queued())

    def running(self, control: Control) -> None:
        """Note when the epoch began and what it is made of."""
        self._runs, self._steps = True, self._steps + 1
        self._started = self.clock()
        self._before = dict(self.seconds())
        self._control = control

    def ran(self, control: Control, result: EpochResult) -> None:
        """Count the rows that came and went; they count once the epoch is committed, however often it ran."""
        self._whole = dict(result.rows)
        self._grown = {
            name: sum((shown.now is not None) - (shown.before is not None) for shown in moved)
            for name, moved in result.shown.items()
        }

    def committed(self, control: Control) -> None:
        """Put the epoch and the views, as it left them, on the board."""
        self._runs, self._seen = False, control
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
            view.row_count = self._whole.pop(view.name, view.row_count + self._grown.pop(view.name, 0))
        following = control.pin  # because what the epoch found broken is in the next pin
        views = tuple(self._view(view, following, lag_ms) for view in self.views)
        self.board.committed(epoch, views, queued_change_count=self.queued())
        self.board.change(watermark=pin.watermark / 1e6, problems=self.problems())

    def _view(self, view: WatchedView, pin: Pin, lag_ms: float) -> ViewStatus:
        state: ViewState = STATES[pin.views.get(view.name, BUILDING if pin.views else LIVE)]
        if self.paused and state == "live":
            state = "paused"
        count = self.quarantined(view.name)
        if count and state == "live":
            state = "degraded"
        untimely = self.untimely(view.name)
        problem = self.problem(pin, view.name) if state == "broken" else ""
        return ViewStatus(
            name=view.name,
            state=state,
            declared_level=view.level,
            audited_level=self.audited.get(view.name, ""),
            lag_ms=lag_ms,
            row_count=view.row_count,
            plan=view.plan,
            problem=problem
            or (OUT_OF_ORDER.format(many(untimely, "base row was", "base rows were")) if untimely else ""),
            quarantined_count=count,
            untimely_count=untimely,
        )


@dataclass(slots=True, kw_only=True)
class PipelineWatcher:
    """Tells the board of one incarnation: of its epochs while readers see it, of its build while that goes on."""

    board: BoardWatcher
    pipeline: Pipeline
    _excluded: Counter[str] | None = None  # rows in quarantine, by source
    _untimely: Counter[str] | None = None  # rows without a claim to the write-time line, by base table
    _read: dict[str, set[str]] = field(default_factory=dict)  # what each view reads

    def running(self, control: Control) -> None:
        """Pass it on if readers see what is run."""
        if self.pipeline.serves:
            self.board.quarantined, self.board.untimely = self._count, self._out_of_order
            self.board.board.change(timeline=self.pipeline.timeline)
            self.board.queued, self.board.seconds = self.pipeline.waiting, lambda: self.pipeline.seconds
            self.board.problem = lambda pin, view: reason(pin, self.pipeline.recipe.plan, view)
            self.board.running(control)

    def ran(self, control: Control, result: EpochResult) -> None:
        """Pass it on if readers see what was run."""
        if result.quarantined:
            self._excluded = None  # because it is counted again
        if result.untimely:
            self._untimely = None
        if self.pipeline.serves:
            self.board.ran(control, result)

    def committed(self, control: Control) -> None:
        """Say how far a build is; pass it on if readers see it."""
        build = self.pipeline.build
        if build is not None and (control.pin.building or control.pin.publishing):
            progress = build.progress()
            self.board.board.change(building=str(progress), build_part=progress.part)
        elif self.pipeline.serves:
            self.board.board.change(building="", build_part=0.0)
        else:  # because what broke before it was shown will never be
            reasons = "; ".join(f"{table}: {why}" for table, why in control.pin.stopped.items())
            self.board.board.change(building=f"given up: {reasons}")
        if self.pipeline.serves:
            self.board.committed(control)

    def _count(self, view: str) -> int:
        """Count what is in quarantine of a view and of the base tables it reads."""
        recipe = self.pipeline.recipe
        if self._excluded is None:
            try:
                found = quarantined(self.pipeline.session, recipe.names.keyspace, recipe.names.incarnation)
            except UNANSWERED:
                return 0  # it is asked again at the next epoch
            self._excluded = Counter(entry.source for entry in found)
        return sum(self._excluded[source] for source in (view, *self._sources(view)))

    def _out_of_order(self, view: str) -> int:
        """Count the base rows of a view that have no claim to the write-time line any more."""
        if self.pipeline.bound is None:
            return 0
        if self._untimely is None:
            self._untimely = self.pipeline.without_claim()
        return sum(self._untimely[source] for source in self._sources(view))

    def _sources(self, view: str) -> set[str]:
        if not self._read:  # once: at each epoch it took 0.4 s for a thousand views
            plan = self.pipeline.recipe.plan
            for it in plan.publications:
                self._read.setdefault(it.view, set()).update(sources(plan, it.inputs))
        return self._read.get(view, set())  # none of a view that the older incarnation does not have
