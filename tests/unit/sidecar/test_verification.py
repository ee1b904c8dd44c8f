"""A verification reports what stays wrong, and only that."""

from collections.abc import Mapping
from typing import Any

from cvs.sidecar.verification import Report, verify

RIGHT = {("EU",): {"n": 2}, ("US",): {"n": 1}}


def check(*rounds: Mapping[Any, Any]) -> tuple[Report, int]:
    waits: list[int] = []
    reads = iter(rounds)
    report = verify(
        "v", expected=lambda: RIGHT, found=lambda: next(reads), wait=lambda: waits.append(1), rounds=3
    )
    return report, len(waits)


def test_an_equal_view_is_read_once() -> None:
    """No difference in the first round ends the verification."""
    report, waits = check(RIGHT)
    assert (report.differences, report.rounds, waits, report.found_count) == ((), 1, 0, 2)


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
