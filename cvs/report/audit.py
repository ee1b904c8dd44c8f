"""The audit as one call: read, replay, judge, summarize. Commands and tests enter here."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cvs.checker.classify import Judgement, judge
from cvs.checker.foreign import Foreign
from cvs.checker.large import LARGE, judge_large
from cvs.checker.meaning import DefinitionMeaning, Meaning
from cvs.checker.reference import REFERENCES
from cvs.checker.replay import ViewRun, replay
from cvs.checker.search import linearizable
from cvs.errors import SpecificationError
from cvs.history.events import RunStarted
from cvs.model.definitions import table_from_json, view_from_json
from cvs.report.load import Loaded, load
from cvs.report.summary import Document, known_level, summarize, summarize_foreign

BUDGET = 100_000


def audit(
    paths: Iterable[Path],
    *,
    expected: dict[str, str] | None = None,
    views: Iterable[str] | None = None,
    reference: str = "writers",
    budget: int = BUDGET,
    bulk: bool = True,
) -> tuple[Document, Judgement | None, Loaded]:
    """Judge one run of files; a history of another system has registers only, and no judgement of levels.

    `bulk` off keeps every operation of a large run in hand, for a picture.
    """
    for level in (expected or {}).values():
        if not known_level(level):
            raise SpecificationError(
                f"no level is called {level!r}", next_step="converged, weak, strong, complete"
            )
    if reference not in REFERENCES:
        raise SpecificationError(f"no reference is called {reference!r}", next_step=" or ".join(REFERENCES))
    with _no_collection():
        loaded = load(paths)
        if loaded.foreign is not None:
            return _foreign(loaded, loaded.foreign, budget)
        judgement = judge_events(loaded.events, views=views, reference=reference, budget=budget, bulk=bulk)
        judgement.run.name = judgement.run.name or loaded.name
        return summarize(judgement, loaded.files, expected or {}), judgement, loaded


@contextmanager
def _no_collection() -> Iterator[None]:
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


def _foreign(loaded: Loaded, foreign: Foreign, budget: int) -> tuple[Document, None, Loaded]:
    found = {
        key: linearizable(operations, foreign.initial, budget=budget * 20)
        for key, operations in foreign.registers.items()
    }
    count = sum(map(len, foreign.registers.values()))
    return (
        summarize_foreign(found, loaded.files, operations=count, passed_over=foreign.passed_over),
        None,
        loaded,
    )


def judge_events(
    events: list[Any],
    *,
    views: Iterable[str] | None = None,
    reference: str = "writers",
    budget: int = BUDGET,
    bulk: bool = True,
) -> Judgement:
    """Judge events by the definitions that they carry themselves."""
    started = [event for event in events if isinstance(event, RunStarted)]
    tables = {t.name: t for event in started for t in map(table_from_json, event.tables)}

    def meaning(view: ViewRun) -> Meaning | None:
        if view.definition is None or "relation" not in view.definition:
            return None
        return DefinitionMeaning(view_from_json(view.definition), tables)

    if bulk and len(events) > LARGE and views is None and reference == "writers":
        large = judge_large(events, meaning, definition=view_from_json, tables=tables, budget=budget)
        if large is not None:
            return large
    run = replay(events)
    if views is not None and (strangers := set(views) - set(run.views)):
        raise SpecificationError(
            f"no view {', '.join(sorted(strangers))} in this run",
            next_step=f"it has {', '.join(sorted(run.views))}",
        )
    run = REFERENCES[reference](run)
    return judge(run, meaning, budget=budget, views=views, reference=reference)
