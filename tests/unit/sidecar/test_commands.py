"""What commands take from the settings, and in which order they refuse and tell."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cvs.cli import run
from cvs.cli.waiting import _progress
from cvs.errors import StoreError
from cvs.sidecar.uninstalling import Removal


@pytest.mark.parametrize(("told", "port"), [((), 9142), (("--port", "9242"), 9242)])
def test_a_capture_asks_its_node_at_the_port_of_the_settings(
    told: tuple[str, ...], port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asked 9042, whatever the settings said."""
    asked: list[tuple[str, int]] = []

    def connection(address: str, port: int, **_: Any) -> Any:
        asked.append((address, port))
        raise StoreError("enough")

    monkeypatch.setattr("cvs.cli.capture.NodeConnection", connection)
    settings = tmp_path / "cvs.toml"
    settings.write_text(f'[cluster]\nport = 9142\n[feed]\nname = "{tmp_path / "feed"}"\n')
    assert run(["capture", "--settings", str(settings), *told]) == 5
    assert asked == [("127.0.0.1", port)]


def test_who_waits_for_views_is_told_what_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cvs apply --wait` said that the sidecar begins, for as long as nobody captured."""
    said = {"build_part": 0.0, "building": "", "problems": ["nothing is captured"]}
    monkeypatch.setattr("cvs.cli.waiting.ask_sidecar", lambda _: said)
    nowhere: Any = None
    assert _progress(nowhere) == (0.0, "nothing is captured")
    said |= {"building": "5 % of the base tables read"}
    assert _progress(nowhere)[1] == "5 % of the base tables read"


def test_uninstall_tells_what_it_removes_only_where_it_may(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It printed every DROP, and then refused: it looked done."""
    metadata = SimpleNamespace(keyspaces={"cvs": None})
    sent: list[str] = []
    session = SimpleNamespace(
        driver=SimpleNamespace(cluster=SimpleNamespace(metadata=metadata)), define=sent.append
    )
    monkeypatch.setattr(
        "cvs.cli.uninstall.opened_views", lambda _: nullcontext(SimpleNamespace(session=session))
    )
    found = Removal(statements=("DROP KEYSPACE cvs",))
    monkeypatch.setattr("cvs.cli.uninstall.removal", lambda _: found)

    def leads(_: Any) -> None:
        raise StoreError("a sidecar still keeps the views")

    monkeypatch.setattr("cvs.cli.uninstall.wait_stopped", leads)
    assert (run(["uninstall", "--yes"]), run(["uninstall"]), run(["uninstall", "--dry-run"])) == (5, 2, 0)
    assert (capsys.readouterr().out.count("DROP"), sent) == (1, [])
    monkeypatch.setattr("cvs.cli.uninstall.wait_stopped", lambda _: None)
    assert (run(["uninstall", "--yes"]), sent) == (0, ["DROP KEYSPACE cvs"])
    assert "left to you, outside of the cluster: captures and their feed" in capsys.readouterr().out
