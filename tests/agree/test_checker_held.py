"""Views of every class, maintained in epochs: what their records hold against the exact judge.

Whatever is accepted, the exact judge finds the same of it, record by record and of snapshots; damaged runs are
left to it.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any

import msgspec
import pytest

from cvs.checker import epochwise, held
from cvs.checker.bulk import bulk_of
from cvs.checker.classify import Judgement, judge
from cvs.checker.large import COMPLETE, PROVED, judge_large
from cvs.checker.meaning import IMPOSSIBLE, DefinitionMeaning
from cvs.checker.replay import ENDLESS, replay
from cvs.checker.verdict import LEVELS, Verdict
from cvs.checker.wholes import WholeView
from cvs.history import events as ev
from cvs.history.columns import Gathered
from cvs.model.definitions import definition_to_json, view_from_json
from cvs.model.expressions import Call, Column
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    Join,
    Named,
    OrderBy,
    Project,
    Select,
    TopK,
    ViewDefinition,
)
from tests.agree.problems import Recorder
from tests.agree.test_checker_epochs import from_a_checkpoint, harmed, loosened, silent
from tests.stories.views import VIEWS, R, S

ON = ((Column("r.y"), Column("s.k")),)
BUDGET = 1_000_000


def _named(*names: str) -> tuple[Named, ...]:
    return tuple(Named(name=name.split(".")[-1], expression=Column(name)) for name in names)


def _joined(kind: Any, *names: str) -> ViewDefinition:
    relation = Project(source=Join(kind=kind, left=R, right=S, on=ON), columns=_named(*names))
    return ViewDefinition(name="v", relation=relation, key=("k",))


def _folded(source: Any, group: str, **columns: tuple[AggregateFunction, str | None]) -> ViewDefinition:
    folds = tuple(
        AggregateColumn(name=name, function=function, argument=None if of is None else Column(of))
        for name, (function, of) in columns.items()
    )
    relation = Aggregate(source=source, group=_named(group), aggregates=folds)
    return ViewDefinition(name="v", relation=relation, key=(group.split(".")[-1],))


F = AggregateFunction


def _above_the_mean_of_its_own() -> Join:
    """Rows not below the mean of their group: each hangs on its group alone."""
    means = Aggregate(
        source=R, group=(Named(name="g", expression=Column("r.x")),),
        aggregates=(AggregateColumn(name="mean", function=F.AVG, argument=Column("r.y")),),
    )  # fmt: skip
    on, least = ((Column("r.x"), Column("g")),), Call(">=", (Column("r.y"), Column("mean")))
    return Join(kind="inner", left=R, right=means, on=on, residual=least)


KINDS = {
    **{name: VIEWS[name] for name in ("sum", "rows", "small", "join", "both", "total")},
    "extremes": _folded(R, "r.x", least=(F.MIN, "r.y"), most=(F.MAX, "r.y")),
    "mean": _folded(R, "r.x", mean=(F.AVG, "r.y"), count=(F.COUNT, None), sum=(F.SUM, "r.d")),
    "left": _joined("left", "r.k", "r.y", "s.z"),
    "semi": _joined("semi", "r.k", "r.y"),
    "anti": _joined("anti", "r.k", "r.y"),
    "fold of a join": _folded(
        Join(kind="inner", left=R, right=S, on=ON), "s.x", count=(F.COUNT, None), most=(F.MAX, "r.y")
    ),
    "fold of pairs": _folded(
        Join(kind="inner", left=R, right=S, on=((Column("r.x"), Column("s.x")),)), "r.x", sum=(F.SUM, "s.z")
    ),
    "above the mean of its own": ViewDefinition(
        name="v", relation=Project(source=_above_the_mean_of_its_own(), columns=_named("r.k", "r.y")), key=("k",)
    ),
    "the largest of counts": _folded(
        Aggregate(
            source=R, group=_named("r.x", "r.y"), aggregates=(AggregateColumn(name="n", function=F.COUNT),)
        ),
        "x", most=(F.MAX, "n"),
    ),
}  # fmt: skip


JOINS = [
    "join",
    "left",
    "both",
    "semi",
    "anti",
    "fold of a join",
    "fold of pairs",
    "above the mean of its own",
]


def _row(chance: random.Random, table: str, key: Any) -> dict[str, Any]:
    if table == "s":
        return {"k": key, "x": chance.randrange(3), "z": chance.randrange(3)}
    y = chance.randrange(4)
    return {"k": key, "x": chance.randrange(3), "y": y, "d": Decimal(y) / 10}


def _meaning(name: str, _: Any) -> DefinitionMeaning:
    return DefinitionMeaning(KINDS[name])


def in_epochs(
    chance: random.Random, name: str, *, epochs: int = 4, kinds: Mapping[str, ViewDefinition] = KINDS
) -> list[Any]:
    """A right run of a view over two tables, each write of which absorbs all that moved since the one before."""
    run, meaning = Recorder(), DefinitionMeaning(kinds[name])
    run.named("run", definition_to_json(kinds[name]))
    rows: dict[tuple[str, tuple[Any]], dict[str, Any] | None] = {}
    taken: dict[tuple[str, Any], int] = {}
    held_by: dict[Any, dict[tuple[str, Any], int]] = {}
    signed: dict[Any, tuple[int, int, int, bool]] = {}
    shown = dict(meaning.view({}))
    for epoch in range(1, epochs + 1):
        for _ in range(chance.randint(epoch == 1, 3)):
            table, key = chance.choice([("r", f"k{n}") for n in range(3)] + [("s", n) for n in range(3)])
            before = rows.get((table, (key,)))
            after = None if before and chance.random() < 0.25 else _row(chance, table, key)
            run.base(key, after, table=table)
            rows[table, (key,)] = after
        now = dict(meaning.view(rows))
        for key in sorted(shown.keys() | now.keys(), key=repr):
            moved = now.get(key) != shown.get(key)
            own = held_by.setdefault(key, {})
            lines = [
                (k, own.get((t, k), 0), v, t) for (t, k), v in run.versions.items() if v > own.get((t, k), 0)
            ]
            if not lines or not (moved or chance.random() < 0.1):
                continue
            own.update({(t, k): v for k, _, v, t in lines})
            value = now.get(key)
            new = (0, epoch, 0, True)
            row = None if value is None else dict(value)  # type: ignore[call-overload]
            run.write_record(key, row, lines, expected=signed.get(key), new=new)
            signed[key] = new
        shown = now
        told = tuple(
            ev.Absorbed(table=t, key=(k,), from_version=taken.get((t, k), 0), to_version=v)
            for (t, k), v in run.versions.items()
            if v > taken.get((t, k), 0)
        )
        taken |= {name: v for name, v in run.versions.items() if name[0] in ("r", "s")}
        run.events.append(
            ev.EpochCommitted(
                process="m", time=run.tick(), pipeline="p", incarnation=0, epoch=epoch, absorbed=told
            )
        )
    return run.rest()


def varied(chance: random.Random, events: list[Any]) -> list[Any]:
    """Begin a run at a checkpoint, loosen it in time, damage it: each by chance."""
    if chance.random() < 0.3:
        events = from_a_checkpoint(chance, events)
    if chance.random() < 0.4:
        events = loosened(chance, events)
    if chance.random() < 0.5 and any(isinstance(e, ev.BaseUpdateCalled) for e in events):
        events = harmed(chance, events)
    return silent(chance, events) if chance.random() < 0.3 else events


def agree(seed: int, number: int, kinds: list[str] | None = None) -> Counter[str]:
    chance = random.Random(seed)
    count: Counter[str] = Counter()
    for _ in range(number):
        name = chance.choice(kinds or list(KINDS))
        events = varied(chance, in_epochs(chance, name))
        if not any(isinstance(e, ev.TestAndSetCalled) for e in events):
            continue
        meaning = DefinitionMeaning(KINDS[name])
        run = replay(events)
        found = held.accept(run, run.views["v"], meaning, budget=BUDGET)
        assert found is not None
        exact = judge(run, partial(_meaning, name), budget=BUDGET)
        if run.rest is None:
            count["no rest"] += 1
            continue
        last = {it.record: it.versions[-1].row for it in run.timelines.values()}
        if (
            IMPOSSIBLE in meaning.view(last).values()
        ):  # two rows with one key: damage that the view has no meaning for
            count["no view"] += 1
            continue
        _same_of_records(found, exact, events, count, name)
        if found.snapshots is not None:
            _same_of_snapshots(found, exact, events, count)
        if found.whole is not None:
            _same_of_whole(found.whole, exact, events, count)
    return count


def _of_compared_with_mean() -> ViewDefinition:
    """Rows above the mean of all: no record hangs on a few base records."""
    mean = Aggregate(
        source=Project(source=R, columns=(Named(name="other", expression=Column("r.y")),)),
        group=(),
        aggregates=(AggregateColumn(name="mean", function=F.AVG, argument=Column("other")),),
    )
    joined = Join(kind="inner", left=R, right=mean, on=())
    above = Select(source=joined, predicate=Call(">=", (Column("r.y"), Column("mean"))))
    return ViewDefinition(name="v", relation=Project(source=above, columns=_named("r.k", "r.y")), key=("k",))


def _first_rows() -> ViewDefinition:
    least = TopK(source=R, order=(OrderBy(expression=Column("r.y")),), limit=2)
    return ViewDefinition(name="v", relation=Project(source=least, columns=_named("r.k", "r.y")), key=("k",))


WIDE = {**KINDS, "above the mean": _of_compared_with_mean(), "first rows": _first_rows()}


def agree_by_epochs(seed: int, number: int) -> Counter[str]:
    """Hold what commits tell of a view, of any kind, against the exact judge."""
    chance, count = random.Random(seed), Counter[str]()
    for _ in range(number):
        name = chance.choice(["above the mean", "first rows", chance.choice(list(KINDS))])
        meaning = DefinitionMeaning(WIDE[name])
        events = varied(chance, in_epochs(chance, name, kinds=WIDE))
        run = replay(events)
        if run.rest is None or not any(isinstance(e, ev.TestAndSetCalled) for e in events):
            continue
        found = epochwise.accept(run, run.views["v"], meaning)
        exact = judge(run, lambda _, meaning=meaning: meaning, budget=BUDGET)
        verdicts = {(f.property, f.key): f.verdict for f in exact.findings if f.granularity == "record"}
        for key in found.proved if found is not None else ():
            for level in PROVED:
                if level in (*COMPLETE, "certificates"):
                    continue
                said = verdicts.get((level, key))
                assert said is Verdict.HOLDS or (said is None and level == "linearizability"), (
                    name,
                    level,
                    key,
                    events,
                )
            count[f"accepted: {name}"] += 1
        for key in found.others if found is not None else ():
            count["left, not strong"] += verdicts.get(("strong", key)) is Verdict.VIOLATED
        if found is not None and found.snapshots is not None:
            _same_of_snapshots(found, exact, events, count)
    return count


def test_what_commits_show_of_any_view_the_exact_judge_finds(told: Callable[[str], None]) -> None:
    count = agree_by_epochs(seed=1, number=120)
    told(str(dict(sorted(count.items()))))
    assert min(count[f"accepted: {name}"] for name in ("above the mean", "first rows")) > 20, count
    assert count["snapshots"] > 15, count
    assert count["left, not strong"] > 5, count


def _same_of_records(
    found: held.Accepted, exact: Judgement, events: Any, count: Counter[str], kind: str
) -> None:
    verdicts = {(f.property, f.key): f.verdict for f in exact.findings if f.granularity == "record"}
    measured: dict[str, int] = Counter()
    for finding in exact.of("staleness", "record"):
        for name, value in (finding.witness.facts if finding.witness else {}).items():
            measured[name] = max(measured[name], value)
    for key in found.proved:
        for name in PROVED:
            if name in COMPLETE and key not in found.complete:
                continue
            said = verdicts.get((name, key))
            if said is None and name in ("certificates", "linearizability"):
                continue  # nobody wrote it
            if name == "certificates" and said is Verdict.UNDECIDED:
                count["certificates that the exact judge cannot decide"] += 1
                continue
            assert said is Verdict.HOLDS, (kind, name, key, said, events)
        count[f"accepted: {kind}"] += 1
        count["accepted, complete"] += key in found.complete
    count["left"] += len(found.others)
    count["left, not strong"] += sum(verdicts.get(("strong", k)) is Verdict.VIOLATED for k in found.others)
    if not found.others:
        assert found.stale.versions <= measured["versions"], events
        assert found.stale.nanoseconds <= measured["nanoseconds"], events


def _same_of_snapshots(found: held.Accepted, exact: Judgement, events: Any, count: Counter[str]) -> None:
    for name in PROVED[1:]:
        if name not in COMPLETE:
            (said,) = exact.of(name, "snapshots")
            assert said.verdict is Verdict.HOLDS, (name, said, events)
    count["snapshots"] += 1
    assert found.snapshots is not None
    (said,) = exact.of("complete", "snapshots")
    if found.snapshots.refuted is not None:
        assert said.verdict is Verdict.VIOLATED, (said, events)
        count["snapshots, not complete"] += 1
    elif found.snapshots.complete:
        assert said.verdict is Verdict.HOLDS, (said, events)
        (said,) = exact.of("complete-recorded-order", "snapshots")
        assert said.verdict is Verdict.HOLDS or not found.snapshots.in_recorded_order, (said, events)
        count["snapshots, complete"] += 1


def _same_of_whole(whole: WholeView, exact: Judgement, events: Any, count: Counter[str]) -> None:
    verdicts = {name: exact.of(name, "view")[0].verdict for name in PROVED[1:8]}
    if whole.evidence is None:
        assert {verdicts[n] for n in ("converged", "weak", "strong-pairwise", "strong", "no-future")} == {
            Verdict.HOLDS
        }, (verdicts, events)
        count["whole, strong"] += 1
        records = {f.verdict for f in exact.of("complete", "record")}
        assert (records == {Verdict.HOLDS}) == (verdicts["complete"] is Verdict.HOLDS), (verdicts, events)
        if records == {Verdict.HOLDS} and whole.in_recorded_order:
            assert verdicts["complete-recorded-order"] is Verdict.HOLDS, events
            count["whole, in the recorded order"] += 1
    elif whole.evidence.kind == "beside":
        assert verdicts["weak"] is not Verdict.HOLDS, (whole, verdicts, events)
        assert _stood_together(whole.evidence.facts["rows"], exact), (whole, events)
        count["whole, torn" + ", undecided" * (verdicts["weak"] is Verdict.UNDECIDED)] += 1
    else:
        (own,) = (it for it in exact.judged if it.subject.granularity == "view")
        assert not own.lineage.certified or own.torn, (whole, events)
        excused = verdicts["weak"] is Verdict.HOLDS  # by values
        count["whole, torn as certificates say" + ", but excused" * excused] += 1


def _stood_together(rows: frozenset[Any], exact: Judgement) -> bool:
    """Say whether two view records certainly showed these rows at one moment, and no base state has both."""
    spans = []
    for key, row in rows:
        (states,) = (j.subject.states for j in exact.judged if j.subject.key == key)
        following = [*(state.called for state in states[1:]), ENDLESS]
        spans.append([(s.returned, end) for s, end in zip(states, following, strict=True) if s.value == row])
    met = any(max(a, c) < min(b, d) for a, b in spans[0] for c, d in spans[1])
    (whole,) = (judged for judged in exact.judged if judged.subject.granularity == "view")
    cuts = product(*(range(top + 1) for top in whole.problem.tops))
    views = (dict(whole.problem.meaning(cut)) for cut in cuts)  # type: ignore[call-overload]
    return met and not any(all(view.get(key) == row for key, row in rows) for view in views)


def test_what_records_hold_tells_what_the_exact_judge_finds(told: Callable[[str], None]) -> None:
    count = agree(seed=1, number=120)
    told(str(dict(sorted(count.items()))))
    assert count["snapshots"] > 15, count
    assert count["left, not strong"] > 5, count


@pytest.mark.slow
def test_thousands_of_runs_tell_the_same(told: Callable[[str], None]) -> None:
    number = int(os.environ.get("CVS_EXAMPLES", "1500"))
    seed = int(os.environ.get("CVS_SEED", "2"))
    count = agree(seed, number) + agree(seed, number, JOINS)
    told(str(dict(sorted(count.items()))))
    assert all(count[f"accepted: {name}"] > number // 50 for name in KINDS), count
    assert count["whole, torn"] > number // 300, count


WRONG: dict[str, Any] = {
    "committed.Committed._matters": lambda *_: (
        False
    ),  # what the cut has and a view record does not is not looked at
    "committed.Committed._apart": lambda *_: False,
    "committed.Committed.goes_on": lambda *_: True,  # the lines of commits are believed
    "committed.Committed._by_one": lambda *_: False,
    "committed.Committed._one_by_one": lambda _: [],  # an epoch may have taken in several
    "beside._moving": lambda _: {},  # what two view records share is not looked at
    "beside._never": lambda *_: True,
    "beside._Meetings._window": lambda *_: (1, 1),  # nor when each was written
    "beside._Meetings._told": lambda *_: True,
    "beside._in_recorded_order": lambda _: True,
    "holding.loose_ends": lambda *_: [],  # a write that may have come last did not
    "holding.Holding.rows": lambda *_, **__: {},  # the end is not looked at, nor what was there at first
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(WRONG))
def test_each_rule_left_out_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"cvs.checker.{rule}", WRONG[rule])
    with pytest.raises((AssertionError, KeyError, IndexError)):
        agree(seed=1, number=800) + agree(seed=5, number=3000, kinds=JOINS)


WRONG_BY_EPOCHS: dict[str, Any] = {
    "committed.Committed.goes_on": lambda *_: True,
    "epochwise._Walk._compare": lambda *_: None,
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(WRONG_BY_EPOCHS))
def test_each_rule_of_epochs_left_out_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"cvs.checker.{rule}", WRONG_BY_EPOCHS[rule])
    with pytest.raises((AssertionError, KeyError, IndexError, AttributeError)):
        agree_by_epochs(seed=1, number=1500)


def _one_epoch(*, later: str = "", called_late: bool = False) -> tuple[list[Any], DefinitionMeaning]:
    """One row, one write that shows it, one commit; and what makes that no strong run."""
    run, view = Recorder(), WIDE["first rows"]
    run.named("run", definition_to_json(view))
    row = {"k": "k1", "x": 0, "y": 2, "d": None}
    run.base("k1", row)
    run.write_record(("k1",), {"k": "k1", "y": 2}, [("k1", 0, 1, "r")], expected=None, new=(0, 1, 0, True))
    lines = (ev.Absorbed(table="r", key=("k1",), from_version=0, to_version=1),)
    run.events.append(
        ev.EpochCommitted(process="m", time=run.tick(), pipeline="p", incarnation=0, epoch=1, absorbed=lines)
    )
    if later:
        run.base("k1", {**row, "y": 3}, outcome=later)
    events = run.rest()
    if called_late:  # the base update is called only after the write that shows it had returned
        *start, called, returned, write, written, commit, rest = events
        moved = (*start, write, written, called, returned, commit, rest)
        events = [msgspec.structs.replace(e, time=10 * at) for at, e in enumerate(moved)]
    return events, DefinitionMeaning(view)


@pytest.mark.parametrize(
    ("harm", "rule", "wrong"),
    [
        ({"later": "applied"}, "epochwise._Walk.end", lambda _: None),
        ({"called_late": True}, "holding._settled", lambda order: [ENDLESS for _ in order]),
    ],
)
def test_commits_tell_nothing_of_what_is_late_or_early(
    harm: dict[str, Any], rule: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, meaning = _one_epoch()
    right = epochwise.accept(run := replay(events), run.views["v"], meaning)
    assert right is not None
    assert right.proved == [("k1",)]
    events, meaning = _one_epoch(**harm)
    found = epochwise.accept(run := replay(events), run.views["v"], meaning)
    assert found is None or ("k1",) not in found.proved
    monkeypatch.setattr(f"cvs.checker.{rule}", wrong)
    found = epochwise.accept(run := replay(events), run.views["v"], meaning)
    assert found is not None
    assert found.proved == [("k1",)], "else this shows nothing"


def test_commits_tell_nothing_of_a_view_over_updates_of_unknown_outcome() -> None:
    events, meaning = _one_epoch(later="unknown")
    run = replay(events)
    assert epochwise.accept(run, run.views["v"], meaning) is None


def test_an_answer_that_comes_late_hides_no_version_from_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write absorbs what was called after the second one, which follows it, had returned."""
    run = Recorder()
    run.named("run", definition_to_json(KINDS["extremes"]))
    run.base("k0", {"k": "k0", "x": 0, "y": 1})
    run.base("k1", {"k": "k1", "x": 0, "y": 2})
    run.write(0, {"x": 0, "least": 2, "most": 2}, [("k1", 0, 1)])
    run.write(0, {"x": 0, "least": 1, "most": 2}, [("k0", 0, 1)], process="m2")
    *start, c0, r0, c1, r1, t1, a1, t2, a2, rest = run.rest()
    late = [c0, t1, t2, a2, c1, r1, a1, r0, rest]
    events = [*start, *(msgspec.structs.replace(e, time=10 * i) for i, e in enumerate(late, 1))]
    made = replay(events)
    exact = judge(made, partial(_meaning, "extremes"))
    assert [f.verdict for f in exact.of("no-future", "record")] == [Verdict.VIOLATED]
    assert not held.accept(made, made.views["v"], _meaning("extremes", None)).proved
    monkeypatch.setattr("cvs.checker.holding._settled", lambda order: [a.returned for a in order])
    found = held.accept(made, made.views["v"], _meaning("extremes", None))
    assert found is not None
    assert found.proved, "else this shows nothing"


def test_no_view_is_stale_for_what_it_does_not_read() -> None:
    """A write of a sum of `y` lacks two changes of `x` alone, and one of both."""
    run = Recorder()
    run.named("run", definition_to_json(KINDS["total"]))
    run.base("k1", {"k": "k1", "x": 2, "y": 3})
    run.write_record((), {"sum": 3}, [("k1", 0, 1, "r")], expected=None, new=(0, 1, 0, True))
    for x, y in ((1, 3), (0, 3), (2, 4)):
        run.base("k1", {"k": "k1", "x": x, "y": y})
    run.base("k2", {"k": "k2", "x": 2, "y": 0})
    run.write_record((), {"sum": 3}, [("k2", 0, 1, "r")], expected=(0, 1, 0, True), new=(0, 2, 0, True))
    run.write_record((), {"sum": 4}, [("k1", 1, 4, "r")], expected=(0, 2, 0, True), new=(0, 3, 0, True))
    made, meaning = replay(run.rest()), _meaning("total", None)
    (exact,) = judge(made, partial(_meaning, "total")).of("staleness", "record")
    found = held.accept(made, made.views["v"], meaning)
    assert found is not None
    assert exact.witness is not None
    assert found.proved == [()]
    assert (found.stale.versions, found.stale.nanoseconds) == tuple(exact.witness.facts.values())
    assert found.stale.versions == 1


def large_of(events: list[Any], name: str) -> Judgement | None:
    """Judge a run as a large one."""
    meaning = DefinitionMeaning(KINDS[name])
    bulk = bulk_of([e for e in events if isinstance(e, ev.RunStarted)], view_from_json, {})
    gathered = Gathered(bulk.readers)
    gathered.take(events)
    again = lambda numbers: [events[n - 1] for n in numbers]  # noqa: E731 -- because it is a word for what follows
    return judge_large(gathered.columns(), bulk, again, lambda _: meaning, budget=100_000)


def test_a_large_run_of_any_view_is_judged_as_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cvs.checker.large.LARGE", 0)
    chance, compared = random.Random(4), Counter[str]()
    for number in range(60):
        name = chance.choice(list(KINDS))
        events = in_epochs(chance, name)
        if number % 2:
            events = harmed(chance, events)
        large = large_of(events, name)
        if large is None:
            continue
        exact = judge(replay(events), partial(_meaning, name), budget=BUDGET)
        for granularity in ("record", "view", "snapshots"):
            for level in LEVELS:
                ours, theirs = large.of(level, granularity), exact.of(level, granularity)
                count = sum(f.count for f in ours)
                assert not ours or granularity != "record" or count == len(theirs), (name, level, events)
                decided = {f.verdict for f in ours} - {Verdict.UNDECIDED}
                by_lineage = {Verdict.VIOLATED} if granularity == "view" else set()  # values may excuse it
                assert decided <= {f.verdict for f in theirs} | by_lineage, (name, level, events)
                compared[granularity] += bool(decided)
    assert compared["record"] > 60, compared
    assert compared["snapshots"] > 30, compared


def test_where_all_versions_are_too_many_rows_cut_down_tell_what_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance, decided = random.Random(5), 0
    for number in range(24):
        name = chance.choice([kind for kind in KINDS if not DefinitionMeaning(KINDS[kind]).linear])
        events = in_epochs(chance, name)
        events = harmed(chance, events) if number % 2 else events
        with monkeypatch.context() as patched:
            patched.setattr("cvs.checker.provenance.MOST", -1)
            wide = judge(replay(events), partial(_meaning, name), budget=BUDGET)
        exact = judge(replay(events), partial(_meaning, name), budget=BUDGET)
        for ours, theirs in zip(wide.findings, exact.findings, strict=True):
            assert (ours.property, ours.granularity, ours.key) == (
                theirs.property,
                theirs.granularity,
                theirs.key,
            )
            if Verdict.UNDECIDED not in (ours.verdict, theirs.verdict):
                assert ours.verdict is theirs.verdict, (ours, theirs, events)
                decided += 1
    assert decided > 400
