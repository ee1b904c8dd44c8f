"""Deciding a whole view by its components says what deciding it at once says, and its witnesses verify."""

import random
from collections import Counter

from cvs.checker import cuts
from cvs.checker.classify import _whole, states_of
from cvs.checker.components import by_component, components_of
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.problem import Problem
from cvs.checker.replay import replay
from cvs.checker.signatures import check_record
from cvs.checker.subject import Index, Subject, problem_of
from cvs.checker.verdict import Budget, Verdict
from cvs.checker.verify import verify
from tests.agree.test_checker_bulk import certified, damaged
from tests.stories.views import VIEWS


def test_components_decide_what_the_whole_decides() -> None:
    chance = random.Random(11)
    count: Counter[tuple[str, Verdict, bool]] = Counter()
    for number in range(150):
        name = chance.choice(("sum", "count", "rows"))
        events = certified(chance, name, steps=9, moves=number % 3 == 0)
        if number % 2:
            events = damaged(chance, events)
        run = replay(events)
        index = Index(DefinitionMeaning(VIEWS[name]), run)
        lattice = index.lattice(None)
        records = run.views["v"].records
        states = _whole({key: states_of(r, check_record(r)) for key, r in records.items()})
        if lattice.size > 3_000:
            continue
        subject = Subject(view="v", granularity="view", key=None, states=states)
        apart_problem = problem_of(subject, lattice, index, run)
        problem = Problem(tops=lattice.tops, meaning=apart_problem.meaning, states=apart_problem.states)
        for claim, decide in (("weak", cuts.weak), ("strong", cuts.chain)):
            whole, _ = decide(problem, Budget(10**8))
            apart, witness = by_component(decide)(apart_problem, Budget(10**8))
            assert apart is whole, (claim, name, events)
            several = len(components_of(apart_problem)) > 1
            count[claim, apart, several] += 1
            if apart is Verdict.HOLDS:
                told = {"tops": problem.tops, "meaning": problem.meaning, "states": problem.states}
                assert verify(f"{claim} holds", witness, **told) is True  # type: ignore[arg-type]
    assert (
        min(count[c, v, True] for c in ("weak", "strong") for v in (Verdict.HOLDS, Verdict.VIOLATED)) > 10
    ), count


def test_many_records_are_decided_within_a_budget_the_whole_would_exhaust() -> None:
    chance = random.Random(12)
    events = certified(chance, "rows", steps=120)
    run = replay(events)
    index = Index(DefinitionMeaning(VIEWS["rows"]), run)
    lattice = index.lattice(None)
    records = run.views["v"].records
    states = _whole({key: states_of(r, check_record(r)) for key, r in records.items()})
    problem = problem_of(Subject(view="v", granularity="view", key=None, states=states), lattice, index, run)
    assert lattice.size > 100_000
    verdict, _ = by_component(cuts.chain)(problem, Budget(60_000))
    assert verdict is Verdict.HOLDS
