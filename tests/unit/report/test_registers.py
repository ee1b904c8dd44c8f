"""The page of another system's history: every operation, its point inside its interval, the violation."""

from pathlib import Path

import pytest

from cvs.cli import run
from cvs.errors import ExitCode
from cvs.report.audit import audit
from cvs.report.registers import Registers, registers_data

GOOD = [
    (0, "invoke", "write", "1"),
    (1, "invoke", "read", "nil"),
    (0, "ok", "write", "1"),
    (1, "ok", "read", "1"),
    (0, "invoke", "cas", "[1 2]"),
    (0, "ok", "cas", "[1 2]"),
    (1, "invoke", "cas", "[7 8]"),
    (1, "fail", "cas", "[7 8]"),
    (2, "invoke", "write", "5"),
    (2, "info", "write", ":timed-out"),
]
STALE = [(0, "invoke", "read", "nil"), (0, "ok", "read", "1")]


def judged(path: Path, lines: list[tuple[int, str, str, str]]) -> tuple[Registers, dict[str, object]]:
    path.write_text("".join(f"INFO  jepsen.util - {p}\t:{t}\t:{f}\t{v}\n" for p, t, f, v in lines))
    document, found = audit([path])
    assert isinstance(found, Registers)
    return found, registers_data(found, document, name=path.stem)


def test_each_operation_takes_effect_inside_its_interval(tmp_path: Path) -> None:
    _, data = judged(tmp_path / "good.log", GOOD)
    assert [e["k"] for e in data["events"]] == ["applied", "read", "applied", "rejected", "unknown"]
    assert [e["s"] for e in data["events"]] == ["write 1", "read 1", "1 → 2", "refused: not 7", "write 5"]
    points = [e["p"] for e in data["events"] if "p" in e]
    assert len(points) >= 4
    assert all(e["t0"] <= e["p"] <= e["t1"] for e in data["events"] if "p" in e)
    assert [lane["kind"] for lane in data["lanes"]] == ["view"] + ["process"] * 3
    assert not data["violations"]


def test_a_violation_points_at_its_operation(tmp_path: Path) -> None:
    _, data = judged(tmp_path / "stale.log", [*GOOD[:6], *STALE])
    (violation,) = data["violations"]
    assert violation["event"] in {e["e"] for e in data["events"]}
    assert "p" not in next(e for e in data["events"] if e["e"] == violation["event"])
    assert next(lane for lane in data["lanes"] if lane["kind"] == "view")["violated"]
    assert data["granularities"][0]["level"] == "not linearizable"


@pytest.mark.parametrize(
    "asked", [["--expect", "strong"], ["--view", "v"], ["--to", "1"], ["--partial", "v"]]
)
def test_what_is_asked_of_views_is_refused_of_registers(asked: list[str], tmp_path: Path) -> None:
    """It was met, whatever it was."""
    judged(tmp_path / "good.log", GOOD)
    assert run(["audit", str(tmp_path / "good.log")]) == ExitCode.MET
    assert run(["audit", str(tmp_path / "good.log"), *asked]) == ExitCode.USAGE
