"""A view of which only reads are known: what overlapping reads, or nobody, may have seen is not held against it."""

import random
from collections import Counter
from itertools import permutations
from typing import Any

from cvs.checker import brute
from cvs.checker.classify import judge
from cvs.checker.replay import replay
from cvs.checker.verdict import Verdict
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.model.outcome import OutcomeKind
from cvs.report.hand import judge_events
from tests.stories.views import VIEWS

LEVELS = {"weak": brute.weak, "strong-pairwise": brute.pairwise, "strong": brute.chain}
Read = tuple[int, int, int]  # called, returned, the sum that was shown


def history(images: list[list[int]], reads: list[Read], rest: int) -> list[Any]:
    """A table of a few rows in one group, and reads of their sum; 0 is no row."""
    view = {**definition_to_json(VIEWS["sum"]), "name": "v"}
    events: list[Any] = []
    time = 0
    for key, values in enumerate(images):
        for version, value in enumerate(values, 1):
            time += 1
            row = {"k": key, "x": 0, "y": value}
            called = ev.BaseUpdateCalled(
                process="w", time=time, operation=time, table="r", key=(key,), version=version, row=row
            )
            events += [
                called,
                ev.BaseUpdateReturned(process="w", time=time, operation=time, outcome="applied"),
            ]
    for number, (begin, end, shown) in enumerate(reads):
        rows = (((0,), {"x": 0, "sum": shown}),) if shown else ()
        who = {"process": f"a{number}", "operation": 1}
        events.append(ev.ViewReadCalled(**who, time=begin, view="v", view_key=(0,)))
        events.append(ev.ViewReadReturned(**who, time=end, rows=rows))
    events.append(ev.Quiescent(process="w", time=rest))
    started = [
        ev.RunStarted(process=p, time=0, run="r", views=(view,)) for p in ("w", *(f"a{n}" for n in range(9)))
    ]
    return [*started, *sorted(events, key=lambda event: event.time)]


def orders(reads: list[Read]) -> list[tuple[Read, ...]]:
    """List the orders in which the reads may have seen what they saw."""
    return [
        o for o in permutations(reads) if all(not o[j][1] < o[i][0] for j in range(len(o)) for i in range(j))
    ]


def test_reads_are_judged_in_every_order_that_they_may_have_had() -> None:
    chance = random.Random(12)
    count: Counter[str] = Counter()
    for _ in range(250):
        images = [
            [chance.randint(1, 4) for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(1, 2))
        ]
        tops = tuple(map(len, images))

        def meaning(cut: tuple[int, ...], images: list[list[int]] = images) -> int:
            return sum([0, *each][at] for each, at in zip(images, cut, strict=True))

        reads, cut = [], [0] * len(images)
        for number in range(chance.randint(1, 4)):
            cut = [min(top, at + chance.choice((0, 0, 1, 1, 2))) for top, at in zip(tops, cut, strict=True)]
            at = 100 + 20 * number
            shown = meaning(tuple(cut)) + (chance.random() < 0.1)
            reads.append((at - chance.choice((0, 0, 5, 30)), at + chance.choice((1, 6, 31)), shown))
        if chance.random() < 0.3:
            chance.shuffle(reads)
            reads = [(a, b, s) for (a, b, _), (_, _, s) in zip(sorted(reads), reads, strict=True)]
        end = meaning(tops) + (chance.random() < 0.1)
        last = (chance.choice((300, 500)), 501, end)
        judged = judge_events(history(images, [*reads, last], 400))
        said = {f.property: f.verdict for f in judged.findings if f.granularity == "record"}
        courses = [tuple(s for _, _, s in order) for order in orders([*reads, last])]
        for name, holds in LEVELS.items():
            found = {holds(tops, meaning, states) for states in courses} if end == meaning(tops) else {False}
            assert said[name] is not Verdict.VIOLATED or found == {False}, (name, images, reads)
            assert said[name] is not Verdict.HOLDS or True in found, (name, images, reads)
            count[said[name].value] += 1
        assert said["complete"] is not Verdict.VIOLATED or said["strong"] is Verdict.VIOLATED
        late = Verdict.UNDECIDED if last[0] < 400 else Verdict.VIOLATED
        assert said["converged"] is (Verdict.HOLDS if end == meaning(tops) else late)
    assert min(count["holds"], count["violated"], count["undecided"]) > 30, count


def test_of_two_reads_at_once_either_may_have_been_the_first() -> None:
    """One began before a change and ended after it; the other saw the change in between."""
    slow, quick, last = (10, 100, 1), (20, 50, 2), (150, 160, 2)
    judged = judge_events(history([[1, 2]], [slow, quick, last], 140))
    assert not [f for f in judged.findings if f.verdict is Verdict.VIOLATED and f.granularity == "record"]
    apart = judge_events(history([[1, 2]], [(60, 100, 1), quick, last], 140))
    assert {f.property for f in apart.findings if f.verdict is Verdict.VIOLATED} >= {
        "strong",
        "strong-pairwise",
    }


def small_run(chance: random.Random) -> list[Any]:
    """A few test-and-sets on one record, one after another or at once, and reads of it with and without signatures."""
    events: list[Any] = []
    at, version, rows = 0, 0, {0: None}
    for number in range(1, chance.randint(2, 4)):
        outcome = chance.choice(("applied", "applied", "unknown", "rejected"))
        begin, end = at + chance.choice((1, 5)), at + chance.choice((10, 30))
        at = end if chance.random() < 0.7 else begin
        row = {"sum": chance.randint(1, 2)} if chance.random() < 0.8 else None
        new = (0, number, 0, True)
        expected = (0, version, 0, True) if version else None
        events.append(
            ev.TestAndSetCalled(
                process=f"m{number}",
                time=begin,
                operation=1,
                view="v",
                view_key=(0,),
                expected=expected,
                new=new,
                row=row,
            )
        )
        took = outcome == "applied" or (outcome == "unknown" and chance.random() < 0.5)
        if outcome == "rejected":
            took = False
            returned = chance.choice([(0, v, 0, True) for v in rows if v and v != version] or [None])
        else:
            returned = None
        if took:
            version = number
            rows[number] = row
        events.append(
            ev.TestAndSetReturned(
                process=f"m{number}", time=end, operation=1, outcome=outcome, returned=returned
            )
        )
    for number in range(1, chance.randint(2, 4)):
        seen = chance.choice(list(rows))
        begin = chance.randint(0, at + 10)
        signature = (0, seen, 0, True) if seen and chance.random() < 0.4 else None
        row = rows[seen] if chance.random() < 0.9 else {"sum": 3}
        who = {"process": f"a{number}", "operation": 1}
        whole = signature is None and chance.random() < 0.3
        events.append(ev.ViewReadCalled(**who, time=begin, view="v", view_key=None if whole else (0,)))
        events.append(
            ev.ViewReadReturned(
                **who,
                time=begin + chance.choice((0, 6, 25)),
                rows=(((0,), row),) if row else (),
                signature=signature,
            )
        )
    started = [
        ev.RunStarted(process=p, time=0, run="r", views=({"name": "v"},))
        for p in ("m1", "m2", "m3", "a1", "a2", "a3")
    ]
    return [*started, *sorted(events, key=lambda event: event.time)]


def linearizable(events: list[Any]) -> bool:
    """Try every order of the operations that time allows, unknown ones taking effect or not."""
    run = replay(events)
    view = run.views["v"]
    operations = [*view.whole_reads, *(o for r in view.records.values() for o in (*r.attempts, *r.reads))]

    def explained(left: list[Any], signature: Any, row: Any) -> bool:
        if not left:
            return True
        for one in left:
            if any(other.returned < one.called for other in left if other is not one):
                continue
            rest = [other for other in left if other is not one]
            if not hasattr(one, "outcome"):
                same = one.rows.get((0,)) == row and one.signature in (None, signature)
                if same and explained(rest, signature, row):
                    return True
                continue
            fits = one.expected == signature
            if (
                one.outcome in (OutcomeKind.APPLIED, OutcomeKind.UNKNOWN)
                and fits
                and explained(rest, one.new, one.row)
            ):
                return True
            if one.outcome is OutcomeKind.UNKNOWN and explained(rest, signature, row):
                return True
            refused = one.outcome is OutcomeKind.REJECTED and not fits and one.seen in (None, signature)
            if refused and explained(rest, signature, row):
                return True
        return False

    return explained(operations, None, None)


def test_reads_beside_test_and_sets_are_judged_as_every_order_says() -> None:
    chance = random.Random(13)
    count: Counter[str] = Counter()
    for _ in range(1_500):
        events = small_run(chance)
        found = judge(replay(events), lambda _: None).of("linearizability", "record")
        if not found:
            continue
        said, truth = found[0].verdict, linearizable(events)
        assert said is not Verdict.VIOLATED or not truth, (found[0], events)
        assert said is not Verdict.HOLDS or truth, events
        count[said.value] += 1
    assert min(count["holds"], count["violated"], count["undecided"]) > 30, count
