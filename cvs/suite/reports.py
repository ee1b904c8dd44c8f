"""What the suites found, as lines and as data: what `cvs suite` answers with."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cvs.model.levels import Granularity
from cvs.suite.hazard_table import HAZARDS, run
from cvs.suite.hazard_table import violations as hazard_violations
from cvs.suite.story import text_of
from cvs.suite.switches import SWITCHES, violations, world_of
from cvs.suite.table import SHORT, cells, counter_example, examined, needed, table

SEARCH_MAX = 20
"""A counter-example is looked for in this many times `runs` runs before it counts as missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An answer: whether the expectation is met, in words, as data."""

    met: bool
    lines: tuple[str, ...]
    result: Any  # because each report has its own shape, encoded as JSON


def aligned(rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Lay rows out in columns; the last one is free."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return tuple(
        "  ".join([*(field.ljust(width) for field, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )


def predicted_table() -> Report:
    """Show the table: record level / whole-view level."""
    rows = table()
    result = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    return Report(met=True, lines=aligned(rows), result=result)


def cells_examined(*, runs: int, seed: int, only: str) -> Report:
    """Run every cell; say which fell below its prediction, worst news first."""
    started = time.perf_counter()
    found = [examined(cell, runs=runs, seed=seed) for cell in cells() if only in cell.shape.name]
    seconds = time.perf_counter() - started
    fallen = [e for e in found if not e.kept]
    lines = [
        f"BELOW  {e.cell.name}: record {SHORT[e.record]} (seed {e.record_seed}), view {SHORT[e.view]} "
        f"(seed {e.view_seed}); predicted {SHORT[e.cell.record]} / {SHORT[e.cell.view]}"
        for e in fallen
    ]
    total = sum(e.runs for e in found)
    lines.append(
        f"{len(found)} cells, {total} judged runs in {seconds:.1f} s ({total / max(seconds, 1e-9):.0f} a second): "
        f"{len(fallen)} below their prediction"
    )
    result = [
        {
            "cell": e.cell.name,
            "runs": e.runs,
            "record": e.record.value,
            "view": e.view.value,
            "predicted_record": e.cell.record.value,
            "predicted_view": e.cell.view.value,
            "kept": e.kept,
        }
        for e in found
    ]
    return Report(met=not fallen, lines=tuple(lines), result=result)


def switches_tried(*, runs: int, seed: int) -> Report:
    """Turn each rule off until its violation shows; with it on, none may show."""
    rows: list[tuple[str, ...]] = [("rule off", "violation", "shown in", "with the rule on", "why")]
    met = True
    result = []
    for found in SWITCHES:
        seeds = range(seed, seed + runs)
        off = sum(found.violation in violations(world_of(found, s, off=True), found) for s in seeds)
        on = sum(bool(violations(world_of(found, s, off=False), found)) for s in seeds)
        met = met and off > 0 and on == 0
        rows.append((found.name, found.violation, f"{off} of {runs}", f"{on} of {runs}", found.why))
        result.append(
            {"switch": found.name, "violation": found.violation, "off": off, "on": on, "runs": runs}
        )
    return Report(met=met, lines=aligned(rows), result=result)


def hazards_tried(*, runs: int, seed: int, only: str = "") -> Report:
    """Turn each rule of the epoch protocol off until its violation shows; with it on, none may show."""
    rows: list[tuple[str, ...]] = [("rule off", "hazard", "violation", "seed", "with the rule on", "why")]
    met = True
    result = []
    for found in (h for h in HAZARDS if only in h.rule):
        tried = range(seed, seed + runs * SEARCH_MAX)
        shown = next(
            (s for s in tried if found.violation in hazard_violations(run(found, s, off=True), found)), None
        )
        on = sum(bool(hazard_violations(run(found, s, off=False), found)) for s in range(seed, seed + runs))
        met = met and shown is not None and on == 0
        said = "none" if shown is None else str(shown)
        rows.append((found.rule, found.closes, found.violation, said, f"{on} of {runs}", found.why))
        result.append(
            {
                "rule": found.rule,
                "hazard": found.closes,
                "violation": found.violation,
                "seed": shown,
                "on": on,
            }
        )
    return Report(met=met, lines=aligned(rows), result=result)


def counter_examples(folder: Path, *, runs: int, only: str, say: Callable[[str], None]) -> Report:
    """Write the stories that must exist; a missing one means that a prediction is too low."""
    folder.mkdir(parents=True, exist_ok=True)
    missing, written = [], []
    for granularity in Granularity:
        for cell in needed(granularity):
            if only not in cell.shape.name:
                continue
            story = counter_example(cell, granularity, runs=runs * SEARCH_MAX)
            name = f"{cell.name.replace('/', '--')}--{granularity.value}"
            if story is None:
                missing.append(name)
                say(f"MISSING {name}")
                continue
            (folder / f"{name}.story").write_text(text_of(story))
            written.append(name)
            say(f"written {name}: {len(story.scenario.writes)} updates, {len(story.schedule)} steps")
    lines = (f"{len(written)} stories written to {folder}, {len(missing)} missing", *missing)
    return Report(met=not missing, lines=lines, result={"written": written, "missing": missing})
