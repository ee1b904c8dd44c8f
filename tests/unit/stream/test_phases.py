"""Phases of views: what an epoch is pinned as while they are built, shown, followed, or can be followed no more."""

from typing import Any

from cvs.capture.feed import Head
from cvs.model.expressions import Column
from cvs.model.stages import AggregateStage, Edge, Plan, Publication, Zone, columns_read
from cvs.model.views import BaseTable, Named
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import parse_views
from cvs.programs.epoch import BROKEN, BUILDING, LIVE, PAUSED, PUBLISHING, Pin
from cvs.stream.phases import Wishes, begun, broken, pin_after, reason

TABLES = tuple(BaseTable(name=f"s.{n}", columns=(("id", "int"),), partition_key=("id",)) for n in "ab")


def edge(source: str) -> Edge:
    return Edge(source=source, columns=(Named(name="id", expression=Column("id")),))


STAGE = AggregateStage(
    name="z1.0", inputs=(edge("s.a"), edge("s.b")), group=("id",), aggregates=(), output=(("id", "int"),)
)
PLAN = Plan(
    bases=TABLES,
    zones=(Zone(name="z1", stages=(STAGE,), buckets=1),),
    publications=tuple(
        Publication(
            view=view,
            table=view,
            inputs=(edge(source),),
            columns=(("id", "int"),),
            partition_key=("id",),
        )
        for view, source in (("v.one", "s.a"), ("v.both", "z1.0"), ("v.other", "s.b"))
    ),
)
HEADS = {"n1": Head(position=7, clock=50_000_000)}


def after(pin: Pin, **changes: Any) -> Pin | None:
    arguments: dict[str, Any] = {"plan": PLAN, "built": False, "stopped": {}, "limit": 100} | changes
    return pin_after(pin, HEADS, **arguments)


def test_a_build_begins_where_capture_is() -> None:
    """What is older is the scan's; the clock is set, or nothing that expires during the build would be found."""
    heads = HEADS | {"build-1": Head(position=3, clock=60_000_000)}
    pin = begun(Pin(epoch=0, build="build-1", views={"v.one": BUILDING}), heads)
    assert (pin.until, pin.clock, pin.begun) == ({"n1": 7}, 50, 50_000_000)


def test_views_are_built_published_and_live_in_this_order() -> None:
    """Each step is a pin of its own even without input; until the last no moment is claimed."""
    building = Pin(epoch=3, until={"n1": 7}, clock=50, views={"v.one": BUILDING})
    assert after(building) is None, "nothing to take, nothing to do"
    publishing = after(building, built=True)
    assert publishing is not None
    assert (publishing.views, publishing.watermark) == ({"v.one": PUBLISHING}, 0)
    live = after(publishing)
    assert live is not None
    assert (live.views, live.watermark, live.watermark_before) == ({"v.one": LIVE}, 50_000_000, 0)
    assert after(live) is None


def test_what_cannot_be_followed_breaks_its_views_and_no_others() -> None:
    """Also through stages; the reason stays in the pin, and what breaks in the last building epoch is not published."""
    stopped = {"s.a": "the table was truncated"}
    pin = broken(Pin(epoch=1), PLAN, stopped)
    assert pin.views == {"v.one": BROKEN, "v.both": BROKEN, "v.other": LIVE}
    assert reason(pin, PLAN, "v.both") == "s.a: the table was truncated"
    building = Pin(
        epoch=3, until={"n1": 7}, clock=50, views=dict.fromkeys(("v.one", "v.both", "v.other"), BUILDING)
    )
    following = after(building, built=True, stopped=stopped)
    assert following is not None
    assert following.views == {"v.one": BROKEN, "v.both": BROKEN, "v.other": PUBLISHING}
    assert following.stopped == stopped


def test_a_dropped_column_breaks_the_views_that_read_it_and_no_others() -> None:
    """Also of two views that share a stage: only one of them shows the sum of what went."""
    tables = (
        BaseTable(name="s.a", columns=(("id", "int"), ("x", "int"), ("y", "int")), partition_key=("id",)),
    )
    text = """CREATE MATERIALIZED VIEW s.sums AS SELECT x, SUM(y) AS n FROM a GROUP BY x;
              CREATE MATERIALIZED VIEW s.counts AS SELECT x, COUNT(*) AS n FROM a GROUP BY x;
              CREATE MATERIALIZED VIEW s.some AS SELECT id FROM a WHERE y > 1;
              CREATE MATERIALIZED VIEW s.pairs AS SELECT a.id, b.y FROM a JOIN a b ON a.x = b.id;"""
    plan = maintenance_plan(parse_views(text, tables), tables)
    assert len(plan.stages) == 2
    assert columns_read(plan) == {"s.a": {"id", "x", "y"}}
    stopped = {"s.a.y": "the column was dropped"}
    pin = broken(Pin(epoch=1), plan, stopped)
    assert pin.views == {"s.sums": BROKEN, "s.counts": LIVE, "s.some": BROKEN, "s.pairs": BROKEN}
    assert reason(pin, plan, "s.sums") == "s.a.y: the column was dropped"


def test_a_paused_view_stands_still_and_is_shown_anew_before_it_goes_on() -> None:
    """Only the one asked for; the others stay live, and what they claim stays claimed."""
    live = Pin(epoch=3, until={"n1": 7}, clock=50, watermark=50_000_000)
    paused = after(live, wishes=Wishes(paused=frozenset({"v.one"})))
    assert paused is not None
    assert (paused.views, paused.watermark) == ({"v.one": PAUSED}, 50_000_000)
    assert after(paused, wishes=Wishes(paused=frozenset({"v.one"}))) is None, "asking twice is asking once"
    shown = after(paused, wishes=Wishes(lifts={"v.one": 900}))
    assert shown is not None
    assert (shown.views, shown.lifted, shown.watermark) == ({"v.one": PUBLISHING}, {"v.one": 900}, 50_000_000)
    again = after(shown, wishes=Wishes(lifts={"v.one": 900}))
    assert again is not None
    assert (again.views, again.write_time("v.one"), again.write_time("v.both")) == ({"v.one": LIVE}, 906, 6)
    assert after(again, wishes=Wishes(lifts={"v.one": 900})) is None, (
        "a wish that was granted asks for nothing"
    )


def test_a_view_that_is_built_or_broken_cannot_be_asked_for() -> None:
    """Its build shows it; what cannot follow is not shown as if it could."""
    for state in (BUILDING, BROKEN):
        pin = Pin(epoch=3, until={"n1": 7}, clock=50, views={"v.one": state})
        found = after(pin, wishes=Wishes(paused=frozenset({"v.one"}), lifts={"v.one": 900}))
        assert found is None or (found.views["v.one"], found.lifted) == (state, {})
