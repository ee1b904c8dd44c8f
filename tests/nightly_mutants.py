"""`make nightly PART=mutants-MODULE`: every mutant of a program is killed by a quick test, or has its reason."""

import subprocess
import sys

import pytest

from tests.mutation import MODULES, ROOT
from tests.nightly import NOTE


@pytest.mark.parametrize("module", MODULES)
def test_no_mutant_survives_without_a_reason(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", module],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{NOTE}{done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
