"""What a sidecar does before it has anything to keep."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from cvs.sidecar.lifecycle import NOT_APPLIED, wait_applied
from cvs.sidecar.status import StatusBoard


def test_it_waits_for_its_first_views_and_says_so_once() -> None:
    """On a cluster where nothing was applied it is alive and not ready; then it begins."""
    board, ended, said = StatusBoard("cvs", started_at=0.0), threading.Event(), []
    answers = iter([(), (), ("a view",)])

    def declared() -> Any:
        found = next(answers)
        assert bool(board.status.problems) == (len(said) > 0)
        return found

    log = SimpleNamespace(info=said.append)
    views: Any = SimpleNamespace(declared=declared)
    assert wait_applied(views, board, ended=ended, log=log, seconds=0) == ("a view",)
    assert (said, board.status.problems) == ([NOT_APPLIED], ())


def test_it_ends_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM is heard though there is nothing to finish."""
    ended = threading.Event()
    monkeypatch.setattr(ended, "wait", lambda _seconds: ended.set())
    log = SimpleNamespace(info=lambda _: None)
    views: Any = SimpleNamespace(declared=tuple)
    assert wait_applied(views, StatusBoard("cvs", started_at=0.0), ended=ended, log=log) == ()
