"""`cvs audit` and `cvs report` from files: words, exit codes, JSON, damaged input."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zstandard

from cvs.checker.classify import nothing_shown
from cvs.checker.verdict import Verdict
from cvs.cli import run
from cvs.errors import ExitCode, SpecificationError
from cvs.history import events as ev
from cvs.model.definitions import definition_to_json
from cvs.model.expressions import Column
from cvs.model.views import BaseTable, Join, Named, Project, ViewDefinition
from cvs.report.audit import audit, audit_events
from cvs.report.hand import judge_events
from cvs.report.summary import summarize
from cvs.report.text import screen
from cvs.stream.recorded import Recorded
from tests.agree.problems import Recorder
from tests.stories.views import VIEWS, R, S
from tests.unit.report.sample import good, lines, violated

Output = pytest.CaptureFixture[str]


@pytest.fixture
def bad_run(tmp_path: Path) -> Path:
    path = tmp_path / "bad.ndjson"
    path.write_bytes(lines(violated()))
    return path


@pytest.fixture
def good_run(tmp_path: Path) -> Path:
    path = tmp_path / "good.ndjson"
    path.write_bytes(lines(good()))
    return path


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], ExitCode.MET),
        (["--expect", "complete"], ExitCode.MET),
        (["--expect-view", "complete"], ExitCode.MET),
        (["--expect", "splendid"], ExitCode.USAGE),
        (["--view", "other"], ExitCode.USAGE),
        (["--reference", "dreamt"], ExitCode.USAGE),
    ],
)
def test_exit_codes_of_a_good_run(
    arguments: list[str], code: ExitCode, good_run: Path, capsys: Output
) -> None:
    assert run(["audit", str(good_run), *arguments]) == code
    out, err = capsys.readouterr()
    assert ("level: complete" in out) == (code == ExitCode.MET)
    assert ("error:" in err) == (code != ExitCode.MET)


def test_a_violated_expectation_is_told_worst_first(bad_run: Path, capsys: Output) -> None:
    assert run(["audit", str(bad_run), "--expect-view", "weak"]) == ExitCode.VIOLATED
    text = capsys.readouterr().out
    assert "weak                     VIOLATED" in text
    assert "which is the view of no base state at all" in text
    assert "1 torn window," in text
    assert len(text.splitlines()) < 45
    assert text.rstrip().splitlines()[-1].lstrip().startswith("Details:")


def test_undecided_is_not_a_pass(good_run: Path, capsys: Output) -> None:
    cut = good_run.with_name("cut.ndjson")
    cut.write_bytes(b"\n".join(good_run.read_bytes().splitlines()[:-1]) + b"\n")
    assert run(["audit", str(cut), "--expect", "weak"]) == ExitCode.UNDECIDED
    assert "did not say that it came to rest" in capsys.readouterr().out


def test_json_says_the_same_with_digests_and_the_reference(bad_run: Path, capsys: Output) -> None:
    run(["audit", str(bad_run), "--expect", "weak", "--json"])
    envelope = json.loads(capsys.readouterr().out)
    result = envelope["result"]
    assert result["reference"] == "writers"
    assert len(result["files"][0]["digest"]) == 71
    assert {g["granularity"] for g in result["granularities"]} == {"record", "view"}
    assert envelope["exit_code"] == result["exit_code"]


def test_diff_names_what_changed(bad_run: Path, good_run: Path, capsys: Output) -> None:
    assert run(["audit", "--diff", str(good_run), str(bad_run)]) == ExitCode.VIOLATED
    assert "view weak: holds -> violated" in capsys.readouterr().out
    assert run(["audit", "--diff", str(good_run), str(good_run)]) == ExitCode.MET


def test_the_verdict_of_a_recording_is_compared_too(
    good_run: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "no history file there" of the folder into which `cvs run` records."""
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "epochs-1-1.log").write_bytes(b"")
    judged: list[tuple[Path, ...]] = []

    def recording(runs: tuple[Path, ...], *_: Any, **__: Any) -> Any:
        judged.append(runs)
        return audit([good_run])[0]

    monkeypatch.setattr("cvs.cli.audit._recording", recording)
    assert run(["audit", "--diff", str(folder), str(good_run)]) == ExitCode.MET
    assert judged == [(folder,)]


def test_a_folder_without_histories_is_named(tmp_path: Path, capsys: Output) -> None:
    assert run(["audit", str(tmp_path)]) == ExitCode.BAD_INPUT
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
def test_compressed_histories(pack: object, good_run: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.ndjson.z"
    packed.write_bytes(pack(good_run.read_bytes()))  # type: ignore[operator]
    assert run(["audit", str(packed), "--expect", "complete"]) == ExitCode.MET


def test_what_convert_writes_audit_reads(good_run: Path, tmp_path: Path, capsys: Output) -> None:
    target = tmp_path / "run.parquet"
    assert run(["convert", str(good_run), "--to", str(target)]) == ExitCode.MET
    assert run(["audit", str(target), "--expect", "complete"]) == ExitCode.MET
    target.write_bytes(target.read_bytes()[:200])
    assert run(["audit", str(target)]) == ExitCode.BAD_INPUT
    assert "damaged Parquet" in capsys.readouterr().err


def test_what_is_no_file_is_said(tmp_path: Path, capsys: Output) -> None:
    assert run(["audit", str(tmp_path / "none")]) == ExitCode.BAD_INPUT
    assert run(["audit", str(tmp_path)]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.count("error:") == 2


def test_a_page_is_written_beside_the_run(bad_run: Path) -> None:
    assert run(["report", str(bad_run)]) == ExitCode.MET
    text = (bad_run.parent / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("</script>") == 2


def test_a_window_judges_what_had_happened_by_then(tmp_path: Path, capsys: Output) -> None:
    """The torn run was fine until its last writes; its times are tens of nanoseconds."""
    events = violated()
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(events))
    assert run(["audit", str(path), "--expect-view", "weak"]) == ExitCode.VIOLATED
    early = str((events[6].time - events[0].time) / 1e9)
    assert run(["audit", str(path), "--to", early, "--expect-view", "weak"]) == ExitCode.UNDECIDED
    capsys.readouterr()
    assert run(["audit", str(path), "--from", "9"]) == ExitCode.BAD_INPUT  # at rest: nothing is left to judge
    assert run(["audit", str(path), "--from", early]) != ExitCode.MET
    assert "no rest" in capsys.readouterr().err


def declared(events: list[Any]) -> list[Any]:
    """Declare the table, its key a column of the row."""
    columns = (("k", "text"), ("x", "text"), ("y", "int"))
    table = definition_to_json(BaseTable(name="r", columns=columns, partition_key=("k",)))
    changed = []
    for event in events:
        if isinstance(event, ev.RunStarted):
            event = msgspec.structs.replace(event, tables=(table,))
        if isinstance(event, ev.BaseUpdateCalled) and event.row is not None:
            event = msgspec.structs.replace(event, row={"k": event.key[0], **event.row})
        changed.append(event)
    return changed


def test_the_verdict_survives_redaction(tmp_path: Path, capsys: Output) -> None:
    path, key, hidden = (tmp_path / name for name in ("run.ndjson", "key", "hidden.ndjson"))
    path.write_bytes(lines(declared(violated())))
    key.write_bytes(b"secret" * 8)
    assert run(["convert", str(path), "--redact", str(key), "--to", str(hidden)]) == ExitCode.MET
    assert b"script" not in hidden.read_bytes()
    for arguments in (["--expect-view", "weak"], ["--expect", "complete"]):
        assert run(["audit", str(hidden), *arguments]) == run(["audit", str(path), *arguments])
    capsys.readouterr()
    told = []
    for file in (path, hidden):
        run(["audit", str(file), "--json"])
        result = json.loads(capsys.readouterr().out)["result"]
        told.append([(p["property"], p["verdict"]) for g in result["granularities"] for p in g["properties"]])
    assert told[0] == told[1]


def test_a_rolled_history_is_judged_from_its_checkpoint(tmp_path: Path, capsys: Output) -> None:
    """What was wrong before the rest went with what was dropped; what came after is judged from there."""
    recorder = Recorder()
    recorder.named("rolling", definition_to_json(VIEWS["sum"]))
    for number, shown in enumerate((99, 2), 1):
        recorder.base(f"k{number}", {"x": "a", "y": 1})
        recorder.write("a", {"x": "a", "sum": shown}, [(f"k{number}", 0, 1)])
    recorder.rest()
    recorder.base("k1", {"x": "a", "y": 5})
    recorder.write("a", {"x": "a", "sum": 6}, [("k1", 1, 2)])
    path, rolled = tmp_path / "run.ndjson", tmp_path / "rolled.ndjson"
    path.write_bytes(lines(recorder.rest()))
    assert run(["convert", str(path), "--roll", "--to", str(rolled)]) == ExitCode.MET
    assert run(["audit", str(path), "--expect", "weak"]) == ExitCode.VIOLATED
    capsys.readouterr()
    assert run(["audit", str(rolled), "--expect", "complete", "--expect-view", "complete"]) == ExitCode.MET
    assert "level: complete" in capsys.readouterr().out


def test_a_run_that_shows_nothing_is_no_pass(tmp_path: Path, capsys: Output) -> None:
    """Epochs went by, and base updates perhaps, but no view was written or read."""
    for changes in (0, 2):
        recorder = Recorder()
        recorder.named("idle", definition_to_json(VIEWS["sum"]))
        for number in range(changes):
            recorder.base(f"k{number}", {"x": "a", "y": 1})
        for epoch in range(3):
            recorder.events.append(
                ev.EpochCommitted(process="m", time=recorder.tick(), pipeline="p", incarnation=1, epoch=epoch)
            )
        path = tmp_path / f"idle{changes}.ndjson"
        path.write_bytes(lines(recorder.rest()))
        assert run(["audit", str(path), "--expect", "strong"]) == ExitCode.BAD_INPUT
        told = capsys.readouterr()
        assert "there is nothing to judge" in told.err
        assert "level:" not in told.out


def test_test_and_sets_can_be_judged_by_others(bad_run: Path, capsys: Output) -> None:
    edn = bad_run.with_name("run.edn")
    assert run(["convert", str(bad_run), "--to", str(edn)]) == ExitCode.MET
    capsys.readouterr()
    assert run(["audit", str(edn), "--json"]) == ExitCode.MET
    assert json.loads(capsys.readouterr().out)["result"]["linearizability"] == "holds"


@pytest.mark.parametrize(
    "arguments",
    [["--engine", "abacus"], ["--engine", "spark", "--to", "1"], ["--engine", "spark", "--view", "v"]],
)
def test_what_an_engine_cannot_do_is_said_before_it_starts(
    arguments: list[str], good_run: Path, capsys: Output
) -> None:
    assert run(["audit", str(good_run), *arguments]) == ExitCode.USAGE
    assert "next:" in capsys.readouterr().err


def _damaged(name: str, folder: Path) -> Path:
    """Return a path at which no history is."""
    data, path = lines(good()), folder / f"{name}.ndjson"
    if name == "folder":
        (folder / name).mkdir()
        return folder / name
    if name == "runs":
        path.write_bytes(data)
        path.with_name("other.ndjson").write_bytes(data.replace(b'"run":"', b'"run":"not '))
        return folder
    bad = {"torn": data[:-10], "empty": b"", "text": b"one line", "field": data.replace(b'"row"', b'"rowx"')}
    path.write_bytes(bad[name])
    return path


SMALL_AND_BAD = [(name, False) for name in ("torn", "empty", "text", "field", "folder", "runs")]
LARGE_AND_BAD = [
    (name, True) for name in ("empty", "text", "folder", "runs")
]  # others a task meets, behind headers


@pytest.mark.parametrize(("name", "large"), SMALL_AND_BAD + LARGE_AND_BAD)
def test_pieces_of_what_is_no_history_are_refused_before_spark_starts(
    name: str, large: bool, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks ended with Spark's stack, an empty file or folder as a mistake of ours, and no file was named."""
    monkeypatch.setattr("cvs.report.load.WHOLE", -1 if large else 1_000)
    monkeypatch.setattr("cvs.stream.spark.spark_session", _no_session)
    path = _damaged(name, tmp_path)
    assert run(["audit", str(path), "--engine", "spark"]) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert name == "folder" or str(tmp_path) in told


@pytest.mark.parametrize("stays", [False, True])
def test_what_is_wrong_with_a_large_run_is_told_with_its_file(
    stays: bool, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said `$[7865]`, the place in a block, and neither file nor line."""
    path = _damaged("field", tmp_path)
    monkeypatch.setattr("cvs.report.audit.LARGE", -1)
    if stays:
        monkeypatch.setattr("cvs.report.load.QUICK", 500)
    assert run(["audit", str(path)]) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert (str(path) if stays else "base_update_called has no field") in told
    assert "$[" not in told


@pytest.mark.parametrize("columns", [False, True])
def test_an_outcome_that_is_none_is_told_of_a_large_file(
    columns: bool, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read block by block, its events are examined one by one only where a line is wrong by itself."""
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(good()).replace(b'"outcome":"applied"', b'"outcome":"fine"', 3))
    monkeypatch.setattr("cvs.report.load.QUICK", 500)
    monkeypatch.setattr("cvs.report.audit.LARGE", -1 if columns else 1_000)
    assert run(["audit", str(path)]) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert '"fine" is no outcome' in told
    assert str(path) in told


def _no_session(_master: str) -> None:
    pytest.fail("it starts")


def test_what_is_left_over_of_a_large_run_is_told_with_what_was_seen(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a view that columns do not know; a certificate that is not true is told with its line."""
    monkeypatch.setattr("cvs.report.audit.LARGE", -1)
    run_of = Recorder()
    run_of.named("run", definition_to_json(VIEWS["min"]))
    for number, (group, smallest) in enumerate((("a", 5), ("b", 7), ("b", 1), ("c", 7))):
        run_of.base(f"k{number}", {"x": group, "y": 5 if number == 0 else 7})
        run_of.write(group, {"x": group, "min": smallest}, [(f"k{number}", 0, 1)])
    run_of.write("a", {"x": "a", "min": 5}, [("k0", 0, 1)])
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(run_of.rest()))
    assert run(["audit", str(path)]) == ExitCode.VIOLATED
    text = capsys.readouterr().out
    assert "it showed (min=1, x='b')" in text
    assert 'the whole of view "v" is not converged: a record is not' in text
    assert run(["audit", str(path), "--finding", "certificates"]) == ExitCode.VIOLATED
    assert "its certificate takes r 'k0' from version 0 to 1: absorbed before" in capsys.readouterr().out


def test_the_order_absorbed_is_not_made_up(good_run: Path, capsys: Output) -> None:
    """Where nothing says what was handed to managers, every update was taken for one that nobody absorbed."""
    assert run(["audit", str(good_run), "--reference", "absorbed"]) == ExitCode.BAD_INPUT
    assert "no update_received" in capsys.readouterr().err


BY_TEXT = ViewDefinition(
    name="v",
    relation=Project(
        source=Join(kind="inner", left=R, right=S, on=((Column("r.y"), Column("s.k")),)),
        columns=(Named(name="x", expression=Column("r.x")), Named(name="z", expression=Column("s.z"))),
    ),
    key=("x",),
)


@pytest.mark.parametrize("name", ["sum", "min", "join"])
def test_what_no_table_can_hold_is_not_missing_from_a_recorded_view(name: str, tmp_path: Path) -> None:
    """It is in quarantine: it was called not converged, and its whole key was printed again and again."""
    run, long = Recorder(), "x" * 70_000
    run.named("long", definition_to_json(BY_TEXT if name == "join" else VIEWS[name]))
    run.base("one", {"k": 1, "z": 1}, table="s")
    run.base("k1", {"x": "a", "y": 1})
    run.write("a", {"x": "a", "z" if name == "join" else name: 1}, [("k1", 0, 1)])
    run.base("k2", {"x": long, "y": 1})
    run.write(long, None, [("k2", 0, 1)])  # as a pipeline records it
    events = run.rest()
    document, found = audit_events(events, files=[], reference="writers")
    assert found.level("record").proved == "complete"
    assert found.level("view").proved == "complete"
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines(_received(events)))
    assert audit([path], reference="absorbed")[1].level("view").proved == "complete"
    elsewhere = judge_events(events)
    assert elsewhere.level("record").not_refuted == "not converged"
    told = screen(summarize(elsewhere, [], {}), paths="run")
    assert "(70,002 characters)" in told
    assert len(told) < 5_000
    assert document["exit_code"] == ExitCode.MET
    (bad,) = (f for f in elsewhere.of("converged", "record") if f.verdict is Verdict.VIOLATED)
    assert bad.key == (long,)


def _received(events: list[Any]) -> list[Any]:
    """Say of each base update that a manager was handed it, as a converted recording does."""
    found: list[Any] = []
    for event in events:
        found.append(event)
        if isinstance(event, ev.BaseUpdateCalled):
            told = ev.UpdateReceived(
                process=event.process, time=event.time, stream="s", entry=len(found), table=event.table, key=event.key,
                version=event.version, attempt=1,
            )  # fmt: skip
            found.append(told)
    return found


def test_a_recording_that_begins_later_shows_no_long_key_either() -> None:
    """Its checkpoint is computed, with what no table holds: the view was said to have shown that."""
    run, long = Recorder(), "x" * 70_000
    run.named("long", definition_to_json(VIEWS["sum"]))
    row = {"x": long, "y": 1}
    start = ev.Checkpoint(
        process="w",
        time=0,
        base=(("r", ("k1",), 1, row),),
        views=(("v", (long,), (0, 1, 0, True), {"x": long, "sum": 1}),),
    )
    version = run.base("k2", {"x": "a", "y": 3})
    run.write("a", {"x": "a", "sum": 3}, [("k2", version - 1, version)])
    header, *events = run.rest()
    _, found = audit_events([header, start, *events], files=[], reference="writers")
    assert found.level("record").proved == found.level("view").proved == "complete"


def test_a_long_key_that_was_shown_is_judged() -> None:
    run, long = Recorder(), "x" * 70_000
    run.named("long", definition_to_json(VIEWS["sum"]))
    run.base("k1", {"x": long, "y": 1})
    run.write(long, {"x": long, "sum": 2}, [("k1", 0, 1)])
    _, found = audit_events(run.rest(), files=[], reference="writers")
    assert found.level("record").not_refuted == "not converged"


def test_a_long_key_may_be_a_tuple() -> None:
    """Its parts were not counted: the pipeline had it in quarantine, and the judge missed it."""
    run, long = Recorder(), (1, "x" * 70_000)
    run.named("long", definition_to_json(replace(VIEWS["sum"], partition=1)))
    run.base("k1", {"x": long, "y": 1})
    run.write(long, None, [("k1", 0, 1)])
    _, found = audit_events(run.rest(), files=[], reference="writers")
    assert found.level("record").proved == found.level("view").proved == "complete"


def test_a_recording_of_views_built_since_says_so(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that no read is recorded, of folders full of the records of views that are served no more."""
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "epochs-1.log").touch()
    monkeypatch.setattr("cvs.cli.recorded.epochs", lambda _: [SimpleNamespace(incarnation=1)])

    def refuse(*_: object, **__: object) -> None:
        raise nothing_shown()

    monkeypatch.setattr("cvs.cli.recorded.judged_recording", refuse)
    found = Recorded(events=[], incarnation=2, first=1, last=4, left_out=0)
    monkeypatch.setattr("cvs.cli.recorded.history_of_recording", lambda *_, **__: found)
    for command in ("audit", "report"):
        assert run([command, str(runs)]) == ExitCode.BAD_INPUT
        told = capsys.readouterr().err
        assert "since incarnation 2 of the views was built; what is recorded of incarnation 1" in told
        assert str(runs) in told


def test_an_expectation_of_what_is_not_recorded_is_told(tmp_path: Path, capsys: Output) -> None:
    """Of reads of the whole view alone nothing is said by view record: it was undecided without a word."""
    run_of = Recorder()
    run_of.named("reads", definition_to_json(VIEWS["sum"]))
    run_of.base("k1", {"x": "a", "y": 1})
    *events, rest = run_of.rest()
    called = ev.ViewReadCalled(process="m", time=rest.time + 1, operation=99, view="v", view_key=None)
    seen = ((("a",), {"x": "a", "sum": 1}),)
    returned = ev.ViewReadReturned(process="m", time=rest.time + 2, operation=99, rows=seen)
    path = tmp_path / "run.ndjson"
    path.write_bytes(lines([*events, rest, called, returned]))
    assert run(["audit", str(path), "--expect", "strong"]) == ExitCode.UNDECIDED
    assert "level by view record: --expect is undecided. Ask --expect-view." in capsys.readouterr().out
    assert run(["audit", str(path), "--expect-view", "strong"]) == ExitCode.MET
    assert "undecided. Ask" not in capsys.readouterr().out


def test_a_run_of_one_write_that_nobody_heard_of_again_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that was there moved and moved back, and not one write that certainly took effect."""
    monkeypatch.setattr("cvs.report.hand.SMALL", 0)
    run = Recorder()
    run.named("run", definition_to_json(VIEWS["rows"]))
    row = {"k": "k0", "x": 0, "y": 0}
    known = ev.Checkpoint(
        process="w", time=1, base=(("r", ("k0",), 1, row),), views=(("v", ("k0",), (0, 1, 0, True), row),)
    )
    run.versions["r", "k0"] = 1
    run.base("k0", {**row, "y": 1})
    run.base("k0", row)
    run.base("k1", {"k": "k1", "x": 0, "y": 0})
    run.write_record(("k1",), {"k": "k1", "x": 0, "y": 0}, [("k1", 0, 1)], expected=None, new=(0, 3, 0, True))
    *start, lost, rest = run.rest()
    assert isinstance(lost, ev.TestAndSetReturned)
    place = next(i for i, e in enumerate(start) if isinstance(e, ev.BaseUpdateCalled))
    events = [*start[:place], known, ev.Quiescent(process="w", time=1), *start[place:], rest]
    _, judgement = audit_events(events, files=[], reference="writers")
    assert {f.verdict for f in judgement.of("complete", "record")} == {Verdict.VIOLATED, Verdict.UNDECIDED}


def test_a_large_run_of_which_one_view_is_asked_is_judged_as_the_whole_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In bulk, of that view alone; a name that nobody declared is refused all the same."""
    monkeypatch.setattr("cvs.report.hand.SMALL", 0)
    monkeypatch.setattr("cvs.report.audit.LARGE", 0)
    monkeypatch.setattr("cvs.report.hand.LARGE", 0)
    run, other = Recorder(), definition_to_json(replace(VIEWS["rows"], name="w"))
    run.named("run", definition_to_json(VIEWS["rows"]))
    first, *started = run.events
    for number in range(3):
        row = {"k": f"k{number}", "x": 0, "y": 0}
        run.base(f"k{number}", row)
        run.write_record((f"k{number}",), row, [(f"k{number}", 0, 1)], expected=None, new=(0, 1, 0, True))
    *events, rest = run.rest()[1 + len(started) :]
    writes = [e for e in events if isinstance(e, ev.TestAndSetCalled | ev.TestAndSetReturned)]
    again = [msgspec.structs.replace(e, operation=e.operation + 100, time=e.time + 1_000) for e in writes]
    others = [
        msgspec.structs.replace(e, view="w") if isinstance(e, ev.TestAndSetCalled) else e for e in again
    ]
    both = msgspec.structs.replace(first, views=(*first.views, other))
    late = msgspec.structs.replace(rest, time=10_000)
    events = [both, *started, *events, *others[2:], late]  # the first row is missing in w
    for view, verdict in (("v", Verdict.HOLDS), ("w", Verdict.VIOLATED)):
        with monkeypatch.context() as patched:
            patched.delattr("cvs.report.hand.judge_events")
            _, judgement = audit_events(events, files=[], reference="writers", views=[view])
        assert {f.view for f in judgement.findings} == {view}
        assert {f.verdict for f in judgement.of("converged", "view")} == {verdict}
    with pytest.raises(SpecificationError, match="no view x in this run"):
        audit_events(events, files=[], reference="writers", views=["x"])


def test_how_many_stay_undecided_beside_what_is_violated_is_said() -> None:
    document, _ = audit_events(violated(), files=[], reference="writers")
    found = next(p for g in document["granularities"] for p in g["properties"] if p["verdict"] == "violated")
    found["undecided"] += 7
    found["worst"]["reason"] = ""
    assert "(7 undecided)" in screen(document, paths="run.ndjson")


def test_a_recording_with_a_key_that_is_too_long_is_judged_in_bulk_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One row whose key no table can hold sent recordings of any size to the exact judge."""
    run = Recorder()
    run.named("run", definition_to_json(VIEWS["rows"]))
    for key in ("k0", "x" * 66_000, "k1"):
        row = {"k": key, "x": 0, "y": 0}
        run.base(key, row)
        if key != "k1":
            run.base(key, {**row, "y": 1})
        if len(key) == 2:
            shown = {**row, "y": int(key == "k0")}
            lines = [(key, 0, 2 if key == "k0" else 1)]
            run.write_record((key,), shown, lines, expected=None, new=(0, 1, 0, True))
    events = run.rest()
    _, exact = audit_events(events, files=[], reference="writers")
    monkeypatch.setattr("cvs.report.hand.SMALL", 0)
    monkeypatch.setattr("cvs.report.hand.LARGE", 0)
    monkeypatch.delattr("cvs.report.hand.judge_events")
    _, bulk = audit_events(events, files=[], reference="writers")
    for level in ("converged", "weak", "strong", "complete"):
        for granularity in ("record", "view"):
            ours, theirs = ({f.verdict for f in it.of(level, granularity)} for it in (bulk, exact))
            assert ours == theirs, (level, granularity)
    assert {f.verdict for f in bulk.of("converged", "view")} == {Verdict.HOLDS}
