"""What a person must hear of stands in the log, once."""

from types import SimpleNamespace
from typing import Any

from cvs.sidecar.logs import Told
from cvs.sidecar.status import Status, ViewState, ViewStatus

STILL = "stream n1 stands still since {} s"


def status(state: ViewState, *problems: str) -> Status:
    other = ViewStatus(name="w", state="live", declared_level="strong")
    view = ViewStatus(name="v", state=state, declared_level="strong", problem="why")
    return Status(pipeline="cvs", views=(view, other), problems=problems)


def test_views_that_break_and_problems_are_logged_once_each() -> None:
    """All views were broken by a gap, and the log of the sidecar said nothing."""
    said: list[tuple[str, str]] = []

    def say(event: str, **more: Any) -> None:
        said.append((event, more.get("view") or more["what"]))

    told = Told(SimpleNamespace(info=say, warning=say))
    told.look(status("building"))
    told.look(status("live", STILL.format(61)))
    told.look(status("live", STILL.format(62)))
    told.look(status("broken"))
    told.look(status("broken"))
    told.look(status("building"))
    told.look(status("live"))
    assert said == [
        ("a problem", STILL.format(61)),
        ("a view is broken", "v"),
        ("a problem is over", STILL.format(62)),
        ("a view is building", "v"),
    ]
