"""Long campaigns in resumable parts: `make nightly PART=name [SEED=n]`; without a part, the list and what was done.

A part is a pytest selection with more examples. Its result goes to the committed ledger `tests/ledger.ndjson`:
seed, commit, counts, seconds. No line, no claim.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from cvs.suite.classes import CLASSES
from cvs.suite.table import cells
from tests.mutation import MODULES

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ROOT / "tests" / "ledger.ndjson"
SECONDS_MAX = 2 * 3600
NOTE = "for the ledger: "
"""What a test prints behind this goes into its line, as does what it is `told` to say at the end of the run."""

PARTS: dict[str, tuple[str, ...]] = (
    {
        "agree": ("tests/agree",),
        "properties": ("property_tests",),
        "plans": ("tests/plan/test_random_levels.py",),
        "stories": ("tests/stories", "tests/corrupt", "tests/ladder"),
        "cluster": ("tests/cluster", "tests/store"),
        "spark": ("tests/spark",),
        "specs": ("tests/specs",),
        "crash": ("tests/campaigns",),
        "crash-three-nodes": ("tests/campaigns/nightly_variants.py::test_one_of_three_nodes_is_killed",),
        "crash-cuts": ("tests/campaigns/nightly_variants.py::test_nodes_are_cut_apart",),
        "crash-clocks": ("tests/campaigns/nightly_variants.py::test_clocks_disagree_by_seconds",),
        "crash-rebuild": (
            "tests/campaigns/nightly_variants.py::test_views_are_right_however_often_a_rebuild_is_killed",
        ),
        "specs-larger": ("tests/specs/nightly_larger.py",),
        "contention": (
            "tests/cluster/test_programs.py::test_three_nodes_with_faults_reach_the_predicted_level",
        ),
        "capture-differential": ("tests/cluster/test_capture_differential.py",),
        "capture-members": ("tests/cluster/nightly_capture_members.py::test_join_move_and_decommission",),
        "capture-replace": ("tests/cluster/nightly_capture_members.py::test_replace_a_dead_node",),
        "rolling": ("tests/cluster/nightly_rolling.py",),
        "resizing": ("tests/cluster/nightly_resizing.py",),
    }
    | {
        f"tpch-{third}": tuple(
            f"tests/plan/tpch/nightly_hundredth.py::test_kept_and_judged_at_a_hundredth[q{number}]"
            for number in range(third, 23, 3)
        )
        for third in (1, 2, 3)
    }
    | {
        f"levels-{shape.name}": tuple(
            f"tests/unit/suite/test_table.py::test_no_run_of_many_falls_below_its_prediction[{cell.name}]"
            for cell in cells()
            if cell.shape.name == shape.name
        )
        for shape in CLASSES
    }
    | {
        f"mutants-{module}": (
            f"tests/nightly_mutants.py::test_no_mutant_survives_without_a_reason[{module}]",
        )
        for module in MODULES
    }
)
"""Part -> what pytest is asked to run; each part takes CVS_EXAMPLES and CVS_SEED from the environment."""

EXAMPLES = {
    "contention": 5,
    "capture-differential": 50_000,
    "crash": 30,
    "crash-clocks": 14,
    "agree": 10_000,
    "properties": 2_000,
    "plans": 2_000,
} | {part: 2_000 for part in PARTS if part.startswith("levels-")}

SLICES = {"contention": 10}
"""A part of so many slices is resumed: a slice with a green line for this commit and seed is not run again."""


def slices_left(part: str, seed: int, commit: str, lines: list[dict[str, object]]) -> list[int]:
    """Return the seeds of the slices of a part that have no green line yet."""
    size = EXAMPLES.get(part, 1)
    done = {
        line["seed"]
        for line in lines
        if (line["part"], line["commit"], line["exit_code"]) == (part, commit, 0)
    }
    return [s for s in range(seed, seed + SLICES[part] * size, size) if s not in done]


def selection(part: str) -> list[str]:
    """Return the paths of a part that exist; a part whose folder went is an error, not an empty success."""
    missing = [path for path in PARTS[part] if not (ROOT / path.split("::")[0]).exists()]
    if missing:
        raise SystemExit(f"nightly: part {part} names folders that do not exist: {', '.join(missing)}")
    return list(PARTS[part])


def run(part: str, seed: int) -> dict[str, object]:
    """Run one part and return its ledger line."""
    environment = {
        **os.environ,
        "CVS_EXAMPLES": str(EXAMPLES.get(part, 1_000)),
        "CVS_SEED": str(seed),
        "HYPOTHESIS_PROFILE": "nightly",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rN",
        "--capture=tee-sys",
        "--show-capture=stdout",
        *selection(part),
    ]
    commit, clean = head(), not _dirty()  # as it is loaded, whatever is written meanwhile
    started = time.monotonic()
    exit_code, said = _pytest(command, environment)
    summary = (said.strip().splitlines() or ["no output"])[-1]
    sys.stdout.write(said[-8000:])
    return {
        "part": part,
        "seed": seed,
        "commit": commit,
        "clean": clean,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 1),
        "exit_code": exit_code,
        "counts": {
            name: int(count) for count, name in re.findall(r"(\d+) (passed|failed|skipped|error)", summary)
        },
        "notes": re.findall(rf"(?:{NOTE}|^\S+\.py::)(.*)$", said, flags=re.MULTILINE),
    }


def head() -> str:
    """Return the commit that is checked out."""
    return subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()


def _pytest(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run pytest; whoever ends us ends it too, and it ends what its tests have started."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS_MAX)
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise
    return process.returncode, said


def _dirty() -> str:
    """Return what is not committed; the ledger itself grows while parts run."""
    command = ["git", "status", "--porcelain", "--", ".", ":!tests/ledger.ndjson"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def main(arguments: list[str]) -> int:
    """Run the part named on the command line, or list the parts with their last results."""
    lines = [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
    if not arguments:
        for part in PARTS:
            last = next((line for line in reversed(lines) if line["part"] == part), None)
            sys.stdout.write(f"{part:<30} {json.dumps(last) if last else 'never run'}\n")
        return 0
    if arguments[0] not in PARTS:
        sys.stdout.write(f"nightly: no part {arguments[0]!r}; there are {', '.join(PARTS)}\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    part = arguments[0]
    if part in SLICES:
        seeds = slices_left(part, int(os.environ.get("SEED", 0)), head(), lines)
    else:
        seeds = [int(os.environ.get("SEED", time.time_ns() % 1_000_000))]
    worst = 0
    for seed in seeds:
        line = run(part, seed)
        with LEDGER.open("a") as ledger:
            ledger.write(json.dumps(line) + "\n")
        worst = max(worst, int(str(line["exit_code"])))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
