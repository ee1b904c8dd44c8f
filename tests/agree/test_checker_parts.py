"""A run judged in parts, without any engine: each view record gets the verdicts it gets in the whole."""

import random
from collections import Counter
from typing import Any

import msgspec

from cvs.checker.classify import Judgement, judge
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.parts import Facts, Parts, folded, judge_part, part_of, together
from cvs.checker.replay import replay
from cvs.checker.verdict import LEVELS, Verdict
from cvs.history import events as ev
from cvs.model.definitions import view_from_json
from cvs.model.identity import key_identity
from tests.agree.test_checker_bulk import certified, damaged
from tests.stories.views import VIEWS


def split(events: list[Any], router: Parts, facts: Facts) -> dict[int, list[tuple[int, Any]]]:
    """Route by hand what the engine routes by joins."""
    parts: dict[int, list[tuple[int, Any]]] = {n: [] for n in range(facts.parts)}
    touched: dict[Any, set[int]] = {}
    pairs: dict[tuple[str, int], set[int]] = {}
    for event in events:
        if isinstance(event, ev.BaseUpdateCalled):
            at = touched.setdefault((event.table, key_identity(event.key)), set())
            at.update(router.of_row(event.table, event.key, event.row))
        if isinstance(event, ev.TestAndSetCalled):
            part = router.of_record(event.view, event.view_key)
            pairs[event.process, event.operation] = {part}
            for line in event.absorbed:
                touched.setdefault((line.table, key_identity(line.key)), set()).add(part)
    for event in events:
        if isinstance(event, ev.BaseUpdateCalled):
            pairs[event.process, event.operation] = touched[event.table, key_identity(event.key)]
    for number, event in enumerate(events, 1):
        if not isinstance(event, ev.RunStarted | ev.Quiescent):
            for part in pairs.get((event.process, event.operation), ()):
                parts[part].append((number, event))
    return parts


def in_parts(events: list[Any], name: str, parts: int) -> Judgement:
    meaning = DefinitionMeaning(VIEWS[name])
    headers = tuple(e for e in events if isinstance(e, ev.RunStarted))
    facts = Facts(headers=headers, rest=events[-1], has_base_log=True, written=frozenset("v"), parts=parts)
    router = Parts(facts, lambda _: meaning, view_from_json, {})
    found = [
        judge_part(each, part, router, budget=100_000) for part, each in split(events, router, facts).items()
    ]
    run = replay(events)
    return together(found, run)


def said(judgement: Judgement, granularity: str = "record") -> Counter[Any]:
    """Count the verdicts, and name the events of what is violated."""
    count: Counter[Any] = Counter()
    for f in folded(f for f in judgement.findings if f.granularity == granularity):
        if f.property not in ("staleness",):
            count[f.property, f.verdict, f.event if f.verdict is Verdict.VIOLATED else None] += f.count
    return count


def test_each_record_is_judged_in_its_part_as_in_the_whole() -> None:
    chance = random.Random(4)
    violated = 0
    for number in range(120):
        name = chance.choice(("sum", "count", "rows"))
        events = certified(chance, name, moves=number % 2 == 0)
        if number % 3:
            events = damaged(chance, events)
        if number % 5 == 0:
            events = _unknown(chance, events)
        meaning = DefinitionMeaning(VIEWS[name])
        whole = judge(replay(events), lambda _, meaning=meaning: meaning)
        found = in_parts(events, name, parts=chance.randint(1, 4))
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
    assert violated > 40


def _unknown(chance: random.Random, events: list[Any]) -> list[Any]:
    """Lose one answer."""
    places = [i for i, e in enumerate(events) if isinstance(e, ev.TestAndSetReturned)]
    place = chance.choice(places)
    return [*events[:place], msgspec.structs.replace(events[place], outcome="unknown"), *events[place + 1 :]]


def test_equal_keys_have_one_part_whatever_their_type() -> None:
    for one, other in (((1,), (1.0,)), (("a", 2), ("a", 2))):
        assert [part_of("v", one, n) for n in range(1, 50)] == [part_of("v", other, n) for n in range(1, 50)]
    assert len({part_of("v", (n,), 7) for n in range(100)}) == 7
