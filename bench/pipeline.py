"""The pipeline, measured in one run: CPU ms a base write, backlog, writers beside it, freshness, recording, memory.

    python bench/pipeline.py [--parts backlog,units,cost,...] [--writes 3000] [--rounds 5] [--out FILE]

One real node, one capture, pipelines as processes of their own under local Spark; what is compared is measured in
turns of the same run, so compare ratios. CPU is that of all processes concerned, writers and node included.

    backlog   writers off: base changes/s that one process absorbs, CPU of it and of the node, where the time goes
    recording the backlog again with and without the epoch log
    units     what one captured, DELTA, state and published row costs by itself: the floor of c4
    cost      CPU ms a base write: no view, a native view, one cvs view that is the same copy (c1), four views (c4)
    open      open-loop writers: p99 with cvs beside them and without
    live      where the time of small epochs goes, and how far the capture is behind, at the rates of `fresh`
    fresh     from a base write acknowledged to its published row readable
    recovery  kill -9 of the pipeline under writers: seconds until it commits again, and until its lag is as before
    spread    backlogs in the driver's process against Spark's tasks, four views and eleven, by size of the epoch
    memory    resident MB of what runs
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_pipeline.backlog import backlog, live, recording, spread
from bench_pipeline.place import MODES, Bench, memory
from bench_pipeline.units import floor_of, units

PARTS = ("backlog", "recording", "units", "cost", "open", "fresh", "live", "recovery", "memory", "spread")


def cost(bench: Bench, *, writes: int, rounds: int) -> dict[str, Any]:
    """CPU ms a base write until the views show it, modes in turn; medians over rounds."""
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(rounds + 1):
        for mode in MODES:
            measured = bench.round(mode, writes, seed=number)
            if number:  # because the first round of each only warms the node up
                found[mode].append(measured)
    medians = {
        mode: {name: round(statistics.median(r[name] for r in rounds_), 3) for name in rounds_[0]}
        for mode, rounds_ in found.items()
    }
    ratio = medians["c1"]["cpu_ms"] / medians["native"]["cpu_ms"]
    return {**medians, "c1 / native view": round(ratio, 2)}


def open_loop(bench: Bench, *, rate: int, seconds: float, rounds: int) -> dict[str, Any]:
    """p50 and p99 of writers at a fixed rate, latency counted from when a write was due; off, on, off, on ..."""
    found: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
    for _ in range(rounds):
        bench.pause_all()
        found["off"].append(bench.open_loop("c4", rate, seconds))
        bench.only("c4", capture=True)
        found["on"].append(bench.open_loop("c4", rate, seconds))
    return {"rate": rate} | {
        f"{turn} {name}": sorted(it[name] for it in measured)
        for turn, measured in found.items()
        for name in measured[0]
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--writes", type=int, default=3000, help="base writes a round and mode")
    parser.add_argument("--backlog", type=int, default=20_000, help="base changes of the backlog")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=300, help="writes a second of the open loop")
    parser.add_argument("--seconds", type=float, default=6.0, help="a round of the open loop")
    parser.add_argument("--spark", default="local[2]", help="Spark master; empty: without Spark")
    parser.add_argument("--profile", help="file for cProfile's figures of one more c4 backlog")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.parts = set(options.parts.split(","))
    if unknown := options.parts - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return options


def measured(bench: Bench, options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Every part that was asked for, as it is done."""
    parts = options.parts
    bench.start_capture()
    if {"cost", "open", "fresh", "recovery", "memory"} & parts:
        bench.start_pipelines()
    if "cost" in parts:
        yield "cost", cost(bench, writes=options.writes, rounds=options.rounds)
    if "open" in parts:
        yield "open", open_loop(bench, rate=options.rate, seconds=options.seconds, rounds=options.rounds)
    for rate in (10, options.rate // 2) if "fresh" in parts else ():
        yield f"fresh at {rate}/s", bench.freshness("c4", rate, seconds=4 * options.seconds)
    if "memory" in parts:
        yield "memory", memory(bench)
    for number in range(options.rounds if "recovery" in parts else 0):
        yield f"recovery {number}", bench.recovery("c4", options.rate // 2)
    bench.stop_pipelines()
    for rate in (10, options.rate // 2) if "live" in parts else ():
        yield f"live at {rate}/s", live(bench, "c4", rate, seconds=4 * options.seconds)
    if "spread" in parts:
        yield "spread", spread(bench, options.backlog // 2, spark=options.spark)
    if "backlog" in parts:
        yield "backlog c1", backlog(bench, "c1", options.backlog, rounds=options.rounds)
        yield (
            "backlog c4",
            backlog(bench, "c4", options.backlog, rounds=options.rounds, profile=options.profile),
        )
    if "units" in parts:
        yield "units", units(bench)
    if "recording" in parts:
        yield "recording", recording(bench, options.backlog // 2, rounds=options.rounds)


def main() -> None:
    options = parse()
    results: dict[str, Any] = {
        "commit": subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip(),
        "machine": f"{os.cpu_count()} cores, {os.uname().machine}, load {os.getloadavg()[0]:.1f} at the start",
        "spark": options.spark or "without",
    }
    with tempfile.TemporaryDirectory() as folder, Bench.open(Path(folder), spark=options.spark) as bench:
        for name, value in measured(bench, options):
            results[name] = value
            print(f"{name}: {json.dumps(value, indent=1)}", flush=True)
    if {"cost", "units", "backlog"} <= options.parts:
        results["floor"] = floor_of(results)
        print(f"floor: {json.dumps(results['floor'], indent=1)}")
    results["load at the end"] = round(os.getloadavg()[0], 1)
    print(
        f"machine: {results['machine']}, {results['load at the end']} at the end; commit {results['commit']}"
    )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
