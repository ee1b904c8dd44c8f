"""Kept bags: what was carried in is there, state is as small as what lives, who computes again writes the same."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from cvs.programs import stage_bucket, stage_cells
from cvs.programs.stage_bucket import GRAVES, StateRow
from cvs.programs.stage_cells import FEWEST, INLINE, MOST, KeptBags, rows_under
from cvs.programs.stage_codec import framed
from cvs.programs.stage_state import NeedsError, State
from tests.unit.programs.epoch_cases import CASES
from tests.unit.programs.epoch_world import Case, World

ROOT = framed(b"0", b"l") + framed(b"value")


class Kept:
    """One bag over rows of state, read as a bucket's machine reads: what was asked for, and nothing else."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.bags = KeptBags()
        self.rounds = 0
        self.read = 0

    def carry(self, counts: dict[bytes, int], bags: KeptBags | None = None) -> dict[bytes, bytes | None]:
        keys: set[bytes] = set()
        prefixes: set[bytes] = set()
        bags = bags or self.bags
        self.rounds = 0
        while True:
            known = {k: v for k, v in self.rows.items() if k in keys or any(map(k.startswith, prefixes))}
            state = State(rows=known, keys=keys, prefixes=prefixes)
            try:
                bags.want(state, {ROOT: counts})
                bags.carry(state, ROOT, counts)
            except NeedsError as needs:
                self.rounds += 1
                keys.update(needs.keys)
                prefixes.update(needs.prefixes)
                continue
            self.read = len(known)
            return dict(state.changed)

    def change(self, counts: dict[bytes, int]) -> None:
        for key, value in self.carry(counts).items():
            if value is None:
                self.rows.pop(key)  # a row that was never there cannot die
            else:
                self.rows[key] = value

    def content(self) -> Counter[bytes]:
        state = State(rows=self.rows, keys=set(), prefixes=set(), everything=True)
        assert dict(rows_under(state, framed(b"0", b"l"))) == self.bags.rows(state, ROOT)
        return Counter(self.bags.rows(state, ROOT))


@pytest.mark.parametrize("seed", range(4))
def test_a_bag_grows_and_falls_and_keeps_what_was_carried_in(seed: int) -> None:
    chance, kept, truth = random.Random(seed), Kept(), Counter[bytes]()
    for target in (10, 300, 30, 800, 100, 0):
        while len(truth) != target:
            counts, there = Counter[bytes](), list(truth)
            for _ in range(min(abs(target - len(truth)), chance.choice((5, 40, 300)))):
                grow = len(truth) < target
                if grow or chance.random() < 0.1:
                    counts[b"row %d" % chance.randrange(10_000)] += 1
                elif truth:
                    row = chance.choice(there)
                    counts[row] -= truth[row] + counts[row]
            again = kept.carry(dict(counts), KeptBags())  # a process that remembers nothing
            assert again == kept.carry(dict(counts))
            kept.change(dict(counts))
            truth.update(counts)
            truth += Counter()  # what comes to nothing is not there
            assert kept.content() == truth
            assert len(kept.rows) <= 1 + len(truth), "there are never more rows of state than rows"
    assert kept.rows == {}, "of nothing nothing is left"


def test_a_change_of_a_large_bag_reads_and_writes_little() -> None:
    kept = Kept()
    kept.change({b"row %d" % number: 1 for number in range(5_000)})
    assert len(kept.rows) > 500
    changed = kept.carry({b"row 7": -1, b"row 5000": 1})
    assert kept.rounds == 1, "how many cells there were is remembered, so all is asked for at once"
    assert len(changed) <= 3
    assert kept.read <= 3


def test_who_remembers_nothing_asks_for_the_root_then_for_all_cells_and_remembers() -> None:
    kept, fresh = Kept(), KeptBags()
    kept.change({b"row %d" % number: 1 for number in range(500)})
    change = {b"row %d" % number: 1 for number in range(5)}
    for rounds in (2, 1):
        kept.carry(change, fresh)
        assert kept.rounds == rounds


def asked(
    counts: dict[bytes, int], *, rows: dict[bytes, bytes], keys: set[bytes], whole: bool = False
) -> NeedsError:
    """Return what is asked for to carry changes into a bag, or to read it whole."""
    state = State(rows=rows, keys=keys, prefixes=set())
    with pytest.raises(NeedsError) as needs:
        KeptBags().want(state, {} if whole else {ROOT: counts}, whole=[ROOT] if whole else [])
    return needs.value


def test_a_bag_that_nobody_knows_is_read_whole_only_if_it_may_be_spread() -> None:
    few, many = ({b"%d" % number: 1 for number in range(count)} for count in (INLINE, INLINE + 1))
    first = asked(few, rows={}, keys=set())
    assert (first.keys, first.prefixes) == ((ROOT,), ())
    first = asked(many, rows={}, keys=set())
    assert (first.keys, first.prefixes) == ((ROOT,), (ROOT,))
    state = State(rows={}, keys={ROOT}, prefixes=set())
    KeptBags().want(state, {ROOT: few})
    assert stage_cells._shape(None) == (0, 0, {})


def test_a_bag_in_cells_is_read_whole_and_one_in_its_root_is_read_already() -> None:
    kept = Kept()
    kept.change({b"row": 1})
    KeptBags().want(State(rows=kept.rows, keys={ROOT}, prefixes=set()), {}, whole=[ROOT])
    kept.change({b"row %d" % number: 1 for number in range(50)})
    second = asked({}, rows={ROOT: kept.rows[ROOT]}, keys={ROOT}, whole=True)
    assert (second.keys, second.prefixes) == ((), (ROOT,))


@pytest.mark.parametrize(
    ("cells", "different", "right"),
    [
        *((0, INLINE, 0), (0, INLINE + 1, 3)),
        *((1, MOST, 1), (1, MOST + 1, 3), (2, 2 * MOST, 2), (2, 2 * MOST + 1, 6)),
        *((9, 9 * FEWEST, 9), (10, 10 * FEWEST - 1, 3), (10, INLINE, 0), (4, 0, 0)),
    ],
)
def test_the_number_of_cells_follows_the_rows(cells: int, different: int, right: int) -> None:
    assert stage_cells._resized(cells, different) == right


@pytest.mark.parametrize(
    ("cells", "different", "steps", "may"),
    [
        *((0, INLINE - 1, (1,), False), (0, INLINE, (1,), True), (0, INLINE, (-1, 0), False)),
        *((0, 0, (1,) * INLINE, False), (0, 1, (-1,), False)),
        *(
            (1, MOST, (0,), False),
            (1, MOST, (2,), True),
            (2, MOST, (1,), False),
            (1, MOST - 1, (1, -1), False),
        ),
        *((3, 3, (0, 1), True), (3, 4, (-1, 1), False), (3, 4, (-1, -1), True), (3, 3, (1,), False)),
    ],
)
def test_another_number_of_cells_may_be_right_if_all_that_come_are_new_and_all_others_go(
    cells: int, different: int, steps: tuple[int, ...], may: bool
) -> None:
    assert (
        stage_cells._may_change(cells, different, {b"%d" % number: step for number, step in enumerate(steps)})
        is may
    )


def test_a_row_cannot_leave_more_often_than_it_came() -> None:
    kept = Kept()
    kept.change({b"row": 2})
    with pytest.raises(AssertionError, match="more often"):
        kept.change({b"row": -3})


EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def churning(case: Case, *, epochs: int = 40) -> World:
    """A few base rows whose values are new again and again."""
    values = {
        table: {
            column: tuple(range(10_000)) if column == "total" else them for column, them in columns.items()
        }
        for table, columns in case.values.items()
    }
    world = World(replace(case, values=values), random.Random(3))
    for _ in range(epochs):
        for _ in range(4):
            world.write()
        world.epoch()
        assert world.shown() == world.expected()
    return world


def state_rows(world: World) -> list[dict[bytes, StateRow]]:
    return [rows for (table, _), rows in world.door.rows.items() if table != "control"]


@EACH
def test_state_under_churn_is_what_lives_and_what_died_last(case: Case) -> None:
    world = churning(case)
    for rows in state_rows(world):
        listed = rows[GRAVES].now if GRAVES in rows else b""
        dead = [key for key, row in rows.items() if not row.alive and key != GRAVES]
        assert all(key in listed for key in dead), "a dead row that no test-and-set will delete"


def test_without_collection_dead_rows_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    top = next(case for case in CASES if case.name == "top")
    kept = sum(map(len, state_rows(churning(top))))
    monkeypatch.setattr(stage_bucket, "_bury", lambda _state: ())
    assert sum(map(len, state_rows(churning(top)))) > 2 * kept


@EACH
@pytest.mark.parametrize("seed", range(2))
def test_crashes_and_zombies_change_nothing_when_bags_are_in_cells(
    case: Case, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `test_epoch_views` says, with bags so small that they are spread, and gathered, all the time."""
    from tests.unit.programs.test_epoch_views import test_crashes_replays_and_zombies_change_nothing

    for name, size in (("MOST", 1), ("FIT", 1), ("FEWEST", 1), ("INLINE", 1)):
        monkeypatch.setattr(stage_cells, name, size)
    test_crashes_replays_and_zombies_change_nothing(case, seed)


def test_large_rows_have_cells_of_their_own() -> None:
    """A row of a megabyte counts as many: eight of them in one cell, before and now, are more than Cassandra takes."""
    kept = Kept()
    large = [b"%d" % number + bytes(1_000_000) for number in range(12)]
    for row in large:
        kept.change({row: 1, b"small" + row[:2]: 1})
        assert max(map(len, kept.rows.values())) < 4_000_000
    assert kept.content() == Counter(dict.fromkeys([*large, *(b"small" + row[:2] for row in large)], 1))
    for row in large:
        kept.change({row: -1})
    assert len(kept.rows) < 20
    kept.change({b"small" + row[:2]: -1 for row in large})
    assert kept.rows == {}
