"""Every story is judged; every line of its verdict must be what the judge says."""

from pathlib import Path

import pytest

from cvs.checker.classify import judge
from cvs.checker.meaning import DefinitionMeaning
from cvs.checker.replay import replay
from cvs.checker.verdict import Verdict, worst
from cvs.checker.verify import verify
from tests.stories.story import read
from tests.stories.views import VIEWS

STORIES = sorted(
    p for folder in ("stories", "ladder") for p in (Path(__file__).parents[1] / folder).glob("*.story")
)


@pytest.mark.parametrize("path", STORIES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_story(path: Path) -> None:
    story = read(path)
    found = judge(replay(story.events), lambda _: DefinitionMeaning(VIEWS[story.view]))
    for granularity, name, verdict in story.expectations:
        said = worst(f.verdict for f in found.of(name, granularity))
        assert found.of(name, granularity), name
        assert said.value == verdict, (granularity, name, list(found.of(name, granularity)))
    for granularity, level in story.levels:
        assert str(found.level(granularity)) == level, granularity
    for judged in found.judged:
        for finding in judged.findings:
            if finding.witness and not finding.reason and finding.verdict is not Verdict.UNDECIDED:
                problem = judged.problem
                again = verify(
                    f"{finding.property} {finding.verdict.value}",
                    finding.witness,
                    tops=problem.tops,
                    meaning=problem.meaning,
                    states=problem.states,
                )
                assert again is not False, finding


def test_there_are_stories_for_every_example_of_the_papers() -> None:
    assert len([p for p in STORIES if p.parent.name == "stories"]) >= 15
