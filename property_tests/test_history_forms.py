"""A history is the same in every form: lines, Parquet, columns."""

import io
import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cvs.history import events as ev
from cvs.history.arrow import gather as gather_arrow
from cvs.history.codec import event_of, events_of_block, history_bytes, line_of
from cvs.history.columns import Columns, Gathered, Reader, Readers, blocks_of
from cvs.history.fields import OUTCOMES
from cvs.history.lines import gather as gather_lines
from cvs.history.operations import ENDLESS
from cvs.history.packing import NONE, packed, unpacked
from cvs.history.parquet import batches_of, events_of
from cvs.history.rows import Rows
from cvs.history.validate import checked
from cvs.model.identity import key_identity
from property_tests import strategies

SIGNATURES = st.tuples(st.integers(0, 3), st.integers(0, 2**36 - 1), st.integers(0, 9), st.booleans())
VALUES = st.one_of(st.none(), *(strategies.SMALL[kind] for kind in ("int", "text", "decimal", "date")))
KEYS = st.tuples(st.sampled_from([1, 2, "a"]), VALUES.filter(lambda v: v is not None))
ROWS = st.none() | st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
ABSORBED = st.builds(
    lambda key, to: ev.Absorbed(table="r", key=key, from_version=to - 1, to_version=to),
    KEYS,
    st.integers(1, 9),
)


@st.composite
def histories(draw: st.DrawFn) -> list[ev.AnyEvent]:
    """A valid history of one process: any operations, some without a return."""
    process = draw(st.sampled_from(["m1", "é"]))
    events: list[ev.AnyEvent] = [
        ev.RunStarted(process=process, time=0, run="r", clock_error=draw(st.integers(0, 5)))
    ]
    kinds = draw(st.lists(st.sampled_from(["base", "set", "read", "whole", "received", "mark"]), max_size=12))
    for number, kind in enumerate(kinds, start=1):
        events.extend(_some(draw, kind, process, number))
    return events


def _some(draw: st.DrawFn, kind: str, process: str, number: int) -> Sequence[ev.AnyEvent]:
    who: dict[str, Any] = {"process": process, "time": number}
    key, row = draw(KEYS), draw(ROWS)
    if kind == "received":
        return [ev.UpdateReceived(**who, stream="s", entry=number, table="r", key=key, version=number)]
    if kind == "mark":
        mark = draw(st.sampled_from([ev.Quiescent(**who), ev.ManagerCrashed(**who, victim="x")]))
        commit = ev.EpochCommitted(**who, pipeline="p", incarnation=1, epoch=number)
        base = (("r", key, number, row),)
        return [mark, commit, ev.Checkpoint(**who, base=base, views=(("v", key, (0, 1, 0, True), row),))]
    who["operation"] = number
    outcome = draw(st.sampled_from(["applied", "rejected", "not_sent", "unknown"]))
    pair: list[ev.AnyEvent]
    if kind == "base":
        pair = [
            ev.BaseUpdateCalled(**who, table="r", key=key, version=number, row=row),
            ev.BaseUpdateReturned(**who, outcome=outcome),
        ]
    elif kind == "set":
        old, new = draw(st.none() | SIGNATURES), draw(SIGNATURES)
        absorbed = tuple(draw(st.lists(ABSORBED, max_size=2)))
        seen = draw(st.none() | SIGNATURES) if outcome == "rejected" else None
        view = draw(st.sampled_from(["v", "w"]))
        pair = [
            ev.TestAndSetCalled(
                **who, view=view, view_key=key, expected=old, new=new, row=row, absorbed=absorbed
            ),
            ev.TestAndSetReturned(**who, outcome=outcome, returned=seen),
        ]
    else:
        rows = ((key, row),) if row is not None else ()
        pair = [
            ev.ViewReadCalled(
                **who, view="v", view_key=key if kind == "read" else None, snapshot=kind == "whole"
            ),
            ev.ViewReadReturned(**who, rows=rows, signature=draw(st.none() | SIGNATURES), epoch=number),
        ]
    return pair[: draw(st.integers(1, 2))]


@settings(max_examples=30, deadline=None)
@given(histories())
def test_lines_and_parquet_give_the_same_events_back(history: list[ev.AnyEvent]) -> None:
    """Values keep their types on both ways."""
    assert [event_of(line) for line in history_bytes(history).splitlines()] == history
    assert [event for batch in batches_of(history) for event in events_of(batch)] == history


class Kept(Reader):
    """Keeps what it is told of rows."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.values: list[Any] = []
        self.numbers = {name: self.numbering(name) for name in "abc"}
        self.both = self.numbering("a", "b")

    def numbering(self, *names: str) -> Any:
        def number(row: Any) -> int:
            self.values.append(tuple(row.get(name) for name in names))
            return len(self.values) - 1

        return number

    def take(self, rows: Rows, owners: Any) -> None:
        assert owners is None or len(owners) == rows.many
        columns = {name: self.computed(rows, name) for name in "abc"}
        pairs = rows.computed(("a", "b"), self.both, rows.present).tolist()
        widths = rows.widths().tolist()
        for place in range(rows.many):
            row = {name: column[place] for name, column in columns.items()} if rows.present[place] else None
            if row is not None:
                assert self.values[pairs.pop(0)] == (row["a"], row["b"])
            self.rows.append((row, widths[place]))

    def computed(self, rows: Rows, name: str) -> list[Any]:
        """Return a column, asked for in each way."""
        found = iter(rows.computed((name,), self.numbers[name], rows.present).tolist())
        column = [self.values[next(found)][0] if there else None for there in rows.present]
        whole, is_whole, there = (each.tolist() for each in rows.whole(name))
        assert there == [value is not None for value in column]
        assert is_whole == [type(value) is int for value in column]
        assert [v for v, yes in zip(whole, is_whole, strict=True) if yes] == [
            v for v in column if type(v) is int
        ]
        assert name in rows.names() or not any(there)
        return column


def gathered(fill: Any) -> tuple[Columns, dict[str, list[Any]]]:
    kept = {name: Kept() for name in ("r", "v", "w")}
    columns = Gathered(Readers(tables={"r": [kept["r"]]}, views={name: kept[name] for name in "vw"}))
    fill(columns)
    return columns.columns(), {name: each.rows for name, each in kept.items()}


def from_events(history: list[ev.AnyEvent]) -> Any:
    def fill(columns: Gathered) -> None:
        columns.begin()
        data = history_bytes(history)
        for block in blocks_of(io.BytesIO(data), len(data)):
            columns.take(events_of_block(block))

    return gathered(fill)


def same(found: Columns, rows: Any, again: Columns, others: Any) -> None:
    """Compare; in which order records got their numbers is each door's own."""
    assert rows == others
    for name in ("processes", "kinds", "events", "first_time", "last_time", "headers"):
        assert getattr(found, name) == getattr(again, name), name
    assert told(found) == told(again)


def told(columns: Columns) -> dict[str, dict[str, list[Any]]]:
    """Return what columns tell, records by their names."""
    names = {
        "updates": columns.bases,
        "writes": columns.records,
        "base": columns.bases,
        "shown": columns.records,
    }
    found: dict[str, dict[str, list[Any]]] = {}
    for name in ("updates", "writes"):
        part = getattr(columns, name)
        own = {n: getattr(part, n) for n in ("owner", "called", "returned", "outcome", "number", "answered")}
        found[name] = {n: column.tolist() for n, column in {**own, **part.own}.items()}
    for name in ("lines", "commits", "taken", "begun", "base", "shown"):
        found[name] = {n: column.tolist() for n, column in getattr(columns, name).items()}
    for name, part in found.items():
        if "owner" in part:
            part["owner"] = [names[name][number] for number in part["owner"]]
        if "base" in part:
            part["base"] = [columns.bases[number] for number in part["base"]]
    return found


def beginning(history: list[ev.AnyEvent]) -> ev.Checkpoint:
    """Return the checkpoint before all operations, an empty one if there is none."""
    calls = (ev.BaseUpdateCalled, ev.TestAndSetCalled, ev.ViewReadCalled)
    before = itertools.takewhile(lambda event: not isinstance(event, calls), history)
    empty = ev.Checkpoint(process="", time=0, base=(), views=())
    return next((event for event in before if isinstance(event, ev.Checkpoint)), empty)


@settings(max_examples=30, deadline=None)
@given(histories())
def test_columns_hold_what_the_events_say(history: list[ev.AnyEvent]) -> None:
    """From events, lines and Parquet alike; compared with a plain walk through the events."""
    found, rows = from_events(history)
    same(found, rows, *gathered(lambda columns: gather_lines(columns, [history_bytes(history)])))
    same(found, rows, *gathered(lambda columns: gather_arrow(columns, batches_of(history))))
    error = next(e.clock_error for e in history if isinstance(e, ev.RunStarted))
    answers = {e.operation: e for e in history if isinstance(e, ev.TestAndSetReturned)}
    calls = [(n, e) for n, e in enumerate(history, start=1) if isinstance(e, ev.TestAndSetCalled)]
    sets = found.writes
    assert len(calls) == len(sets.owner)
    for place, (line, call) in enumerate(calls):
        answer = answers.get(call.operation)
        outcome = "unknown" if answer is None else answer.outcome
        view, key = found.records[sets.owner[place]]
        assert (view, key) == (call.view, key_identity(call.view_key))
        assert (sets.number[place], sets.called[place]) == (line, call.time - error)
        assert unpacked(int(sets.own["expected"][place])) == call.expected
        assert unpacked(int(sets.own["new"][place])) == call.new
        assert OUTCOMES[sets.outcome[place]].value == outcome
        known = answer is not None and outcome != "unknown"
        assert sets.returned[place] == (answer.time + error if known and answer else ENDLESS)
        assert unpacked(int(sets.own["seen"][place])) == (answer.returned if answer else None)
    begun = beginning(history)
    assert [found.bases[n] for n in found.base["owner"]] == [
        (t, key_identity(k)) for t, k, _, _ in begun.base
    ]
    assert found.base["version"].tolist() == [version for _, _, version, _ in begun.base]
    assert [unpacked(int(s)) for s in found.shown["signature"]] == [
        signature for _, _, signature, _ in begun.views
    ]
    images = [row for table, _, _, row in begun.base if table == "r"]
    images += [e.row for e in history if isinstance(e, ev.BaseUpdateCalled)]
    assert rows["r"] == [
        (None if row is None else {name: row.get(name) for name in "abc"}, len(row or {})) for row in images
    ]
    absorbed = [line for _, call in calls for line in call.absorbed]
    assert found.lines["high"].tolist() == [line.to_version for line in absorbed]
    assert [found.bases[n][1] for n in found.lines["base"]] == [key_identity(line.key) for line in absorbed]


@given(st.none() | SIGNATURES, st.none() | SIGNATURES)
def test_packed_signatures_sort_as_signatures(one: Any, other: Any) -> None:
    """And absent comes first."""
    assert (packed(one) < packed(other)) == ((one or (NONE,)) < (other or (NONE,)))
    assert unpacked(packed(one)) == one


@settings(max_examples=80, deadline=None)
@given(histories(), st.data())
def test_damaged_histories_get_complaints_never_another_error(history: list[ev.AnyEvent], data: Any) -> None:
    """Cut, overwritten, doubled or shuffled lines."""
    lines = [line_of(event) for event in history]
    place = data.draw(st.integers(0, len(lines) - 1))
    damage = data.draw(st.sampled_from(["cut", "byte", "drop", "double", "noise"]))
    line = lines[place]
    if damage == "cut":
        lines[place] = line[: data.draw(st.integers(1, len(line) - 2))] + b"\n"
    elif damage == "byte":
        at = data.draw(st.integers(0, len(line) - 2))
        lines[place] = line[:at] + bytes([data.draw(st.integers(0, 255))]) + line[at + 1 :]
    elif damage == "drop":
        del lines[place]
    elif damage == "double":
        lines.insert(place, line)
    else:
        lines.insert(place, data.draw(st.binary(max_size=40)) + b"\n")
    found = checked(b"".join(lines))
    if damage == "cut":
        assert found.complaints
    assert all(str(complaint) for complaint in found.complaints)
