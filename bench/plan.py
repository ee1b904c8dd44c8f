"""How much planning costs and saves: `make bench B=plan`, or with the names of parts.

All numbers are CPU seconds of the pipeline's own stage programs on dictionaries, so they compare plans and not
a cluster. Ratios are within one run. Parts: planning, merged, zones, incremental, order.
"""

import json
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random

from cvs.model.recompute import recompute_all
from cvs.plan.cost import plan_cost
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.sql import parse_views
from cvs.plan.statistics import Statistics
from tests.plan.faulty_run import PipelineRun
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


def views_of(shape: str, count: int):
    text = "".join(f"CREATE MATERIALIZED VIEW tpch.v{i} AS {SHAPES[shape].format(i)};" for i in range(count))
    return parse_views(text, TABLES)


def seconds(run: ProgramsRun, batch: dict[str, Counter]) -> float:
    before = time.process_time()
    run.epoch(batch)
    return time.process_time() - before


def kept(plan, tables: dict[str, list[tuple]], share: float, epochs: int = 2) -> tuple[float, float, int]:
    """Load, then change a share of every table: CPU seconds of both, and test-and-sets of the changes."""
    run, changes = ProgramsRun(plan), Changes(tables, seed=11)
    names = {base.name for base in plan.bases}
    load = seconds(run, {n: Counter(dict.fromkeys(rows, 1)) for n, rows in tables.items() if n in names})
    asked = run.test_and_sets
    batches = [changes.epoch(share) for _ in range(epochs)]
    total = sum(seconds(run, {n: c for n, c in batch.items() if n in names}) for batch in batches)
    return load, total / epochs, (run.test_and_sets - asked) // epochs


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


def merged(tables: dict[str, list[tuple]]) -> list[dict]:
    rows = []
    for shape in SHAPES:
        for count in (10, 100):
            views = views_of(shape, count)
            together, apart = (maintenance_plan(views, TABLES, c) for c in (Choices(), SEPARATE))
            one, many = kept(together, tables, 0.01), kept(apart, tables, 0.01)
            rows.append({
                "shape": shape, "views": count, "stages": len(together.stages), "stages_apart": len(apart.stages),
                "load_ratio": many[0] / one[0], "epoch_ratio": many[1] / one[1],
                "test_and_set_ratio": many[2] / max(1, one[2]),
                "predicted_ratio": plan_cost(apart).total_ms / plan_cost(together).total_ms,
            })  # fmt: skip
    return rows


def zones(tables: dict[str, list[tuple]]) -> list[dict]:
    """Horizontal merging by itself: each query alone, its zones merged against one table a stage."""
    rows = []
    for view in parse_views(QUERIES, TABLES):
        one, many = (maintenance_plan([view], TABLES, Choices(merge_zones=m)) for m in (True, False))
        if len(one.zones) == len(many.zones):
            continue
        a, b = kept(one, tables, 0.01), kept(many, tables, 0.01)
        rows.append({
            "view": view.name, "zones": len(one.zones), "stages": len(one.stages),
            "cpu_ratio": b[1] / a[1], "test_and_set_ratio": b[2] / max(1, a[2]),
        })  # fmt: skip
    return rows


def incremental(tables: dict[str, list[tuple]]) -> list[dict]:
    """Keeping against recomputing (both in Python, of the same definitions) for batches of 0.1, 1 and 10 percent."""
    base = {
        name: [dict(zip((n for n, _ in TABLES[name].columns), row, strict=True)) for row in rows]
        for name, rows in tables.items()
    }
    rows = []
    for view in parse_views(QUERIES, TABLES):
        before = time.process_time()
        recompute_all([view.definition], base, TABLES)
        full = time.process_time() - before
        plan = maintenance_plan([view], TABLES)
        ratios = {f"at_{share}": full / kept(plan, tables, share, 1)[1] for share in (0.001, 0.01, 0.1)}
        rows.append({"view": view.name, "recompute_s": full, **ratios})
    return rows


def order(tables: dict[str, list[tuple]]) -> list[dict]:
    """Does the cost model order alternatives as measured? Pairs of plans; ties within 10 percent left out."""
    statistics = Statistics(
        rows={name: len(rows) for name, rows in tables.items()},
        epoch_updates=sum(len(rows) for rows in tables.values()) // 100,
        rates={name: float(len(rows)) for name, rows in tables.items()},
    )
    measured: list[tuple[str, float, float]] = []
    for view in parse_views(QUERIES, TABLES):
        plan = maintenance_plan([view], TABLES)
        predicted = plan_cost(plan, statistics)
        ms = sum(
            (predicted.per_update_ms[b] - predicted.delta_ms) * len(tables[b])
            for b in predicted.per_update_ms
        )
        measured.append((view.name, ms, kept(plan, tables, 0.01, 3)[1]))
    agree = against = 0
    for (_, p, m), (_, q, n) in combinations(measured, 2):
        if max(m, n) < 1.1 * min(m, n) or max(p, q) < 1.1 * min(p, q):
            continue
        agree += (p < q) == (m < n)
        against += (p < q) != (m < n)
    return [{"pairs": agree + against, "kendall_tau": (agree - against) / max(1, agree + against)}]


def levels(_: dict[str, list[tuple]]) -> Iterator[dict]:
    """Each query's judged level at SF 0.01, through a load and two epochs of changes of 1 % of every table."""
    with tempfile.TemporaryDirectory() as folder:
        tables = generate(Path(folder), "0.01")
    for view in parse_views(QUERIES, TABLES):
        plan = maintenance_plan([view], TABLES)
        run, changes = PipelineRun(plan, Random(1), faults=False), Changes(tables, seed=7)
        run.write({name: Counter(dict.fromkeys(found, 1)) for name, found in tables.items()})
        run.epoch()
        for _ in range(2):
            run.write(changes.epoch(0.01))
            run.epoch()
        run.finish()
        judged = run.judged(view)
        yield {
            "view": view.name, "stages": len(plan.stages), "tables": len(plan.zones),
            "declared": view.options.level, "record": judged.record.value,
            "snapshot": judged.snapshot.value if judged.snapshot else "none", "plain": judged.plain.value,
            "states": judged.states,
        }  # fmt: skip


PARTS = {
    "planning": planning,
    "merged": merged,
    "zones": zones,
    "incremental": incremental,
    "order": order,
    "levels": levels,
}


def main(wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = generate(Path(folder), "0.001")
    print(json.dumps({"machine": platform.platform(), "python": platform.python_version(), "scale": 0.001}))
    for name in wanted or PARTS:
        for row in PARTS[name](tables):
            print(
                json.dumps(
                    {"part": name} | {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
                ),
                flush=True,
            )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main(sys.argv[1:])
