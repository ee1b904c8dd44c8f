import pytest

from cvs.model.outcome import APPLIED, Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.machine import (
    MARK_ONLY,
    RECORD,
    TRANSITIONS,
    Change,
    Ending,
    Entry,
    Found,
    Freshness,
    Policy,
    ReadView,
    State,
    TestAndSet,
    Unknowns,
    absorb,
    in_order,
    shown,
)

ENTRY = Entry(stream="s", entry=5, table="r", key=(1,), version=1, before=None, after={"x": 1})
EMPTY = Found(None, {})
UNKNOWN = Outcome(kind=OutcomeKind.UNKNOWN)
REJECTED = Outcome(kind=OutcomeKind.REJECTED)


def put(rows, _known):
    return Change(puts=((RECORD, {"n": rows.get(RECORD, {"n": 0})["n"] + 1}),))


def ending(run, answers):
    actions = [next(run)]
    for answer in answers:
        try:
            actions.append(run.send(answer))
        except StopIteration as stop:
            return actions, stop.value
    raise AssertionError(f"still running after {actions[-1]}")


def test_an_applied_request_ends_the_run():
    actions, end = ending(absorb(ENTRY, (1,), put, policy=Policy()), [EMPTY, APPLIED])
    assert end is Ending.APPLIED
    assert isinstance(actions[1], TestAndSet)
    assert actions[1].expected is None
    assert actions[1].new.entries == (("s", 5),)
    assert actions[1].row == {"n": 1}


def test_a_refused_request_is_computed_again_from_a_fresh_read():
    later = Found(Signature(version=3, entries=(("t", 1),)), {RECORD: {"n": 7}})
    actions, end = ending(absorb(ENTRY, (1,), put, policy=Policy()), [EMPTY, REJECTED, later, APPLIED])
    assert end is Ending.APPLIED
    assert actions[2] == ReadView((1,), Freshness.FRESH)
    assert actions[3].row == {"n": 8}
    assert actions[3].expected == later.signature


@pytest.mark.parametrize(
    ("entry", "end"), [(4, Ending.APPLIED), (5, Ending.PROCESSED), (6, Ending.PROCESSED)]
)
def test_an_entry_the_signature_absorbed_is_not_absorbed_again(entry, end):
    found = Found(Signature(version=1, entries=(("s", entry),)), {})
    answers = [found] if end is Ending.PROCESSED else [found, APPLIED]
    assert ending(absorb(ENTRY, (1,), put, policy=Policy()), answers)[1] is end


def test_an_unknown_outcome_is_resolved_by_a_serial_read_and_our_own_mark():
    ours = Found(Signature(version=1, entries=(("s", 5),)), {RECORD: {"n": 1}})
    actions, end = ending(absorb(ENTRY, (1,), put, policy=Policy()), [EMPTY, UNKNOWN, ours])
    assert actions[2] == ReadView((1,), Freshness.SERIAL)
    assert end is Ending.PROCESSED


def test_taking_unknown_for_applied_ends_without_looking():
    policy = Policy(unknowns=Unknowns.TAKE_FOR_APPLIED)
    assert ending(absorb(ENTRY, (1,), put, policy=policy), [EMPTY, UNKNOWN])[1] is Ending.APPLIED


def test_counter_based_requests_carry_no_entries_and_absorb_twice():
    policy = Policy(signature_check=False)
    found = Found(Signature(version=9), {RECORD: {"n": 1}})
    actions, end = ending(absorb(ENTRY, (1,), put, policy=policy), [found, APPLIED])
    assert end is Ending.APPLIED
    assert actions[1].new == Signature(version=10)


def test_the_bound_on_attempts_ends_the_run():
    run = absorb(ENTRY, (1,), put, policy=Policy(attempts_max=2))
    assert ending(run, [EMPTY, REJECTED, EMPTY, REJECTED])[1] is Ending.GAVE_UP


def test_doing_nothing_takes_a_read_that_is_not_from_memory():
    remembered = Found(Signature(version=1), {}, cached=True)
    run = absorb(ENTRY, (1,), lambda *_: None, policy=Policy())
    actions, end = ending(run, [remembered, EMPTY])
    assert actions[1] == ReadView((1,), Freshness.FRESH)
    assert end is Ending.NOTHING


def test_an_entry_without_effect_leaves_its_mark_unless_the_paper_is_followed_to_the_letter():
    actions, end = ending(absorb(ENTRY, (1,), lambda *_: MARK_ONLY, policy=Policy()), [EMPTY, APPLIED])
    assert actions[1].new.entries == (("s", 5),)
    assert end is Ending.APPLIED
    letter = Policy(mark_always=False)
    assert ending(absorb(ENTRY, (1,), lambda *_: MARK_ONLY, policy=letter), [EMPTY])[1] is Ending.NOTHING


def test_deletion_keeps_the_signature_unless_forgetting_is_asked_for():
    found = Found(Signature(version=4), {RECORD: {"n": 1}})
    gone = Change(deletes=(RECORD,))
    actions, _ = ending(absorb(ENTRY, (1,), lambda *_: gone, policy=Policy()), [found, APPLIED])
    assert (actions[1].new.version, actions[1].row) == (5, None)
    forgetting = Policy(keep_deleted=False)
    actions, _ = ending(absorb(ENTRY, (1,), lambda *_: gone, policy=forgetting), [found, APPLIED])
    assert actions[1].new == Signature()


def test_runs_follow_each_other_and_the_first_that_gives_up_stops_the_rest():
    tight = Policy(attempts_max=1)
    both = in_order([absorb(ENTRY, (1,), put, policy=tight), absorb(ENTRY, (2,), put, policy=tight)])
    assert ending(both, [EMPTY, REJECTED])[1] is Ending.GAVE_UP
    both = in_order([absorb(ENTRY, (1,), put, policy=tight), absorb(ENTRY, (2,), put, policy=tight)])
    assert ending(both, [EMPTY, APPLIED, EMPTY, APPLIED])[1] is Ending.APPLIED


def test_the_table_answers_every_outcome_under_every_policy():
    assert set(TRANSITIONS) == {(u, k) for u in Unknowns for k in OutcomeKind}
    assert all(TRANSITIONS[u, OutcomeKind.APPLIED] is State.DONE for u in Unknowns)


def test_hidden_columns_and_hidden_records_are_not_shown():
    assert shown({"x": 1, "#rows": 2}) == {"x": 1}
    assert shown({"x": 1, "#hidden": True}) is None
    assert shown(None) is None
