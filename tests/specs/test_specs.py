"""The specs answer as on record, and the runner can say no."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cvs.programs.predicted import FAULT_SET_NAMES, PREDICTIONS
from cvs.suite.classes import view_class

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import manifest, programs

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "specs" / "manifest.toml"


UNLIKE = {
    "foreign-key-join/base-reading": ["strong", "converged"],
    "union/counter-column": ["strong", "converged"],
    "intersect/counter-column": ["complete", "strong"],
    "intersect/base-reading": ["complete", "converged"],
    "except/counter-column": ["strong", "converged"],
    **{f"{kind}-join/reverse-join": ["strong", "converged"] for kind in programs.JOINS},
    "top-2/kept": ["strong", "strong"],
    "not-in/kept": ["strong", "strong"],
}
"""Lines of which the spec finds the unordered field higher, for it gives each base record a stream of its own. Where a
stream has entries of several records, one that overtakes another leaves a later mark on the view record they share, and
the other is lost (the intersection that reads the base drops it: no element of the spec's history ever comes back)."""


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


def test_the_level_table_is_the_specs() -> None:
    """Each field of the level table has its question, and the level found in the spec is the one predicted there."""
    asked = [each for each in manifest.configurations() if each.levels]
    for line in PREDICTIONS:
        name = f"PerEntry_Level_{line.view_class}_{line.variant}"
        mine = [each for each in asked if each.name.removesuffix("_again") == name]
        fields = zip(FAULT_SET_NAMES, line.record, line.view, strict=True)
        predicted = {at: [record.value, view.value] for at, record, view in fields if record and view}
        if unlike := UNLIKE.get(f"{line.view_class}/{line.variant}"):
            assert predicted["unordered"] != unlike
            predicted["unordered"] = unlike
        assert lowest(mine) == predicted, name
        variant = view_class(line.view_class).variant(line.variant)
        for each in mine:
            asked.remove(each)
            policy = programs.policy_of(set(each.constants["Off"]))
            program = programs.real(each.constants["Program"]).program
            assert (variant.program, variant.policy) == (program, policy), name
    assert not asked, "no line of the table"


def lowest(asked: list[manifest.Configuration]) -> dict[str, list[str]]:
    """Return the lowest levels of several histories of one line."""
    return {
        name: [
            min(them, key=manifest.LEVELS.index)
            for them in zip(*(it.levels[name] for it in asked), strict=True)
        ]
        for name in asked[0].levels
    }


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
