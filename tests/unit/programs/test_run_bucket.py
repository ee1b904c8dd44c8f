"""One bucket through its epochs, statement by statement: what the machine asks, writes, keeps, and refuses."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cvs.model.outcome import Outcome, OutcomeKind
from cvs.model.signature import Signature
from cvs.programs.delta import StaleDriverError
from cvs.programs.stage_bag import Bag
from cvs.programs.stage_bucket import (
    ALL_RULES,
    GRAVES,
    ReadBucket,
    Rules,
    SetBucket,
    StateRow,
    drive,
    run_bucket,
)
from cvs.programs.stage_memory import MemoryDoor
from cvs.programs.stage_state import NeedsError, State

INCARNATION = 7
THREE_A_STATEMENT = Rules(rows_a_statement=3)
PLACE = ("s", 4)
Moves = dict[bytes, bytes | None]


class Recorded(MemoryDoor):
    """A bucket in memory that keeps what it was asked; from the statement with a number on nothing is answered."""

    def __init__(self) -> None:
        super().__init__(incarnation=INCARNATION)
        self.reads: list[ReadBucket] = []
        self.sets: list[SetBucket] = []
        self.lost_from: int | None = None
        self.refused: Callable[[], None] | None = None

    def answer(self, request: Any) -> Any:
        if isinstance(request, ReadBucket):
            self.reads.append(request)
        else:
            if self.lost_from == len(self.sets):
                raise ConnectionError
            self.sets.append(request)
            if self.refused is not None:
                before, self.refused = self.refused, None
                before()
        return super().answer(request)


def moving(moves: Moves) -> Callable[[State], dict[str, Bag]]:
    """Return a stage that gives rows values and tells what they were."""

    def compute(state: State) -> dict[str, Bag]:
        state.want(keys=moves)
        stood = Bag([((key.decode(), (state.get(key) or b"").decode()), 1) for key in sorted(moves)])
        for key, value in moves.items():
            state.put(key, value)
        return {"stood": stood}

    return compute


def run(door: Recorded, epoch: int, moves: Moves, rules: Rules = ALL_RULES) -> list[tuple[str, str]]:
    machine = run_bucket(
        moving(moves), table="s", bucket=4, incarnation=INCARNATION, epoch=epoch, rules=rules
    )
    return [row for row, _ in drive(machine, door)["stood"]]


def graves(*keys: bytes) -> bytes:
    return msgspec.msgpack.encode(keys)


def test_a_first_run_reads_what_is_wanted_and_writes_it_under_one_signature() -> None:
    door = Recorded()
    assert run(door, 3, {b"b": b"2", b"a": b"1"}) == [("a", ""), ("b", "")]
    (read,) = door.reads
    assert read == ReadBucket(table="s", bucket=4, keys=(GRAVES, b"a", b"b"))
    assert (read.serial, read.everything) == (False, False)
    (sent,) = door.sets
    assert sent.expected == Signature(incarnation=INCARNATION)
    assert sent.new == Signature(incarnation=INCARNATION, version=3, chunk=0, last=True)
    assert sent.puts == ((b"a", StateRow(b"1", 3, True)), (b"b", StateRow(b"2", 3, True)))
    assert sent.deletes == ()
    assert msgspec.structs.astuple(sent.puts[0][1]) == (b"1", 3, True, b"", 0, False)


def test_an_epoch_without_changes_moves_the_signature_all_the_same() -> None:
    door = Recorded()
    run(door, 3, {})
    assert [(it.new.version, it.new.last, it.puts) for it in door.sets] == [(3, True, ())]


def test_a_row_keeps_what_it_was_before_and_since_when() -> None:
    door = Recorded()
    run(door, 3, {b"a": b"1"})
    assert run(door, 5, {b"a": b"2"}) == [("a", "1")]
    run(door, 9, {b"a": None})
    kept = door.rows[PLACE]
    assert kept[b"a"] == StateRow(b"", 9, False, b"2", 5, True)
    assert door.sets[1].puts == ((b"a", StateRow(b"2", 5, True, b"1", 3, True)),)


def test_a_replay_reads_at_serial_computes_from_the_state_before_and_writes_nothing() -> None:
    door = Recorded()
    run(door, 3, {b"a": b"1", b"b": b"1"})
    moves: Moves = {b"a": b"2", b"b": None, b"c": b"3"}
    first = run(door, 4, moves)
    door.reads.clear(), door.sets.clear()
    assert run(door, 4, moves) == first == [("a", "1"), ("b", "1"), ("c", "")]
    assert [it.serial for it in door.reads] == [False, True]
    assert door.sets == []


@pytest.mark.parametrize(
    "other",
    [{b"a": b"3"}, {b"b": b"1"}, {b"a": None}, {b"a": b"2", b"b": b"1"}],
)
def test_a_replay_that_computes_something_else_stops(other: Moves) -> None:
    door = Recorded()
    run(door, 3, {b"a": b"1"})
    run(door, 4, {b"a": b"2"})
    with pytest.raises(StaleDriverError, match="is not there as this driver computes it"):
        run(door, 4, other)


def test_a_row_that_only_stands_as_it_was_before_is_not_taken_for_written() -> None:
    door = Recorded()
    run(door, 3, {b"a": b"1"})
    run(door, 4, {b"b": b"1"})
    with pytest.raises(StaleDriverError):
        run(door, 4, {b"a": b"1", b"b": b"1"})


def test_a_run_that_ended_between_two_statements_is_gone_on_with() -> None:
    """H7: the chunk says how far it got; whoever goes on computes the same and sends the rest."""
    door, moves = Recorded(), {b"%02d" % n: b"now" for n in range(7)}
    run(door, 2, {b"00": b"old", b"06": b"old", b"dead": b"x"}, THREE_A_STATEMENT)
    run(door, 3, {b"dead": None}, THREE_A_STATEMENT)
    door.sets.clear()
    door.lost_from = 1
    with pytest.raises(ConnectionError):
        run(door, 4, moves, THREE_A_STATEMENT)
    door.lost_from = None
    stood = run(door, 4, moves, THREE_A_STATEMENT)
    assert stood == [(f"0{n}", "old" if n in (0, 6) else "") for n in range(7)]
    signatures = [it.new for it in door.sets]
    assert [(it.version, it.chunk, it.last) for it in signatures] == [
        (4, 0, False),
        (4, 1, False),
        (4, 2, True),
    ]
    assert [it.expected for it in door.sets][1:] == signatures[:-1]
    assert [key for it in door.sets for key, _ in it.puts] == [GRAVES, *sorted(moves)]
    assert [it.deletes for it in door.sets] == [(), (), (b"dead",)]
    assert door.rows[PLACE][b"00"] == StateRow(b"now", 4, True, b"old", 2, True)
    assert door.rows[PLACE][b"06"] == StateRow(b"now", 4, True, b"old", 2, True)


def test_without_the_rule_of_the_last_chunk_half_an_epoch_counts_as_done() -> None:
    """H7's hazard, seen in the machine alone: what is missing is noticed, for its rows are not there."""
    door, moves = Recorded(), {b"%02d" % n: b"now" for n in range(7)}
    door.lost_from = 1
    with pytest.raises(ConnectionError):
        run(door, 4, moves, THREE_A_STATEMENT)
    door.lost_from = None
    with pytest.raises(StaleDriverError):
        run(door, 4, moves, Rules(rows_a_statement=3, last_chunk_decides=False))


def test_what_dies_is_listed_and_deleted_by_the_next_epoch_unless_it_came_back() -> None:
    door = Recorded()
    run(door, 1, {b"a": b"1", b"b": b"1"})
    run(door, 2, {b"b": None, b"a": None})
    assert door.rows[PLACE][GRAVES] == StateRow(graves(b"a", b"b"), 2, True)
    run(door, 3, {b"a": b"2"})
    assert door.sets[-1].deletes == (b"b",)
    assert b"b" not in door.rows[PLACE]
    assert door.rows[PLACE][b"a"] == StateRow(b"2", 3, True, b"", 2, False)
    assert door.rows[PLACE][GRAVES] == StateRow(b"", 3, False, graves(b"a", b"b"), 2, True)
    run(door, 4, {b"c": b"1"})
    assert door.sets[-1].deletes == ()
    assert [key for key, _ in door.sets[-1].puts] == [b"c"]


def test_a_replay_of_a_burial_lists_and_deletes_the_same() -> None:
    door, moves = Recorded(), {b"%02d" % n: None for n in range(4)}
    run(door, 1, dict.fromkeys(moves, b"1") | {b"x": b"1"}, THREE_A_STATEMENT)
    run(door, 2, {b"x": None}, THREE_A_STATEMENT)
    door.sets.clear()
    door.lost_from = 1
    with pytest.raises(ConnectionError):
        run(door, 3, moves, THREE_A_STATEMENT)
    door.lost_from = None
    run(door, 3, moves, THREE_A_STATEMENT)
    assert [it.deletes for it in door.sets] == [(), (b"x",)]
    assert door.sets[0].puts[0][1].now == graves(*sorted(moves))


def test_a_refused_statement_is_never_sent_again_but_everything_read_anew() -> None:
    door = Recorded()
    run(door, 1, {b"a": b"1"})

    def another() -> None:
        run(copy, 2, {b"a": b"2"})

    copy = Recorded()
    copy.signatures, copy.rows = door.signatures, door.rows
    door.refused = another
    assert run(door, 2, {b"a": b"2"}) == [("a", "1")]
    assert len(door.sets) == 2
    assert [it.serial for it in door.reads[-2:]] == [False, True]


def test_an_unknown_outcome_is_read_again_too() -> None:
    class Unsure(Recorded):
        def answer(self, request: Any) -> Any:
            answer = super().answer(request)
            return Outcome(kind=OutcomeKind.UNKNOWN) if isinstance(request, SetBucket) else answer

    door = Unsure()
    assert run(door, 2, {b"a": b"2"}) == [("a", "")]
    assert len(door.sets) == 1


@pytest.mark.parametrize(
    ("signature", "row"),
    [
        (Signature(incarnation=INCARNATION, version=6), None),
        (Signature(incarnation=INCARNATION, version=4), StateRow(b"", 6, True)),
        (Signature(incarnation=INCARNATION + 1, version=4), None),
        (Signature(version=4), None),
    ],
)
def test_a_driver_stops_where_another_went_on(signature: Signature, row: StateRow | None) -> None:
    door = Recorded()
    door.signatures[PLACE] = signature
    door.rows[PLACE] = {} if row is None else {b"a": row}
    with pytest.raises(StaleDriverError):
        run(door, 5, {b"a": b"1"})
    assert door.sets == []


def test_a_bucket_that_never_rests_is_given_up() -> None:
    class Refusing(Recorded):
        def answer(self, request: Any) -> Any:
            refused = Outcome(kind=OutcomeKind.REJECTED)
            return refused if isinstance(request, SetBucket) else super().answer(request)

    door = Refusing()
    with pytest.raises(StaleDriverError, match="did not come to rest in 50 attempts"):
        run(door, 5, {b"a": b"1"})


def following(state: State) -> dict[str, Bag]:
    """Follow a list: the row `at` names the next one, until one names none; count them."""
    key, count = b"at", 0
    with state.all_or_nothing():
        while (following := state.get(key)) is not None:
            state.put(key, following + b"!")
            key, count = following, count + 1
    return {"found": Bag([((count,), 1)])}


class Listed(Recorded):
    """A bucket with a list of three rows; `between` happens after the read with a number."""

    def __init__(self, between: Callable[["Listed"], None] = lambda _: None, after: int = 0) -> None:
        super().__init__()
        self.between, self.after = between, -1
        run(self, 1, {b"at": b"b", b"b": b"c", b"c": b"d"})
        self.reads.clear(), self.sets.clear()
        self.after = after

    def answer(self, request: Any) -> Any:
        answer = super().answer(request)
        if isinstance(request, ReadBucket) and len(self.reads) == self.after:
            self.between(self)
        return answer

    def follow(self, epoch: int) -> list[tuple[int, ...]]:
        machine = run_bucket(following, table="s", bucket=4, incarnation=INCARNATION, epoch=epoch)
        return [row for row, _ in drive(machine, self)["found"]]


def test_only_what_is_missing_is_read_while_the_signature_stands() -> None:
    door = Listed()
    assert door.follow(2) == [(3,)]
    assert [it.keys for it in door.reads] == [(GRAVES, b"at"), (b"b",), (b"c",), (b"d",)]
    (sent,) = door.sets
    assert [(key, row.now, row.before, row.before_epoch) for key, row in sent.puts] == [
        (b"at", b"b!", b"b", 1),
        (b"b", b"c!", b"c", 1),
        (b"c", b"d!", b"d", 1),
    ]


def test_under_another_signature_everything_is_read_again() -> None:
    """Two reads of which another test-and-set came between are of two moments: nothing of the first is kept."""

    def another(door: Listed) -> None:
        copy = Recorded()
        copy.signatures, copy.rows = door.signatures, door.rows
        run(copy, 2, {b"at": b"c", b"c": None})

    door = Listed(another, after=2)
    assert door.follow(3) == [(1,)]
    assert [it.keys for it in door.reads] == [
        (GRAVES, b"at"),
        (b"b",),
        (b"c",),
        (GRAVES, b"at", b"b", b"c"),
    ]
    (sent,) = door.sets
    assert [(key, row.now) for key, row in sent.puts] == [(GRAVES, b""), (b"at", b"c!")]


def test_what_came_between_of_the_same_epoch_is_read_at_serial_and_whole() -> None:
    """A twin did the epoch while this one was reading: its rows are read anew, in one commit with the signature."""

    def twin(door: Listed) -> None:
        copy = Listed()
        copy.signatures, copy.rows = door.signatures, door.rows
        assert copy.follow(2) == [(3,)]

    door = Listed(twin, after=3)
    assert door.follow(2) == [(3,)]
    assert [it.serial for it in door.reads] == [False, False, False, False, True]
    assert door.reads[-1].keys == (GRAVES, b"at", b"b", b"c", b"d")
    assert door.sets == []


def test_prefixes_that_were_asked_for_are_read_again_together() -> None:
    """The second read, of all that is known to be wanted, leaves nothing to ask for."""

    def counting(state: State) -> dict[str, Bag]:
        state.want(prefixes=[b"a"])
        state.want(prefixes=[b"b"])
        return {"found": Bag([((len(state.under(b"a")), len(state.under(b"b"))), 1)])}

    def another(door: Listed) -> None:
        copy = Recorded()
        copy.signatures, copy.rows = door.signatures, door.rows
        run(copy, 2, {b"a2": b"1"})

    door = Listed(another, after=1)
    machine = run_bucket(counting, table="s", bucket=4, incarnation=INCARNATION, epoch=3)
    assert [row for row, _ in drive(machine, door)["found"]] == [(2, 1)]
    assert [it.prefixes for it in door.reads] == [(b"a",), (b"b",), (b"a", b"b")]


def state(rows: dict[bytes, bytes], keys: set[bytes], prefixes: set[bytes], **more: Any) -> State:
    return State(rows=rows, keys=keys, prefixes=prefixes, **more)


def test_a_state_asks_for_what_it_was_not_told() -> None:
    known = state({b"a": b"1", b"pq": b"2"}, {b"a", b"gone"}, {b"p"})
    assert (known.get(b"a"), known.get(b"gone"), known.get(b"pq")) == (b"1", None, b"2")
    known.want(keys=[b"a", b"p", b"pzz"], prefixes=[b"p"])
    for key in (b"b", b"ap", b"q"):
        with pytest.raises(NeedsError) as needs:
            known.get(key)
        assert (needs.value.keys, needs.value.prefixes) == ((key,), ())
    with pytest.raises(NeedsError) as needs:
        known.want(keys=[b"a", b"b"], prefixes=[b"p", b"r"])
    assert str(needs.value) == "rows not read yet"
    assert (needs.value.keys, needs.value.prefixes) == ((b"b",), (b"r",))
    with pytest.raises(NeedsError) as needs:
        known.under(b"r")
    assert needs.value.prefixes == (b"r",)
    with pytest.raises(NeedsError):
        state({}, set(), set()).get(b"a")
    with pytest.raises(NeedsError):
        state({}, {b"a"}, set()).get(b"b")


def test_prefixes_of_several_sizes_cover_their_keys() -> None:
    known = state({b"pq1": b"1"}, set(), {b"pq", b"x"})
    assert (known.get(b"pq1"), known.get(b"x9"), known.get(b"pq")) == (b"1", None, None)
    with pytest.raises(NeedsError):
        known.get(b"p")


def test_a_state_read_whole_asks_for_nothing() -> None:
    known = state({b"a": b"1"}, set(), set(), everything=True)
    assert (known.get(b"a"), known.get(b"b"), known.under(b"a")) == (b"1", None, {b"a": b"1"})


def test_what_is_under_a_prefix_is_as_changed() -> None:
    known = state({b"p1": b"1", b"p2": b"2", b"q": b"3"}, set(), {b"p"})
    assert known.under(b"p") == {b"p1": b"1", b"p2": b"2"}
    for key, value in ((b"p2", None), (b"p1", b"9"), (b"p3", b"4"), (b"q", b"5"), (b"p0", None)):
        known.put(key, value)
    assert known.under(b"p") == {b"p1": b"9", b"p3": b"4"}
    assert (known.get(b"p2"), known.get(b"p3")) == (None, b"4")


def test_all_rules_are_on() -> None:
    assert (
        Rules(
            stop_when_newer=True,
            last_chunk_decides=True,
            as_of_before=True,
            signatures=True,
            rows_a_statement=1000,
            read_again=True,
        )
        == ALL_RULES
    )
