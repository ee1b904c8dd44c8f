"""A plan executed by the pipeline's own stage programs, on dictionaries: buckets, signatures and all."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from cvs.model.identity import key_identity
from cvs.model.stages import Plan
from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import zone_step
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_publish import PublishCompute, Publishing
from cvs.programs.stage_zone import ZoneCompute


class ProgramsRun:
    """Zones in order, one test-and-set a bucket an epoch, then what is shown; on dictionaries or through any door."""

    def __init__(self, plan: Plan, door: Any = None, tables: Mapping[str, str] | None = None) -> None:
        self.zones = [ZoneCompute(zone, plan) for zone in plan.zones]
        self.shown = Publishing(
            [PublishCompute(publication, plan) for publication in plan.publications], plan
        )
        self.door, self.puts = door or MemoryDoor(), door is not None
        self.tables = tables or {zone.name: zone.name for zone in plan.zones}
        self.number = 0
        self.test_and_sets = 0
        self.published: dict[str, dict] = {p.view: {} for p in plan.publications}

    def epoch(self, base: Mapping[str, Counter]) -> None:
        self.number += 1
        pin = Pin(epoch=self.number, first=self.number == 1)
        flowing = {name: Bag(changes.items()) for name, changes in base.items()}
        for zone in self.zones:
            routed = zone.route(flowing, first=pin.first)
            self.test_and_sets += len(routed)
            flowing.update(drive(zone_step(zone, self.tables[zone.name], pin, routed), self.door))
        for publish, shown in self.shown.shown(flowing):
            names = [name for name, _ in publish.publication.columns]
            table = self.published[publish.publication.view]
            if self.puts and shown:
                self.door([publish.request(shown, pin)])
            for it in shown:
                key = key_identity(it.key)
                if it.now is None:
                    del table[key]
                else:
                    table[key] = dict(zip(names, it.now, strict=True))
