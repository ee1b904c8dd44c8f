"""Damage one thing in a good certified run: the right finding must appear, or nothing true has changed.

Whether the truth changed is decided by brute force over the definitions, not by the judge.
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from cvs.checker import brute
from cvs.checker.classify import Judgement, judge
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.replay import replay
from cvs.checker.verdict import Verdict
from cvs.history import events as ev
from tests.agree.test_checker_bulk import certified
from tests.stories.views import VIEWS

Events = list[Any]
MEANING = DefinitionMeaning(VIEWS["sum"])


def _writes(events: Events) -> list[int]:
    return [i for i, e in enumerate(events) if isinstance(e, ev.TestAndSetCalled)]


def _change(events: Events, place: int, **fields: Any) -> Events:
    return [*events[:place], msgspec.structs.replace(events[place], **fields), *events[place + 1 :]]


def drop(events: Events, chance: random.Random) -> Events:
    """A test-and-set never happened; those after it go on as if it had not been asked for."""
    place = chance.choice(_writes(events))
    gone = events[place]
    kept = [*events[:place], *events[place + 2 :]]
    return [_renamed(e, gone) for e in kept]


def _renamed(event: Any, gone: Any) -> Any:
    """Close the gap in the signatures, so that only the values tell."""
    if not isinstance(event, ev.TestAndSetCalled) or event.view_key != gone.view_key or event.new < gone.new:
        return event
    expected = gone.expected if event.expected == gone.new else (0, event.expected[1] - 1, 0, True)
    return msgspec.structs.replace(event, expected=expected, new=(0, event.new[1] - 1, 0, True))


def duplicate(events: Events, chance: random.Random) -> Events:
    """The last write of a record is done once more, its change added again."""
    place = chance.choice(_writes(events))
    key = events[place].view_key
    place = max(i for i in _writes(events) if events[i].view_key == key)
    last = events[place]
    row = None if last.row is None else {**last.row, "sum": last.row["sum"] + 1}
    again = msgspec.structs.replace(
        last,
        operation=10_001,
        expected=last.new,
        new=(0, last.new[1] + 1, 0, True),
        row=row,
        time=events[-1].time,
    )
    answer = ev.TestAndSetReturned(
        process=last.process, time=events[-1].time, operation=10_001, outcome="applied"
    )
    return [*events[:-1], again, answer, events[-1]]


def reorder(events: Events, chance: random.Random) -> Events:
    """Two neighbouring writes of one record show their rows and lines the other way round."""
    places = _writes(events)
    pairs = [
        (a, b)
        for a in places
        for b in places
        if events[b].view_key == events[a].view_key and events[b].expected == events[a].new
    ]
    if not pairs:
        return events
    a, b = chance.choice(pairs)
    one, other = events[a], events[b]
    changed = _change(events, a, row=other.row, absorbed=other.absorbed)
    return _change(changed, b, row=one.row, absorbed=one.absorbed)


def roll_back_a_signature(events: Events, chance: random.Random) -> Events:
    """A write leaves a signature that was there before."""
    later = [i for i in _writes(events) if events[i].expected is not None]
    place = chance.choice(later)
    return _change(events, place, new=events[place].expected)


def fork(events: Events, chance: random.Random) -> Events:
    """Two writes are applied on one signature."""
    later = [i for i in _writes(events) if events[i].expected is not None]
    place = chance.choice(later)
    before = next(
        e for e in events if isinstance(e, ev.TestAndSetCalled) and e.view_key == events[place].view_key
    )
    return _change(events, place, expected=before.expected)


def stale_read(events: Events, chance: random.Random) -> Events:
    """A refusal shows a signature that was replaced before it was asked."""
    later = [i for i in _writes(events) if events[i].expected is not None]
    write = events[chance.choice(later)]
    old = write.expected
    read = msgspec.structs.replace(
        write,
        operation=10_002,
        process="m2",
        expected=None,
        new=(0, 999, 0, True),
        absorbed=(),
        time=events[-1].time,
    )
    answer = ev.TestAndSetReturned(
        process="m2", time=events[-1].time, operation=10_002, outcome="rejected", returned=old
    )
    return [*events[:-1], read, answer, events[-1]]


def torn_move(events: Events, chance: random.Random) -> Events:
    """The second half of a move comes late: after the next write of the other record."""
    lines: dict[Any, list[int]] = {}
    for place in _writes(events):
        for line in events[place].absorbed:
            lines.setdefault((line.key, line.to_version), []).append(place)
    moves = [places for places in lines.values() if len(places) > 1]
    if not moves:
        return events

    def until_of(place: int) -> int:
        key = events[place].view_key
        return next((i for i in _writes(events) if i > place and events[i].view_key == key), len(events) - 1)

    place = max((places[-1] for places in moves), key=lambda p: until_of(p) - p)
    until = until_of(place)
    pair = events[place : place + 2]
    moved = [*events[:place], *events[place + 2 : until], *pair, *events[until:]]
    return [msgspec.structs.replace(e, time=10 * i) for i, e in enumerate(moved)]


def wrong_fold(events: Events, chance: random.Random) -> Events:
    """A row is not the sum of what was absorbed."""
    place = chance.choice([i for i in _writes(events) if events[i].row is not None])
    row = {**events[place].row, "sum": events[place].row["sum"] + chance.choice((-1, 1, 5))}
    return _change(events, place, row=row)


def future_version(events: Events, chance: random.Random) -> Events:
    """A write comes before the base update it absorbed was called."""
    place = chance.choice(_writes(events))
    write, answer = events[place], events[place + 1]
    line = write.absorbed[0]
    start = next(
        i
        for i, e in enumerate(events)
        if isinstance(e, ev.BaseUpdateCalled) and (e.key, e.version) == (line.key, line.to_version)
    )
    moved = [*events[:start], write, answer, *events[start:place], *events[place + 2 :]]
    return [msgspec.structs.replace(e, time=10 * i) for i, e in enumerate(moved)]


def applied_marked_rejected(events: Events, chance: random.Random) -> Events:
    """A write took effect, its outcome says it was refused."""
    place = chance.choice(_writes(events))
    return _change(events, place + 1, outcome="rejected", returned=(0, 998, 0, True))


CORRUPTORS: dict[Callable[[Events, random.Random], Events], set[str]] = {
    drop: {"certificates", "converged"},
    duplicate: {"certificates", "converged", "weak"},
    reorder: {"certificates", "strong", "weak"},
    roll_back_a_signature: {"linearizability"},
    fork: {"linearizability"},
    stale_read: {"linearizability"},
    torn_move: {"torn windows"},
    wrong_fold: {"certificates", "weak"},
    future_version: {"no-future", "linearizability"},
    applied_marked_rejected: {"linearizability"},
}


def _torn(found: Judgement) -> int:
    return sum(last - first + 1 for judged in found.judged for first, last, _ in judged.torn)


def _wrong(found: Judgement) -> set[str]:
    return {
        f.property
        for f in found.findings
        if f.verdict is Verdict.VIOLATED and f.property != "complete-recorded-order"
    }


def _truth(found: Judgement) -> list[tuple[Any, ...]]:
    told = []
    for judged in found.judged:
        problem = judged.problem
        arguments = (problem.tops, cache(problem.meaning), problem.states)
        complete = brute.complete(*arguments) if sum(problem.tops) <= 6 else None
        levels = (brute.converged(*arguments), brute.weak(*arguments), brute.chain(*arguments), complete)
        told.append((judged.subject.granularity, judged.subject.key, levels))
    return sorted(told, key=repr)


@pytest.mark.parametrize("corruptor", CORRUPTORS, ids=lambda c: c.__name__)
def test_damage_is_found_or_changes_nothing(
    corruptor: Callable[[Events, random.Random], Events], told: Callable[[str], None]
) -> None:
    chance = random.Random(11)
    count: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    while sum(count.values()) < 25:
        good = certified(chance, "sum", steps=9 if corruptor is torn_move else 6, moves=True)
        before = judge(replay(good), lambda _: MEANING)
        bad = corruptor(good, chance)
        if bad == good:
            continue
        after = judge(replay(bad), lambda _: MEANING)
        new = _wrong(after) - _wrong(before)
        if _torn(after) > _torn(before):
            new.add("torn windows")
        if new:
            count["found"] += 1
            seen.update(new)
        elif _truth(after) == _truth(before):
            count["equivalent"] += 1
        else:
            count["missed"] += 1
            assert _weaker_was_known(before, after), (corruptor.__name__, bad)
    assert count["found"] > 3, count
    assert set(seen) & CORRUPTORS[corruptor], (seen, count)
    told(f"{corruptor.__name__}: {count['found']} found, {count['equivalent']} equivalent")


def _weaker_was_known(before: Judgement, after: Judgement) -> bool:
    """Say whether what changed was a property that the good run lacked at that granularity already."""

    def wrong(found: Judgement) -> Counter[tuple[str, str]]:
        return Counter((f.granularity, f.property) for f in found.findings if f.verdict is Verdict.VIOLATED)

    return wrong(before) != wrong(after)
