"""What stages cost in one zone: by this zones are put together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cvs.model.stages import Plan, Stage, Zone, inputs
from cvs.plan.cost import Estimate, depth_of
from cvs.plan.statistics import Statistics, Weights


class ZonePrices:
    """What stages cost in one zone, for deciding which to put together; rows and changes are estimated once."""

    def __init__(self, plan: Plan, statistics: Statistics, weights: Weights) -> None:
        """Take a plan of one stage a zone, from which everything but the zones is known."""
        self._estimate = Estimate(plan, statistics, weights)
        self._estimate.cost()
        self._buckets = {zone.stages[0].name: zone.buckets for zone in plan.zones}
        self._piles: dict[str, _Pile] = {}

    def ms(self, stages: Sequence[Stage]) -> float:
        """Return the milliseconds an update of the mix takes in a zone of these stages."""
        buckets = max(self._buckets[stage.name] for stage in stages)
        costs = self._estimate.zone(Zone(name="", stages=tuple(stages), buckets=buckets))
        return sum(self._estimate.mean(cost.ms) for cost in costs)

    def cheaper(self, zone: Sequence[Stage], stage: Stage) -> bool:
        """Say whether a stage costs no more in a zone than beside it.

        Where it makes the zone no deeper, nothing else is computed again: only its own cost is compared.
        """
        pile = self._pile(zone)
        own = depth_of(stage, pile.depths)
        if own <= pile.deepest:
            return self._estimate.inside(stage, pile.deepest - own + 1) <= self.ms([stage])
        if all(edge.source in pile.depths for edge in inputs(stage)):
            return pile.again + self._estimate.inside(stage, 1) <= self.ms([stage])
        return self.ms([*zone, stage]) <= self.ms(zone) + self.ms([stage])

    def _pile(self, zone: Sequence[Stage]) -> "_Pile":
        """Return what is known of a zone that grows from call to call."""
        pile = self._piles.setdefault(zone[0].name, _Pile())
        for stage in zone[len(pile.depths) :]:
            depth = pile.depths[stage.name] = depth_of(stage, pile.depths)
            pile.deepest = max(pile.deepest, depth)
            pile.again += self._estimate.inside(stage, 2) - self._estimate.inside(stage, 1)
        return pile


@dataclass(slots=True)
class _Pile:
    """Stages of a zone by how deep they are, and what it costs to read and compute all of them once more."""

    depths: dict[str, int] = field(default_factory=dict)
    deepest: int = 0
    again: float = 0.0
