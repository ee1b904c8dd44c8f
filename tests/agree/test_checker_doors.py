"""A large run read as events, lines or Parquet: one judgement, whatever is wrong with it."""

import dataclasses
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from cvs.checker.bulk import bulk_of
from cvs.checker.large import judge_large
from cvs.checker.meaning import DefinitionMeaning
from cvs.cli import run
from cvs.errors import ExitCode
from cvs.history import arrow, lines
from cvs.history import events as ev
from cvs.history.codec import history_bytes
from cvs.history.columns import Gathered
from cvs.history.declared import declared
from cvs.history.merge import typed
from cvs.history.packing import NotColumnarError
from cvs.history.parquet import batches_of, schema
from cvs.model.definitions import definition_to_json, view_from_json
from cvs.model.views import BaseTable
from cvs.report import audit as audits
from tests.agree.test_checker_bulk import certified, damaged
from tests.corrupt.test_checker import CORRUPTORS
from tests.stories.views import VIEWS

DOORS: dict[str, Callable[[Gathered, list[Any]], None]] = {
    "events": lambda gathered, events: gathered.take(events),
    "lines": lambda gathered, events: lines.gather(gathered, [history_bytes(events)]),
    "arrow": lambda gathered, events: arrow.gather(gathered, batches_of(events)),
}


def through(
    door: str, events: list[Any], meaning: DefinitionMeaning, tables: dict[str, BaseTable] | None = None
) -> list[str] | None:
    """Return what a large run is said to be, read in one of three ways; None: it is not for this path.

    With `tables` the events come in the types that these declare; lines and Parquet are brought to them on the way.
    """
    bulk = bulk_of([e for e in events if isinstance(e, ev.RunStarted)], view_from_json, tables or {})
    in_types = list(typed(events))
    gathered = Gathered(bulk.readers)
    if tables and door != "events":
        readers, bases = declared(bulk.readers, tables)
        gathered = Gathered(readers, bases=bases)
    try:
        DOORS[door](gathered, in_types if door == "events" else events)
        columns = gathered.columns()
    except NotColumnarError:
        return None
    found = judge_large(
        columns, bulk, lambda numbers: [in_types[n - 1] for n in numbers], lambda _: meaning, budget=20_000
    )
    return None if found is None else sorted(map(repr, found.findings))


@pytest.mark.slow
def test_a_large_run_is_judged_the_same_through_every_door() -> None:
    """Right runs and runs damaged by every corruptor: events, lines and Parquet give one judgement."""
    chance = random.Random(12)
    compared, taken = Counter[bool](), Counter[str]()
    for number in range(170):
        name = chance.choice(("sum", "count", "rows", "small"))
        events = certified(chance, name, moves=number % 3 == 0)
        if number % 2:
            events = damaged(chance, events)
        elif number % 4 == 0 and name == "sum":
            corruptor = chance.choice(list(CORRUPTORS))
            events, taken[corruptor.__name__] = corruptor(events, chance), taken[corruptor.__name__] + 1
        meaning = DefinitionMeaning(VIEWS[name])
        first, *others = (through(door, events, meaning) for door in DOORS)
        assert all(other == first for other in others), events
        compared[first is not None] += 1
    assert compared[True] > 100, (compared, taken)


PRICES = BaseTable(name="r", columns=(("k", "decimal"), ("x", "int"), ("y", "decimal")), partition_key=("k",))
IN_FLOATS = dataclasses.replace(PRICES, columns=(("k", "decimal"), ("x", "int"), ("y", "double")))
ODD = ("1E+30", "-1E+30", "0.00001", "1E-40", "0E-30", "9" * 40, "0." + "3" * 60, "-0.0")


def spelled(chance: random.Random, value: Any, *, places: int = 2) -> Any:
    """Write a decimal in one of the ways in which a history may have it."""
    number = Decimal(value).scaleb(-places)
    ways = [number, number.normalize(), str(number), f"{number:E}", number * Decimal("1.000")]
    if number == int(number):
        ways.append(int(number))
    if abs(number) < 1_000:
        ways.append(float(number))
    return chance.choice(ways)


def priced(chance: random.Random, events: list[Any], *, odd: bool, table: BaseTable = PRICES) -> list[Any]:
    """The same run with keys and prices that are decimals, spelled in every way, some of them odd."""
    key = lambda key: tuple(spelled(chance, int(str(k)[1:] or 0), places=0) for k in key)  # noqa: E731 -- short
    found = []
    for event in events:
        change: dict[str, Any] = {}
        if isinstance(event, ev.RunStarted):
            change["tables"] = (definition_to_json(table),)
        if isinstance(event, ev.BaseUpdateCalled | ev.UpdateReceived):
            change["key"] = key(event.key)
        if isinstance(event, ev.TestAndSetCalled):
            change["absorbed"] = tuple(msgspec.structs.replace(a, key=key(a.key)) for a in event.absorbed)
            change["view_key"] = tuple(Decimal(k[1:]) if isinstance(k, str) else k for k in event.view_key)
            change["row"] = event.row and {
                name: value
                if name == "x" or name == "count"
                else Decimal(str(value).lstrip("k")).scaleb(-2 * (name != "k"))
                for name, value in event.row.items()
            }
        if isinstance(event, ev.BaseUpdateCalled):
            change["row"] = event.row and {
                **event.row,
                "k": key((event.row["k"],))[0],
                "y": event.row["y"] if table is IN_FLOATS else spelled(chance, event.row["y"]),
            }
            if odd and change["row"] and chance.random() < 0.1:
                change["row"]["y"] = chance.choice((chance.choice(ODD), Decimal(chance.choice(ODD)), None))
        found.append(msgspec.structs.replace(event, **change))
    return found


@pytest.mark.parametrize("runs", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_decimals_of_every_spelling_are_judged_the_same_through_every_door(runs: int) -> None:
    chance = random.Random(13)
    compared, proved = Counter[bool](), 0
    for number in range(runs):
        name = chance.choice(("sum", "count", "rows", "small"))
        events = certified(chance, name, moves=number % 3 == 0)
        if number % 2:
            events = damaged(chance, events)
        table = PRICES if number % 7 else IN_FLOATS
        events = priced(chance, events, odd=number % 5 < 2 and table is PRICES, table=table)
        meaning = DefinitionMeaning(VIEWS[name], {"r": table})
        first, *others = (through(door, events, meaning, {"r": table}) for door in DOORS)
        assert all(other == first for other in others), events
        compared[first is not None] += 1
        proved += any("complete" in found and "HOLDS" in found for found in first or ())
    assert compared[True] > runs // 2, compared
    assert proved > runs // 4, proved


def written(path: Path, events: list[Any]) -> Path:
    """Write a history as its name says."""
    if path.suffix == ".ndjson":
        path.write_bytes(history_bytes(events))
        return path
    with pq.ParquetWriter(path, schema()) as writer:
        for batch in batches_of(events):
            writer.write_batch(batch)
    return path


@pytest.mark.parametrize("name", ["run.ndjson", "run.parquet"])
def test_a_file_of_decimals_is_read_in_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    chance = random.Random(3)
    path = written(tmp_path / name, priced(chance, certified(chance, "sum"), odd=False))
    monkeypatch.setattr(audits, "LARGE", 3)
    monkeypatch.delattr(audits, "loaded")  # by which events are made
    document, _ = audits.audit([path])
    assert document["granularities"][0]["level"]["proved"] == "complete"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "four", "1E+5000"])
@pytest.mark.parametrize("name", ["run.ndjson", "run.parquet"])
def test_what_is_no_decimal_is_told_as_in_a_small_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
) -> None:
    chance = random.Random(3)
    events = priced(chance, certified(chance, "sum"), odd=False)
    place = next(n for n, e in enumerate(events) if isinstance(e, ev.BaseUpdateCalled) and e.row)
    events[place] = msgspec.structs.replace(events[place], row={**events[place].row, "y": value})
    path, told = written(tmp_path / name, events), []
    for large in (3, 20_000):
        monkeypatch.setattr(audits, "LARGE", large)
        assert run(["audit", str(path)]) == ExitCode.BAD_INPUT
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
    assert "is no decimal" in told[0]


def test_types_that_only_some_processes_declare_are_followed_event_by_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    events = priced(chance, certified(chance, "sum"), odd=False)
    header = next(e for e in events if isinstance(e, ev.RunStarted))
    late = ev.RunStarted(process="late", time=events[-2].time, run=header.run)
    path = written(tmp_path / "run.ndjson", [*events[:-1], late, events[-1]])
    monkeypatch.setattr(audits, "LARGE", 3)
    made: list[Any] = []
    real = audits.loaded
    monkeypatch.setattr(audits, "loaded", lambda sources: made.append(sources) or real(sources))
    assert audits.audit([path])[0]["granularities"][0]["level"]["proved"] == "complete"
    assert made


def test_a_damaged_file_of_decimals_is_judged_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, violated = random.Random(4), 0
    for _ in range(10):
        events = priced(chance, damaged(chance, certified(chance, "sum")), odd=False)
        path = written(tmp_path / "run.ndjson", events)
        found = []
        for large in (3, 20_000):
            monkeypatch.setattr(audits, "LARGE", large)
            found.append(audits.audit([path])[0]["granularities"][0]["level"])
        assert found[0] == found[1], events
        violated += found[0]["not_refuted"] == "not converged"
    assert violated > 0


def test_a_wrong_value_that_only_the_exact_judge_meets_is_told_as_in_a_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(4)
    table = dataclasses.replace(PRICES, columns=(*PRICES.columns, ("z", "date")))
    events = priced(chance, certified(chance, "sum"), odd=False, table=table)
    place = next(n for n, e in enumerate(events) if isinstance(e, ev.TestAndSetCalled) and e.row)
    events[place] = msgspec.structs.replace(events[place], row={**events[place].row, "sum": Decimal(77)})
    for place, event in enumerate(events):
        if isinstance(event, ev.BaseUpdateCalled) and event.row:
            events[place] = msgspec.structs.replace(event, row={**event.row, "z": "no date"})
    path, told = written(tmp_path / "run.ndjson", events), []
    for large in (3, 20_000):
        monkeypatch.setattr(audits, "LARGE", large)
        assert run(["audit", str(path)]) == ExitCode.BAD_INPUT
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
