"""Each query of TPC-H alone through the whole pipeline at scale 0.01, where all have rows: right and judged.

`make nightly PART=tpch-1`, `tpch-2` and `tpch-3`, a third of the queries each; the lines of the table in
`cvs/plan/README.md` are compared.
"""

from collections import Counter
from pathlib import Path

import pytest

from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import DeclaredView
from tests.plan.faulty_run import Judged
from tests.plan.tpch.data import generate
from tests.plan.tpch.schema import TABLES
from tests.plan.tpch.test_tpch import VIEWS, kept_and_judged

README = Path(__file__).resolve().parents[3] / "cvs" / "plan" / "README.md"
EPOCHS = 3


@pytest.fixture(scope="module")
def hundredth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple]]:
    return generate(tmp_path_factory.mktemp("tpch"), "0.01")


def line(view: DeclaredView, it: Judged) -> str:
    """Return a query's line of the table in the room's README."""
    plan = maintenance_plan([view], TABLES)
    kinds = Counter(type(stage).__name__.removesuffix("Stage").lower() for stage in plan.stages)
    stages = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    levels = f"{it.record.value} | {it.snapshot.value if it.snapshot else 'none'} | {it.plain.value}"
    name = view.name.removeprefix("tpch.")
    return f"| {name} | {stages} | {len(plan.zones)} | {view.options.level} | {levels} | {it.states} |"


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS, ids=[v.name.removeprefix("tpch.") for v in VIEWS])
def test_kept_and_judged_at_a_hundredth(view: DeclaredView, hundredth: dict[str, list[tuple]]) -> None:
    judged = kept_and_judged((view,), hundredth, share=0.01, epochs=EPOCHS)[view.name]
    assert judged.states, "nothing was shown, so nothing was judged"
    told = line(view, judged)
    assert told in README.read_text().splitlines(), f"cvs/plan/README.md should say:\n{told}"
