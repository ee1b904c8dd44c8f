"""The audit as one call: read, replay, judge, summarize. Commands and tests enter here."""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cvs.checker.bulk import bulk_of
from cvs.checker.classify import Judgement
from cvs.checker.foreign import Foreign
from cvs.checker.large import LARGE, judge_large
from cvs.checker.reference import REFERENCES
from cvs.checker.search import linearizable
from cvs.checker.unheld import has_unheld
from cvs.checker.verdict import QUESTIONS
from cvs.errors import HistoryError, SpecificationError
from cvs.history.checkpoint import window as window_of
from cvs.history.merge import typed
from cvs.history.packing import NotColumnarError
from cvs.model.definitions import table_from_json, view_from_json
from cvs.report.hand import BUDGET, in_hand, judged, meanings_of, settled, strangers_of
from cvs.report.load import Loaded, Source, columns_of, loaded, named, sources_of
from cvs.report.registers import Registers
from cvs.report.summary import Document, known_level, summarize, summarize_foreign


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
                judgement.run = in_hand(loaded(sources).events, reference)
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
                judgement = judged(
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
        judgement = judged(kept, views=asked, reference=reference, budget=budget, held=held, picture=picture)
    return summarize(judgement, files, expected or {}), judgement


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

    if strangers_of(views, headers):
        return None
    unsettled: set[str] = set()
    try:
        found = judge_large(
            columns, known, again, meanings_of(tables), budget=budget, unsettled=unsettled, views=views
        )
    except SpecificationError:  # a value that is none of its type: as above
        return None
    return found if not unsettled else settled(found, unsettled, loaded(sources).events, "writers", budget)


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
