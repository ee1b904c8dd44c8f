"""Pytest fixtures for other people's tests: assert a level in three lines.

pytest_plugins = ["cvs.suite.plugin"]

def test_my_views(cvs_views):
    found = cvs_views("views.sql", examples=50)
    assert found.held, str(found)

def test_my_maintainer(cvs_suite):
    found = cvs_suite([MyMaintainer(), MyMaintainer()], view="count", runs=50)
    assert found.record.reaches(Level.STRONG), found.words
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from cvs.errors import CvsError
from cvs.suite.foreign import Examination, examine
from cvs.suite.user_views import user_views
from cvs.suite.view_reports import ViewsExamined, examine_views, written


@pytest.fixture
def cvs_suite() -> Callable[..., Examination]:
    """Examine a maintainer: instances that share one view, and the view class they maintain."""
    return examine


@pytest.fixture
def cvs_views(tmp_path: Path) -> Callable[..., ViewsExamined]:
    """Examine views of SQL (a file with their CREATE TABLEs); stories of failures go to the test's own folder."""

    def examined(
        path: str | Path, *, examples: int = 50, seed: int = 0, without: tuple[str, ...] = ()
    ) -> ViewsExamined:
        try:
            user = user_views(Path(path).read_text())
        except (CvsError, OSError) as mistake:  # its words say what to do; our stack says nothing to a user
            pytest.fail(f"{path}: {mistake}", pytrace=False)
        found = examine_views(user, examples=examples, seed=seed, without=without)
        written(found, tmp_path)
        return found

    return examined
