"""The status page in a real browser: what it draws, of few views and of a thousand, and what it does not run."""

import html
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cvs.programs.epoch import EPOCHS_A_LIFE
from cvs.sidecar.http import StatusServer
from cvs.sidecar.status import EpochStatus, StatusBoard, ViewState, ViewStatus

pytestmark = pytest.mark.slow

STATES: tuple[ViewState, ...] = ("live", "degraded", "building", "paused", "broken")


def view(number: int) -> ViewStatus:
    return ViewStatus(
        name=f"v{number}",
        state=STATES[number % 5],
        declared_level="strong",
        audited_level="weak",
        plan=f"SELECT {number}",
    )


@pytest.fixture
def board() -> Iterator[tuple[StatusBoard, str]]:
    """A board with ten minutes of epochs, and where it is served."""
    board = StatusBoard("shop", started_at=0.0)
    for number in range(600):
        epoch = EpochStatus(
            epoch=number + 1,
            committed_at=1000.0 + number,
            change_count=number,
            duration_ms=100.0,
            lag_ms=200.0 + number,
            phases_ms=(("commit", 9.0),),
        )
        board.committed(epoch, (), queued_change_count=1234)
    server = StatusServer(board, host="127.0.0.1", port=0)
    yield board, f"http://127.0.0.1:{server.port}/"
    server.stop()


def dom(url: str, folder: Path) -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "no Chromium on this machine: install one (apt-get install chromium) to run this test"
    run = subprocess.run(
        [
            found, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=1500", "--dump-dom", url,
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return run.stdout


def text_of(part: str, page: str) -> str:
    found = re.search(rf'id="{part}"[^>]*>(.*?)</(?:table|p|pre|figure|section)>', page, re.S)
    assert found, part
    return html.unescape(re.sub(r"<[^>]+>", " ", found[1]))


def test_an_operator_sees_views_lag_rate_plan_epochs_and_problems(
    board: tuple[StatusBoard, str], tmp_path: Path
) -> None:
    """Worst view first, both lines drawn, the newest epoch on top; a name that is markup stays a name."""
    it, url = board
    evil = ViewStatus(
        name="<img src=x onerror=document.title='run'>", state="live", declared_level="weak", plan="SELECT 0"
    )
    it.change(views=(evil, *map(view, range(5))), leader=True, problems=("cdc_raw is 74% full",))
    it.change(building="shop.orders 40% read", build_part=0.4)
    page = dom(url, tmp_path)
    assert 'data-drawn="6"' in page
    rows = text_of("views", page)
    assert rows.index("v4") < rows.index("v1") < rows.index("v2") < rows.index("v3") < rows.index("v0")
    assert evil.name in rows
    assert "<title>▲ cvs shop</title>" in page
    assert "cdc_raw is 74% full" in text_of("problems", page)
    assert "1,234 changes wait" in text_of("summary", page)
    assert "a build goes on: shop.orders 40% read" in text_of("building", page)
    assert "SELECT 0" in text_of("plan", page)
    assert ("799 ms" in text_of("lag", page), "599 /s" in text_of("rate", page)) == (True, True)
    assert [len(points.split()) for points in re.findall(r'points="([^"]*)"', page)] == [600, 599]
    assert re.search(r"^\s*epoch\s+committed.*?\s600\s", text_of("epochs", page), re.S)


def test_what_stands_still_has_no_lag_and_problems_are_not_called_well(
    board: tuple[StatusBoard, str], tmp_path: Path
) -> None:
    """As `cvs status` has it: a rebuilt pipeline was at epoch 10,000,000,008, and views "all well" below problems."""
    it, url = board
    paused = ViewStatus(name="v", state="paused", declared_level="strong", lag_ms=90_000.0)
    long = ViewStatus(name="a_long_name." * 8, state="live", declared_level="strong", lag_ms=5.0)
    it.change(views=(paused, long), committed_epoch=EPOCHS_A_LIFE + 8, problems=("one node is not captured",))
    it.change(watermark=1000.0)
    page = dom(url, tmp_path)
    assert re.search(r'data-label="lag ms">-<.*data-label="lag ms">5<', page, re.S)
    assert "epoch 8 of incarnation 2 · 2 views, none broken, see the problems" in text_of("summary", page)


def test_a_thousand_views_are_answered_within_a_second(
    board: tuple[StatusBoard, str], tmp_path: Path
) -> None:
    """What the page asks for comes at once, and the page draws the worst 200 of them."""
    it, url = board
    it.change(views=tuple(map(view, range(1000))))
    started = time.monotonic()
    with urllib.request.urlopen(url + "status.json", timeout=5) as answer:
        assert len(answer.read()) > 100_000
    assert time.monotonic() - started < 1.0
    page = dom(url, tmp_path)
    assert 'data-drawn="1000"' in page
    assert "800 more views match" in text_of("more", page)
    assert text_of("views", page).count("broken") == 200
