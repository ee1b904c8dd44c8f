"""The same events as an Arrow table, for histories too big for lines; opens no files.

One row an event, one column a field, null where a kind of event has no such field. Signatures are structs of
four numbers, the certificate is a list of structs; keys and rows are their JSON text. Spark, DuckDB and pandas
read it without us.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.codec import event_of, jsonable
from cvs.history.columns import (
    NONE,
    OUTCOMES,
    Columns,
    Gathered,
    Integers,
    packed_parts,
)

Arrow = Any  # because pyarrow has no types

_TEXTS = (
    *("event", "process", "run", "table", "key", "row", "outcome", "stream", "view", "view_key", "rows"),
    *("victim", "pipeline", "base", "views", "tables", "settings"),
)
_NUMBERS = (
    *(
        "time",
        "operation",
        "version",
        "entry",
        "attempt",
        "epoch",
        "incarnation",
        "format",
        "clock_error",
        "write_time",
    ),
)
_SIGNATURES = ("expected", "new", "returned", "signature")
_JSON = frozenset({"key", "row", "view_key", "rows", "base", "views", "tables", "settings"})
_SCALARS = ("incarnation", "version", "chunk", "last")
BATCH = 50_000
"""Events turned at once: a bound on memory, large enough for Parquet's row groups."""


def schema() -> Arrow:
    """Return the schema of the table."""
    import pyarrow as pa

    signature = pa.struct(
        [("incarnation", pa.int64()), ("version", pa.int64()), ("chunk", pa.int64()), ("last", pa.bool_())]
    )
    absorbed = pa.struct(
        [
            ("table", pa.string()),
            ("key", pa.string()),
            ("from_version", pa.int64()),
            ("to_version", pa.int64()),
        ]
    )
    return pa.schema(
        [
            *((name, pa.string()) for name in _TEXTS),
            *((name, pa.int64()) for name in _NUMBERS),
            *((name, signature) for name in _SIGNATURES),
            ("absorbed", pa.list_(absorbed)),
            ("snapshot", pa.bool_()),
        ],
        metadata={"cvs.history.format": str(ev.FORMAT)},
    )


def batches_of(events: Iterable[ev.AnyEvent]) -> Iterator[Arrow]:
    """Yield a history as record batches."""
    import pyarrow as pa

    shape = schema()
    waiting: list[dict[str, Any]] = []
    for event in events:
        waiting.append(_row(jsonable(event)))
        if len(waiting) == BATCH:
            yield pa.RecordBatch.from_pylist(waiting, schema=shape)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=shape)


def _row(fields: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {n: _text(value) if n in _JSON else value for n, value in fields.items()}
    for name in _SIGNATURES:
        if row.get(name) is not None:
            row[name] = dict(zip(_SCALARS, row[name], strict=True))
    if "absorbed" in row:
        row["absorbed"] = [{**line, "key": _text(line["key"])} for line in row["absorbed"]]
    return row


def _text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def events_of(table: Arrow) -> Iterator[ev.AnyEvent]:
    """Yield the events of a table or batch; what is no event is refused with its row."""
    require_schema(table.schema)
    for number, row in enumerate(table.to_pylist(), start=1):
        kind = _FIELDS.get(row["event"] or "")
        if kind is None:
            raise HistoryError(f"no kind of event: {row['event']!r}", where=f"row {number}")
        fields = {n: row[n] for n, required in kind.items() if required or row[n] is not None}
        try:
            line = {"event": row["event"]} | {name: _WAYS.get(name, _same)(v) for name, v in fields.items()}
            yield event_of(msgspec.json.encode(line))
        except (HistoryError, msgspec.MsgspecError) as error:
            raise HistoryError(str(error), where=f"row {number}") from error


def require_schema(found: Arrow) -> None:
    """Refuse a table that is not a history, with every column that is wrong."""
    wanted = {column.name: column.type for column in schema()}
    missing = sorted(set(wanted) - set(found.names))
    unknown = sorted(set(found.names) - set(wanted))
    other = [n for n in wanted if n in found.names and found.field(n).type != wanted[n]]
    if missing or unknown or other:
        parts = [f'lacks column "{n}"' for n in missing] + [f'has an unknown column "{n}"' for n in unknown]
        parts += [f'column "{n}" is {found.field(n).type}, not {wanted[n]}' for n in other]
        raise HistoryError(f"not a history: the table {'; '.join(parts)}")


def _same(value: Any) -> Any:
    return value


def _raw(value: str | None) -> Any:
    return None if value is None else msgspec.Raw(value.encode())


def _signature(value: dict[str, Any] | None) -> Any:
    return None if value is None else [value[name] for name in _SCALARS]


_WAYS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_JSON, _raw),
    **dict.fromkeys(_SIGNATURES, _signature),
    "absorbed": lambda lines: [{**line, "key": _raw(line["key"])} for line in lines],
}
_FIELDS: dict[str, dict[str, bool]] = {
    str(kind.__struct_config__.tag): {
        field.name: field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        for field in msgspec.structs.fields(kind)
    }
    for kind in ev.AnyEvent.__args__
}

COLUMNS = (
    *("event", "process", "time", "operation", "view", "view_key", "outcome", "clock_error"),
    *("expected", "new", "returned", "signature"),
)
"""What `columns_of_table` reads: enough for a reader of Parquet to skip all others."""


def columns_of_batches(batches: Iterable[Arrow]) -> Columns:
    """Return the columns of a history from record batches that have at least `COLUMNS`."""
    gathered = Gathered()
    for batch in batches:
        _take(gathered, batch)
    return gathered.columns()


def _take(gathered: Gathered, batch: Arrow) -> None:
    import pyarrow.compute as pc

    def rows(kind: str) -> Arrow:
        return batch.filter(pc.equal(batch["event"], kind))

    started = rows("run_started")
    for process, error in zip(
        started["process"].to_pylist(), started["clock_error"].to_pylist(), strict=True
    ):
        gathered.errors[process] = error or 0
    numbers = np.arange(batch.num_rows, dtype=np.int64) + gathered.events + 1
    for kind, name in (("test_and_set_called", "called"), ("view_read_called", "read")):
        keep = pc.equal(batch["event"], kind)
        if name == "read":
            keep = pc.and_(keep, pc.is_valid(batch["view_key"]))
        part = batch.filter(keep)
        if part.num_rows:
            gathered.blocks[name].append(_calls(gathered, part, numbers[_mask(keep)]))
    for kind, name in (("test_and_set_returned", "returned"), ("view_read_returned", "seen")):
        part = rows(kind)
        if part.num_rows:
            gathered.blocks[name].append(_answers(gathered, part, name))
    gathered.events += batch.num_rows


def _mask(keep: Arrow) -> Any:
    return np.asarray(keep.to_numpy(zero_copy_only=False), dtype=bool)


def _codes(column: Arrow) -> tuple[list[Any], Integers]:
    """Return the different values of a column, and which of them each row has."""
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, dtype=np.int64)


def _named(numbers: Any, column: Arrow) -> Integers:
    values, codes = _codes(column)
    found: Integers = numbers.of(values)[codes]
    return found


def _calls(gathered: Gathered, part: Arrow, numbers: Integers) -> dict[str, Integers]:
    nothing = np.full(part.num_rows, NONE, dtype=np.int64)
    writes = part["event"][0].as_py() == "test_and_set_called"
    return {
        "record": _record_codes(gathered, part),
        "process": _named(gathered.processes, part["process"]),
        "operation": np.asarray(part["operation"], dtype=np.int64),
        "time": np.asarray(part["time"], dtype=np.int64),
        "expected": _packed(part["expected"]) if writes else nothing,
        "new": _packed(part["new"]) if writes else nothing,
        "line": numbers,
    }


def _record_codes(gathered: Gathered, part: Arrow) -> Integers:
    views, view_codes = _codes(part["view"])
    keys, key_codes = _codes(part["view_key"])
    pairs, first, inverse = np.unique(
        view_codes * len(keys) + key_codes, return_index=True, return_inverse=True
    )
    met = np.argsort(first)  # because records are numbered in the order in which they were met
    names = [(views[pair // len(keys)], keys[pair % len(keys)].encode()) for pair in pairs[met].tolist()]
    numbers = np.empty(len(pairs), dtype=np.int64)
    numbers[met] = gathered.records.of(names)
    found: Integers = numbers[inverse]
    return found


def _answers(gathered: Gathered, part: Arrow, name: str) -> dict[str, Integers]:
    writes = name == "returned"
    codes = {kind.value: code for code, kind in enumerate(OUTCOMES)}
    outcome = np.zeros(part.num_rows, dtype=np.int64)
    if writes:
        said, which = _codes(part["outcome"])
        if not set(said) <= set(codes):
            raise HistoryError(f"{sorted(set(said) - set(codes))} is no outcome")
        outcome = np.array([codes[text] for text in said], dtype=np.int64)[which]
    return {
        "process": _named(gathered.processes, part["process"]),
        "operation": np.asarray(part["operation"], dtype=np.int64),
        "time": np.asarray(part["time"], dtype=np.int64),
        "outcome": outcome,
        "seen": _packed(part["returned" if writes else "signature"]),
    }


def _packed(column: Arrow) -> Integers:
    import pyarrow as pa

    absent = _mask(column.is_null())
    parts = [np.asarray(column.field(n).cast(pa.int64()).fill_null(0), dtype=np.int64) for n in _SCALARS]
    found: Integers = np.where(absent, NONE, packed_parts(parts))
    return found
