"""Which level a planned view reaches, per stage and in all, with the reason; what cannot be reached is refused.

Levels per entry stand in `programs.predicted`; those of plans, here. Everything a plan does is per epoch. An epoch
is one step from one base state to a later one, every stage reads the state as of the epoch before, and no stage
reads a base table: so each shown state is the view of a cut, and the cuts only grow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cvs.errors import SpecificationError
from cvs.model.levels import Level
from cvs.model.stages import (
    AggregateStage,
    DistinctStage,
    JoinStage,
    Plan,
    SetStage,
    Stage,
    TopKStage,
    inputs,
)
from cvs.plan.sql import DeclaredView
from cvs.programs.predicted import predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLevel:
    """What one stage reaches and why."""

    level: Level
    reason: str
    citation: str


_REASONS: dict[type, tuple[str, str]] = {
    AggregateStage: (
        "row counts and value multiplicities beside the record: no base read, no empty group",
        "001 theorems 2-4; 001 section 2.1.3 for MIN and MAX; programs: multiplicities",
    ),
    JoinStage: (
        "rows of both sides under one signature: no base read, null rows appear and go with their matches",
        "000 section 4.4 reverse-join, D-2.5; base-reading joins would be weak (001 theorems 6-7)",
    ),
    DistinctStage: ("a count beside each row", "001 section 2.4: auxiliary counters; algorithms 20-22"),
    SetStage: ("a count a side beside each row", "001 section 2.4: auxiliary counters, no base read"),
    TopKStage: ("all rows of the order under one signature", "ours: programs, top-k kept"),
}


def stage_level(stage: Stage) -> StageLevel:
    """Return what a stage reaches per epoch."""
    reason, citation = _REASONS[type(stage)]
    return StageLevel(level=Level.STRONG, reason=reason, citation=citation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewLevel:
    """What a view reaches: per record for plain CQL, as a whole for snapshot reads."""

    record: Level
    view_snapshot: Level | None  # None: it keeps no state of its own to take snapshots of
    view_plain: Level
    reason: str
    timeline: str


def view_level(view: DeclaredView, plan: Plan) -> ViewLevel:
    """Return what a planned view reaches."""
    sources = {edge.source for p in plan.publications if p.view == view.name for edge in p.inputs}
    kept = sources.isdisjoint(base.name for base in plan.bases)
    timelines = {
        "absorbed": "the order in which DELTA took changes",
        "write-time": "Cassandra's write times, shown when clocks are past them by the skew bound",
    }
    return ViewLevel(
        record=Level.STRONG,
        view_snapshot=Level.STRONG if kept else None,
        view_plain=Level.CONVERGED,
        reason="one state an epoch, of a growing cut (PROTOCOL 1-2; paper 000 theorem 1: P1, P2, P3)",
        timeline=timelines[view.options.timeline],
    )


def check_levels(views: Sequence[DeclaredView], plan: Plan) -> None:
    """Refuse a declared level that no plan of ours reaches, with the nearest that does."""
    pipeline_timeline(views)
    for view in views:
        wanted, reached = Level(view.options.level), view_level(view, plan)
        if not reached.record.reaches(wanted):
            raise SpecificationError(
                f"{view.name} declares complete: an epoch shows one base state of many, so it is never complete",
                where="PROTOCOL section 5",
                next_step=_nearest(view, plan),
            )
        whole = reached.view_snapshot or reached.view_plain
        if view.options.granularity == "view" and not whole.reaches(wanted):
            raise SpecificationError(
                f"{view.name} declares {wanted.value} of the whole view, which takes snapshot reads, and it has none: "
                "its rows are base rows, no table keeps what they were before an epoch",
                where="PROTOCOL section 5",
                next_step="declare 'cvs.granularity' = 'record': each of its rows is strong by itself",
            )


def pipeline_timeline(views: Sequence[DeclaredView]) -> str:
    """Return the base time-line of a pipeline's views: they share what is kept of the base, so they share it."""
    declared = {view.options.timeline: view.name for view in views}
    if len(declared) > 1:
        said = " and ".join(f"{name} declares {timeline}" for timeline, name in sorted(declared.items()))
        raise SpecificationError(
            f"the views of one pipeline have one base time-line; {said}",
            where="cvs.timeline",
            next_step="declare the same for all, or keep them in two pipelines (another `[views] state_keyspace`)",
        )
    return next(iter(declared), "absorbed")


def _nearest(view: DeclaredView, plan: Plan) -> str:
    """Name the nearest plan: the same at strong, or a per-entry program where the view is of one stage."""
    advice = "declare 'cvs.level' = 'strong'"
    one = per_entry(view, plan)
    if one is None:
        return advice
    level, _ = predicted(*one, "zombies")
    program = " / ".join(one)
    return f"{advice}; per entry, without a pipeline, {program} reaches {level.value} (`cvs suite --table`)"


def per_entry(view: DeclaredView, plan: Plan) -> tuple[str, str] | None:
    """Name the per-entry class and program of a view that is one stage over base tables; None: there is none."""
    (publication,) = (p for p in plan.publications if p.view == view.name)
    bases = {base.name for base in plan.bases}
    sources = {edge.source for edge in publication.inputs}
    if len(sources) != 1:
        return None
    if sources <= bases:
        return "projection-keeping-key", "signature"
    (stage,) = (stage for stage in plan.stages if stage.name in sources)
    if not {edge.source for edge in inputs(stage)} <= bases:
        return None
    match stage:
        case AggregateStage():
            return "count-sum-avg-min-max", "signature"
        case JoinStage():
            return f"{stage.kind}-join", "reverse-join"
        case DistinctStage():
            return "projection-losing-key", "signature"
        case SetStage():
            return stage.kind, "counter-column"
        case TopKStage():
            return "top-2", "kept"
