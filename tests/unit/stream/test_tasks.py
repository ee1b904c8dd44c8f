"""An epoch spread over tasks moves what an epoch in one process moves, whatever the slices."""

import gc
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest

from cvs.errors import StoreError
from cvs.programs.delta import StaleDriverError
from cvs.programs.epoch import PUBLISHING, Pin
from cvs.programs.epoch_run import EpochResult, run_epoch
from cvs.programs.epoch_whole import places, whole_step
from cvs.programs.stage_bucket import drive
from cvs.stream import spark, tasks
from cvs.stream.bases import delta_input
from cvs.stream.shop import VIEWS
from tests.campaigns.views import MORE
from tests.unit.stream.memory_shop import DEFINITIONS, MemoryShop


class Sent:
    """A request as the driver has it: in a cycle with its timer."""

    timer: "Sent"


def pins() -> list[Pin]:
    """Two epochs of writes; in the third only the clock moves, past what expires."""
    clocks = [0, 100, 200, 400]
    return [
        Pin(epoch=n, first=n == 1, clock_before=clocks[n - 1], clock=clocks[n]) for n in range(1, len(clocks))
    ]


def written(shop: MemoryShop, epoch: int) -> Any:
    shop.pending.clear()
    if epoch == 1:
        shop.open()
    for number in range(0 if epoch == 3 else 20):
        shop.write()
        row = {"customer": number % 8, "product": number % 4, "quantity": 7, "total": number}
        shop.put("orders", 100 + number, row, expires=250 + number)
    return delta_input(shop.pending, DEFINITIONS)[0]


def travelled(it: Any) -> Any:
    """Return what arrives of something sent to a task, or back."""
    return pickle.loads(pickle.dumps(it))


def moved(result: EpochResult) -> Any:
    return (
        {table: sorted(map(repr, moves)) for table, moves in result.bases.items()},
        {table: [(it.key, it.before, it.now) for it in shown] for table, shown in result.shown.items()},
    )


@pytest.mark.parametrize("slices", [1, 2, 5])
def test_spread_epochs_equal_epochs_in_one_process(
    slices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rows that expire: each leaves its views once, whichever slice holds it."""
    views = (VIEWS + MORE).format(views="views")
    alone, spread = MemoryShop(views, tmp_path), MemoryShop(views, tmp_path)
    monkeypatch.setattr(tasks, "made", lambda recipe: (spread.program, spread.door))
    jobs: list[int] = []

    def in_turn(function: Any, parts: Any) -> list[Any]:
        jobs.append(len(parts))
        return [travelled(function(travelled(part))) for part in parts]

    recipe: Any = None  # because `made` above does not ask
    for pin in pins():
        one = drive(run_epoch(alone.program, pin, written(alone, pin.epoch)), alone.door)
        changes = written(spread, pin.epoch)
        other = tasks.run_spread(recipe, pin, changes, door=spread.door, spread=in_turn, slices=slices)
        assert moved(one) == moved(other)
        assert one.bases["shop.orders"]
        assert one.shown["views.orders_by_customer"]
    assert spread.door.published == alone.door.published
    assert spread.door.rows == alone.door.rows
    assert len(jobs) == 12, "four jobs an epoch: stage 0, two levels of zones, the publications"
    assert max(jobs) == slices


def test_a_task_that_slept_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was stopped for longer than the deadline wakes as a zombie: its door is shut (H27)."""
    shop, moments = MemoryShop(VIEWS.format(views="views"), tmp_path), iter([0.0, 3600.0, 3601.0])
    recipe: Any = None
    monkeypatch.setattr(tasks, "made", lambda recipe: (shop.program, shop.door))
    monkeypatch.setattr(tasks, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    _, door = tasks._ready(recipe)
    door.check()
    with pytest.raises(StaleDriverError, match="too late"):
        door.check()


def test_no_cycles_are_looked_for_until_a_function_has_ended_however_it_ends() -> None:
    """Also if it fails: a process that never looked again would keep what its driver leaves in cycles."""
    assert tasks.uncollected(lambda _: gc.isenabled())(None) is False
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        tasks.uncollected(lambda number: 1 // number)(0)
    assert gc.isenabled()


def test_a_view_published_in_tasks_equals_one_published_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what the driver leaves in cycles of one bucket is gone before the next: of a large view it filled memory."""
    shop, view = MemoryShop(VIEWS.format(views="views"), tmp_path), "views.order_lines"
    shop.open()
    for _ in range(60):
        shop.write()
    shop.epoch()
    left, seen = WeakSet[Any](), list[int]()

    def door(requests: list[Any]) -> list[Any]:
        seen.append(len(left))
        sent = Sent()
        sent.timer = sent
        left.add(sent)
        return shop.door(requests)

    monkeypatch.setattr(tasks, "made", lambda recipe: (shop.program, door))
    recipe: Any = None
    pin = Pin(epoch=2, clock=1, clock_before=1, views={view: PUBLISHING})
    publication = next(it for it in shop.program.publications if it.publication.view == view)
    where = places(shop.program, publication)
    slices = [where[0::2], where[1::2]]
    spread = tasks.publish_spread(
        recipe, pin, view, slices, spread=lambda task, parts: [tasks.uncollected(task)(it) for it in parts]
    )
    alone = drive(whole_step(shop.program, publication, pin, where), shop.door)
    assert spread.count == alone.count > 0
    assert sorted(map(repr, spread.shown)) == sorted(map(repr, alone.shown))
    assert len(seen) > len(where)
    assert max(seen) == 1, "what was read of the same bucket"


class _Here:
    """Spark's context, as far as a spread needs it: what it maps it maps here."""

    def parallelize(self, slices: list[bytes], _count: int) -> "_Here":
        self.slices = slices
        return self

    def map(self, task: Any) -> "_Here":
        self.slices = [task(one) for one in self.slices]
        return self

    def collect(self) -> list[bytes]:
        return self.slices


def _no_answer(item: int) -> int:
    if item == 2:
        raise StoreError("the cluster does not answer", next_step="see that a quorum is up")
    return item


def test_what_a_task_refuses_is_refused_and_no_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would bury it in a stack of Java's, and `cvs run` end with `a mistake of ours` when a node went away."""
    monkeypatch.setattr(spark, "settle", lambda: None)
    spread = spark.spread_over(SimpleNamespace(sparkContext=_Here()))  # type: ignore[arg-type]  # stands in
    assert spread(_no_answer, [1, 3]) == [1, 3]
    with pytest.raises(StoreError, match="does not answer") as refusal:
        spread(_no_answer, [1, 2, 3])
    assert refusal.value.next_step == "see that a quorum is up"
