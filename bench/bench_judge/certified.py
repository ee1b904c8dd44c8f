"""Makes certified histories of any size, as lines and as Parquet: a right run of SUM by group, a base update and the
test-and-set that absorbs it in turn, four managers.

Columns all the way, so that ten million take seconds; what it writes is what `cvs.history` would write.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cvs.history import events as ev
from cvs.history import parquet
from cvs.history.codec import history_bytes
from cvs.model.definitions import definition_to_json
from cvs.model.expressions import Column
from cvs.model.views import Aggregate, AggregateColumn, AggregateFunction, Named, Scan, ViewDefinition

SUM = ViewDefinition(
    name="v",
    key=("x",),
    relation=Aggregate(
        source=Scan(table="r", alias="r"),
        group=(Named(name="x", expression=Column("r.x")),),
        aggregates=(AggregateColumn(name="sum", function=AggregateFunction.SUM, argument=Column("r.y")),),
    ),
)
PIECE = 50_000  # writes made at once
MANAGERS = 4
STEP = 40  # nanoseconds from one write to the next


def _ranks(groups: Any) -> tuple[Any, Any, Any]:
    """Return the order by group, where in it a group begins, and each one's rank in its group."""
    order = np.argsort(groups, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = groups[order][1:] != groups[order][:-1]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - starts
    return order, first, rank


def drawn(writes: int, records: int, hot: int = 0) -> dict[str, Any]:
    """Draw a run: which base records change to what, and what the view records show after it.

    So many as are `hot` change one view record.
    """
    chance = np.random.default_rng(1)
    key, value = chance.integers(0, records * 10, writes), chance.integers(0, 1000, writes)
    key[chance.choice(writes, hot, replace=False)] = records * chance.integers(0, 10, hot)
    group = key % records
    order, first, version = _ranks(key)
    before = np.zeros(writes, np.int64)
    before[order[1:]] = np.where(first[1:], 0, value[order][:-1])
    order, first, signed = _ranks(group)
    total = np.cumsum((value - before)[order])
    starts = np.maximum.accumulate(np.where(first, np.arange(writes), 0))
    base = np.concatenate(([0], total[:-1]))[starts]
    shown = np.empty(writes, np.int64)
    shown[order] = total - base
    return {"key": key, "x": group, "y": value, "version": version + 1, "signed": signed, "sum": shown}


def headers(writes: int) -> tuple[list[Any], list[Any]]:
    """Return the events before and after."""
    started = [ev.RunStarted(process="w", time=0, run="bench", views=(definition_to_json(SUM),))]
    started += [ev.RunStarted(process=f"m{m}", time=0, run="bench") for m in range(MANAGERS)]
    return started, [ev.Quiescent(process="w", time=(writes + 2) * STEP)]


def _pieces(run: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    for start in range(0, len(run["key"]), PIECE):
        piece = {name: column[start : start + PIECE] for name, column in run.items()}
        yield np.arange(start + 1, start + len(piece["key"]) + 1), piece


def _texts(*parts: Any) -> Any:
    """Write texts and numbers one after another."""
    return pc.binary_join_element_wise(
        *(p if isinstance(p, str) else pa.array(p).cast(pa.string()) for p in parts), ""
    )


def write_lines(path: Path, writes: int, records: int) -> None:
    """Write a run as lines."""
    begin, end = headers(writes)
    with path.open("wb") as file:
        file.write(history_bytes(begin))
        for number, piece in _pieces(drawn(writes, records)):
            now, who, key, version = number * STEP, number % MANAGERS, piece["key"], piece["version"]
            signed = piece["signed"]
            expected = pc.if_else(pa.array(signed == 0), "null", _texts("[0,", signed, ",0,true]"))
            operation = number
            called = _texts(
                '{"event":"base_update_called","process":"w","time":', now, ',"operation":', operation,
                ',"table":"r","key":[', key, '],"version":', version, ',"row":{"k":', key, ',"x":', piece["x"],
                ',"y":', piece["y"], '},"write_time":null}\n',
            )  # fmt: skip
            answered = _texts(
                '{"event":"base_update_returned","process":"w","time":', now + 10, ',"operation":', operation,
                ',"outcome":"applied"}\n',
            )  # fmt: skip
            asked = pc.binary_join_element_wise(
                _texts('{"event":"test_and_set_called","process":"m', who, '","time":', now + 20),
                _texts(',"operation":', operation),
                _texts(',"view":"v","view_key":[', piece["x"], '],"expected":'),
                expected,
                _texts(',"new":[0,', signed + 1, ',0,true],"row":{"x":', piece["x"], ',"sum":', piece["sum"]),
                _texts('},"absorbed":[{"table":"r","key":[', key, '],"from_version":', version - 1),
                _texts(',"to_version":', version, "}]}\n"),
                "",
            )  # fmt: skip
            set_ = _texts(
                '{"event":"test_and_set_returned","process":"m', who, '","time":', now + 30, ',"operation":', operation,
                ',"outcome":"applied","returned":null}\n',
            )  # fmt: skip
            many = len(number)
            turns = (np.arange(4 * many) % 4) * many + np.arange(4 * many) // 4
            lines = pa.concat_arrays([called, answered, asked, set_]).take(pa.array(turns))
            _, offsets, data = lines.buffers()
            size = np.frombuffer(offsets, np.int32)[4 * many]
            file.write(memoryview(data)[:size])
        file.write(history_bytes(end))


def write_parquet(path: Path, writes: int, records: int, hot: int = 0) -> None:
    """Write a run as Parquet."""
    shape = parquet.schema()
    begin, end = headers(writes)
    with pq.ParquetWriter(path, shape) as file:
        for batch in parquet.batches_of(begin):
            file.write_batch(batch)
        for number, piece in _pieces(drawn(writes, records, hot)):
            file.write_batch(_batch(shape, number, piece))
        for batch in parquet.batches_of(end):
            file.write_batch(batch)


def _batch(shape: Any, number: Any, piece: dict[str, Any]) -> Any:
    many = len(number)
    turn, write = np.arange(4 * many) % 4, np.arange(4 * many) // 4
    base, asks = turn == 0, turn == 2

    def placed(values: Any, where: Any) -> Any:
        """Put the values of writes where they belong; null elsewhere."""
        return pa.array(values).take(pa.array(write, mask=~where))

    def signature(version: Any, where: Any) -> Any:
        zero = np.zeros(4 * many, np.int64)
        parts = [pa.array(zero), pa.array(version[write]), pa.array(zero), pa.array(zero == 0)]
        names = ["incarnation", "version", "chunk", "last"]
        return pa.StructArray.from_arrays(parts, names, mask=pa.array(~where))

    kinds = pa.array(
        ["base_update_called", "base_update_returned", "test_and_set_called", "test_and_set_returned"]
    )
    names = pa.array(["w", *(f"m{m}" for m in range(MANAGERS))])
    key, version, signed, group = (
        _texts("[", piece["key"], "]"),
        piece["version"],
        piece["signed"],
        piece["x"],
    )
    row = _texts('{"k":', piece["key"], ',"x":', group, ',"y":', piece["y"], "}")
    shown = _texts('{"x":', group, ',"sum":', piece["sum"], "}")
    rows = pa.concat_arrays([row, shown]).take(pa.array(write + many * asks, mask=~(base | asks)))
    lines = pa.StructArray.from_arrays(
        [pa.array(["r"] * many), key, pa.array(version - 1), pa.array(version)],
        ["table", "key", "from_version", "to_version"],
    )
    ends = np.concatenate(([0], np.cumsum(asks))).astype(np.int32)
    columns = {
        "event": kinds.take(pa.array(turn)),
        "process": names.take(pa.array(np.where(turn < 2, 0, number[write] % MANAGERS + 1))),
        "time": pa.array(number[write] * STEP + 10 * turn),
        "operation": pa.array(number[write]),
        "table": placed(["r"] * many, base),
        "key": placed(key, base),
        "version": placed(version, base),
        "row": rows,
        "view": placed(["v"] * many, asks),
        "view_key": placed(_texts("[", group, "]"), asks),
        "expected": signature(signed, asks & (signed[write] > 0)),
        "new": signature(signed + 1, asks),
        "outcome": placed(["applied"] * many, ~(base | asks)),
        "absorbed": pa.ListArray.from_arrays(pa.array(ends), lines, mask=pa.array(~asks)),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(name.name, pa.nulls(4 * many, name.type)).cast(name.type) for name in shape],
        schema=shape,
    )
