"""How fast the judge is, beside Porcupine in the same run: `make bench B=judge` (with --small, in a minute; with
--part audit, epochs, writes, registers or spark, a part of it).

Everything is made here: certified histories as NDJSON, versioned test-and-sets as plain lines that both
sides read, register logs with non-unique values and one percent unknown outcomes. Ours runs in a process of
its own for each case, so that peak memory is of that case alone. Compare ratios on one machine, never
seconds across machines.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from bench_judge.certified import write_lines, write_parquet
from bench_judge.epochs import EPOCH, write_epochs
from bench_judge.plot import drawn
from bench_judge.shop import write_shop
from bench_judge.tree import Tree

from cvs.checker.columns import chains
from cvs.checker.foreign import parse
from cvs.checker.search import linearizable
from cvs.checker.verdict import worst
from cvs.history.operations import Operations
from cvs.history.packing import NONE

HERE = Path(__file__).resolve().parent
BESIDE = HERE.parents[1] / "shared" / "histories" / "porcupine"
LOGS = BESIDE if BESIDE.exists() else HERE.parent / "tests" / "histories" / "porcupine"
HEAP = "1g"  # of the JVM that drives Spark's tasks and carries what they exchange
LOCAL_MOST = 10_000_000  # test-and-sets that the local engine holds in this machine's memory
SUFFIX = {"lines": ".ndjson", "parquet": ".parquet"}
KEEP = ONLY_MADE = False
PLOT = HERE.parent / "cvs" / "checker" / "cost.svg"


def versioned(path: Path, operations: int, keys: int, clients: int, *, stale: bool) -> None:
    """Versioned test-and-sets: lines `key called returned expected new`; overlapping as far as clients go."""
    chance = random.Random(2)
    version = [0] * keys
    with path.open("w") as file:
        for number in range(operations):
            key = chance.randrange(keys)
            point = number * 100
            called, returned = (
                point - chance.randrange(100 * clients),
                point + chance.randrange(1, 100 * clients),
            )
            if stale and number == operations // 2:
                called, returned = point + 200_000 * 100, point + 200_001 * 100
            file.write(f"{key} {called} {returned} {version[key]} {version[key] + 1}\n")
            version[key] += 1


def registers(path: Path, operations: int, clients: int) -> None:
    """A console log of one register: few values, so nothing is unique; one percent of outcomes unknown."""
    chance = random.Random(3)
    value: Any = None
    lines: list[str] = []
    pending: dict[int, tuple[str, str, str]] = {}
    names = list(range(clients))
    fresh = clients
    while len(lines) < 2 * operations:
        place = chance.randrange(clients)
        process = names[place]
        if process in pending:
            f, argument, answer = pending.pop(process)
            if answer == "info":
                lines.append(f"INFO  jepsen.util - {process}\t:info\t:{f}\t:timed-out")
                names[place], fresh = fresh, fresh + 1
            else:
                lines.append(f"INFO  jepsen.util - {process}\t:{answer}\t:{f}\t{argument}")
            continue
        f = chance.choice(("read", "write", "cas"))
        old, new = chance.randrange(5), chance.randrange(5)
        argument = {"read": "nil", "write": str(new), "cas": f"[{old} {new}]"}[f]
        lines.append(f"INFO  jepsen.util - {process}\t:invoke\t:{f}\t{argument}")
        answer = "ok"
        if f == "read":
            argument = "nil" if value is None else str(value)
        elif f == "write" or value == old:
            value = new
        else:
            answer = "fail"
        pending[process] = (f, argument, "info" if f != "read" and chance.random() < 0.01 else answer)
    path.write_text("\n".join(lines) + "\n")


def read_versioned(path: Path) -> tuple[Operations, int]:
    """Read the lines into columns; return them with the number of keys."""
    rows = np.fromstring(path.read_text(), dtype=np.int64, sep=" ").reshape(-1, 5)
    known, record = np.unique(rows[:, 0], return_inverse=True)
    zero = np.zeros(len(rows), dtype=np.int64)
    expected = np.where(rows[:, 3] == 0, NONE, rows[:, 3] << 15 | 1)
    own = {"expected": expected, "new": rows[:, 4] << 15 | 1, "seen": zero + NONE}
    found = Operations(
        owner=record,
        called=rows[:, 1],
        returned=rows[:, 2],
        outcome=zero,
        number=zero,
        answered=zero,
        own=own,
    )
    return found, len(known)


def ours(kind: str, paths: list[str]) -> None:
    """Judge in a process of its own; print seconds of parsing and checking, verdict and peak memory."""
    begin = time.perf_counter()
    if kind == "spark":
        from cvs.stream.audit import audit as in_parts
        from cvs.stream.spark import spark_session

        session = spark_session(f"local[{os.cpu_count()}]", **{"spark.driver.memory": HEAP})
        with Tree() as tree:
            judgement = in_parts(session, [Path(paths[0])], budget=200_000)
        told = {"parse": 0.0, "check": time.perf_counter() - begin, "cpu": tree.cpu}
        told["verdict"] = judgement.level().proved
        print(json.dumps({**told, "mib": round(tree.mib)}))
        session.stop()
        return
    if kind == "audit":
        from cvs.report.audit import audit

        start = time.process_time()
        document, _ = audit([Path(paths[0])])
        told = {"parse": 0.0, "check": time.perf_counter() - begin, "cpu": time.process_time() - start}
        told["verdict"] = document["granularities"][0]["level"]["proved"]
    elif kind == "tas":
        writes, many = read_versioned(Path(paths[0]))
        parsed = time.perf_counter()
        found = chains(writes, many)
        good, stale = bool(found.accepted.all()), len(found.stale) > 0
        told = {
            "parse": parsed - begin,
            "check": time.perf_counter() - parsed,
            "verdict": "Ok" if good else "Illegal" if stale else "Unknown",
        }
    else:
        parse_seconds, verdicts = 0.0, {}
        for path in paths:
            start = time.perf_counter()
            foreign = parse(Path(path).read_text(), where=path)
            parse_seconds += time.perf_counter() - start
            found = worst(
                linearizable(each, foreign.initial, budget=2_000_000).verdict
                for each in foreign.registers.values()
            )
            verdicts[path] = {"holds": "Ok", "violated": "Illegal", "undecided": "Unknown"}[found.value]
        whole = time.perf_counter() - begin
        told = {"parse": parse_seconds, "check": whole - parse_seconds, "verdict": verdicts}
    told["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(told))


def alone(kind: str, *paths: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--ours", kind, *map(str, paths)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(answer.stdout)
    return told


def porcupine(folder: Path) -> Path | None:
    """Build the driver; None where there is no Go (then only ours is measured, and the page says so)."""
    if shutil.which("go") is None:
        return None
    target = folder / "porcupine"
    subprocess.run(["go", "build", "-o", str(target), "."], cwd=HERE / "porcupine", check=True)
    return target


def theirs(driver: Path, *arguments: str, limit: int = 180, memory: int = 6 << 30) -> list[dict[str, Any]]:
    def cap() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    try:
        answer = subprocess.run(
            [str(driver), *arguments],
            capture_output=True,
            text=True,
            timeout=limit,
            preexec_fn=cap,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [{"verdict": f"more than {limit} s", "parse": 0.0, "check": float(limit)}]
    if answer.returncode:
        return [{"verdict": f"out of {memory >> 30} GiB", "parse": 0.0, "check": float("nan")}]
    return [json.loads(line) for line in answer.stdout.splitlines()]


HEADS = (
    "| case | ours parse s | ours check s | ours MiB | ours says | Porcupine parse s | check s | says |",
    "|---|---|---|---|---|---|---|---|",
)


def audits(folder: Path, *, small: bool) -> Iterable[str]:
    """Certified histories of growing size, as lines and as Parquet: time and memory grow with them (a plot)."""
    ways = {"lines": write_lines, "parquet": write_parquet}
    sizes = (10_000, 100_000) if small else (10_000, 100_000, 1_000_000)
    cases = [(form, writes) for writes in sizes for form in ways] + (
        [] if small else [("parquet", 10_000_000)]
    )
    points = {}
    for form, writes in cases:
        path = folder / f"certified-{writes}{SUFFIX[form]}"
        with made(path, ways[form], writes, min(10_000, writes // 100)):
            line, points[form, writes] = audited(path, f"{writes:,} certified test-and-sets")
            yield line
    if not small:
        drawn(PLOT, points)


def epochs_of(folder: Path, *, small: bool) -> Iterable[str]:
    """Recordings of a pipeline, whose test-and-sets absorb what an epoch has for a view record."""
    for changes in (10_000,) if small else (100_000, 1_000_000):
        path = folder / f"epochs-{changes}.ndjson"
        with made(path, write_epochs, changes, changes // 100):
            yield audited(path, f"{changes:,} base updates in epochs of {EPOCH:,}")[0]
    for changes in (10_000,) if small else (10_000, 100_000):
        path = folder / f"shop-{changes}.ndjson"
        with made(path, write_shop, changes, changes // 5):
            yield audited(path, f"{changes:,} base updates under the four views of the shop")[0]


@contextmanager
def made(path: Path, write: Callable[..., None], *arguments: int) -> Iterator[None]:
    """Make a history if it is not there yet; what was made in passing does not stay."""
    kept = path.exists()
    if not kept:
        write(path, *arguments)
    yield
    if not kept and not KEEP:
        path.unlink()


def audited(path: Path, what: str) -> tuple[str, tuple[float, float]]:
    """Judge one certified history; return its line of the table, its CPU seconds and its peak memory."""
    told = {"check": 0.0, "cpu": 0.0, "mib": 0, "verdict": "only made"} if ONLY_MADE else alone("audit", path)
    line = (
        f"| audit, {what}, {path.suffix} {path.stat().st_size >> 20} MiB | | "
        f"{told['check']:.1f} (cpu {told['cpu']:.1f}) | {told['mib']} | {told['verdict']} | | | |"
    )
    return line, (told["cpu"], told["mib"])


def writes_of(folder: Path, *, small: bool) -> Iterable[str]:
    """Versioned test-and-sets, beside Porcupine."""
    driver = porcupine(folder)
    cases = [(100_000, 100, 10, False), (20_000, 1, 10, False), (20_000, 1, 10, True)]
    if not small:
        cases += [
            (1_000_000, 1_000, 10, False),
            (100_000, 1, 10, True),
            (1_000_000, 1, 20, False),
            (1_000_000, 1, 20, True),
        ]
    for operations, keys, clients, stale in cases:
        path = folder / "versioned.txt"
        versioned(path, operations, keys, clients, stale=stale)
        told = alone("tas", path)
        peer = (
            theirs(driver, "-tas", str(path))[0]
            if driver
            else {"parse": 0.0, "check": 0.0, "verdict": "no Go here"}
        )
        yield (
            f"| {operations:,} versioned test-and-sets, {keys:,} keys, {clients} clients"
            f"{', one stale' if stale else ''} "
            f"| {told['parse']:.2f} | {told['check']:.2f} | {told['mib']} | {told['verdict']} "
            f"| {peer['parse']:.2f} | {peer['check']:.2f} | {peer['verdict']} |"
        )


def registers_of(folder: Path, *, small: bool) -> Iterable[str]:
    """Recorded and made histories of registers without signatures, beside Porcupine."""
    driver = porcupine(folder)
    logs = sorted(LOGS.glob("etcd_*.log")) if LOGS.exists() else []
    made = []
    for number, operations in enumerate((300, 1_000) if small else (300, 1_000, 3_000)):
        made.append(folder / f"made_{number}.log")
        registers(made[-1], operations, 5)
    for title, paths in (("recorded etcd registers", logs), ("made registers, 1 % unknown", made)):
        if not paths:
            yield f"| {title}: not on this machine | | | | | | | |"
            continue
        told = alone("registers", *paths)
        peers = theirs(driver, *map(str, paths)) if driver else []
        decided = sum(v != "Unknown" for v in told["verdict"].values())
        by_file = {p.get("file"): p["verdict"] for p in peers}
        wrong = [
            f
            for f, v in told["verdict"].items()
            if v != "Unknown" and by_file.get(f, v) not in (v, "Unknown")
        ]
        assert not wrong, f"the two disagree on {wrong}"
        yield (
            f"| {len(paths)} {title} | {told['parse']:.2f} | {told['check']:.2f} | {told['mib']} | {decided} decided "
            f"| {sum(p['parse'] for p in peers):.2f} | {sum(p['check'] for p in peers):.2f} "
            f"| {sum(p['verdict'] in ('Ok', 'Illegal') for p in peers)} decided |"
        )


def spark_of(folder: Path, *, small: bool) -> Iterable[str]:
    """The engine in parts beside the local one; the same files, one record with many test-and-sets included.

    A base update and a test-and-set are an operation each: as many operations as events are half of these.
    """
    cases = ((100_000, 0),) if small else ((500_000, 0), (5_000_000, 1_000_000), (25_000_000, 1_000_000))
    for writes, hot in cases:
        path = folder / f"parts-{writes}-{hot}.parquet"
        with made(path, write_parquet, writes, min(100_000, writes // 100), hot):
            for kind in () if ONLY_MADE else ("spark", "audit") if writes <= LOCAL_MOST else ("spark",):
                told = alone(kind, path)
                yield (
                    f"| {'--engine spark' if kind == 'spark' else 'local'}, {2 * writes:,} operations"
                    f"{f', {2 * hot:,} of one record' if hot else ''}, .parquet {path.stat().st_size >> 20} MiB "
                    f"| | {told['check']:.1f} (cpu {told['cpu']:.1f}) | {told['mib']} | {told['verdict']} | | | |"
                )


PARTS = {
    "spark": spark_of,
    "audit": audits,
    "epochs": epochs_of,
    "writes": writes_of,
    "registers": registers_of,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--part", choices=sorted(PARTS), action="append")
    parser.add_argument("--ours", nargs="+")
    parser.add_argument("--folder", type=Path, help="keep the histories there, and take those that are there")
    parser.add_argument("--only-make", action="store_true", help="make the histories, judge none")
    options = parser.parse_args()
    if options.ours:
        ours(options.ours[0], options.ours[1:])
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    global KEEP, ONLY_MADE
    KEEP, ONLY_MADE = options.folder is not None, options.only_make
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        print(*HEADS, sep="\n")
        for part in options.part or PARTS:
            for line in PARTS[part](options.folder or Path(folder), small=options.small):
                print(line, flush=True)


if __name__ == "__main__":
    main()
