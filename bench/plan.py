"""How much planning costs and saves: `make bench B=plan`, or with the names of parts.

Numbers are CPU time, which other load on the machine hardly moves: of the pipeline's own stage programs on
dictionaries (planning, merged, zones, tpch), of a real node and its client together (order), of Spark's JVM (tpch).
Ratios are within one run.
"""

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations, product
from pathlib import Path
from random import Random
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import SparkSession

from bench.calibrate import InMemory, OnNode, cpu_seconds
from cvs.embedded.cluster import EmbeddedCluster
from cvs.model.stages import Plan
from cvs.plan.cost import plan_cost
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.relations import scans
from cvs.plan.sql import DeclaredView, parse_views
from cvs.plan.statistics import Statistics, Weights
from cvs.programs.stage_memory import MemoryDoor
from cvs.stream.tasks import uncollected
from tests.plan.faulty_run import PipelineRun, readers_of
from tests.plan.programs_run import ProgramsRun
from tests.plan.tpch.data import QUERIES, Changes, generate
from tests.plan.tpch.schema import TABLES

SHAPES = {
    "q1": """SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS q, AVG(l_discount) AS d, COUNT(*) AS n,
             SUM(l_extendedprice * (1 - l_discount)) AS r FROM lineitem
             WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '{0}' DAY GROUP BY l_returnflag, l_linestatus""",
    "q3": """SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
             FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey
             AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15' + INTERVAL '{0}' DAY
             AND l_shipdate > DATE '1995-03-15' + INTERVAL '{0}' DAY
             GROUP BY l_orderkey, o_orderdate, o_shippriority""",
    "q6": """SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_quantity < 24
             AND l_shipdate >= DATE '1994-01-01' + INTERVAL '{0}' DAY
             AND l_shipdate < DATE '1995-01-01' + INTERVAL '{0}' DAY""",
    "q10": """SELECT c_custkey, c_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name
              FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
              AND o_orderdate >= DATE '1993-10-01' + INTERVAL '{0}' DAY AND l_returnflag = 'R'
              AND c_nationkey = n_nationkey GROUP BY c_custkey, c_name, c_acctbal, n_name""",
}
APART = Choices(share=False, merge_zones=False)
SEPARATE = Choices(share=False)
WHEREVER = Choices(by_cost=False)
FEW, MANY = Choices(by_cost=False, buckets=8), Choices(by_cost=False, buckets=256)
NATIONS = Choices(by_cost=False, replicated=frozenset(["tpch.nation"]))
DICTIONARIES = Weights(
    delta_row=0.001, state_row=0.0007, read_row=0.0001, test_and_set=0.008, published_row=0.0009, compute_row=0.0103,
    edge_row=0.0014, machine="2 cores, Python 3.11.7, stage programs on dictionaries (order-in-memory)",
)  # fmt: skip
SHARE_MERGED = 0.05
SHARES = (0.001, 0.01, 0.1)
ROUNDS = 5
ORDER_SECONDS = 380
EPOCHS = 4


def views_of(shape: str, count: int):
    text = "".join(f"CREATE MATERIALIZED VIEW tpch.v{i} AS {SHAPES[shape].format(i)};" for i in range(count))
    return parse_views(text, TABLES)


def seconds(run: ProgramsRun, batch: dict[str, Counter]) -> float:
    before = time.process_time()
    uncollected(run.epoch)(batch)
    return time.process_time() - before


def kept(
    plans: Sequence[Plan], tables: dict[str, list[tuple]], share: float, epochs: int = 2
) -> tuple[float, float, int]:
    """Load plans, then change a share of every table: CPU seconds of both, and test-and-sets of the changes."""
    changes = Changes(tables, seed=11)
    batches = [changes.epoch(share) for _ in range(epochs)]
    load = total = 0.0
    asked = 0
    for plan in plans:  # one after the other, because a thousand at once would fill the memory
        run, names = ProgramsRun(plan), {base.name for base in plan.bases}
        load += seconds(run, {n: Counter(dict.fromkeys(rows, 1)) for n, rows in tables.items() if n in names})
        before = run.test_and_sets
        total += sum(seconds(run, {n: c for n, c in batch.items() if n in names}) for batch in batches)
        asked += run.test_and_sets - before
    return load, total / epochs, asked // epochs


def planning(_: dict[str, list[tuple]]) -> list[dict]:
    names = list(SHAPES)
    text = "".join(
        f"CREATE MATERIALIZED VIEW tpch.v{i} AS {SHAPES[names[i % 4]].format(i)};" for i in range(1000)
    )
    before = time.process_time()
    views = parse_views(text, TABLES)
    parsed = time.process_time()
    plan = maintenance_plan(views, TABLES)
    done = time.process_time()
    return [{
        "views": 1000, "parse_s": parsed - before, "plan_s": done - parsed,
        "stages": len(plan.stages), "zones": len(plan.zones),
        "stages_apart": len(maintenance_plan(views, TABLES, APART).stages),
    }]  # fmt: skip


def merged(tables: dict[str, list[tuple]], only: Sequence[str] = ()) -> Iterator[dict]:
    """Vertical merging: many views of one shape, as the cost model says, against the best plan of each, run by itself.

    The model knows these tables and has the weights of dictionaries, on which it is measured. DELTA is left out: apart,
    each view would have its own.
    """
    base = small(tables, 100)  # because 1,000 separate plans load for minutes
    updates = {name: max(1, int(len(rows) * SHARE_MERGED)) for name, rows in base.items()}
    counts = [int(word) for word in only if word.isdigit()] or [10, 100, 1000]
    for count, shape in product(counts, [word for word in only if word in SHAPES] or SHAPES):
        views = views_of(shape, count)
        read = {scan.table for view in views[:1] for scan in scans(view.definition.relation)}
        known = statistics_of(base, {name: number for name, number in updates.items() if name in read})
        chosen = Choices(statistics=known, weights=DICTIONARIES)
        together = maintenance_plan(views, TABLES, chosen)
        apart = [maintenance_plan([view], TABLES, chosen) for view in views]
        one, many = kept([together], base, SHARE_MERGED), kept(apart, base, SHARE_MERGED)
        costs = [plan_cost(plan, known, DICTIONARIES) for plan in (together, *apart)]
        told = [cost.total_ms - cost.delta_ms for cost in costs]  # DELTA is not run here
        yield {
            "shape": shape, "views": count, "stages": len(together.stages),
            "stages_apart": sum(len(plan.stages) for plan in apart),
            "load_ratio": many[0] / one[0], "epoch_ratio": many[1] / one[1], "epoch_s": one[1],
            "test_and_set_ratio": many[2] / max(1, one[2]), "predicted_ratio": sum(told[1:]) / told[0],
        }  # fmt: skip


def zones(tables: dict[str, list[tuple]], words: Sequence[str] = ()) -> Iterator[dict]:
    """Horizontal merging by itself: each query alone, its zones merged against one table a stage, epochs in turn.

    `zones 0.01`: at that scale, where every query has rows; `zones 0.01 q3` of one query.
    """
    names = {f"tpch.{word}" for word in words if not word[0].isdigit()}
    for scale in (word for word in words if word[0].isdigit()):
        with tempfile.TemporaryDirectory() as folder:
            tables = generate(Path(folder), scale)
    for view in parse_views(QUERIES, TABLES):
        if names and view.name not in names:
            continue
        plans = [maintenance_plan([view], TABLES, c) for c in (WHEREVER, Choices(merge_zones=False))]
        if len(plans[0].zones) == len(plans[1].zones):
            continue
        read = {base.name: tables[base.name] for base in plans[0].bases}
        runs, changes = [ProgramsRun(plan) for plan in plans], Changes(read, seed=11)
        for run in runs:
            seconds(run, {name: Counter(dict.fromkeys(rows, 1)) for name, rows in read.items()})
        loaded = [run.test_and_sets for run in runs]
        ratios = []
        for number in range(ROUNDS):
            batch = changes.epoch(0.01)
            spent = {place: seconds(runs[place], batch) for place in ((0, 1), (1, 0))[number % 2]}
            ratios.append(spent[1] / spent[0])
        asked = [run.test_and_sets - before for run, before in zip(runs, loaded, strict=True)]
        yield {
            "view": view.name, "zones": len(plans[0].zones), "stages": len(plans[0].stages),
            "cpu_ratio": [round(it, 2) for it in (median(ratios), min(ratios), max(ratios))],
            "test_and_set_ratio": asked[1] / max(1, asked[0]), "load": os.getloadavg()[0],
        }  # fmt: skip


ALTERNATIVES: dict[str, tuple[str, int, dict[str, Choices]]] = {
    "six views like q1": ("q1", 6, {"together": WHEREVER, "apart": SEPARATE, "no cells": Choices(cells=False)}),
    "six views like q6": ("q6", 6, {"together": WHEREVER, "apart": SEPARATE, "no cells": Choices(cells=False)}),
    "four views like q3": ("q3", 4, {"together": WHEREVER, "apart": SEPARATE, "early": Choices(late_selection=False)}),
    "four views like q10": ("q10", 4, {"together": WHEREVER, "apart": SEPARATE, "nation everywhere": NATIONS}),
    **{
        name: (name, 0, {"merged": WHEREVER, "unmerged": APART, "8 buckets": FEW, "256 buckets": MANY})
        for name in ("q3", "q4", "q10", "q13", "q18", "q12")
    },
}  # fmt: skip
"""Group -> shape or query, number of views, and the plans among which a planner has to choose."""


def small(tables: dict[str, list[tuple]], orders: int) -> dict[str, list[tuple]]:
    """Return the first orders with their lines and all other tables."""
    kept = tables["tpch.orders"][:orders]
    keys = {row[0] for row in kept}
    lines = [row for row in tables["tpch.lineitem"] if row[0] in keys]
    return {**tables, "tpch.orders": kept, "tpch.lineitem": lines}


def statistics_of(tables: dict[str, list[tuple]], updates: Mapping[str, int]) -> Statistics:
    """Return what a planner would know of these tables."""
    distinct, bounds = {}, {}
    for name, table in TABLES.items():
        for place, (column, _) in enumerate(table.columns):
            values = {row[place] for row in tables[name]}
            distinct[f"{name}.{column}"] = len(values)
            bounds[f"{name}.{column}"] = (min(values), max(values))
    return Statistics(
        rows={name: len(rows) for name, rows in tables.items()},
        distinct=distinct,
        bounds=bounds,
        rates={name: float(count) for name, count in updates.items()},
        epoch_updates=sum(updates.values()),
    )


def order(tables: dict[str, list[tuple]]) -> Iterator[dict]:
    """Does the cost model order alternatives as a real node does?"""
    with EmbeddedCluster(size=1) as cluster:
        node = OnNode(cluster)
        yield from ordered(tables, node)
        node.session.close()


def order_in_memory(tables: dict[str, list[tuple]]) -> Iterator[dict]:
    """Does it order them as the stage programs on dictionaries do, with weights of dictionaries?"""
    yield from ordered(tables, InMemory())


def ordered(tables: dict[str, list[tuple]], place: OnNode | InMemory) -> Iterator[dict]:
    """Compare estimated and measured order within each group; ties within 10 percent are left out."""
    tables, end = small(tables, 300), time.monotonic() + ORDER_SECONDS
    told = {"shipped": Weights(), "of this run": place.weights}
    agree, against = Counter[str](), Counter[str]()
    yield {"weights": asdict(place.weights)}
    for group, (shape, count, choices) in ALTERNATIVES.items():
        if time.monotonic() > end:
            yield {"group": group, "left_out": f"the bench took more than {ORDER_SECONDS} s"}
            continue
        queries = [v for v in parse_views(QUERIES, TABLES) if v.name == f"tpch.{shape}"]
        found = measured_group(views_of(shape, count) if count else queries, choices, tables, place, told)
        for name, (predicted, seen) in found.items():
            yield {"group": group, "plan": name, "predicted_ms": predicted, "measured_ms": seen}
        for (one, m), (other, n) in combinations(found.values(), 2):
            if max(m, n) >= 1.1 * min(m, n):
                for by in told:
                    (agree if (one[by] < other[by]) == (m < n) else against)[by] += 1
    taus = {by: (agree[by] - against[by]) / max(1, agree[by] + against[by]) for by in told}
    yield {"pairs": (agree + against)["shipped"], "kendall_tau": taus}


def measured_group(
    views, choices, tables, place: OnNode | InMemory, weights: Mapping[str, Weights]
) -> dict[str, tuple[dict[str, float], float]]:
    """Return CPU milliseconds a base update, without DELTA, by plan: estimated by several weights, and measured.

    All plans are loaded first and take their epochs in turn, so that a noisy moment hits all; the least counts.
    """
    plans: dict[str, Plan] = {}
    for name, choice in choices.items():
        plan = maintenance_plan(views, TABLES, choice)
        if plan not in plans.values():  # because where there is nothing to merge, both ways are one plan
            plans[name] = plan
    runs = {name: place.run(plan) for name, plan in plans.items()}
    for run in runs.values():
        run.epoch({table: Counter(dict.fromkeys(rows, 1)) for table, rows in tables.items()})
    changes, spent = Changes(tables, seed=3), {name: [] for name in runs}
    updates: dict[str, int] = {}
    for _ in range(EPOCHS):
        batch = changes.epoch(0.1)
        updates = {base.name: sum(1 for c in batch[base.name].values() if c < 0) for base in plan.bases}
        for name, run in runs.items():
            before = place.cpu()
            run.epoch(batch)
            spent[name].append(place.cpu() - before)
    place.clear()
    known = statistics_of(tables, updates)
    costs = {
        name: {by: plan_cost(plan, known, told) for by, told in weights.items()}
        for name, plan in plans.items()
    }
    return {
        name: (
            {by: round(cost.total_ms - cost.delta_ms, 4) for by, cost in own.items()},
            min(spent[name]) * 1000 / sum(updates.values()),
        )
        for name, own in costs.items()
    }


def tpch(_: dict[str, list[tuple]], words: Collection[str] = ()) -> Iterator[dict]:
    """Each query (or `tpch q1 q6`, or `tpch 0.1 q1`): epochs of three sizes against Spark, in turn.

    CPU seconds, and beside them the seconds that went by. Ours are the pipeline's programs on dictionaries, DELTA
    included, storage left out. Spark's are its JVM's over tables in its cache that no change ever reaches, its answer
    collected and written nowhere: it is spared reading the base and writing the view. Levels are judged by
    `make nightly PART=tpch-1` (2, 3).
    """
    scale = next((word for word in words if word[0].isdigit()), "0.01")
    names = {f"tpch.{word}" for word in words if word != scale}
    with tempfile.TemporaryDirectory() as folder:
        tables = generate(Path(folder), scale)
        spark = Recomputation(Path(folder))
        for view in parse_views(QUERIES, TABLES):
            if not names or view.name in names:
                yield against_spark(view, tables, spark) | {"scale": scale, "load": os.getloadavg()[0]}
        spark.session.stop()


def against_spark(view: DeclaredView, tables: dict[str, list[tuple]], spark: "Recomputation") -> dict:
    """Load one query once; then in every round an epoch of each size, and one recomputation."""
    plan = maintenance_plan([view], TABLES)
    read = {base.name: tables[base.name] for base in plan.bases}
    changes, run = Changes(read, seed=7), loaded(plan, read)
    load, rounds = run.spent, []
    gc.collect()
    gc.freeze()  # because state is elsewhere in a pipeline, where no collection of this process's garbage walks it
    spark.seconds(view)  # the first compiles
    for _ in range(ROUNDS):
        again, wall = spark.seconds(view)
        spent = {}
        for share in SHARES:
            spent[share] = epoch_seconds(run, changes.epoch(share))
        rounds.append((again, wall, spent))
    gc.unfreeze()
    found: dict = {"view": view.name, "stages": len(plan.stages), "load_s": load}
    found |= {"spark_s": median(it[0] for it in rounds), "spark_wall_s": median(it[1] for it in rounds)}
    for share in SHARES:
        ratios = sorted(again / spent[share] for again, _, spent in rounds)
        found[f"epoch_{share}_s"] = median(spent[share] for *_, spent in rounds)
        found[f"ratio_{share}"] = [round(it, 2) for it in (median(ratios), ratios[0], ratios[-1])]
    return found


def loaded(plan: Plan, tables: dict[str, list[tuple]], *, every_column: bool = False) -> PipelineRun:
    """Return a pipeline in memory that has taken the tables in, behind a door that watches nothing."""
    keys = {p.table: tuple([n for n, _ in p.columns].index(k) for k in p.key) for p in plan.publications}
    run = PipelineRun(plan, Random(1), faults=False, door=MemoryDoor(keys=keys))
    if every_column:
        readers = readers_of(plan, dict.fromkeys(tables), "delta_{}".format)
        run.program = replace(run.program, bases=tuple(readers))
    epoch_seconds(run, {name: Counter(dict.fromkeys(found, 1)) for name, found in tables.items()})
    return run


def epoch_seconds(run: PipelineRun, batch: dict[str, Counter]) -> float:
    """Return the CPU seconds of an epoch, DELTA included."""

    def epoch(changes: dict[str, Counter]) -> float:
        run.write(changes)
        before = run.spent
        run.epoch()
        return run.spent - before

    return uncollected(epoch)(batch)


def columns(_: dict[str, list[tuple]], words: Collection[str] = ()) -> Iterator[dict]:
    """What it saves that base columns which no stage reads are not decoded: 1 % epochs, with and without, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        tables = generate(Path(folder), "0.01")
    for view in parse_views(QUERIES, TABLES):
        if view.name.removeprefix("tpch.") not in (words or ("q1", "q3", "q6", "q10")):
            continue
        plan = maintenance_plan([view], TABLES)
        read = {base.name: tables[base.name] for base in plan.bases}
        runs, changes = (
            [loaded(plan, read, every_column=every) for every in (True, False)],
            Changes(read, seed=7),
        )
        gc.collect()
        gc.freeze()
        spent: list[list[float]] = [[], []]
        for number in range(2 * ROUNDS):
            batch = changes.epoch(0.01)
            for place in ((0, 1), (1, 0))[number % 2]:
                spent[place].append(epoch_seconds(runs[place], batch))
        gc.unfreeze()
        ratios = sorted(every / read for every, read in zip(*spent, strict=True))
        yield {
            "view": view.name, "every_column_ms": 1000 * median(spent[0]), "read_ms": 1000 * median(spent[1]),
            "ratio": [round(it, 2) for it in (median(ratios), ratios[0], ratios[-1])], "load": os.getloadavg()[0],
        }  # fmt: skip


class Recomputation:
    """One Spark session over cached tables."""

    def __init__(self, folder: Path) -> None:
        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        self.session = session.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        self.pid = int(str(self.session._jvm.java.lang.ProcessHandle.current().pid()))
        for name in TABLES:
            plain = name.split(".")[1]
            frame = self.session.read.parquet(str(folder / f"{plain}.parquet")).cache()
            frame.count()
            frame.createOrReplaceTempView(plain)

    def seconds(self, view: DeclaredView) -> tuple[float, float]:
        """Return the CPU seconds of the JVM, and the seconds that went by, for one query."""
        before, began = cpu_seconds(self.pid), time.monotonic()
        self.session.sql(view.sql.replace("tpch.", "")).collect()
        return cpu_seconds(self.pid) - before, time.monotonic() - began


PARTS = {
    "planning": planning,
    "merged": merged,
    "zones": zones,
    "order": order,
    "order-in-memory": order_in_memory,
    "tpch": tpch,
    "columns": columns,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=PARTS, help="all of them, if none is named")
    parser.add_argument(
        "words",
        nargs="*",
        help="a scale and queries for tpch and zones (0.1 q1 q6), shapes and numbers of views for merged",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables = generate(Path(folder), "0.001")
    print(json.dumps({"machine": platform.platform(), "python": platform.python_version()}))
    for name in [options.part] if options.part else PARTS:
        rows = PARTS[name](tables, options.words) if options.words else PARTS[name](tables)
        for row in rows:
            plain = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
            print(json.dumps({"part": name} | plain), flush=True)


if __name__ == "__main__":
    main()
