"""Per-entry update programs on one real node: the bare test-and-set limit, COUNT against it, contention.

    python bench/programs.py [--seconds 6] [--out bench/results/programs.json]

Every figure of one call comes from one node on one machine; compare ratios, not absolute times.
"""

import argparse
import json
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cvs.embedded.cluster import EmbeddedCluster
from cvs.manager.view_manager import ViewManager
from cvs.model.signature import Signature
from cvs.programs.machine import RECORD, Ending, Entry
from cvs.store.cassandra import CassandraStore
from cvs.store.port import PartitionId, TestAndSet
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.suite.classes import view_class

KEYSPACE = "bench_programs"


@dataclass(frozen=True)
class Load:
    address: ClusterAddress
    what: str  # bare, cached, reading
    manager: int
    records: int
    seconds: float
    salt: str
    back_off: bool = True


def bare(load: Load, store: CassandraStore) -> tuple[int, int, list[float]]:
    """The same conditional batch without program, manager or memory."""
    at = PartitionId(table="v", key=(f"{load.salt}-{load.manager}",))
    signature = None
    latencies, began = [], time.perf_counter()
    while (now := time.perf_counter()) - began < load.seconds:
        new = Signature(version=len(latencies) + 1, entries=(("s", len(latencies)),))
        puts = ((RECORD, {"x": "a", "n": len(latencies), "#rows": len(latencies), "#hidden": False}),)
        store.test_and_set(TestAndSet(partition=at, expected=signature, new=new, puts=puts))
        signature = new
        latencies.append(time.perf_counter() - now)
    return len(latencies), 0, latencies


def programmed(load: Load, store: CassandraStore) -> tuple[int, int, list[float]]:
    """COUNT, one insert an entry, into one of so many groups shared by all managers."""
    program = view_class("count").variant("signature").program
    manager = ViewManager(store=store, process=f"m{load.manager}", remember=load.what != "reading")
    random = Random(load.manager)
    latencies, began, number = [], time.perf_counter(), 0
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
        while manager.maintain(program, entry) is Ending.GAVE_UP:
            tries += 1
            time.sleep(0.002 * 2 ** min(tries, 6) * random.random())
        latencies.append(time.perf_counter() - now)
    return number, manager.counts.rejected, latencies


def work(load: Load, out: "multiprocessing.Queue") -> None:
    session = CassandraSession(load.address)
    store = CassandraStore(session, keyspace=KEYSPACE)
    session.driver  # noqa: B018 -- because connecting is not what is measured
    out.put((bare if load.what == "bare" else programmed)(load, store))
    session.close()


def measured(address: ClusterAddress, what: str, managers: int, records: int, seconds: float) -> dict:
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    salt = f"{what}-{managers}-{records}"
    loads = [Load(address, what, m, records, seconds, salt) for m in range(managers)]
    lives = [context.Process(target=work, args=(load, out)) for load in loads]
    for life in lives:
        life.start()
    answers = [out.get(timeout=seconds + 120) for _ in lives]
    for life in lives:
        life.join()
    latencies = sorted(latency for _, _, some in answers for latency in some)
    done = sum(count for count, _, _ in answers)
    return {
        "what": what,
        "managers": managers,
        "records": records or "own",
        "per_second": round(done / seconds, 1),
        "refused_per_applied": round(sum(r for _, r, _ in answers) / max(done, 1), 3),
        "p50_ms": round(1000 * latencies[len(latencies) // 2], 2),
        "p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with EmbeddedCluster(size=1) as cluster:
        node = cluster.nodes[0]
        address = ClusterAddress(contact_points=(node.address,), port=node.native_port)
        session = CassandraSession(address)
        session.define(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        CassandraStore(session, keyspace=KEYSPACE).create("v")
        measured(address, "bare", 2, 0, options.seconds)  # warms the node up; not kept
        found = [
            measured(address, what, managers, records, options.seconds)
            for what, managers, records in [
                ("bare", 1, 0),
                ("cached", 1, 0),
                ("reading", 1, 0),
                ("bare", 4, 0),
                ("cached", 4, 0),
                ("reading", 4, 0),
                *(("cached", m, r) for r in (1, 10, 1000) for m in (2, 4, 8)),
            ]
        ]
        session.close()
    for line in found:
        print(json.dumps(line))
    by = {(f["what"], f["managers"], f["records"]): f["per_second"] for f in found}
    for managers in (1, 4):
        share = by["cached", managers, "own"] / by["bare", managers, "own"]
        print(f"uncontended COUNT with remembered signatures, {managers} managers: {share:.0%} of the limit")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "load": os.getloadavg()}
        options.out.write_text(json.dumps({"machine": machine, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
