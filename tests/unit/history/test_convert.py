"""`cvs convert`: every form into every form, and one message for whatever is wrong."""

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cvs.cli import run
from cvs.errors import ExitCode
from cvs.history.codec import history_bytes, plain_bytes
from cvs.history.record import History
from cvs.history.validate import checked
from tests.unit.history.test_codec import small_history


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with the files of two processes."""
    folder = tmp_path / "history"
    folder.mkdir()
    (folder / "m1.ndjson").write_bytes(history_bytes(small_history("m1")))
    second = [event for event in small_history("m2") if "base" not in type(event).__name__.lower()]
    (folder / "m2.ndjson").write_bytes(history_bytes(second))
    return folder


@pytest.mark.parametrize("name", ["run.ndjson", "run.ndjson.gz", "run.ndjson.zst", "run.parquet"])
def test_each_form_comes_back(recorded: Path, tmp_path: Path, name: str) -> None:
    """Written in one form, read again, written as lines: the same events."""
    target, again, plain = tmp_path / name, tmp_path / "again.ndjson", tmp_path / "plain.ndjson"
    assert run(["convert", str(recorded), "--to", str(target)]) == ExitCode.MET
    assert run(["convert", str(target), "--to", str(again)]) == ExitCode.MET
    assert run(["convert", str(recorded), "--to", str(plain)]) == ExitCode.MET
    assert again.read_bytes() == plain.read_bytes()
    assert len(checked(plain_bytes(again.read_bytes())).events) == 8


VIEWS = """
CREATE TABLE shop.orders (id int PRIMARY KEY, region text);
CREATE MATERIALIZED VIEW shop.by_region AS SELECT region, COUNT(*) AS n FROM shop.orders GROUP BY region;
"""


def of_a_stranger(file: Path, *, loses: int = 0, view: str = "shop.by_region") -> None:
    """Record as somebody would who keeps a count of his own; one order may be lost."""
    with file.open("wb", buffering=0) as out:
        history = History(
            write=out.write, clock=itertools.count().__next__, process="m", run="r", views=[view]
        )
        for order, number in ((1, 1), (2, 2), (3, 3)):
            history.base_update("shop.orders", (order,), {"id": order, "region": "EU"}, version=1).applied()
            if order == loses:
                continue
            before = number - 1 - (0 < loses < order)
            history.test_and_set(
                view,
                ("EU",),
                expected=(0, before, 0, True) if before else None,
                new=(0, before + 1, 0, True),
                row={"region": "EU", "n": before + 1},
            ).applied()
        history.quiescent()


@pytest.mark.parametrize(("loses", "code"), [(0, ExitCode.MET), (2, ExitCode.VIOLATED)])
def test_views_known_by_name_get_their_meaning_from_sql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loses: int, code: ExitCode
) -> None:
    """Without it levels are undecided, and said how to decide; with it a lost order is found."""
    mine, views, target = tmp_path / "mine.ndjson", tmp_path / "views.sql", tmp_path / "run.ndjson"
    of_a_stranger(mine, loses=loses)
    views.write_text(VIEWS)
    assert run(["audit", str(mine), "--expect", "converged"]) == ExitCode.UNDECIDED
    assert "cvs convert --define" in capsys.readouterr().out
    assert run(["convert", str(mine), "--define", str(views), "--to", str(target)]) == ExitCode.MET
    assert run(["audit", str(target), "--expect", "complete"]) == code


BY_HAND = """
{"event":"run_started","process":"app","time":0,"run":"mine","views":[{"name":"by_region"}]}
{"event":"base_update_called","process":"app","time":2,"operation":1,"table":"orders","key":[8],"version":1,"row":{"id":8,"region":"EU","price":"1.10"}}
{"event":"base_update_returned","process":"app","time":3,"operation":1,"outcome":"applied"}
{"event":"quiescent","process":"app","time":7}
{"event":"view_read_called","process":"app","time":8,"operation":3,"view":"by_region","view_key":["EU"]}
{"event":"view_read_returned","process":"app","time":9,"operation":3,"rows":[[["EU"],{"region":"EU","total":"1.1"}]]}
"""
PRICES = """
CREATE TABLE shop.orders (id int PRIMARY KEY, region text, price decimal);
CREATE MATERIALIZED VIEW shop.by_region AS SELECT region, SUM(price) AS total FROM shop.orders GROUP BY region;
"""


@pytest.mark.parametrize(("total", "code"), [("1.1", ExitCode.MET), ("1.2", ExitCode.VIOLATED)])
def test_a_history_by_hand_needs_no_keyspace_and_writes_numbers_as_text(
    tmp_path: Path, total: str, code: ExitCode
) -> None:
    """What a person writes of a decimal is compared as a decimal, in view records as in base rows."""
    mine, views, target = tmp_path / "mine.ndjson", tmp_path / "views.sql", tmp_path / "run.ndjson"
    mine.write_text(BY_HAND.strip().replace('"1.1"', f'"{total}"') + "\n")
    views.write_text(PRICES)
    assert run(["convert", str(mine), "--define", str(views), "--to", str(target)]) == ExitCode.MET
    assert run(["audit", str(target), "--expect", "strong"]) == code


def test_a_history_without_keyspaces_is_defined_by_sql_without_keyspaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was refused: `orders` has no keyspace, which nothing there has."""
    mine, views, target = tmp_path / "mine.ndjson", tmp_path / "views.sql", tmp_path / "run.ndjson"
    mine.write_text(BY_HAND.strip() + "\n")
    views.write_text(PRICES.replace("shop.", ""))
    assert run(["convert", str(mine), "--define", str(views), "--to", str(target)]) == ExitCode.MET
    assert run(["audit", str(target), "--expect", "strong"]) == ExitCode.MET
    mine.write_text(BY_HAND.strip().replace('"orders"', '"shop.orders"') + "\n")
    assert run(["convert", str(mine), "--define", str(views)]) == ExitCode.USAGE
    assert "keyspace" in capsys.readouterr().err


def test_a_view_that_the_sql_does_not_declare_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, views = tmp_path / "mine.ndjson", tmp_path / "views.sql"
    of_a_stranger(mine, view="shop.per_region")
    views.write_text(VIEWS)
    assert run(["convert", str(mine), "--define", str(views)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "shop.per_region" in said
    assert "shop.by_region" in said


def test_what_is_wrong_stays_wrong_whatever_the_views_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, views = tmp_path / "mine.ndjson", tmp_path / "views.sql"
    of_a_stranger(mine)
    views.write_text(VIEWS)
    mine.write_bytes(mine.read_bytes() + b"{}\n")
    assert run(["convert", str(mine), "--define", str(views)]) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert "1 complaint:" in told


def test_nothing_is_left_of_what_could_not_be_written(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Parquet without the events from the one on that has a number of more than 64 bits looked whole."""
    large, target = tmp_path / "large.ndjson", tmp_path / "run.parquet"
    assert run(["convert", str(recorded), "--to", str(large)]) == ExitCode.MET
    large.write_bytes(
        large.read_bytes().replace(b'"clock_error":0', b'"clock_error":99999999999999999999', 1)
    )
    assert run(["convert", str(large), "--to", str(target)]) == ExitCode.BAD_INPUT
    assert "more than 64 bits" in capsys.readouterr().err
    assert not target.exists()


def test_a_file_beside_those_it_was_made_of_is_named(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["convert", str(recorded), "--to", str(recorded.parent / "run.ndjson")]) == ExitCode.MET
    assert run(["audit", str(recorded.parent)]) == ExitCode.BAD_INPUT
    assert "name no file together with one made of it" in capsys.readouterr().err


def test_a_check_lists_every_mistake_of_every_file(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4, each with file and line; nothing is written."""
    for name in ("m1", "m2"):
        with (recorded / f"{name}.ndjson").open("ab") as file:
            file.write(b'{"event":"quiescent"}\n')
    assert run(["convert", str(recorded)]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert "m1.ndjson:6" in said
    assert "m2.ndjson:4" in said


def test_a_torn_line_is_forgiven_if_asked(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a crash leaves it."""
    with (recorded / "m1.ndjson").open("ab") as file:
        file.write(b'{"event":"quie')
    assert run(["convert", str(recorded)]) == ExitCode.BAD_INPUT
    assert run(["convert", str(recorded), "--forgive-torn", "--json"]) == ExitCode.MET
    answer = json.loads(capsys.readouterr().out)
    assert answer["result"]["events"] == 8
    assert all(text.startswith("sha256:") for text in answer["result"]["files"].values())


def test_values_are_hidden_with_a_key(recorded: Path, tmp_path: Path) -> None:
    """A view known by its name only is hidden wholly."""
    key, target = tmp_path / "key", tmp_path / "hidden.ndjson"
    key.write_bytes(b"0123456789abcdef")
    assert run(["convert", str(recorded), "--redact", str(key), "--to", str(target)]) == ExitCode.MET
    assert b"1.10" not in target.read_bytes()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.ndjson", None),
        ("a.ndjson", b"\x1f\x8bxx"),
        ("a.parquet", b"PAR1xx"),
        ("a.ndjson", b"\xff\xfe"),
        ("a.ndjson", b""),
    ],
)
def test_what_is_no_history_is_one_message(tmp_path: Path, name: str, content: bytes | None) -> None:
    """Never a traceback."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run(["convert", str(tmp_path / name)]) == ExitCode.BAD_INPUT
    assert run(["convert", str(tmp_path / "nowhere")]) == ExitCode.BAD_INPUT


def test_a_history_without_rest_cannot_be_rolled(recorded: Path) -> None:
    """Nothing is dropped silently."""
    assert run(["convert", str(recorded), "--roll"]) == ExitCode.BAD_INPUT


def test_a_check_lists_all_of_many_mistakes_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An audit names the first and says who names the rest."""
    file = tmp_path / "mine.ndjson"
    of_a_stranger(file)
    good = file.read_bytes().count(b"\n")
    file.write_bytes(file.read_bytes() + b"{}\n" * 500)
    assert run(["convert", str(file)]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1] for line in said[1:501]] == [str(n) for n in range(good + 1, good + 501)]
    assert run(["audit", str(file)]) == ExitCode.BAD_INPUT
    assert "and 480 more; `cvs convert` lists them" in capsys.readouterr().err


def test_a_rolled_history_is_still_at_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest went with what came before it: a history rolled at its end "did not say that it came to rest"."""
    mine, views, target = tmp_path / "mine.ndjson", tmp_path / "views.sql", tmp_path / "run.ndjson"
    mine.write_text(BY_HAND.strip() + "\n")
    views.write_text(PRICES)
    arguments = ["convert", str(mine), "--define", str(views), "--roll", "--to", str(target)]
    assert run(arguments) == ExitCode.MET
    assert run(["audit", str(target), "--expect", "converged"]) == ExitCode.MET
    assert run(["convert", str(target), "--roll"]) == ExitCode.MET
    foreign = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), foreign)
    assert run(["convert", str(foreign)]) == ExitCode.BAD_INPUT
    assert f"where: {foreign}" in capsys.readouterr().err
