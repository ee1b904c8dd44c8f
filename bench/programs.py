"""Update programs on one real node: the bare test-and-set limit, COUNT against it, contention, epochs.

    python bench/programs.py [--part limit|contention|epoch] [--seconds 4] [--rounds 5] [--out FILE.json]
    python bench/programs.py --draw FILE.svg RESULTS.json...      # with `contention` and `epoch` in one or more of them

Every figure of one call comes from one node on one machine; compare ratios, not absolute times. Rounds are
interleaved; a rate is the median of the rounds, with their range. The commit log is synced periodically (Cassandra's
default): with group sync a test-and-set waits for the sync, whatever the program does.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from cvs.embedded.cluster import EmbeddedCluster
from cvs.manager.view_manager import ViewManager
from cvs.model.outcome import OutcomeKind
from cvs.model.signature import Signature
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.programs.epoch import Pin
from cvs.programs.epoch_run import zone_step
from cvs.programs.machine import RECORD, SIGNATURE_BASED, Ending, Entry
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import drive
from cvs.programs.stage_zone import ZoneCompute
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.door import CassandraDoor
from cvs.stream.tables import Names, create
from cvs.suite.classes import view_class
from cvs.suite.user_views import user_views

MANAGERS = (1, 4, 16, 64)
KEYSPACE = "bench_programs"
ATTEMPTS = 2
"""Attempts before a manager backs off: contention shows at the first refusal."""

COUNTED = """
CREATE TABLE bench.r (k int PRIMARY KEY, x int, y int);
CREATE MATERIALIZED VIEW bench.v AS SELECT x, COUNT(*) AS n FROM bench.r WHERE x IS NOT NULL GROUP BY x;
"""
EPOCH_RECORDS = 500
PROCESSES_MAX = 8
"""More managers than this are threads of so many processes: starting Python 64 times is not what is measured."""


@dataclass(frozen=True)
class Load:
    what: str  # bare, cached, reading, hasty (no back-off)
    manager: int
    records: int
    seconds: float
    salt: str


def bare(load: Load, store: CassandraStore) -> tuple[int, int, list[float]]:
    """The same conditional batch without program, manager or memory."""
    at = PartitionId(table="v", key=(f"{load.salt}-{load.manager}",))
    signature = None
    latencies, began, number = [], time.perf_counter(), 0
    while (now := time.perf_counter()) - began < load.seconds:
        number += 1
        new = Signature(version=number, entries=(("s", number),))
        puts = ((RECORD, {"x": "a", "n": number, "#rows": number, "#hidden": False}),)
        outcome = store.test_and_set(TestAndSet(partition=at, expected=signature, new=new, puts=puts))
        signature = new
        if outcome.kind is OutcomeKind.APPLIED:
            latencies.append(time.perf_counter() - now)
    return len(latencies), number - len(latencies), latencies


def programmed(load: Load, store: CassandraStore) -> tuple[int, int, list[float]]:
    """COUNT, one insert an entry, into one of so many groups shared by all managers."""
    program = view_class("count").variant("signature").program
    manager = ViewManager(
        store=store,
        process=f"m{load.manager}",
        policy=replace(SIGNATURE_BASED, attempts_max=64 if load.what == "hasty" else ATTEMPTS),
        remember=load.what != "reading",
    )
    random = Random(load.manager)
    latencies, began, number, done = [], time.perf_counter(), 0, 0
    own = f"-{load.manager}" if load.records == 0 else ""
    while (now := time.perf_counter()) - began < load.seconds:
        number += 1
        group = f"{load.salt}{own}-{random.randrange(max(load.records, 1))}"
        key = (f"{load.manager}-{number}",)
        entry = Entry(
            stream=f"s{load.manager}",
            entry=number,
            table="r",
            key=key,
            version=1,
            before=None,
            after={"k": key[0], "x": group, "y": 1},
        )
        tries = 0
        while (ending := manager.maintain(program, entry, attempt=tries + 1)) is Ending.GAVE_UP:
            tries += 1
            if time.perf_counter() - began > load.seconds:
                break  # because what is not applied in time does not count
            if load.what != "hasty":
                time.sleep(0.002 * 2 ** min(tries, 6) * random.random())
        if ending is Ending.APPLIED:  # because a replay costs nothing
            latencies.append(time.perf_counter() - now)
            done += now + latencies[-1] - began <= load.seconds  # the last may have taken long
    return done, manager.counts.rejected, latencies


def work(address: ClusterAddress, inbox: "multiprocessing.Queue", out: "multiprocessing.Queue") -> None:
    """Be some managers of each run, each a thread of its own, with one session as a process has."""
    session = CassandraSession(address)
    store = CassandraStore(session, keyspace=KEYSPACE)
    session.driver  # noqa: B018 -- because connecting is not what is measured
    while (task := inbox.get()) is not None:
        loads, begin = task
        time.sleep(max(0.0, begin - time.time()))  # because contention needs all of them
        cpu = time.process_time()
        with ThreadPoolExecutor(max_workers=len(loads)) as threads:
            answers = list(threads.map(partial(one_load, store=store), loads))
        out.put((answers, time.process_time() - cpu))
    session.close()


def one_load(load: Load, *, store: CassandraStore) -> tuple[int, int, list[float]]:
    return (bare if load.what == "bare" else programmed)(load, store)


class Managers:
    """Processes that live as long as the bench: to start Python is not what is measured."""

    def __init__(self, address: ClusterAddress) -> None:
        context = multiprocessing.get_context("spawn")
        self._out = context.Queue()
        self._inboxes = [context.Queue() for _ in range(PROCESSES_MAX)]
        self._lives = [context.Process(target=work, args=(address, q, self._out)) for q in self._inboxes]
        for life in self._lives:
            life.start()

    def measured(self, what: str, managers: int, records: int, *, seconds: float, run: str) -> dict:
        salt = (
            f"{what}-{managers}-{records}-{run}"  # because on records of an earlier run all would be replays
        )
        loads = [Load(what, m, records, seconds, salt) for m in range(managers)]
        processes, begin = min(managers, PROCESSES_MAX), time.time() + 0.2
        for number in range(processes):
            self._inboxes[number].put((loads[number::processes], begin))
        answers = [self._out.get(timeout=seconds + 120) for _ in range(processes)]
        each = [one for some, _ in answers for one in some]
        latencies = sorted(latency for _, _, some in each for latency in some) or [float("inf")]
        done = sum(count for count, _, _ in each)
        return {
            "what": what,
            "managers": managers,
            "records": records or "own",
            "per_second": round(done / seconds, 1),
            "refused_per_applied": round(sum(r for _, r, _ in each) / max(done, 1), 3),
            "p50_ms": round(1000 * latencies[len(latencies) // 2], 2),
            "p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 2),
            "managers_cpu_us": round(1e6 * sum(cpu for _, cpu in answers) / max(done, 1)),
        }

    def stop(self) -> None:
        for inbox in self._inboxes:
            inbox.put(None)
        for life in self._lives:
            life.join()


def epochs(address: ClusterAddress, records_a_bucket: int, updates: int, *, seconds: float, run: str) -> dict:
    """COUNT per epoch: every record takes so many updates an epoch, combined; one test-and-set a bucket."""
    records = EPOCH_RECORDS
    user = user_views(COUNTED)
    plan = maintenance_plan(user.views, user.tables, Choices(buckets=records // records_a_bucket))
    names = Names(keyspace=f"bench_epochs_{records_a_bucket}_{updates}_{run}")
    session = CassandraSession(address)
    create(session, plan, names)
    door = CassandraDoor(session, keyspace=names.keyspace, publications={})
    (zone,) = (ZoneCompute(z, plan) for z in plan.zones)
    (base,) = plan.bases
    epoch, done, began = 0, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        epoch += 1
        start = epoch * records * updates
        rows = [(start + i, i % records, i) for i in range(records * updates)]
        pin = Pin(epoch=epoch, first=epoch == 1)
        routed = zone.route({base.name: Bag((row, 1) for row in rows)}, first=pin.first)
        drive(zone_step(zone, names.state(zone.name), pin, routed), door)
        done += len(rows)
    took = time.perf_counter() - began
    session.close()
    return {
        "what": "epoch",
        "records": records,
        "records_a_bucket": records_a_bucket,
        "updates_a_record": updates,
        "epochs": epoch,
        "per_second": round(done / took, 1),
        "seconds": {name: round(spent, 2) for name, spent in door.meter.seconds.items()},
    }


PARTS = {
    "limit": [(what, m, 0) for m in (1, 4, 8) for what in ("bare", "cached", "reading")],
    "contention": [
        *(("cached", m, r) for r in (1, 10, 100, 1000) for m in MANAGERS),
        *(("hasty", m, r) for r in (1, 10) for m in (4, 16, 64)),
    ],
    "epoch": [("bare", 8, 0), ("cached", 8, 0)],
}


EPOCHS = ((1, 1), (1, 10), (50, 1), (50, 10))


def a_round(
    part: str, address: ClusterAddress, managers: Managers, *, seconds: float, number: int
) -> list[dict]:
    """Measure everything of a part once."""
    kept = {"seconds": seconds, "run": f"r{number}"}
    found = [managers.measured(*which, **kept) for which in PARTS[part]]
    if part == "epoch":
        found += [epochs(address, *which, **kept) for which in EPOCHS]
    return found


def median(runs: tuple[dict, ...]) -> dict:
    """Return the run whose rate is the median, with all rates in the order of the rounds."""
    ordered = sorted(runs, key=lambda run: run["per_second"])
    return {**ordered[len(runs) // 2], "rates": [run["per_second"] for run in runs]}


def plotted(found: list[dict], path: Path) -> None:
    """Draw the contention curve with and without back-off, and what combining brings."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.4), layout="constrained")
    *curves, bars = figure.subplots(1, 4)
    columns = ("per_second", "refused_per_applied", "p99_ms")
    for axes, column, title in zip(
        curves, columns, ("updates/s", "refusals an update", "p99, ms"), strict=True
    ):
        for what in ("cached", "hasty"):
            for colour, records in enumerate((1, 10, 100, 1000)):
                line = [f for f in found if (f["what"], f["records"]) == (what, records)]
                if line:
                    label = f"{records} record{'s' * (records > 1)}" + ", no back-off" * (what == "hasty")
                    axes.plot(
                        [f["managers"] for f in line],
                        [f[column] for f in line],
                        "--" if what == "hasty" else "-",
                        color=f"C{colour}",
                        marker="o",
                        label=label,
                    )
        axes.set_xscale("log", base=2)
        axes.set_xticks(MANAGERS, MANAGERS)
        axes.set_xlabel("managers")
        axes.set_title(title)
    curves[0].legend(fontsize=6)
    curves[2].set_yscale("log")
    combined(found, bars)
    figure.savefig(path, metadata={"Date": None})


def combined(found: list[dict], axes: Any) -> None:
    """Draw a bar for the per-entry rate and one for each way to combine."""
    entry = [f["per_second"] for f in found if (f["what"], f.get("managers", 0)) == ("cached", 8)]
    names, rates = (["per entry"], [max(entry)]) if entry else ([], [])
    for line in found:
        if line["what"] == "epoch":
            names.append(f"{line['updates_a_record']} updates,\n{line['records_a_bucket']} a bucket")
            rates.append(line["per_second"])
    axes.bar_label(axes.barh(names, rates), fmt="{:,.0f}", padding=2, fontsize=7)
    axes.margins(x=0.25)
    axes.set_title("combining: updates/s")
    axes.tick_params(axis="y", labelsize=6)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=sorted(PARTS), action="append")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draw", type=Path, nargs="+", help="a picture and the results it is made of")
    options = parser.parse_args()
    if options.draw:
        picture, *results = options.draw
        plotted([run for file in results for run in json.loads(file.read_text())["runs"]], picture)
        return
    found = []
    with EmbeddedCluster(size=1, commitlog_sync="periodic", heap="1G") as cluster:
        node = cluster.nodes[0]
        address = ClusterAddress(contact_points=(node.address,), port=node.native_port)
        session = CassandraSession(address)
        for keyspace in (KEYSPACE, "bench"):  # the second is the views' own
            session.define(
                f"CREATE KEYSPACE {keyspace} WITH replication = "
                "{'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
        CassandraStore(session, keyspace=KEYSPACE).create("v")
        managers = Managers(address)
        for warm_up in ("bare", "cached"):
            managers.measured(warm_up, 4, 0, seconds=2 * options.seconds, run="warm")  # not kept
        for part in options.part or PARTS:
            rounds = [
                a_round(part, address, managers, seconds=options.seconds, number=number)
                for number in range(options.rounds)
            ]
            for runs in zip(*rounds, strict=True):
                found.append(median(runs))
                print(json.dumps(found[-1]), flush=True)
        managers.stop()
        session.close()
    concluded(found)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "load": os.getloadavg()}
        options.out.write_text(json.dumps({"machine": machine, "runs": found}, indent=1) + "\n")


def concluded(found: list[dict]) -> None:
    """Print the ratios that matter: of the same round, median and range over the rounds."""
    own = {(f["what"], f["managers"]): f["rates"] for f in found if f["records"] == "own"}
    for what, managers in own:
        if what != "bare":
            share = ratio(own[what, managers], own["bare", managers])
            print(f"uncontended COUNT, {what}, {managers} managers: {share} of the bare limit")
    for line in found:
        if line["what"] == "epoch" and ("cached", 8) in own:
            combining = (
                f"{line['updates_a_record']} updates a record, {line['records_a_bucket']} records a bucket"
            )
            print(f"per epoch, {combining}: {ratio(line['rates'], own['cached', 8])} of per entry")


def ratio(of: list[float], to: list[float]) -> str:
    """Write median and range of the ratios round by round."""
    ratios = sorted(x / y for x, y in zip(of, to, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"


if __name__ == "__main__":
    main()
