"""General linearizability: against brute force, against the signature check, against Porcupine's verdicts."""

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cvs.checker import search
from cvs.checker.export import jepsen_edn
from cvs.checker.foreign import parse, recognized
from cvs.checker.replay import ENDLESS, replay
from cvs.checker.search import DIFFERS, READ, SWAP, WRITE, Operation, linearizable
from cvs.checker.signatures import check_record
from cvs.checker.verdict import Verdict, worst
from cvs.errors import HistoryError
from cvs.history import events as ev

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "tests" / "histories" / "porcupine"
WHOLE = ROOT.parent / "shared" / "histories" / "porcupine"


def legal(order: tuple[Operation, ...]) -> bool:
    value: Any = None
    for o in order:
        if o.kind == READ and value != o.a:
            return False
        if o.kind == DIFFERS and value == o.a:
            return False
        if o.kind == SWAP and value != o.a:
            return False
        value = o.a if o.kind == WRITE else o.b if o.kind == SWAP else value
    return True


def brute(operations: list[Operation]) -> bool:
    """Every subset of the crashed ones, every order that time allows."""
    sure = [o for o in operations if o.returned < ENDLESS]
    crashed = [o for o in operations if o.returned >= ENDLESS]
    for count in range(len(crashed) + 1):
        for some in itertools.combinations(crashed, count):
            for order in itertools.permutations([*sure, *some]):
                late = any(b.returned < a.called for a, b in itertools.combinations(order, 2))
                if not late and legal(order):
                    return True
    return False


def history(chance: random.Random) -> list[Operation]:
    operations = []
    for number in range(chance.randint(1, 6)):
        called = chance.randrange(12)
        returned = ENDLESS if chance.random() < 0.2 else called + chance.randrange(6)
        kind = chance.choice((READ, READ, WRITE, SWAP, DIFFERS))
        a = chance.choice((None, 1, 2)) if kind in (READ, DIFFERS) else chance.choice((1, 2))
        operations.append(Operation(kind, a, chance.choice((1, 2)), called, returned, number))
    return operations


@pytest.mark.parametrize(
    "beams", [search.BEAMS, (1 << 60,), (1, 2, 1 << 60)], ids=["beams", "full", "narrow"]
)
def test_search_agrees_with_brute_force(beams: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BEAMS", beams)
    chance = random.Random(5)
    count = {Verdict.HOLDS: 0, Verdict.VIOLATED: 0}
    for _ in range(500):
        operations = history(chance)
        found = linearizable(operations, None)
        assert (found.verdict is Verdict.HOLDS) == brute(operations), operations
        count[found.verdict] += 1
        if found.verdict is Verdict.HOLDS:
            order = tuple(operations[i] for i in found.order)
            assert legal(order)
            assert not any(b.returned < a.called for a, b in itertools.combinations(order, 2))
    assert min(count.values()) > 100


def signed(chance: random.Random) -> list[Any]:
    """A few managers on one view record, mostly right, with refusals and unknowns."""
    events: list[Any] = [ev.RunStarted(process="m0", time=0, run="r")]
    version = 0
    for operation in range(chance.randint(1, 5)):
        called = chance.randrange(40)
        returned = called + chance.randrange(1, 20)
        expected = chance.choice((version, version, version, max(0, version - 1)))
        outcome = chance.choice(("applied", "applied", "applied", "rejected", "unknown"))
        seen = (0, chance.choice((version, max(1, version - 1))), 0, True) if version else None
        process = f"m{operation}"
        events.append(
            ev.TestAndSetCalled(
                process=process, time=called, operation=operation, view="v", view_key=("k",), row={"a": operation},
                expected=(0, expected, 0, True) if expected else None, new=(0, expected + 1, 0, True),
            )
        )  # fmt: skip
        if outcome == "rejected" and seen is None:
            outcome = "unknown"
        events.append(
            ev.TestAndSetReturned(
                process=process, time=returned, operation=operation, outcome=outcome,
                returned=seen if outcome == "rejected" else None,
            )
        )  # fmt: skip
        version += outcome == "applied" or (outcome == "unknown" and chance.random() < 0.5)
    return sorted(events, key=lambda e: e.time)


def test_signature_check_agrees_with_the_general_search() -> None:
    chance = random.Random(6)
    count = {Verdict.HOLDS: 0, Verdict.VIOLATED: 0, Verdict.UNDECIDED: 0}
    for _ in range(1_500):
        events = signed(chance)
        record = replay(events).views["v"].records[("k",)]
        operations = []
        for a in record.attempts:
            kind, one, two = SWAP, a.expected, a.new
            if a.outcome.value == "rejected":
                kind, one, two = READ, a.seen, None
            operations.append(Operation(kind, one, two, a.called, a.returned, a.event))
        told = {a.new for a in record.attempts if a.outcome.value == "applied"}
        if len(told) < sum(a.outcome.value == "applied" for a in record.attempts):
            continue  # a signature used twice is refused by the one and a value like any other to the other
        found = check_record(record)
        refused_by_itself = any(
            a.outcome.value == "rejected" and a.seen == a.expected for a in record.attempts
        )
        if found.verdict is not Verdict.UNDECIDED and not refused_by_itself:
            assert found.verdict is linearizable(operations, None).verdict, (events, found.problems)
        count[found.verdict] += 1
    assert min(count[Verdict.HOLDS], count[Verdict.VIOLATED]) > 100


def test_export_and_import_keep_the_verdict() -> None:
    chance = random.Random(7)
    compared = 0
    for _ in range(200):
        events = signed(chance)
        record = replay(events).views["v"].records[("k",)]
        text = "\n".join(jepsen_edn(events))
        times = [e.time for e in events]
        if len(set(times)) < len(times) or not text:
            continue  # lines have no simultaneous events
        assert recognized(text)
        foreign = parse(text)
        assert len(foreign.registers) == 1
        (operations,) = foreign.registers.values()
        found, exported = check_record(record), linearizable(operations, None)
        if found.verdict is Verdict.HOLDS:
            assert exported.verdict is Verdict.HOLDS, text
        compared += 1
    assert compared > 50


def _verdict(path: Path) -> str:
    foreign = parse(path.read_text(), where=path.name)
    found = worst(linearizable(each, foreign.initial).verdict for each in foreign.registers.values())
    return {Verdict.HOLDS: "Ok", Verdict.VIOLATED: "Illegal", Verdict.UNDECIDED: "Unknown"}[found]


def test_porcupines_verdicts_on_the_histories_kept_here() -> None:
    expected = json.loads((KEPT / "verdicts.json").read_text())
    assert set(expected.values()) == {"Ok", "Illegal"}
    assert {name: _verdict(KEPT / name) for name in expected} == expected


def test_porcupines_verdicts_on_the_whole_set(told: Callable[[str], None]) -> None:
    if not WHOLE.is_dir():
        told(f"{WHOLE.name}: the whole set is not beside this checkout; six of its files were judged")
        return
    expected = json.loads((WHOLE / "verdicts.json").read_text())
    assert {name: _verdict(WHOLE / name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (
            (
                '[{"process":0,"type":"invoke","f":"write","value":1},{"process":0,"type":"ok","f":"write","value":1},'
                '{"process":1,"type":"invoke","f":"read","value":null},{"process":1,"type":"ok","f":"read","value":1}]'
            ),
            Verdict.HOLDS,
        ),
        (
            (
                '{"process":0,"type":"invoke","f":"write","value":1}\n{"process":0,"type":"ok","f":"write","value":1}\n'
                '{"process":1,"type":"invoke","f":"read","value":null}\n{"process":1,"type":"ok","f":"read","value":null}\n'
            ),
            Verdict.VIOLATED,
        ),
        (
            (
                "; a comment\n{:process :nemesis, :type :info, :f :start, :value nil}\n"
                "{:process 0, :type :invoke, :f :write, :value [7 1], :time 3}\n"
                "{:process 1, :type :invoke, :f :read, :value [8 nil]}\n"
                "{:process 1, :type :ok, :f :read, :value [8 nil]}\n"
                "{:process 0, :type :info, :f :write, :value [7 1], :error :timeout}\n"
                "{:process 2, :type :invoke, :f :read, :value [7 nil]}\n"
                "{:process 2, :type :ok, :f :read, :value [7 1]}\n"
            ),
            Verdict.HOLDS,
        ),
    ],
    ids=["elle-json", "json-lines", "edn-independent"],
)
def test_other_dresses(text: str, verdict: Verdict) -> None:
    foreign = parse(text)
    assert worst(linearizable(o, foreign.initial).verdict for o in foreign.registers.values()) is verdict


def test_lines_that_are_no_operation_are_passed_over() -> None:
    lines = [
        '{"type":"invoke","process":0,"f":"read","value":null}',
        '{"type":["invoke"],"process":0,"f":"read","value":null}',
        '{"type":{"a":1},"process":0,"f":"read","value":null}',
        '{"type":"ok","process":0,"f":"read","value":null}',
    ]
    found = parse("\n".join(lines))
    assert (found.passed_over, len(found.registers[None])) == (2, 1)


def test_a_console_log_is_recognized_wherever_its_beginning_is_cut() -> None:
    """Only the beginning of a file is looked at, which may end inside a line; a stray line may be the last."""
    line = "INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINFO  jepsen.util - 0\t:ok\t:read\tnil\n"
    assert all(recognized((line * 90)[:end]) for end in range(120, 4_000, 7))
    assert len(parse(f"{line}a stray line\n").registers[None]) == 1


@pytest.mark.parametrize(
    "head", ["INFO  jepsen.util - {}", "[x] jepsen worker 1 - jepsen.util {}", "[w 1] jepsen.util: {}"]
)
def test_a_console_log_of_several_registers_is_read_as_jepsen_has_written_it_over_the_years(
    head: str,
) -> None:
    told = [
        (0, ":invoke", ":write", "[0 3]"),
        (0, ":ok", ":write", "[0 3]"),
        (":nemesis", ":info", ":start", '{"n1" #{"n2"}}'),
        (1, ":invoke", ":read", "[1 nil]"),
        (1, ":ok", ":read", "[1 nil]"),
        (1, ":invoke", ":cas", "[0 [3 4]]"),
        (1, ":fail", ":cas", "[0 [3 4]]\t:timeout"),
        (0, ":invoke", ":read", "[0 nil]"),
        (0, ":ok", ":read", "[0 4]"),
    ]
    text = "".join(f"{head.format(process)}\t{kind}\t{f}\t{value}\n" for process, kind, f, value in told)
    assert recognized(text)
    foreign = parse(text)
    assert {key: len(operations) for key, operations in foreign.registers.items()} == {0: 3, 1: 1}
    assert all(linearizable(o, None).verdict is Verdict.HOLDS for o in foreign.registers.values())


def test_damaged_foreign_files_are_refused_with_a_place() -> None:
    whole = (KEPT / "c01-ok.txt").read_text()
    chance = random.Random(8)
    refused = 0
    for _ in range(400):
        text = list(whole[: chance.randrange(len(whole))])
        for _ in range(chance.randint(1, 5)):
            if text:
                text[chance.randrange(len(text))] = chance.choice('{}[]":\\#x 9')
        try:
            foreign = parse("".join(text), where="it")
        except HistoryError:
            refused += 1
        else:
            for operations in foreign.registers.values():
                linearizable(operations, foreign.initial, budget=2_000)
    assert refused > 100


def test_the_budget_is_obeyed() -> None:
    operations = [Operation(WRITE, n, None, 0, 100 + n, n) for n in range(14)]
    operations.append(Operation(READ, 99, None, 1, 500, 99))
    found = linearizable(operations, None, budget=5_000)
    assert found.verdict is Verdict.UNDECIDED
    assert "5,000" in found.reason
