"""The board says after each commit what the epoch did."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from cvs.model.signature import Signature
from cvs.model.stages import Edge, Plan, Publication
from cvs.programs.epoch import Control, Pin
from cvs.programs.epoch_run import EpochResult
from cvs.programs.stage_publish import Shown
from cvs.sidecar.status import StatusBoard
from cvs.sidecar.watching import BoardWatcher, PipelineWatcher, WatchedView


def control(epoch: int, committed: int) -> Control:
    pin = Pin(epoch=epoch, since={"n1": 5}, until={"n1": 12}, watermark=99_500_000, views={"v": "building"})
    return Control(signature=Signature(incarnation=1, version=committed), pin=pin)


def test_an_epoch_is_on_the_board_after_its_commit() -> None:
    """Changes, duration, lag from the watermark, rows that came and went, and the view's state."""
    times = iter([100.0, 100.25])
    board = StatusBoard("cvs", started_at=0.0)
    watcher = BoardWatcher(
        board=board,
        views=[WatchedView(name="v", level="strong", row_count=3)],
        clock=lambda: next(times),
        queued=lambda: 8,
    )
    moved = [
        Shown(key=(1,), before=None, now=(1, 2)),
        Shown(key=(2,), before=(2, 2), now=None),
        Shown(key=(3,), before=None, now=(3, 1)),
    ]
    watcher.running(control(7, 6))
    watcher.ran(control(7, 6), EpochResult(epoch=7, shown={"v": moved}))
    watcher.ran(control(7, 6), EpochResult(epoch=7, shown={"v": moved}))  # run again before its commit
    assert board.status.committed_epoch == 0
    watcher.committed(control(7, 7))
    status = board.status
    (epoch,) = status.epochs
    (view,) = status.views
    assert (status.committed_epoch, status.leader, status.queued_change_count) == (7, False, 8)
    assert (epoch.change_count, epoch.duration_ms, epoch.lag_ms) == (7, 250.0, 750.0)
    assert (view.state, view.row_count, view.lag_ms) == ("building", 4, 750.0)


def test_rows_shown_out_of_the_order_of_write_times_are_on_the_board() -> None:
    board = StatusBoard("cvs", started_at=0.0)
    watcher = BoardWatcher(
        board=board,
        views=[WatchedView(name="v", level="strong"), WatchedView(name="w", level="strong")],
        clock=lambda: 100.0,
        untimely={"v": 2, "w": 0}.__getitem__,
    )
    watcher.running(control(7, 6))
    watcher.committed(control(7, 7))
    one, other = board.status.views
    assert (one.untimely_count, other.untimely_count, other.problem) == (2, 0, "")
    assert one.problem.startswith("2 base rows were shown out of the order of write times")


def test_rows_are_counted_again_until_no_epoch_moves_any() -> None:
    """A count that an epoch ran into is not believed; one that stays disturbed ends all the same."""
    board = StatusBoard("cvs", started_at=0.0)
    counts = iter([5, 7, 7])
    watcher = BoardWatcher(board=board, views=[], clock=lambda: 100.0)

    def disturbed() -> int:
        found = next(counts)
        if found == 5:
            watcher.running(control(7, 6))
            watcher.committed(control(7, 7))
        return found

    watcher.views = [WatchedView(name="v", level="strong", count=disturbed)]
    watcher.recount()
    assert (watcher.views[0].row_count, next(counts)) == (7, 7)
    watcher.running(control(8, 7))
    endless = iter(range(100))
    watcher.views = [WatchedView(name="v", level="strong", count=lambda: next(endless))]
    watcher.recount()
    assert 0 < watcher.views[0].row_count < 10


def test_a_pipeline_that_stands_still_grows_old_on_the_board() -> None:
    """Nothing is committed any more, so nobody would say that the views lag, or why."""
    now = [100.0]
    board = StatusBoard("cvs", started_at=0.0)
    watcher = BoardWatcher(
        board=board,
        views=[WatchedView(name="v", level="strong")],
        clock=lambda: now[0],
        problems=lambda: ("capture is away",),
    )
    watcher.running(control(7, 6))
    watcher.committed(control(7, 7))
    watcher.queued = lambda: 10_000
    lag = board.status.views[0].lag_ms
    watcher.leads()
    assert board.status.views[0].lag_ms == lag == 500, "an idle second is no news"
    now[0] = 130.0
    watcher.leads()
    assert board.status.views[0].lag_ms == 30_500
    assert board.status.problems == ("capture is away",)
    assert board.status.queued_change_count == 10_000, "what came since waits, paused or not"


def test_other_views_than_before_may_be_shown_again() -> None:
    """A changed set of views forgets what was audited, while the board still shows the old ones."""
    board = StatusBoard("cvs", started_at=0.0)
    watcher = BoardWatcher(
        board=board, views=[WatchedView(name="v", level="strong")], audited={"v": "strong"}
    )
    watcher.refresh()
    assert [view.audited_level for view in board.status.views] == ["strong"]
    watcher.views = [WatchedView(name=name, level="strong") for name in ("v", "w")]
    watcher.audited = {}
    watcher.refresh()
    assert [(view.name, view.audited_level) for view in board.status.views] == [("v", ""), ("w", "")]


def test_rows_are_counted_for_the_views_that_read_them() -> None:
    """A view that an older incarnation does not have counts none while that serves."""
    board = BoardWatcher(board=StatusBoard("cvs", started_at=0.0), views=[])
    publications = tuple(
        Publication(
            view=view, table=view, inputs=(Edge(source=base, columns=()),), columns=(), partition_key=()
        )
        for view, base in (("s.one", "k.t"), ("s.other", "k.u"))
    )
    pipeline: Any = SimpleNamespace(
        recipe=SimpleNamespace(plan=Plan(bases=(), zones=(), publications=publications)),
        serves=True,
        timeline="write-time",
        bound=1,
        waiting=lambda: 0,
        seconds={},
        without_claim=lambda: Counter({"k.t": 2}),
    )
    PipelineWatcher(board=board, pipeline=pipeline).running(control(7, 6))
    assert [board.untimely(view) for view in ("s.one", "s.other", "s.new")] == [2, 0, 0]


def test_a_standby_keeps_what_it_knew_while_the_cluster_is_silent() -> None:
    """It showed epoch 0 and live views, as if nothing had ever been committed, and said nothing of why."""
    board = StatusBoard("cvs", started_at=0.0)
    watcher = BoardWatcher(board=board, views=[WatchedView(name="v", level="strong")], clock=lambda: 100.0)
    watcher.stands_by(None)
    assert (board.status.committed_epoch, board.status.problems) == (0, ())
    watcher.stands_by(control(7, 7))
    watcher.stands_by(None)
    status = board.status
    assert (status.committed_epoch, status.views[0].state) == (7, "building")
    assert status.problems[0].startswith("the cluster does not say")
    watcher.stands_by(control(8, 8))
    assert (board.status.committed_epoch, board.status.problems) == (8, ())


def test_who_led_keeps_what_it_knew_while_the_cluster_is_silent() -> None:
    """A lead ends where the cluster goes away: the status fell back to epoch 0, and views that are built."""
    board = StatusBoard("cvs", started_at=0.0)
    watcher = BoardWatcher(board=board, views=[WatchedView(name="v", level="strong")], clock=lambda: 100.0)
    pin = Pin(epoch=8, until={"n1": 12}, watermark=99_500_000, watermark_before=99_000_000)
    watcher.running(Control(signature=Signature(incarnation=1, version=7), pin=pin))
    watcher.committed(Control(signature=Signature(incarnation=1, version=8), pin=pin))
    watcher.stands_by(None)
    status = board.status
    assert (status.committed_epoch, status.views[0].state) == (8, "live")
    assert status.problems[0].startswith("the cluster does not say")
