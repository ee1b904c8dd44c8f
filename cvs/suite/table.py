"""The level table: every cell's prediction is held against runs, from above and from below.

None of `runs` judged runs may fall below the prediction; and for every level above it a counter-example must
exist, as a story. A story found among milder faults serves the harsher fault sets that contain them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from cvs.model.levels import Granularity, Level
from cvs.programs.predicted import FAULT_SET_NAMES, PREDICTIONS, Prediction
from cvs.simulate.scheduler import simulated
from cvs.simulate.world import Scenario, Step
from cvs.suite.classes import ViewClass, view_class
from cvs.suite.judged import Judgement, Known, judged
from cvs.suite.shrinking import shrunk
from cvs.suite.story import Story, narrated, told, with_levels
from cvs.suite.strategies import FaultSet, fault_set, scenario

UPDATES = 8
"""Base updates a run: enough for every known counter-example, few enough to search all base states."""

SHORT = {
    Level.NOT_CONVERGED: "-",
    Level.CONVERGED: "converged",
    Level.WEAK: "weak",
    Level.STRONG: "strong",
    Level.COMPLETE: "complete",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One field of the table: a variant under a fault set, and what is predicted of it."""

    prediction: Prediction
    faults: FaultSet
    record: Level
    view: Level

    @property
    def shape(self) -> ViewClass:
        """Return its view class."""
        return view_class(self.prediction.view_class)

    @property
    def name(self) -> str:
        """Name it for reports."""
        return f"{self.prediction.view_class}/{self.prediction.variant}/{self.faults.name}"

    def predicted(self, granularity: Granularity) -> Level:
        """Return the predicted level of the worst record or of the whole view."""
        return self.record if granularity is Granularity.RECORD else self.view


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What runs of one cell showed: the lowest levels, the seeds that showed them, and how many there were."""

    cell: Cell
    runs: int
    record: Level
    view: Level
    record_seed: int
    view_seed: int

    @property
    def kept(self) -> bool:
        """Say whether no run fell below the prediction."""
        return self.record.reaches(self.cell.record) and self.view.reaches(self.cell.view)


def cells() -> Iterator[Cell]:
    """Yield every cell that means something; excluded ones carry their reason in the prediction."""
    for prediction in PREDICTIONS:
        for name, record, view in zip(FAULT_SET_NAMES, prediction.record, prediction.view, strict=True):
            if record is not None and view is not None:
                yield Cell(prediction=prediction, faults=fault_set(name), record=record, view=view)


def one_run(cell: Cell, seed: int, known: Known | None = None) -> tuple[Scenario, list[Step], Judgement]:
    """Make, run and judge the world of one seed."""
    shape = cell.shape
    variant = shape.variant(cell.prediction.variant)
    world_of, faults = scenario(shape, variant, cell.faults, _random(cell, seed), updates=UPDATES)
    world, schedule = simulated(world_of, faults, seed)
    return world_of, schedule, judged(world, shape, known)


def _random(cell: Cell, seed: int) -> Random:
    return Random(f"{cell.name}/{seed}")  # noqa: S311 -- because chance is replayed, not secret


def examined(cell: Cell, *, runs: int, seed: int = 0) -> Examined:
    """Run a cell so many times and keep the lowest levels seen."""
    record = view = (Level.COMPLETE, seed)
    known = Known()
    for number in range(seed, seed + runs):
        _, _, judgement = one_run(cell, number, known)
        if judgement.record.rank < record[0].rank:
            record = (judgement.record, number)
        if judgement.view.rank < view[0].rank:
            view = (judgement.view, number)
    return Examined(
        cell=cell,
        runs=runs,
        record=record[0],
        view=view[0],
        record_seed=record[1],
        view_seed=view[1],
    )


def counter_example(cell: Cell, granularity: Granularity, *, runs: int, seed: int = 0) -> Story | None:
    """Find the smallest story of a cell that shows its predicted level and no more."""
    wanted = cell.predicted(granularity)
    for number in range(seed, seed + runs):
        world_of, schedule, judgement = one_run(cell, number)
        if _shown(judgement, granularity) is not wanted:
            continue
        found = Story(
            view=cell.shape.name,
            program=cell.prediction.variant,
            scenario=world_of,
            schedule=tuple(schedule),
        )
        small = shrunk(found, lambda story: _still(story, granularity, wanted))
        named = with_levels(small)
        return _worded(named, cell, granularity)
    return None


def _shown(judgement: Judgement, granularity: Granularity) -> Level:
    return judgement.record if granularity is Granularity.RECORD else judgement.view


def _still(story: Story, granularity: Granularity, wanted: Level) -> bool:
    return constraint_kept(story) and _shown(told(story)[1], granularity) is wanted


def constraint_kept(story: Story) -> bool:
    """Say whether every reference has its parent from the start, where the class promises that."""
    if not story.shape.constrained:
        return True
    parents = {key[0] for table, key, _ in story.scenario.initial if table == "s"}
    rows = [row for table, _, row in (*story.scenario.initial, *story.scenario.writes) if table == "r"]
    return all(row is None or row["y"] in parents for row in rows)


def _worded(story: Story, cell: Cell, granularity: Granularity) -> Story:
    of = "of one view record" if granularity is Granularity.RECORD else "of the whole view"
    words = (
        f"{cell.prediction.view_class}, program {cell.prediction.variant}, faults: {cell.faults.name}",
        f"shows that the level {of} is {cell.predicted(granularity).value} and no more",
        *narrated(story),
    )
    return Story(
        view=story.view,
        program=story.program,
        scenario=story.scenario,
        schedule=story.schedule,
        record=story.record,
        whole=story.whole,
        words=words,
    )


def needed(granularity: Granularity) -> Iterator[Cell]:
    """Yield the mildest cell of each (variant, level below complete): the stories that must exist."""
    seen: set[tuple[str, str, Level]] = set()
    for cell in cells():
        level = cell.predicted(granularity)
        at = (cell.prediction.view_class, cell.prediction.variant, level)
        if level is not Level.COMPLETE and at not in seen:
            seen.add(at)
            yield cell


def table(predictions: Iterable[Prediction] = PREDICTIONS) -> list[tuple[str, ...]]:
    """Return the table in words: class, variant, a column for each fault set (record / view), citation."""
    rows: list[tuple[str, ...]] = [("view class", "program", *FAULT_SET_NAMES, "why")]
    for prediction in predictions:
        fields = [
            "(excluded)" if record is None or view is None else f"{SHORT[record]} / {SHORT[view]}"
            for record, view in zip(prediction.record, prediction.view, strict=True)
        ]
        rows.append((prediction.view_class, prediction.variant, *fields, prediction.citation))
    return rows


def markdown() -> str:
    """Return the table as the README holds it."""
    first, *rest = table()
    lines = [first, ("---",) * len(first), *rest]
    return "\n".join("| " + " | ".join(fields) + " |" for fields in lines)
