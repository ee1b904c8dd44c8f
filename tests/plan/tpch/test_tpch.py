"""All 22 queries of TPC-H: parsed, planned, recomputed as DuckDB does, and kept through changes of all tables."""

from collections import Counter
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


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple]]:
    return generate(tmp_path_factory.mktemp("tpch"), "0.001")


def as_rows(tables: dict[str, list[tuple]]) -> dict[str, list[dict]]:
    return {
        name: [dict(zip((n for n, _ in TABLES[name].columns), row, strict=True)) for row in rows]
        for name, rows in tables.items()
    }


def wanted_rows(oracle: Oracle, view: DeclaredView, columns: list[str]) -> list[tuple]:
    """Return DuckDB's answer without the rows that no table could hold: of a null in the key."""
    places = [columns.index(k) for k in view.key.columns if k in columns]
    rows = comparable(oracle.answer(view), columns)
    return [row for row in rows if all(row[place] is not None for place in places)]


def kept_equals_duckdb(
    tables: dict[str, list[tuple]], views: tuple, *, epochs: int, share: float
) -> set[str]:
    plan = maintenance_plan(views, TABLES, Choices(buckets=1024, by_cost=False))
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


def kept_and_judged(
    views: tuple[DeclaredView, ...], tables: dict[str, list[tuple]], *, share: float, epochs: int
) -> dict[str, Judged]:
    """Keep views by the whole pipeline in memory; compare every epoch with DuckDB, and levels with promises."""
    plan = maintenance_plan(views, TABLES, Choices(buckets=64))
    run, changes, oracle = PipelineRun(plan, Random(1), faults=False), Changes(tables, seed=7), Oracle()
    batch = {name: Counter(dict.fromkeys(rows, 1)) for name, rows in tables.items()}
    for _ in range(epochs + 1):
        for name, change in batch.items():
            oracle.apply(name, change)
        run.write(batch)
        run.epoch()
        for view in views:
            columns = [n for n, _ in view.columns]
            shown = [dict(zip(columns, row, strict=True)) for row in run.door.showing(view.name).values()]
            compared = [n for n in columns if n != "only"]
            assert comparable(shown, compared) == wanted_rows(oracle, view, compared), view.name
        batch = changes.epoch(share)
    run.finish()
    judged = {view.name: run.judged(view) for view in views}
    for view in views:
        told, found = view_level(view, plan), judged[view.name]
        assert found.record.reaches(Level(view.options.level)), view.name
        assert found.record.reaches(told.record), view.name
        assert told.view_snapshot is not None
        assert found.snapshot is not None
        assert found.snapshot.reaches(told.view_snapshot), view.name
        assert found.plain.reaches(told.view_plain), view.name
    return judged


@pytest.mark.slow
def test_each_reaches_its_declared_level_at_a_thousandth(small: dict[str, list[tuple]]) -> None:
    """All 22 together; `nightly_hundredth.py` has each alone at a scale at which all have rows."""
    judged = kept_and_judged(VIEWS, small, share=0.02, epochs=2)
    assert sum(it.states > 0 for it in judged.values()) >= 15
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
