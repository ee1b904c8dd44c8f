"""A published table is made anew only where its columns really are others."""

import pytest

from cvs.stream.retiring import _plain


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("map<text, int>", "map<text,int>", True),
        ("frozen<map<text,list<int>>>", "frozen<map<text, frozen<list<int>>>>", True),
        ("varchar", "text", True),
        ("list<int>", "frozen<list<int>>", False),
        ("set<int>", "list<int>", False),
    ],
)
def test_types_are_compared_by_what_they_are(one: str, other: str, same: bool) -> None:
    """The schema spells types its own way; frozen or not on the outside makes another table."""
    assert (_plain(one) == _plain(other)) == same
