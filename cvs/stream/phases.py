"""The phases of a view: building, publishing, live; or broken. They are part of the pin, so a crash forgets none.

    building --scan absorbed--> publishing --all of it shown, committed--> live
    live <--asked for--> paused; from there, and to be repaired, by way of publishing
    any of them --base table truncated, it or a column dropped, gap in the feed--> broken, until a new incarnation

An incarnation after the first builds beside the one that serves, in a control row of its own, and publishes once it
has taken that one's place (`Pipeline.take_over`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import structs

from cvs.capture.feed import Head
from cvs.model.expressions import columns_of
from cvs.model.stages import AggregateStage, Edge, JoinStage, Plan, Stage, inputs
from cvs.programs.delta import MICROSECONDS
from cvs.programs.epoch import BROKEN, BUILDING, LIVE, PAUSED, PUBLISHING, Pin, next_pin


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What operators ask of a running pipeline: views whose tables stand still, and views to be shown anew."""

    paused: frozenset[str] = frozenset()
    lifts: Mapping[str, int] = field(default_factory=dict)  # view -> what its write times must begin at
    halt: bool = False  # finish the epoch that is pinned, and pin no other


NOTHING_WISHED = Wishes()


def pin_after(
    last: Pin,
    heads: Mapping[str, Head],
    *,
    plan: Plan,
    built: bool,
    stopped: Mapping[str, str],
    limit: int,
    wishes: Wishes = NOTHING_WISHED,
    due: bool = False,
) -> Pin | None:
    """Return the next pin, None if there is nothing to do; `due`: something that waited is to be taken.

    The first of a build fixes where it begins (`begun`), so it is worth an epoch also without input.

    `built`: the scan is absorbed and the views may be shown. `stopped`: base tables that the last epoch found
    nothing can follow any more.
    """
    before = last
    if last.begins:
        last = begun(last, heads)
    if stopped:
        last = broken(last, plan, stopped)
    if last.publishing:
        last = moved_on(last, PUBLISHING, LIVE)
    elif last.building and built:
        last = moved_on(last, BUILDING, PUBLISHING)
    last = wished(last, plan, wishes)
    found = next_pin(
        last,
        heads={stream: head.position for stream, head in heads.items()},
        watermark=watermark(heads),
        limit=limit,
        always=due or last is not before,
    )
    filled = found is not None and any(
        it == PUBLISHING and view not in found.lifted for view, it in found.views.items()
    )
    if found is None or not (found.building or filled):
        return found
    # because nothing is claimed before all is shown: no token is met meanwhile
    return structs.replace(found, watermark=0, watermark_before=0)


def begun(last: Pin, heads: Mapping[str, Head]) -> Pin:
    """Return the pin from which a build begins: with what is captured from here on, since the scan sees the rest.

    The scan itself, whose stream may be there already, is taken from its beginning.

    Its clock is set, so that what expires from here on is found (H13).
    """
    moment = watermark(heads)
    until = {stream: it.position for stream, it in heads.items() if stream != last.build}
    return structs.replace(last, until=until, clock=moment // MICROSECONDS, begun=moment)


def watermark(heads: Mapping[str, Head]) -> int:
    """Return the moment before which everything acknowledged is in the feed."""
    return min((head.clock for head in heads.values()), default=0)


def wished(last: Pin, plan: Plan, wishes: Wishes) -> Pin:
    """Return a pin that grants what is asked of live views; a wish that was granted asks for nothing more.

    A view that is shown anew is lifted: its rows are put with write times above whatever stands in the table, so
    rows written, changed or deleted there by others are overwritten and not only contradicted (H29).
    """
    views, lifted = dict(last.views), dict(last.lifted)
    for publication in plan.publications:
        view = publication.view
        state, lift = views.get(view, LIVE), wishes.lifts.get(view, 0)
        if state not in (LIVE, PAUSED):
            continue
        if view in wishes.paused:
            views[view] = PAUSED
        elif state == PAUSED or lift > lifted.get(view, 0):
            views[view], lifted[view] = PUBLISHING, max(lift, lifted.get(view, 0))
    if (views, lifted) == (last.views, last.lifted):
        return last
    return structs.replace(last, views=views, lifted=lifted)


def moved_on(pin: Pin, before: str, now: str) -> Pin:
    """Return a pin with its views of one phase in another."""
    return structs.replace(pin, views={view: now if it == before else it for view, it in pin.views.items()})


def broken(pin: Pin, plan: Plan, stopped: Mapping[str, str]) -> Pin:
    """Return a pin that says which views can follow no more, and why."""
    views = {it.view: pin.views.get(it.view, LIVE) for it in plan.publications}
    for publication in plan.publications:
        if sources(plan, publication.inputs) & stopped.keys():
            views[publication.view] = BROKEN
    return structs.replace(pin, views=views, stopped={**pin.stopped, **stopped})


def reason(pin: Pin, plan: Plan, view: str) -> str:
    """Say why a view is broken."""
    edges = [edge for it in plan.publications if it.view == view for edge in it.inputs]
    tables = sorted(sources(plan, edges) & pin.stopped.keys())
    return "; ".join(f"{table}: {pin.stopped[table]}" for table in tables)


def sources(plan: Plan, edges: Iterable[Edge]) -> set[str]:
    """Name the base tables that edges read, directly or through stages, and the columns: `table`, `table.column`."""
    stages = {stage.name: stage for stage in plan.stages}
    found: set[str] = set()

    def follow(edge: Edge, wanted: set[str] | None) -> None:
        read = _columns(edge, wanted)
        if edge.source not in stages:
            found.update((edge.source, *(f"{edge.source}.{column}" for column in read)))
            return
        for inner in inputs(stages[edge.source]):
            follow(inner, _entering(stages[edge.source], read))

    for edge in edges:
        follow(edge, None)
    return found


def _columns(edge: Edge, wanted: set[str] | None) -> set[str]:
    """Return the columns of its source that an edge needs for what is wanted of it (None: all)."""
    expressions = [it.expression for it in edge.columns if wanted is None or it.name in wanted]
    expressions += [] if edge.where is None else [edge.where]
    return {column for expression in expressions for column in columns_of(expression)}


def _entering(stage: Stage, wanted: set[str]) -> set[str] | None:
    """Return which columns must enter a stage for some of its output, which other views may share; None: all."""
    if isinstance(stage, AggregateStage):
        taken = [it.argument for it in stage.aggregates if it.name in wanted and it.argument is not None]
        return set(stage.group).union(*(columns_of(argument) for argument in taken))
    if isinstance(stage, JoinStage):
        residual = columns_of(stage.residual) if stage.residual is not None else ()
        return wanted.union(stage.left_key, stage.right_key, residual)
    return None
