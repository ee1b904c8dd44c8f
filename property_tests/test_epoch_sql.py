"""What plans of SQL keep, against the definition: views that the cases of `tests/unit/programs` do not have."""

from collections import Counter
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cvs.model.recompute import recompute_all
from cvs.programs.stage_aggregate import BEST_KEPT
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_snapshot import SnapshotReader
from cvs.simulate.epochs import EpochScenario, EpochWorld
from cvs.simulate.scheduler import replayed_epochs
from cvs.suite.judged import form
from cvs.suite.user_views import UserViews, user_views

TABLES = """
CREATE TABLE b.r (k int PRIMARY KEY, x text, y int, d decimal, w double);
CREATE TABLE b.s (k int PRIMARY KEY, x text, y int, d decimal, w double);
CREATE MATERIALIZED VIEW b.v AS """

VIEWS = {
    "sums": "SELECT x, SUM(d) AS sd, AVG(d) AS ad, STDDEV(d) AS dd, VARIANCE(d) AS vd, SUM(w) AS sw, STDDEV(w) AS dw,"
    " AVG(DISTINCT y) AS ay, SUM(DISTINCT d) AS td, COUNT(w) AS n FROM b.r GROUP BY x",
    "extremes": "SELECT x, MIN(w) AS lw, MAX(d) AS md, MIN(y) AS ly, MAX(y) AS my FROM b.r GROUP BY x",
    "all of it": "SELECT MAX(d) AS md, COUNT(*) AS n FROM b.r",
    "groups of groups": "SELECT x, MAX(n) AS most, COUNT(*) AS kinds FROM"
    " (SELECT x, y, COUNT(*) AS n FROM b.r GROUP BY x, y) AS g GROUP BY x",
    "a group of its groups": "SELECT x, SUM(n) AS n FROM (SELECT x, COUNT(*) AS n FROM b.r GROUP BY x) AS g GROUP BY x",
    "groups of a join": "SELECT r.y AS y, COUNT(*) AS n, SUM(s.d) AS d FROM b.r r JOIN b.s s ON r.y = s.y GROUP BY r.y",
    "inner": "SELECT r.k AS k, s.k AS l, r.y AS y FROM b.r r JOIN b.s s ON r.y = s.y AND r.d < s.d",
    "left": "SELECT r.x AS x, COUNT(*) AS n, COUNT(s.k) AS m, SUM(s.d) AS d FROM b.r r"
    " LEFT JOIN b.s s ON r.y = s.y AND r.d < s.d GROUP BY r.x",
    "full": "SELECT COUNT(*) AS n, COUNT(r.k) AS l, COUNT(s.k) AS m, SUM(r.d) AS d FROM b.r r"
    " FULL JOIN b.s s ON r.y = s.y AND r.d < s.d",
    "exists": "SELECT k, x FROM b.r WHERE EXISTS (SELECT 1 FROM b.s WHERE s.y = r.y AND s.d > r.d)",
    "not exists": "SELECT k, x FROM b.r WHERE NOT EXISTS (SELECT 1 FROM b.s WHERE s.y = r.y AND s.d > r.d)",
    "union all": "SELECT x, COUNT(*) AS n FROM (SELECT x FROM b.r UNION ALL SELECT x FROM b.s) AS u GROUP BY x",
    "first": "SELECT k, d, w FROM b.r ORDER BY d DESC NULLS LAST, w NULLS FIRST, k LIMIT 2",
    "computed": "SELECT k, y * 2 AS z, CASE WHEN w > 0.5 THEN 'up' ELSE x END AS c FROM b.r WHERE y > 0 OR x = 'a'",
}
ROWS = st.fixed_dictionaries(
    {
        "x": st.sampled_from(["a", "b", None]),
        "y": st.sampled_from([1, 2, -1, None]),
        "d": st.sampled_from([Decimal("1.00"), Decimal("1.0"), Decimal("-2.5"), Decimal(0), None]),
        "w": st.sampled_from([0.1, 0.2, -0.0, 0.0, float("nan"), float("inf"), float("-inf"), None]),
    }
)
WRITES = st.lists(
    st.tuples(st.sampled_from(["b.r", "b.s"]), st.integers(1, 4), st.none() | ROWS), min_size=1, max_size=12
)


@cache
def view_of(name: str) -> UserViews:
    return user_views(TABLES + VIEWS[name] + ";")


def world_of(user: UserViews, writes: list) -> EpochWorld:
    """Run what is written to its end, several epochs one after the other."""
    known = {base.name for base in user.plan.bases}
    made = tuple(
        (table, (k,), None if row is None else {"k": k, **row}) for table, k, row in writes if table in known
    )
    scenario = EpochScenario(plan=user.plan, writes=made, drivers=1, limit=3, copies=False)
    return replayed_epochs(EpochWorld(scenario), ())


def expected(world: EpochWorld, user: UserViews) -> Counter:
    base: dict[str, list[Any]] = {name: [] for name in world.tables}
    for (table, _), line in world.timelines.items():
        base[table] += [row for row in line.rows[-1:] if row is not None]
    every = recompute_all([view.definition for view in user.views], base, user.tables)
    (publication,) = user.plan.publications
    rows = every["b.v"].values()
    return Counter(form(row) for row in rows if all(row[name] is not None for name in publication.key))


@pytest.mark.parametrize("name", sorted(VIEWS))
@given(writes=WRITES)
def test_what_is_kept_is_what_is_meant(name: str, writes: list) -> None:
    user = view_of(name)
    world = world_of(user, writes)
    assert not world.broken, world.broken
    (publication,) = user.plan.publications
    names = [column for column, _ in publication.columns]
    shown = world.door.showing("b.v")
    assert Counter(form(dict(zip(names, row, strict=True))) for row in shown.values()) == expected(
        world, user
    )
    (compute,) = world.program.publications
    reader = SnapshotReader(compute, world.program.zones, world.program.tables)
    if not reader.possible:
        assert drive(reader.read(), world.door) is None
        return
    whole = drive(reader.read(), world.door)
    assert repr(sorted(whole.values(), key=repr)) == repr(sorted(shown.values(), key=repr))
    epoch = max(
        signature.version for (table, _), signature in world.door.signatures.items() if table == "control"
    )
    for key in [*whole, *(tuple("no such" for _ in key) for key in list(whole)[:1])]:
        found = drive(reader.rows(epoch, key=key), world.door)
        assert repr(found.get(key)) == repr(whole.get(key)), "one row by its key is that of the whole view"


MANY = user_views(
    TABLES + "SELECT x, MIN(y) AS least, MAX(y) AS most, COUNT(DISTINCT y) AS n FROM b.r GROUP BY x;"
)


@given(
    st.lists(st.integers(-50, 50), min_size=BEST_KEPT + 4, max_size=3 * BEST_KEPT),
    st.permutations(range(3 * BEST_KEPT)),
)
def test_extremes_are_right_when_all_the_best_have_left(values: list[int], order: list[int]) -> None:
    """A group lists its best values only; when the last of them leaves, the others are read again."""
    writes: list[Any] = [("b.r", k, {"x": "ab"[k % 2], "y": y}) for k, y in enumerate(values)]
    ranked = sorted(range(len(values)), key=lambda k: values[k])
    leaving = ranked[: BEST_KEPT + 2] if order[0] % 2 else ranked[-BEST_KEPT - 2 :]
    writes += [("b.r", k, None) for k in leaving]
    made = tuple(
        (table, (k,), None if row is None else {"k": k, "d": None, "w": None, **row})
        for table, k, row in writes
    )
    scenario = EpochScenario(
        plan=MANY.plan, writes=made, drivers=1, limit=1 + order[1], copies=False, rows_a_statement=100
    )
    world = replayed_epochs(EpochWorld(scenario), ())
    left = {k: y for k, y in enumerate(values) if k not in leaving}
    groups = {x: [y for k, y in left.items() if "ab"[k % 2] == x] for x in "ab"}
    assert {key[0]: row[1:] for key, row in world.door.showing("b.v").items()} == {
        x: (min(ys), max(ys), len(set(ys))) for x, ys in groups.items() if ys
    }
