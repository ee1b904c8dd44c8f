"""Views taken apart, view record by view record, and searched by what each kind demands: against brute force.

The truth is recompute over whole base states; the search sees only the base records that `provenance` names, and
skips what `forms` excludes. Each of these tried wrong is found here.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from cvs import checker
from cvs.checker import brute, cuts, forms, provenance
from cvs.checker.components import by_component
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.problem import Problem
from cvs.checker.replay import Run, Timeline, Version
from cvs.checker.subject import Index, State, Subject, problem_of
from cvs.checker.verdict import Budget, Verdict
from cvs.checker.verify import verify
from cvs.model.expressions import Call, Column, Literal
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    Distinct,
    Join,
    Named,
    Project,
    Relation,
    Select,
    SetOperation,
    ViewDefinition,
)
from tests.stories.views import VIEWS, R, S

EVERY = tuple(
    AggregateColumn(name=f.value, function=f, argument=Column("r.y"))
    for f in (AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.MIN, AggregateFunction.MAX)
)


def _named(**columns: str) -> tuple[Named, ...]:
    return tuple(Named(name=name, expression=Column(column)) for name, column in columns.items())


def _view(relation: Relation, *key: str) -> ViewDefinition:
    return ViewDefinition(name="v", relation=relation, key=key)


def _join(kind: Any, *, by: str = "r.y") -> Join:
    return Join(kind=kind, left=R, right=S, on=((Column(by), Column("s.k")),))


GROUPS = Aggregate(source=R, group=_named(x="r.x"), aggregates=EVERY)
MEANS = Aggregate(
    source=R, group=_named(g="r.x"),
    aggregates=(AggregateColumn(name="mean", function=AggregateFunction.AVG, argument=Column("r.y")),),
)  # fmt: skip
OVER_MEAN = Join(
    kind="inner", left=R, right=MEANS, on=((Column("r.x"), Column("g")),),
    residual=Call(">=", (Column("r.y"), Column("mean"))),
)  # fmt: skip
COUNTS = Aggregate(
    source=R, group=_named(x="r.x", y="r.y"),
    aggregates=(AggregateColumn(name="n", function=AggregateFunction.COUNT),),
)  # fmt: skip
MORE = {
    **VIEWS,
    "every": _view(GROUPS, "x"),
    "large": _view(Select(source=GROUPS, predicate=Call(">", (Column("count"), Literal(1)))), "x"),
    "some": _view(Select(source=GROUPS, predicate=Call("<", (Column("x"), Literal(1)))), "x"),
    "left": _view(Project(source=_join("left"), columns=_named(k="r.k", y="r.y", z="s.z")), "k"),
    "full": _view(Project(source=_join("full"), columns=_named(k="r.k", s="s.k", z="s.z")), "k", "s"),
    "semi": _view(Project(source=_join("semi"), columns=_named(k="r.k", y="r.y")), "k"),
    "anti": _view(Project(source=_join("anti"), columns=_named(k="r.k", x="r.x")), "k"),
    "by_z": _view(Aggregate(source=_join("inner"), group=_named(z="s.z"), aggregates=EVERY), "z"),
    "own_mean": _view(Project(source=OVER_MEAN, columns=_named(k="r.k", y="r.y")), "k"),
    "largest_count": _view(
        Aggregate(
            source=COUNTS, group=_named(x="x"),
            aggregates=(AggregateColumn(name="most", function=AggregateFunction.MAX, argument=Column("n")),),
        ),
        "x",
    ),
    "with_count": _view(
        Project(
            source=Join(kind="left", left=S, right=GROUPS, on=((Column("s.x"), Column("x")),)),
            columns=_named(k="s.k", n="count"),
        ),
        "k",
    ),
    "either": _view(
        SetOperation(
            kind="union", all=False, left=Project(source=R, columns=_named(x="r.x")),
            right=Project(source=S, columns=_named(x="s.x")),
        ),
        "x",
    ),
    "not_in_s": _view(
        SetOperation(
            kind="except", all=True, left=Project(source=R, columns=_named(k="r.k", y="r.y")),
            right=Project(source=S, columns=_named(k="s.k", y="s.z")),
        ),
        "k",
    ),
    "values": _view(Distinct(source=Project(source=R, columns=_named(x="r.x"))), "x"),
}  # fmt: skip
DECIDERS = {
    "weak": (by_component(cuts.weak), brute.weak),
    "strong-pairwise": (cuts.pairwise, brute.pairwise),
    "strong": (by_component(cuts.chain), brute.chain),
    "complete": (cuts.complete, brute.complete),
}


def timelines(chance: random.Random) -> Run:
    """Three or four base records in two tables, each of a few versions, some of them deletions."""
    run = Run(has_base_log=True, rest=0)
    for table, keys in (("r", chance.randint(1, 3)), ("s", chance.randint(1, 2))):
        for key in range(keys):
            rows: list[Any] = [None]
            for _ in range(chance.randint(1, 3)):
                row = {"k": key, "x": chance.randrange(2)}
                row |= {"y": chance.randrange(3)} if table == "r" else {"z": chance.randrange(2)}
                rows.append(None if chance.random() < 0.15 else row)
            record = (table, (key,))
            run.timelines[record] = Timeline(record=record, versions=[Version(row=row) for row in rows])
    return run


def _torn(chance: random.Random, one: Any, other: Any) -> Any:
    """Half of one state, half of another; or one in which a number is wrong."""
    if one and chance.random() < 0.5:
        key, row = chance.choice(sorted(one, key=repr))
        wrong = frozenset((n, v + 1 if type(v) is int and n not in ("k", "x") else v) for n, v in row)
        return one - {(key, row)} | {(key, wrong)}
    keys = [key for key in sorted(dict(one).keys() | dict(other).keys(), key=repr) if chance.random() < 0.5]
    mixed = dict(one) | {key: dict(other).get(key) for key in keys}
    return frozenset((key, row) for key, row in mixed.items() if row is not None)


def case(chance: random.Random, definition: ViewDefinition) -> Problem | None:
    """A problem whose states are mostly those of rising cuts, of the whole view or of one view record."""
    run = timelines(chance)
    index = Index(DefinitionMeaning(definition), run)
    keys = sorted(index.touching, key=repr)
    key = chance.choice(keys) if keys and chance.random() < 0.4 else None
    lattice = index.lattice(key)
    if lattice.size > 300:
        return None
    at, shown = [0] * len(lattice.tops), []
    for _ in range(chance.randint(1, 5)):
        view = index.meaning.view(lattice.base(tuple(at)))
        shown.append(view.get(key) if key is not None else frozenset(view.items()))
        for place, top in enumerate(lattice.tops):
            at[place] = min(top, max(0, at[place] + chance.choice((0, 0, 1, 1, 2, -1))))
    if chance.random() < 0.3:
        chance.shuffle(shown)
    if key is None and chance.random() < 0.5:
        place = chance.randrange(len(shown))
        shown.insert(place, _torn(chance, shown[place], chance.choice(shown)))
    states = [State(value=value, event=0, called=0, returned=0) for value in shown]
    subject = Subject(view="v", granularity="record" if key else "view", key=key, states=states)
    return problem_of(subject, lattice, index, run)


def agree(seed: int, number: int) -> Counter[str]:
    chance = random.Random(seed)
    count: Counter[str] = Counter()
    for _ in range(number):
        name = chance.choice(sorted(MORE))
        problem = case(chance, MORE[name])
        if problem is None:
            continue
        told = {"tops": problem.tops, "meaning": problem.meaning, "states": problem.states}
        meaning = cache(problem.meaning)  # brute force asks for the same cuts again and again
        for claim, (decide, slow) in DECIDERS.items():
            if claim == "complete" and sum(problem.tops) > 6:
                continue
            verdict, witness = decide(problem, Budget(10**7))
            truth = slow(problem.tops, meaning, problem.states)
            assert (verdict is Verdict.HOLDS) == truth, (claim, name, problem.states)
            assert verify(f"{claim} {verdict.value}", witness, **told) is not False, (claim, name)
            count[f"{claim} {verdict.value}"] += 1
            count[name] += 1
    return count


def test_views_taken_apart_and_brute_force_agree(told: Callable[[str], None]) -> None:
    count = agree(seed=1, number=200)
    assert min(count.values()) > 2, count
    assert set(MORE) <= set(count)
    told(f"agreed on {sum(count[n] for n in MORE):,} verdicts, 0 disagreements")


@pytest.mark.slow
def test_views_taken_apart_and_brute_force_agree_on_many(told: Callable[[str], None]) -> None:
    count = agree(seed=2, number=int(os.environ.get("CVS_EXAMPLES", "2000")))
    told(f"agreed on {sum(count[n] for n in MORE):,} verdicts, 0 disagreements")


def _too_far(narrow: Any) -> Any:
    def raised(self: Any, local: Any, value: Any, budget: Any, *, hard: bool) -> Any:
        found = narrow(self, local, value, budget, hard=hard)
        return found if found is None or not found or found == local else (found[0] + 1, *found[1:])

    return raised


@pytest.mark.parametrize("kind", [forms.Forms, forms.Sources])
def test_a_narrowing_that_excludes_too_much_is_found(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "raised", _too_far(kind.raised))
    with pytest.raises((AssertionError, IndexError)):
        agree(seed=1, number=500)


RULES: dict[str, Any] = {
    "forms.Forms.changes": lambda narrow: lambda self: narrow(self) + 1,
    "forms.Forms.alone": lambda _: lambda *_: False,
    "provenance._folds": lambda _: lambda _: frozenset(),  # what a group folds is taken for known
    "meaning.columns_of": lambda _: lambda _: set(),  # what leaves a group out is not looked at
}


@pytest.mark.parametrize("rule", list(RULES))
def test_a_rule_of_folds_that_is_wrong_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow: Any = checker
    for name in rule.split("."):
        narrow = getattr(narrow, name)
    monkeypatch.setattr(f"cvs.checker.{rule}", RULES[rule](narrow))
    with pytest.raises((AssertionError, KeyError)):
        agree(seed=1, number=1_000)


def test_a_base_record_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = provenance.near_of

    def forgetful(*given: Any) -> Any:
        found = whole(*given)
        for near in (found or {}).values():
            near.records = near.records[:1]
        return found

    monkeypatch.setattr("cvs.checker.meaning.near_of", forgetful)
    with pytest.raises((AssertionError, KeyError)):
        agree(seed=1, number=500)
