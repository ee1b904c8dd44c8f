"""`cvs audit --engine spark`: a history of any size judged by Spark's tasks, nothing in the driver but the verdict.

    pieces of files -> tables of events, each to the part of its view record or to its base record  (`Router`)
    base records, with all that happened to them, to the parts that they touch                 (`companions`)
    part by part: in bulk, and exactly what that leaves over                                   (`judge_part`)

What travels are Arrow tables, of Parquet's columns or of lines; an object becomes only what the exact judge must see.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import SparkContext, StorageLevel
from pyspark.serializers import PickleSerializer
from pyspark.sql import SparkSession

from cvs.checker.classify import Judgement
from cvs.checker.companions import companions
from cvs.checker.meaning import DefinitionMeaning, Meaning
from cvs.checker.parts import PLACE_BITS, Facts, Parts, cited, judge_part, refused, renumbered, together
from cvs.checker.replay import Run, ViewRun
from cvs.checker.verdict import Finding
from cvs.errors import CvsError, HistoryError, SpecificationError
from cvs.history import events as ev
from cvs.history.carried import packed, tables_of
from cvs.history.router import BASE, WRITE, Operation, Router, Told, Whose
from cvs.history.sound import require_headers
from cvs.model.definitions import is_defined, table_from_json, view_from_json
from cvs.stream.pieces import Split, files_of, headers_of, splits_of

EVENTS_A_PART = 1_000_000
"""A part is held in memory while it is judged; one view record is never cut."""

_REFUSED = "refused"
_plain = PickleSerializer()


@dataclass(frozen=True)
class Task:
    """What tasks need, as plain data; the rest is made where it runs."""

    facts: Facts
    budget: int
    several: bool

    @cached_property
    def parts(self) -> Parts:
        """Return what knows the parts; what a view means is compiled once."""
        tables = {t.name: t for h in self.facts.headers for t in map(table_from_json, h.tables)}
        known: dict[str, Meaning | None] = {}

        def meaning(view: ViewRun) -> Meaning | None:
            if view.name not in known:
                defined = view.definition is not None and is_defined(view.definition)
                known[view.name] = (
                    DefinitionMeaning(view_from_json(view.definition or {}), tables) if defined else None
                )
            return known[view.name]

        return Parts(self.facts, meaning, view_from_json, tables)

    def route(self, split: Split) -> Iterator[tuple[int, tuple[int, Any]]]:
        """Divide a piece; what it tells of the whole stands last."""
        router = self._router(earlier=lambda missing: self._earlier(split, missing))
        try:
            for batch in split.batches():
                for side, part, kind, table in router.route(
                    batch, (split.number << PLACE_BITS) + router.told.events
                ):
                    yield side, (part, (kind, table))
        except HistoryError as damage:
            router.told.refusal = damage
        yield 0, (split.number, router.told)

    def _router(self, **options: Any) -> Router:
        return Router(self.facts.parts, self.parts.headers, several=self.several, **options)

    def _earlier(self, split: Split, missing: set[Operation]) -> Mapping[Operation, Whose]:
        """Look for calls in the pieces before, the last one first."""
        found: dict[Operation, Whose] = {}
        for piece in reversed(split.before):
            for batch in piece.batches():
                found |= {o: whose for o, whose in self._router().calls(batch).items() if o in missing}
            if len(found) == len(missing):
                break
        return found

    def accompany(
        self, carried: Iterable[tuple[int, tuple[str, bytes]]]
    ) -> Iterator[tuple[int, tuple[str, bytes]]]:
        """Send base records to the parts that they touch; a refusal goes the same way: failed tasks are begun anew."""
        try:
            for part, kind, table in companions(tables_of(each for _, each in carried), self.parts):
                yield part, (kind, packed(table))
        except CvsError as refusal:
            yield 0, (_REFUSED, _plain.dumps(refusal))

    def judge(
        self, part: int, carried: Iterable[tuple[int, tuple[str, bytes]]]
    ) -> Iterator[list[Finding] | CvsError]:
        """Judge one part, or say what is refused."""
        try:
            tables = tables_of(_accepted(carried))
            yield judge_part(list(tables.values()), part, self.parts, budget=self.budget)
        except CvsError as refusal:
            yield refusal


def _accepted(carried: Iterable[tuple[int, tuple[str, bytes]]]) -> Iterator[tuple[str, bytes]]:
    for _, (kind, data) in carried:
        if kind == _REFUSED:
            raise _plain.loads(data)
        yield kind, data


def audit(
    session: SparkSession,
    paths: Iterable[Path],
    *,
    budget: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    events_a_part: int = EVENTS_A_PART,
) -> Judgement:
    """Judge a run; `progress` is told how many tasks are done, and how many are known."""
    files = [file for path in paths for file in files_of(path)]
    if not files:
        raise HistoryError("no history file there", next_step="name files that end in .ndjson or .parquet")
    with _watched(session, progress):
        return in_tasks(session.sparkContext, files, budget=budget, events_a_part=events_a_part)


def in_tasks(context: SparkContext, files: list[Path], *, budget: int, events_a_part: int) -> Judgement:
    """Judge a run of some files."""
    headers = headers_of(files)
    try:
        return _in_tasks(context, files, headers, budget, events_a_part=events_a_part)
    except SpecificationError as wrong:  # a value that is none of its type, a definition that is none
        where = wrong.where or ", ".join(map(str, files[:3]))
        raise HistoryError(wrong.what, where=where, next_step=wrong.next_step) from None


def _in_tasks(
    context: SparkContext,
    files: list[Path],
    headers: tuple[ev.RunStarted, ...],
    budget: int,
    *,
    events_a_part: int,
) -> Judgement:
    splits, events = splits_of(files, events_a_part, context.defaultParallelism)
    parts = max(context.defaultParallelism, events // events_a_part + 1)
    several = len(files) > 1
    task = Task(Facts(headers=headers, parts=parts), budget, several)
    _ = replace(task).parts  # wrong definitions are refused here: what a task raises comes with its stack
    routed = context.parallelize(splits, len(splits)).flatMap(task.route).persist(StorageLevel.DISK_ONLY)
    try:
        told = dict(routed.filter(lambda item: item[0] == 0).values().collect())
        task, run = _known(task, splits, [told[split.number] for split in splits])
        _ = replace(task).parts
        if several:
            task = replace(task, facts=replace(task.facts, before=_times_before(splits, told)))
        of_side = {
            side: routed.filter(lambda item, side=side: item[0] == side).values() for side in (BASE, WRITE)
        }
        bases = of_side[BASE].partitionBy(parts, int).mapPartitions(task.accompany)
        both = bases.union(of_side[WRITE]).partitionBy(parts, int)
        answers = both.mapPartitionsWithIndex(task.judge).collect()
    finally:
        routed.unpersist()
    judgement = together(map(_not_refused, answers), run)
    numbers = _numbers(context, splits, told, task.facts.before, judgement.findings)
    judgement.findings = [renumbered(finding, numbers) for finding in judgement.findings]
    return judgement


def _not_refused(answer: list[Finding] | CvsError) -> list[Finding]:
    if isinstance(answer, CvsError):
        raise answer
    return answer


def _known(task: Task, splits: list[Split], told: list[Told]) -> tuple[Task, Run]:
    """Put together what the pieces told of the whole."""
    whole = Told()
    for split, each in zip(splits, told, strict=True):
        if not split.before:
            whole.begin()
        whole.add(each)
    require_headers(whole.headers, whole.views, whole.tables)
    refused(whole.kinds)
    facts = replace(
        task.facts,
        headers=tuple(whole.headers),
        commits=tuple(whole.commits),
        rest=whole.rest if whole.rested > whole.updated else None,
        has_base_log=bool(whole.kinds.get("base_update_called")),
        written=frozenset(whole.views),
    )
    views = {str(v.get("name", "")): v for h in facts.headers for v in h.views}
    run = Run(
        name=facts.headers[0].run, tables=facts.headers[0].tables, processes=whole.processes,
        views={name: ViewRun(name=name, definition=v) for name, v in views.items()},
        rest=facts.rest, has_base_log=facts.has_base_log, events=whole.events,
        first_time=whole.first_time or 0, last_time=whole.last_time,
    )  # fmt: skip
    return replace(task, facts=facts), run


def _times_before(splits: list[Split], told: Mapping[int, Told]) -> tuple[int, ...]:
    """Return the latest time in each file before each piece of it."""
    return tuple(max((told[e.number].last_time for e in s.before), default=-(1 << 62)) for s in splits)


def _numbers(
    context: SparkContext,
    splits: list[Split],
    told: Mapping[int, Told],
    before: tuple[int, ...],
    findings: list[Finding],
) -> dict[int, int]:
    """Return the numbers in the history of the events that findings name by their places."""
    places = np.unique(np.array([event for finding in findings for event in cited(finding)], np.int64))
    if not before:
        starts = np.cumsum([0, *(told[split.number].events for split in splits)])
        numbers = starts[places >> PLACE_BITS] + (places & (1 << PLACE_BITS) - 1) + 1
        return dict(zip(places.tolist(), numbers.tolist(), strict=True))
    if not len(places):
        return {}

    def own(split: Split) -> Any:
        return places[places >> PLACE_BITS == split.number]

    pieces = context.parallelize(splits, len(splits))
    mine = pieces.filter(lambda split: len(own(split)) > 0)
    latest = np.concatenate(
        mine.map(lambda split: split.latest(before)[own(split) - (split.number << PLACE_BITS)]).collect()
    )
    counts = pieces.map(lambda split: _earlier_than(split, split.latest(before), latest, places)).reduce(
        np.add
    )
    return dict(zip(places.tolist(), (counts + 1).tolist(), strict=True))


def _earlier_than(split: Split, times: Any, latest: Any, places: Any) -> Any:
    """Count the events of a piece that stand before each of some events."""
    least, most = (np.searchsorted(times, latest, side=side) for side in ("left", "right"))
    return np.clip(places - (split.number << PLACE_BITS), least, most)


class _watched:  # noqa: N801 -- because it is used as a statement
    """Tells the progress of all stages while a block runs."""

    def __init__(self, session: SparkSession, progress: Callable[[int, int], None]) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._progress = progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.5):
            stages = filter(None, map(self._tracker.getStageInfo, self._tracker.getActiveStageIds()))
            for stage in stages:
                self._progress(stage.numCompletedTasks, stage.numTasks)
