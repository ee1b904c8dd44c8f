"""Damaged files of every form, by the thousand: a verdict, or a message and exit code 4; never a traceback."""

import gzip
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from cvs.checker.export import jepsen_edn
from cvs.cli import run
from cvs.errors import ExitCode
from cvs.history.parquet import batches_of, schema
from cvs.report import audit as audits
from tests.unit.report.sample import good, lines, violated

VERDICTS = {ExitCode.MET, ExitCode.VIOLATED, ExitCode.UNDECIDED}
CONSOLE = (
    "INFO  jepsen.util - 0\t:invoke\t:write\t3\n"
    "INFO  jepsen.util - 1\t:invoke\t:cas\t[3 4]\n"
    "INFO  jepsen.util - 0\t:ok\t:write\t3\n"
    "INFO  jepsen.util - 1\t:ok\t:cas\t[3 4]\n"
    "INFO  jepsen.util - 2\t:invoke\t:read\tnil\n"
    "INFO  jepsen.util - 2\t:ok\t:read\t4\n"
)


OTHERS = (
    b"7",
    b"-3",
    b"123456789",
    b"9" * 18,
    b"9" * 19,
    b"9" * 40,
    b"1.5",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'"a"',
)
"""Put where a digit was: the line is often still one."""


def whole_files() -> dict[str, bytes]:
    """Return one right file of each form."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema()) as writer:
        for batch in batches_of(good()):
            writer.write_batch(batch)
    plain = lines(violated())
    return {
        "run.ndjson": plain,
        "run.ndjson.gz": gzip.compress(plain),
        "run.ndjson.zst": zstandard.ZstdCompressor().compress(plain),
        "run.parquet": sink.getvalue().to_pybytes(),
        "run.edn": "\n".join(jepsen_edn(good())).encode(),
        "run.log": CONSOLE.encode(),
    }


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Cut, overwrite, insert, drop, double or swap bytes or lines, once or several times."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        many = chance.choice((1, 1, 4, 30))
        kind = chance.randrange(8)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + chance.randbytes(many) + data[at + many :]
        elif kind == 2:
            data = (
                data[:at]
                + chance.choice((b'"', b"{", b"]", b"\n", b"\x00", b"-1", b"9" * 30, b"null"))
                + data[at:]
            )
        elif kind == 3:
            data = data[:at] + data[at + many :]
        elif kind == 7:
            digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
            at = chance.choice(digits) if digits else 0
            data = data[:at] + chance.choice(OTHERS) + data[at + 1 :]
        else:
            split = data.split(b"\n")
            one, other = chance.randrange(len(split)), chance.randrange(len(split))
            if kind == 4:
                split[one], split[other] = split[other], split[one]
            elif kind == 5:
                split.insert(one, split[other])
            else:
                del split[one]
            data = b"\n".join(split)
    return data


def fuzzed(
    folder: Path, seed: int, cases: int, capsys: pytest.CaptureFixture[str], large: Any
) -> dict[str, int]:
    chance, files = random.Random(seed), whole_files()
    counts: dict[str, int] = dict.fromkeys(("verdict", "refused"), 0)
    for number in range(cases):
        name = chance.choice(list(files))
        data = damaged(chance, files[name])
        path = folder / name
        path.write_bytes(data)
        large.setattr(audits, "LARGE", 3 if number % 2 else 20_000)  # so that the columns are fuzzed too
        command: list[Any] = ["audit", str(path), "--budget", "2000"]
        code = run(command if number % 5 else ["convert", str(path)])
        err = capsys.readouterr().err
        assert code in VERDICTS | {ExitCode.BAD_INPUT}, (seed, number, name, code, err)
        assert "Traceback" not in err, (seed, number, name)
        assert code in VERDICTS or "error:" in err, (seed, number, name)
        counts["verdict" if code in VERDICTS else "refused"] += 1
    return counts


def test_damaged_files_end_in_a_verdict_or_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = fuzzed(tmp_path, 1, 150, capsys, monkeypatch)
    assert min(counts.values()) > 10, counts


@pytest.mark.slow
def test_thousands_of_damaged_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, cases = int(os.environ.get("CVS_SEED", "2")), int(os.environ.get("CVS_EXAMPLES", "3000"))
    counts = fuzzed(tmp_path, seed, cases, capsys, monkeypatch)
    assert sum(counts.values()) == cases
