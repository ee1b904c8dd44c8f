"""What the records of a join held beside each other: two lines of one product, whose price moves."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cvs.checker import held
from cvs.checker.classify import Judgement
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.replay import replay
from cvs.checker.verdict import Verdict
from cvs.checker.wholes import WholeView
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.report.audit import audit_events
from cvs.report.explain import explain
from cvs.report.hand import judge_events
from tests.agree.problems import Recorder
from tests.stories.views import VIEWS

JOIN = VIEWS["join"]


def _lines(run: Recorder, *names: str, price: int, versions: tuple[int, int]) -> None:
    for name in names:
        own = [(name, 0, 1, "r")] if versions[0] == 0 else []
        run.write_record(
            (name,), {"k": name, "y": 0, "z": price}, [*own, (0, *versions, "s")],
            expected=(0, versions[0], 0, True) if own == [] else None, new=(0, versions[1], 0, True),
        )  # fmt: skip


def _orders(run: Recorder, *names: str) -> None:
    run.named("run", definition_to_json(JOIN))
    run.base(0, {"k": 0, "x": 0, "z": 1}, table="s")
    for name in names:
        run.base(name, {"k": name, "x": 0, "y": 0}, table="r")
    _lines(run, *names, price=1, versions=(0, 1))


def dearer(*names: str) -> list[Any]:
    """One price for two lines, written one after the other."""
    run = Recorder()
    _orders(run, *(names or ("k0", "k1")))
    run.base(0, {"k": 0, "x": 0, "z": 2}, table="s")
    _lines(run, *(names or ("k0", "k1")), price=2, versions=(1, 2))
    return run.rest()


def at_once(events: list[Any]) -> list[Any]:
    """The same, both lines written at one time."""
    *start, called, returned, again, answered, rest = events
    times = [e.time for e in (called, returned, again, answered)]
    moved = (called, again, returned, answered)
    return [*start, *(msgspec.structs.replace(e, time=t) for e, t in zip(moved, times, strict=True)), rest]


def whole(events: list[Any]) -> WholeView | None:
    run = replay(events)
    found = held.accept(run, run.views["v"], DefinitionMeaning(JOIN), budget=100_000)
    assert found is not None
    assert len(found.proved) == len(run.views["v"].records)
    return found.whole


def test_two_lines_with_two_prices_of_one_product_are_no_base_state() -> None:
    found = whole(dearer())
    assert found is not None
    assert found.evidence is not None
    assert found.evidence.kind == "beside"
    assert {row for _, row in found.evidence.facts["rows"]} == {
        frozenset({("k", "k0"), ("y", 0), ("z", 2)}),
        frozenset({("k", "k1"), ("y", 0), ("z", 1)}),
    }
    ((event, length),) = found.torn
    assert length == 10
    assert isinstance(dearer()[event - 1], ev.TestAndSetCalled)


def test_lines_that_may_have_been_written_at_one_time_tell_nothing() -> None:
    assert whole(at_once(dearer())) is None


def test_lines_that_share_nothing_that_moved_are_one_chain() -> None:
    run = Recorder()
    _orders(run, "k0", "k1")
    events = run.rest()  # here the price moves from nothing to something; there it is told by a checkpoint
    assert whole(events) is None
    start = next(i for i, e in enumerate(events) if isinstance(e, ev.BaseUpdateCalled))
    known = ev.Checkpoint(process="w", time=1, base=(("s", (0,), 1, {"k": 0, "x": 0, "z": 1}),), views=())
    rest = [
        msgspec.structs.replace(e, absorbed=tuple(line for line in e.absorbed if line.table == "r"))
        if isinstance(e, ev.TestAndSetCalled)
        else e
        for e in events[start + 2 :]
    ]
    found = whole([*events[:start], known, *rest])
    assert found is not None
    assert found.torn == []
    assert found.in_recorded_order


def test_what_the_search_has_no_budget_for_rows_beside_each_other_tell() -> None:
    events = dearer(*(f"k{number}" for number in range(60)))
    (searched,) = judge_events(events, budget=4_000).of("weak", "view")
    assert searched.verdict is Verdict.UNDECIDED, "else this shows nothing"
    _, judgement = audit_events(events, files=[], reference="writers", budget=4_000)
    (weak,) = judgement.of("weak", "view")
    assert weak.verdict is Verdict.VIOLATED
    assert "beside each other" in explain(weak, None)


def test_what_values_excuse_is_not_refuted_by_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the exact judge and the bulk path differ about a whole view, nothing of the second is taken."""
    events = dearer(*(f"k{number}" for number in range(60)))
    exact = judge_events(events, budget=4_000)
    wrong = replace(exact.of("converged", "view")[0], verdict=Verdict.VIOLATED)
    weak = replace(wrong, property="weak")
    bulk = Judgement(run=exact.run, reference="writers", findings=[wrong, weak])
    monkeypatch.setattr("cvs.report.hand._over_columns", lambda *_, **__: (bulk, set()))
    _, judgement = audit_events(events, files=[], reference="writers", budget=4_000)
    assert [f.verdict for f in judgement.of("weak", "view")] == [Verdict.UNDECIDED]
