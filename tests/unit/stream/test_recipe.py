"""What an epoch is pinned under: plan and code, and no more of the base tables than views read."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from cvs.capture.changes import Column, ColumnKind, TableDefinition, UserType
from cvs.errors import SpecificationError
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import parse_views
from cvs.store.session import ClusterAddress
from cvs.stream import recipe as recipes
from cvs.stream.bases import base_table
from cvs.stream.recipe import Recipe
from cvs.stream.tables import Names

ORDERS = TableDefinition(
    id="one",
    keyspace="shop",
    name="orders",
    columns=(
        Column(name="id", type="int", kind=ColumnKind.PARTITION_KEY, position=0),
        Column(name="region", type="text", kind=ColumnKind.REGULAR),
        Column(name="amount", type="int", kind=ColumnKind.REGULAR),
    ),
)
VIEW = "CREATE MATERIALIZED VIEW v.by_region AS SELECT region, SUM(amount) AS n FROM shop.orders {}GROUP BY region"


def recipe(definition: TableDefinition = ORDERS, where: str = "") -> Recipe:
    tables = {"shop.orders": base_table(definition)}
    return Recipe(
        plan=maintenance_plan(parse_views(VIEW.format(where), tables), tables),
        definitions={"shop.orders": definition},
        names=Names(keyspace="cvs"),
        address=ClusterAddress(contact_points=("nowhere",), port=1),
    )


def with_columns(*columns: Column) -> TableDefinition:
    return structs.replace(ORDERS, columns=(*ORDERS.columns[:2], *columns))


def test_a_column_that_no_view_reads_may_come_in_the_middle_of_an_epoch() -> None:
    """ALTER TABLE ADD, CREATE TYPE: the epoch that is pinned can still be run; what is ready is made anew."""
    spare = Column(name="spare", type="text", kind=ColumnKind.REGULAR)
    added = with_columns(ORDERS.columns[2], spare)
    assert recipe(added).hash == recipe().hash
    assert recipe(structs.replace(added, user_types=(UserType(name="t", fields=()),))).hash == recipe().hash
    assert recipe(added).exact != recipe().exact


STATE = "c9d201d7dd223c8c"


def test_state_keeps_its_name_over_releases() -> None:
    """Where this fails, an upgrade makes every view anew: if that is wanted, change it and say so in the changelog."""
    assert recipe().state == STATE


def test_a_program_decodes_what_its_plan_reads_and_a_repair_everything() -> None:
    """DELTA holds all columns (H15) and is compared with all of the base; stages see those that some view reads."""
    spare = Column(name="spare", type="text", kind=ColumnKind.REGULAR)
    found = recipe(with_columns(ORDERS.columns[2], spare))
    visible: Any = {"region": b"north", "amount": b"\0\0\0\2", "spare": b"x"}
    (narrow,), (whole,) = found.program().bases, found.readers()
    assert narrow.decode(b"\0\0\0\1", b"", visible) == (1, "north", 2, None)
    assert whole.decode(b"\0\0\0\1", b"", visible) == (1, "north", 2, "x")


def test_another_version_is_other_code_over_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not run what is pinned, and may go on from what rests; so it is with a table that was made anew."""
    before = recipe()
    others = [recipe(structs.replace(ORDERS, id="two"))]
    assert before.hash  # as this version names it
    monkeypatch.setattr("cvs.stream.recipe.VERSION", "another")
    for other in [*others, recipe()]:
        assert (other.state == before.state, other.hash == before.hash) == (True, False)


def test_whatever_can_change_a_result_changes_the_name() -> None:
    """Another type of a column that is read, another table of the same name, another view, another incarnation."""
    wider = with_columns(Column(name="amount", type="bigint", kind=ColumnKind.REGULAR))
    others = [
        recipe(wider),
        recipe(structs.replace(ORDERS, id="two")),
        recipe(where="WHERE id > 3 "),
        replace(recipe(), names=Names(keyspace="cvs", incarnation=2)),
        replace(recipe(), delta_buckets=2),
    ]
    assert len({it.hash for it in [recipe(), *others]}) == 6
    assert len({it.state for it in [recipe(), *others]}) == 5, "which table it is, state does not know"


def test_tables_that_are_there_and_not_captured_are_told_from_those_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node without CDC takes `cdc = true` and keeps nothing of it."""
    there: dict[bool, dict[str, TableDefinition]] = {True: {}, False: {"shop.orders": ORDERS}}
    monkeypatch.setattr(recipes, "definitions", lambda _session, _keyspaces, captured: there[captured])
    session: Any = None
    with pytest.raises(SpecificationError, match=r"changes of shop\.orders are not captured") as refusal:
        recipes.recipe_of(session, VIEW.format(""), names=Names(keyspace="cvs"), keyspaces=("shop",))
    assert "cdc_enabled: true" in refusal.value.next_step
    there[False] = {}
    with pytest.raises(SpecificationError, match=r"no table or view `shop\.orders`"):
        recipes.recipe_of(session, VIEW.format(""), names=Names(keyspace="cvs"), keyspaces=("shop",))
