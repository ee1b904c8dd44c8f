"""Random views through random changes: kept = recomputed = DuckDB, by two executors, however it is planned."""

from random import Random

from hypothesis import event, example, given
from hypothesis import strategies as st

from cvs.errors import SpecificationError
from cvs.model.recompute import recompute
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from tests.plan.executor import PlanRun
from tests.plan.programs_run import ProgramsRun
from tests.plan.random_views import TABLES, Base, Grammar
from tests.plan.tpch.data import comparable

CHOICES = [
    Choices(buckets=4, by_cost=False),
    Choices(buckets=4, share=False, merge_zones=False),
    Choices(buckets=3, by_cost=False, replicated=frozenset(["r.c"])),
]


@given(st.integers(min_value=0, max_value=2**48), st.sampled_from(CHOICES))
@example(17749, CHOICES[0])  # a self-join whose second step was merged into a zone of another key
def test_random_views_are_kept(seed: int, choices: Choices) -> None:
    random = Random(seed)
    text = "CREATE MATERIALIZED VIEW r.v AS " + Grammar(random).view()
    try:
        (view,) = parse_views(text, TABLES)
        plan = maintenance_plan([view], TABLES, choices)
    except SpecificationError as refusal:
        event(f"refused: {refusal.what[:40]}")
        return
    event(f"{len(plan.stages)} stages")
    columns = [n for n, _ in view.columns if n != "only"]
    base, plain, programs = Base(random), PlanRun(plan), ProgramsRun(plan)
    for epoch in range(3):
        changes = base.epoch(random.randrange(12))
        plain.epoch(changes)
        programs.epoch(changes)
        kept = comparable(list(plain.published["r.v"].values()), columns)
        shown = comparable(list(programs.published["r.v"].values()), columns)
        again = comparable(list(recompute(view.definition, base.as_rows(), TABLES).values()), columns)
        duck = comparable(base.shown(view), columns)
        assert again == duck, f"recompute is not DuckDB in epoch {epoch} of {text}"
        assert kept == again, f"kept is not recomputed in epoch {epoch} of {text}"
        assert shown == again, f"programs are not recomputed in epoch {epoch} of {text}"


@given(st.integers(min_value=0, max_value=2**48))
def test_similar_views_share_and_stay_right(seed: int) -> None:
    """Views that differ in what they select before the same joins; planned together, with late selection."""
    random = Random(seed)
    grammar = Grammar(random)
    first, _, columns, keys = grammar.table()
    for _ in range(1 + random.randrange(2)):
        right, _, more, more_keys = grammar.table()
        kind = grammar.pick(["JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        first += f" {kind} {right} ON {grammar.equal(columns, more)}"
        if kind in ("JOIN", "LEFT JOIN"):
            columns, keys = columns + more, keys + more_keys
    views = []
    for _ in range(3):
        where = f"WHERE {grammar.condition(columns)} AND {grammar.condition(columns)}"
        kept = grammar.named([keys[0], grammar.aggregate(columns)])
        grouped = f"SELECT {kept} FROM {first} {where} GROUP BY {keys[0]}"
        views.append(grammar.pick([f"SELECT {grammar.named(keys)} FROM {first} {where}", grouped]))
    declared = parse_views(
        ";".join(f"CREATE MATERIALIZED VIEW r.v{i} AS {q}" for i, q in enumerate(views)), TABLES
    )
    plan = maintenance_plan(declared, TABLES, Choices(buckets=4, by_cost=False))
    apart = maintenance_plan(declared, TABLES, Choices(buckets=4, by_cost=False, late_selection=False))
    event(f"{len(plan.stages)} stages instead of {len(apart.stages)}")
    base, programs = Base(random), ProgramsRun(plan)
    for epoch in range(3):
        programs.epoch(base.epoch(random.randrange(12)))
        for view in declared:
            again = recompute(view.definition, base.as_rows(), TABLES).values()
            columns_of_view = [n for n, _ in view.columns]
            kept = comparable(list(programs.published[view.name].values()), columns_of_view)
            assert kept == comparable(list(again), columns_of_view), (
                f"{view.name} in epoch {epoch} of {views}"
            )


@given(st.integers(min_value=0, max_value=2**48))
def test_ranges_share_cells_and_stay_right(seed: int) -> None:
    """Equal aggregates over different ranges of two columns, each row counted exactly once in every view."""
    random = Random(seed)
    grammar = Grammar(random)
    group = grammar.pick(["", "s", "s", "x"])
    kept = ["COUNT(*)", "SUM(m)", "AVG(m)", "MIN(x)", "MAX(m)", "COUNT(m)", "AVG(x)"]
    views = []
    for _ in range(6):
        chosen = grammar.named(([group] if group else []) + [grammar.pick(kept) for _ in range(2)])
        ranges = [f"x {grammar.pick(['<', '<=', '>', '>=', '='])} {random.randrange(4)}"]
        if grammar.maybe(0.5):
            ranges.append(f"m {grammar.pick(['<', '>='])} {random.randrange(3)}.5")
        tail = f" GROUP BY {group}" if group else ""
        views.append(f"SELECT {chosen} FROM r.a WHERE {' AND '.join(ranges)}{tail}")
    text = ";".join(f"CREATE MATERIALIZED VIEW r.v{i} AS {q}" for i, q in enumerate(views))
    declared = parse_views(text, TABLES)
    plan = maintenance_plan(declared, TABLES, Choices(buckets=4, by_cost=False))
    event(
        f"cells: {any('case(' in repr(e) or 'case' in repr(e.columns) for s in plan.stages for e in s.inputs)}"
    )
    base, programs = Base(random), ProgramsRun(plan)
    for epoch in range(3):
        programs.epoch(base.epoch(random.randrange(15)))
        for view in declared:
            again = recompute(view.definition, base.as_rows(), TABLES).values()
            columns = [n for n, _ in view.columns]
            shown = comparable(list(programs.published[view.name].values()), columns)
            assert shown == comparable(list(again), columns), f"{view.name} in epoch {epoch} of {views}"
