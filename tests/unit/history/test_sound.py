"""What the strict reader refuses has no place in columns either: a large file is no less valid than a small one."""

from typing import Any

import msgspec
import pytest

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.codec import events_of_block, history_bytes
from cvs.history.columns import Columns, Gathered, Readers
from cvs.history.validate import checked
from tests.unit.report.sample import violated


def gathered(*files: list[Any]) -> Columns:
    whole = Gathered(Readers())
    for events in files:
        whole.begin()
        for start in range(0, len(events), 5):
            whole.take(events[start : start + 5])
    return whole.columns()


def changed(place: int, **changes: Any) -> list[Any]:
    events = violated()
    return [*events[:place], msgspec.structs.replace(events[place], **changes), *events[place + 1 :]]


def place_of(kind: type, nth: int = 0) -> int:
    return [place for place, event in enumerate(violated()) if isinstance(event, kind)][nth]


def moved(place: int, to: int) -> list[Any]:
    events = violated()
    events.insert(to, events.pop(place))
    return [msgspec.structs.replace(event, time=10 * number) for number, event in enumerate(events)]


CALLED, RETURNED = place_of(ev.TestAndSetCalled), place_of(ev.TestAndSetReturned)
UPDATED, SECOND = place_of(ev.BaseUpdateCalled), place_of(ev.BaseUpdateCalled, 2)
WHOLE = violated()

WRONG = {
    "a clock goes back": changed(UPDATED + 1, time=-1),
    "a file does not begin with run_started": WHOLE[3:],
    "a process has begun twice": [*WHOLE[:3], WHOLE[0], *WHOLE[3:]],
    "another format": changed(0, format=2),
    "several runs": changed(1, run="another"),
    "a table or view is not in the header": changed(CALLED, view="w"),
    "returns before their calls": moved(RETURNED, CALLED),
    "a version before the first": changed(UPDATED, version=0),
    "two applied updates of one version": changed(SECOND, version=1),
    "a test-and-set that changes no signature": changed(
        place_of(ev.TestAndSetCalled, 1), new=(0, 1, 0, True)
    ),
    "a signature returned by what was not rejected": changed(RETURNED, returned=(0, 1, 0, True)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_no_door_takes_what_is_no_history(mistake: str) -> None:
    assert not checked(history_bytes(WHOLE), "run").complaints
    assert gathered(WHOLE).events == len(WHOLE)
    assert checked(history_bytes(WRONG[mistake]), "run").complaints
    with pytest.raises(HistoryError, match=mistake):
        gathered(WRONG[mistake])


def test_a_process_is_of_one_file() -> None:
    header, last = msgspec.structs.replace(WHOLE[0], views=()), msgspec.structs.replace(WHOLE[-1], time=5)
    other = [msgspec.structs.replace(event, process="other") for event in (header, last)]
    assert gathered(WHOLE, other).events == len(WHOLE) + 2
    with pytest.raises(HistoryError, match="a process has begun twice"):
        gathered(WHOLE, [header, last])


@pytest.mark.parametrize("text", [b"\n", b"\n\n", b"{}\n\n{}\n"])
def test_an_empty_line_is_refused_wherever_lines_are_read_at_once(text: bytes) -> None:
    line = history_bytes(WHOLE[:1]).rstrip(b"\n")
    with pytest.raises(HistoryError, match="an empty line"):
        events_of_block(text.replace(b"{}", line))
    assert events_of_block(b"") == []
    assert events_of_block(line) == events_of_block(line + b"\n") == WHOLE[:1]
