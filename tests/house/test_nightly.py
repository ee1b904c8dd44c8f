"""Parts in slices go on where they stopped: at this commit, from this seed, only what is not green."""

from tests.nightly import EXAMPLES, SLICES, slices_left


def test_slices_with_a_green_line_of_this_commit_are_not_run_again() -> None:
    size = EXAMPLES["contention"]
    green = {"part": "contention", "commit": "abc", "exit_code": 0}
    lines = [
        {**green, "seed": 0},
        {**green, "seed": size, "exit_code": 1},
        {**green, "seed": 2 * size, "commit": "old"},
        {**green, "seed": 3 * size, "part": "agree"},
    ]
    left = slices_left("contention", 0, "abc", lines)
    assert left == [size * number for number in range(1, SLICES["contention"])]
    assert slices_left("contention", 0, "abc", [{**green, "seed": s} for s in (0, *left)]) == []
