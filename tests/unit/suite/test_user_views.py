import json
from pathlib import Path

import pytest

from cvs.cli import run
from cvs.errors import ExitCode, HistoryError, SpecificationError
from cvs.history.codec import line_of
from cvs.model.cql_type import parse_type
from cvs.model.types import TYPES, normal
from cvs.suite.single import replayed_story
from cvs.suite.user_views import UserViews, Workload, user_views, values_of
from cvs.suite.view_history import history_of
from cvs.suite.view_reports import examine_views, one_world, written
from cvs.suite.view_story import story_of, text_of, with_levels

pytest_plugins = ["cvs.suite.plugin"]

SCHEMA = """-- it's only "a schema";
CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TABLE shop.orders (id int PRIMARY KEY, city text, total decimal);
create table shop.visits (city text, day date, n int, PRIMARY KEY (city, day)); -- clustered
"""
BY_CITY = """CREATE MATERIALIZED VIEW shop.by_city AS
SELECT city, COUNT(*) AS orders, SUM(total) AS total FROM shop.orders WHERE city <> 'x;y' GROUP BY city;
"""
VIEWS = (
    SCHEMA
    + BY_CITY
    + """
CREATE MATERIALIZED VIEW shop.busy TBLPROPERTIES ('cvs.granularity' = 'view') AS
SELECT o.id, v.day, v.n FROM shop.orders o JOIN shop.visits v ON o.city = v.city WHERE v.n > 1;
CREATE MATERIALIZED VIEW shop.best AS SELECT id, total FROM shop.orders ORDER BY total DESC, id LIMIT 2;
CREATE MATERIALIZED VIEW shop.large AS SELECT city, orders FROM shop.by_city WHERE orders > 1;
CREATE MATERIALIZED VIEW shop.quiet AS
SELECT id FROM shop.orders WHERE NOT EXISTS (SELECT 1 FROM shop.visits v WHERE v.city = orders.city);
"""
)


def views_of(text: str) -> UserViews:
    return user_views(text)


def test_views_of_every_kind_hold_their_level_in_every_run() -> None:
    found = examine_views(views_of(VIEWS), examples=12)
    assert found.held, str(found)
    assert [f.runs for f in found.findings] == [12] * 5


def test_a_level_that_does_not_hold_is_told_by_the_smallest_story(tmp_path: Path) -> None:
    user = views_of(SCHEMA + BY_CITY)
    found = examine_views(user, examples=10, without=("signatures",))
    (view,) = found.findings
    assert 0 < view.held < view.runs
    assert view.story is not None
    assert len(view.story.scenario.writes) + len(view.story.scenario.initial) <= 2
    assert "shows" in str(found)
    text = text_of(view.story)
    assert text_of(story_of(text)) == text
    assert replayed_story(text, "a.story")[0]
    healed = text.replace("without rule signatures\n", "")
    assert not replayed_story(healed, "a.story")[0], "with the rule on the same schedule is harmless"


def test_the_same_seed_gives_the_same_run() -> None:
    user = views_of(VIEWS)
    first, second = (text_of(with_levels(one_world(user, Workload(user), 5)[1])) for _ in range(2))
    assert first == second


def test_a_story_line_it_does_not_know_is_refused_with_its_number() -> None:
    with pytest.raises(HistoryError, match="no such line") as refusal:
        story_of(f"sql {SCHEMA.splitlines()[2]}\nonce upon a time\n", where="a.story")
    assert refusal.value.where == "a.story:2"


def test_mistakes_in_a_view_keep_their_line() -> None:
    with pytest.raises(SpecificationError) as refusal:
        user_views(SCHEMA + "CREATE MATERIALIZED VIEW shop.v AS\nSELECT nothing FROM shop.orders;")
    assert refusal.value.where.startswith("line 6:"), refusal.value.where
    with pytest.raises(SpecificationError, match="CREATE TABLE"):
        user_views(BY_CITY)
    with pytest.raises(SpecificationError, match="no view"):
        user_views(SCHEMA)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_has_values_in_canonical_form(name: str) -> None:
    text = {
        "list": "list<int>",
        "set": "set<text>",
        "map": "map<text, int>",
        "tuple": "tuple<int, text>",
        "vector": "vector<float, 2>",
        "udt": "int",
    }.get(name, name)
    kind = parse_type(text)
    found = values_of(kind, ("x", 7, None))
    assert found
    assert all(normal(kind, value) == value for value in found)


def test_constants_of_the_views_and_their_neighbours_are_drawn() -> None:
    domains = Workload(views_of(VIEWS)).domains
    assert {0, 1, 2} <= set(domains["shop.visits"]["n"])
    assert "x;y" in domains["shop.orders"]["city"]


def test_numbers_written_otherwise_inside_collections_are_one_group() -> None:
    """1.0 and 1.00 in a list, 0.0 and -0.0 in a tuple: the state had two groups, the table a row of one of them."""
    found = examine_views(
        views_of("""CREATE TABLE b.r (k int PRIMARY KEY, l frozen<list<decimal>>, t frozen<tuple<double, int>>);
            CREATE MATERIALIZED VIEW b.v AS SELECT l, COUNT(*) AS n FROM b.r GROUP BY l;
            CREATE MATERIALIZED VIEW b.j AS SELECT x.k AS k, y.k AS o FROM b.r x JOIN b.r y ON x.t = y.t;"""),
        examples=10,
    )
    assert found.held, str(found)


def test_a_users_test_asserts_its_levels_in_three_lines(cvs_views, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(SCHEMA + BY_CITY)
    found = cvs_views(tmp_path / "views.sql", examples=5)
    assert found.held, str(found)


def test_a_mistake_in_a_users_views_is_told_in_its_own_words(cvs_views, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(
        SCHEMA + "CREATE MATERIALIZED VIEW shop.v AS SELECT nope FROM shop.orders;"
    )
    with pytest.raises(pytest.fail.Exception, match="there is no column `nope`") as failure:
        cvs_views(tmp_path / "views.sql")
    assert not failure.value.pytrace
    with pytest.raises(pytest.fail.Exception, match="No such file") as failure:
        cvs_views(tmp_path / "other.sql")
    assert not failure.value.pytrace


def test_a_pipeline_that_stands_still_leaves_its_story_alone(tmp_path: Path) -> None:
    """Its history shows nothing wrong, so a page would say that nothing is violated."""
    joined = """CREATE MATERIALIZED VIEW shop.busy AS
        SELECT o.id, v.day, v.n FROM shop.orders o JOIN shop.visits v ON o.city = v.city;"""
    found = examine_views(views_of(SCHEMA + joined), examples=6, without=("signatures",))
    stuck = [it for it in found.findings if it.stuck]
    assert stuck
    assert "shop.busy in" in repr(found)
    written(found, tmp_path)
    for it in stuck:
        assert [file.suffix for file in it.files] == [".story"]
        assert f"{it.view.name} is not kept any more" in str(found)


@pytest.mark.slow
def test_the_command_answers_per_view_and_its_history_is_judged_alike(capsys, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(BY_CITY)
    (tmp_path / "schema.cql").write_text(SCHEMA)
    arguments = ["suite", "--views", str(tmp_path / "views.sql"), "--schema", str(tmp_path / "schema.cql")]
    arguments += ["--examples", "10", "--output", str(tmp_path / "out")]
    assert run(arguments) == ExitCode.MET
    assert "10 of 10 runs" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    assert run([*arguments, "--without", "signatures", "--json"]) == ExitCode.VIOLATED
    (view,) = json.loads(capsys.readouterr().out)["result"]
    assert (view["record"], view["declared"]) == ("not_converged", "strong")
    story, history, page = view["files"]
    assert run(["replay", story]) == ExitCode.MET
    assert "by_city" in Path(page).read_text()
    capsys.readouterr()
    assert run(["audit", history, "--expect", "strong"]) == ExitCode.VIOLATED


def test_a_view_that_never_changed_is_read_once_so_that_its_history_is_judged(tmp_path: Path) -> None:
    """Without a write and a read of the view there would be nothing to judge, and no report of any view."""
    user = views_of(SCHEMA + BY_CITY)
    world, _ = one_world(user, Workload(user), 1)
    world.moments = [moment for moment in world.moments if moment[1] == "write"]
    history = tmp_path / "run.ndjson"
    history.write_bytes(b"".join(map(line_of, history_of(world, user))))
    assert run(["audit", str(history), "--expect-view", "converged"]) == ExitCode.VIOLATED
