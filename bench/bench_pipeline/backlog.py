"""Backlog absorption: changes wait in the feed, writers are off, one process drains them."""

import cProfile
import itertools
import pstats
import statistics
import time
from pathlib import Path
from typing import Any

from bench_pipeline.place import Bench, cpu_seconds, quantiles, views_of
from cvs.capture.folder import FolderFeed
from cvs.store.session import CassandraSession
from cvs.stream.pipeline import Pipeline
from cvs.stream.recipe import recipe_of
from cvs.stream.recording import EpochLog
from cvs.stream.spark import IDLE_SECONDS, spark_session, spread_over
from cvs.stream.tables import Names, create

LIVE_EPOCH = 500
"""About as many changes as an epoch takes while writers write as fast as they can."""

_numbers = itertools.count(1)


def new_pipeline(bench: Bench, mode: str) -> Pipeline:
    """A pipeline over tables of its own, at the feed's beginning."""
    session = CassandraSession(bench.session.address)
    names = Names(keyspace=f"backlog_{next(_numbers)}")
    base = "c1" if mode == "c1" else "c4"
    views = views_of(mode).replace(f" {base}.", f" {names.keyspace}.")
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.define(f"CREATE KEYSPACE {names.keyspace} WITH replication = {replication}")
    recipe, _ = recipe_of(session, views, names=names, keyspaces=(f"base_{base}",))
    create(session, recipe.plan, names)
    return Pipeline(recipe=recipe, feed=FolderFeed(bench.folder / "feed"), session=session)


def drained(bench: Bench, pipeline: Pipeline) -> dict[str, Any]:
    """Drain what waits; CPU ms a change of this process and of the node, and where the wall time went."""
    changes = _waiting(pipeline)
    node = bench.node.process.pid  # type: ignore[union-attr]
    before, own, started = cpu_seconds(node), time.process_time(), time.monotonic()
    epochs = 0
    while _waiting(pipeline):
        assert pipeline.step() is not None
        epochs += 1
    wall = time.monotonic() - started
    own, theirs = time.process_time() - own, cpu_seconds(node) - before
    meter = pipeline.door.meter
    return {
        "changes": changes,
        "epochs": epochs,
        "changes/s": round(changes / wall),
        "pipeline_ms": round(1000 * own / changes, 3),
        "node_ms": round(1000 * theirs / changes, 3),
        "wall s": {name: round(s, 2) for name, s in {**pipeline.seconds, **meter.seconds}.items()},
        "requests": dict(meter.counts),
        "rows a change": {name: round(count / changes, 3) for name, count in meter.rows.items()},
    }


def _waiting(pipeline: Pipeline) -> int:
    pin = (pipeline.control or pipeline.start()).pin
    pinned = pin.since if pipeline.control is not None and pipeline.control.pinned else pin.until
    heads = pipeline.heads()  # without what builds of other pipelines have put into the feed
    return sum(head.position - pinned.get(stream, 0) for stream, head in heads.items())


def backlog(
    bench: Bench, mode: str, count: int, *, rounds: int, profile: str | None = None
) -> dict[str, Any]:
    """Fill the feed, drain it once to warm up (inserts), then again and again with updates of the same rows.

    Returned is the median round; a profile is of one more round, as profiling slows it down.
    """
    pipeline = new_pipeline(bench, mode)
    bench.write(mode, count, seed=1)
    bench.wait_captured()
    first = drained(bench, pipeline)
    found = sorted(
        (_updated(bench, pipeline, mode, count, seed=2 + number) for number in range(rounds)),
        key=lambda it: it["changes/s"],
    )
    if profile:
        with cProfile.Profile() as profiler:
            _updated(bench, pipeline, mode, count, seed=2 + rounds)
        with Path(profile).open("w") as out:
            pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(90)
    pipeline.changes_an_epoch = LIVE_EPOCH
    live = _updated(bench, pipeline, mode, 8 * LIVE_EPOCH, seed=3 + rounds)
    pipeline.session.close()
    return {
        **found[len(found) // 2],
        f"epochs of {LIVE_EPOCH}": live,
        "changes/s of all rounds": [it["changes/s"] for it in found],
        "first, with start-up, changes/s": first["changes/s"],
    }


def _updated(bench: Bench, pipeline: Pipeline, mode: str, count: int, *, seed: int) -> dict[str, Any]:
    bench.write(mode, count, seed=seed)
    bench.wait_captured()
    pipeline.seconds.clear()
    pipeline.door.meter.clear()
    return drained(bench, pipeline)


def live(bench: Bench, mode: str, rate: int, seconds: float) -> dict[str, Any]:
    """Where the time of small epochs goes: one process follows writers at a rate; medians and means of its epochs.

    What a row waits for: the capture, the epoch that runs when it comes, its own.
    """
    pipeline = new_pipeline(bench, mode)
    pipeline.drain(seconds=120)
    captured, took, sizes = [], [], []
    with bench.loaded(mode, rate):
        end = time.monotonic() + seconds
        pipeline.seconds.clear()
        pipeline.door.meter.clear()
        while time.monotonic() < end:
            started = time.monotonic()
            before = pipeline.control.pin.until if pipeline.control else {}
            captured.append(
                time.time() - min(pipeline.feed.head(s).clock for s in pipeline.feed.streams()) / 1e6
            )
            if pipeline.step() is None:
                time.sleep(IDLE_SECONDS)
                continue
            took.append(time.monotonic() - started)
            assert pipeline.control is not None
            sizes.append(sum(at - before.get(s, 0) for s, at in pipeline.control.pin.until.items()))
    pipeline.session.close()
    spent = {**pipeline.seconds, **pipeline.door.meter.seconds}
    return {
        "epochs": len(took),
        "changes an epoch": round(statistics.mean(sizes), 1),
        "epoch ms": quantiles([1000 * it for it in took]),
        "feed's clock behind, ms": quantiles([1000 * it for it in captured]),
        "of a mean epoch, ms": {name: round(1000 * it / len(took), 1) for name, it in spent.items()},
        "mean epoch ms": round(1000 * statistics.mean(took), 1),
        "requests an epoch": {
            name: round(n / len(took), 1) for name, n in pipeline.door.meter.counts.items()
        },
    }


def spread(bench: Bench, count: int, *, spark: str) -> dict[str, Any]:
    """Backlogs of several sizes, each as one epoch: in this process, and spread over Spark's tasks."""
    session = spark_session(spark)
    found: dict[str, Any] = {}
    try:
        for mode in ("c4", "c11"):
            for place in ("here", "tasks"):
                pipeline = new_pipeline(bench, mode)
                if place == "tasks":
                    pipeline.spread, pipeline.spread_from = spread_over(session), 1
                _write_and_drain(bench, pipeline, count)  # all rows are there, everything is warm
                for size in (count // 16, count // 4, count):
                    it = _write_and_drain(bench, pipeline, size)
                    found[f"{mode} {place}, {size} changes an epoch, changes/s"] = it["changes/s"]
                pipeline.session.close()
    finally:
        session.stop()
    return found


def _write_and_drain(bench: Bench, pipeline: Pipeline, count: int) -> dict[str, Any]:
    bench.write("c4", count, seed=next(_numbers))
    bench.wait_captured()
    return drained(bench, pipeline)


def recording(bench: Bench, count: int, *, rounds: int) -> dict[str, Any]:
    """The same backlog into two pipelines, one with the epoch log, in turns."""
    plain, recorded = new_pipeline(bench, "c4"), new_pipeline(bench, "c4")
    recorded.watchers.append(EpochLog(bench.folder / "epochs"))
    speeds: dict[str, list[float]] = {"off": [], "on": []}
    for number in range(rounds + 1):
        bench.write("c4", count, seed=10 + number)
        bench.wait_captured()
        turns = [("off", plain), ("on", recorded)]
        for name, pipeline in turns if number % 2 else reversed(turns):
            found = drained(bench, pipeline)
            if number:
                speeds[name].append(found["pipeline_ms"] + found["node_ms"])
    off, on = (statistics.median(speeds[name]) for name in ("off", "on"))
    for pipeline in (plain, recorded):
        pipeline.session.close()
    return {"off_ms": round(off, 3), "on_ms": round(on, 3), "costs": f"{(on / off - 1) * 100:.1f} %"}
