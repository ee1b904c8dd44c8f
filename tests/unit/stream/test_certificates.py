"""Epoch logs and a writer's log become a history that the judge calls strong, and not when it is not."""

from pathlib import Path
from typing import Any

import pytest

from cvs.history import events as ev
from cvs.model.expressions import Column
from cvs.model.signature import Signature
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Named,
    Scan,
    ViewDefinition,
)
from cvs.programs.epoch import Control, Pin
from cvs.programs.epoch_run import BaseMove, EpochResult
from cvs.programs.stage_publish import Shown
from cvs.report.hand import judge_events
from cvs.stream.certificates import Assembler
from cvs.stream.epochs import epochs
from cvs.stream.recording import EpochLog, read_log

ORDERS = BaseTable(name="shop.orders", columns=(("id", "int"), ("city", "text")), partition_key=("id",))
BY_CITY = ViewDefinition(
    name="shop.by_city",
    relation=Aggregate(
        source=Scan(table="shop.orders", alias="o"),
        group=(Named(name="city", expression=Column("o.city")),),
        aggregates=(AggregateColumn(name="orders", function=AggregateFunction.COUNT),),
    ),
    key=("city",),
)


def control(epoch: int) -> Control:
    return Control(signature=Signature(incarnation=1, version=epoch), pin=Pin(epoch=epoch))


class Run:
    """A writer and a pipeline, moved by hand."""

    def __init__(self, folder: Path) -> None:
        self.now = 0
        self.written: list[Any] = []
        self.log = EpochLog(folder, clock=self.tick)
        self.folder = folder

    def tick(self) -> int:
        self.now += 10
        return self.now

    def write(self, key: int, version: int, city: str | None) -> None:
        row = None if city is None else {"id": key, "city": city}
        stamp = key * 100 + version
        called = ev.BaseUpdateCalled(
            process="w",
            time=self.tick(),
            operation=stamp,
            table="shop.orders",
            key=(key,),
            version=version,
            row=row,
        )
        returned = ev.BaseUpdateReturned(process="w", time=self.tick(), operation=stamp, outcome="applied")
        self.written += [called, returned]

    def epoch(
        self, number: int, bases: list[BaseMove], shown: dict[str, int | None], *, commit: bool = True
    ) -> None:
        result = EpochResult(
            epoch=number,
            bases={"shop.orders": bases},
            shown={
                "shop.by_city": [
                    Shown(key=(city,), before=None, now=None if n is None else (city, n))
                    for city, n in shown.items()
                ]
            },
        )
        self.log.running(control(number))
        self.log.ran(control(number), result)
        if commit:
            self.log.committed(control(number))

    def snapshot(self, epoch: int, shown: dict[str, int]) -> None:
        number = len(self.written)
        called = ev.ViewReadCalled(
            process="r",
            time=self.tick(),
            operation=number,
            view="shop.by_city",
            view_key=None,
            snapshot=True,
        )
        rows = tuple(((city,), {"city": city, "orders": n}) for city, n in shown.items())
        returned = ev.ViewReadReturned(
            process="r", time=self.tick(), operation=number, rows=rows, epoch=epoch
        )
        self.written += [called, returned]

    def judged(self) -> Any:
        assembler = Assembler([(BY_CITY, ("city", "orders"), ("city",))], {"shop.orders": ORDERS})
        events = assembler.history(self.written, epochs(sorted(self.folder.glob("*.log"))), run="by hand")
        return judge_events(events)


def test_a_right_run_is_strong(tmp_path: Path) -> None:
    """An epoch that is run twice before its commit stands in the history once."""
    run = Run(tmp_path)
    run.write(1, 1, "Graz")
    run.write(2, 1, "Graz")
    first = [BaseMove(101, None, (1, "Graz")), BaseMove(201, None, (2, "Graz"))]
    run.epoch(1, first, {"Graz": 2}, commit=False)
    run.epoch(1, first, {"Graz": 2})
    run.write(1, 2, "Linz")
    run.epoch(2, [BaseMove(102, (1, "Graz"), (1, "Linz"))], {"Graz": 1, "Linz": 1})
    judgement = run.judged()
    assert str(judgement.level("record")).startswith("strong")
    assert {f.verdict.name for f in judgement.of("certificates", "record")} == {"HOLDS"}


def test_a_count_that_is_wrong_is_found(tmp_path: Path) -> None:
    """What a replay without signatures shows: two for one."""
    run = Run(tmp_path)
    run.write(1, 1, "Graz")
    run.epoch(1, [BaseMove(101, None, (1, "Graz"))], {"Graz": 2})
    judgement = run.judged()
    assert str(judgement.level("record")).startswith("not converged")


def test_a_torn_last_record_is_left_out(tmp_path: Path) -> None:
    """A kill may leave part of a record; what is before it stands."""
    run = Run(tmp_path)
    run.epoch(1, [], {})
    (path,) = tmp_path.glob("*.log")
    whole = list(read_log(path))
    path.write_bytes(path.read_bytes()[:-1])
    assert list(read_log(path)) == whole[:-1]
    assert len(whole) == 3


@pytest.mark.parametrize("whole", [True, False])
def test_snapshots_decide_the_view_as_a_whole(tmp_path: Path, whole: bool) -> None:
    """A row moves between groups: a snapshot shows both or neither, a torn one is refuted.

    The first epoch's commit was not written down, because its driver died: the next epoch proves it.
    """
    run = Run(tmp_path)
    run.snapshot(0, {})
    run.write(1, 1, "Graz")
    run.epoch(1, [BaseMove(101, None, (1, "Graz"))], {"Graz": 1}, commit=False)
    run.snapshot(1, {"Graz": 1})
    run.write(1, 2, "Linz")
    run.epoch(2, [BaseMove(102, (1, "Graz"), (1, "Linz"))], {"Graz": None, "Linz": 1})
    run.snapshot(2, {"Linz": 1} if whole else {})
    judgement = run.judged()
    assert str(judgement.level("record")) == "complete"
    verdicts = {f.property: f.verdict.name for f in judgement.findings if f.granularity == "snapshots"}
    assert verdicts["strong"] == ("HOLDS" if whole else "VIOLATED")
    if whole:
        assert {f.tier for f in judgement.of("strong", "snapshots")} == {"lineage"}
