"""Lines, compressed files, and everything that can be wrong with them."""

import gzip
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
import zstandard

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.codec import digest, event_of, history_bytes, line_of, plain_bytes
from cvs.history.merge import clock_errors, merged, surely_before, typed
from cvs.history.record import History
from cvs.history.validate import checked, require_valid
from cvs.model.definitions import definition_to_json
from cvs.model.views import BaseTable
from tests.stories.views import VIEWS

ORDERS = BaseTable(
    name="shop.orders", columns=(("id", "int"), ("day", "date"), ("price", "decimal")), partition_key=("id",)
)
README = Path(__file__).parents[3] / "cvs/history/README.md"


def started(process: str = "m1", **fields: object) -> ev.RunStarted:
    """A header."""
    return ev.RunStarted(process=process, time=0, run="r", **fields)  # type: ignore[arg-type]


def small_history(process: str = "m1") -> list[ev.AnyEvent]:
    """One base update and the test-and-set that absorbs it."""
    key = (1,)
    row = {"id": 1, "day": date(2026, 1, 31), "price": Decimal("1.10")}
    absorbed = (ev.Absorbed(table="shop.orders", key=key, from_version=0, to_version=1),)
    return [
        started(process, tables=(definition_to_json(ORDERS),)),
        ev.BaseUpdateCalled(
            process=process, time=1, operation=1, table="shop.orders", key=key, version=1, row=row
        ),
        ev.BaseUpdateReturned(process=process, time=2, operation=1, outcome="applied"),
        ev.TestAndSetCalled(
            process=process,
            time=3,
            operation=2,
            view="v",
            view_key=(date(2026, 1, 31),),
            expected=None,
            new=(0, 1, 0, True),
            row={"sum": Decimal("1.10")},
            absorbed=absorbed,
        ),
        ev.TestAndSetReturned(process=process, time=4, operation=2, outcome="applied"),
    ]


def complaints(data: bytes) -> list[str]:
    """Everything wrong, as line number and words."""
    return [f"{c.line}: {c.what}" for c in checked(data).complaints]


def lines(*extra: str) -> bytes:
    """A header and raw lines."""
    return line_of(started()) + "".join(f"{line}\n" for line in extra).encode()


def test_values_keep_their_types() -> None:
    """Dates and decimals come back as what they were."""
    history = small_history()
    assert [event_of(line) for line in history_bytes(history).splitlines()] == history


def test_a_valid_history_has_no_complaints() -> None:
    """And nothing is refused."""
    found = checked(history_bytes(small_history()))
    require_valid([found])
    assert found.events == small_history()


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_input_is_told_by_its_first_bytes(pack: object) -> None:
    """Whatever the file is called."""
    data = history_bytes(small_history())
    packed = pack(data)  # type: ignore[operator]
    assert plain_bytes(packed) == data
    assert digest(packed) != digest(data)
    with pytest.raises(HistoryError, match="damaged"):
        plain_bytes(packed[: len(packed) // 2] if packed[:2] == b"\x1f\x8b" else packed[:4] + b"\xff" * 20)


def test_a_bomb_is_refused() -> None:
    """What becomes too large is no history."""
    with pytest.raises(HistoryError, match="more than"):
        plain_bytes(zstandard.ZstdCompressor().compress(b"0" * 10_000), limit=1000)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"event":"quiescent","process":"m1","time":1,"x":1,"y":2}', 'quiescent has no field "x"'),
        ('{"event":"quiescent","process":"m1"}', 'quiescent needs its field "time"'),
        ('{"event":"quiescent","process":"m1","time":"late"}', "Expected `int`"),
        ('{"event":"mutation","process":"m1","time":1}', "no kind of event: 'mutation'"),
        ("{not json}", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("", "an empty line"),
        ('{"event":"quiescent","process":"m1","time":-1}', "goes back, from 0 to -1"),
        ('{"event":"run_started","process":"m1","time":1,"run":"r"}', "a second run_started"),
        ('{"event":"run_started","process":"m2","time":1,"run":"q"}', "another run"),
        ('{"event":"run_started","process":"m2","time":1,"run":"r","format":9}', "format 9"),
        ('{"event":"run_started","process":"m2","time":1,"run":"r","clock_error":-1}', "negative"),
        ('{"event":"run_started","process":"m2","time":1,"run":"r","views":[{"is":"x"}]}', "no part of"),
        (
            '{"event":"test_and_set_returned","process":"m1","time":1,"operation":7,"outcome":"ok"}',
            "no outcome",
        ),
        (
            '{"event":"test_and_set_returned","process":"m1","time":1,"operation":7,"outcome":"applied"}',
            "without a call",
        ),
        (
            (
                '{"event":"base_update_called","process":"m1","time":1,"operation":1,"table":"t","key":[1],'
                '"version":0,"row":{"a":{"$date":"x"}}}'
            ),
            "'x' is no value of kind date",
        ),
        (
            (
                '{"event":"base_update_called","process":"m1","time":1,"operation":1,"table":"t","key":[1],'
                '"version":0,"row":null}'
            ),
            "makes version 1",
        ),
        (
            (
                '{"event":"test_and_set_called","process":"m1","time":1,"operation":1,"view":"v","view_key":[1],'
                '"expected":[0,1,0,true],"new":[0,1,0,true],"row":null}'
            ),
            "leaves its signature as it was",
        ),
        (
            '{"event":"checkpoint","process":"m1","time":1,"base":[["t",[1],0,null],["t",[1],1,null]],"views":[]}',
            "base record t [1] twice",
        ),
    ],
)
def test_each_mistake_is_named_with_its_line(line: str, words: str) -> None:
    """The line is the second."""
    found = complaints(lines(line, '{"event":"quiescent","process":"m1","time":1}'))
    assert any(text.startswith("2: ") and words in text for text in found), found


def test_all_mistakes_are_listed_at_once() -> None:
    """Two unknown fields of one line, and the next line too."""
    data = lines('{"event":"quiescent","process":"m1","time":1,"x":1,"y":2}', "{}", '{"event":"quiescent"}')
    found = complaints(data)
    assert [text.split(":")[0] for text in found] == ["2", "2", "3", "4", "4"]
    with pytest.raises(HistoryError, match="5 complaints"):
        require_valid(
            [
                checked(
                    lines(
                        '{"event":"quiescent","process":"m1","time":1,"x":1,"y":2}',
                        "{}",
                        '{"event":"quiescent"}',
                    )
                )
            ]
        )


def test_calls_and_returns_must_match() -> None:
    """Called twice, returned as something else, returned twice, a signature beside an applied."""
    history = small_history()
    doubled = [*history, history[3]]
    assert "called operation 2 already" in complaints(history_bytes(doubled))[-1]
    other = [*history[:2], ev.TestAndSetReturned(process="m1", time=2, operation=1, outcome="applied")]
    assert "was called on line 2 as something else" in complaints(history_bytes(other))[0]
    again = [*history, ev.TestAndSetReturned(process="m1", time=5, operation=2, outcome="applied")]
    assert "returned already on line 5" in complaints(history_bytes(again))[0]
    seen = ev.TestAndSetReturned(
        process="m1", time=5, operation=2, outcome="applied", returned=(0, 1, 0, True)
    )
    assert "only a rejected" in complaints(history_bytes([*history[:4], seen]))[0]


def test_one_version_can_be_applied_once() -> None:
    """A rejected or unknown attempt at the same version is no mistake."""
    history = small_history()[:3]
    call = ev.BaseUpdateCalled(
        process="m1", time=5, operation=9, table="shop.orders", key=(1,), version=1, row=None
    )
    for outcome, expected in (("rejected", 0), ("unknown", 0), ("applied", 1)):
        answer = ev.BaseUpdateReturned(process="m1", time=6, operation=9, outcome=outcome)
        assert len(complaints(history_bytes([*history, call, answer]))) == expected


def test_rows_must_fit_their_tables() -> None:
    """Columns and types as the header declares them."""
    history = small_history()
    wrong = ev.BaseUpdateCalled(
        process="m1",
        time=5,
        operation=9,
        table="shop.orders",
        key=(1, 2),
        version=2,
        row={"day": 1.5, "z": 1},
    )
    stranger = ev.BaseUpdateCalled(
        process="m1", time=5, operation=8, table="shop.carts", key=(1,), version=1, row=None
    )
    found = complaints(history_bytes([*history, wrong, stranger]))
    assert [text.split(": ", 1)[1][:24] for text in found] == [
        "a key of shop.orders has",
        'column "day": 1.5 is no ',
        'table "shop.orders" has ',
        'table "shop.carts" is no',
    ]


def test_a_torn_last_line_can_be_forgiven() -> None:
    """A crash leaves it; the event in it never left either."""
    found = checked(history_bytes(small_history())[:-10])
    assert [(c.line, c.torn) for c in found.complaints] == [(5, True)]
    require_valid([found], forgive_torn=True)
    with pytest.raises(HistoryError, match="torn last line"):
        require_valid([found])


def test_an_empty_history_is_one_complaint() -> None:
    """Not a pass."""
    assert complaints(b"") == ["1: an empty history"]


def test_files_merge_in_time_and_each_keeps_its_order() -> None:
    """Also where a clock went back."""
    one = [started("a"), ev.Quiescent(process="a", time=10), ev.Quiescent(process="a", time=5)]
    two = [started("b", clock_error=3), ev.Quiescent(process="b", time=7)]
    events, between = merged([checked(history_bytes(one), "a"), checked(history_bytes(two), "b")])
    assert [(event.process, event.time) for event in events] == [
        ("a", 0),
        ("b", 0),
        ("b", 7),
        ("a", 10),
        ("a", 5),
    ]
    assert between == []
    errors = clock_errors(events)
    assert errors == {"a": 0, "b": 3}
    assert not surely_before(two[1], one[1], errors)
    assert surely_before(two[1], ev.Quiescent(process="a", time=11), errors)


def test_files_of_different_runs_or_with_one_process_twice_do_not_merge() -> None:
    """Operations would mix."""
    other = ev.RunStarted(process="m1", time=0, run="q")
    _, between = merged([checked(line_of(started()), "a"), checked(line_of(other), "b")])
    assert ["name no file together" in c.what for c in between] == [True, False]


def test_declared_types_make_values_of_what_people_write() -> None:
    """A date as text, a decimal as a number."""
    raw = lines(
        '{"event":"base_update_called","process":"m1","time":1,"operation":1,"table":"shop.orders",'
        '"key":["1"],"version":1,"row":{"id":1,"day":"2026-01-31","price":1.5}}',
        '{"event":"update_received","process":"m1","time":1,"stream":"s","entry":1,"table":"shop.orders",'
        '"key":["1"],"version":1}',
        '{"event":"checkpoint","process":"m1","time":1,"base":[["shop.orders",["1"],0,{"day":"2026-01-31"}]],'
        '"views":[]}',
    )
    header = started(tables=(definition_to_json(ORDERS),))
    events = list(typed([header, *checked(raw).events[1:]]))
    assert events[1].row == {"id": 1, "day": date(2026, 1, 31), "price": Decimal("1.5")}
    assert events[1].key == events[2].key == events[3].base[0][1] == (1,)
    assert events[3].base[0][3] == {"day": date(2026, 1, 31)}


def test_the_recording_helper_writes_a_valid_history() -> None:
    """Calls are written before they return; an outcome is said once."""
    written: list[bytes] = []
    ticks = iter(range(100))
    history = History(
        write=written.append, clock=lambda: next(ticks), process="m1", run="r", views=["v"], tables=[ORDERS]
    )
    update = history.base_update("shop.orders", (1,), {"id": 1, "price": Decimal(1)}, version=1)
    assert len(written) == 2
    update.applied()
    history.received("shop.orders", (1,), version=1, stream="s", entry=1)
    absorbed = [("shop.orders", (1,), 0, 1)]
    first = history.test_and_set(
        "v", (1,), expected=None, new=(0, 1, 0, True), row={"n": 1}, absorbed=absorbed
    )
    first.rejected((0, 7, 0, True))
    history.test_and_set("v", (1,), expected=(0, 7, 0, True), new=(0, 8, 0, True), row=None).not_sent()
    history.test_and_set("v", (1,), expected=(0, 7, 0, True), new=(0, 8, 0, True), row=None)
    history.read_returned(history.read("v", (1,)), [((1,), {"n": 1})], signature=(0, 8, 0, True))
    history.crashed("m2")
    history.quiescent()
    with pytest.raises(HistoryError, match="said already"):
        first.applied()
    found = checked(b"".join(written))
    assert found.complaints == []
    assert [type(event).__name__ for event in found.events[-4:]] == [
        "ViewReadCalled",
        "ViewReadReturned",
        "ManagerCrashed",
        "Quiescent",
    ]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda h: h.base_update("r", 1, {}, version=1), r"not 1; write \(1,\)"),
        (lambda h: h.test_and_set("v", "EU", expected=None, new=(0, 1, 0, True), row={}), "not 'EU'; write"),
        (lambda h: h.test_and_set("v", ("EU",), expected=0, new=(0, 1, 0, True), row={}), "a signature is"),
        (lambda h: h.test_and_set("v", ("EU",), expected=None, new=(0, 1), row={}), "a signature is"),
        (lambda h: h.read_returned(1, [("EU", {})]), "a key is a list of values"),
    ],
)
def test_the_recording_helper_refuses_what_a_person_takes_for_a_key_or_a_signature(
    call: Callable[[History], object], told: str
) -> None:
    """A key "EU" was written as the two values "E" and "U"."""
    written: list[bytes] = []
    history = History(write=written.append, clock=lambda: 0, process="m1", run="r", views=["v"])
    with pytest.raises(HistoryError, match=told):
        call(history)
    assert len(written) == 1


def test_the_readme_names_every_event_and_field() -> None:
    """And its examples are a valid history."""
    text = README.read_text()
    for kind in ev.AnyEvent.__args__:
        tag = kind.__struct_config__.tag
        section = text.split(f"#### `{tag}`")[1].split("####")[0]
        for name in kind.__struct_fields__:
            assert name in ("process", "time") or f"`{name}`" in section, (tag, name)
    example = text.split("```json\n")[1].split("```")[0]
    assert complaints(example.encode()) == []
    assert {type(e) for e in checked(example.encode()).events} == set(ev.AnyEvent.__args__)


WRITTEN = (
    '{"event":"test_and_set_called","process":"m1","time":2,"operation":1,"view":"v","view_key":[],'
    '"expected":null,"new":[0,1,0,true],"row":null}'
)
"""A test-and-set of a view record with no key."""


def test_a_view_key_has_as_many_parts_as_its_definition_says() -> None:
    """Of writes, of reads and what they saw, and of checkpoints; a view known by name only may have any."""
    raw = [
        '{"event":"checkpoint","process":"m1","time":1,"base":[],"views":[["v",["a","b"],[0,1,0,true],null]]}',
        WRITTEN,
        '{"event":"view_read_called","process":"m1","time":3,"operation":2,"view":"v","view_key":["a","b"]}',
        '{"event":"view_read_called","process":"m1","time":4,"operation":3,"view":"v","view_key":null}',
        '{"event":"view_read_returned","process":"m1","time":5,"operation":3,"rows":[[["a"],{}],[["a","b"],{}]]}',
    ]
    header = line_of(started(views=(definition_to_json(VIEWS["sum"]),)))
    wrong = 'a key of view "v" has 1 part, not'
    assert complaints(header + "\n".join([*raw, ""]).encode()) == [
        f"{line}: {wrong} {many}" for line, many in ((2, 2), (3, 0), (4, 2), (6, 2))
    ]
    assert complaints(lines(*raw)) == []
