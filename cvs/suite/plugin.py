"""A pytest fixture for other people's tests: assert the level of a maintainer in three lines.

pytest_plugins = ["cvs.suite.plugin"]

def test_my_view(cvs_suite):
    found = cvs_suite([MyMaintainer(), MyMaintainer()], view="count", runs=50)
    assert found.record.reaches(Level.STRONG), found.words
"""

from collections.abc import Callable

import pytest

from cvs.suite.foreign import Examination, examine


@pytest.fixture
def cvs_suite() -> Callable[..., Examination]:
    """Examine a maintainer: instances that share one view, and the view class they maintain."""
    return examine
