"""A plan executed by the pipeline's own stage programs, on dictionaries: buckets, signatures and all."""

from collections import Counter
from collections.abc import Mapping

from cvs.model.identity import key_identity
from cvs.model.stages import Plan
from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import zone_step
from cvs.programs.stage_bucket import Bag, drive
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_publish import PublishCompute
from cvs.programs.stage_zone import ZoneCompute


class ProgramsRun:
    """Zones in order, one test-and-set a bucket an epoch, then what is shown."""

    def __init__(self, plan: Plan) -> None:
        self.zones = [ZoneCompute(zone, plan) for zone in plan.zones]
        self.shown = [PublishCompute(publication, plan) for publication in plan.publications]
        self.door = MemoryDoor()
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
            flowing.update(drive(zone_step(zone, zone.name, pin, routed), self.door))
        for publish in self.shown:
            names = [name for name, _ in publish.publication.columns]
            table = self.published[publish.publication.view]
            for it in publish.shown(flowing):
                key = key_identity(it.key)
                if it.now is None:
                    del table[key]
                else:
                    table[key] = dict(zip(names, it.now, strict=True))
