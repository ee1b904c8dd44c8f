"""Random views over random schemas, through crashes, zombies and lost answers: right after every epoch, at their level.

Each case is one seed. CI runs the first 300; a nightly part (`CVS_EXAMPLES`) runs its own, from `CVS_SEED` on.
"""

import os
from collections import Counter
from random import Random

import pytest

from cvs.errors import SpecificationError
from cvs.model.levels import Level
from cvs.model.stages import Plan
from cvs.plan.levels import view_level
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import DeclaredView, parse_views
from cvs.programs.epoch import read_control
from cvs.programs.stage_bucket import ALL_RULES, Rules, drive
from cvs.programs.stage_snapshot import SnapshotReader
from tests.plan.faulty_run import Judged, PipelineRun
from tests.plan.random_views import Base, Grammar, random_tables
from tests.plan.tpch.data import comparable

CASES = int(os.environ.get("CVS_EXAMPLES", "300"))
FIRST = int(os.environ.get("CVS_SEED", "0")) * 1_000_000
EMPTY_KEYS = (1065, 2224)
PLANS = [
    Choices(buckets=4),
    Choices(buckets=4, by_cost=False),
    Choices(buckets=2, share=False, merge_zones=False),
    Choices(buckets=3, by_cost=False, replicated=frozenset(["r.t1"])),
]


def planned(random: Random) -> tuple[DeclaredView, Plan, Base] | None:
    """Draw schema, view and plan; None where the view is refused."""
    tables = random_tables(random)
    text = f"CREATE MATERIALIZED VIEW r.v AS {Grammar(random, tables).view()}"
    try:
        (view,) = parse_views(text, tables)
        plan = maintenance_plan([view], tables, random.choice(PLANS))
    except SpecificationError:
        return None
    return view, plan, Base(random, tables)


def kept(random: Random, view: DeclaredView, plan: Plan, base: Base, rules: Rules = ALL_RULES) -> Judged:
    """Run a view through four epochs, compare each with DuckDB, and judge the run."""
    run = PipelineRun(plan, random, rules=rules)
    columns = [name for name, _ in view.columns if name != "only"]
    for epoch in range(4):
        run.write(base.epoch(random.randrange(10)))
        run.epoch()
        if rules is not ALL_RULES:
            continue
        wanted = base.shown(view)
        names = [name for name, _ in view.columns]
        shown = [
            dict(zip(names, row, strict=True))
            for row in run.door.showing(plan.publications[0].table).values()
        ]
        assert comparable(shown, columns) == comparable(wanted, columns), f"epoch {epoch}"
    run.finish()
    if rules is ALL_RULES:
        every_row_is_found_by_its_key(run)
    return run.judged(view)


def every_row_is_found_by_its_key(run: PipelineRun) -> None:
    """A reader of one row asks few buckets: those must hold it."""
    (publication,) = run.program.publications
    reader = SnapshotReader(publication, run.program.zones, run.program.tables)
    committed = drive(read_control(), run.door).committed
    for row in run.door.showing(publication.publication.table).values() if reader.possible else ():
        key = publication.key_of(row)
        found = drive(reader.rows(committed, key=key), run.door)
        assert row in found.values(), f"{key} is not where a reader looks"


def test_a_maintainer_without_signatures_is_found_out() -> None:
    """The same runs, absorbing whatever comes: rows are counted twice, and the judge sees it."""
    worst = Level.STRONG
    for seed in range(60):
        random = Random(seed)
        case = planned(random)
        if case is None:
            continue
        try:
            judged = kept(random, *case, Rules(signatures=False))
        except AssertionError:
            continue  # because a stage saw by itself that more left it than came
        worst = min(worst, judged.record, key=lambda level: level.rank)
    assert worst is Level.NOT_CONVERGED


def test_a_row_no_table_can_hold_is_in_no_readers_view() -> None:
    """Found by `make nightly PART=plans`, seed 11: a group whose key is the empty text, the whole partition key."""
    seen = 0
    for seed in EMPTY_KEYS:
        random = Random(seed)
        case = planned(random)
        assert case is not None
        view, plan, base = case
        assert kept(random, view, plan, base).record.reaches(view_level(view, plan).record)
        seen += any(row.get(view.key.columns[0]) == "" for row in base.answer(view.sql))
    assert seen == len(EMPTY_KEYS)


@pytest.mark.slow
def test_random_views_have_their_predicted_level_under_faults() -> None:
    refused = 0
    seen: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + CASES):
        random = Random(seed)
        case = planned(random)
        if case is None:
            refused += 1
            continue
        view, plan, base = case
        told = view_level(view, plan)
        try:
            judged = kept(random, view, plan, base)
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}: {view.sql}: {wrong}") from wrong
        wanted = (told.record, told.view_snapshot, told.view_plain)
        got = (judged.record, judged.snapshot, judged.plain)
        for predicted, found in zip(wanted, got, strict=True):
            assert (predicted is None) == (found is None), f"seed {seed}: snapshots of {view.sql}"
            assert predicted is None or found.reaches(predicted), f"seed {seed}: {got} of {view.sql}"
        seen["shown"] += bool(judged.states)
    assert refused < CASES / 5
    assert seen["shown"] > CASES / 2
