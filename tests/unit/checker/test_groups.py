"""A group kept step by step shows what recomputing it shows."""

import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from typing import Any

import pytest

from cvs.checker.groups import Change, Group, Partners, folding_of
from cvs.checker.meaning import DefinitionMeaning
from cvs.model.expressions import Call, Column, Literal
from cvs.model.recompute import bag
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Join,
    Named,
    Project,
    Scan,
    Select,
    ViewDefinition,
)

R, S = Scan(table="r", alias="r"), Scan(table="s", alias="s")
TABLES = {
    "r": BaseTable(name="r", columns=tuple((n, "int") for n in ("k", "x", "y")), partition_key=("k",)),
    "s": BaseTable(name="s", columns=tuple((n, "int") for n in ("k", "g")), partition_key=("k",)),
}
VALUES: dict[str, tuple[Any, ...]] = {
    "whole": (None, 0, 1, 2, -3),
    "decimal": (None, Decimal("0.10"), Decimal("0.1"), Decimal("-2.55"), Decimal(7)),
    "double": (None, 0.1, -0.0, 0.0, 2.5, float("nan"), float("inf"), -float("inf")),
}


def fold(source: Any, group: tuple[str, ...]) -> Aggregate:
    """Every function over one column, distinct values too."""
    columns = [
        AggregateColumn(name=f"{f.value} {d}", function=f, argument=Column("r.y"), distinct=d)
        for f in AggregateFunction
        for d in (False, True)
    ]
    columns.append(AggregateColumn(name="rows", function=AggregateFunction.COUNT))
    named = tuple(Named(name=name.split(".")[-1], expression=Column(name)) for name in group)
    return Aggregate(source=source, group=named, aggregates=tuple(columns))


def view(relation: Any, *key: str) -> ViewDefinition:
    return ViewDefinition(name="v", relation=relation, key=key)


BOTH = Join(kind="inner", left=R, right=S, on=((Column("r.x"), Column("s.k")),))
BUSY = Select(source=fold(R, ("r.x",)), predicate=Call(">", (Column("rows"), Literal(1))))
VIEWS = {
    "of a table": view(fold(R, ("r.x",)), "x"),
    "of everything": view(fold(R, ())),
    "of a join": view(fold(BOTH, ("s.g",)), "g"),
    "of groups with several rows": view(
        Project(
            source=BUSY,
            columns=tuple(Named(name=n, expression=Column(n)) for n in ("x", "rows", "sum False")),
        ),
        "x",
    ),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", VIEWS)
def test_a_group_kept_step_by_step_shows_what_is_recomputed(name: str, kind: str) -> None:
    chance = random.Random(f"{name} {kind}")
    meaning = DefinitionMeaning(VIEWS[name], TABLES)
    folding = folding_of(VIEWS[name], TABLES)
    assert folding is not None
    key: tuple[Any, ...] = () if name == "of everything" else (1,)
    steps = list(changing(chance, VALUES[kind]))
    group = Group(folding, key, partners_of(meaning, steps))
    rows: dict[Any, dict[str, Any]] = {}
    shown = 0
    for changes in steps:
        rows.update((record, after) for record, _, after in changes if after is not None)
        for record, _, after in changes:
            if after is None:
                rows.pop(record, None)
        group.move(changes)
        expected = meaning.view(rows).get(key)
        assert group.shown() == expected, (rows, changes)
        shown += expected is not None
    assert shown > 20


def changing(chance: random.Random, values: tuple[Any, ...]) -> Iterator[list[Change]]:
    """Rows of two tables that come, change and go, a few at once."""
    rows: dict[Any, dict[str, Any] | None] = {}
    for _ in range(150):
        every = [("r", (n,)) for n in range(5)] + [("s", (n,)) for n in range(3)]
        changes: list[Change] = []
        for record in chance.sample(every, chance.randint(1, 3)):
            k = record[1][0]
            after: dict[str, Any] | None = {"k": k, "g": chance.randrange(2)}
            if record[0] == "r":
                after = {"k": k, "x": chance.randrange(3), "y": chance.choice(values)}
            after = None if chance.random() < 0.3 else after
            changes.append((record, rows.get(record), after))
            rows[record] = after
        yield changes


def partners_of(meaning: DefinitionMeaning, steps: list[list[Change]]) -> Partners:
    timelines: dict[Any, list[Any]] = {}
    for record, _, after in chain.from_iterable(steps):
        timelines.setdefault(record, [None]).append(after)
    reach = meaning.reach(timelines)
    assert reach is not None
    return reach.partners


def test_a_change_looks_at_its_partners_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row moves under a key where a hundred others stand: of these none is joined again."""
    meaning, folding = DefinitionMeaning(VIEWS["of a join"], TABLES), folding_of(VIEWS["of a join"], TABLES)
    assert folding is not None
    first: list[Change] = [(("s", (n,)), None, {"k": n, "g": 1}) for n in range(100)]
    first += [(("r", (n,)), None, {"k": n, "x": n, "y": 1}) for n in range(100)]
    then: list[Change] = [(("r", (7,)), first[107][2], {"k": 7, "x": 8, "y": 5})]
    group = Group(folding, (1,), partners_of(meaning, [first, then]))
    group.move(first)
    looked: list[int] = []

    def counted(relation: Any, base: Any, tables: Any) -> Any:
        looked.extend(map(len, base.values()))
        return bag(relation, base, tables)

    monkeypatch.setattr("cvs.checker.groups.bag", counted)
    group.move(then)
    assert sum(looked) <= 6, looked
    rows = {record: now for record, _, now in (*first, *then)}
    assert group.shown() == meaning.view(rows)[1,]


def test_what_is_not_linear_in_its_tables_is_no_such_fold() -> None:
    twice = Join(kind="inner", left=R, right=Scan(table="r", alias="q"), on=((Column("r.x"), Column("q.k")),))
    left = Join(kind="left", left=R, right=S, on=((Column("r.x"), Column("s.k")),))
    for relation in (fold(twice, ("r.x",)), fold(left, ("r.x",)), R):
        assert folding_of(view(relation, "x"), TABLES) is None
