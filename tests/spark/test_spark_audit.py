"""The audit in Spark's tasks: the verdicts of the local engine, on random histories, in any form."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from cvs.checker.large import COMPLETE
from cvs.checker.parts import folded
from cvs.checker.verdict import LEVELS, Finding, Verdict
from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.codec import history_bytes
from cvs.history.merge import merged
from cvs.history.parquet import batches_of, schema
from cvs.history.validate import Checked
from cvs.model.definitions import definition_to_json
from cvs.report.hand import judge_events
from cvs.report.summary import summarize
from cvs.stream import audit as engine
from cvs.stream.spark import spark_session
from tests.agree.test_checker_bulk import certified, damaged
from tests.stories.views import VIEWS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session = spark_session("local[2]")
    yield session
    session.stop()


def many(chance: random.Random, runs: int) -> list[Any]:
    """Several random runs side by side in one history: one view each, damaged in some."""
    events: list[Any] = []
    views: list[Any] = []
    for number in range(runs):
        name = chance.choice(("sum", "count", "rows"))
        each = certified(chance, name, moves=number % 2 == 0)
        if number % 3:
            each = damaged(chance, each)
        if number % 4 == 1:
            each = [
                _unanswered(e) if e.time == 60 and isinstance(e, ev.BaseUpdateReturned) else e for e in each
            ]
        views.append({**definition_to_json(VIEWS[name]), "name": f"v{number}"})
        events += [_moved(e, number) for e in each if not isinstance(e, ev.RunStarted | ev.Quiescent)]
    text = repr(views)
    assert "'r'" in text
    defined = tuple(msgspec.convert(_renamed(v, n), dict[str, Any]) for n, v in enumerate(views))
    headers = [
        ev.RunStarted(process=f"{p}.{n}", time=0, run="many", views=defined)
        for n in range(runs)
        for p in ("w", "m", "m2")
    ]
    events.sort(key=lambda event: event.time)
    return [*headers, *events, ev.Quiescent(process="w.0", time=events[-1].time + 1)]


def _unanswered(event: ev.BaseUpdateReturned) -> ev.BaseUpdateReturned:
    return msgspec.structs.replace(event, outcome="unknown")


def _renamed(value: Any, number: int) -> Any:
    """Let each run read a table of its own."""
    if isinstance(value, dict):
        return {
            k: f"r{number}" if k == "table" and v == "r" else _renamed(v, number) for k, v in value.items()
        }
    return [_renamed(v, number) for v in value] if isinstance(value, list | tuple) else value


def _moved(event: Any, number: int) -> Any:
    changes: dict[str, Any] = {"process": f"{event.process}.{number}"}
    if isinstance(event, ev.BaseUpdateCalled):
        changes["table"] = f"r{number}"
    if isinstance(event, ev.TestAndSetCalled):
        changes["view"] = f"v{number}"
        changes["absorbed"] = tuple(msgspec.structs.replace(a, table=f"r{number}") for a in event.absorbed)
    return msgspec.structs.replace(event, **changes)


def said(findings: list[Finding]) -> Counter[Any]:
    """Count findings; which event refutes *complete* is left out, for who counts the states needs none."""
    count: Counter[Any] = Counter()
    for f in folded(f for f in findings if f.granularity == "record" and f.property != "staleness"):
        named = f.verdict is Verdict.VIOLATED and f.property not in COMPLETE
        count[f.view, f.property, f.verdict, f.event if named else None] += f.count
    return count


def test_the_verdicts_are_those_of_the_local_engine(session: SparkSession, tmp_path: Path) -> None:
    events = many(random.Random(5), runs=24)
    lines, table, apart = tmp_path / "run.ndjson", tmp_path / "run.parquet", tmp_path / "apart"
    lines.write_bytes(history_bytes(events))
    with pq.ParquetWriter(table, schema()) as writer:
        for batch in batches_of(events):
            writer.write_batch(batch, row_group_size=500)
    apart.mkdir()
    several = []
    for number in range(3):
        mine = [event for event in events if crc32(event.process.encode()) % 3 == number]
        (apart / f"{number}.ndjson").write_bytes(history_bytes(mine))
        several.append(Checked(file=str(number), events=mine, lines=list(range(len(mine)))))
    in_time, _ = merged(several)
    for path, whole in ((lines, events), (table, events), (apart, in_time)):
        local = judge_events(whole)
        found = engine.audit(session, [path], budget=100_000, events_a_part=400)
        assert said(found.findings) == said(local.findings), path
        assert found.run.events == len(events)
        for view in local.run.views:
            for name in LEVELS:
                ours, theirs = (
                    next(f for f in j.of(name, "view") if f.view == view).verdict for j in (found, local)
                )
                assert Verdict.UNDECIDED in (ours, theirs) or ours is theirs, (view, name)
        document = summarize(found, [{"file": path.name}], {"record": "strong"})
        assert document["exit_code"] == 1
    violated = {f.property for f in local.findings if f.verdict is Verdict.VIOLATED}
    assert {"linearizability", "weak", "converged", "certificates"} <= violated


def test_a_history_that_is_none_is_refused(session: SparkSession, tmp_path: Path) -> None:
    events = certified(random.Random(6), "sum")
    twice = tmp_path / "twice.ndjson"
    again = msgspec.structs.replace(events[4], time=events[-1].time)
    twice.write_bytes(history_bytes([*events[:-1], again, events[-1]]))
    with pytest.raises(HistoryError, match="twice"):
        engine.audit(session, [twice], budget=1_000)
    torn = tmp_path / "torn.ndjson"
    torn.write_bytes(history_bytes(events)[:-40])
    with pytest.raises(HistoryError):
        engine.audit(session, [torn], budget=1_000)
    with pytest.raises(HistoryError, match="no such file"):
        engine.audit(session, [tmp_path / "nothing.ndjson"], budget=1_000)
