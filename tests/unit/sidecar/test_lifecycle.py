"""What a sidecar does before it has anything to keep."""

import importlib
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import InvalidRequest, Unauthorized
from cassandra.connection import ConnectionShutdown

from cvs.capture.feed import Head, Source
from cvs.cli import run
from cvs.sidecar import lifecycle
from cvs.sidecar.lifecycle import (
    NOT_APPLIED,
    _keep,
    count_rows,
    retire_beside,
    uncaptured,
    wait_applied,
    watch,
)
from cvs.sidecar.logs import logger
from cvs.sidecar.settings import FeedSettings, Settings
from cvs.sidecar.status import StatusBoard
from cvs.sidecar.watching import BoardWatcher


def test_logs_have_no_colours_where_none_are_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other command honoured NO_COLOR."""
    for wanted, coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", wanted)
        logger(json=False).info("ready")
        assert ("\x1b[" in capsys.readouterr().err) == coloured


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


def test_rows_are_counted_once_the_cluster_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes the lead because a node is restarted counts while that node refuses; it showed no rows from then on."""
    answers: list[Exception | None] = [ConnectionShutdown("closed"), ConnectionShutdown("closed"), None]
    counted = threading.Event()

    def recount() -> None:
        if fault := answers.pop(0):
            raise fault
        counted.set()

    monkeypatch.setattr(lifecycle, "COUNTED_AGAIN_AFTER", (0, 0, 0))
    watcher: Any = SimpleNamespace(recount=recount)
    count_rows(watcher, SimpleNamespace(info=lambda *_, **__: None))
    assert (counted.wait(10), answers) == (True, [])


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (ConnectionShutdown("closed"), 5, "the cluster did not answer: ConnectionShutdown: closed"),
        (
            Unauthorized("no MODIFY on seen.by_region"),
            5,
            "the role may not do this: no MODIFY on seen.by_region",
        ),
        (InvalidRequest("no such column"), 70, "a mistake of ours: InvalidRequest: no such column"),
    ],
)
def test_a_cluster_that_is_away_is_no_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: Exception,
    code: int,
    said: str,
) -> None:
    """A service manager starts `cvs run` again either way; only one of the two is worth a report."""

    def serve(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(importlib.import_module("cvs.cli.run"), "serve", serve)
    (tmp_path / "cvs.toml").write_text("")
    assert run(["run", "--settings", str(tmp_path / "cvs.toml")]) == code
    assert said in capsys.readouterr().err


def of_one_node(name: str) -> Any:
    node = SimpleNamespace(host_id=name, address="127.0.0.1", datacenter="")
    cluster = SimpleNamespace(metadata=SimpleNamespace(all_hosts=lambda: [node]))
    return SimpleNamespace(
        driver=SimpleNamespace(cluster=cluster), address=SimpleNamespace(local_datacenter="")
    )


def test_an_incarnation_that_gave_way_says_nothing_of_the_feed() -> None:
    """It no longer looks at it: what it saw last grows old, and would be said to stand still."""
    watcher = BoardWatcher(board=StatusBoard("cvs", started_at=0.0), views=[])
    asked: Any = SimpleNamespace(incarnation=2)
    now, long_ago = int(time.time() * 1e6), int((time.time() - 300) * 1e6)
    for incarnation, clock in ((2, now), (1, long_ago)):
        pipeline: Any = SimpleNamespace(
            recipe=SimpleNamespace(names=SimpleNamespace(incarnation=incarnation)),
            session=of_one_node("3f2a"),
            feed=SimpleNamespace(silence=0.0),
            control=None,
            seen={"3f2a": Head(position=1, clock=clock, source=Source())},
            seen_at=time.time(),
            watchers=[],
        )
        watch(pipeline, watcher, asked, tuple)
        assert pipeline.wishes is asked
    assert watcher.problems() == ()


def test_views_go_on_while_what_is_old_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tables took 15 s on three nodes, in which no epoch was run; they are gone before the next incarnation."""
    dropping, dropped = threading.Event(), []

    def retire(_views: Any, incarnation: int, **_: Any) -> Any:
        dropping.wait(60)
        dropped.append(incarnation)
        yield "cvs.state_z1_1"

    def pipeline(_settings: Any, *, serving: Any, **_: Any) -> bool:
        serving()
        assert not dropped, "the epochs did not wait"
        dropping.set()
        return True

    nobody: Any = SimpleNamespace(
        declared=lambda: [SimpleNamespace(name="s.v", definition=None)],
        catalog=SimpleNamespace(incarnation=lambda: 2),
        session=None,
        settings=SimpleNamespace(views=SimpleNamespace(state_keyspace="cvs")),
        views=(),
    )
    for name, stand_in in (
        ("base_names", lambda _: set()),
        ("_watched", lambda *_: []),
        ("count_rows", lambda *_: None),
        ("_run_settings", lambda *_: SimpleNamespace(incarnation=2)),
        ("retire", retire),
        ("run", pipeline),
    ):
        monkeypatch.setattr(lifecycle, name, stand_in)
    log: Any = SimpleNamespace(info=lambda *_, **__: None, warning=lambda *_, **__: None)
    ended = threading.Event()
    assert _keep(nobody, nobody, tuple, alter=lambda it: it, log=log, leads=lambda: True, ended=ended)
    assert dropped == [2]


def test_what_could_not_be_dropped_is_tried_again_unless_others_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    answers: list[Any] = [ConnectionShutdown("it starts"), ["one", "two"]]
    wanted = iter([2, 2, 3])

    def retire(_views: Any, _incarnation: int, *, go_on: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield from (table for table in answer if go_on())

    monkeypatch.setattr(lifecycle, "retire", retire)
    views: Any = SimpleNamespace(catalog=SimpleNamespace(incarnation=lambda: next(wanted)))
    log: Any = SimpleNamespace(
        info=lambda _what, table: said.append(table), warning=lambda what, **_: said.append(what)
    )
    next(wanted)
    retire_beside(views, 2, threading.Event(), log, pauses=(0, 0))
    assert said == ["what an older incarnation had stays", "one"]


def test_a_base_table_that_is_captured_no_more_is_a_problem() -> None:
    """Views were live, fresh and ready after `cdc` was switched off, and lacked all that was written since."""
    tables = {
        name: SimpleNamespace(options={"cdc": cdc}) for name, cdc in (("a", True), ("b", False), ("c", None))
    }
    metadata = SimpleNamespace(keyspaces={"s": SimpleNamespace(tables=tables)})
    session = SimpleNamespace(driver=SimpleNamespace(cluster=SimpleNamespace(metadata=metadata)))
    views: Any = SimpleNamespace(session=session, settings=Settings())
    assert uncaptured(views, ["s.a", "s.gone", "gone.a"]) == ()
    (problem,) = uncaptured(views, ["s.a", "s.c", "s.b"])
    assert problem.startswith("changes of s.b, s.c are not captured: cdc is off; cvs apply")
    views.settings = Settings(feed=FeedSettings(name="outbox+kafka://broker:9092/app?cql=10.0.0.1"))
    assert uncaptured(views, ["s.b"]) == (), "the base tables of such a feed stay as they are"


@pytest.mark.parametrize(("looked", "problems"), [(1_000.0, 0), (1_100.0, 1)])
def test_a_long_epoch_makes_no_capture_a_silent_one(looked: float, problems: int) -> None:
    """Heads are looked at between epochs: how old they were then counts, not how long ago that was."""
    pipeline: Any = SimpleNamespace(
        session=of_one_node("node-1"),
        feed=SimpleNamespace(silence=0.0),
        control=None,
        seen={"node-1": Head(5, 999_000_000, Source(0, 0))},
        seen_at=looked,
    )
    assert len(lifecycle._feed_problems(pipeline)) == problems


def test_a_feed_that_does_not_answer_is_said_and_not_asked() -> None:
    """Nothing said why the lag grew; who renews the lead waited for the brokers too, and lost it."""
    pipeline: Any = SimpleNamespace(
        session=of_one_node("node-1"),
        feed=SimpleNamespace(silence=4.2),
        control=SimpleNamespace(pin=SimpleNamespace(building=True)),
        seen=None,
        seen_at=0.0,
    )
    (problem,) = lifecycle._feed_problems(pipeline)
    assert problem == "the feed does not answer: see that what [feed] names runs and can be reached"
    pipeline.seen = {"node-1": Head(5, 999_000_000, Source(0, 0))}
    pipeline.seen_at, pipeline.feed.silence = 1_000.0, 0.1
    assert lifecycle._feed_problems(pipeline) == ()
