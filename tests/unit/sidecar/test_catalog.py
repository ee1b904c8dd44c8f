"""What applying a text would do is known before anything is done."""

import pytest

from cvs.errors import SpecificationError
from cvs.model.views import BaseTable
from cvs.plan.sql import DeclaredView, names_of, parse_views
from cvs.sidecar.apply import together
from cvs.sidecar.catalog import CatalogView, changes, statement_of

ORDERS = BaseTable(
    name="shop.orders", columns=(("id", "int"), ("region", "text"), ("amount", "int")), partition_key=("id",)
)
COUNT = "CREATE MATERIALIZED VIEW shop.by_region AS SELECT region, COUNT(*) AS n FROM shop.orders GROUP BY region;"
BIG = "CREATE MATERIALIZED VIEW shop.big AS SELECT id, amount FROM shop.orders WHERE amount > 10;"


def parsed(text: str) -> tuple[DeclaredView, ...]:
    return parse_views(text, [ORDERS])


def kept(text: str) -> dict[str, CatalogView]:
    return {
        v.name: CatalogView(name=v.name, statement=statement_of(v), level=v.options.level)
        for v in parsed(text)
    }


def kinds(current: str, text: str, *, prune: bool = False) -> list[tuple[str, str]]:
    return [(c.kind, c.name) for c in changes(kept(current), parsed(text), prune=prune)]


def test_a_new_view_is_created_and_an_equal_one_is_left_alone() -> None:
    """Applying the same text again changes nothing."""
    assert kinds(COUNT, COUNT + BIG) == [("unchanged", "shop.by_region"), ("create", "shop.big")]


def test_another_definition_is_a_replacement() -> None:
    """A view whose statement differs is replaced; spaces and case of keywords do not matter."""
    assert kinds(BIG, BIG.replace("> 10", "> 20")) == [("replace", "shop.big")]
    assert kinds(BIG, BIG.replace("SELECT", "select ").replace("WHERE", "\nwhere")) == [
        ("unchanged", "shop.big")
    ]


def test_a_view_that_is_not_in_the_text_goes_only_when_asked() -> None:
    """Leaving a view out of the text keeps it, unless pruning was asked for."""
    assert kinds(COUNT + BIG, COUNT) == [("kept", "shop.big"), ("unchanged", "shop.by_region")]
    assert kinds(COUNT + BIG, COUNT, prune=True)[0] == ("drop", "shop.big")


def test_what_the_catalog_keeps_declares_the_same_view() -> None:
    """The statement that is kept parses to the view it came from, options included."""
    text = COUNT.replace(
        " AS SELECT", " TBLPROPERTIES ('cvs.level' = 'weak', 'cvs.freshness' = '2 s') AS SELECT", 1
    )
    (view,) = parsed(text)
    (again,) = parsed(statement_of(view))
    assert (again.definition, again.options) == (view.definition, view.options)
    assert statement_of(again) == statement_of(view)


READS = "CREATE MATERIALIZED VIEW shop.above AS SELECT id, amount FROM shop.big WHERE amount > 100;"


def beside(current: str, text: str) -> list[str]:
    return [view.name for view in together(parsed, names_of(text), text, kept(current))]


def test_views_that_read_each_other_are_rebuilt_in_their_order() -> None:
    """A rebuild is an empty text beside all kept views."""
    assert beside(BIG + READS, "") == ["shop.big", "shop.above"]


def test_a_text_may_read_what_is_kept_and_replace_what_kept_views_read() -> None:
    assert beside(COUNT + BIG, READS) == ["shop.by_region", "shop.big", "shop.above"]
    assert beside(BIG + READS, BIG.replace("> 10", "> 20")) == ["shop.big", "shop.above"]


def test_kept_views_that_cannot_be_made_any_more_are_told_apart_from_mistakes_of_the_text() -> None:
    with pytest.raises(SpecificationError, match=r"views that are kept cannot .*`amount`"):
        beside(BIG + READS, BIG.replace(", amount", ""))
    with pytest.raises(SpecificationError, match="no column `amunt`") as refusal:
        beside(COUNT, BIG.replace("amount >", "amunt >"))
    assert refusal.value.where == "line 1:79"
    with pytest.raises(SpecificationError, match=r"DROP of shop\.big") as refusal:
        beside(COUNT + BIG, "DROP MATERIALIZED VIEW shop.big")
    assert refusal.value.next_step == "cvs drop VIEW"
