"""Health, metrics and the status page say what the board says, over real HTTP."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from cvs.errors import MissingEnvironmentError
from cvs.sidecar.http import StatusServer
from cvs.sidecar.metrics import METRICS, exposition
from cvs.sidecar.status import EpochStatus, StatusBoard, ViewStatus

EPOCH = EpochStatus(epoch=7, committed_at=10.0, change_count=30, duration_ms=250.0, lag_ms=400.0)
LIVE = ViewStatus(
    name="by_region", state="live", declared_level="strong", lag_ms=400.0, row_count=3, untimely_count=3
)


@pytest.fixture
def board() -> StatusBoard:
    return StatusBoard("shop", started_at=1.0)


@pytest.fixture
def url(board: StatusBoard) -> Iterator[str]:
    server = StatusServer(board, host="127.0.0.1", port=0)
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def test_not_ready_until_every_view_is_live(board: StatusBoard, url: str) -> None:
    """`/readyz` names the views that are not served yet, and turns 200 when all are."""
    assert get(url + "/readyz") == (503, "no view yet\n")
    building = ViewStatus(name="by_day", state="building", declared_level="weak")
    board.committed(EPOCH, (LIVE, building), queued_change_count=0)
    assert get(url + "/readyz") == (503, "by_day: building\n")
    board.committed(EPOCH, (LIVE,), queued_change_count=0)
    assert get(url + "/readyz") == (200, "ready\n")


def test_the_status_is_one_json_value(board: StatusBoard, url: str) -> None:
    """`/status.json` carries views and epochs as the page draws them."""
    board.committed(EPOCH, (LIVE,), queued_change_count=5)
    status = json.loads(get(url + "/status.json")[1])
    assert (status["committed_epoch"], status["queued_change_count"]) == (7, 5)
    assert status["views"][0]["name"] == "by_region"
    assert status["epochs"][0]["duration_ms"] == 250.0


def test_every_metric_of_the_table_is_exposed(board: StatusBoard) -> None:
    """What the table documents is what a scraper gets, with the board's values."""
    board.committed(EPOCH, (LIVE,), queued_change_count=5)
    board.change(problems=("2 of 3 nodes are captured",))
    text = exposition(board).decode()
    assert [m.name for m in METRICS if f"# HELP {m.name} " not in text] == []
    assert 'cvs_view_lag_seconds{view="by_region"} 0.4' in text
    assert 'cvs_view_state{state="live",view="by_region"} 1.0' in text
    assert "cvs_queued_changes 5.0" in text
    assert "cvs_problems 1.0" in text
    assert 'cvs_view_untimely{view="by_region"} 3.0' in text


def test_only_what_exists_is_served(url: str) -> None:
    """Unknown paths, other methods and other files get a clear refusal."""
    assert get(url + "/../settings.py")[0] == 404
    request = urllib.request.Request(url + "/", method="POST", data=b"x")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=5)
    refusal.value.close()
    assert refusal.value.code == 405


def test_the_page_runs_no_foreign_script(url: str) -> None:
    """The page may only load its own files, and inlines nothing."""
    with urllib.request.urlopen(url + "/", timeout=5) as answer:
        policy, page = answer.headers["Content-Security-Policy"], answer.read().decode()
    assert policy.startswith("default-src 'none'")
    assert "<script>" not in page


def test_a_taken_port_is_said(url: str, board: StatusBoard) -> None:
    """A port in use is one message with what to change."""
    port = int(url.rsplit(":", 1)[1])
    with pytest.raises(MissingEnvironmentError, match="cannot listen"):
        StatusServer(board, host="127.0.0.1", port=port)
