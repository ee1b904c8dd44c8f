"""All 22 queries of TPC-H: parsed, planned, recomputed as DuckDB does, and kept through changes of all tables."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from cvs.model.levels import Level
from cvs.model.recompute import recompute
from cvs.plan.levels import view_level
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import DeclaredView, parse_views
from tests.plan.faulty_run import Judged, PipelineRun
from tests.plan.programs_run import ProgramsRun
from tests.plan.tpch.data import QUERIES, Changes, Oracle, comparable, generate
from tests.plan.tpch.schema import TABLES

VIEWS = parse_views(QUERIES, TABLES)
README = Path(__file__).resolve().parents[3] / "cvs" / "plan" / "README.md"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple]]:
    return generate(tmp_path_factory.mktemp("tpch"), "0.001")


def as_rows(tables: dict[str, list[tuple]]) -> dict[str, list[dict]]:
    return {
        name: [dict(zip((n for n, _ in TABLES[name].columns), row, strict=True)) for row in rows]
        for name, rows in tables.items()
    }


def table(judged: dict[str, Judged]) -> list[str]:
    """Each query's line of the table in the room's README."""
    lines = []
    for view in VIEWS:
        plan, it = maintenance_plan([view], TABLES), judged[view.name]
        kinds = Counter(type(stage).__name__.removesuffix("Stage").lower() for stage in plan.stages)
        stages = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        levels = f"{it.record.value} | {it.snapshot.value} | {it.plain.value}"
        name = view.name.removeprefix("tpch.")
        lines.append(
            f"| {name} | {stages} | {len(plan.zones)} | {view.options.level} | {levels} | {it.states} |"
        )
    return lines


def wanted_rows(oracle: Oracle, view: DeclaredView, columns: list[str]) -> list[tuple]:
    """Return DuckDB's answer without the rows that no table could hold: of a null in the key."""
    places = [columns.index(k) for k in view.key.columns if k in columns]
    rows = comparable(oracle.answer(view), columns)
    return [row for row in rows if all(row[place] is not None for place in places)]


def kept_equals_duckdb(
    tables: dict[str, list[tuple]], views: tuple, *, epochs: int, share: float
) -> set[str]:
    plan = maintenance_plan(views, TABLES, Choices(buckets=1024))
    run, oracle, changes = ProgramsRun(plan), Oracle(), Changes(tables, seed=7)
    batch = {name: Counter(dict.fromkeys(rows, 1)) for name, rows in tables.items()}
    nonempty = set()
    for epoch in range(epochs + 1):
        for name, change in batch.items():
            oracle.apply(name, change)
        run.epoch(batch)
        for view in views:
            columns = [n for n, _ in view.columns if n != "only"]
            wanted = wanted_rows(oracle, view, columns)
            got = comparable(list(run.published[view.name].values()), columns)
            assert got == wanted, f"{view.name} in epoch {epoch}"
            if got:
                nonempty.add(view.name)
        batch = changes.epoch(share)
    return nonempty


def test_all_queries_parse() -> None:
    assert len(VIEWS) == 22


def test_equal_joins_of_several_queries_are_one_stage() -> None:
    """Planned together, the 22 queries need fewer stages than planned apart."""
    apart = sum(len(maintenance_plan([view], TABLES).stages) for view in VIEWS)
    together = len(maintenance_plan(VIEWS, TABLES).stages)
    unshared = len(maintenance_plan(VIEWS, TABLES, Choices(share=False)).stages)
    assert together < apart < unshared


@pytest.mark.slow
def test_each_reaches_its_declared_level_at_a_thousandth(small: dict[str, list[tuple]]) -> None:
    """All 22 together through the whole pipeline in memory, DELTA included; what was shown is judged."""
    plan = maintenance_plan(VIEWS, TABLES, Choices(buckets=64))
    run, changes, oracle = PipelineRun(plan, Random(1), faults=False), Changes(small, seed=7), Oracle()
    batch = {name: Counter(dict.fromkeys(rows, 1)) for name, rows in small.items()}
    for _ in range(3):
        for name, change in batch.items():
            oracle.apply(name, change)
        run.write(batch)
        run.epoch()
        for view in VIEWS:
            columns = [n for n, _ in view.columns]
            shown = [dict(zip(columns, row, strict=True)) for row in run.door.showing(view.name).values()]
            compared = [n for n in columns if n != "only"]
            assert comparable(shown, compared) == wanted_rows(oracle, view, compared), view.name
        batch = changes.epoch(0.02)
    run.finish()
    judged = {view.name: run.judged(view) for view in VIEWS}
    for view in VIEWS:
        declared, told = Level(view.options.level), view_level(view, plan)
        assert judged[view.name].record.reaches(declared), view.name
        assert judged[view.name].record.reaches(told.record), view.name
        assert told.view_snapshot is not None
        assert judged[view.name].snapshot.reaches(told.view_snapshot), view.name
    assert sum(it.states > 0 for it in judged.values()) >= 15
    missing = [line for line in table(judged) if line not in README.read_text()]
    assert not missing, "cvs/plan/README.md should say:\n" + "\n".join(missing)
    assert any(it.plain is Level.CONVERGED for it in judged.values()), "puts of one epoch are seen one by one"


# The others take minutes to load in pure Python; `cvs/plan/README.md` has the run over all 22.
QUICK = {"q1", "q4", "q6", "q11", "q12", "q13", "q14", "q16", "q19", "q22"}


@pytest.mark.slow
def test_kept_through_changes_at_a_hundredth(tmp_path: object) -> None:
    views = tuple(view for view in VIEWS if view.name.removeprefix("tpch.") in QUICK)
    nonempty = kept_equals_duckdb(generate(tmp_path, "0.01"), views, epochs=1, share=0.01)
    assert len(nonempty) == len(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS, ids=[v.name for v in VIEWS])
def test_recomputed_as_duckdb(view: object, small: dict[str, list[tuple]]) -> None:
    oracle = Oracle()
    for name, rows in small.items():
        oracle.apply(name, Counter(dict.fromkeys(rows, 1)))
    columns = [n for n, _ in view.columns if n != "only"]
    got = recompute(view.definition, as_rows(small), TABLES)
    assert comparable(list(got.values()), columns) == comparable(oracle.answer(view), columns)
