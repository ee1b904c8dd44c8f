"""`cvs feed`: what is in a feed, for people and as JSON."""

import json
from pathlib import Path

import pytest

from cvs.capture.changes import (
    Bound,
    Cell,
    Change,
    Column,
    ColumnKind,
    Deletion,
    Kind,
    Liveness,
    Range,
    TableDefinition,
)
from cvs.capture.feed import ENDED, Head, Source
from cvs.capture.folder import FolderFeed
from cvs.cli import run

TABLE = TableDefinition(
    id="6c6f2a80-0000-11ef-8000-000000000001",
    keyspace="shop",
    name="orders",
    columns=(
        Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),
        Column(name="line", type="int", kind=ColumnKind.CLUSTERING, position=0),
        Column(name="tags", type="set<text>", kind=ColumnKind.REGULAR),
        Column(name="v", type="text", kind=ColumnKind.REGULAR),
    ),
)
ONE, TWO = b"\x00\x00\x00\x01", b"\x00\x00\x00\x02"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    feed = FolderFeed(tmp_path)
    table = feed.define(TABLE)
    row = Change(
        Kind.ROW,
        table,
        ONE,
        (TWO,),
        Liveness(7),
        None,
        (Cell("v", b"hi", 7), Cell("tags", b"", 7, path=b"new"), Cell("tags", None, 7, 1, path=b"old")),
        (("tags", Deletion(6, 1)),),
        origin=(5, 99, 0),
    )
    span = Range(Bound((ONE,), True), Bound((), True))
    deletion = Change(Kind.RANGE_DELETION, table, ONE, deletion=Deletion(9, 1), range=span)
    gap = Change(Kind.GAP, "", detail="segments 5 to 6 are gone unread")
    feed.append("n1", [row, deletion, gap], source=Source(5, 100), clock=10)
    feed.close()
    return tmp_path


def test_cat_shows_values_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["feed", "cat", str(folder), "--json"]) == 0
    row, deletion, gap = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["key"] == {"id": 1}
    assert row["clustering"] == {"line": 2}
    assert row["values"] == {"v": "hi"}
    assert row["elements"]["tags"] == [
        {"element": "new", "value": None, "time": 7},
        {"element": "old", "removed": True, "time": 7},
    ]
    assert row["emptied"] == {"tags": 6}
    assert (row["position"], row["origin"], row["written"]) == (0, "5:99", 7)
    assert deletion["from"] == {"line": 1, "inclusive": True}
    assert (deletion["kind"], deletion["deleted"]) == ("range deletion", 9)
    assert (gap["kind"], gap["detail"]) == ("gap", "segments 5 to 6 are gone unread")


def test_cat_for_people_from_a_position(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["feed", "cat", str(folder), "--from", "0", "--limit", "1"]) == 0
    assert capsys.readouterr().out.startswith("n1        0  row                shop.orders  key {id: 1}")


def test_ls_shows_positions_and_the_clock(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["feed", "ls", str(folder), "--json"]) == 0
    (stream,) = json.loads(capsys.readouterr().out)["result"]
    assert {"stream": "n1", "first": 0, "next": 3, "clock": 10, "source": "5:100"}.items() <= stream.items()


def test_no_feed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["feed", "ls", str(tmp_path)]) == 4
    assert "no stream" in capsys.readouterr().err


def test_tail_shows_only_what_comes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["feed", "tail", str(folder), "--for", "0.1"]) == 0
    assert capsys.readouterr().out == ""


def test_the_stream_of_a_lost_node_ends_with_a_gap(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for said in (
        "every view is broken by it. next: cvs rebuild --all",
        "nothing was done",
    ):  # said twice, ended once
        assert run(["feed", "end", str(folder), "--stream", "n1"]) == 0
        assert said in capsys.readouterr().out
    feed = FolderFeed(folder)
    assert feed.head("n1") == Head(4, ENDED, Source(5, 100))
    (gap,) = feed.read("n1", 3, 10)
    assert (gap.kind, "up to segment 5" in gap.detail) == (Kind.GAP, True)
    assert run(["feed", "ls", str(folder)]) == 0
    assert "positions 0 to 4  ended" in capsys.readouterr().out


def test_without_a_name_it_is_the_feed_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As OPERATE.md has it: `cvs feed ls` names the stream that stands still."""
    monkeypatch.chdir(tmp_path)
    FolderFeed(tmp_path / "here").append("n1", [], source=Source(1, 0), clock=5)
    tmp_path.joinpath("cvs.toml").write_text('[feed]\nname = "here"\n')
    assert run(["feed", "ls"]) == 0
    assert capsys.readouterr().out.startswith("n1  ")
    FolderFeed(tmp_path / "new").append("n2", [], source=Source(1, 0), clock=0)
    assert run(["feed", "ls", "new"]) == 0
    assert "no clock yet" in capsys.readouterr().out


def test_the_settings_may_be_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for every other command: a service's settings are in no folder that people stand in."""
    file = tmp_path / "elsewhere.toml"
    file.write_text(f'[feed]\nname = "{folder}"\n')
    assert run(["feed", "ls", "--settings", str(file)]) == 0
    assert capsys.readouterr().out.startswith("n1  positions 0 to 3")
    assert run(["feed", "end", "--settings", str(file), "--stream", "n1"]) == 0
    assert FolderFeed(folder).head("n1").clock == ENDED
