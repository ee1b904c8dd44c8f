"""Verification: a base scan against a view, row by row, while writes go on.

A view lags, and a scan is no snapshot; so a difference counts only if it stays: a row is reported when it was
read different in every one of several rounds, and between them the view came to show what had been written before
(a pipeline that stands still is not waited for; the report says so). A hot row differs in
every round because it moves: it is *moving*, and wrong only in a column that stood still or was put by somebody
else. A count of a hot row may be 3 by chance whenever it is read: such rows get more rounds, unevenly spaced, before
they are called wrong. A row that is right but was put by somebody else, with a write time above all of ours, is
*shadowed*: later changes would not show (H29).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from cvs.model.identity import identity, same_row

Key = tuple[Any, ...]  # because keys are made of column values
Row = Mapping[str, Any]
Records = Mapping[Key, Row]
Kind = OneOf["missing", "invented", "different", "shadowed"]

ROUNDS = 3
MOVING_ROUNDS = 9
"""So often is read what moves and yet looks wrong; not if the view does not follow anyway."""

STANDS_SECONDS = 5.0
"""A watermark that does not move for so long stands still: the pipeline is paused, is down, or a capture is."""

BEHIND_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a published table holds: its rows, the latest write time of each, and the greatest that is ours."""

    records: Records
    write_times: Mapping[Key, int] = field(default_factory=dict)
    ours: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One view record that is not what the base says it should be."""

    kind: Kind
    key: Key
    expected: Row | None
    found: Row | None
    foreign: bool = False  # put with a write time above all of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a verification found: how much it read, and what stayed different."""

    view: str
    expected_count: int
    found_count: int
    rounds: int
    differences: tuple[Difference, ...]
    moving_count: int = 0  # rows that changed in every round, so that their lag cannot be told from an error
    latest_write: int = 0
    unread_count: int = 0  # base rows that cannot be read, and so contribute nothing
    stopped: str = ""  # what lets the view go on: it stands still because it was told to
    broken: bool = False  # the pipeline follows it no more: only a rebuild makes it right
    lagging: bool = (
        False  # the view did not come to show what was written before a round, so it may only lack that
    )


def differences(expected: Records, shown: Shown) -> dict[Key, Difference]:
    """Compare a recomputed view with a published one, by key."""
    wrong: dict[Key, Difference] = {}
    found = shown.records
    for key in expected.keys() | found.keys():
        should, is_ = expected.get(key), found.get(key)
        kind: Kind = "different"
        foreign = shown.write_times.get(key, 0) > shown.ours
        if same_row(should, is_):
            if not foreign:
                continue
            kind = "shadowed"
        elif is_ is None:
            kind = "missing"
        elif should is None:
            kind = "invented"
        wrong[key] = Difference(kind=kind, key=key, expected=should, found=is_, foreign=foreign)
    return wrong


def moving(seen: list[Difference]) -> bool:
    """Say whether a row that differed in every round may only have lagged: no wrong column of it stood still."""
    if any(it.foreign or it.found is None or it.expected is None for it in seen):
        return len({it.found is None for it in seen}) > 1 or len({it.expected is None for it in seen}) > 1
    found = [it.found or {} for it in seen]
    return not any(
        all(identity(row.get(column)) == identity(value) for row in found)
        and all(identity((it.expected or {}).get(column)) != identity(value) for it in seen)
        for column, value in found[0].items()
    )


def doubtful(seen: list[Difference]) -> bool:
    """Say whether a row looks wrong but moved meanwhile: what stands still in it may have been met by chance."""
    if any(it.foreign for it in seen) or moving(seen):
        return False
    return not all(
        same_row(it.found, seen[0].found) and same_row(it.expected, seen[0].expected) for it in seen
    )


def verify(
    view: str,
    *,
    expected: Callable[[], Records],
    found: Callable[[], Shown],
    wait: Callable[[], bool],
    rounds: int = ROUNDS,
) -> Report:
    """Compare in rounds until nothing differs or the rounds are used up; `wait` says whether the view caught up."""
    stayed: dict[Key, list[Difference]] | None = None
    should: Records = {}
    is_ = Shown(records={})
    done, lagging = 0, False
    for done in range(1, max(rounds, MOVING_ROUNDS) + 1):
        is_, should = found(), expected()
        now = differences(should, is_)
        before = {key: [] for key in now} if stayed is None else stayed
        stayed = {key: [*before[key], now[key]] for key in before.keys() & now.keys()}
        if not stayed or (done >= rounds and (lagging or not any(map(doubtful, stayed.values())))):
            break
        if done < MOVING_ROUNDS:
            lagging = not wait() or lagging
    wrong = [seen[-1] for seen in (stayed or {}).values() if not moving(seen)]
    return Report(
        view=view,
        expected_count=len(should),
        found_count=len(is_.records),
        rounds=done,
        differences=tuple(sorted(wrong, key=lambda d: repr(d.key))),
        moving_count=len(stayed or {}) - len(wrong),
        latest_write=max(is_.write_times.values(), default=0),
        lagging=lagging,
    )


def caught_up(
    watermark: Callable[[], int],
    moment: int,
    *,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> bool:
    """Wait until a watermark passes a moment; no if it stands still, or takes too long."""
    newest, since = -1, clock()
    end = since + BEHIND_SECONDS
    while (mark := watermark()) < moment:
        now = clock()
        if mark > newest:
            newest, since = mark, now
        if now - since >= STANDS_SECONDS or now >= end:
            return False
        pause(0.1)
    return True
