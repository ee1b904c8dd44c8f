"""`cvs audit` and `cvs report` from files: words, exit codes, JSON, damaged input."""

import gzip
import json
import random
from pathlib import Path

import pytest
import zstandard

from cvs.cli import run
from cvs.errors import ExitCode
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
    assert "1 torn windows" in text
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


def test_damaged_files_end_in_a_message_and_code_4(bad_run: Path, tmp_path: Path, capsys: Output) -> None:
    whole = bad_run.read_bytes()
    packed = gzip.compress(whole)
    chance = random.Random(4)
    target = tmp_path / "damaged.ndjson"
    codes: dict[int, int] = {}
    for number in range(300):
        data = bytearray(packed if number % 5 == 0 else whole)
        if number % 2:
            del data[chance.randrange(len(data)) :]
        for _ in range(chance.randint(1, 6)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        target.write_bytes(bytes(data))
        code = run(["audit", str(target)])
        out, err = capsys.readouterr()
        assert code in (0, 1, 3, 4), (code, err)
        assert (code == 4) == err.startswith("error: "), err
        assert "Traceback" not in out + err
        codes[code] = codes.get(code, 0) + 1
    assert codes[4] > 200


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
