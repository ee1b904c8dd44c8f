"""Which view records no table can hold, so that none is accused of not showing them."""

import pytest

from cvs.checker.unheld import too_long


@pytest.mark.parametrize(
    ("key", "partition", "beyond"),
    [
        ((1, 5, "x"), 1, False),
        ((1, 5, None), 1, True),
        ((1, 5, None), 0, False),  # of a history that does not say which part is the partition key
        (("x" * 66_000,), 0, True),
    ],
)
def test_a_key_without_a_part_can_be_shown_by_no_table(
    key: tuple[object, ...], partition: int, beyond: bool
) -> None:
    """A base row of what had COMPACT STORAGE may lack a clustering column: its view was called not converged."""
    assert too_long(key, partition) == beyond
