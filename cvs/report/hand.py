"""Events in hand: judged in bulk, exactly, or by both where each tells something that the other does not."""

from collections.abc import Iterable
from typing import Any

from cvs.checker.bulk import bulk_of
from cvs.checker.classify import Judgement, Meanings, judge, nothing_shown
from cvs.checker.large import LARGE, ON_WHOLE_TABLES, judge_large
from cvs.checker.meaning import DefinitionMeaning, Meaning
from cvs.checker.reference import REFERENCES
from cvs.checker.replay import Run, ViewRun, replay
from cvs.checker.unheld import HeldMeaning, shown_anyway, without_them
from cvs.checker.verdict import Finding, Verdict
from cvs.errors import AssumptionError, HistoryError, SpecificationError
from cvs.history.columns import Gathered
from cvs.history.events import BaseUpdateCalled, BaseUpdateReturned, Checkpoint, RunStarted, UpdateReceived
from cvs.history.packing import NotColumnarError
from cvs.model.definitions import is_defined, table_from_json, view_from_json
from cvs.model.identity import key_identity
from cvs.model.views import BaseTable

BUDGET = 200_000
SMALL = 2_000
"""Events in hand, and base rows of a checkpoint, up to which a run is judged exactly at once."""


def judged(
    events: list[Any],
    *,
    views: set[str] | None,
    reference: str,
    budget: int,
    held: bool,
    picture: bool,
    partial: Iterable[str] = (),
) -> Judgement:
    """Judge events in hand, in bulk if they can be; `held`: without what no table can hold."""
    kept = without_them(events) if held else events
    found = None
    if not partial:
        found = events_in_bulk(kept, reference, budget, views, held=held)
    if found is None:
        exact = judge_events(
            kept, views=views, reference=reference, budget=budget, partial=partial, held=held
        )
        if not partial and _undecided(exact.of("weak", "view")) and _size(kept) <= SMALL:
            bulk, _ = _over_columns(kept, reference, budget, views, held=held)
            if bulk is not None:
                _complete(exact, bulk)
        return exact
    if picture:
        found.run = in_hand(kept, reference)
    return found


def in_hand(events: list[Any], reference: str) -> Run:
    """Return the run with all its operations, which columns do not keep."""
    return REFERENCES[reference](replay(events))


def events_in_bulk(
    events: list[Any],
    reference: str,
    budget: int,
    views: set[str] | None = None,
    *,
    held: bool = False,
) -> Judgement | None:
    """Judge many events in hand over columns, of all views or some; None where the exact judge says more."""
    size = _size(events)
    if size <= SMALL:
        return None
    found, unsettled = _over_columns(events, reference, budget, views, held=held)
    if found is None:
        return None
    if size <= LARGE:
        unsettled |= _undecided(found.findings)
    return settled(found, unsettled, events, reference, budget, held=held)


def _size(events: list[Any]) -> int:
    """Count events, and the base rows of checkpoints."""
    return len(events) + sum(len(event.base) for event in events if isinstance(event, Checkpoint))


def _over_columns(
    events: list[Any], reference: str, budget: int, views: set[str] | None, *, held: bool
) -> tuple[Judgement | None, set[str]]:
    """Judge events in hand over columns, if that tells anything; name the views that it leaves to the exact judge.

    `held`: as far as tables can hold the views, which columns know nothing of: their rows are looked at one by one.
    """
    if reference not in ("writers", "absorbed"):
        return None, set()
    if reference == "absorbed" and not _received_as_written(events):
        return None, set()
    headers = [event for event in events if isinstance(event, RunStarted)]
    if strangers_of(views, headers):
        return None, set()
    tables = {t.name: t for header in headers for t in map(table_from_json, header.tables)}
    known = bulk_of(() if held else headers, view_from_json, tables)
    meanings = _held_of(tables, events) if held else meanings_of(tables)
    gathered = Gathered(known.readers)
    try:
        gathered.take(events)
        columns = gathered.columns()
    except (NotColumnarError, HistoryError):
        return None, set()
    unsettled: set[str] = set()
    again = lambda numbers: [events[n - 1] for n in numbers]  # noqa: E731 -- because it is a word for what follows
    found = judge_large(columns, known, again, meanings, budget=budget, unsettled=unsettled, views=views)
    if found is not None:
        found.reference = reference
    return found, unsettled


def strangers_of(views: set[str] | None, headers: Iterable[RunStarted]) -> set[str]:
    """Name the views that nobody declared; some are only written."""
    return (views or set()) - {str(view.get("name", "")) for header in headers for view in header.views}


def _undecided(findings: list[Finding]) -> set[str]:
    """Name the views of which the exact judge may decide more; of views on whole tables it does not within hours."""
    wide = {finding.view for finding in findings if finding.reason == ON_WHOLE_TABLES}
    return {finding.view for finding in findings if finding.verdict is Verdict.UNDECIDED} - wide


def settled(
    found: Judgement | None,
    unsettled: set[str],
    events: list[Any],
    reference: str,
    budget: int,
    *,
    held: bool = False,
) -> Judgement | None:
    """Judge some views of a run exactly, after all; what that leaves undecided may be known already."""
    if found is None or not unsettled:
        return found
    exact = judge_events(events, views=unsettled, reference=reference, budget=budget, held=held)
    _complete(exact, found)
    exact.findings += [finding for finding in found.findings if finding.view not in unsettled]
    exact.judged += [judged for judged in found.judged if judged.subject.view not in unsettled]
    return exact


def _complete(exact: Judgement, bulk: Judgement) -> None:
    """Let what the exact judge leaves undecided of whole views and snapshots be what was found in bulk.

    Unless the two differ elsewhere: values may excuse what certificates say.
    """
    theirs = {
        _place(f): f
        for f in bulk.findings
        if f.verdict is not Verdict.UNDECIDED and f.granularity != "record"
    }
    decided = (f for f in exact.findings if f.verdict is not Verdict.UNDECIDED and _place(f) in theirs)
    differ = {_place(f)[:2] for f in decided if theirs[_place(f)].verdict is not f.verdict}
    exact.findings = [
        theirs.get(_place(f), f) if f.verdict is Verdict.UNDECIDED and _place(f)[:2] not in differ else f
        for f in exact.findings
    ]


def _place(finding: Finding) -> tuple[str, str, str]:
    return finding.view, finding.granularity, finding.property


def _received_as_written(events: list[Any]) -> bool:
    """Say whether a pipeline was handed every base update that was written, in the order in which they returned."""
    calls: dict[tuple[str, int], Any] = {}
    written: list[Any] = []
    received: dict[Any, None] = {}
    for event in events:
        if isinstance(event, BaseUpdateCalled):
            calls[event.process, event.operation] = (event.table, key_identity(event.key), event.version)
        elif isinstance(event, BaseUpdateReturned):
            written.append(calls.get((event.process, event.operation)))
        elif isinstance(event, UpdateReceived):
            received[event.table, key_identity(event.key), event.version] = None
    return list(received) == written


def meanings_of(tables: dict[str, BaseTable]) -> Meanings:
    """Return what views mean by the definitions that a run carries itself."""

    def meaning(view: ViewRun) -> Meaning | None:
        if view.definition is None or not is_defined(view.definition):
            return None
        return DefinitionMeaning(view_from_json(view.definition), tables)

    return meaning


def _held_of(tables: dict[str, BaseTable], events: list[Any]) -> Meanings:
    def meaning(view: ViewRun) -> Meaning | None:
        if view.definition is None or not is_defined(view.definition):
            return None
        definition = view_from_json(view.definition)
        return HeldMeaning(definition, tables, shown=shown_anyway(events, view.name, definition.partition))

    return meaning


def judge_events(
    events: list[Any],
    *,
    views: Iterable[str] | None = None,
    reference: str = "writers",
    budget: int = BUDGET,
    partial: Iterable[str] = (),
    held: bool = False,
) -> Judgement:
    """Judge events by the definitions that they carry themselves; `held`: as far as tables can hold the views."""
    started = [event for event in events if isinstance(event, RunStarted)]
    tables = {t.name: t for event in started for t in map(table_from_json, event.tables)}
    run = replay(events)
    if strangers := {*(views or ()), *partial} - set(run.views):
        raise SpecificationError(
            f"no view {', '.join(sorted(strangers))} in this run",
            next_step=f"it has {', '.join(sorted(run.views))}",
        )
    if not any(map(_was_shown, run.views.values())):
        raise nothing_shown()
    if reference == "absorbed" and run.order and not run.received:
        raise AssumptionError(
            "no update_received is in this history: the order absorbed is not known",
            next_step="record what managers were handed, or ask for another reference",
        )
    run = REFERENCES[reference](run)
    meanings = _held_of(tables, events) if held else meanings_of(tables)
    return judge(run, meanings, budget=budget, views=views, reference=reference, partial=partial)


def _was_shown(view: ViewRun) -> bool:
    return bool(view.whole_reads) or any(it.attempts or it.reads for it in view.records.values())
