"""The audit as one call: read, replay, judge, summarize. Commands and tests enter here."""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cvs.checker.bulk import bulk_of
from cvs.checker.classify import Judgement, Meanings, judge, nothing_shown
from cvs.checker.foreign import Foreign
from cvs.checker.large import LARGE, ON_WHOLE_TABLES, judge_large
from cvs.checker.meaning import DefinitionMeaning, Meaning
from cvs.checker.reference import REFERENCES
from cvs.checker.replay import Run, ViewRun, replay
from cvs.checker.search import linearizable
from cvs.checker.unheld import HeldMeaning, has_unheld, shown_anyway, without_them
from cvs.checker.verdict import QUESTIONS, Finding, Verdict
from cvs.errors import AssumptionError, HistoryError, SpecificationError
from cvs.history.checkpoint import window as window_of
from cvs.history.columns import Gathered
from cvs.history.events import BaseUpdateCalled, BaseUpdateReturned, Checkpoint, RunStarted, UpdateReceived
from cvs.history.merge import typed
from cvs.history.packing import NotColumnarError
from cvs.model.definitions import table_from_json, view_from_json
from cvs.model.identity import key_identity
from cvs.model.views import BaseTable
from cvs.report.load import Loaded, Source, columns_of, loaded, named, sources_of
from cvs.report.registers import Registers
from cvs.report.summary import Document, known_level, summarize, summarize_foreign

BUDGET = 200_000
SMALL = 2_000
"""Events in hand, and base rows of a checkpoint, up to which a run is judged exactly at once."""


def audit(
    paths: Iterable[Path],
    *,
    expected: dict[str, str] | None = None,
    views: Iterable[str] | None = None,
    reference: str = "writers",
    budget: int = BUDGET,
    picture: bool = False,
    window: tuple[float | None, float | None] = (None, None),
    partial: Iterable[str] = (),
) -> tuple[Document, Judgement | Registers]:
    """Judge one run of files; a history of another system has registers only, and no judgement of levels.

    `picture`: every operation is in hand afterwards, of a large run too. `window`: seconds from the first event.
    `partial` views do not keep all their records: an absent one is unknown.
    """
    require_levels(expected or {})
    if reference not in REFERENCES:
        raise SpecificationError(f"no reference is called {reference!r}", next_step=" or ".join(REFERENCES))
    with no_collection():
        sources = sources_of(paths)
        judgement = None
        asked = None if views is None else set(views)
        if reference == "writers" and window == (None, None) and not partial:
            judgement = _in_bulk(sources, asked, budget)
            if picture and judgement is not None:
                judgement.run = _in_hand(loaded(sources).events, reference)
        if judgement is None:
            run = loaded(sources)
            if run.foreign is not None:
                if expected or asked is not None or window != (None, None) or partial:
                    raise SpecificationError(
                        "a history of registers has no views: it is linearizable or not, as a whole",
                        where=sources[0].file,
                        next_step="leave --expect, --expect-view, --view, --from, --to and --partial out",
                    )
                return _foreign(run, run.foreign, budget)
            events = run.events if window == (None, None) else _within(run.events, window)
            held = reference == "absorbed" and has_unheld(events)  # it was a recording, as it seems
            with _told_of(sources):
                judgement = _judged(
                    events,
                    views=asked,
                    reference=reference,
                    budget=budget,
                    partial=partial,
                    held=held,
                    picture=picture,
                )
        judgement.run.name = judgement.run.name or Path(sources[0].file).stem
        files = [source.described for source in sources]
        return summarize(judgement, files, expected or {}), judgement


def audit_events(
    events: list[Any],
    *,
    files: list[dict[str, Any]],
    expected: dict[str, str] | None = None,
    views: Iterable[str] | None = None,
    reference: str = "absorbed",
    budget: int = BUDGET,
    window: tuple[float | None, float | None] = (None, None),
    picture: bool = False,
) -> tuple[Document, Judgement]:
    """Judge events that somebody put together, such as a pipeline's recording; `picture` as in `audit`.

    Such a view shows nothing under keys that its table cannot hold: these are in quarantine.
    """
    require_levels(expected or {})
    with no_collection():
        kept = events if window == (None, None) else _within(events, window)
        held = has_unheld(kept)
        asked = None if views is None else set(views)
        judgement = _judged(kept, views=asked, reference=reference, budget=budget, held=held, picture=picture)
    return summarize(judgement, files, expected or {}), judgement


def _judged(
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
    found, whole = None, not partial and not held
    if whole:
        found = events_in_bulk(kept, reference, budget, views)
    if found is None:
        exact = judge_events(
            kept, views=views, reference=reference, budget=budget, partial=partial, held=held
        )
        if whole and _undecided(exact.of("weak", "view")) and _size(kept) <= SMALL:
            bulk, _ = _over_columns(kept, reference, budget, views)
            if bulk is not None:
                _complete(exact, bulk)
        return exact
    if picture:
        found.run = _in_hand(kept, reference)
    return found


def _in_hand(events: list[Any], reference: str) -> Run:
    """Return the run with all its operations, which columns do not keep."""
    return REFERENCES[reference](replay(events))


def _within(events: list[Any], seconds: tuple[float | None, float | None]) -> list[Any]:
    first = events[0].time
    start, end = (None if s is None else first + round(s * 1e9) for s in seconds)
    return window_of(events, start=start, end=end)


def require_levels(expected: Mapping[str, str]) -> None:
    """Refuse an expectation that is no level."""
    for level in expected.values():
        if not known_level(level):
            raise SpecificationError(
                f"no level is called {level!r}", next_step="converged, weak, strong, complete"
            )


@contextmanager
def _told_of(sources: list[Source]) -> Iterator[None]:
    """Name the files of which something is refused."""
    try:
        yield
    except HistoryError as refusal:
        where = refusal.where or named(sources)
        raise HistoryError(refusal.what, where=where, next_step=refusal.next_step) from None


def _in_bulk(sources: list[Source], views: set[str] | None, budget: int) -> Judgement | None:
    """Judge a large run over columns; None for one that is small, foreign, or of other kinds of views."""
    if any(source.foreign for source in sources) or sum(source.size for source in sources) <= LARGE:
        return None
    try:
        headers = [header for source in sources for header in source.headers()]
        tables = {t.name: t for header in headers for t in map(table_from_json, header.tables)}
        known = bulk_of(headers, view_from_json, tables)
        columns = columns_of(sources, known, tables)
    except (NotColumnarError, SpecificationError):  # the strict reader says what is wrong, and where
        return None
    except HistoryError as refusal:
        if any(source.stays for source in sources):
            with _told_of(sources):
                raise refusal from None
        return None

    def again(numbers: list[int]) -> Iterable[Any]:
        if len(sources) == 1:
            return islice(typed(chain(headers, sources[0].chosen(numbers))), len(headers), None)
        events = loaded(sources).events
        return (events[number - 1] for number in numbers)

    if _strangers(views, headers):
        return None
    unsettled: set[str] = set()
    try:
        found = judge_large(
            columns, known, again, meanings_of(tables), budget=budget, unsettled=unsettled, views=views
        )
    except SpecificationError:  # a value that is none of its type: as above
        return None
    return found if not unsettled else _settled(found, unsettled, loaded(sources).events, "writers", budget)


def events_in_bulk(
    events: list[Any], reference: str, budget: int, views: set[str] | None = None
) -> Judgement | None:
    """Judge many events in hand over columns, of all views or some; None where the exact judge says more."""
    size = _size(events)
    if size <= SMALL:
        return None
    found, unsettled = _over_columns(events, reference, budget, views)
    if found is None:
        return None
    if size <= LARGE:
        unsettled |= _undecided(found.findings)
    return _settled(found, unsettled, events, reference, budget)


def _size(events: list[Any]) -> int:
    """Count events, and the base rows of checkpoints."""
    return len(events) + sum(len(event.base) for event in events if isinstance(event, Checkpoint))


def _over_columns(
    events: list[Any], reference: str, budget: int, views: set[str] | None
) -> tuple[Judgement | None, set[str]]:
    """Judge events in hand over columns, if that tells anything; name the views that it leaves to the exact judge."""
    if reference not in ("writers", "absorbed"):
        return None, set()
    if reference == "absorbed" and not _received_as_written(events):
        return None, set()
    headers = [event for event in events if isinstance(event, RunStarted)]
    if _strangers(views, headers):
        return None, set()
    tables = {t.name: t for header in headers for t in map(table_from_json, header.tables)}
    known = bulk_of(headers, view_from_json, tables)
    gathered = Gathered(known.readers)
    try:
        gathered.take(events)
        columns = gathered.columns()
    except NotColumnarError:
        return None, set()
    unsettled: set[str] = set()
    again = lambda numbers: [events[n - 1] for n in numbers]  # noqa: E731 -- because it is a word for what follows
    found = judge_large(
        columns, known, again, meanings_of(tables), budget=budget, unsettled=unsettled, views=views
    )
    if found is not None:
        found.reference = reference
    return found, unsettled


def _strangers(views: set[str] | None, headers: Iterable[RunStarted]) -> set[str]:
    """Name the views that nobody declared; some are only written."""
    return (views or set()) - {str(view.get("name", "")) for header in headers for view in header.views}


def _undecided(findings: list[Finding]) -> set[str]:
    """Name the views of which the exact judge may decide more; of views on whole tables it does not within hours."""
    wide = {finding.view for finding in findings if finding.reason == ON_WHOLE_TABLES}
    return {finding.view for finding in findings if finding.verdict is Verdict.UNDECIDED} - wide


def _settled(
    found: Judgement | None, unsettled: set[str], events: list[Any], reference: str, budget: int
) -> Judgement | None:
    """Judge some views of a run exactly, after all; what that leaves undecided may be known already."""
    if found is None or not unsettled:
        return found
    exact = judge_events(events, views=unsettled, reference=reference, budget=budget)
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


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch the collector of cycles off: millions of events have none, and looking for them takes half the
    time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _foreign(loaded: Loaded, foreign: Foreign, budget: int) -> tuple[Document, Registers]:
    found = {
        key: linearizable(operations, foreign.initial, budget=budget * QUESTIONS)
        for key, operations in foreign.registers.items()
    }
    count = sum(map(len, foreign.registers.values()))
    document = summarize_foreign(found, loaded.files, operations=count, passed_over=foreign.passed_over)
    return document, Registers(foreign=foreign, found=found)


def meanings_of(tables: dict[str, BaseTable]) -> Meanings:
    """Return what views mean by the definitions that a run carries itself."""

    def meaning(view: ViewRun) -> Meaning | None:
        if view.definition is None or "relation" not in view.definition:
            return None
        return DefinitionMeaning(view_from_json(view.definition), tables)

    return meaning


def _held_of(tables: dict[str, BaseTable], events: list[Any]) -> Meanings:
    def meaning(view: ViewRun) -> Meaning | None:
        if view.definition is None or "relation" not in view.definition:
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
