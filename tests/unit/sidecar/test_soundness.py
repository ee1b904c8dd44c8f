"""A view that the base tables cannot make any more hinders no other."""

from types import SimpleNamespace
from typing import Any

import pytest

from cvs.errors import SpecificationError
from cvs.model.views import BaseTable
from cvs.plan.sql import DeclaredView, parse_views
from cvs.sidecar.apply import beside
from cvs.sidecar.catalog import CatalogLife, CatalogView, changes
from cvs.sidecar.recordings import of_tables
from cvs.sidecar.settings import Settings
from cvs.sidecar.soundness import Soundness, settled, soundness, statements_in, told_aside
from cvs.sidecar.views import Views
from cvs.stream.epochs import Epoch

WHOLE = BaseTable(name="s.t", columns=(("id", "int"), ("x", "int"), ("y", "int")), partition_key=("id",))
DROPPED = BaseTable(name="s.t", columns=(("id", "int"), ("y", "int")), partition_key=("id",))
QUERIES = {
    "s.a": "SELECT id, y FROM s.t",
    "s.b": "SELECT id, x FROM s.t",
    "s.c": "SELECT id, x FROM s.b",
    "s.d": "SELECT y, COUNT(*) AS n FROM s.a GROUP BY y",
    "s.e": "SELECT x, COUNT(*) AS n FROM s.t GROUP BY x",
}
VIEWS = parse_views("".join(f"CREATE MATERIALIZED VIEW {n} AS {q};" for n, q in QUERIES.items()), [WHOLE])
STATEMENTS = {view.name: view.statement for view in VIEWS}
KEPT = {n: CatalogView(name=n, statement=it, level="strong") for n, it in STATEMENTS.items()}


def parsed(text: str) -> tuple[DeclaredView, ...]:
    return parse_views(text, [DROPPED])


def names(found: Soundness) -> list[str]:
    return [view.name for view in found.views]


def test_views_of_a_dropped_column_are_told_from_the_others() -> None:
    """`cvs verify a`, `cvs rebuild --all` and `cvs audit` refused all."""
    found = soundness(parsed, STATEMENTS)
    assert (names(found), [*found.broken]) == (["s.a", "s.d"], ["s.b", "s.c", "s.e"])
    assert "no column `x`" in found.broken["s.b"]
    assert "cvs drop s.b or s.c or s.e" in str(found.refusal())
    assert "cvs drop s.b" in told_aside(found.broken)


def test_a_kept_text_is_taken_apart_as_it_was_put_together() -> None:
    assert statements_in("\n".join(STATEMENTS.values())) == STATEMENTS
    assert statements_in("") == {}


def test_a_new_incarnation_leaves_aside_what_cannot_be_made_and_says_so() -> None:
    views: Any = SimpleNamespace(parsed=parsed)
    wanted, aside = beside(views, set(), "", KEPT)
    assert ([view.name for view in wanted], [*aside]) == (["s.a", "s.d"], ["s.b", "s.c", "s.e"])
    found = settled(changes(KEPT, []), aside=(), wanted=["s.a", "s.d"], gone="s.e")
    assert {it.name: it.kind for it in found} == {
        "s.a": "kept",
        "s.b": "aside",
        "s.c": "aside",
        "s.d": "kept",
        "s.e": "drop",
    }
    with pytest.raises(SpecificationError, match=r"cannot make any more: s\.b .*s\.e"):
        beside(views, set(), "", {name: KEPT[name] for name in ("s.b", "s.e")})


def test_a_mistake_in_the_text_is_told_beside_views_that_are_broken() -> None:
    views: Any = SimpleNamespace(parsed=parsed)
    text = "CREATE MATERIALIZED VIEW s.f AS SELECT id, z FROM s.t;"
    with pytest.raises(SpecificationError, match="no column `z`"):
        beside(views, {"s.f"}, text, KEPT)


def test_what_was_left_aside_comes_back_when_it_can_be_made() -> None:
    found = settled(changes(KEPT, [VIEWS[0]]), aside=["s.a", "s.b"], wanted=STATEMENTS)
    assert {it.name for it in found if it.kind == "create"} == {"s.a", "s.b"}


def test_a_sound_view_is_named_and_a_broken_one_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the newest incarnation has left aside."""
    life = CatalogLife(incarnation=2, views="\n".join([STATEMENTS["s.a"], STATEMENTS["s.b"]]), tables=())
    catalog = SimpleNamespace(lives=lambda: {2: life}, incarnation=lambda: 2)
    monkeypatch.setattr(Views, "kept", lambda _: KEPT)
    monkeypatch.setattr(Views, "catalog", catalog)
    monkeypatch.setattr(Views, "parsed", lambda _, text: parsed(text))
    nobody: Any = None
    views = Views(session=nobody, settings=Settings())
    assert (views.named("a").name, [*views.made()]) == ("s.a", ["s.a", "s.b"])
    for name, why in (("s.b", "no column `x`"), ("e", "no column `x`"), ("s.d", "left aside")):
        with pytest.raises(SpecificationError, match=why):
            views.named(name)
    with pytest.raises(SpecificationError, match=r"cannot make any more: s\.b"):
        views.declared()


def test_recorded_rows_of_tables_that_changed_are_not_judged() -> None:
    """What was recorded of a table before it lost a column has other values at other places."""

    def epoch(number: int, *bases: Any) -> Epoch:
        return Epoch(incarnation=1, number=number, started=number, bases=bases)

    ran = [
        epoch(1, ("s.t", 7, None, (1, 2, 3))),
        epoch(2, ("s.t", 8, None, (2, 3)), ("s.gone", 8, None, (1,))),
        epoch(3, ("s.gone", 9, (1,), None)),
    ]
    found = of_tables(ran, {"s.t": 2})
    assert [(it.number, len(it.bases)) for it in found] == [(2, 1), (3, 0)]
