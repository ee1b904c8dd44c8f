"""The linear-time check of one view record's test-and-sets."""

from typing import Any

import pytest

from cvs.checker.replay import Attempt, ViewRecord
from cvs.checker.signatures import check_record
from cvs.checker.verdict import Verdict
from cvs.model.outcome import OutcomeKind

Kind = OutcomeKind


def sign(version: int | None) -> Any:
    return None if version is None else (0, version, 0, True)


def record(*rows: tuple[Any, ...]) -> ViewRecord:
    """Each row: expected, new, outcome, called, returned, seen."""
    attempts = [
        Attempt(
            event=number,
            last_event=number,
            process="m",
            operation=number,
            view="v",
            key=("k",),
            expected=sign(expected),
            new=sign(new),
            row=None,
            absorbed=(),
            called=called,
            returned=returned,
            outcome=outcome,
            seen=sign(seen[0]) if seen else None,
        )
        for number, (expected, new, outcome, called, returned, *seen) in enumerate(rows, 1)
    ]
    return ViewRecord(key=("k",), attempts=attempts)


@pytest.mark.parametrize(
    ("rows", "verdict", "why"),
    [
        ([(None, 1, Kind.APPLIED, 0, 1), (1, 2, Kind.APPLIED, 2, 3)], Verdict.HOLDS, ""),
        ([(None, 1, Kind.APPLIED, 0, 1), (None, 2, Kind.APPLIED, 2, 3)], Verdict.VIOLATED, "lost"),
        ([(None, 1, Kind.APPLIED, 0, 1), (7, 8, Kind.APPLIED, 2, 3)], Verdict.VIOLATED, "nobody left"),
        ([(None, 1, Kind.APPLIED, 5, 6), (1, 2, Kind.APPLIED, 2, 3)], Verdict.VIOLATED, "returned before"),
        ([(None, 1, Kind.APPLIED, 0, 9), (1, 2, Kind.APPLIED, 2, 3)], Verdict.HOLDS, ""),
        ([(None, 1, Kind.UNKNOWN, 0, 1 << 62), (1, 2, Kind.APPLIED, 2, 3)], Verdict.HOLDS, ""),
        ([(None, 1, Kind.APPLIED, 0, 1), (None, 9, Kind.REJECTED, 2, 3, 1)], Verdict.HOLDS, ""),
        ([(None, 1, Kind.APPLIED, 0, 1), (1, 9, Kind.REJECTED, 2, 3, 1)], Verdict.VIOLATED, "very signature"),
        ([(None, 1, Kind.APPLIED, 0, 1), (1, 9, Kind.REJECTED, 2, 3, 5)], Verdict.VIOLATED, "nobody left"),
        ([(None, 1, Kind.APPLIED, 0, 1), (1, 9, Kind.REJECTED, 2, 3)], Verdict.VIOLATED, "all the while"),
        ([(None, 1, Kind.APPLIED, 0, 1), (None, 9, Kind.REJECTED, 2, 3)], Verdict.HOLDS, ""),
        (
            [(None, 1, Kind.APPLIED, 0, 1), (1, 5, Kind.UNKNOWN, 0, 1 << 62), (1, 9, Kind.REJECTED, 2, 3)],
            Verdict.UNDECIDED,
            "",
        ),
        ([(None, 1, Kind.NOT_SENT, 0, 1), (None, 2, Kind.APPLIED, 0, 1)], Verdict.HOLDS, ""),
        ([(None, 1, Kind.APPLIED, 0, 1), (1, 1, Kind.APPLIED, 2, 3)], Verdict.VIOLATED, "twice"),
    ],
)
def test_verdicts(rows: list[tuple[Any, ...]], verdict: Verdict, why: str) -> None:
    check = check_record(record(*rows))
    assert check.verdict is verdict, check.problems
    assert why in (check.problems[0][0] if check.problems else "")
    assert bool(check.problems) == (verdict is Verdict.VIOLATED)
