"""Hiding values changes no meaning; checkpoints forget without lying."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvs.errors import AssumptionError
from cvs.history import events as ev
from cvs.history.checkpoint import checkpoint_of, rolled
from cvs.history.codec import history_bytes
from cvs.history.redact import hasher, redacted
from cvs.history.validate import checked
from cvs.model.definitions import definition_to_json, view_from_json
from cvs.model.identity import row_identity
from cvs.model.recompute import bag
from cvs.model.views import Project, ViewDefinition, output_columns
from property_tests import strategies
from property_tests.test_history_forms import histories

SECRET = b"0123456789abcdef"


def recorded(view: ViewDefinition, base: dict[str, list[dict[str, Any]]]) -> list[ev.AnyEvent]:
    """A run whose writers wrote a base state, under the definition of a view."""
    events: list[ev.AnyEvent] = [
        ev.RunStarted(
            process="w",
            time=0,
            run="r",
            views=(definition_to_json(view),),
            tables=tuple(map(definition_to_json, strategies.TABLES.values())),
        )
    ]
    rows = [(name, row) for name, table in base.items() for row in table]
    for number, (name, row) in enumerate(rows, start=1):
        key = tuple(row[c] for c in strategies.TABLES[name].key)
        events += [
            ev.BaseUpdateCalled(
                process="w", time=number, operation=number, table=name, key=key, version=1, row=row
            ),
            ev.BaseUpdateReturned(process="w", time=number, operation=number, outcome="applied"),
        ]
    return events


def base_of(events: list[ev.AnyEvent]) -> dict[str, list[Any]]:
    """The base state a run left."""
    found: dict[str, list[Any]] = {name: [] for name in strategies.TABLES}
    for event in events:
        if isinstance(event, ev.BaseUpdateCalled):
            found[event.table].append(event.row)
    return found


def same_up_to_hashing(view: ViewDefinition, base: dict[str, list[dict[str, Any]]]) -> set[str]:
    """Redact, recompute, and compare with hashing what was computed before; return the hidden columns."""
    hidden_run = redacted(recorded(view, base), SECRET)
    assert checked(history_bytes(hidden_run)).complaints == []
    header = hidden_run[0]
    assert isinstance(header, ev.RunStarted)
    hidden_view = view_from_json(header.views[0])
    hide = hasher(SECRET)
    before = bag(view.relation, base, strategies.TABLES)
    after = bag(hidden_view.relation, base_of(hidden_run), strategies.TABLES)
    columns = output_columns(view.relation, strategies.TABLES) or ()
    changed = {
        name
        for name in columns
        if Counter(repr(row[name]) for row in before) != Counter(repr(row[name]) for row in after)
    }
    expected = [{n: hide(v) if n in changed else v for n, v in row.items()} for row in before]
    assert Counter(map(row_identity, expected)) == Counter(map(row_identity, after))
    return changed


@settings(max_examples=30, deadline=None)
@given(view=strategies.views(), base=strategies.bases())
def test_views_mean_the_same_over_hidden_values(view: ViewDefinition, base: Any) -> None:
    """Every class of view: recomputing and hiding commute."""
    same_up_to_hashing(view, base)


@settings(max_examples=30, deadline=None)
@given(typed=strategies.relations(), base=strategies.bases())
def test_any_relation_means_the_same_over_hidden_values(typed: strategies.Typed, base: Any) -> None:
    """Compositions too."""
    columns = tuple(
        strategies.Named(name=f"c{n}", expression=strategies.Column(name))
        for n, (name, _) in enumerate(typed.columns)
    )
    view = ViewDefinition(name="v", relation=Project(source=typed.relation, columns=columns), key=("c0",))
    same_up_to_hashing(view, base)


def test_what_is_only_a_name_is_hidden_and_what_is_added_up_is_not() -> None:
    """Group keys go, sums stay."""
    base = {"r": [{"k": 1, "x": "secret", "y": 5, "d": None, "m": None, "t": None}], "s": []}
    view = strategies.VIEWS["sum"]
    assert same_up_to_hashing(view, base) == {"x"}
    data = history_bytes(redacted(recorded(view, base), SECRET))
    assert b"secret" not in data
    assert b'"y":5' in data


def test_a_short_key_is_refused() -> None:
    """It could be guessed."""
    with pytest.raises(AssumptionError, match="guessed"):
        hasher(b"short")


@settings(max_examples=30, deadline=None)
@given(histories())
def test_operations_keep_their_shape(history: list[ev.AnyEvent]) -> None:
    """Nothing but values changes, and equal keys stay equal."""
    found = redacted(history, SECRET)
    assert [type(event) for event in found] == [type(event) for event in history]
    keys = [(e.view, e.view_key) for e in history if isinstance(e, ev.TestAndSetCalled)]
    hidden = [(e.view, e.view_key) for e in found if isinstance(e, ev.TestAndSetCalled)]
    assert [keys.index(key) for key in keys] == [hidden.index(key) for key in hidden]


@st.composite
def restful(draw: st.DrawFn) -> list[ev.AnyEvent]:
    """A run of applied writes with quiescent points."""
    rng = random.Random(draw(st.integers(0, 10_000)))
    events: list[ev.AnyEvent] = [ev.RunStarted(process="m", time=0, run="r")]
    versions: dict[int, int] = {}
    for number in range(1, rng.randrange(2, 20)):
        key = rng.randrange(3)
        versions[key] = version = versions.get(key, 0) + 1
        who: dict[str, Any] = {"process": "m", "time": number, "operation": number}
        outcome = rng.choice(["applied", "applied", "rejected"])
        versions[key] -= outcome == "rejected"
        if rng.random() < 0.5:
            row = rng.choice([None, {"k": key}])
            events.append(ev.BaseUpdateCalled(**who, table="r", key=(key,), version=version, row=row))
            events.append(ev.BaseUpdateReturned(**who, outcome=outcome))
        else:
            old, new = (0, version - 1, 0, True), (0, version, 0, True)
            row = {"n": number}
            events.append(
                ev.TestAndSetCalled(**who, view="v", view_key=(key,), expected=old, new=new, row=row)
            )
            events.append(ev.TestAndSetReturned(**who, outcome=outcome))
        if rng.random() < 0.3:
            events.append(ev.Quiescent(process="m", time=number))
    return events


@given(restful())
def test_a_rolled_history_ends_in_the_same_state(history: list[ev.AnyEvent]) -> None:
    """Whatever was dropped is in the checkpoint."""
    points = [n for n, event in enumerate(history[:-1]) if isinstance(event, ev.Quiescent)]
    if not points:
        with pytest.raises(AssumptionError, match="no point"):
            rolled(history)
        return
    shorter = rolled(history)
    assert len(shorter) == len(history) - points[-1] + 2  # the header, the checkpoint, and from the rest on
    one, other = (checkpoint_of(events, process="m", time=0) for events in (history, shorter))
    assert (set(map(repr, one.base)), set(map(repr, one.views))) == (
        set(map(repr, other.base)),
        set(map(repr, other.views)),
    )


@pytest.mark.parametrize(("outcome", "words"), [(None, "has not returned"), ("unknown", "unknown outcome")])
def test_nothing_is_rolled_over_what_is_in_flight(outcome: str | None, words: str) -> None:
    """A write nobody knows of may still take effect."""
    who: dict[str, Any] = {"process": "m", "time": 1, "operation": 1}
    events: list[ev.AnyEvent] = [
        ev.RunStarted(process="m", time=0, run="r"),
        ev.BaseUpdateCalled(**who, table="r", key=(1,), version=1, row=None),
    ]
    if outcome:
        events.append(ev.BaseUpdateReturned(**who, outcome=outcome))
    events += [ev.Quiescent(process="m", time=2), ev.Quiescent(process="m", time=3)]
    with pytest.raises(AssumptionError, match="no point") as refusal:
        rolled(events)
    assert words in refusal.value.where
