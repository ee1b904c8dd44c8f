"""What one test-and-set carries: within its bounds in rows and bytes, and the same for whoever computes it again."""

import pytest

from cvs.programs import stage_bucket
from cvs.programs.stage_bucket import BYTES_A_STATEMENT
from cvs.programs.stage_state import State


def state(sizes: list[int]) -> State:
    made = State(rows={b"%03d" % n: bytes(size) for n, size in enumerate(sizes)}, keys=set(), prefixes=set())
    for key in made.rows:
        made.put(key, None if key == b"001" else b"now")
    return made


@pytest.mark.parametrize(
    "sizes", [[], [10], [10] * 23, [BYTES_A_STATEMENT // 2] * 5, [2 * BYTES_A_STATEMENT] * 3]
)
def test_changes_are_cut_by_rows_and_by_bytes(sizes: list[int]) -> None:
    changed = state(sizes)
    chunks = list(stage_bucket._chunks(changed, rows=10))
    assert [it for chunk in chunks for it in chunk] == sorted(changed.changed.items())
    assert len(chunks) >= 1  # because an empty change moves the signature too
    for chunk in chunks:
        assert len(chunk) <= 10
        weight = sum(len(key) + len(value or b"") + len(changed.rows[key]) for key, value in chunk)
        assert len(chunk) <= 1 or weight <= BYTES_A_STATEMENT
    assert chunks == list(stage_bucket._chunks(state(sizes), rows=10))


def test_the_bounds_are_used() -> None:
    assert len(list(stage_bucket._chunks(state([10] * 20), rows=10))) == 2
    assert len(list(stage_bucket._chunks(state([BYTES_A_STATEMENT // 2] * 5), rows=10))) > 2


def test_a_statement_that_is_just_full_is_not_cut() -> None:
    """Two and two rows that weigh exactly what a statement may: keys, values, and what the rows were before."""
    half, full = BYTES_A_STATEMENT // 2, State(rows={}, keys=set(), prefixes=set())
    for name in (b"%03d" % n for n in range(5)):
        full.rows[name] = bytes(100)
        full.put(name, bytes(half - 100 - len(name)))
    chunks = list(stage_bucket._chunks(full, rows=10))
    assert [[key for key, _ in chunk] for chunk in chunks] == [[b"000", b"001"], [b"002", b"003"], [b"004"]]
    full.put(b"001", bytes(half - 100 - len(b"001") + 1))
    assert [len(chunk) for chunk in stage_bucket._chunks(full, rows=10)] == [1, 1, 2, 1]
