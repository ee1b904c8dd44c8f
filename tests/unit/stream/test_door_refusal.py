"""What a node does not take, however often it is asked, is said with what to change."""

import pytest
from cassandra import InvalidRequest, Unauthorized

from cvs.errors import StoreError
from cvs.stream.door import _outcome, _refused


@pytest.mark.parametrize(
    ("said", "mended"),
    [
        ("CQL Message of size 6000285 bytes exceeds allowed maximum of 4194304 bytes", True),
        ("Rejected an oversized mutation (6000285/4194304)", True),
        ("Undefined column name x", False),
    ],
)
def test_what_is_too_large_names_the_setting(said: str, mended: bool) -> None:
    refusal = _refused("a statement", InvalidRequest(said))
    assert said in refusal.what
    assert ("commitlog_segment_size" in refusal.next_step) is mended


def test_a_test_and_set_that_is_refused_ends_the_driver() -> None:
    with pytest.raises(StoreError, match="refuses a test-and-set: no right"):
        _outcome(Unauthorized("no right"))
