"""What operators ask for is looked at every second, whatever the cluster answers meanwhile."""

import importlib
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cassandra import OperationTimedOut, Unavailable
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown
from cassandra.protocol import OverloadedErrorMessage, ServerError

from cvs.cli import run
from cvs.errors import StoreError
from cvs.programs.epoch import BROKEN, LIVE
from cvs.sidecar.catalog import CatalogView
from cvs.sidecar.repairing import repair
from cvs.sidecar.requests import PIPELINE, Asked, Requests
from cvs.sidecar.settings import Settings
from cvs.sidecar.soundness import Soundness
from cvs.sidecar.verification import Difference, Report
from cvs.sidecar.views import Views
from cvs.stream.quarantine import Entry

RIGHT = Report(view="s.v", expected_count=1, found_count=1, rounds=1, differences=())
WRONG = Difference(kind="missing", key=(1,), expected={"a": 1}, found=None)

WHILE_A_NODE_STOPS = (
    ConnectionShutdown("the node closed it"),
    OverloadedErrorMessage(0x1001, "it drains", None),
    ServerError(0, "it starts", None),
    NoHostAvailable("none", {}),
    OperationTimedOut(),
    Unavailable("too few"),
)


@pytest.mark.parametrize("silence", WHILE_A_NODE_STOPS, ids=lambda it: type(it).__name__)
def test_a_node_that_stops_leaves_the_last_answer(silence: Exception) -> None:
    """The first two, seen at a drained node, ended the sidecar of a rolling restart as our mistake."""
    now, answers = [0.0], [{PIPELINE: 0}, silence, {}]

    def rows() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    catalog: Any = SimpleNamespace(views=dict, audits=lambda _incarnation: {})
    requests: Any = SimpleNamespace(rows=rows)
    asked = Asked(catalog=catalog, requests=requests, paused=lambda _: None, monotonic=lambda: now[0])
    for moment, halted in ((0.0, True), (1.0, True), (2.0, False)):
        now[0] = moment
        assert asked().halt is halted
    assert not answers


def test_epochs_go_on_while_a_question_is_not_answered() -> None:
    """For ten seconds after a node of three had died no view moved: whoever drives the epochs waited for the answer."""
    now, asked_for, may_answer = [0.0], [], threading.Event()

    def rows() -> dict[str, int]:
        asked_for.append(now[0])
        if now[0]:
            assert may_answer.wait(60)
            return {PIPELINE: 0}
        return {}

    catalog: Any = SimpleNamespace(views=dict, audits=lambda _incarnation: {})
    asked = Asked(
        catalog=catalog,
        requests=cast("Any", SimpleNamespace(rows=rows)),
        paused=lambda _: None,
        monotonic=lambda: now[0],
    )
    for now[0] in (0.0, 1.0, 2.0):
        assert not asked().halt
    may_answer.set()
    assert any(asked().halt or time.sleep(0.01) for _ in range(1000)), "the answer was never taken"
    assert asked_for == [0.0, 1.0], "one question at a time"


def test_a_pipeline_that_is_paused_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cvs resume VIEW` and `cvs repair VIEW` waited ten minutes for what it cannot do."""
    requests = Requests(cast("Any", None), keyspace="cvs")
    monkeypatch.setattr(Requests, "rows", lambda _: {PIPELINE: 0})
    with pytest.raises(StoreError, match="cvs resume --all"):
        requests.wait("v", seconds=600)


@pytest.mark.parametrize(
    ("paused", "rows", "go_on"),
    [(True, {}, "cvs resume s.v"), (False, {PIPELINE: 0}, "cvs resume --all"), (False, {}, "")],
)
def test_a_view_that_stands_still_because_it_was_told_to_is_not_repaired(
    paused: bool, rows: dict[str, int], go_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows differ from the base tables by now; that is no damage, and nobody would put them."""
    kept = {"s.v": CatalogView(name="s.v", statement="", level="strong", paused=paused)}
    monkeypatch.setattr(Views, "kept", lambda _: kept)
    monkeypatch.setattr(Views, "verify", lambda *_: RIGHT)
    monkeypatch.setattr(Views, "broken", lambda *_: False)
    monkeypatch.setattr(Requests, "rows", lambda _: rows)
    views = Views(session=cast("Any", None), settings=Settings())
    view: Any = SimpleNamespace(name="s.v")
    assert views.stopped(view) == go_on
    if go_on:
        with pytest.raises(StoreError, match=f"first: {go_on}"):
            repair(views, view, wait_s=0)
    else:
        assert repair(views, view, wait_s=0).healed


@pytest.mark.parametrize(("stopped", "code"), [("cvs resume s.v", 3), ("", 1)])
def test_what_a_paused_view_lacks_is_not_called_wrong(
    stopped: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cvs verify` said "rows are wrong", and to repair them."""
    assert verified(replace(RIGHT, differences=(WRONG,), stopped=stopped), monkeypatch) == code
    said = capsys.readouterr().out
    assert ("1 row is wrong" in said, "cvs repair" in said) == (not stopped, not stopped)
    assert (f"next: {stopped}, then verify it again" in said) == bool(stopped)


def verified(report: Report, monkeypatch: pytest.MonkeyPatch) -> int:
    view: Any = SimpleNamespace(name="s.v")
    views: Any = SimpleNamespace(
        asked_for=lambda _: Soundness(views=(view,)), building=lambda _: False, verify=lambda *_: report
    )
    monkeypatch.setattr("cvs.cli.verify.opened_views", lambda _: nullcontext(views))
    monkeypatch.setattr("cvs.cli.verify.give_way", lambda: None)
    return run(["verify"])


def test_a_broken_view_is_to_be_rebuilt_not_repaired(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After TRUNCATE of its base table `cvs verify` advised a repair, which puts the rows of before again."""
    report = replace(RIGHT, differences=(WRONG,), broken=True)
    assert verified(report, monkeypatch) == 1
    said = capsys.readouterr().out
    assert ("next: cvs rebuild s.v" in said, "cvs repair" in said) == (True, False)
    pin = SimpleNamespace(views={"s.v": BROKEN, "s.w": LIVE})
    monkeypatch.setattr(Views, "_control", lambda _: SimpleNamespace(pin=pin))
    monkeypatch.setattr(Views, "stopped", lambda *_: "")
    views = Views(session=cast("Any", None), settings=Settings())
    view: Any = SimpleNamespace(name="s.v")
    assert not views.broken(cast("Any", SimpleNamespace(name="s.w")))
    with pytest.raises(StoreError, match=r"cvs rebuild s\.v"):
        repair(views, view, wait_s=0)


def test_rows_in_quarantine_since_a_rebuild_are_told_in_epochs_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were in quarantine "since epoch 10,000,000,003", and of one there were "1 rows"."""
    command = importlib.import_module("cvs.cli.quarantine")
    views = SimpleNamespace(session=None, kept=lambda: ["s.v"])
    control = SimpleNamespace(signature=SimpleNamespace(incarnation=2))
    entry = Entry(source="s.v", key="(None, 1)", reason="a key column is null", epoch=10_000_000_003)
    monkeypatch.setattr(command, "opened_views", lambda _: nullcontext(views))
    monkeypatch.setattr(command, "read_control", lambda *_: control)
    monkeypatch.setattr(command, "quarantined", lambda *_: [entry])
    assert run(["quarantine"]) == 1
    told = "s.v  (None, 1): a key column is null (since epoch 3 of incarnation 2)\n1 row in quarantine\n"
    assert capsys.readouterr().out == told
