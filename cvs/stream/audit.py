"""`cvs audit --engine spark`: one Spark job over a history of any size, no state in the driver but the verdict.

    lines -> events, each with its number and the parts it belongs to        (Python, by file splits)
    calls joined with their returns; base records with the parts they touch  (joins, sorted and spilled by the JVM)
    part by part: the checker's own kernels over that part's events          (Python, one part at a time)

What belongs together is decided by `checker/parts.py`, which also judges; here is only the moving of rows.
"""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cvs.checker.classify import Judgement, Meanings
from cvs.checker.meaning import DefinitionMeaning, Meaning
from cvs.checker.parts import Facts, Parts, judge_part, name_of, refused, together
from cvs.checker.replay import Run, ViewRun
from cvs.checker.verdict import Finding
from cvs.errors import CvsError, HistoryError, SpecificationError
from cvs.history import events as ev
from cvs.history import parquet
from cvs.history.codec import event_of, line_of
from cvs.history.merge import typed
from cvs.model.definitions import table_from_json, view_from_json
from cvs.model.views import BaseTable

EVENTS_A_PART = 200_000
"""A part is held in memory while it is judged; one view record is never cut."""

_ROUTED = (
    "at struct<file:string,block:bigint,id:bigint>, role string, time bigint, process string, operation bigint, "
    "base string, parts array<int>, lines array<struct<base:string,version:bigint>>, outcome string, line binary"
)
_ARROW = pa.schema(
    [
        (
            "at",
            pa.struct([("file", pa.string()), ("block", pa.int64()), ("id", pa.int64())]),
        ),
        ("role", pa.string()),
        ("time", pa.int64()),
        ("process", pa.string()),
        ("operation", pa.int64()),
        ("base", pa.string()),
        ("parts", pa.list_(pa.int32())),
        ("lines", pa.list_(pa.struct([("base", pa.string()), ("version", pa.int64())]))),
        ("outcome", pa.string()),
        ("line", pa.binary()),
    ]
)
_ROLES: dict[type, str] = {
    ev.TestAndSetCalled: "write",
    ev.ViewReadCalled: "write",
    ev.TestAndSetReturned: "answer",
    ev.ViewReadReturned: "answer",
    ev.BaseUpdateCalled: "base",
    ev.BaseUpdateReturned: "answer",
    ev.UpdateReceived: "received",
    ev.EpochCommitted: "commit",
    ev.Quiescent: "rest",
    ev.RunStarted: "header",
    ev.Checkpoint: "checkpoint",
}


@dataclass(frozen=True)
class Task:
    """What a task needs, as plain data; the rest is made where it runs."""

    facts: Facts
    budget: int
    arrow: bool

    @cached_property
    def tables(self) -> dict[str, BaseTable]:
        """Return the declared base tables."""
        return {t.name: t for h in self.facts.headers for t in map(table_from_json, h.tables)}

    @cached_property
    def meanings(self) -> Meanings:
        """Return what the views mean, each compiled once."""
        known: dict[str, Meaning | None] = {}

        def meaning(view: ViewRun) -> Meaning | None:
            if view.name not in known:
                defined = view.definition is not None and "relation" in view.definition
                known[view.name] = (
                    DefinitionMeaning(view_from_json(view.definition or {}), self.tables) if defined else None
                )
            return known[view.name]

        return meaning

    @cached_property
    def parts(self) -> Parts:
        """Return what knows the parts."""
        return Parts(self.facts, self.meanings, view_from_json, self.tables)

    def route(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn lines into routed events."""
        for batch in batches:
            places = batch.column("at").to_pylist()
            yield pa.RecordBatch.from_pylist(
                [self._routed(at, event) for at, event in zip(places, self._events(batch), strict=True)],
                schema=_ARROW,
            )

    def _events(self, batch: pa.RecordBatch) -> Iterator[Any]:
        if self.arrow:
            yield from self._typed(parquet.events_of(batch.select(parquet.schema().names)))
            return
        for number, line in enumerate(batch.column("value").to_pylist(), 1):
            try:
                event = event_of(line)
            except CvsError as mistake:
                raise HistoryError(
                    f"line {number} of a block: {mistake}",
                    next_step="`cvs convert` lists every mistake with its line",
                ) from None
            yield from self._typed([event])

    def _typed(self, events: Iterable[Any]) -> Iterator[Any]:
        if not self.tables:
            yield from events
            return
        headers = len(self.facts.headers)
        for number, event in enumerate(typed([*self.facts.headers, *events])):
            if number >= headers:
                yield event

    def _routed(self, at: Any, event: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"at": at, "role": _ROLES.get(type(event), "other"), "time": event.time}
        row |= {"process": event.process, "operation": getattr(event, "operation", None)}
        row |= {"outcome": getattr(event, "outcome", None), "line": line_of(event)}
        if isinstance(event, ev.BaseUpdateCalled | ev.UpdateReceived):
            row["base"] = name_of(event.table, event.key)
        if isinstance(event, ev.BaseUpdateCalled):
            row["parts"] = self.parts.of_row(event.table, event.key, event.row)
        if isinstance(event, ev.ViewReadCalled) and event.view_key is None:
            row["role"] = "whole"
        elif isinstance(event, ev.TestAndSetCalled | ev.ViewReadCalled) and event.view_key is not None:
            row["parts"] = [self.parts.of_record(event.view, event.view_key)]
        if isinstance(event, ev.TestAndSetCalled):
            row["lines"] = [
                {"base": name_of(a.table, a.key), "version": a.to_version} for a in event.absorbed
            ]
            row["outcome"] = event.view
        return row

    def judge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge the parts of a partition; rows come sorted by part, so one part is in hand at a time."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for part, each in groupby(rows, key=lambda row: row["part"]):
            found = judge_part(self._numbered(each), part, self.parts, budget=self.budget)
            yield pa.RecordBatch.from_pydict({"found": [pickle.dumps(found)]})

    def _numbered(self, rows: Iterable[dict[str, Any]]) -> Iterator[tuple[int, Any]]:
        for row in rows:
            event: Any = event_of(row["line"])
            if row["version"] is not None:  # of a certificate elsewhere: this version did happen
                event = ev.UpdateReceived(
                    process=event.process, time=event.time, stream="", entry=0, table=event.table, key=event.key,
                    version=row["version"],
                )  # fmt: skip
            yield row["number"], event
            if row["answer"] is not None:
                yield row["answered"], event_of(row["answer"])


def audit(
    session: SparkSession,
    paths: Iterable[Path],
    *,
    budget: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    events_a_part: int = EVENTS_A_PART,
) -> Judgement:
    """Judge a run; `progress` is told how many tasks are done, and how many are known."""
    files = [file for path in paths for file in _files(path)]
    try:
        return _audited(session, files, budget, progress, events_a_part=events_a_part)
    except PythonException as failure:
        told = [line for line in str(failure).splitlines() if "HistoryError: " in line]
        if not told:
            raise
        raise HistoryError(
            told[-1].split("HistoryError: ", 1)[1],
            next_step="`cvs convert` lists every mistake with its line",
        ) from None


def _audited(
    session: SparkSession,
    files: list[Path],
    budget: int,
    progress: Callable[[int, int], None],
    *,
    events_a_part: int,
) -> Judgement:
    arrow = files[0].suffix == ".parquet"
    if any((file.suffix == ".parquet") is not arrow for file in files):
        raise SpecificationError("a run is either all lines or all Parquet", next_step="cvs convert")
    with _watched(session, progress):
        lines = _lines(session, files, arrow=arrow)
        headers = _headers(files, arrow=arrow)
        parts = max(session.sparkContext.defaultParallelism, lines.count() // events_a_part + 1)
        session.conf.set("spark.sql.shuffle.partitions", str(parts))
        routed = _mapped(lines, Task(Facts(headers=headers, parts=parts), budget, arrow).route, _ROUTED)
        routed = routed.persist()
        try:
            facts, run = _facts(routed, headers, parts)
            found = _judged(_numbered(routed), Task(facts, budget, arrow), parts)
        finally:
            routed.unpersist()
    return together(found, run)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(
            p for p in path.rglob("*") if p.is_file() and (".ndjson" in p.name or p.suffix == ".parquet")
        )
    if not path.exists():
        raise HistoryError("cannot be read: no such file", where=str(path))
    return [path]


def _mapped(frame: DataFrame, function: Any, schema: str) -> DataFrame:
    return frame.mapInArrow(function, schema)


def _lines(session: SparkSession, files: list[Path], *, arrow: bool) -> DataFrame:
    names = [str(file.absolute()) for file in files]
    frame = session.read.parquet(*names) if arrow else session.read.text(names).where("value != ''")
    at = (
        "struct(_metadata.file_path AS file, _metadata.file_block_start AS block, "
        "monotonically_increasing_id() AS id) AS at"
    )
    return frame.selectExpr(at, *([f"`{name}`" for name in frame.columns]))


def _headers(files: list[Path], *, arrow: bool) -> tuple[ev.RunStarted, ...]:
    """Read the first lines of each file: every process begins with its header."""
    found: list[ev.RunStarted] = []
    for file in files:
        for event in _first(file, arrow=arrow):
            if not isinstance(event, ev.RunStarted):
                break
            found.append(event)
    if not found:
        raise HistoryError("a history begins with run_started", where=str(files[0]))
    return tuple(found)


def _first(file: Path, *, arrow: bool) -> Iterator[Any]:
    if arrow:
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(file).iter_batches(batch_size=64):
            yield from parquet.events_of(batch)
        return
    if file.suffix in (".gz", ".zst"):
        raise SpecificationError(
            "compressed lines cannot be split", where=str(file), next_step="cvs convert RUN --to run.parquet"
        )
    with file.open("rb") as opened:
        yield from map(event_of, opened)


def _facts(routed: DataFrame, headers: tuple[ev.RunStarted, ...], parts: int) -> tuple[Facts, Run]:
    counted = {row["role"]: row["count"] for row in routed.groupBy("role").count().collect()}
    refused(counted)
    twins = routed.where("operation IS NOT NULL").groupBy("process", "operation", f.expr("role = 'answer'"))
    if twins.count().where("count > 1").limit(1).count():
        raise HistoryError("operations are called or returned twice", next_step="cvs convert RUN lists them")
    sizes = routed.agg(
        f.min("time").alias("first"), f.max("time").alias("last"), f.collect_set("process").alias("processes")
    ).first()
    assert sizes is not None
    few = routed.where("role IN ('commit', 'rest')").orderBy("time", "at").select("line").collect()
    marks = [event_of(bytes(row["line"])) for row in few]
    views = {str(v.get("name", "")): v for h in headers for v in h.views}
    written = routed.where("role = 'write' AND lines IS NOT NULL").select("outcome").distinct().collect()
    facts = Facts(
        headers=headers,
        commits=tuple(
            ev.EpochCommitted(
                process=m.process, time=m.time, pipeline=m.pipeline, incarnation=m.incarnation, epoch=m.epoch
            )
            for m in marks
            if isinstance(m, ev.EpochCommitted)
        ),
        rest=next((m for m in reversed(marks) if isinstance(m, ev.Quiescent)), None),
        has_base_log=bool(counted.get("base")),
        written=frozenset(row["outcome"] for row in written),
        parts=parts,
    )
    run = Run(
        name=headers[0].run, tables=headers[0].tables, processes=set(sizes["processes"]),
        views={name: ViewRun(name=name, definition=v) for name, v in views.items()},
        quiescent=facts.rest is not None, has_base_log=facts.has_base_log, events=sum(counted.values()),
        first_time=sizes["first"], last_time=sizes["last"],
    )  # fmt: skip
    return facts, run


def _numbered(routed: DataFrame) -> DataFrame:
    """Give every event its number in the history: by the blocks of its file, or by time if there are several."""
    blocks = (
        routed.groupBy("at.file", "at.block")
        .agg(f.count("*").alias("many"), f.min("at.id").alias("least"))
        .orderBy("file", "block")
        .collect()
    )
    if len({block["file"] for block in blocks}) > 1:
        return routed.withColumn(
            "number", f.expr("row_number() OVER (ORDER BY time, at.file, at.block, at.id)").cast("bigint")
        )
    before, starts = 1, {}
    for block in blocks:
        starts[block["block"]] = before - block["least"]
        before += block["many"]
    offsets = f.create_map(*(f.lit(v).cast("bigint") for pair in starts.items() for v in pair))
    return routed.withColumn("number", f.col("at.id") + offsets[f.col("at.block")])


def _judged(routed: DataFrame, task: Task, parts: int) -> list[list[Finding]]:
    answers = routed.where("role = 'answer'").selectExpr(
        "process", "operation", "number AS answered", "line AS answer", "outcome AS said"
    )
    calls = routed.where("role IN ('write', 'base')").join(answers, ["process", "operation"], "left")
    columns: list[Column | str] = ["part", "number", "line", "answered", "answer", "version"]
    nothing = f.lit(None).cast("bigint").alias("version")
    writes = calls.where("role = 'write'").withColumn("part", f.expr("parts[0]"))
    lines = writes.where("lines IS NOT NULL").select("part", f.explode("lines").alias("held"), "number")
    bases = calls.where("role = 'base'")
    touched = (
        bases.select("base", f.explode("parts").alias("part"))
        .union(lines.selectExpr("held.base", "part"))
        .distinct()
    )
    received = routed.where("role = 'received'").selectExpr(
        "base", "number", "line", "CAST(NULL AS BIGINT) AS answered", "CAST(NULL AS BINARY) AS answer",
        "CAST(NULL AS BIGINT) AS version",
    )  # fmt: skip
    unsure = (
        bases.where("said IS NULL OR said = 'unknown'").groupBy("base").agg(f.first("line").alias("line"))
    )
    happened = lines.selectExpr("held.base", "held.version", "number").join(unsure, "base")
    told = happened.selectExpr(
        "base",
        "number",
        "line",
        "CAST(NULL AS BIGINT) AS answered",
        "CAST(NULL AS BINARY) AS answer",
        "version",
    )
    companions = (
        bases.select("base", "number", "line", "answered", "answer", nothing).union(received).union(told)
    ).join(touched, "base")
    everything = writes.withColumn("version", nothing).select(*columns).union(companions.select(*columns))
    grouped = everything.repartition(parts, "part").sortWithinPartitions("part", "number")
    found = _mapped(grouped, task.judge, "found binary")
    return [pickle.loads(row["found"]) for row in found.collect()]  # noqa: S301 -- our own tasks wrote it


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
