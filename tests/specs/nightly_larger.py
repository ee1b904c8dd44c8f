"""The larger bounds: every question of the manifest's class "nightly" (`make nightly PART=specs-larger`)."""

import sys
from pathlib import Path

import pytest

from cvs.embedded.artifacts import jars

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "specs"))

from tooling import manifest, tlc

QUESTIONS = {c.name: c for c in manifest.configurations() if c.time_class == "nightly"}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_the_one_on_record(name: str) -> None:
    """Verdict and number of distinct states."""
    asked = QUESTIONS[name]
    found = tlc.run(jars("tlc")[0], asked.module, asked.cfg, options=asked.options, claims=asked.claims)
    assert asked.complaint(found) is None
