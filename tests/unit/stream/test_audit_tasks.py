"""What the tasks of `cvs audit --engine spark` do, without Spark."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cvs.checker.parts import Facts
from cvs.errors import AssumptionError, HistoryError, SpecificationError
from cvs.history import events as ev
from cvs.history.codec import history_bytes
from cvs.history.router import BASE, WRITE
from cvs.stream import audit as engine
from cvs.stream.audit import Task
from cvs.stream.pieces import Split, files_of, headers_of
from tests.agree.test_checker_bulk import certified

Carried = list[tuple[int, Any]]


SPARK: Any = None  # what is refused before Spark is asked


def written(folder: Path, events: list[Any]) -> Path:
    file = folder / "run.ndjson"
    file.write_bytes(history_bytes(events))
    return file


def routed(file: Path, cuts: list[int]) -> tuple[Task, Carried, Carried]:
    """Do what the tasks do until parts are judged: one part, pieces of lines cut at some bytes."""
    headers = headers_of([file])
    task = Task(Facts(headers=headers, parts=1, has_base_log=True, written=frozenset("v")), 1_000, False)
    pieces: list[Split] = []
    for start, end in zip([0, *cuts], [*cuts, file.stat().st_size], strict=True):
        pieces.append(Split(len(pieces), file, start, end, 1_000, tuple(pieces)))
    found = [item for piece in pieces for item in task.route(piece)]
    base, write = ([carried for side, carried in found if side == one] for one in (BASE, WRITE))
    return task, base, write


def test_workers_do_not_load_pandas(tmp_path: Path) -> None:
    file = written(tmp_path, certified(random.Random(6), "sum"))
    asked = f"""
import sys
from pathlib import Path
from tests.unit.stream.test_audit_tasks import routed
task, base, write = routed(Path({str(file)!r}), [])
(found,) = task.judge(0, [*task.accompany(base), *write])
assert not isinstance(found, Exception), found
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_a_part_refuses_is_an_answer(tmp_path: Path) -> None:
    events = certified(random.Random(6), "sum")
    calls = [
        msgspec.structs.replace(e, time=events[-1].time)
        for e in events
        if isinstance(e, ev.TestAndSetCalled | ev.TestAndSetReturned)
    ][:2]
    file = written(tmp_path, [*events[:-1], *calls, events[-1]])
    task, base, write = routed(file, [len(history_bytes(events[:-1]))])
    (refusal,) = task.judge(0, [*task.accompany(base), *write])
    assert isinstance(refusal, HistoryError)
    assert "stands there twice" in str(refusal)
    with pytest.raises(HistoryError, match="stands there twice"):
        engine._not_refused(refusal)


def test_what_base_records_are_refused_for_reaches_the_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, base, write = routed(written(tmp_path, certified(random.Random(6), "sum")), [])

    def refused(*_: Any) -> Iterator[Any]:
        raise AssumptionError("no such column", where="r", next_step="look")
        yield

    monkeypatch.setattr(engine, "companions", refused)
    (refusal,) = task.judge(0, [*task.accompany(base), *write])
    assert isinstance(refusal, AssumptionError)
    assert (refusal.what, refusal.where, refusal.next_step) == ("no such column", "r", "look")


@pytest.mark.parametrize("name", ["empty.ndjson", "empty.parquet", "torn.parquet"])
def test_files_that_are_no_history_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PAR1 and nothing more" if name.startswith("torn") else b"")
    with pytest.raises(HistoryError) as refusal:
        engine.in_tasks(SPARK, files_of(tmp_path), budget=1_000, events_a_part=10)
    assert str(tmp_path / name) in str(refusal.value)


def test_a_value_that_is_none_of_its_type_is_a_mistake_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 4, as everywhere; not 2, as for a view that cannot be."""

    def refused(*_: Any, **__: Any) -> Any:
        raise SpecificationError("'four' is no decimal")

    monkeypatch.setattr(engine, "_in_tasks", refused)
    file = written(tmp_path, certified(random.Random(6), "sum"))
    with pytest.raises(HistoryError, match="is no decimal"):
        engine.in_tasks(SPARK, [file], budget=1, events_a_part=10)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no history file there"):
        engine.audit(SPARK, [tmp_path], budget=1_000)
