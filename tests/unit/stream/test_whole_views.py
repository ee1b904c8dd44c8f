"""A pipeline's history proves every class of view strong, by record and as a whole; or refutes it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from cvs.checker.verdict import Verdict
from cvs.programs.stage_bucket import ALL_RULES
from cvs.report.hand import judge_events
from cvs.stream.shop import VIEWS
from tests.campaigns.views import MORE
from tests.unit.stream.memory_shop import MemoryShop


def strong(events: list[Any]) -> dict[str, Counter[Verdict]]:
    findings = judge_events(events, budget=50).findings
    return {
        granularity: Counter(
            f.verdict for f in findings if f.property == "strong" and f.granularity == granularity
        )
        for granularity in ("record", "snapshots")
    }


def test_every_class_of_view_is_proved_strong(tmp_path: Path) -> None:
    """Selection, projection, aggregates, joins, aggregates over joins, set operations; some epochs run twice."""
    shop = MemoryShop((VIEWS + MORE).format(views="views"), tmp_path)
    shop.open()
    for number in range(36):
        shop.write()
        if number % 6 == 5:
            shop.epoch(times=1 + (number % 4 == 1))
    found = strong(shop.history())
    assert found["snapshots"] == {Verdict.HOLDS: len(shop.views)}
    assert set(found["record"]) == {Verdict.HOLDS}
    assert found["record"].total() > 60


def test_an_epoch_absorbed_twice_is_refuted(tmp_path: Path) -> None:
    """Without signatures a replayed epoch counts again: a view that adds up is not strong then."""
    shop = MemoryShop(VIEWS.split(";")[0].format(views="views"), tmp_path)
    shop.open()
    for _ in range(6):
        shop.write()
    shop.epoch(times=2, rules=replace(ALL_RULES, signatures=False))
    found = strong(shop.history())
    assert found["record"][Verdict.VIOLATED] > 0
    assert found["snapshots"][Verdict.VIOLATED] > 0
