"""What snapshot readers saw: each epoch names its cut, and every claim can be refused."""

from typing import Any

import pytest

from cvs.checker.classify import Judgement, judge
from cvs.checker.reference import absorbed_order
from cvs.checker.replay import replay
from cvs.checker.verdict import Verdict
from cvs.history.codec import event_of
from cvs.history.record import History
from tests.agree.problems import SUMS
from tests.unit.checker.test_classify import group, judged


class Epochs:
    """Two groups, three epochs; a base record moves between the groups in the second."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.now = 0
        self.run = History(write=self.lines.append, clock=self.tick, process="p", run="r", views=["v"])
        self.signed: dict[str, int | None] = {}

    def tick(self) -> int:
        self.now += 10
        return self.now

    def base(self, key: str, x: str, y: int, version: int) -> None:
        self.run.base_update("r", (key,), {"x": x, "y": y}, version=version).applied()

    def write(self, epoch: int, x: str, row: dict[str, Any] | None) -> None:
        last = self.signed.get(x)
        expected = None if last is None else (0, last, 0, True)
        self.run.test_and_set("v", (x,), expected=expected, new=(0, epoch, 0, True), row=row).applied()
        self.signed[x] = epoch

    def read(self, epoch: int | None, *rows: dict[str, Any]) -> None:
        number = self.run.read("v", snapshot=True)
        self.run.read_returned(number, [((row["x"],), row) for row in rows], epoch=epoch)

    def first(self) -> None:
        self.base("k0", "a", 100, 1)
        self.base("k1", "a", 5, 1)
        self.write(1, "a", group("a", 105, 2))
        self.run.committed(1, absorbed=[("r", ("k0",), 0, 1), ("r", ("k1",), 0, 1)])

    def move(self) -> None:
        """Write both halves of a group move: in between, plain readers see it torn."""
        self.base("k1", "b", 5, 2)
        self.write(2, "a", group("a", 100, 1))
        self.write(2, "b", group("b", 5, 1))

    def judged(self) -> Judgement:
        self.run.quiescent()
        return judged([event_of(line) for line in self.lines])


AFTER = (group("a", 100, 1), group("b", 5, 1))
MOVED = [("r", ("k1",), 1, 2)]


def of(found: Judgement, name: str) -> tuple[Verdict, str]:
    finding = found.of(name, "snapshots")[0]
    return finding.verdict, finding.tier


def test_snapshots_are_strong_where_plain_reads_of_the_whole_are_torn() -> None:
    run = Epochs()
    run.first()
    run.read(1, group("a", 105, 2))
    run.move()
    run.read(1, group("a", 105, 2))  # the next epoch is being written: rows as they were before it
    run.run.committed(2, absorbed=MOVED)
    run.read(2, *AFTER)
    found = run.judged()
    assert str(found.level("snapshots")) == "strong"  # two updates in one epoch
    assert of(found, "strong") == (Verdict.HOLDS, "lineage")
    assert of(found, "certificates") == (Verdict.HOLDS, "lineage")
    assert str(found.level("view")) == "weak"


def test_a_snapshot_that_shows_half_an_epoch_is_refused() -> None:
    run = Epochs()
    run.first()
    run.move()
    run.read(1, *AFTER[1:], group("a", 105, 2))
    run.run.committed(2, absorbed=MOVED)
    found = run.judged()
    assert of(found, "certificates") == (Verdict.VIOLATED, "lineage")
    assert of(found, "weak") == (Verdict.VIOLATED, "value")
    assert found.of("linearizability", "record")[0].verdict is Verdict.HOLDS


def test_a_snapshot_older_than_what_was_committed_before_it_was_called_goes_back() -> None:
    run = Epochs()
    run.first()
    run.move()
    run.run.committed(2, absorbed=MOVED)
    run.read(1, group("a", 105, 2))
    run.read(2, *AFTER)
    found = run.judged()
    assert of(found, "strong")[0] is Verdict.VIOLATED
    assert of(found, "weak")[0] is Verdict.HOLDS


def test_snapshots_that_overlap_in_time_are_in_the_order_of_their_epochs() -> None:
    run = Epochs()
    run.first()
    slow = run.run.read("v", snapshot=True)
    run.move()
    run.run.committed(2, absorbed=MOVED)
    run.read(2, *AFTER)
    run.run.read_returned(slow, [(("a",), group("a", 105, 2))], epoch=1)
    assert str(run.judged().level("snapshots")) == "strong"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([("r", ("k1",), 1, 7)], "no writer made"),
        ([("r", ("k1",), 0, 2)], "goes on from version 0, but holds 1"),
        ([("r", ("k1",), 2, 2)], "does not go forward"),
        ([], "not the view of the base state"),
    ],
)
def test_an_epoch_that_does_not_tell_the_truth_about_its_cut_is_refused(lines: Any, why: str) -> None:
    run = Epochs()
    run.first()
    run.move()
    run.run.committed(2, absorbed=lines)
    run.read(2, *AFTER)
    found = run.judged()
    false = found.of("certificates", "snapshots")[0]
    assert false.verdict is Verdict.VIOLATED
    assert false.witness is not None
    assert why in false.witness.facts["why"]
    assert (
        str(found.level("snapshots")) == "strong"
    )  # the values are right all the same: nothing else is lost


def test_a_snapshot_of_one_record_must_show_it_as_its_epoch_left_it() -> None:
    def run(row: dict[str, Any]) -> Verdict:
        epochs = Epochs()
        epochs.first()
        epochs.move()
        number = epochs.run.read("v", ("a",), snapshot=True)
        epochs.run.read_returned(number, [(("a",), row)], epoch=1)
        epochs.run.committed(2, absorbed=MOVED)
        return epochs.judged().of("linearizability", "record")[0].verdict

    assert run(group("a", 105, 2)) is Verdict.HOLDS
    assert run(group("a", 100, 1)) is Verdict.VIOLATED


def test_a_system_of_which_only_snapshots_are_known_is_judged_by_them() -> None:
    run = Epochs()
    run.base("k0", "a", 100, 1)
    run.run.committed(1, absorbed=[("r", ("k0",), 0, 1)])
    run.read(1, group("a", 100, 1))
    run.base("k0", "b", 100, 2)
    run.run.committed(2, absorbed=[("r", ("k0",), 1, 2)])
    run.read(2, group("b", 100, 1))
    found = run.judged()
    assert found.granularities == ["snapshots"]
    assert str(found.level("snapshots")) == "between strong and complete"  # who knows what nobody read
    assert str(found.level("view")) == "between not converged and complete"  # nobody asked: nothing is proved


def test_epochs_in_the_absorbed_reference() -> None:
    run = Epochs()
    for version, y in ((1, 1), (2, 2), (3, 3)):
        run.base("k", "a", y, version)
    held = 0
    for epoch, version in enumerate((1, 3, 2), 1):
        run.run.received("r", ("k",), version=version, stream="s", entry=epoch)
        run.write(epoch, "a", group("a", version, 1))
        run.run.committed(epoch, absorbed=[("r", ("k",), held, version)])
        held = version
    run.run.quiescent()
    events = [event_of(line) for line in run.lines]
    assert str(judged(events).level("snapshots")) == "not converged"
    again = judge(absorbed_order(replay(events)), lambda _: SUMS, reference="absorbed")
    assert str(again.level("snapshots")) == "complete"
    assert again.of("certificates", "snapshots")[0].verdict is Verdict.HOLDS
