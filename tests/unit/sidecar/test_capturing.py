"""Who is captured by nobody is said."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cvs.capture.feed import ENDED, Head
from cvs.cli import run
from cvs.errors import SpecificationError
from cvs.sidecar.capturing import Capturing, feed_problems
from cvs.sidecar.settings import Settings, settings_from
from cvs.stream.build import ALWAYS

NOW = 1_000.0


def problems(heads: dict[str, Head], *, building: bool = False, nodes: int = 1) -> str:
    known = {f"n{number}": f"10.0.0.{number}" for number in range(1, nodes + 1)}
    return "; ".join(feed_problems(heads, building=building, nodes=known, now=NOW))


def head(seconds_ago: float) -> Head:
    return Head(position=3, clock=int((NOW - seconds_ago) * 1e6))


def test_a_feed_that_nobody_writes_is_a_problem_although_nothing_fails() -> None:
    assert "start `cvs capture`" in problems({})
    assert "start `cvs capture`" in problems({"build-1": head(0)}), "a build's own stream captures nothing"


def test_a_build_waits_for_every_node() -> None:
    assert "1 of 3 nodes are captured, and a build waits" in problems({"n1": head(0)}, building=True, nodes=3)


def test_a_node_that_nobody_captures_is_named() -> None:
    """One was added to the cluster: views were live and lacked what it alone had taken, without a word."""
    two = {"n1": head(0), "n2": head(0), "repair-cvs": Head(position=3, clock=ALWAYS)}
    assert not problems(two, nodes=2)
    assert problems(two, nodes=3) == "2 of 3 nodes are captured: `cvs capture` beside 10.0.0.3"
    ended = two | {"n2": Head(position=3, clock=ENDED)}
    assert problems(ended, nodes=2) == "1 of 2 nodes are captured: `cvs capture` beside 10.0.0.2"
    named = {"n1": head(0), "mine": head(0)}
    assert not problems(named, nodes=2)
    assert problems(named, nodes=3) == "2 of 3 nodes are captured: `cvs capture` beside the others"


def test_a_stream_that_stands_still_is_named_with_its_age() -> None:
    assert "n2 stands still since 75 s" in problems({"n1": head(1), "n2": head(75)}, nodes=2)
    assert not problems({"n1": head(59), "gone": Head(position=3, clock=ENDED)}), (
        "a node that left is no problem"
    )


GONE = "a608a813-826e-4546-933a-1e91300deb80"


def test_of_a_node_that_left_it_is_said_how_its_stream_ends() -> None:
    """It was asked whether its capture runs; and it hid a node that came in its place, which nobody captured."""
    said = problems({"n1": head(0), GONE: head(75)})
    assert said.startswith(
        f"stream {GONE} stands still since 75 s: no node of the datacentre has this host id"
    )
    assert "`cvs capture --last`" in said
    assert "`cvs feed end`" in said
    assert "cvs capture` run beside 10.0.0.2?" in problems({"n1": head(1), "n2": head(75)}, nodes=2)
    in_its_place = problems({"n1": head(0), GONE: head(30)}, nodes=2)
    assert in_its_place == "1 of 2 nodes are captured: `cvs capture` beside 10.0.0.2"


def test_a_feed_that_others_fill_needs_a_word_from_each_partition() -> None:
    quiet = {"app:0": head(1), "app:1": Head(position=0), "build-1": head(0)}
    assert "in each partition: app:1 had none yet" in problems(quiet, building=True, nodes=3)
    assert not problems(quiet, nodes=3)
    assert "app:0 stands still since 75 s: are there heartbeats?" in problems({"app:0": head(75)})


def test_a_capture_that_waits_for_the_feed_says_so() -> None:
    """The epochs may not have asked it yet: Spark starts for ten seconds and more."""
    capturing = Capturing(
        settings=Settings(), folder=Path(), ended=threading.Event(), log=None, leads=lambda: True
    )
    assert capturing.problems() == ()
    feed: Any = SimpleNamespace(silence=2.9)
    capturing._feed = feed
    assert capturing.problems() == ()
    feed.silence = 3.1
    assert "the feed does not answer" in "; ".join(capturing.problems())


OUTBOX = "outbox+kafka://broker:9092/app?cql=node"


def test_nothing_is_captured_into_a_feed_that_others_fill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was: an old DROP in the node's log broke a view of a table that was there again."""
    settings = settings_from(f'[capture]\ncdc_raw = "{tmp_path}"\n[feed]\nname = "{OUTBOX}"\n', {}, where="")
    with pytest.raises(SpecificationError, match="others fill this feed"):
        Capturing.of(settings, ended=threading.Event(), log=None, leads=lambda: True)
    assert run(["capture", "--feed", OUTBOX, "--node", "127.0.0.1"]) == 2
    assert "others fill this feed" in capsys.readouterr().err
