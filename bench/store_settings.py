"""What the node's settings are worth: one node for each setting, all up at once, rounds interleaved.

python bench/store_settings.py sync            commit-log sync modes
python bench/store_settings.py node            heap, collector, memtables, threads
python bench/store_settings.py clients         1, 2 and 4 client processes on one node
"""

import argparse
import itertools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from store import Bench, Measurement, run_round

from cvs.embedded.cluster import EmbeddedCluster

SYNC: Mapping[str, Mapping[str, Any]] = {
    "group 10 ms": {"commitlog_sync": "group", "yaml": {"commitlog_sync_group_window": "10ms"}},
    "group 2 ms": {"commitlog_sync": "group"},
    "batch": {"commitlog_sync": "batch"},
    "periodic 10 s (stock)": {"commitlog_sync": "periodic"},
    "periodic 20 ms": {"commitlog_sync": "periodic", "yaml": {"commitlog_sync_period": "20ms"}},
}
TRIE = {"memtable": {"configurations": {"default": {"class_name": "TrieMemtable"}}}}
NODE: Mapping[str, Mapping[str, Any]] = {
    "as started": {},
    "heap 512M": {"heap": "512M"},
    "G1": {"jvm": ("-XX:-UseParallelGC", "-XX:+UseG1GC")},
    "trie memtables": {"yaml": TRIE},
    "128 write threads": {"yaml": {"concurrent_writes": 128}},
    "first compiler only": {"quick": True},
}
CLIENTS = (1, 2, 4)
THREADS = 64


def measurements(bench: Bench) -> list[tuple[Measurement, int]]:
    """What is repeated, with how many threads."""
    adapter = [
        Measurement(f"test-and-set {rows} row(s)", rows, partial(bench.adapter, rows)) for rows in (1, 50)
    ]
    plain = Measurement("plain insert", 1, partial(bench.insert, "plain"))
    return [(adapter[0], 1), (adapter[0], THREADS), (adapter[1], THREADS), (plain, THREADS)]


def settings(
    variants: Mapping[str, Mapping[str, Any]], rounds: int, seconds: float, disk: Path | None
) -> None:
    """Compare nodes set differently; on a disk where one is given, else in memory."""
    with ExitStack() as stack:
        found = {}
        for name, options in variants.items():
            folder = disk and Path(stack.enter_context(tempfile.TemporaryDirectory(dir=disk)))
            cluster = stack.enter_context(EmbeddedCluster(folder=folder, size=1, **{"heap": "1G", **options}))
            bench = Bench(cluster)
            stack.callback(bench.session.close)
            process = cluster.nodes[0].process
            assert process is not None
            found[name] = (measurements(bench), process.pid)
        for turn, (measured, pid) in itertools.product(range(-1, rounds), found.values()):
            for measurement, threads in measured:
                run_round(measurement, threads, seconds, pid)
                if turn < 0:  # it warmed up
                    for kept in (measurement.rates, measurement.latencies, measurement.cpu_ms):
                        kept.pop(threads)
    print(f"{'rows/s, median (low-high)':>26}" + "".join(f"{m.name + f' x{t}':>30}" for m, t in measured))
    for name, (measured, _) in found.items():
        cells = [f"{shown(m.rates[t])} {m.cpu_ms[t][-1]:.3f} ms" for m, t in measured]
        print(f"{name:>26}" + "".join(f"{cell:>30}" for cell in cells))


def shown(rates: list[float]) -> str:
    """Write median and range."""
    return f"{statistics.median(rates):.0f} ({min(rates):.0f}-{max(rates):.0f})"


def client(contact_points: tuple[str, ...], rows: int, number: int, seconds: float, answers: Any) -> None:
    """One client process with its share of the threads."""
    bench = Bench.joined(contact_points)
    _ = bench.session.driver
    for turn in range(2):  # the first warms up
        measurement = Measurement("", rows, partial(bench.adapter, rows))
        run_round(measurement, THREADS // number, seconds if turn else 1.0, None)
    answers.put(measurement.rates[THREADS // number][0])
    bench.session.close()


def clients(rounds: int, seconds: float) -> None:
    """Compare one client process with several that share its threads."""
    context = multiprocessing.get_context("spawn")
    with EmbeddedCluster(size=1, heap="1G") as cluster:
        Bench(cluster).session.close()
        rates: dict[tuple[int, int], list[float]] = {}
        for _, number, rows in itertools.product(range(rounds), CLIENTS, (1, 50, 200)):
            answers = context.Queue()
            crew = [
                context.Process(target=client, args=(cluster.contact_points, rows, number, seconds, answers))
                for _ in range(number)
            ]
            for each in crew:
                each.start()
            rates.setdefault((number, rows), []).append(sum(answers.get(timeout=60) for _ in crew))
            for each in crew:
                each.join()
    for (number, rows), found in sorted(rates.items()):
        print(f"{number} process(es), {THREADS} threads in all, {rows:>3} row(s): {shown(found)} rows/s")


def main() -> None:
    """Run one comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["sync", "node", "clients"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--disk", type=Path, help="a folder on the disk that the nodes shall live on")
    given = parser.parse_args()
    began = time.monotonic()
    if given.what == "clients":
        clients(given.rounds, given.seconds)
    else:
        settings(SYNC if given.what == "sync" else NODE, given.rounds, given.seconds, given.disk)
    print(f"{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
