"""Epochs under schedules that Hypothesis chooses and shrinks, and the same input per entry and per epoch."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cvs.model.levels import Level
from cvs.programs.stage_bucket import SetBucket
from cvs.simulate.epochs import EpochScenario, EpochWorld
from cvs.simulate.scheduler import replayed_epochs
from cvs.simulate.world import Scenario, World
from cvs.suite.classes import view_class
from cvs.suite.judged import form
from cvs.suite.user_views import UserViews, judged_view, user_views

TABLES = """
CREATE TABLE b.r (k int PRIMARY KEY, x text, y int);
CREATE TABLE b.s (k int PRIMARY KEY, x text, y int, z text);
CREATE MATERIALIZED VIEW b.v AS """

PER_ENTRY_AND_PER_EPOCH = {
    "count": "SELECT x, COUNT(*) AS n FROM b.r GROUP BY x",
    "sum": "SELECT x, SUM(y) AS total FROM b.r GROUP BY x",
    "avg": "SELECT x, AVG(y) AS mean FROM b.r GROUP BY x",
    "min": "SELECT x, MIN(y) AS least FROM b.r GROUP BY x",
    "count-sum-avg-min-max": "SELECT x, COUNT(*) AS n, SUM(y) AS total, AVG(y) AS mean, MIN(y) AS least,"
    " MAX(y) AS most FROM b.r GROUP BY x",
    "count-distinct": "SELECT x, COUNT(DISTINCT y) AS n FROM b.r GROUP BY x",
    "variance": "SELECT x, VARIANCE(y) AS spread FROM b.r GROUP BY x",
    "having": "SELECT x, COUNT(*) AS n FROM b.r GROUP BY x HAVING COUNT(*) > 1",
    "selection": "SELECT k, x, y FROM b.r WHERE y < 2",
    "projection-keeping-key": "SELECT k, x FROM b.r",
    "projection-moving-key": "SELECT x, k FROM b.r",
    "projection-losing-key": "SELECT DISTINCT x, y FROM b.r",
    "union": "SELECT k, x FROM b.r UNION SELECT k, x FROM b.s",
    "intersect": "SELECT k, x FROM b.r INTERSECT SELECT k, x FROM b.s",
    "except": "SELECT k, x FROM b.r EXCEPT SELECT k, x FROM b.s",
    "top-2": "SELECT k, x, y FROM b.r ORDER BY y DESC, k LIMIT 2",
    "not-in": "SELECT k, y FROM b.r WHERE y NOT IN (SELECT y FROM b.s)",
}
"""View class -> the same view in SQL."""

DRIVERS = st.integers(0, 1)
STEPS = st.one_of(
    st.sampled_from([("write", 0, 0), ("copy", 0, 0), ("read", 0, 0), ("arrive", 0, 0)]),
    st.tuples(st.just("go"), DRIVERS, st.integers(0, 3)),
    st.tuples(st.just("go"), DRIVERS, st.integers(0, 3)),
    st.tuples(st.sampled_from(["lose", "drop", "delay", "crash"]), DRIVERS, st.integers(0, 3)),
)
SCHEDULES = st.lists(STEPS, max_size=80).map(tuple)


def settled(user: UserViews, writes: tuple, schedule: tuple = (), **more) -> EpochWorld:
    world = replayed_epochs(EpochWorld(EpochScenario(plan=user.plan, writes=writes, **more)), schedule)
    assert not world.broken, world.broken
    return world


def shown(world: EpochWorld) -> Counter:
    (publication,) = world.scenario.plan.publications
    names = [name for name, _ in publication.columns]
    rows = world.door.showing(publication.table).values()
    return Counter(form(dict(zip(names, row, strict=True))) for row in rows)


@st.composite
def writes_of(draw, name: str) -> list:
    """Base updates of a class; columns the class has nothing to do with are null."""
    shape, found = view_class(name), []
    for _ in range(draw(st.integers(1, 8))):
        table = draw(st.sampled_from(sorted(shape.domains)))
        row = draw(
            st.none()
            | st.fixed_dictionaries({n: st.sampled_from(d) for n, d in shape.domains[table].items()})
        )
        key = draw(st.integers(1, 3))
        found.append((table, (key,), None if row is None else {"k": key, **row}))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PER_ENTRY_AND_PER_EPOCH))
@given(data=st.data())
def test_per_epoch_equals_per_entry_on_the_same_input(name: str, data) -> None:
    """Whatever the schedule of the drivers, both modes end with the same view records."""
    writes = data.draw(writes_of(name))
    entries = World(Scenario(program=view_class(name).variants[0].program, writes=tuple(writes)))
    entries.finish()
    per_entry: Counter = Counter()
    for row in entries.store.view().values():
        per_entry.update(map(form, row["rows"])) if set(row) == {"rows"} else per_entry.update([form(row)])
    user = user_views(TABLES + PER_ENTRY_AND_PER_EPOCH[name] + ";")
    columns = {base.name: [c for c, _ in base.columns] for base in user.plan.bases}
    same = tuple(
        (f"b.{table}", key, None if row is None else {c: row.get(c) for c in columns[f"b.{table}"]})
        for table, key, row in writes
    )
    assert shown(settled(user, same, data.draw(SCHEDULES), limit=3)) == per_entry


JOINED = user_views(
    TABLES + "SELECT r.k AS k, s.k AS l, s.z FROM b.r r LEFT JOIN b.s s ON r.y = s.y WHERE s.k IS NOT NULL;"
)


def moving(keys: list) -> tuple:
    """The same base records deleted and inserted again under other join keys."""
    found = []
    for table, key, y in keys:
        row = {"k": key, "x": "a", "y": y} | ({"z": f"z{y}"} if table == "b.s" else {})
        found += [(table, (key,), None), (table, (key,), row)]
    return tuple(found)


MOVES = st.lists(
    st.tuples(st.sampled_from(["b.r", "b.s"]), st.integers(1, 2), st.sampled_from([1, 2, None])),
    min_size=1,
    max_size=5,
)


@given(MOVES, SCHEDULES)
@example([("b.r", 1, 1), ("b.s", 1, 1), ("b.s", 1, 2), ("b.r", 1, 2)], (("write", 0, 0),) * 9)
def test_delete_then_reinsert_under_another_join_key_ends_right(keys: list, schedule: tuple) -> None:
    """Late copies, late puts, crashes: the level is strong, the end is the view of the last base state."""
    world = settled(JOINED, moving(keys), schedule, limit=2)
    judgement = judged_view(world, JOINED, JOINED.views[0])
    assert judgement.record.reaches(Level.STRONG)
    assert judgement.view.reaches(Level.STRONG)


HOT = user_views(
    """
CREATE TABLE b.r (k int PRIMARY KEY, x text, y int);
CREATE MATERIALIZED VIEW b.partial AS
SELECT x, k % 3 AS part, MAX(y) AS most, COUNT(*) AS n, SUM(y) AS total FROM b.r GROUP BY x, k % 3;
CREATE MATERIALIZED VIEW b.v AS
SELECT x, MAX(most) AS most, SUM(n) AS n, SUM(total) AS total FROM b.partial GROUP BY x;
CREATE MATERIALIZED VIEW b.direct AS
SELECT x, MAX(y) AS most, COUNT(*) AS n, SUM(y) AS total FROM b.r GROUP BY x;
"""
)
HOT_WRITES = st.lists(
    st.tuples(st.integers(1, 6), st.none() | st.integers(0, 9), st.sampled_from("aab")),
    min_size=1,
    max_size=12,
)


@given(HOT_WRITES, SCHEDULES)
@example([(1, 9, "a"), (2, 5, "a"), (1, None, "a")], ())
def test_a_hot_group_split_in_partials_equals_the_whole(writes: list, schedule: tuple) -> None:
    """The global maximum falls again when the partial that held it loses it; counts and sums compose."""
    made = tuple(("b.r", (k,), None if y is None else {"k": k, "x": x, "y": y}) for k, y, x in writes)
    world = settled(HOT, made, schedule, limit=4)
    split, direct = world.door.showing("b.v"), world.door.showing("b.direct")
    assert {key: tuple(map(int, row[1:])) for key, row in split.items()} == {
        key: tuple(map(int, row[1:])) for key, row in direct.items()
    }


@given(st.lists(st.integers(0, 9), min_size=2, max_size=40))
def test_all_changes_of_a_group_are_one_test_and_set_an_epoch(values: list) -> None:
    """Combined before the test-and-set: a hot group costs one, however many base updates an epoch has."""
    user = user_views(TABLES + PER_ENTRY_AND_PER_EPOCH["count-sum-avg-min-max"] + ";")
    writes = tuple(("b.r", (k,), {"k": k, "x": "a", "y": y}) for k, y in enumerate(values))
    world = EpochWorld(
        EpochScenario(
            plan=user.plan, writes=writes, drivers=1, limit=100, rows_a_statement=1_000, copies=False
        )
    )
    (zone,) = user.plan.zones
    sets: list[SetBucket] = []
    door = world.door

    def counting(requests: list) -> list:
        sets.extend(r for r in requests if isinstance(r, SetBucket) and r.table == zone.name)
        return door(requests)

    world.door = type("Counting", (), {"__call__": lambda _, r: counting(r), "showing": door.showing})()
    world.finish()
    assert len(sets) == 1
    ((_, row),) = door.showing("b.v").items()
    assert row[1:3] == (len(values), sum(values))


SCALAR = user_views(TABLES + "SELECT k, y FROM b.r WHERE y > (SELECT AVG(y) FROM b.s);")


@given(MOVES, SCHEDULES)
def test_a_scalar_subquery_re_decides_the_outer_rows(keys: list, schedule: tuple) -> None:
    """Rows come and go when the average they are compared with moves."""
    world = settled(SCALAR, moving(keys), schedule, limit=2)
    assert judged_view(world, SCALAR, SCALAR.views[0]).record.reaches(Level.STRONG)
