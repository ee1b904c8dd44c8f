import msgspec

from cvs.history.events import TestAndSetCalled, TestAndSetReturned, UpdateReceived
from cvs.manager.recorder import FileRecorder, ListRecorder
from cvs.manager.view_manager import ViewManager
from cvs.model.signature import UNTOUCHED
from cvs.model.views import AggregateFunction
from cvs.programs.aggregate import Aggregated, AggregateProgram
from cvs.programs.machine import Ending, Entry
from cvs.programs.rows import column
from cvs.store.memory import MemoryStore

COUNT = AggregateProgram(
    view="v",
    table="r",
    group=(("x", column("x")),),
    aggregates=(Aggregated(name="n", function=AggregateFunction.COUNT),),
)


def insert(number, x="a"):
    return Entry(
        stream="s", entry=number, table="r", key=(number,), version=1, before=None, after={"x": x, "y": 1}
    )


def test_called_is_recorded_before_the_store_is_asked_and_returned_after():
    recorder, store = ListRecorder(), MemoryStore()
    manager = ViewManager(store=store, recorder=recorder, clock=iter(range(100)).__next__)
    steps = manager.steps(COUNT, insert(1))
    next(steps)  # about to read
    next(steps)  # the request is on its way
    assert [type(e) for e in recorder.events] == [UpdateReceived, TestAndSetCalled]
    assert not store.signatures
    next(steps)  # applied, the answer is on its way
    assert store.signatures
    assert len(recorder.events) == 2
    assert next(steps, Ending.APPLIED) is Ending.APPLIED
    called, returned = recorder.events[1:]
    assert isinstance(returned, TestAndSetReturned)
    assert (called.operation, called.row, called.expected, called.new) == (
        returned.operation,
        {"x": "a", "n": 1},
        None,
        UNTOUCHED.absorbing("s", 1).scalars,
    )
    assert (returned.outcome, called.absorbed[0].to_version) == ("applied", 1)
    assert [e.time for e in recorder.events] == [0, 1, 2]


def test_a_manager_that_remembers_needs_no_read_in_steady_state():
    manager = ViewManager(store=MemoryStore(), remember=True)
    for number in range(1, 11):
        manager.maintain(COUNT, insert(number))
    assert manager.counts.reads == 1
    assert manager.counts.applied == 10


def test_memory_gone_stale_costs_one_refusal_and_loses_nothing():
    store = MemoryStore()
    one, other = (ViewManager(store=store, process=p, remember=True) for p in ("m0", "m1"))
    one.maintain(COUNT, insert(1))
    other.maintain(COUNT, insert_from("t", 1))
    one.maintain(COUNT, insert(2))
    assert one.counts.rejected == 1
    (rows,) = store.rows.values()
    assert rows[()]["n"] == 3


def insert_from(stream, number):
    return Entry(
        stream=stream,
        entry=number,
        table="r",
        key=(stream, number),
        version=1,
        before=None,
        after={"x": "a", "y": 1},
    )


def test_what_is_remembered_is_bounded_and_can_be_forgotten(monkeypatch):
    monkeypatch.setattr("cvs.manager.view_manager.REMEMBERED_MAX", 3)
    manager = ViewManager(store=MemoryStore(), remember=True)
    for number in range(1, 11):
        manager.maintain(COUNT, insert(number, x=number))
    assert len(manager._memory) == 3
    manager.forget()
    assert not manager._memory


def test_a_file_recorder_leaves_one_line_an_event(tmp_path):
    recorder = FileRecorder(tmp_path / "m0.ndjson")
    ViewManager(store=MemoryStore(), recorder=recorder).maintain(COUNT, insert(1))
    lines = (tmp_path / "m0.ndjson").read_bytes().splitlines()  # before closing: nothing is buffered
    recorder.close()
    assert [msgspec.json.decode(line)["event"] for line in lines] == [
        "update_received",
        "test_and_set_called",
        "test_and_set_returned",
    ]
