"""Verification: a base scan against a view, row by row, while writes go on.

A view lags, and a scan is no snapshot; so a difference counts only if it stays: a row is reported when it was
read different in every one of several rounds, with time for the view to catch up between them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

Key = tuple[Any, ...]  # because keys are made of column values
Row = Mapping[str, Any]
Records = Mapping[Key, Row]

ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One view record that is not what the base says it should be."""

    kind: OneOf["missing", "invented", "different"]
    key: Key
    expected: Row | None
    found: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a verification found: how much it read, and what stayed different."""

    view: str
    expected_count: int
    found_count: int
    rounds: int
    differences: tuple[Difference, ...]


def differences(expected: Records, found: Records) -> dict[Key, Difference]:
    """Compare a recomputed view with a published one, by key."""
    wrong: dict[Key, Difference] = {}
    for key in expected.keys() | found.keys():
        should, is_ = expected.get(key), found.get(key)
        if should == is_:
            continue
        kind: OneOf["missing", "invented", "different"] = "different"
        if is_ is None:
            kind = "missing"
        elif should is None:
            kind = "invented"
        wrong[key] = Difference(kind=kind, key=key, expected=should, found=is_)
    return wrong


def verify(
    view: str,
    *,
    expected: Callable[[], Records],
    found: Callable[[], Records],
    wait: Callable[[], None],
    rounds: int = ROUNDS,
) -> Report:
    """Compare in rounds until nothing differs or the rounds are used up; `wait` lets the view catch up."""
    stayed: dict[Key, Difference] | None = None
    should: Records = {}
    is_: Records = {}
    done = 0
    for done in range(1, rounds + 1):
        is_, should = found(), expected()
        now = differences(should, is_)
        stayed = now if stayed is None else {key: now[key] for key in stayed.keys() & now.keys()}
        if not stayed:
            break
        if done < rounds:
            wait()
    ordered = sorted((stayed or {}).values(), key=lambda d: repr(d.key))
    return Report(
        view=view, expected_count=len(should), found_count=len(is_), rounds=done, differences=tuple(ordered)
    )
