"""Horizontal merging: stages that route by the same values share one table, one read, one test-and-set.

A stage joins the zone of its only source if what chooses its bucket is, through the edge, exactly what chose
the bucket of the source: then all its input is already there (paper 004, algorithm 1).
"""

from dataclasses import replace

from cvs.model.expressions import Column
from cvs.model.stages import AggregateStage, Edge, JoinStage, Stage, inputs


def merged_zones(stages: list[Stage]) -> list[list[Stage]]:
    """Return the stages in groups that share a zone, in an order in which inputs come first."""
    zones: list[list[Stage]] = []
    home: dict[str, list[Stage]] = {}
    for stage in stages:
        sources = {edge.source for edge in inputs(stage)}
        zone = home.get(next(iter(sources))) if len(sources) == 1 else None
        fitted = _fitted(stage, zone, next(iter(sources))) if zone is not None else None
        if zone is not None and fitted is not None:
            zone.append(fitted)
            home[stage.name] = zone
        else:
            zones.append([stage])
            home[stage.name] = zones[-1]
    return zones


def _fitted(stage: Stage, zone: list[Stage], source: str) -> Stage | None:
    """Return the stage with its key in the zone's order, or None if it routes by something else."""
    if not isinstance(stage, AggregateStage) or not stage.group:
        return None
    upstream = next(s for s in zone if s.name == source)
    wanted = routed_by(upstream, zone[0])
    if wanted is None:
        return None
    orders = [_order(edge, stage.group, wanted) for edge in stage.inputs]
    first = orders[0]
    if first is None or any(order != first for order in orders):
        return None
    return replace(stage, group=first, output=_reordered(stage, first))


def routed_by(stage: Stage, head: Stage) -> list[tuple[str, ...]] | None:
    """Return, for each part of the zone's key, the output columns of a stage that hold it; None: not known."""
    if isinstance(stage, JoinStage):
        if stage.replicated or not stage.left_key or stage is not head:
            return None
        if stage.kind == "inner":
            return [tuple(pair) for pair in zip(stage.left_key, stage.right_key, strict=True)]
        if stage.kind in ("left", "semi", "anti"):
            return [(name,) for name in stage.left_key]
        return None
    if isinstance(stage, AggregateStage):
        return [(name,) for name in stage.group] if stage.group else None
    return None


def _order(edge: Edge, group: tuple[str, ...], wanted: list[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the group columns in the order of the zone's key, if they are the same values."""
    if len(group) != len(wanted):
        return None
    held = {c.name: c.expression.name for c in edge.columns if isinstance(c.expression, Column)}
    found: list[str] = []
    for names in wanted:
        match = [g for g in group if held.get(g) in names and g not in found]
        if not match:
            return None
        found.append(match[0])
    return tuple(found)


def _reordered(stage: AggregateStage, group: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    types = dict(stage.output)
    return tuple((name, types[name]) for name in (*group, *(a.name for a in stage.aggregates)))
