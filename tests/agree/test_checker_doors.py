"""A large run read as events, lines or Parquet: one judgement, whatever is wrong with it."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from cvs.checker.bulk import bulk_of
from cvs.checker.large import judge_large
from cvs.checker.meaning import DefinitionMeaning
from cvs.history import arrow, lines
from cvs.history import events as ev
from cvs.history.codec import history_bytes
from cvs.history.columns import Gathered
from cvs.history.packing import NotColumnarError
from cvs.history.parquet import batches_of
from cvs.model.definitions import view_from_json
from tests.agree.test_checker_bulk import certified, damaged
from tests.corrupt.test_checker import CORRUPTORS
from tests.stories.views import VIEWS

DOORS: dict[str, Callable[[Gathered, list[Any]], None]] = {
    "events": lambda gathered, events: gathered.take(events),
    "lines": lambda gathered, events: lines.gather(gathered, [history_bytes(events)]),
    "arrow": lambda gathered, events: arrow.gather(gathered, batches_of(events)),
}


def through(door: str, events: list[Any], meaning: DefinitionMeaning) -> list[str] | None:
    """Return what a large run is said to be, read in one of three ways; None: it is not for this path."""
    bulk = bulk_of([e for e in events if isinstance(e, ev.RunStarted)], view_from_json, {})
    gathered = Gathered(bulk.readers)
    try:
        DOORS[door](gathered, events)
        columns = gathered.columns()
    except NotColumnarError:
        return None
    found = judge_large(
        columns, bulk, lambda numbers: [events[n - 1] for n in numbers], lambda _: meaning, budget=20_000
    )
    return None if found is None else sorted(map(repr, found.findings))


@pytest.mark.slow
def test_a_large_run_is_judged_the_same_through_every_door() -> None:
    """Right runs and runs damaged by every corruptor: events, lines and Parquet give one judgement."""
    chance = random.Random(12)
    compared, taken = Counter[bool](), Counter[str]()
    for number in range(150):
        name = chance.choice(("sum", "count", "rows", "small"))
        events = certified(chance, name, moves=number % 3 == 0)
        if number % 2:
            events = damaged(chance, events)
        elif number % 4 == 0 and name == "sum":
            corruptor = chance.choice(list(CORRUPTORS))
            events, taken[corruptor.__name__] = corruptor(events, chance), taken[corruptor.__name__] + 1
        meaning = DefinitionMeaning(VIEWS[name])
        first, *others = (through(door, events, meaning) for door in DOORS)
        assert all(other == first for other in others), events
        compared[first is not None] += 1
    assert compared[True] > 100, (compared, taken)
