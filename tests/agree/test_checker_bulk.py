"""The bulk path against the exact judge: what it accepts is complete; damaged runs are never accepted
whole."""

import random
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from cvs.checker.bulk import accept_events, bulk_of
from cvs.checker.classify import Judgement, judge
from cvs.checker.contributions import NOT_WHOLE, in_units
from cvs.checker.large import judge_large
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.replay import replay
from cvs.checker.verdict import LEVELS, Verdict
from cvs.history import events as ev
from cvs.history.columns import Gathered
from cvs.model.definitions import definition_to_json, view_from_json
from cvs.model.views import BaseTable
from tests.agree.problems import Recorder, is_history
from tests.stories.views import VIEWS


def certified(chance: random.Random, name: str, *, steps: int = 14, moves: bool = False) -> list[Any]:
    """A right run of a view maintained entry by entry."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS[name]))
    rows: dict[str, dict[str, Any] | None] = {}
    for _ in range(steps):
        key = f"k{chance.randrange(4)}"
        before = rows.get(key)
        group = before["x"] if before and not moves else chance.randrange(3)
        after = None if before and chance.random() < 0.2 else {"k": key, "x": group, "y": chance.randrange(4)}
        version = run.base(key, after)
        rows[key] = after
        if name == "rows":
            run.write(key, after, [(key, version - 1, version)])
            continue
        for group in sorted({r["x"] for r in (before, after) if r is not None}):
            held = [r["y"] for r in rows.values() if r is not None and r["x"] == group]
            shown = {"x": group, "sum": sum(held)} if name == "sum" else {"x": group, "count": len(held)}
            run.write(group, shown if held else None, [(key, version - 1, version)])
    return run.rest()


def damaged(chance: random.Random, events: list[Any]) -> list[Any]:
    """Change one field of one event, or drop a certificate line."""
    places = [i for i, e in enumerate(events) if isinstance(e, ev.TestAndSetCalled | ev.BaseUpdateCalled)]
    place = chance.choice(places)
    event = events[place]
    change: dict[str, Any]
    if isinstance(event, ev.BaseUpdateCalled):
        change = {"row": {"k": "k0", "x": 0, "y": 9}}
    else:
        other = chance.choice([e for e in events if isinstance(e, ev.TestAndSetCalled)])
        change = chance.choice(
            [
                {"row": None if event.row else {"x": 0, "sum": 7}},
                {"absorbed": ()},
                {"absorbed": other.absorbed},
                {"new": other.new},
                {"expected": other.expected},
                {"time": _at_another_time(chance, events, place)},
            ]
        )
    changed = msgspec.structs.replace(event, **change)
    if isinstance(changed, ev.TestAndSetCalled) and changed.expected == changed.new:
        return damaged(chance, events)  # that is no history
    return [*events[:place], changed, *events[place + 1 :]]


def _at_another_time(chance: random.Random, events: list[Any], place: int) -> int:
    """Return an earlier or a later time that the clock of the process allows."""
    event = events[place]
    before, after = (
        [each.time for each in some if each.process == event.process]
        for some in (events[:place], events[place + 1 :])
    )
    wanted = event.time + chance.choice((-200, 200))
    return min(max(wanted, max(before, default=0)), min(after, default=wanted))


@pytest.mark.slow
def test_what_the_bulk_path_accepts_the_exact_judge_finds_complete() -> None:
    chance = random.Random(7)
    accepted = left = 0
    for number in range(250):
        name = chance.choice(("sum", "count", "rows"))
        events = certified(chance, name, moves=number % 3 == 0)
        if number % 2:
            events = damaged(chance, events)
        found = accept_events(events, view_from_json, {})
        if found is None:
            continue
        meaning = DefinitionMeaning(VIEWS[name])
        exact = judge(replay(events), lambda _, meaning=meaning: meaning)
        own = [f for f in exact.findings if (f.view, f.key) in found.names and f.verdict is not Verdict.HOLDS]
        short = [f for f in own if f.property == "complete" and f.verdict is Verdict.VIOLATED]
        assert len(short) == sum(it.many for it in found.short.values()), (events, own)
        assert {f.property for f in own} <= {"complete", "complete-recorded-order"}, (events, own)
        accepted += len(found.names)
        left += len(found.others)
    assert accepted > 300
    assert left > 30


def test_certified_sums_and_counts_without_damage_are_accepted() -> None:
    chance = random.Random(8)
    names = ("sum", "count", "rows")
    for name in names:
        for _ in range(10):
            events = certified(chance, name)
            found = accept_events(events, view_from_json, {})
            assert found is not None
            assert not found.others or name == "sum", (name, found.others)


TABLE = BaseTable(name="r", columns=(("k", "text"), ("x", "int"), ("y", "decimal")), partition_key=("k",))


def in_decimals(events: list[Any], places: int) -> list[Any]:
    """The same run with what is added up, and its sums, so many places behind the point."""
    found = []
    for event in events:
        if isinstance(event, ev.BaseUpdateCalled | ev.TestAndSetCalled) and event.row is not None:
            row = {
                name: Decimal(value).scaleb(-places) if name in ("y", "sum") else value
                for name, value in event.row.items()
            }
            event = msgspec.structs.replace(event, row=row)
        found.append(event)
    return found


def test_sums_of_decimals_are_judged_as_sums_of_whole_numbers() -> None:
    """Prices fit; more places than units have are left to the exact judge, by whom they are no other."""
    chance, accepted = random.Random(12), 0
    for number in range(60):
        events = certified(chance, "sum", moves=number % 3 == 0)
        if number % 2:
            events = damaged(chance, events)
        if not is_history(events):
            continue
        whole = large_of(events, "sum")
        prices = large_of(in_decimals(events, 2), "sum", {"r": TABLE})
        fine = large_of(in_decimals(events, 9), "sum", {"r": TABLE})
        if whole is None:
            assert prices is None
            continue
        assert prices is not None
        if fine is not None:
            strong = [{f.verdict for f in it.of("strong", "record")} for it in (whole, fine)]
            assert strong[0] == strong[1], events
        counts = [[(f.property, f.verdict, f.tier, f.count) for f in it.findings] for it in (whole, prices)]
        assert counts[0] == counts[1], events
        accepted += sum(f.count for f in prices.of("complete", "record") if f.verdict is Verdict.HOLDS)
    assert accepted > 60


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1.50", 15_000),
        ("-0.0001", -1),
        ("0E-30", 0),
        ("0.00001", NOT_WHOLE),
        ("1E+30", NOT_WHOLE),
        ("1E-2000000000", NOT_WHOLE),
        ("NaN", NOT_WHOLE),
        ("Infinity", NOT_WHOLE),
        ("1." + "0" * 70 + "1", NOT_WHOLE),
    ],
)
def test_a_decimal_is_so_many_units_or_left_to_the_exact_judge(text: str, units: int) -> None:
    assert in_units(Decimal(text), 10_000) == units
    assert in_units(3, 10_000) == in_units(None, 10_000) == NOT_WHOLE


def large_of(
    events: list[Any], name: str, tables: Mapping[str, BaseTable] = MappingProxyType({})
) -> Judgement | None:
    """Judge a run as a large one."""
    meaning = DefinitionMeaning(VIEWS[name])
    bulk = bulk_of([e for e in events if isinstance(e, ev.RunStarted)], view_from_json, tables)
    gathered = Gathered(bulk.readers)
    gathered.take(events)
    return judge_large(
        gathered.columns(),
        bulk,
        lambda numbers: [events[n - 1] for n in numbers],
        lambda _, meaning=meaning: meaning,
        budget=100_000,
    )


@pytest.mark.slow
def test_large_and_exact_judgements_say_the_same() -> None:
    chance = random.Random(9)
    compared = 0
    for number in range(80):
        events = certified(chance, "sum", moves=number % 2 == 0)
        if number % 4 == 3:
            events = damaged(chance, events)
        large = large_of(events, "sum")
        if large is None:
            continue
        meaning = DefinitionMeaning(VIEWS["sum"])
        exact = judge(replay(events), lambda _, meaning=meaning: meaning)
        assert str(large.level("record")) == str(exact.level("record")), events
        proved, refuted = large.level("view").proved, exact.level("view").not_refuted
        order = ("not converged", "converged", "weak", "strong", "complete")
        assert order.index(proved) <= order.index(refuted), events
        compared += 1
    assert compared > 50


def test_a_view_record_that_nobody_ever_wrote_is_missed_by_no_path() -> None:
    chance = random.Random(10)
    refuted = 0
    for _ in range(30):
        events = certified(chance, "sum", moves=True, steps=10)
        lost = chance.choice([e for e in events if isinstance(e, ev.TestAndSetCalled)]).view_key
        mine = {e.operation for e in events if isinstance(e, ev.TestAndSetCalled) and e.view_key == lost}
        events = [
            e
            for e in events
            if not (isinstance(e, ev.TestAndSetCalled | ev.TestAndSetReturned) and e.operation in mine)
        ]
        large = large_of(events, "sum")
        meaning = DefinitionMeaning(VIEWS["sum"])
        exact = judge(replay(events), lambda _, meaning=meaning: meaning)
        if large is not None:
            assert str(large.level("record")) == str(exact.level("record")), events
            refuted += large.level("record").not_refuted == "not converged"
    assert refuted > 5


def test_a_rest_ends_with_the_next_base_update() -> None:
    """What was written after the last rest need not have been propagated: no path holds it against the run."""
    chance = random.Random(11)
    for number in range(20):
        run = certified(chance, "sum", steps=6)
        late = Recorder()
        late.time, late.operation = run[-1].time, 1_000 + number
        late.events = run
        late.base("late", {"k": "late", "x": 0, "y": 1})
        exact = judge(replay(run), lambda _: DefinitionMeaning(VIEWS["sum"]))
        assert large_of(run, "sum") is None
        assert {f.verdict for f in exact.of("converged", "record")} == {Verdict.UNDECIDED}
        assert not [f for f in exact.findings if f.verdict is Verdict.VIOLATED]
        again = late.rest()
        exact = judge(replay(again), lambda _: DefinitionMeaning(VIEWS["sum"]))
        assert Verdict.VIOLATED in {f.verdict for f in exact.of("converged", "record")}


@pytest.mark.parametrize("runs", [40, pytest.param(120, marks=pytest.mark.slow)])
def test_an_unknown_base_update_leaves_only_what_it_touches_to_the_exact_judge(runs: int) -> None:
    chance = random.Random(14)
    compared = some = 0
    for number in range(runs):
        name = chance.choice(("sum", "count", "rows"))
        events = certified(chance, name, moves=number % 2 == 0)
        places = [i for i, e in enumerate(events) if isinstance(e, ev.BaseUpdateReturned)]
        place = chance.choice(places)
        outcome = chance.choice(("unknown", "rejected", "not_sent"))
        events[place] = msgspec.structs.replace(events[place], outcome=outcome)
        if chance.random() < 0.3:
            called = events[place - 1]
            received = ev.UpdateReceived(
                process="m",
                time=called.time,
                stream="s",
                entry=1,
                table="r",
                key=called.key,
                version=called.version,
            )
            events.insert(place, received)
        large = large_of(events, name)
        if large is None:
            continue
        meaning = DefinitionMeaning(VIEWS[name])
        exact = judge(replay(events), lambda _, meaning=meaning: meaning)
        for found in exact.findings:
            if found.granularity == "record" and found.property in LEVELS:
                mine = [f for f in large.of(found.property, "record") if f.key == found.key]
                assert all(f.verdict is found.verdict for f in mine), (found, mine, events)
        assert str(large.level("record")) == str(exact.level("record")), events
        compared += 1
        some += any(f.count > 1 or f.tier == "lineage" for f in large.findings if f.verdict is Verdict.HOLDS)
    assert compared > runs // 3
    assert some > runs // 6


def test_a_base_record_in_two_view_records_is_no_base_state() -> None:
    """Each of the two absorbs in order, and one of them the later version before the other the earlier one."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS["count"]))
    run.base("k", {"k": "k", "x": 0, "y": 1})
    run.write(0, {"x": 0, "count": 1}, [("k", 0, 1)])
    run.base("k", None)
    run.base("k", {"k": "k", "x": 1, "y": 1})
    run.write(1, {"x": 1, "count": 1}, [("k", 0, 3)])
    run.write(0, None, [("k", 1, 2)])
    large = large_of(run.rest(), "count")
    assert large is not None
    assert str(large.level("view")) == "converged"
    assert large.of("weak", "view")[0].verdict is Verdict.VIOLATED


def apart(chance: random.Random, name: str) -> list[Any]:
    """A right run of which each view record absorbs when it likes; of one base record in order."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS[name]))
    rows: dict[str, dict[str, Any] | None] = {}
    pending: list[tuple[int, str, int, int, int | None]] = []  # group, base key, from, to, what it adds
    reached: dict[tuple[int, str], int] = {}
    held: dict[int, dict[str, int]] = {}
    for step in range(10):
        if step < 8:
            key = f"k{chance.randrange(3)}"
            before = rows.get(key)
            after = (
                None
                if before and chance.random() < 0.3
                else {"k": key, "x": chance.randrange(2), "y": 1 + chance.randrange(3)}
            )
            version, rows[key] = run.base(key, after), after
            for group in {r["x"] for r in (before, after) if r is not None}:
                adds = after["y"] if after is not None and after["x"] == group else None
                pending.append((group, key, version - 1, version, adds))
        while pending and (step == 9 or chance.random() < 0.5):
            chosen = chance.choice(pending)[:2]
            first = next(it for it in pending if it[:2] == chosen)
            pending.remove(first)
            group, key, low, high, adds = first
            low = chance.choice((low, reached.get((group, key), 0)))
            reached[group, key] = high
            mine = held.setdefault(group, {})
            mine.pop(key, None)
            if adds is not None:
                mine[key] = adds
            shown = (
                {"x": group, "sum": sum(mine.values())} if name == "sum" else {"x": group, "count": len(mine)}
            )
            run.write(group, shown if mine else None, [(key, low, high)])
    return run.rest()


@pytest.mark.parametrize("runs", [60, pytest.param(1_500, marks=pytest.mark.slow)])
def test_view_records_that_go_each_at_its_own_pace_are_judged_alike(runs: int) -> None:
    """One by one in another order is complete; a base record in two view records at once is no base state."""
    chance = random.Random(15)
    found: dict[Any, int] = {}
    for _ in range(runs):
        name = chance.choice(("sum", "count"))
        events = apart(chance, name)
        large = large_of(events, name)
        if large is None:
            continue
        meaning = DefinitionMeaning(VIEWS[name])
        exact = judge(replay(events), lambda _, meaning=meaning: meaning)
        assert str(large.level("record")) == str(exact.level("record")) == "complete", events
        for prop in LEVELS:
            for one, other in zip(large.of(prop, "view"), exact.of(prop, "view"), strict=True):
                pair = one.verdict, other.verdict
                found[prop, *pair] = found.get((prop, *pair), 0) + 1
                assert pair != (Verdict.HOLDS, Verdict.VIOLATED), (events, prop, one, other)
                assert one.verdict is other.verdict or one.tier == "lineage", (events, prop, one, other)
    assert found["weak", Verdict.VIOLATED, Verdict.VIOLATED] > runs // 4
    assert found["complete", Verdict.HOLDS, Verdict.HOLDS] >= runs // 12
