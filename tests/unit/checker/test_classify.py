"""Whole small runs of SELECT x, SUM(y), COUNT(*) GROUP BY x, judged."""

from typing import Any

import msgspec
import pytest

from cvs.checker.classify import Judgement, judge
from cvs.checker.judge import torn_windows
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.reference import REFERENCES, absorbed_order
from cvs.checker.replay import replay
from cvs.checker.verdict import Verdict
from cvs.errors import AssumptionError
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.report.explain import explain
from tests.agree.problems import SUMS, Recorder
from tests.stories.views import VIEWS


def judged(events: list[Any], **options: Any) -> Judgement:
    return judge(replay(events), lambda _: SUMS, **options)


def group(x: str, y: int, n: int) -> dict[str, Any]:
    return {"x": x, "y": y, "n": n}


def good(run: Recorder) -> list[Any]:
    run.base("k1", {"x": "a", "y": 5})
    run.write("a", group("a", 5, 1), [("k1", 0, 1)])
    run.base("k2", {"x": "a", "y": 7})
    run.write("a", group("a", 12, 2), [("k2", 0, 1)])
    return run.rest()


def test_a_right_run_is_complete_at_both_granularities() -> None:
    found = judged(good(Recorder()))
    assert str(found.level("record")) == str(found.level("view")) == "complete"
    assert {f.verdict for f in found.findings} == {Verdict.HOLDS}
    assert {f.tier for f in found.findings if f.property == "strong"} == {"lineage"}


def test_without_certificates_the_value_tier_decides_the_same() -> None:
    events = list(good(Recorder()))
    bare = [
        ev.TestAndSetCalled(
            process=e.process,
            time=e.time,
            operation=e.operation,
            view=e.view,
            view_key=e.view_key,
            expected=e.expected,
            new=e.new,
            row=e.row,
        )
        if isinstance(e, ev.TestAndSetCalled)
        else e
        for e in events
    ]
    found = judged(bare)
    assert str(found.level("record")) == "complete"
    assert {f.tier for f in found.findings if f.property == "strong"} == {"value"}


def test_without_rest_nothing_is_proved_and_nothing_refuted() -> None:
    found = judged(good(Recorder())[:-1])
    assert found.level().proved == "not converged"
    assert found.level().not_refuted == "complete"


def torn_group_move() -> list[Any]:
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.write("a", group("a", 5, 1), [("k1", 0, 1)])
    run.base("k1", {"x": "b", "y": 5})
    run.write("a", None, [("k1", 1, 2)])
    run.write("b", group("b", 5, 1), [("k1", 0, 2)])
    return run.rest()


def test_a_torn_group_move_is_fine_by_record_and_torn_by_view() -> None:
    found = judged(torn_group_move())
    assert str(found.level("record")) == "complete"
    assert str(found.level("view")) == "weak"


def test_a_torn_move_that_values_cannot_excuse() -> None:
    run = Recorder()
    run.base("k0", {"x": "a", "y": 100})
    run.write("a", group("a", 100, 1), [("k0", 0, 1)])
    run.base("k1", {"x": "a", "y": 5})
    run.write("a", group("a", 105, 2), [("k1", 0, 1)])
    run.base("k1", {"x": "b", "y": 5})
    run.write("b", group("b", 5, 1), [("k1", 0, 2)])
    run.write("a", group("a", 100, 1), [("k1", 1, 2)])
    found = judged(run.rest())
    assert str(found.level("record")) == "complete"
    assert str(found.level("view")) == "converged"
    whole = next(j for j in found.judged if j.subject.granularity == "view")
    assert whole.torn == [(3, 3, 20)]


def test_a_lost_update_is_a_fork_and_not_converged() -> None:
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.base("k2", {"x": "a", "y": 7})
    run.write("a", group("a", 5, 1), [("k1", 0, 1)], expected=None, new=(0, 1, 0, True))
    run.write("a", group("a", 7, 1), [("k2", 0, 1)], expected=None, new=(0, 2, 0, True))
    found = judged(run.rest())
    assert found.of("linearizability", "record")[0].verdict is Verdict.VIOLATED
    assert found.level().not_refuted == "not converged"


def test_an_entry_applied_twice() -> None:
    run = Recorder()
    run.base("k1", {"x": "a", "y": 300})
    run.write("a", group("a", 300, 1), [("k1", 0, 1)])
    run.base("k3", {"x": "a", "y": 100})
    run.write("a", group("a", 400, 2), [("k3", 0, 1)])
    run.write("a", group("a", 500, 3), [("k3", 0, 1)], process="m2")
    found = judged(run.rest())
    assert found.of("weak", "record")[0].verdict is Verdict.VIOLATED
    false = found.of("certificates", "record")[0]
    assert false.verdict is Verdict.VIOLATED
    assert "absorbed before" in false.witness.facts["why"]


def test_a_version_from_the_future() -> None:
    run = Recorder()
    run.write("a", group("a", 5, 1), [("k1", 0, 1)])
    run.base("k1", {"x": "a", "y": 5})
    found = judged(run.rest())
    assert found.of("no-future", "record")[0].verdict is Verdict.VIOLATED
    assert found.of("strong", "record")[0].verdict is Verdict.HOLDS


def test_the_absorbed_reference_forgives_what_the_writers_log_does_not() -> None:
    def run() -> list[Any]:
        recorder = Recorder()
        for y in (1, 2, 3):
            recorder.base("k", {"x": "a", "y": y})
        for version in (1, 3, 2):
            recorder.received("k", version)
        for y, before, after in ((1, 0, 1), (3, 1, 3), (2, 3, 2)):
            recorder.write("a", group("a", y, 1), [("k", before, after)])
        return recorder.rest()

    assert judged(run()).of("strong", "record")[0].verdict is Verdict.VIOLATED
    again = judge(absorbed_order(replay(run())), lambda _: SUMS, reference="absorbed")
    assert str(again.level()) == "complete"
    assert again.reference == "absorbed"


def test_an_unknown_write_nobody_saw_leaves_the_end_open() -> None:
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.write("a", group("a", 5, 1), [("k1", 0, 1)], outcome="unknown")
    found = judged(run.rest())
    assert found.of("converged", "record")[0].verdict is Verdict.UNDECIDED


def test_an_unknown_write_that_was_seen_did_happen() -> None:
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.write("a", group("a", 5, 1), [("k1", 0, 1)], outcome="unknown")
    run.write("a", group("a", 9, 1), [], expected=None, outcome="rejected", returned=(0, 1, 0, True))
    found = judged(run.rest())
    assert str(found.level()) == "complete"


def test_two_unknown_writes_with_one_signature_leave_open_which_was_seen() -> None:
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.base("k2", {"x": "a", "y": 7})
    run.write("a", group("a", 5, 1), [("k1", 0, 1)], outcome="unknown")
    run.write("a", group("a", 7, 1), [("k2", 0, 1)], outcome="unknown", process="m2")
    run.write("a", None, expected=None, outcome="rejected", returned=(0, 1, 0, True))
    found = judged(run.rest())
    assert {f.verdict for f in found.of("strong", "record")} == {Verdict.UNDECIDED}
    assert found.of("linearizability", "record")[0].verdict is Verdict.HOLDS


def test_an_unknown_last_write_refuses_complete_only_if_nothing_could_follow() -> None:
    def run(first: dict[str, Any]) -> Judgement:
        run = Recorder()
        run.base("k1", {"x": "a", "y": 5})
        run.write("a", first, [("k1", 0, 1)])
        run.base("k2", {"x": "a", "y": 7})
        run.write("a", group("a", 12, 2), [("k2", 0, 1)], outcome="unknown")
        return judged(run.rest())

    right, wrong = run(group("a", 5, 1)), run(group("a", 6, 1))
    for name in ("converged", "complete", "complete-recorded-order"):
        assert {f.verdict for f in right.of(name, "record")} == {Verdict.UNDECIDED}, name
    assert wrong.of("complete", "record")[0].verdict is Verdict.VIOLATED


def test_an_unknown_write_that_others_followed_leaves_the_whole_view_open() -> None:
    """It may have taken effect before them: then the view was never torn."""
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.base("k1", {"x": "b", "y": 5})
    run.write("a", None, [("k1", 0, 2)], outcome="unknown")
    run.base("k2", {"x": "c", "y": 1})
    run.write("b", group("b", 5, 1), [("k1", 0, 2)])
    run.write("c", group("c", 1, 1), [("k2", 0, 1)])
    found = judged(run.rest())
    assert {f.verdict for f in found.of("strong", "view")} == {Verdict.UNDECIDED}
    assert {f.verdict for f in found.of("strong", "record")} == {Verdict.HOLDS}


def test_what_nobody_asked_is_not_proved() -> None:
    assert str(judged(good(Recorder())).level("snapshots")) == "between not converged and complete"


@pytest.mark.parametrize(
    ("times", "verdicts"),
    [
        ((10, 30, 20), {"writers": "violated", "write-time": "holds", "absorbed": "violated"}),
        ((10, 20, 30), {"writers": "violated", "write-time": "violated", "absorbed": "violated"}),
        ((10, 30, 30), {"writers": "violated", "write-time": "undecided", "absorbed": "violated"}),
    ],
)
def test_a_verdict_of_each_reference(times: tuple[int, ...], verdicts: dict[str, str]) -> None:
    """The third update carries an older write time: the base itself goes from 1 over 3 to 2, and ends there."""
    found = {}
    for name, rewritten in REFERENCES.items():
        run = Recorder()
        for y, moment in zip((1, 2, 3), times, strict=True):
            run.base("k", {"x": "a", "y": y}, write_time=moment)
        for version in (1, 2, 3):
            run.received("k", version)
        run.write("a", group("a", 1, 1), [("k", 0, 1)])
        run.write("a", group("a", 2, 1), [("k", 1, 2)])
        judgement = judge(rewritten(replay(run.rest())), lambda _: SUMS, reference=name)
        assert judgement.reference == name
        found[name] = judgement.of("strong", "record")[0].verdict.value
    assert found == verdicts


@pytest.mark.parametrize(
    ("named", "verdicts"),
    [
        ("k", {"writers": "violated", "write-time": "undecided", "absorbed": "violated"}),
        ("other", {"writers": "violated", "write-time": "violated", "absorbed": "violated"}),
    ],
)
def test_what_a_pipeline_says_it_showed_out_of_order_claims_no_order(
    named: str, verdicts: dict[str, str]
) -> None:
    """Only where write times are the reference, and only of the record that is named."""
    found = {}
    for name, rewritten in REFERENCES.items():
        run = Recorder()
        for y in (1, 2, 3):
            run.base("k", {"x": "a", "y": y}, write_time=10 * y)
        run.base("other", {"x": "b", "y": 1}, write_time=40)
        run.write("a", group("a", 2, 1), [("k", 0, 2)])
        run.write("a", group("a", 1, 1), [("k", 2, 3)])
        void = ev.ClaimVoid(process="p", time=10**6, table="r", key=(named,))
        events = run.rest()
        judgement = judge(rewritten(replay([*events[:-1], void, events[-1]])), lambda _: SUMS, reference=name)
        found[name] = next(f for f in judgement.of("strong", "record") if f.key == ("a",)).verdict.value
    assert found == verdicts


def test_the_write_time_reference_needs_write_times() -> None:
    with pytest.raises(AssumptionError, match="has no write time"):
        REFERENCES["write-time"](replay(good(Recorder())))


def test_a_joined_row_that_no_longer_shows_a_base_record_does_not_tear_the_view() -> None:
    """k1 moves from s1 to s2; that s1 changes after that is nothing to it, whatever it once absorbed."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS["join"]))
    run.base(1, {"k": 1, "z": 5}, table="s")
    run.base(2, {"k": 2, "z": 6}, table="s")
    run.base("k1", {"k": "k1", "x": 0, "y": 1})
    run.write("k1", {"k": "k1", "y": 1, "z": 5}, [("k1", 0, 1), (1, 0, 1, "s")])
    run.base("k1", {"k": "k1", "x": 0, "y": 2})
    run.write("k1", {"k": "k1", "y": 2, "z": 6}, [("k1", 1, 2), (2, 0, 1, "s")])
    run.base("k2", {"k": "k2", "x": 0, "y": 1})
    run.base(1, {"k": 1, "z": 7}, table="s")
    run.write("k2", {"k": "k2", "y": 1, "z": 7}, [("k2", 0, 1), (1, 0, 2, "s")])
    for budget in (0, 10_000):
        found = judge(replay(run.rest()), lambda _: DefinitionMeaning(VIEWS["join"]), budget=budget)
        assert Verdict.VIOLATED not in {f.verdict for f in found.of("strong", "view")}, budget
    assert found.of("strong", "view")[0].verdict is Verdict.HOLDS


def smallest(last: int) -> Judgement:
    """Judge a MIN whose program reads the base when its smallest row leaves: it sees k3, which it absorbs later."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS["min"]))
    for key, value in (("k1", 4), ("k2", 8)):
        run.base(key, {"k": key, "x": "a", "y": value})
    run.write("a", {"x": "a", "min": 4}, [("k1", 0, 1)])
    run.write("a", {"x": "a", "min": 4}, [("k2", 0, 1)])
    run.base("k1", None)
    run.base("k3", {"k": "k3", "x": "a", "y": 5})
    run.write("a", {"x": "a", "min": last}, [("k1", 1, 2)])
    run.write("a", {"x": "a", "min": 5}, [("k3", 0, 1)])
    meaning = DefinitionMeaning(VIEWS["min"])
    return judge(replay(run.rest()), lambda _: meaning)


def test_a_minimum_that_reads_the_base_shows_more_than_it_absorbed_and_is_not_called_false() -> None:
    found = smallest(5)
    assert str(found.level("record")) == "complete"
    (certificates,) = (f for f in found.findings if f.property == "certificates" and f.key is not None)
    assert certificates.verdict is Verdict.UNDECIDED
    assert "reads base records" in certificates.reason


def test_a_minimum_that_no_base_state_explains_is_a_false_fold() -> None:
    found = smallest(6)
    (certificates,) = (f for f in found.findings if f.property == "certificates" and f.key is not None)
    assert certificates.verdict is Verdict.VIOLATED


def kept_for_a_while(refilled: int) -> list[Any]:
    """A record that is dropped from a view of limited room while its base goes on, and put back later."""
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.write("a", group("a", 5, 1))
    run.base("k1", {"x": "a", "y": 7})
    run.write("a", None)
    run.base("k1", {"x": "a", "y": 9})
    run.write("a", group("a", refilled, 1))
    run.base("k2", {"x": "b", "y": 1})
    run.write("b", group("b", 1, 1))
    run.write("b", None)
    return run.rest()


def test_what_a_partial_view_does_not_keep_claims_nothing() -> None:
    whole = judged(kept_for_a_while(9))
    assert whole.level("record").not_refuted == "not converged"
    found = judged(kept_for_a_while(9), partial=["v"])
    assert (found.level("record").proved, found.level("record").not_refuted) == ("strong", "complete")
    assert {f.verdict for f in found.of("complete", "record")} == {Verdict.UNDECIDED}
    assert {f.verdict for f in found.of("weak", "view")} == {Verdict.UNDECIDED}


@pytest.mark.parametrize(("shown", "why"), [(5, "needs converged"), (8, "")])
def test_what_a_partial_view_shows_is_still_judged(shown: int, why: str) -> None:
    found = judged(kept_for_a_while(shown), partial=["v"])
    assert found.level("record").not_refuted == "not converged"
    assert {f.verdict for f in found.of("converged", "view")} == {Verdict.VIOLATED}
    assert [f.reason for f in found.of("weak", "record") if f.verdict is Verdict.VIOLATED] == [why]


def test_a_view_too_large_to_be_held_in_all_its_states_is_undecided_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its records are judged; the reason names the budget that would do."""
    monkeypatch.setattr("cvs.checker.classify.LARGEST", 5)
    found = judged(good(Recorder()), budget=0)
    assert found.level("record").proved == "strong"
    whole = [f for f in found.findings if f.granularity == "view" and f.property != "converged"]
    assert {f.verdict for f in whole} == {Verdict.UNDECIDED}
    assert "cvs audit --budget 1" in whole[0].reason
    assert judged(good(Recorder()), budget=1).level("view").proved == "strong"


def test_a_whole_view_ended_as_its_records_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases in which only its records can be judged: its end was undecided, though each of them was decided."""

    def unsure(last: dict[str, Any]) -> Judgement:
        run = Recorder()
        run.base("k1", {"x": "a", "y": 5})
        run.write("a", group("a", 5, 1), [("k1", 0, 1)])
        run.write("a", group("a", 5, 1), [], outcome="unknown")  # which shows the same, if it happened
        run.base("k2", {"x": "b", "y": 1})
        run.write("b", last, [("k2", 0, 1)])
        return judged(run.rest())

    right, wrong = unsure(group("b", 1, 1)), unsure(group("b", 2, 1))
    assert {f.verdict for f in right.of("converged", "view")} == {Verdict.HOLDS}
    assert {f.verdict for f in right.of("strong", "view")} == {Verdict.UNDECIDED}
    (found,) = wrong.of("converged", "view")
    assert found.verdict is Verdict.VIOLATED
    assert "it showed {'b': (n=1, x='b', y=2)}" in explain(found, None)
    monkeypatch.setattr("cvs.checker.classify.LARGEST", 5)
    large = judged(good(Recorder()), budget=0)
    assert str(large.level("view")) == "between converged and complete"


def test_a_budget_that_did_not_do_is_told_with_the_option_that_raises_it() -> None:
    events = [
        msgspec.structs.replace(e, absorbed=()) if isinstance(e, ev.TestAndSetCalled) else e
        for e in good(Recorder())
    ]
    found = judged(events, budget=1)
    reasons = {f.reason for f in found.findings if f.verdict is Verdict.UNDECIDED}
    assert "not decided in 1 steps; cvs audit --budget 10 allows ten times as many" in reasons


def test_a_window_that_lasted_no_time_is_not_torn() -> None:
    """A pipeline's recording gives all writes of an epoch one moment: "11 torn windows, the longest 0.000 ms"."""
    found = judged(torn_group_move())
    (whole,) = (j for j in found.judged if j.subject.granularity == "view")
    explained = [True, True, False, True]
    assert [window[:2] for window in torn_windows(whole.subject, explained, 0, 1_000)] == [(2, 2)]
    whole.subject.states[3].returned = whole.subject.states[2].returned
    assert not torn_windows(whole.subject, explained, 0, 1_000)
    assert torn_windows(whole.subject, [True, True, True, False], 0, 1_000)  # and so it ended
    ((_, _, length),) = torn_windows(whole.subject, [False, True, True, True], 0, 1_000)
    assert length < 1_000  # what stood at the start stood there since the start, not for ever


def test_a_write_that_was_called_early_follows_the_one_it_expects() -> None:
    """Both answers are there at one time, and the later one was called, and stands in the file, first."""
    run = Recorder()
    run.base("k1", {"x": "a", "y": 5})
    run.base("k2", {"x": "a", "y": 7})
    run.write("a", group("a", 5, 1), [("k1", 0, 1)])
    run.write("a", group("a", 12, 2), [("k2", 0, 1)])
    *start, called, returned, again, answered, rest = run.rest()
    late = max(returned.time, answered.time)
    moved = [again, called, *(msgspec.structs.replace(e, time=late) for e in (answered, returned))]
    found = judged([*start, *moved, rest])
    assert {f.verdict for f in found.of("converged", "view")} == {Verdict.HOLDS}
