"""Plans: what is shared, what is merged into one zone, what each costs, what is refused."""

import json
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from cvs.cli import group, run
from cvs.errors import ExitCode, SpecificationError
from cvs.model.expressions import Call, Column, Literal, compile_expression
from cvs.model.stages import AggregateStage, JoinStage
from cvs.plan.cells import Axis
from cvs.plan.cost import plan_cost
from cvs.plan.cql import tables_of_schema
from cvs.plan.levels import per_entry, stage_level
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from cvs.plan.statistics import Known, Statistics, Weights, selectivity
from cvs.programs.predicted import predicted
from cvs.programs.stage_bucket import ReadBucket
from cvs.programs.stage_memory import MemoryDoor
from tests.plan.programs_run import ProgramsRun

SCHEMA = """
CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
-- orders; by customer
CREATE TABLE shop.orders (customer int, id int, region text, total decimal, tags frozen<map<text, int>>,
  note text static, PRIMARY KEY ((customer), id)) WITH cdc = true AND comment = 'a;b';
USE shop;
CREATE TABLE IF NOT EXISTS customers (id int PRIMARY KEY, name text, "VIP" boolean);
CREATE INDEX ON orders (region);
"""
TABLES = tables_of_schema(SCHEMA)
JOINED = "SELECT o.customer, o.id, {} FROM orders o JOIN customers c ON o.customer = c.id"


WHEREVER = Choices(by_cost=False)


def plan_of(*queries: str, choices: Choices | None = None, head: str = ""):
    text = "".join(f"CREATE MATERIALIZED VIEW v{i} {head} AS {q};" for i, q in enumerate(queries))
    return maintenance_plan(parse_views(text, TABLES), TABLES, choices or Choices())


def test_a_schema_is_read_as_cassandra_means_it() -> None:
    orders = TABLES["shop.orders"]
    assert orders.key == ("customer", "id")
    assert dict(orders.columns)["tags"] == "frozen<map<text, int>>"
    assert TABLES["shop.customers"].columns == (("id", "int"), ("name", "text"), ("VIP", "boolean"))


@pytest.mark.parametrize(
    "text", ["", "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE s.a (id int)", "CREATE TABLE s.a (id"]
)
def test_a_broken_schema_is_refused(text: str) -> None:
    with pytest.raises(SpecificationError):
        tables_of_schema(text)


def test_a_selection_needs_no_stage() -> None:
    plan = plan_of("SELECT customer, id, total FROM orders WHERE total > 10")
    assert plan.zones == ()
    assert [edge.source for edge in plan.publications[0].inputs] == ["shop.orders"]


def test_two_views_over_one_join_share_it_though_they_select_different_columns() -> None:
    plan = plan_of(JOINED.format("name"), JOINED.format("total, region"), choices=Choices(merge_zones=False))
    (join,) = plan.stages
    assert isinstance(join, JoinStage)
    assert len(join.output) == 2 + 1 + 1 + 2


def test_all_aggregates_of_one_group_live_in_one_stage() -> None:
    plan = plan_of("SELECT region, COUNT(*) AS n FROM orders GROUP BY region",
                   "SELECT region, SUM(total) AS s, MAX(total) AS m FROM orders GROUP BY region")  # fmt: skip
    (stage,) = plan.stages
    assert isinstance(stage, AggregateStage)
    assert len(stage.aggregates) == 3


def test_an_aggregate_by_the_join_key_lives_in_the_joins_zone() -> None:
    query = "SELECT c.id, name, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.id, name"
    assert [len(zone.stages) for zone in plan_of(query).zones] == [2]
    assert [len(zone.stages) for zone in plan_of(query, choices=Choices(merge_zones=False)).zones] == [1, 1]


def test_cells_are_cut_where_that_costs_less() -> None:
    """Few views in small epochs: every total reads its cells; many in large ones: rows enter once."""
    few = [f"SELECT SUM(total) AS s FROM orders WHERE id < {n}" for n in range(4)]
    many = [f"SELECT SUM(total) AS s FROM orders WHERE id < {n}" for n in range(200)]
    small, large = Statistics(epoch_updates=20), Statistics(epoch_updates=10_000)
    assert len(plan_of(*few, choices=Choices(statistics=small)).stages) == 4
    assert len(plan_of(*few, choices=Choices(by_cost=False)).stages) == 5
    assert len(plan_of(*many, choices=Choices(statistics=large)).stages) == 201


def test_an_aggregate_by_something_else_does_not() -> None:
    query = "SELECT name, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY name"
    assert [len(zone.stages) for zone in plan_of(query).zones] == [1, 1]


def test_zones_never_wait_for_each_other() -> None:
    """A diamond: the second join reads the first one directly and through an aggregate by another key."""
    query = """SELECT o.customer, o.id FROM orders o JOIN customers c ON o.customer = c.id
               WHERE o.total > (SELECT AVG(total) FROM orders i WHERE i.region = o.region)"""
    seen: set[str] = set()
    for zone in plan_of(query, query).zones:
        names = {stage.name for stage in zone.stages}
        for stage in zone.stages:
            edges = stage.left + stage.right if isinstance(stage, JoinStage) else stage.inputs
            assert all(e.source in seen | names | set(TABLES) for e in edges)
        seen |= names


def test_a_replicated_table_spreads_the_left_side() -> None:
    (join,) = plan_of(JOINED.format("name"), choices=Choices(replicated=frozenset(["shop.customers"]))).stages
    assert join.replicated
    assert join.key == tuple(c.name for c in join.left[0].columns)


def test_merged_plans_cost_less_than_plans_apart() -> None:
    queries = [
        JOINED.format("name"),
        "SELECT c.id, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.id",
    ]
    merged = plan_cost(plan_of(*queries))
    apart = plan_cost(plan_of(*queries, choices=Choices(share=False, merge_zones=False)))
    assert merged.total_ms < apart.total_ms
    assert merged.storage_bytes < apart.storage_bytes


@pytest.mark.parametrize(
    "condition", ["id NOT IN (SELECT customer FROM orders WHERE total > 1)", "EXISTS (SELECT 1 FROM orders)"]
)
def test_one_answer_for_all_rows_moves_them_only_when_it_changes(condition: str) -> None:
    """Another choice moves the counts behind NOT IN and EXISTS; the rows of the view are not looked at again for it."""
    plan = plan_of(f"SELECT id, name FROM customers WHERE {condition}", choices=Choices(buckets=4))
    run = ProgramsRun(plan)
    customers, orders = (
        [(n, "x", None) for n in range(50)],
        [(n, 1, "a", 5, None, None) for n in range(60, 63)],
    )
    run.epoch({"shop.customers": Counter(customers), "shop.orders": Counter(orders[:2])})
    before = run.test_and_sets
    run.epoch({"shop.orders": Counter(orders[2:])})
    assert run.test_and_sets - before <= 2, "the count, and the choice"
    assert len(run.published["shop.v0"]) == 50


def test_a_total_that_moves_is_expected_in_two_buckets() -> None:
    """Found on a running pipeline: a row leaves the group of the total it had and comes to that of the one it has."""
    counted = "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"
    plan = plan_of(f"SELECT n, COUNT(*) AS regions FROM ({counted}) AS r GROUP BY n")
    run, base = ProgramsRun(plan), [(1, n, "a", None, None, None) for n in range(101)]
    run.epoch({"shop.orders": Counter(base[:100])})
    before = run.test_and_sets
    run.epoch({"shop.orders": Counter(base[100:])})
    known = Statistics(rows={"shop.orders": 100}, distinct={"shop.orders.region": 1}, epoch_updates=1)
    expected = [sum(cost.rounds.values()) for cost in plan_cost(plan, known).stages]
    assert run.test_and_sets - before == 3
    assert [round(it) for it in expected] == [1, 2]


def test_costs_follow_statistics_and_weights() -> None:
    plan = plan_of("SELECT region, COUNT(*) AS n FROM orders GROUP BY region")
    few = plan_cost(plan, Statistics(epoch_updates=10)).total_ms
    many = plan_cost(plan, Statistics(epoch_updates=10_000)).total_ms
    assert many < few
    assert plan_cost(plan, None, Weights.of({"state_row": 9.0})).total_ms > many
    with pytest.raises(SpecificationError, match="no weight"):
        Weights.of({"speed": 1})


def test_complete_is_refused_with_the_nearest_plan() -> None:
    text = "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('cvs.level' = 'complete') AS SELECT id, name FROM customers"
    views = parse_views(text, TABLES)
    with pytest.raises(SpecificationError, match="never complete") as refusal:
        maintenance_plan(views, TABLES)
    assert "strong" in refusal.value.next_step
    assert "projection-keeping-key / signature reaches complete" in refusal.value.next_step


def test_the_whole_of_a_view_without_state_is_not_promised() -> None:
    """Snapshots are read from state rows; a view whose rows are base rows has none."""
    head = "TBLPROPERTIES ('cvs.granularity' = 'view')"
    plan_of("SELECT region, COUNT(*) AS n FROM orders GROUP BY region", head=head)
    with pytest.raises(SpecificationError, match="takes snapshot reads") as refusal:
        plan_of("SELECT id, name FROM customers", head=head)
    assert "record" in refusal.value.next_step


PER_ENTRY = {
    "SELECT id, name FROM customers": "projection-keeping-key",
    "SELECT region, COUNT(*) AS n FROM orders GROUP BY region": "count-sum-avg-min-max",
    "SELECT DISTINCT name FROM customers": "projection-losing-key",
    "SELECT id FROM customers EXCEPT SELECT customer FROM orders": "except",
    "SELECT id, name FROM customers ORDER BY name, id LIMIT 2": "top-2",
    JOINED.format("o.total, c.name"): "inner-join",
}


@pytest.mark.parametrize("query", PER_ENTRY)
def test_one_stage_views_name_their_class_of_the_level_table(query: str) -> None:
    """No stage is promised more per epoch than its program reaches per entry."""
    views = parse_views(f"CREATE MATERIALIZED VIEW v AS {query}", TABLES)
    plan = maintenance_plan(views, TABLES)
    found = per_entry(views[0], plan)
    assert found is not None
    assert found[0] == PER_ENTRY[query]
    record, _ = predicted(*found, "zombies")
    assert all(record.reaches(stage_level(stage).level) for stage in plan.stages)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "schema.cql").write_text(SCHEMA)
    (tmp_path / "views.sql").write_text(
        "CREATE MATERIALIZED VIEW by_region AS SELECT region, COUNT(*) AS n FROM orders GROUP BY region;"
        f"CREATE MATERIALIZED VIEW named AS {JOINED.format('name')}"
    )
    return str(tmp_path / "views.sql"), str(tmp_path / "schema.cql")


def test_explain_prints_a_tree(files: tuple[str, str], tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    answer = CliRunner().invoke(group, ["explain", files[0], "--schema", files[1], "--html", str(page)])
    assert answer.exit_code == 0, answer.output
    assert "└─ s1 aggregate by region: count(*)" in answer.output
    assert "expected CPU ms per base update" in answer.output
    assert page.read_text().count("<rect") == 2 + 2 + 2


def test_explain_as_json_has_levels_with_reasons(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", files[0], "--schema", files[1], "--json"]) == ExitCode.MET
    result = json.loads(capsys.readouterr().out)["result"]
    assert [view["view"] for view in result["views"]] == ["shop.by_region", "shop.named"]
    assert all(stage["citation"] for zone in result["zones"] for stage in zone["stages"])
    assert result["cost"]["ms_per_update"] > 0


def test_explain_says_what_a_changed_text_keeps_and_rebuilds(files: tuple[str, str], tmp_path: Path) -> None:
    before = tmp_path / "before.sql"
    before.write_text(Path(files[0]).read_text().replace("COUNT(*)", "COUNT(total)"))
    answer = CliRunner().invoke(group, ["explain", files[0], "--schema", files[1], "--before", str(before)])
    assert "rebuilt: shop.by_region (another query)" in answer.output
    assert "kept: shop.named" in answer.output


def test_explain_reads_statistics_and_refuses_unknown_ones(files: tuple[str, str], tmp_path: Path) -> None:
    known, typo = tmp_path / "known.json", tmp_path / "typo.json"
    known.write_text(json.dumps({"distinct": {"shop.orders.region": 3}, "rows": {"shop.orders": 1000}}))
    typo.write_text(json.dumps({"row": {}}))
    answer = CliRunner().invoke(
        group, ["explain", files[0], "--schema", files[1], "--statistics", str(known)]
    )
    assert "about 3 rows" in answer.output
    assert run(["explain", files[0], "--schema", files[1], "--statistics", str(typo)]) == ExitCode.USAGE
    assert run(["explain", files[0], "--schema", files[1], "--analyze"]) == ExitCode.USAGE


def test_bounds_and_different_values_make_selectivities() -> None:
    known = Known(distinct={"c": 4.0}.get, bounds={"c": (0, 10), "d": ("2024-01-01", "2024-01-11")}.get)
    column, day = Column("c"), Column("d")
    assert selectivity(Call("=", (column, Literal(1))), known) == 0.25
    assert selectivity(Call("in", (column, Literal(1), Literal(2))), known) == 0.5
    assert selectivity(Call("<", (column, Literal(2))), known) == pytest.approx(0.2)
    assert selectivity(Call(">=", (column, Literal(20))), known) == 0.0
    assert selectivity(Call(">", (day, Literal(date(2024, 1, 10)))), known) == pytest.approx(0.1)
    assert selectivity(Call("<", (column, Literal(2)))) == pytest.approx(1 / 3)


def test_few_groups_silence_what_follows_them() -> None:
    """Of 1,000 changes to 5 groups, 5 rows go on: what reads the groups has next to nothing to do."""
    plan = plan_of(
        "SELECT n, COUNT(*) AS k FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS g GROUP BY n"
    )
    few = plan_cost(plan, Statistics(distinct={"shop.orders.region": 5}))
    many = plan_cost(plan, Statistics(distinct={"shop.orders.region": 500_000}))
    assert few.stages[1].changes["shop.orders"] == pytest.approx(0.01, rel=0.1)
    assert many.stages[1].changes["shop.orders"] > 1


def test_a_merged_zone_saves_test_and_sets_and_costs_nothing_else() -> None:
    query = "SELECT c.id, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.id"
    merged, apart = plan_of(query), plan_of(query, choices=Choices(merge_zones=False))
    assert [len(zone.stages) for zone in merged.zones] == [2]
    computing, setting = Weights(test_and_set=0.0), Weights(test_and_set=100.0)
    assert plan_cost(merged, None, computing).total_ms == plan_cost(apart, None, computing).total_ms
    assert plan_cost(merged, None, setting).total_ms < plan_cost(apart, None, setting).total_ms


def test_explain_without_a_schema_asks_the_cluster_of_the_settings(
    files: tuple[str, str], tmp_path: Path
) -> None:
    settings = tmp_path / "cvs.toml"
    settings.write_text('[cluster]\ncontact_points = ["127.0.0.1"]\nport = 1\n')
    assert run(["explain", files[0], "--settings", str(settings)]) == ExitCode.ENVIRONMENT


def test_a_join_that_reads_a_zone_by_another_key_stays_outside() -> None:
    """Found by random views: it shares a route with the zone's first stage, but what it reads lies elsewhere."""
    query = """SELECT a.id, b.id AS i, c.id AS j FROM orders a JOIN orders b ON a.customer = b.customer
               JOIN orders c ON a.id = c.customer"""
    text = f"SELECT DISTINCT i, j FROM ({query}) AS s"
    assert all(len(zone.stages) == 1 for zone in plan_of(text).zones)


def test_joins_that_differ_in_what_is_selected_before_become_one() -> None:
    queries = [JOINED.format("name") + f" WHERE o.total > {n}" for n in (5, 10, 20)]
    (join,) = plan_of(*queries).stages
    assert len(plan_of(*queries, choices=Choices(late_selection=False)).stages) == 3
    assert isinstance(join, JoinStage)
    assert join.left[0].where == Call(">", (Column("total"), Literal(5)))
    wheres = [publication.inputs[0].where for publication in plan_of(*queries).publications]
    assert wheres[0] is None
    assert None not in wheres[1:]


def test_joins_over_disjoint_small_selections_stay_apart() -> None:
    """One join over everything would keep more rows than two over a tenth each."""
    queries = [JOINED.format("name") + f" WHERE o.region = '{r}' AND c.name = '{r}'" for r in "ab"]
    merged = plan_of(*queries)
    shares = [
        plan_cost(merged).storage_bytes,
        plan_cost(plan_of(*queries, choices=Choices(late_selection=False))).storage_bytes,
    ]
    assert shares[0] <= shares[1] * 1.01


def test_the_null_filled_side_of_a_left_join_is_never_selected_later() -> None:
    query = (
        "SELECT o.customer, o.id, name FROM orders o LEFT JOIN customers c ON o.customer = c.id AND c.name {}"
    )
    plan = plan_of(query.format("> 'a'"), query.format("> 'b'"))
    assert len(plan.stages) == 2


def test_equal_aggregates_over_ranges_are_counted_in_cells_once() -> None:
    """The thesis's disjunctive pieces count a row with Y = 4, Z = .25 twice (17 for a true 10); cells cannot."""
    queries = [
        f"SELECT region, SUM(total) AS s FROM orders WHERE customer < {n} GROUP BY region"
        for n in (5, 10, 15, 20)
    ]
    plan = plan_of(*queries, choices=WHEREVER)
    cells, *views = plan.stages
    assert len(plan.stages) == 1 + 4
    assert all(edge.source == "shop.orders" for edge in cells.inputs)
    assert all(edge.source == cells.name for view in views for edge in view.inputs)
    assert [len(zone.stages) for zone in plan.zones] == [1, 4]
    assert len(plan_of(*queries[:3]).stages) == 3


def test_every_value_is_in_exactly_one_cell() -> None:
    axis = Axis(expression=Column("x"), bounds=(5, 10, 15))
    cell = compile_expression(axis.cell())
    assert axis.cells((Call("<", (Column("y"), Literal(5))),)) is None
    found = [cell({"x": x}) for x in (None, 0, 5, 7, 10, 12, 15, 99)]
    assert found == [-1, 0, 1, 2, 3, 4, 5, 6]
    for operator, values in {
        "<": {0, 5, 7},
        "<=": {0, 5, 7, 10},
        ">": {12, 15, 99},
        ">=": {10, 12, 15, 99},
        "=": {10},
    }.items():
        first, last = axis.cells((Call(operator, (Column("x"), Literal(10))),))
        assert {x for x in (None, 0, 5, 7, 10, 12, 15, 99) if first <= cell({"x": x}) <= last} == values


def test_pieces_of_a_disjunction_count_twice_what_full_cells_count_once() -> None:
    """Paper 000 section 5.1.2 adds up, for `x < 10 OR y < 10`, the pieces of each column: D-2.7."""
    rows = [{"x": x, "y": y} for x in (3, 12, None) for y in (4, 15, None)]
    wanted = sum(1 for row in rows if (row["x"] or 99) < 10 or (row["y"] or 99) < 10)
    axes = [Axis(expression=Column(name), bounds=(10,)) for name in ("x", "y")]
    cells = [compile_expression(axis.cell()) for axis in axes]
    inside = [axis.cells((Call("<", (axis.expression, Literal(10))),)) for axis in axes]

    def within(number: int, cell: int) -> bool:
        first, last = inside[number]
        return first <= cell <= last

    pieces = [Counter(cell(row) for row in rows) for cell in cells]
    paper = sum(n for number, found in enumerate(pieces) for cell, n in found.items() if within(number, cell))
    full = Counter(tuple(cell(row) for cell in cells) for row in rows)
    ours = sum(n for place, n in full.items() if any(within(i, cell) for i, cell in enumerate(place)))
    both = sum(1 for row in rows if (row["x"] or 99) < 10 and (row["y"] or 99) < 10)
    assert both > 0
    assert paper == wanted + both
    assert ours == wanted


def test_stages_beside_each_other_are_read_in_one_round() -> None:
    """A zone of many stages costs one read a bucket, as it costs one test-and-set."""
    plan = plan_of(
        *(f"SELECT region, SUM(total) AS s FROM orders WHERE id > {n} GROUP BY region" for n in range(3))
    )
    (zone,) = plan.zones
    assert len(zone.stages) == 3
    reads: list[ReadBucket] = []

    class Counting(MemoryDoor):
        def answer(self, request):
            reads.extend([request] if isinstance(request, ReadBucket) else [])
            return super().answer(request)

    run = ProgramsRun(plan)
    run.door = Counting()
    columns = [name for name, _ in TABLES["shop.orders"].columns]
    row = {"customer": 1, "id": 9, "region": "Graz", "total": 5}
    run.epoch({"shop.orders": Counter([tuple(row.get(name) for name in columns)])})
    assert len(reads) == run.test_and_sets == 1
