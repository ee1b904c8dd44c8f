"""Events survive being written as JSON and refuse what they do not know."""

import msgspec
import pytest

from cvs.history.events import AnyEvent, TestAndSetCalled

CALLED = TestAndSetCalled(
    process="m1",
    time=5,
    operation=1,
    view="v",
    view_key=("EU",),
    expected=None,
    new=(0, 1, 0, True),
    row={"n": 1},
)


def test_an_event_survives_json() -> None:
    """Decoding what was encoded gives the same event, its kind included."""
    assert msgspec.json.decode(msgspec.json.encode(CALLED), type=AnyEvent) == CALLED


def test_unknown_fields_are_refused() -> None:
    """A field nobody documented is an error, not ignored."""
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'{"event":"quiescent","process":"a","time":1,"x":2}', type=AnyEvent)
