"""A run judged in parts, without any engine: each view record gets the verdicts it gets in the whole."""

import random
from collections import Counter
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from cvs.checker.classify import Judgement, judge
from cvs.checker.companions import companions
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.parts import Facts, Parts, cited, folded, judge_part, part_of, renumbered, together
from cvs.checker.replay import replay
from cvs.checker.verdict import LEVELS, Verdict
from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.carried import packed, tables_of
from cvs.history.codec import line_of
from cvs.history.merge import typed
from cvs.history.parquet import batches_of
from cvs.history.router import BASE, Router, Told
from cvs.model.definitions import definition_to_json, view_from_json
from cvs.model.views import BaseTable
from tests.agree.test_checker_bulk import certified, damaged
from tests.agree.test_checker_doors import PRICES, priced
from tests.stories.views import VIEWS


def carried(events: list[Any], task: Facts, parts: Parts, *, lines: bool, batch: int) -> dict[int, list[Any]]:
    """Divide a history as the engine does, in batches, without the engine."""
    (whole,) = batches_of(events)
    if lines:
        column = pa.array([line_of(event) for event in events], pa.large_binary())
        whole = pa.RecordBatch.from_arrays([column], ["line"])
    router = Router(task.parts, parts.headers)
    of_part: dict[int, list[Any]] = {n: [] for n in range(task.parts)}
    of_base: dict[int, list[Any]] = {n: [] for n in range(task.parts)}
    for first in range(0, len(events), batch):
        for side, to, kind, table in router.route(whole.slice(first, batch), first):
            (of_base if side == BASE else of_part)[to].append((kind, table))
    assert router.told.events == len(events)
    for each in of_base.values():
        for to, kind, table in companions(tables_of(each), parts):
            of_part[to].append((kind, packed(table)))
    return of_part


def in_parts(
    events: list[Any],
    name: str,
    parts: int,
    *,
    lines: bool,
    batch: int,
    tables: dict[str, BaseTable] | None = None,
) -> Judgement:
    meaning = DefinitionMeaning(VIEWS[name], tables or {})
    headers = tuple(e for e in events if isinstance(e, ev.RunStarted))
    facts = Facts(
        headers=headers, rest=events[-1].time, has_base_log=True, written=frozenset("v"), parts=parts
    )
    knows = Parts(facts, lambda _: meaning, view_from_json, tables or {})
    found = [
        judge_part(list(tables_of(each).values()), part, knows, budget=100_000)
        for part, each in carried(events, facts, knows, lines=lines, batch=batch).items()
    ]
    numbered = [[renumbered(f, {n: n + 1 for n in cited(f)}) for f in each] for each in found]
    return together(numbered, replay(events))


def said(judgement: Judgement, granularity: str = "record") -> Counter[Any]:
    """Count the verdicts, and name the events of what is violated; where one lacks *complete* the ways differ."""
    count: Counter[Any] = Counter()
    for f in folded(f for f in judgement.findings if f.granularity == granularity):
        if f.property not in ("staleness",):
            named = f.verdict is Verdict.VIOLATED and not f.property.startswith("complete")
            count[f.property, f.verdict, f.event if named else None] += f.count
    return count


@pytest.mark.parametrize("runs", [12, pytest.param(120, marks=pytest.mark.slow)])
def test_each_record_is_judged_in_its_part_as_in_the_whole(runs: int) -> None:
    chance = random.Random(4)
    violated = 0
    for number in range(runs):
        name = chance.choice(("sum", "count", "rows"))
        events = certified(chance, name, moves=number % 2 == 0)
        if number % 3:
            events = damaged(chance, events)
        if number % 5 == 0:
            events = _unknown(chance, events)
        meaning = DefinitionMeaning(VIEWS[name])
        whole = judge(replay(events), lambda _, meaning=meaning: meaning)
        found = in_parts(
            events, name, parts=chance.randint(1, 4), lines=number % 2 == 0, batch=chance.randint(1, 40)
        )
        assert said(found) == said(whole), events
        for level in LEVELS:
            ours, theirs = (j.of(level, "view")[0].verdict for j in (found, whole))
            assert ours in (theirs, Verdict.UNDECIDED) or Verdict.UNDECIDED is theirs, (
                level,
                ours,
                theirs,
                events,
            )
        violated += any(f.verdict is Verdict.VIOLATED for f in whole.findings)
    assert violated > runs // 3


def least(events: list[Any]) -> list[Any]:
    """Let a run of counts show the least value of each group: a view of no shape that the bulk path knows."""
    rows: dict[Any, Any] = {}
    found: list[Any] = []
    for event in events:
        if isinstance(event, ev.RunStarted) and event.views:
            event = msgspec.structs.replace(event, views=(definition_to_json(VIEWS["min"]),))
        if isinstance(event, ev.BaseUpdateCalled):
            rows[event.key] = event.row
        if isinstance(event, ev.TestAndSetCalled) and event.row is not None:
            held = [row["y"] for row in rows.values() if row and row["x"] == event.view_key[0]]
            event = msgspec.structs.replace(event, row={"x": event.view_key[0], "min": min(held)})
        found.append(event)
    return found


@pytest.mark.parametrize("runs", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_views_that_the_bulk_path_does_not_know_are_judged_in_parts_too(runs: int) -> None:
    chance = random.Random(6)
    meaning = DefinitionMeaning(VIEWS["min"])
    violated = 0
    for number in range(runs):
        events = least(certified(chance, "count", moves=number % 2 == 0))
        if number % 2:
            events = damaged(chance, events)
        whole = judge(replay(events), lambda _: meaning)
        found = in_parts(events, "min", parts=3, lines=number % 3 == 0, batch=chance.randint(5, 40))
        assert said(found) == said(whole), events
        violated += any(f.verdict is Verdict.VIOLATED for f in whole.findings)
    assert runs // 8 < violated < runs - runs // 8


def test_values_of_declared_types_are_judged_in_parts_as_in_the_whole() -> None:
    """Decimals that somebody wrote as texts: no number stands there before the declaration is read."""
    table = BaseTable(name="r", columns=(("k", "text"), ("x", "int"), ("y", "decimal")), partition_key=("k",))
    chance = random.Random(7)
    meaning = DefinitionMeaning(VIEWS["sum"], {"r": table})
    for number in range(10):
        events = certified(chance, "sum", moves=number % 2 == 0)
        if number % 2:
            events = damaged(chance, events)
        events = [_declared(event, table) for event in events]
        whole = judge(replay(typed(events)), lambda _: meaning)
        found = in_parts(
            events, "sum", 3, lines=number % 3 == 0, batch=chance.randint(5, 40), tables={"r": table}
        )
        assert said(found) == said(whole), events


@pytest.mark.parametrize("runs", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_keys_and_prices_of_every_spelling_are_judged_in_parts_as_in_the_whole(runs: int) -> None:
    chance, tables = random.Random(8), {"r": PRICES}
    for number in range(runs):
        name = chance.choice(("sum", "count", "rows"))
        events = certified(chance, name, moves=number % 2 == 0)
        if number % 2:
            events = damaged(chance, events)
        events = priced(chance, events, odd=number % 4 == 3)
        meaning = DefinitionMeaning(VIEWS[name], tables)
        whole = judge(replay(typed(events)), lambda _, meaning=meaning: meaning)
        batch = chance.randint(5, 40)
        found = in_parts(events, name, 3, lines=number % 3 == 0, batch=batch, tables=tables)
        assert said(found) == said(whole), events


def _declared(event: Any, table: BaseTable) -> Any:
    if isinstance(event, ev.RunStarted):
        return msgspec.structs.replace(event, tables=(definition_to_json(table),))
    if isinstance(event, ev.BaseUpdateCalled) and event.row is not None:
        return msgspec.structs.replace(event, row={**event.row, "y": str(event.row["y"])})
    return event


def _unknown(chance: random.Random, events: list[Any]) -> list[Any]:
    """Lose one answer."""
    places = [i for i, e in enumerate(events) if isinstance(e, ev.TestAndSetReturned)]
    place = chance.choice(places)
    return [*events[:place], msgspec.structs.replace(events[place], outcome="unknown"), *events[place + 1 :]]


def test_equal_keys_have_one_part_whatever_their_type() -> None:
    for one, other in (((1,), (1.0,)), (("a", 2), ("a", 2))):
        assert [part_of("v", one, n) for n in range(1, 50)] == [part_of("v", other, n) for n in range(1, 50)]
    assert len({part_of("v", (n,), 7) for n in range(100)}) == 7


def test_what_a_piece_refuses_is_told_where_pieces_are_put_together() -> None:
    """It was raised, and Spark printed the stack of each worker before the message."""
    events = certified(random.Random(6), "sum")
    twice = [event for event in events if isinstance(event, ev.BaseUpdateCalled)][:1]
    router = Router(2)
    for place, some in enumerate((events, twice * 2, events)):
        (batch,) = batches_of(some)
        assert list(router.route(batch, place << 8)) or place
    with pytest.raises(HistoryError, match="twice"):
        Told().add(router.told)
