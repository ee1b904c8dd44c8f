"""Parquet read into columns: what it must not hold, and rows of every length between two batches."""

import pyarrow as pa
import pytest

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.arrow import gather
from cvs.history.columns import Gathered, Reader, Readers
from cvs.history.parquet import batches_of
from cvs.history.rows import Rows


class Kept(Reader):
    """Keeps what it is told of rows."""

    def __init__(self) -> None:
        self.rows: list[ev.Row | None] = []
        self.met: list[ev.Row] = []

    def number(self, row: ev.Row) -> int:
        self.met.append({name: value for name, value in row.items() if value is not None})
        return len(self.met) - 1

    def take(self, rows: Rows, owners: object) -> None:
        found = iter(rows.computed(("a", "b", "c"), self.number, rows.present).tolist())
        self.rows += [dict(self.met[next(found)]) if there else None for there in rows.present]


def run(rows: list[ev.Row | None]) -> pa.RecordBatch:
    events: list[ev.AnyEvent] = [ev.RunStarted(process="w", time=0, run="r")]
    for number, row in enumerate(rows, 1):
        called = ev.BaseUpdateCalled(
            process="w", time=number, operation=number, table="t", key=(1,), version=number, row=row
        )
        events.append(called)
    (batch,) = batches_of(events)
    return batch


@pytest.mark.parametrize("rows", [[{"a": 1}, {"b": "long" * 9}, {}], [{"a": 1}, None, {"c": [1]}], [None]])
def test_rows_come_back_as_they_were_from_a_piece_of_a_batch(rows: list[ev.Row | None]) -> None:
    kept = Kept()
    gather(Gathered(Readers(tables={"t": [kept]})), [run([{"z": 0}, *rows]).slice(2)])
    assert kept.rows == [
        row if row is None else {n: v if v != [1] else (1,) for n, v in row.items()} for row in rows
    ]


def test_a_missing_time_is_refused() -> None:
    batch = run([{"a": 1}])
    place = batch.schema.get_field_index("time")
    columns = [pa.array([0, None], pa.int64()) if i == place else c for i, c in enumerate(batch.columns)]
    with pytest.raises(HistoryError, match="missing"):
        gather(Gathered(Readers()), [pa.RecordBatch.from_arrays(columns, schema=batch.schema)])


def test_a_number_that_no_column_holds_is_refused() -> None:
    called = ev.BaseUpdateCalled(
        process="w", time=0, operation=1, table="r", key=(1,), version=1 << 63, row=None
    )
    with pytest.raises(HistoryError, match="more than 64 bits"):
        list(batches_of([called]))
