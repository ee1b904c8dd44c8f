"""What a base row touches: every view record that a move changes is named, by reading only rows that can matter."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from cvs.model.recompute import recompute
from cvs.model.views import BaseTable
from cvs.plan.sql import parse_views
from cvs.stream.reach import BaseRows, Reach

TABLES = {
    name: BaseTable(name=name, columns=tuple(dict.fromkeys(columns, "int").items()), partition_key=("id",))
    for name, columns in {"s.a": ("id", "x", "y"), "s.b": ("id", "x", "z"), "s.c": ("id", "z")}.items()
}
VIEWS = {
    "selection": "SELECT id, x FROM s.a WHERE y > 1",
    "groups": "SELECT x, COUNT(*) AS n, SUM(y) AS total FROM s.a GROUP BY x",
    "having": "SELECT x, COUNT(*) AS n FROM s.a GROUP BY x HAVING COUNT(*) > 1",
    "join": "SELECT a.id, b.id AS other, b.z FROM s.a a JOIN s.b b ON a.x = b.x",
    "three": "SELECT a.id, b.id AS other, c.id AS third FROM s.a a JOIN s.b b ON a.x = b.x JOIN s.c c ON b.z = c.z",
    "left": "SELECT a.id, a.y, b.z FROM s.a a LEFT JOIN s.b b ON a.x = b.id",
    "grouped join": "SELECT b.z, COUNT(*) AS n FROM s.a a JOIN s.b b ON a.x = b.id GROUP BY b.z",
    "join of groups": (
        "SELECT a.id, t.n FROM s.a a JOIN (SELECT x, COUNT(*) AS n FROM s.b GROUP BY x HAVING COUNT(*) > 0) t "
        "ON a.x = t.x"
    ),
    "semi": "SELECT id FROM s.a WHERE x IN (SELECT x FROM s.b WHERE z > 0)",
    "anti": "SELECT id FROM s.a a WHERE NOT EXISTS (SELECT 1 FROM s.b b WHERE b.x = a.x)",
    "union": "SELECT x FROM s.a UNION SELECT z FROM s.b",
    "except": "SELECT x FROM s.a EXCEPT SELECT x FROM s.b",
    "itself": "SELECT a.id, b.id AS other FROM s.a a JOIN s.a b ON a.x = b.y",
    "distinct": "SELECT DISTINCT x FROM s.a",
}


class World:
    """Rows of three tables, and one view of them."""

    def __init__(self, sql: str) -> None:
        (view,) = parse_views(f"CREATE MATERIALIZED VIEW s.v AS {sql}", TABLES)
        self.view, self.base = view.definition, BaseRows(TABLES)
        self.reach = Reach(self.view, TABLES, self.base)

    def shown(self) -> Mapping[Any, Any]:
        everything = {name: list(rows.values()) for name, rows in self.base.tables.items()}
        rows = recompute(self.view, everything, TABLES)
        return {tuple(row[column] for column in self.view.key): row for row in rows.values()}


def moved(chance: random.Random, world: World) -> tuple[Any, dict[str, Any] | None]:
    table = chance.choice(sorted(TABLES))
    key = (chance.randrange(6),)
    if chance.random() < 0.3:
        return (table, key), None
    names = [name for name, _ in TABLES[table].columns[1:]]
    return (table, key), {"id": key[0], **{name: chance.choice((None, 0, 1, 2, 3)) for name in names}}


@pytest.mark.parametrize("together", [1, 5])
@pytest.mark.parametrize("sql", VIEWS.values(), ids=VIEWS)
def test_every_view_record_that_moves_change_is_touched(sql: str, together: int) -> None:
    """Whatever changed between two recomputations was named, and hangs on a record that moved."""
    chance, world, changes = random.Random(3), World(sql), 0
    for _ in range(400):
        moves = dict(moved(chance, world) for _ in range(together))
        before = world.shown()
        touched = world.reach.touched(
            {record: world.base.tables[record[0]].get(record[1]) for record in moves}
        )
        for record, row in moves.items():
            world.base.put(record, row)
        for key, records in world.reach.touched(moves).items():
            touched.setdefault(key, set()).update(records)
        after = world.shown()
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        assert changed <= touched.keys(), moves
        assert all(moves.keys() & touched[key] for key in changed)
        changes += len(changed)
    assert changes > 40


@pytest.mark.parametrize("name", ["selection", "groups", "join", "three", "left", "grouped join", "anti"])
def test_a_move_costs_what_it_meets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of rows only those that the joins' equalities let it meet are looked at."""
    world = World(VIEWS[name])
    for number in range(2_000):
        for table in TABLES:
            row = {column: number for column, _ in TABLES[table].columns}
            world.base.put((table, (number,)), row)
    read: list[int] = []
    whole = Reach._with_records

    def counted(self: Reach, where: str, rows: Any) -> Any:
        read.append(len(rows))
        return whole(self, where, rows)

    monkeypatch.setattr(Reach, "_with_records", counted)
    for table in world.reach.tables:
        row = world.base.tables[table][77,]
        assert world.reach.touched({(table, (77,)): row})
    assert sum(read) <= 20


def test_what_all_rows_are_compared_with_is_beside_them() -> None:
    """A row that moves touches its own view record; that the mean moved touches none, or each would hang on all."""
    world = World("SELECT id FROM s.a WHERE y > (SELECT AVG(z) FROM s.b)")
    for number in range(50):
        for table in TABLES:
            world.base.put((table, (number,)), {column: number for column, _ in TABLES[table].columns})
    assert world.reach.beside == {"s.b"}
    assert world.reach.touched({("s.a", (7,)): {"id": 7, "y": 9}}) == {(7,): {("s.a", (7,))}}
    assert world.reach.touched({("s.b", (7,)): {"id": 7, "z": 9}}) == {}
