"""Files that stay on disk, and columns that are skipped, make no difference to what is read."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from cvs.checker.bulk import bulk_of
from cvs.cli import run
from cvs.errors import ExitCode, HistoryError
from cvs.history import arrow
from cvs.history import events as ev
from cvs.history.codec import digest
from cvs.history.parquet import batches_of, schema
from cvs.model.definitions import view_from_json
from cvs.report import load
from cvs.report.audit import audit
from tests.unit.report.sample import good, lines, violated


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every file of lines where it is, and read it in small blocks."""
    monkeypatch.setattr("cvs.report.load.QUICK", 200)
    monkeypatch.setattr("cvs.history.columns.BLOCK", 300)


def judged(path: Path, monkeypatch: pytest.MonkeyPatch, *, large: bool) -> dict[str, Any]:
    """Judge a file, as one of the large ones if that is wanted."""
    monkeypatch.setattr("cvs.report.audit.LARGE", -1 if large else 1 << 30)
    document, _ = audit([path])
    return document


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("events", [good, violated])
def test_a_file_that_stays_on_disk_is_judged_as_one_in_memory(
    events: Any, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(events()))
    before = judged(path, monkeypatch, large=large)
    request.getfixturevalue("on_disk")
    (source,) = load.sources_of([path])
    assert source.stays
    assert len(source.data) < path.stat().st_size
    assert judged(path, monkeypatch, large=large) == before


@pytest.mark.usefixtures("on_disk")
def test_what_is_written_after_the_digest_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    data = lines(good())
    path.write_bytes(data)
    (source,) = load.sources_of([path])
    with path.open("ab") as file:
        file.write(b'{"event":"quiescent","process":"w","time":9')
    assert source.content() == data
    assert source.described == {"file": str(path), "digest": digest(data), "bytes": len(data)}


@pytest.mark.usefixtures("on_disk")
def test_a_torn_line_of_a_file_on_disk_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.ndjson"
    data = lines(good())
    path.write_bytes(data[:-10])
    last = data.count(b"\n")
    assert run(["audit", str(path)]) == ExitCode.BAD_INPUT
    assert f"{path}:{last}:" in capsys.readouterr().err


@pytest.mark.parametrize("statistics", [True, False])
def test_columns_that_are_null_everywhere_are_skipped(
    statistics: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, path = tmp_path / "run.ndjson", tmp_path / "run.parquet"
    plain.write_bytes(lines(violated()))
    with pq.ParquetWriter(path, schema(), write_statistics=statistics) as writer:
        for batch in batches_of(violated()):
            for start in range(0, batch.num_rows, 5):
                writer.write_batch(batch.slice(start, 5))
    (source,) = load.sources_of([path])
    read = [batch.schema.names for batch in load._batches(source, arrow.COLUMNS, few=arrow.DICTIONARIES)]
    assert ("epoch" in read[0]) is not statistics
    assert ("views" in read[-1]) is not statistics
    assert "views" in read[0]
    bulk = bulk_of(source.headers(), view_from_json, {})
    other = bulk_of(source.headers(), view_from_json, {})
    told = load.columns_of([source], bulk, {})
    same = load.columns_of(load.sources_of([plain]), other, {})
    assert (told.records, told.bases, told.kinds) == (same.records, same.bases, same.kinds)
    one, two = (judged(each, monkeypatch, large=True) for each in (path, plain))
    assert {**one, "files": ()} == {**two, "files": ()}


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_a_key_of_other_parts_than_its_view_has_is_refused_in_large_files_too(
    read: bool, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = violated()
    write = next(it for it in events if isinstance(it, ev.TestAndSetCalled))
    if read:
        ends = events[-1].time
        events += [
            ev.ViewReadCalled(process="r", time=ends, operation=1, view=write.view, view_key=None),
            ev.ViewReadReturned(process="r", time=ends, operation=1, rows=((("a", "b"), {}),)),
        ]
    else:
        events[events.index(write)] = msgspec.structs.replace(write, view_key=("a", "b"))
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(events))
    with pytest.raises(HistoryError, match="has 1 part, not 2") as refusal:
        judged(path, monkeypatch, large=large)
    assert "cvs convert" in str(refusal.value)
