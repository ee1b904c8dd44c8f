"""Rolling recordings: what came before a quiescent point becomes one checkpoint, and the rest stays judgeable.

Only a point at which nothing was in flight will do: every call returned, no outcome unknown, everything
propagated. Then the last version of every base record is what every view record absorbed, and both are the
new beginning.
"""

from collections.abc import Iterable, Sequence

from cvs.errors import AssumptionError
from cvs.history import events as ev
from cvs.model.identity import Key, key_identity
from cvs.model.outcome import OutcomeKind

_CALLS = (ev.BaseUpdateCalled, ev.TestAndSetCalled, ev.ViewReadCalled)
_RETURNS = (ev.BaseUpdateReturned, ev.TestAndSetReturned, ev.ViewReadReturned)
Operation = tuple[str, int]


def rolled(events: Sequence[ev.AnyEvent]) -> list[ev.AnyEvent]:
    """Return the history from its last usable quiescent point but the final one, a checkpoint before it.

    Headers stay. Without such a point the history is refused: nothing can be dropped from it.
    """
    points = [n for n, event in enumerate(events) if isinstance(event, ev.Quiescent)]
    ending = len(events) - 1
    reasons = []
    for point in reversed([n for n in points if n != ending]):
        reason = _why_not(events[: point + 1])
        if not reason:
            return _cut(events, point)
        reasons.append(reason)
    raise AssumptionError(
        "no point of this history can be a checkpoint",
        where=reasons[0] if reasons else "it has no quiescent event before its end",
        next_step="let the system come to rest and write a quiescent event",
    )


def window(events: Sequence[ev.AnyEvent], *, start: int | None, end: int | None) -> list[ev.AnyEvent]:
    """Return what happened up to `end`, from the last rest at or before `start` on, a checkpoint before it.

    An operation that had not returned by then is unknown, as it was for everybody at that time.
    """
    kept = [event for event in events if end is None or event.time <= end]
    if start is None or not kept:
        return kept
    points = [n for n, event in enumerate(kept) if isinstance(event, ev.Quiescent) and event.time <= start]
    for point in reversed(points):
        if not _why_not(kept[: point + 1]):
            return _cut(kept, point)
    first = kept[0].time
    if start <= first:
        return kept
    raise AssumptionError(
        f"no rest in the first {(start - first) / 1e9:.3f} s of this history: nothing before can be left out",
        next_step="judge it from its beginning, or let the recorder write quiescent events",
    )


def _why_not(events: Iterable[ev.AnyEvent]) -> str:
    """Say what is in flight or unknown at the end of some events; nothing if they end at rest."""
    open_calls: dict[Operation, str] = {}
    for event in events:
        if isinstance(event, _CALLS):
            open_calls[event.process, event.operation] = "has not returned"
        elif isinstance(event, _RETURNS):
            unknown = getattr(event, "outcome", "") == OutcomeKind.UNKNOWN.value
            if unknown:
                open_calls[event.process, event.operation] = "has an unknown outcome"
            else:
                open_calls.pop((event.process, event.operation), None)
    for (process, operation), what in open_calls.items():
        return f'operation {operation} of process "{process}" {what}'
    return ""


def _cut(events: Sequence[ev.AnyEvent], point: int) -> list[ev.AnyEvent]:
    before, at, after = events[:point], events[point], events[point + 1 :]
    headers = [event for event in before if isinstance(event, ev.RunStarted)]
    return [*headers, checkpoint_of(before, process=at.process, time=at.time), at, *after]  # it is at rest


def checkpoint_of(events: Iterable[ev.AnyEvent], *, process: str, time: int) -> ev.Checkpoint:
    """Return the base and view state that some events leave; they must end at rest.

    Every applied write counts; between two of one record the one with the greater version is later.
    """
    base: dict[tuple[str, Key], tuple[str, ev.Key, int, ev.Row | None]] = {}
    views: dict[tuple[str, Key], tuple[str, ev.Key, ev.Scalars | None, ev.Row | None]] = {}
    calls: dict[Operation, ev.BaseUpdateCalled | ev.TestAndSetCalled] = {}
    for event in events:
        if isinstance(event, ev.Checkpoint):
            base |= {(line[0], key_identity(line[1])): line for line in event.base}
            views |= {(line[0], key_identity(line[1])): line for line in event.views}
        elif isinstance(event, ev.BaseUpdateCalled | ev.TestAndSetCalled):
            calls[event.process, event.operation] = event
        elif isinstance(event, ev.BaseUpdateReturned | ev.TestAndSetReturned):
            call = calls.pop((event.process, event.operation), None)
            if call is None or event.outcome != OutcomeKind.APPLIED.value:
                continue
            if isinstance(call, ev.BaseUpdateCalled):
                name = (call.table, key_identity(call.key))
                if name not in base or base[name][2] < call.version:
                    base[name] = (call.table, call.key, call.version, call.row)
            else:
                name = (call.view, key_identity(call.view_key))
                old = views[name][2] if name in views else None
                if old is None or old < call.new:
                    views[name] = (call.view, call.view_key, call.new, call.row)
    return ev.Checkpoint(process=process, time=time, base=tuple(base.values()), views=tuple(views.values()))
