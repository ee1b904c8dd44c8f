"""What applying a text refuses before it asks the cluster anything."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import OperationTimedOut

from cvs.errors import SpecificationError, StoreError
from cvs.plan.cql import tables_of_schema
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import parse_views
from cvs.sidecar.apply import Proposal, carry_out, check_timeline, refuse_compact
from cvs.sidecar.catalog import Change
from cvs.sidecar.settings import Settings, settings_from
from cvs.sidecar.soundness import Soundness
from cvs.sidecar.views import Views, no_such_view
from cvs.store.doctor import nodes_without

TABLES = tables_of_schema("USE s; CREATE TABLE t (id int PRIMARY KEY, a int);")
VIEW = "CREATE MATERIALIZED VIEW s.{} TBLPROPERTIES ({}) AS SELECT id, a FROM s.t;"
ORDERED = "'cvs.timeline' = 'write-time'"


def said(properties: str, text: str = "") -> str:
    (view,) = parse_views(VIEW.format("v", properties), TABLES)
    settings: Any = settings_from(text, {}, where="") if text else Settings()
    try:
        check_timeline(view, settings)
    except SpecificationError as refusal:
        return str(refusal)
    return ""


def test_the_write_time_line_is_not_fresher_than_clocks_are_exact() -> None:
    assert "is to be 1 s fresh" in said(f"{ORDERED}, 'cvs.freshness' = '1 s'")
    assert not said(f"{ORDERED}, 'cvs.freshness' = '1 s'", "[pipeline]\nskew_ms = 200\n")
    assert not said("'cvs.freshness' = '1 s'")
    assert not said(ORDERED)


def test_the_write_time_line_needs_clocks_of_nodes() -> None:
    feed = '[feed]\nname = "debezium+kafka://127.0.0.1:9092/shop?cql=127.0.0.1"\n'
    assert "are no nodes' clocks" in said(ORDERED, feed)
    assert not said("'cvs.timeline' = 'absorbed'", feed)


def test_the_views_of_one_pipeline_have_one_time_line() -> None:
    both = VIEW.format("one", ORDERED) + VIEW.format("other", "'cvs.level' = 'strong'")
    with pytest.raises(SpecificationError, match="other declares absorbed and"):
        maintenance_plan(parse_views(both, TABLES), TABLES)


DEAF = Proposal(
    views=(),
    changes=(Change(kind="create", name="s.v"),),
    definitions=(),
    captured=("s.t",),
    switches=(),
    removals=(),
    incarnation=1,
    tables=(),
    deaf=("127.0.0.2",),
)


def test_nodes_that_keep_no_changes_are_refused_before_anything_is_sent() -> None:
    """They take `cdc = true` and forget it: it was said to be applied, and proposed again each time."""
    nobody: Any = None
    with pytest.raises(StoreError, match=r"cdc_enabled is false \(127.0.0.2\)"):
        carry_out(nobody, DEAF)
    replace(DEAF, deaf=()).refuse_deaf()
    replace(DEAF, changes=(), captured=()).refuse_deaf()  # because nothing is to be done


def test_only_nodes_that_say_so_keep_no_changes() -> None:
    """A role that may not look at settings, or a node that answers nothing, is no reason to refuse."""
    said = {"a": ("true",), "b": ("false",), "c": None, "d": OperationTimedOut()}

    def execute(_statement: str, *, host: Any, timeout: float) -> Any:
        answer = said[host.address]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(one=lambda: answer)

    pools = [SimpleNamespace(address=name) for name in said]
    cluster = SimpleNamespace(metadata=SimpleNamespace(all_hosts=list))
    driver = SimpleNamespace(execute=execute, get_pool_state=lambda: pools, cluster=cluster)
    session: Any = SimpleNamespace(driver=driver, address=SimpleNamespace(local_datacenter=""))
    assert list(nodes_without(session, "cdc_enabled")) == ["b"]


MANY = [f"cvs_views.orders_by_{n}" for n in range(61)]


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("orders_by_6O", MANY, "did you mean cvs_views.orders_by_6 "),
        ("shop.orders_by_6", MANY, "cvs_views.orders_by_6 "),
        ("nothing_of_the_kind", MANY, "views kept: cvs_views.orders_by_0, "),
        ("nothing_of_the_kind", MANY, " and 56 more: cvs dump"),
        ("x", MANY[:2], "views kept: cvs_views.orders_by_0, cvs_views.orders_by_1"),
        ("x", [], "none yet: `cvs apply views.sql`"),
    ],
)
def test_of_many_views_the_nearest_are_named(name: str, known: list[str], hint: str) -> None:
    """All of them, sixty-one, were."""
    said = no_such_view(name, known).next_step
    assert hint in said
    assert said.count("cvs_views.") <= 5


def test_a_bare_name_of_two_views_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cvs drop v` dropped the first of them."""
    declared: Any = tuple(SimpleNamespace(name=name) for name in ("a.v", "b.v", "b.w"))
    monkeypatch.setattr(Views, "sound", lambda _: Soundness(views=declared))
    nobody: Any = None
    views = Views(session=nobody, settings=Settings())
    with pytest.raises(SpecificationError, match=r"say which: a\.v or b\.v"):
        views.named("v")
    assert (views.named("b.v").name, views.named("w").name) == ("b.v", "b.w")


def test_a_static_table_with_compact_storage_is_refused_with_the_way_out() -> None:
    """It was taken, and its build ended `cvs run`; DROP COMPACT STORAGE was advised, and left its views empty."""
    refuse_compact(["s.t"], {"s.old"})
    with pytest.raises(SpecificationError, match=r"\(s\.old\).*copy it into an ordinary table"):
        refuse_compact(["s.t", "s.old"], {"s.old"})
