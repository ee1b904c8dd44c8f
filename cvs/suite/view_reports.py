"""`cvs suite --views`: the user's own views in many generated runs, against the levels they declare."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from cvs.checker.classify import Judgement
from cvs.history.codec import line_of
from cvs.model.levels import Level
from cvs.plan.sql import DeclaredView
from cvs.report.audit import audit
from cvs.report.page import run_page
from cvs.simulate.epochs import EpochWorld
from cvs.simulate.feeds import Door, Naming
from cvs.simulate.hazards import epoch_world
from cvs.simulate.scheduler import EpochFaults, simulated_epochs
from cvs.suite.reports import Report, aligned
from cvs.suite.shrinking import shrunk
from cvs.suite.user_views import UPDATES, UserViews, Workload, epoch_scenario, held, judged_view
from cvs.suite.view_history import history_of
from cvs.suite.view_story import ViewStory, narrated, text_of, with_levels, world_of

Place = tuple[Door, Naming]
Places = Callable[[], AbstractContextManager[Place | None]]
"""Where each run takes place: a fresh set of tables on a cluster, or (None) in memory."""


def in_memory() -> AbstractContextManager[Place | None]:
    """Take place in the simulator."""
    return nullcontext(None)


@dataclass(slots=True, kw_only=True)
class ViewFindings:
    """What was seen of one view: its lowest levels, in how many runs its declared level held, the first failure."""

    view: DeclaredView
    runs: int = 0
    held: int = 0
    record: Level = Level.COMPLETE
    whole: Level = Level.COMPLETE
    seed: int | None = None
    words: tuple[str, ...] = ()
    story: ViewStory | None = None
    stuck: bool = False  # the story ends in something that cannot go on, not in a wrong view
    files: list[Path] = field(default_factory=list)

    def take(self, story: ViewStory, world: EpochWorld, seed: int) -> None:
        """Take one run in; the first that fell below the declared level is kept, rather a wrong view than none."""
        judgement = judged_view(world, story.user, self.view)
        self.runs += 1
        self.record = min(self.record, judgement.record, key=lambda level: level.rank)
        self.whole = min(self.whole, judgement.view, key=lambda level: level.rank)
        if held(self.view, judgement):
            self.held += 1
        elif self.story is None or (self.stuck and not world.broken):
            self.story, self.seed, self.stuck = story, seed, bool(world.broken)
            self.words = narrated(world, self.view.name, judgement)

    def shrink(self) -> None:
        """Make the story the smallest that falls the same way; one that only a cluster shows stays as it was."""
        assert self.story is not None

        def falls(candidate: ViewStory) -> bool:
            world = world_of(candidate)
            fallen = not held(self.view, judged_view(world, candidate.user, self.view))
            return fallen and bool(world.broken) == self.stuck

        if falls(self.story):
            story = with_levels(shrunk(self.story, falls))
            world = world_of(story)
            self.words = narrated(world, self.view.name, judged_view(world, story.user, self.view))
        else:
            story = self.story
        self.story = replace(story, words=(f"{self.view.name}: seed {self.seed}", *self.words))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ViewsExamined:
    """The answer for a text of views; `held` is what a test asserts."""

    findings: tuple[ViewFindings, ...]

    @property
    def held(self) -> bool:
        """Say whether every view had its declared level in every run."""
        return all(found.held == found.runs for found in self.findings)

    def __repr__(self) -> str:
        """Name the views that failed, as short as pytest shows what a bare assertion was about."""
        fallen = [
            f"{it.view.name} in {it.held} of {it.runs} runs" for it in self.findings if it.held < it.runs
        ]
        return f"levels held: {', '.join(fallen) or 'everywhere'}"

    def __str__(self) -> str:
        """Say it in lines, for the message of a failing test."""
        return "\n".join(lines_of(self))


def one_world(
    user: UserViews,
    workload: Workload,
    seed: int,
    *,
    updates: int = UPDATES,
    without: tuple[str, ...] = (),
    place: Place | None = None,
) -> tuple[EpochWorld, ViewStory]:
    """Make and run the world of one seed; return it with its story."""
    random = Random(f"views/{seed}")  # noqa: S311 -- because chance is replayed, not secret
    scenario = epoch_scenario(user, workload, random, updates=updates)
    door, naming = place or (None, None)
    world = epoch_world(replace(scenario, off=without), door=door, naming=naming)
    schedule = simulated_epochs(world, EpochFaults(), random)
    return world, ViewStory(user=user, scenario=scenario, schedule=tuple(schedule), without=without)


def examine_views(
    user: UserViews,
    *,
    examples: int = 100,
    seed: int = 0,
    updates: int = UPDATES,
    without: tuple[str, ...] = (),
    places: Places = in_memory,
) -> ViewsExamined:
    """Run the views in so many worlds; the first failing run of each view is shrunk to its smallest story.

    Runs on a cluster are shrunk in the simulator, where the same schedule can be replayed; a run that fails on
    the cluster alone is told as it was.
    """
    workload = Workload(user)
    findings = {view.name: ViewFindings(view=view) for view in user.views}
    for number in range(seed, seed + examples):
        with places() as place:
            world, story = one_world(user, workload, number, updates=updates, without=without, place=place)
            for found in findings.values():
                found.take(story, world, number)
    for found in findings.values():
        if found.story is not None:
            found.shrink()
    return ViewsExamined(findings=tuple(findings.values()))


def written(examined: ViewsExamined, folder: Path) -> None:
    """Write story, history and page of each view that failed; of a pipeline that stands still only the story."""
    for found in examined.findings:
        if found.story is None:
            continue
        stem = folder / found.view.name.replace(".", "-")
        story, history, page = (stem.with_suffix(end) for end in (".story", ".ndjson", ".html"))
        folder.mkdir(parents=True, exist_ok=True)
        story.write_text(text_of(found.story))
        found.files = [story]
        if found.stuck:
            continue  # because nothing wrong was shown: judged by what it shows, the run is right so far
        world = world_of(found.story)
        events = history_of(world, found.story.user, only=found.view.name)
        history.write_bytes(b"".join(line_of(event) for event in events))
        document, judgement = audit([history], picture=True)
        assert isinstance(judgement, Judgement), "our own history has views"
        page.write_text(run_page(judgement, document), encoding="utf-8")
        found.files = [story, history, page]


def lines_of(examined: ViewsExamined) -> Iterator[str]:
    """Say per view whether its level held, and tell the story where it did not."""
    rows: list[tuple[str, ...]] = [("view", "declared", "held in", "lowest seen: a record, the whole view")]
    for found in examined.findings:
        options = found.view.options
        declared = f"{options.level} by {options.granularity}"
        lowest = f"{found.record.value}, {found.whole.value}"
        rows.append((found.view.name, declared, f"{found.held} of {found.runs} runs", lowest))
    yield from aligned(rows)
    for found in examined.findings:
        if found.seed is not None:
            yield ""
            happened = "is not kept any more" if found.stuck else "fell below its declared level"
            yield f"{found.view.name} {happened} (seed {found.seed}); the smallest such run:"
            yield from (f"  {line}" for line in found.words)
            yield from (f"  {file}" for file in found.files)


def report_of(examined: ViewsExamined) -> Report:
    """Return the answer of the command."""
    result = [
        {
            "view": found.view.name,
            "declared": found.view.options.level,
            "granularity": found.view.options.granularity,
            "runs": found.runs,
            "held": found.held,
            "record": found.record.value,
            "whole_view": found.whole.value,
            "seed": found.seed,
            "words": found.words,
            "files": [str(file) for file in found.files],
        }
        for found in examined.findings
    ]
    return Report(met=examined.held, lines=tuple(lines_of(examined)), result=result)
