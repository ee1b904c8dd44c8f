"""The specs answer as on record, and the runner can say no."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import manifest

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "specs" / "manifest.toml"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(ROOT / "specs" / "run.py"), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT, env=dict(os.environ))


@pytest.mark.slow
def test_every_answer_of_the_default_set_is_the_one_on_record() -> None:
    """A rule switched off breaks exactly the claim named for it; with all rules on every claim holds."""
    done = run("check")
    assert (done.returncode, " 0 not as on record" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('Off = ["rethrow", "signature"]', "Off = []", "expected EachUpdateOnceInv, found holds"),
        ('expected = "EachUpdateOnceInv"', 'expected = "holds"', "expected holds, found EachUpdateOnceInv"),
        ("states = ", "states = 1", "distinct states, found"),
    ],
)
def test_an_answer_that_is_not_on_record_is_a_failure(tmp_path: Path, old: str, new: str, words: str) -> None:
    """A claim that holds where it must break, breaks where it must hold, or a moved count: exit code 1."""
    damaged = tmp_path / "manifest.toml"
    damaged.write_text(MANIFEST.read_text().replace(old, new, 1))
    done = run("check", "SilentRetry_CountsTwice", "--manifest", str(damaged))
    assert (done.returncode, words in done.stdout) == (1, True), done.stdout + done.stderr


def test_a_question_that_cannot_fail_is_refused(tmp_path: Path) -> None:
    """An expected failure must name one of the claims that are checked."""
    damaged = tmp_path / "manifest.toml"
    text = MANIFEST.read_text()
    damaged.write_text(text.replace('expected = "EachUpdateOnceInv"', 'expected = "NoSuchInv"', 1))
    done = run("list", "--manifest", str(damaged))
    assert (done.returncode, "is none of its claims" in done.stderr) == (70, True), done.stdout


def test_the_map_of_the_readme_is_the_manifest() -> None:
    """Claim, module, configuration and result: `python specs/run.py table --write` after a change of the manifest."""
    readme = manifest.README.read_text()
    assert manifest.with_map(readme) == readme
    assert manifest.with_map(readme.replace("| holds |", "| breaks |", 1)) == readme


def test_a_dry_run_prints_the_configuration_and_runs_nothing() -> None:
    """The .cfg and the command line are what a person would type."""
    done = run("check", "SilentRetry_AllRules", "--dry-run")
    assert done.returncode == 0
    assert "CONSTANT Off = {}" in done.stdout
    assert "tlc2.TLC" in done.stdout
