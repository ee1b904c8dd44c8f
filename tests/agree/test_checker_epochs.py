"""Runs in epochs, where one test-and-set absorbs several base updates: the bulk path against the exact judge.

Whatever it accepts, the exact judge finds the same of it: strong, and complete or not; of snapshots too. Damaged runs
are refused, or refuted by both.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from cvs.checker import wholes
from cvs.checker.bulk import accept, bulk_of
from cvs.checker.classify import Judgement, judge
from cvs.checker.large import PROVED, judge_large
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.replay import replay
from cvs.checker.verdict import Verdict
from cvs.history import events as ev
from cvs.history.checkpoint import rolled
from cvs.history.columns import Gathered
from cvs.history.fields import APPLIED, UNKNOWN
from cvs.model.definitions import definition_to_json, view_from_json
from cvs.report.hand import events_in_bulk, judge_events
from tests.agree.problems import Recorder, is_history
from tests.agree.test_checker_bulk import damaged
from tests.stories.views import VIEWS

NAMES = ("sum", "count", "rows", "small", "planned")
BUDGET = 1_000_000


def in_epochs(chance: random.Random, name: str, *, epochs: int = 4, moves: bool) -> list[Any]:
    """A right run of a view maintained epoch by epoch, as a pipeline records it."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS[name]))
    rows: dict[str, dict[str, Any] | None] = {}
    held: dict[tuple[Any, str], int] = {}
    taken: dict[str, int] = {}
    signed: dict[Any, tuple[int, int, int, bool]] = {}
    for epoch in range(1, epochs + 1):
        touched: dict[Any, set[str]] = {}
        for _ in range(chance.randint(epoch == 1, 4)):
            key = f"k{chance.randrange(4)}"
            before = rows.get(key)
            group = before["x"] if before and not moves else chance.randrange(3)
            after = (
                None if before and chance.random() < 0.2 else {"k": key, "x": group, "y": chance.randrange(4)}
            )
            run.base(key, after)
            rows[key] = after
            for row in filter(None, (before, after)):
                touched.setdefault(key if name in ("rows", "small") else row["x"], set()).add(key)
        for record, keys in touched.items():
            lines = []
            for key in sorted(keys):
                last = run.versions["r", key]
                lines.append((key, held.get((record, key), 0), last))
                held[record, key] = last
            new = (0, epoch, 0, True)
            shown = _shown(name, record, rows)
            run.write_record((record,), shown, lines, expected=signed.get(record), new=new)
            signed[record] = new
        moved = sorted({key for keys in touched.values() for key in keys})
        told = tuple(
            ev.Absorbed(table="r", key=(k,), from_version=taken.get(k, 0), to_version=run.versions["r", k])
            for k in moved
        )
        taken |= {k: run.versions["r", k] for k in moved}
        run.events.append(
            ev.EpochCommitted(
                process="m", time=run.tick(), pipeline="p", incarnation=0, epoch=epoch, absorbed=told
            )
        )
    return run.rest()


def from_a_checkpoint(chance: random.Random, events: list[Any]) -> list[Any]:
    """Forget what was before one of the epochs, as a rolling recording does; now and then it is told wrongly."""
    commits = [i for i, e in enumerate(events) if isinstance(e, ev.EpochCommitted)]
    place = chance.choice(commits[:-1])
    rest = ev.Quiescent(process="w", time=events[place].time)
    found = rolled([*events[: place + 1], rest, *events[place + 1 :]])
    at = next(i for i, e in enumerate(found) if isinstance(e, ev.Checkpoint))
    dice, begun = chance.random(), found[at]
    if dice < 0.1 and begun.views:
        which = chance.randrange(len(begun.views))
        lines = list(begun.views)
        view, key, signature, row = lines[which]
        signature, row = chance.choice(((signature, None), (None, row), ((0, 0, 0, True), row)))
        lines[which] = (view, key, signature, row)
        begun = msgspec.structs.replace(begun, views=tuple(chance.choice((lines, begun.views[1:]))))
    elif dice < 0.2 and begun.base:
        begun = msgspec.structs.replace(begun, base=begun.base[1:])
    return [*found[:at], begun, *found[at + 1 :]]


def _shown(name: str, record: Any, rows: dict[str, dict[str, Any] | None]) -> dict[str, Any] | None:
    present = [(("r", (key,)), row) for key, row in rows.items() if row is not None]
    found = DefinitionMeaning(VIEWS[name]).view(dict(present)).get((record,))
    return None if found is None else dict(found)  # type: ignore[call-overload]


def loosened(chance: random.Random, events: list[Any]) -> list[Any]:
    """Let some answers come later, and some calls leave earlier: operations overlap."""
    events = list(events)
    first = next(i for i, e in enumerate(events) if not isinstance(e, ev.RunStarted | ev.Checkpoint))
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(first, len(events) - 1)
        event = events[place]
        if isinstance(event, ev.BaseUpdateReturned | ev.TestAndSetReturned):
            to = min(place + chance.randint(1, 8), len(events) - 2)
        elif isinstance(event, ev.BaseUpdateCalled | ev.TestAndSetCalled):
            to = max(place - chance.randint(1, 8), first)
        else:
            continue
        events.insert(to, events.pop(place))
    start = events[:first]
    times = (start[-1].time + 10 * i for i in range(1, len(events)))
    return start + [msgspec.structs.replace(e, time=t) for e, t in zip(events[first:], times, strict=False)]


def harmed(chance: random.Random, events: list[Any]) -> list[Any]:
    """Change one thing: a write, a base update, a commit, or lose an answer."""
    dice = chance.random()
    places = [i for i, e in enumerate(events) if isinstance(e, ev.EpochCommitted) and e.absorbed]
    if dice < 0.3 and places:
        place = chance.choice(places)
        lines = list(events[place].absorbed)
        which = chance.randrange(len(lines))
        line = lines.pop(which)
        if dice < 0.2:
            change = chance.choice(({"to_version": line.to_version + 1}, {"from_version": line.to_version}))
            lines.insert(which, msgspec.structs.replace(line, **change))
        return [
            *events[:place],
            msgspec.structs.replace(events[place], absorbed=tuple(lines)),
            *events[place + 1 :],
        ]
    if dice < 0.4:
        answers = [
            i for i, e in enumerate(events) if isinstance(e, ev.BaseUpdateReturned | ev.TestAndSetReturned)
        ]
        place = chance.choice(answers)
        return [*events[:place], *events[place + 1 :]]
    return damaged(chance, events)


def silent(chance: random.Random, events: list[Any]) -> list[Any]:
    """Lose answers of writes that took effect, and put others beside them that nobody heard of: they did not."""
    found: list[Any] = []
    lost: set[tuple[str, int]] = set()
    for place, event in enumerate(events):
        if isinstance(event, ev.TestAndSetReturned) and (event.process, event.operation) in lost:
            continue
        found.append(event)
        if not isinstance(event, ev.TestAndSetCalled):
            continue
        if chance.random() < 0.4:
            lost.add((event.process, event.operation))
        if chance.random() < 0.3:
            incarnation, epoch, *_ = event.new
            new = event.new if chance.random() < 0.5 else (incarnation, epoch - 1, 7, True)
            row = event.row if chance.random() < 0.5 else None
            found.append(
                msgspec.structs.replace(event, operation=10_000 + place, process="m2", new=new, row=row)
            )
    return found


def both(events: list[Any], name: str) -> tuple[Any, Judgement | None, Judgement]:
    """Return what was accepted, the judgement as of a large run, and the exact one."""
    meaning = DefinitionMeaning(VIEWS[name])

    def gathered() -> Any:
        bulk = bulk_of([e for e in events if isinstance(e, ev.RunStarted)], view_from_json, {})
        found = Gathered(bulk.readers)
        found.take(events)
        return found.columns(), bulk

    columns, bulk = gathered()
    accepted = accept(columns, bulk)
    short = accepted.short["v"].records if accepted is not None and "v" in accepted.short else ()
    refuted = {columns.records[i][1] for i, flag in enumerate(short) if flag}
    columns, bulk = gathered()
    large = judge_large(
        columns, bulk, lambda numbers: [events[n - 1] for n in numbers], lambda _: meaning, budget=BUDGET
    )
    exact = judge(replay(events), lambda _: meaning, budget=BUDGET)
    return (accepted, refuted), large, exact


def agree(seed: int, number: int) -> Counter[str]:
    chance = random.Random(seed)
    count: Counter[str] = Counter()
    for _ in range(number):
        name = chance.choice(NAMES)
        events = in_epochs(chance, name, moves=chance.random() < 0.6)
        begun = chance.random() < 0.4
        if begun:
            events = from_a_checkpoint(chance, events)
        if chance.random() < 0.6:
            events = loosened(chance, events)
        if chance.random() < 0.4 and any(isinstance(e, ev.BaseUpdateCalled) for e in events):
            events = harmed(chance, events)
        if chance.random() < 0.3:
            events = silent(chance, events)
            count["answers were lost"] += 1
        if not is_history(events):
            count["no history"] += 1
            continue
        (accepted, refuted), large, exact = both(events, name)
        if accepted is None:
            count["left whole to the exact judge"] += 1
            continue
        count["begun at a checkpoint"] += begun
        _same_of_records(accepted, refuted, exact, events, count)
        if large is not None:
            _same_of_wholes(large, exact, events, count)
    return count


def _same_of_records(accepted: Any, refuted: Any, exact: Judgement, events: Any, count: Counter[str]) -> None:
    verdicts = {(f.property, f.view, f.key): f.verdict for f in exact.findings if f.granularity == "record"}
    elsewise = accepted.elsewise.get("v", 0)  # so many are complete in another order than the recorded one
    for record in accepted.names:
        for name in PROVED:
            wanted = Verdict.HOLDS
            if name.startswith("complete") and record[1] in refuted:
                wanted = Verdict.VIOLATED
            said = verdicts.get((name, *record))
            if said is None and name == "certificates":
                count["accepted, never written"] += 1
                continue
            if said is Verdict.VIOLATED and name == "complete-recorded-order" and wanted is Verdict.HOLDS:
                elsewise -= 1
                assert elsewise >= 0, (name, record, events)
                continue
            assert said is wanted, (name, record, wanted, said, events)
        count["accepted, complete" if record[1] not in refuted else "accepted, strong and not complete"] += 1
    count["records left to the exact judge"] += len(accepted.others)
    measured = [
        f.witness.facts
        for f in exact.findings
        if f.property == "staleness" and f.witness and (f.view, f.key) in accepted.names
    ]
    if measured:
        # the exact judge takes the oldest base states that explain; what the program held may be newer
        theirs = max(m["versions"] for m in measured), max(m["nanoseconds"] for m in measured)
        ours = accepted.stale["v"].versions, accepted.stale["v"].nanoseconds
        assert ours[0] <= theirs[0], events
        assert ours[1] <= theirs[1], events
        count["staleness alike" if ours == theirs else "staleness less"] += 1


def _same_of_wholes(large: Judgement, exact: Judgement, events: Any, count: Counter[str]) -> None:
    assert str(large.level("record")) == str(exact.level("record")), events
    for granularity in ("view", "snapshots"):
        for name in PROVED[1:8]:
            ours, theirs = large.of(name, granularity), exact.of(name, granularity)
            if not ours or ours[0].verdict is Verdict.UNDECIDED:
                continue
            verdict, other = ours[0].verdict, theirs[0].verdict
            told = (granularity, name, verdict, other, events)
            if granularity == "view" and verdict is Verdict.VIOLATED and ours[0].witness is not None:
                # what the program held was no base state; that a reader could excuse it by values may be
                count["views refuted by lineage"] += 1
                count["... which values excuse"] += other is Verdict.HOLDS
                continue
            if verdict is Verdict.VIOLATED and name.startswith("complete"):
                assert other is not Verdict.HOLDS, told
            else:
                assert other is verdict, told
            count[f"{granularity} {verdict.value}"] += 1


def test_runs_in_epochs_are_judged_alike_in_bulk(told: Callable[[str], None]) -> None:
    count = agree(seed=1, number=60)
    told(str(dict(sorted(count.items()))))
    assert count["accepted, complete"] > 30, count
    assert count["accepted, strong and not complete"] > 30, count
    assert count["snapshots holds"] > 30, count


def _nothing(*_: Any) -> Any:
    return wholes._steps(*np.zeros((4, 0), np.int64))


def _believed(_: Any, mine: list[int], outcome: Any) -> None:
    """Take every write for one that took effect if nobody heard of it."""
    outcome[mine] = np.where(outcome[mine] == UNKNOWN, APPLIED, outcome[mine])


WRONG: list[dict[str, Any]] = [
    {"columns._resolve": _believed},
    {"bulk.final_of": lambda *_: None},  # the end is not looked at
    {"changes.certain": lambda _, record, __: record >= 0},  # what adds nothing counts as shown
    {"wholes._shared": lambda *_: False},  # no base record moves
    {"wholes._claimed": _nothing, "wholes._held": _nothing},  # commits are not compared with writes
]


@pytest.mark.slow
@pytest.mark.parametrize("rules", WRONG, ids=lambda rules: next(iter(rules)))
def test_each_rule_left_out_is_found(rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, instead in rules.items():
        monkeypatch.setattr(f"cvs.checker.{name}", instead)
    with pytest.raises(AssertionError):
        agree(seed=1, number=600)


def test_an_answer_that_comes_late_hides_no_version_from_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write absorbs what was called after the second one, which follows it, had returned."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS["sum"]))
    run.base("k0", {"k": "k0", "x": 0, "y": 1})
    run.base("k1", {"k": "k1", "x": 0, "y": 2})
    run.write(0, {"x": 0, "sum": 2}, [("k1", 0, 1)])
    run.write(0, {"x": 0, "sum": 3}, [("k0", 0, 1)], process="m2")
    *start, c0, r0, c1, r1, t1, a1, t2, a2, rest = run.rest()
    late = [c0, t1, t2, a2, c1, r1, a1, r0, rest]
    events = [*start, *(msgspec.structs.replace(e, time=10 * i) for i, e in enumerate(late, 1))]
    (accepted, _), _, exact = both(events, "sum")
    assert [f.verdict for f in exact.of("no-future", "record")] == [Verdict.VIOLATED]
    assert accepted.names == []
    monkeypatch.setattr("cvs.checker.bulk.settled", lambda writes, _: writes)
    assert both(events, "sum")[0][0].names, "else this shows nothing"


@pytest.mark.slow
def test_thousands_of_runs_in_epochs_are_judged_alike_in_bulk(told: Callable[[str], None]) -> None:
    number = int(os.environ.get("CVS_EXAMPLES", "1000"))
    count = agree(seed=int(os.environ.get("CVS_SEED", "2")), number=number)
    told(str(dict(sorted(count.items()))))
    assert count["accepted, strong and not complete"] > number // 2, count
    assert count["records left to the exact judge"] > number // 5, count


def handed_over(events: list[Any]) -> list[Any]:
    """Let a pipeline be handed each base update as it returns."""
    found: list[Any] = []
    calls: dict[tuple[str, int], Any] = {}
    for event in events:
        found.append(event)
        if isinstance(event, ev.BaseUpdateCalled):
            calls[event.process, event.operation] = event
        if isinstance(event, ev.BaseUpdateReturned):
            of = calls[event.process, event.operation]
            found.append(
                ev.UpdateReceived(
                    process="m", time=event.time, stream="s", entry=len(found), table=of.table, key=of.key,
                    version=of.version,
                )
            )  # fmt: skip
    return found


def test_a_recording_is_judged_in_bulk_as_it_is_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time-line that was absorbed, where that is the one that was written; else exactly."""
    monkeypatch.setattr("cvs.report.hand.SMALL", 0)
    chance = random.Random(3)
    taken = 0
    for number in range(40):
        events = from_a_checkpoint(chance, in_epochs(chance, chance.choice(NAMES), moves=number % 2 == 0))
        if not any(isinstance(e, ev.TestAndSetCalled) for e in events):
            continue
        assert events_in_bulk(events, "write-time", BUDGET) is None
        moved = any(isinstance(e, ev.BaseUpdateCalled) for e in events)
        assert not moved or events_in_bulk(events, "absorbed", BUDGET) is None, "nobody was handed anything"
        events = handed_over(events)
        found, exact = events_in_bulk(events, "absorbed", BUDGET), judge_events(events, reference="absorbed")
        if found is None:
            continue
        taken += 1
        assert found.reference == exact.reference == "absorbed"
        for granularity in ("record", "view", "snapshots"):
            assert str(found.level(granularity)) == str(exact.level(granularity)), events
    assert taken > 10
