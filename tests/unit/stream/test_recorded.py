"""A recording alone is judged, also where its beginning is gone; and refuted where a view went wrong since."""

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cvs.checker.verdict import Verdict
from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.programs.epoch import BUILDING, LIVE, PAUSED, PUBLISHING
from cvs.report.audit import audit_events
from cvs.report.hand import events_in_bulk, judge_events
from cvs.stream.epochs import Epoch, epochs
from cvs.stream.recorded import Recorded, history_of, images_of
from cvs.stream.shop import VIEWS
from tests.unit.stream.memory_shop import MemoryShop

OVER = """
CREATE MATERIALIZED VIEW views.big_cities AS
SELECT city, revenue FROM views.revenue_by_city WHERE revenue > 50"""


@pytest.fixture
def shop(tmp_path: Path) -> MemoryShop:
    """Twenty epochs over the views of the demonstration, and one over another view."""
    shop = MemoryShop(VIEWS.format(views="views") + OVER, tmp_path)
    shop.open()
    for number in range(60):
        shop.write()
        if number % 3 == 2:
            shop.epoch(times=1 + (number % 4 == 1))
    return shop


def ran(shop: MemoryShop) -> list[Epoch]:
    return epochs(sorted(shop.log_folder.iterdir()))


def history(shop: MemoryShop, kept: list[Epoch]) -> Recorded:
    images = images_of(shop.program, shop.door)
    return history_of(shop.views, shop.plan, kept, images, run="recorded")


def strong(found: Recorded, *, budget: int = 50, views: list[str] | None = None) -> Counter[Verdict]:
    findings = judge_events(found.events, reference="absorbed", budget=budget, views=views).findings
    return Counter(f.verdict for f in findings if f.property == "strong" and f.granularity == "record")


def refuted(found: Recorded) -> list[str]:
    """Name what must hold of every right run, of records and of what snapshots see, and was refuted."""
    findings = judge_events(found.events, reference="absorbed", budget=2_000).findings
    return [
        f"{f.view} {f.granularity} {f.key} {f.property}: {f.reason}"
        for f in findings
        if f.verdict is Verdict.VIOLATED and not f.property.startswith("complete")
    ]


def test_what_is_left_of_a_rolling_recording_is_proved_strong(shop: MemoryShop) -> None:
    """The first eight epochs are gone, so that most rows were there before; then one was not recorded."""
    whole, rolled = history(shop, ran(shop)), history(shop, ran(shop)[8:])
    assert (whole.first, rolled.first, rolled.last, rolled.left_out) == (1, 9, 20, 0)
    assert refuted(whole) == refuted(rolled) == []
    assert (set(strong(whole)), strong(whole).total() > 30) == ({Verdict.HOLDS}, True)
    verdicts = strong(rolled)  # what joins held of rows that moved before the first epoch may stay unknown
    assert (verdicts[Verdict.VIOLATED], verdicts[Verdict.UNDECIDED] <= 2, verdicts.total() > 20) == (
        0,
        True,
        True,
    )
    latest = history_of(shop.views, shop.plan, ran(shop), images_of(shop.program, shop.door), run="", last=5)
    assert (latest.first, latest.left_out) == (19, 18), "three changes an epoch"
    with_gap = [epoch for epoch in ran(shop) if epoch.number != 14]
    assert (history(shop, with_gap).first, history(shop, with_gap).left_out) == (15, 13)


def test_a_view_that_goes_wrong_is_refuted(shop: MemoryShop) -> None:
    """One row of one epoch shows nothing beside its key."""
    kept = ran(shop)[16:]
    table, key, now = next(
        it for it in kept[0].shown if it[0] == "views.orders_by_customer" and it[2] is not None
    )
    wrong = (table, key, (now[0], *(None for _ in now[1:])))
    kept[0].shown = tuple(wrong if it[:2] == (table, key) else it for it in kept[0].shown)
    found = strong(history(shop, kept), budget=2_000, views=["views.orders_by_customer"])
    assert found[Verdict.VIOLATED] == 1


WIDE = """
CREATE MATERIALIZED VIEW views.above_the_mean AS
SELECT id, quantity FROM shop.orders WHERE quantity > (SELECT AVG(quantity) FROM shop.orders);
CREATE MATERIALIZED VIEW views.largest AS SELECT id, quantity FROM shop.orders ORDER BY quantity DESC LIMIT 3"""


def test_views_that_hang_on_whole_tables_are_proved_strong_by_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their certificates are few, and at each commit they show what its cut has; one that does not is not."""
    monkeypatch.setattr("cvs.report.hand.SMALL", 0)
    shop = MemoryShop(WIDE, tmp_path)
    shop.open()
    for number in range(36):
        shop.write()
        if number % 3 == 2:
            shop.epoch()
    right = history(shop, ran(shop)[4:])
    lines = sum(len(it.absorbed) for it in right.events if isinstance(it, ev.TestAndSetCalled))
    assert lines < 300
    judged = events_in_bulk(right.events, "absorbed", 2_000)
    assert judged is not None
    assert {f.verdict for f in judged.of("strong", "record")} == {Verdict.HOLDS}
    assert {f.verdict for f in judged.of("strong", "snapshots")} == {Verdict.HOLDS}
    kept = ran(shop)[4:]
    name, key, now = next(it for it in kept[3].shown if it[2] is not None)
    kept[3].shown = tuple((*it[:2], (now[0], 99)) if it[:2] == (name, key) else it for it in kept[3].shown)
    _, wrong = audit_events(history(shop, kept).events, files=[])
    doubtful = {(f.view, f.key) for f in wrong.of("strong", "record") if f.verdict is not Verdict.HOLDS}
    assert doubtful == {(name, key)}, "a search over all cuts may not end, but what is wrong is not proved"


def test_only_views_that_columns_leave_undecided_are_judged_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no verdict is another for it."""
    shop = MemoryShop(VIEWS.format(views="views") + ";" + WIDE, tmp_path)
    shop.open()
    for number in range(30):
        shop.write()
        if number % 3 == 2:
            shop.epoch()
    events = history(shop, ran(shop)[4:]).events
    exact, asked = judge_events(events, reference="absorbed"), []

    def spied(events: list[Any], *, views: Any, **options: Any) -> Any:
        asked.append(set(views))
        return judge_events(events, views=views, **options)

    monkeypatch.setattr("cvs.report.hand.SMALL", 0)
    monkeypatch.setattr("cvs.report.hand.judge_events", spied)
    _, found = audit_events(events, files=[])
    assert len(asked) == 1
    assert set() < asked[0] < exact.run.views.keys()
    for finding in found.findings:
        same = [f for f in exact.of(finding.property, finding.granularity) if f.view == finding.view]
        if finding.key is not None:
            same = [f for f in same if f.key == finding.key]
        assert Verdict.UNDECIDED in {finding.verdict, *(f.verdict for f in same)} or finding.verdict in {
            f.verdict for f in same
        }, finding
    assert {f.view for f in found.findings} == exact.run.views.keys()


def test_an_epoch_that_is_half_put_counts_as_not_there(shop: MemoryShop) -> None:
    """DELTA may be ahead of the files: what it held before is meant."""
    shop.write()
    before = ran(shop)
    shop.epoch()
    assert strong(history(shop, before[8:]))[Verdict.VIOLATED] == 0


STOOD_STILL = ("views.orders_by_customer", "views.order_lines")


def stand_still(shop: MemoryShop, *phases: str) -> None:
    """One epoch a phase of two views; most orders go in the first, and with them whole groups."""
    for number in sorted(shop.orders)[3:]:
        shop.put("orders", number, None)
        shop.orders.discard(number)
    for phase in phases:
        shop.write()
        shop.epoch(views=dict.fromkeys(STOOD_STILL, phase))


def test_a_view_that_stood_still_is_proved_strong_by_what_it_showed_afterwards(shop: MemoryShop) -> None:
    """Nothing was absorbed while it stood still; shown as a whole, it has no row that it does not show (found: #7)."""
    stand_still(shop, PAUSED, PAUSED)
    still = history(shop, ran(shop))
    assert (still.unshown, set(strong(still))) == (tuple(sorted(STOOD_STILL)), {Verdict.HOLDS})
    stand_still(shop, PUBLISHING, LIVE)
    everything = ran(shop)
    assert (everything[-2].whole, everything[-3].hidden) == (still.unshown, still.unshown)
    found = history(shop, everything)
    assert not refuted(found)
    assert (found.first, found.unshown, set(strong(found, budget=2_000))) == (1, (), {Verdict.HOLDS})
    begun_still = history(shop, ran(shop)[21:])
    assert (begun_still.first, set(strong(begun_still))) == (24, {Verdict.HOLDS})
    images = images_of(shop.program, shop.door)
    starts = {
        history_of(shop.views, shop.plan, ran(shop), images, run="", last=it).first for it in range(1, 9)
    }
    assert starts == {21, 24}, "a view stood still before 22 and 23"


def built(folder: Path) -> MemoryShop:
    """Two epochs build one view, another shows it, and two more have nothing to do."""
    shop = MemoryShop(VIEWS.split(";")[0].format(views="views"), folder)
    shop.open()
    (view,) = shop.views
    for phase in (BUILDING, BUILDING, PUBLISHING, LIVE, LIVE):
        for _ in range(6 if phase is BUILDING else 0):
            shop.write()
        shop.epoch(views={view.name: phase})
    return shop


def test_where_nothing_moved_since_the_views_were_built_that_is_judged(tmp_path: Path) -> None:
    """Who had written before the views were live was told that there is nothing to judge (found: #7)."""
    shop = built(tmp_path)
    whole = history(shop, ran(shop))
    assert (whole.built, whole.first, whole.last, whole.left_out) == (True, 1, 5, 0)
    found = strong(whole)
    assert (set(found), found.total() > 3) == ({Verdict.HOLDS}, True)
    kept = ran(shop)
    kept[2].shown = kept[2].shown[1:]
    assert strong(history(shop, kept))[Verdict.VIOLATED] == 1
    assert not history(shop, ran(shop)[1:]).built, "who knows what moved in the first epoch"
    shop.write()
    shop.epoch()
    since = history(shop, ran(shop))
    assert (since.built, since.first, since.left_out) == (False, 3, 2)


def test_a_row_that_is_not_shown_again_is_refuted(shop: MemoryShop) -> None:
    """A view is shown as a whole without one of its rows."""
    stand_still(shop, PAUSED, PUBLISHING, LIVE)
    kept = ran(shop)
    lost = next(it for it in kept[-2].shown if it[0] == "views.orders_by_customer")
    kept[-2].shown = tuple(it for it in kept[-2].shown if it != lost)
    assert strong(history(shop, kept), budget=2_000, views=["views.orders_by_customer"])[Verdict.VIOLATED]


def test_a_recording_tells_of_base_rows_what_views_read(tmp_path: Path) -> None:
    """The pipeline decodes nothing else: a column that no view reads is left out, not said to be null."""
    one = MemoryShop(
        "CREATE MATERIALIZED VIEW views.n AS SELECT city, COUNT(*) AS n FROM "
        "(SELECT * FROM shop.customers) c GROUP BY city",
        tmp_path,
    )
    one.open()
    one.epoch()
    one.put("customers", 1, {"name": "moved", "city": "A"})
    one.epoch()
    found = history(one, ran(one)[1:])
    rows = [it.row for it in found.events if isinstance(it, ev.BaseUpdateCalled)]
    assert rows == [{"id": 1, "city": "A"}]
    assert set(strong(found)) == {Verdict.HOLDS}


LONG_KEYS = """
CREATE MATERIALIZED VIEW views.by_name WITH ('cvs.key' = '(name), city') AS
SELECT name, city, COUNT(*) AS n FROM shop.customers GROUP BY name, city;
CREATE MATERIALIZED VIEW views.by_both WITH ('cvs.key' = '(name, city)') AS
SELECT name, city, COUNT(*) AS n FROM shop.customers GROUP BY name, city;
CREATE MATERIALIZED VIEW views.twice AS
SELECT name || name AS twice, COUNT(*) AS n FROM shop.customers GROUP BY name || name"""


@pytest.mark.parametrize("seed", range(3))
def test_only_keys_that_the_pipeline_refuses_are_left_out_of_the_judgement(seed: int, tmp_path: Path) -> None:
    """Partition and clustering may have 65,000 bytes each; what is computed may be longer than any base row."""
    shop = MemoryShop(LONG_KEYS, tmp_path, seed=seed)
    names, cities = ("a", "n" * 40_000, "m" * 30_000), ("A", "c" * 40_000, "d" * 66_000)
    for number in range(40):
        row = {"name": shop.chance.choice(names), "city": shop.chance.choice(cities)}
        shop.put("customers", number % 5, row if shop.chance.random() < 0.8 else None)
        if number % 4 == 3:
            shop.epoch()
    for first in (0, 3, 8):
        _, found = audit_events(history(shop, ran(shop)[first:]).events, files=[])
        for granularity, what in product(
            ("record", "snapshots"), ("converged", "weak", "strong", "certificates")
        ):
            assert {f.verdict for f in found.of(what, granularity)} <= {Verdict.HOLDS, Verdict.UNDECIDED}
        for granularity in ("record", "view"):
            assert {f.verdict for f in found.of("converged", granularity)} == {Verdict.HOLDS}


def test_nothing_to_judge_is_said(shop: MemoryShop) -> None:
    """A view was shown as a whole in the last epoch."""
    kept = ran(shop)
    kept[-1].unjudged = "file"
    with pytest.raises(HistoryError, match="no epoch that can be judged"):
        history(shop, kept)
