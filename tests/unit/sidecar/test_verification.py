"""A verification reports what stays wrong, and only that."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cvs.model.views import BaseTable
from cvs.programs.epoch_run import told_key
from cvs.sidecar import scanning
from cvs.sidecar.verification import BEHIND_SECONDS, STANDS_SECONDS, Report, Shown, caught_up, verify

RIGHT = {("EU",): {"n": 2}, ("US",): {"n": 1}}


def check(
    *rounds: Mapping[Any, Any], caught_up: bool = True, right: Mapping[Any, Any] = RIGHT
) -> tuple[Report, int]:
    waits: list[int] = []
    reads = iter(rounds)

    def wait() -> bool:
        waits.append(1)
        return caught_up

    report = verify(
        "v",
        expected=lambda: right,
        found=lambda: Shown(records=next(reads)),
        wait=wait,
        rounds=3,
    )
    return report, len(waits)


def test_an_equal_view_is_read_once() -> None:
    """No difference in the first round ends the verification."""
    report, waits = check(RIGHT)
    assert (report.differences, report.rounds, waits, report.found_count) == ((), 1, 0, 2)


def test_a_row_that_holds_nan_is_no_row_that_moves() -> None:
    """Python finds NaN different from itself; such a row is right, and one beside it that is wrong is named."""
    right = {("EU",): {"n": 1, "mean": float("nan"), "all": (float("nan"),)}}
    also = {("EU",): {"n": 1, "mean": float("nan"), "all": (float("nan"),)}}
    wrong = {("EU",): {"n": 2, "mean": float("nan"), "all": (float("nan"),)}}
    report, _ = check(also, right=right)
    assert (report.rounds, report.differences, report.moving_count) == (1, (), 0)
    report, _ = check(wrong, wrong, wrong, right=right)
    assert [it.kind for it in report.differences] == ["different"]


def test_a_view_that_catches_up_is_no_finding() -> None:
    """A row that lagged in the first round and is right in the second is not reported."""
    late = {("EU",): {"n": 1}, ("US",): {"n": 1}}
    report, waits = check(late, RIGHT)
    assert (report.differences, report.rounds, waits) == ((), 2, 1)


def test_rows_that_stay_wrong_are_named_by_kind() -> None:
    """Missing, invented and different rows are told apart, with what should stand there."""
    wrong = {("EU",): {"n": 9}, ("XX",): {"n": 1}}
    report, _ = check(wrong, wrong, wrong)
    assert [(d.kind, d.key) for d in report.differences] == [
        ("different", ("EU",)),
        ("missing", ("US",)),
        ("invented", ("XX",)),
    ]
    assert report.differences[0].expected == {"n": 2}


def test_different_rows_in_different_rounds_are_lag() -> None:
    """A row counts only if it was wrong in every round."""
    first = {("EU",): {"n": 1}, ("US",): {"n": 1}}
    second = {("EU",): {"n": 2}, ("US",): {"n": 0}}
    report, _ = check(first, second)
    assert (report.differences, report.rounds) == ((), 2)


def test_a_view_that_did_not_catch_up_is_told_from_one_that_did() -> None:
    wrong = {("EU",): {"n": 9}}
    assert check(wrong, wrong, wrong)[0].lagging is False
    assert check(wrong, wrong, wrong, caught_up=False)[0].lagging is True


def waiting(marks: Callable[[float], int], moment: int) -> tuple[bool, float]:
    """Wait for a watermark that follows a clock; return the answer and the seconds it took."""
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] = round(now[0] + seconds, 3)

    answer = caught_up(lambda: marks(now[0]), moment, clock=lambda: now[0], pause=pause)
    return answer, now[0]


def test_a_watermark_that_moves_is_waited_for() -> None:
    assert waiting(lambda _: 7, 7) == (True, 0.0)
    assert waiting(lambda _: 6, 7) == (False, STANDS_SECONDS)
    assert waiting(lambda now: int(now / 4), 7) == (True, 28.0)  # a step every four seconds
    assert waiting(lambda now: int(now), 10_000) == (False, BEHIND_SECONDS)


def seen(*rounds: tuple[Any, Any, int]) -> Report:
    """Verify one row, given what it should be, what it is, and its write time, round by round."""
    key = ("EU",)
    should = iter([{key: it[0]} if it[0] else {} for it in rounds])
    is_ = iter(
        [Shown(records={key: it[1]} if it[1] else {}, write_times={key: it[2]}, ours=9) for it in rounds]
    )
    return verify("v", expected=lambda: next(should), found=lambda: next(is_), wait=lambda: True)


def test_a_hot_row_is_moving_and_not_wrong() -> None:
    """It lags behind in every round, another step each time."""
    report = seen(*(({"n": n, "t": 1}, {"n": n - 1, "t": 1}, 5) for n in (3, 5, 8)))
    assert (report.differences, report.moving_count, report.rounds) == ((), 1, 3)


def test_a_hot_row_with_a_column_that_stands_still_is_wrong() -> None:
    """Something hides the puts of that column: nothing else keeps it from moving."""
    report = seen(*(({"n": n, "t": n}, {"n": n - 1, "t": None}, 5) for n in (3, 5, 8, 1, 2, 4, 6, 9, 8)))
    assert [(d.kind, d.found) for d in report.differences] == [("different", {"n": 7, "t": None})]


def test_a_small_count_of_a_hot_row_is_not_wrong_for_being_the_same_in_three_reads() -> None:
    """It is read again, up to nine times, until some read shows that it moves or is right."""
    met = [({"n": 2, "t": t}, {"n": 3, "t": t - 7}, 5) for t in (10, 20, 30)]
    moves = seen(*met, ({"n": 3, "t": 40}, {"n": 2, "t": 33}, 5))
    right = seen(*met, ({"n": 3, "t": 40}, {"n": 3, "t": 40}, 5))
    assert [(it.differences, it.moving_count, it.rounds) for it in (moves, right)] == [((), 1, 4), ((), 0, 4)]
    wrong = seen(*met, *met, *met)
    assert ([d.kind for d in wrong.differences], wrong.rounds) == (["different"], 9)


def test_what_moves_under_a_view_that_does_not_follow_is_read_three_times() -> None:
    """A pipeline that stands still would be waited for each time, and its report says that the view lags."""
    base = iter([{("EU",): {"n": n}} for n in (3, 4, 5, 6)])
    report = verify(
        "v",
        expected=lambda: next(base),
        found=lambda: Shown(records={("EU",): {"n": 1}}),
        wait=lambda: False,
    )
    assert (report.rounds, report.lagging, len(report.differences)) == (3, True, 1)


def test_a_row_that_somebody_else_put_is_wrong_even_if_it_is_right() -> None:
    """A write time above all of ours hides what comes later; also while the row moves."""
    right = seen(*(({"n": 1}, {"n": 1}, 10) for _ in range(3)))
    hot = seen(*(({"n": n}, {"n": n - 1}, 10) for n in (3, 5, 8)))
    assert [d.kind for d in (*right.differences, *hot.differences)] == ["shadowed", "different"]
    assert right.latest_write == 10


def test_a_hot_row_that_comes_and_goes_is_moving_and_one_that_never_comes_is_missing() -> None:
    """Deleted by hand at a late time, a row stays away whatever is put."""
    flickers = seen(({"n": 1}, None, 0), (None, {"n": 1}, 5), ({"n": 2}, None, 0))
    gone = seen(*(({"n": n}, None, 0) for n in range(1, 10)))
    assert (flickers.differences, flickers.moving_count) == ((), 1)
    assert [d.kind for d in gone.differences] == ["missing"]


def test_rows_in_quarantine_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that the views cannot take is left out of what they should show, and counted."""
    table = BaseTable(
        name="shop.docs", columns=(("id", "int"), ("body", "text")), partition_key=("id",), clustering_key=()
    )
    monkeypatch.setattr(scanning, "pages", lambda *_: [[(1, "short"), (2, "long")]])
    unread: set[str] = set()
    excluded = frozenset({("shop.docs", told_key((2,))), ("shop.others", told_key((1,)))})
    session: Any = None
    scan = scanning.TableScan.of(session, table, None, unread=unread, excluded=excluded)
    assert (list(scan), unread) == ([{"id": 1, "body": "short"}], {"shop.docs 2"})


def test_a_row_without_all_of_its_clustering_columns_is_told_as_in_quarantine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables that had COMPACT STORAGE have such rows; the quarantine names what there is of a key."""
    columns = (("p", "int"), ("a", "int"), ("b", "int"))
    table = BaseTable(name="s.t", columns=columns, partition_key=("p",), clustering_key=("a", "b"))
    monkeypatch.setattr(scanning, "pages", lambda *_: [[(1, 2, None), (1, 3, None)]])
    nobody: Any = None
    scan = scanning.TableScan.of(
        nobody, table, None, unread=set(), excluded=frozenset({("s.t", told_key((1, 2)))})
    )
    assert [row["a"] for row in scan] == [3]
