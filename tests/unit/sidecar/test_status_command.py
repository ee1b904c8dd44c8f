"""`cvs status` shows what a running sidecar says, worst first, in text and as JSON."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cvs.cli import run
from cvs.programs.epoch import EPOCHS_A_LIFE, place
from cvs.sidecar.http import StatusServer
from cvs.sidecar.status import EpochStatus, Status, StatusBoard, ViewStatus
from tests.cluster.terminal import watched

EPOCH = EpochStatus(epoch=12, committed_at=1.0, change_count=1, duration_ms=1.0, lag_ms=1.0)


def settings_for(folder: Path, port: int) -> str:
    file = folder / "cvs.toml"
    file.write_text(f'[http]\nhost = "127.0.0.1"\nport = {port}\n[views]\nstate_keyspace = "shop"\n')
    return str(file)


def test_the_worst_view_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken view stands above live ones, brackets in its problem are text, and the exit code is 1."""
    board = StatusBoard("shop", started_at=0.0)
    live = ViewStatus(name="a_live", state="live", declared_level="strong")
    broken = ViewStatus(name="z_broken", state="broken", declared_level="weak", problem="[red]no")
    board.committed(EPOCH, (live, broken), queued_change_count=1234)
    server = StatusServer(board, host="127.0.0.1", port=0)
    try:
        code = run(["status", "--settings", settings_for(tmp_path, server.port)])
        text = capsys.readouterr().out
        assert code == 1
        assert "epoch 12 · 1,234 changes wait" in text
        assert "[red]no" in text
        assert text.index("z_broken") < text.index("a_live")
        run(["status", "--settings", settings_for(tmp_path, server.port), "--json"])
        assert json.loads(capsys.readouterr().out)["result"]["committed_epoch"] == 12
    finally:
        server.stop()


def test_of_many_views_the_worst_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A thousand would take seconds to draw; all of them are in the JSON."""
    board = StatusBoard("shop", started_at=0.0)
    many = [ViewStatus(name=f"v{n}", state="live", declared_level="strong") for n in range(999)]
    broken = ViewStatus(name="z_broken", state="broken", declared_level="weak")
    board.committed(EPOCH, (*many, broken), queued_change_count=0)
    server = StatusServer(board, host="127.0.0.1", port=0)
    try:
        assert run(["status", "--settings", settings_for(tmp_path, server.port)]) == 1
        text = capsys.readouterr().out
        assert ("z_broken" in text, "and 900 more, no worse: cvs status --json" in text) == (True, True)
        assert text.count("live") == 99
    finally:
        server.stop()


def test_no_sidecar_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody listens the command says so, and exits 5."""
    assert run(["status", "--settings", settings_for(tmp_path, 1)]) == 5
    assert capsys.readouterr().err.startswith("error: no sidecar answers")


def test_the_sidecar_of_another_pipeline_is_not_taken_for_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours could not have the port and had ended; the views of the other were shown as if all were well."""
    server = StatusServer(StatusBoard("another", started_at=0.0), host="127.0.0.1", port=0)
    try:
        assert run(["status", "--settings", settings_for(tmp_path, server.port)]) == 5
    finally:
        server.stop()
    assert "its state is in another, ours in shop" in capsys.readouterr().err
    assert run(["status", "--settings", settings_for(tmp_path, 0)]) == 5
    assert "[http] port = 0" in capsys.readouterr().err


class Looked(StatusBoard):
    """A board that knows when somebody has looked at it a few times."""

    def __init__(self) -> None:
        super().__init__("shop", started_at=0.0)
        self.looks, self.often = 0, threading.Event()

    @property
    def status(self) -> Status:
        self.looks += 1
        if self.looks > 3:
            self.often.set()
        return super().status


def test_a_watch_outlives_the_sidecar(tmp_path: Path) -> None:
    """While a sidecar is restarted its watcher says that nobody answers, and looks on."""
    board = Looked()
    server = StatusServer(board, host="127.0.0.1", port=0)
    ending = threading.Thread(target=lambda: (board.often.wait(60), server.stop()))
    ending.start()
    file = settings_for(tmp_path, server.port)
    said = watched(tmp_path, "status", "--watch", "--settings", file, until=b"no sidecar answers", seconds=60)
    board.often.set()
    ending.join()
    assert (b"changes wait" in said, b"no sidecar answers" in said) == (True, True)


def test_a_watch_shows_all_of_a_problem_and_counts_what_has_no_room(tmp_path: Path) -> None:
    """What goes beyond a live screen is cut off: half of a problem was, and views below it without a word."""
    board = StatusBoard("shop", started_at=0.0)
    many = tuple(ViewStatus(name=f"v{n}", state="live", declared_level="strong") for n in range(9))
    board.committed(EPOCH, many, queued_change_count=0)
    board.change(problems=("somebody has pulled the plug out of the wall again",))
    server = StatusServer(board, host="127.0.0.1", port=0)
    narrow = ("status", "--watch", "--settings", settings_for(tmp_path, server.port))
    try:
        said = watched(tmp_path, *narrow, until=b"no worse", seconds=30, columns=30, lines=12)
    finally:
        server.stop()
    assert (b"wall again" in said, b"and 4 more" in said, said.count(b"live")) == (True, True, 5)


def test_status_asks_without_what_needs_a_second_to_load() -> None:
    """It answers within a second, so neither the driver nor the planner may be imported for it."""
    heavy = "{'cassandra', 'sqlglot', 'pyspark', 'numpy'}"
    code = f"import sys, cvs.cli.status; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("columns", "seen"),
    [(60, ""), (80, "quarantined"), (100, "why why"), (160, "declared quarantined why why")],
)
def test_names_stay_whole_on_narrow_screens(
    columns: int,
    seen: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is less needed gives way: at 60 columns names were folded to four letters a line."""
    monkeypatch.setenv("COLUMNS", str(columns))
    board = StatusBoard("shop", started_at=0.0)
    name = "cvs_views.big_orders_of_customers"
    views = [ViewStatus(name=name, state="live", declared_level="strong", row_count=77)]
    if columns > 80:
        views.append(ViewStatus(name="v", state="broken", declared_level="strong", problem="why " * 40))
    board.committed(EPOCH, tuple(views), queued_change_count=0)
    server = StatusServer(board, host="127.0.0.1", port=0)
    try:
        run(["status", "--settings", settings_for(tmp_path, server.port)])
        text = capsys.readouterr().out
    finally:
        server.stop()
    assert f"{name}  live" in text
    for word in ("declared", "quarantined", "why why"):
        assert (word in text) == (word in seen), word


def test_an_epoch_is_counted_within_its_incarnation() -> None:
    """After a rebuild the status was at epoch 10,000,000,008."""
    assert [place(it) for it in (0, 1_234, EPOCHS_A_LIFE + 8)] == ["0", "1,234", "8 of incarnation 2"]


def test_a_view_that_stands_still_has_no_lag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lag of the others, which go on, is not that of a paused or broken one."""
    board = StatusBoard("shop", started_at=0.0)
    board.committed(
        EPOCH,
        tuple(
            ViewStatus(name=it, state=it, declared_level="weak", lag_ms=543)
            for it in ("broken", "paused", "live")
        ),
        queued_change_count=0,
    )
    board.change(watermark=1.0)
    server = StatusServer(board, host="127.0.0.1", port=0)
    try:
        run(["status", "--settings", settings_for(tmp_path, server.port)])
        lines = capsys.readouterr().out.splitlines()
    finally:
        server.stop()
    assert ["543" in line for line in lines[-3:]] == [False, False, True]
