"""The same events as an Arrow table, for histories too big for lines; opens no files.

One row an event, one column a field, null where a kind of event has no such field. Signatures are structs of
four numbers, the certificate is a list of structs; keys and rows are their JSON text. Spark, DuckDB and pandas
read it without us.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from cvs.errors import HistoryError
from cvs.history import events as ev
from cvs.history.codec import event_of, jsonable

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
SCALARS = ("incarnation", "version", "chunk", "last")
BATCH = 50_000
"""Events turned at once: a bound on memory, large enough for Parquet's row groups."""

_TOLD = 3  # columns that are wrong


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

    shape, rows = schema(), map(_row, map(jsonable, events))
    while some := list(islice(rows, BATCH)):
        try:
            yield pa.RecordBatch.from_pylist(some, schema=shape)
        except OverflowError:
            raise HistoryError(
                "a number has more than 64 bits, which no column of Parquet holds",
                next_step="cvs convert RUN --to run.ndjson.zst",
            ) from None


def _row(fields: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {n: _text(value) if n in _JSON else value for n, value in fields.items()}
    for name in _SIGNATURES:
        if row.get(name) is not None:
            row[name] = dict(zip(SCALARS, row[name], strict=True))
    if "absorbed" in row:
        row["absorbed"] = [{**line, "key": _text(line["key"])} for line in row["absorbed"]]
    return row


def _text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def events_of(table: Arrow) -> Iterator[ev.AnyEvent]:
    """Yield the events of a table or batch; what is no event is refused with its row."""
    require_schema(table.schema)
    yield from events_of_rows(table)


def events_of_rows(table: Arrow) -> Iterator[ev.AnyEvent]:
    """Yield the events of a table whose schema is known."""
    try:
        rows = table.to_pylist()
    except UnicodeDecodeError as damage:
        raise HistoryError(f"damaged Parquet: {damage}") from damage
    for number, row in enumerate(rows, start=1):
        kind = _FIELDS.get(row["event"] or "")
        if kind is None:
            raise HistoryError(f"no kind of event: {row['event']!r}", where=f"row {number}")
        fields = {n: row.get(n) for n, required in kind.items() if required or row.get(n) is not None}
        try:
            line = {"event": row["event"]} | {name: _WAYS.get(name, _same)(v) for name, v in fields.items()}
            yield event_of(msgspec.json.encode(line))
        except (HistoryError, msgspec.MsgspecError) as error:
            raise HistoryError(str(error), where=f"row {number}") from error


def require_schema(found: Arrow, where: str = "") -> None:
    """Refuse a table that is not a history, with the first columns that are wrong."""
    wanted = {column.name: column.type for column in schema()}
    missing = sorted(set(wanted) - set(found.names))
    unknown = sorted(set(found.names) - set(wanted))
    other = [n for n in wanted if n in found.names and found.field(n).type != wanted[n]]
    if missing or unknown or other:
        parts = [f'lacks column "{n}"' for n in missing] + [f'has an unknown column "{n}"' for n in unknown]
        parts += [f'column "{n}" is {found.field(n).type}, not {wanted[n]}' for n in other]
        more = f"; and {len(parts) - _TOLD} more" if len(parts) > _TOLD else ""
        raise HistoryError(
            f"not a history: the table {'; '.join(parts[:_TOLD])}{more}",
            where=where,
            next_step="cvs convert RUN --to run.parquet writes such a table",
        )


def _same(value: Any) -> Any:
    return value


def _raw(value: str | None) -> Any:
    return None if value is None else msgspec.Raw(value.encode())


def _signature(value: dict[str, Any] | None) -> Any:
    return None if value is None else [value[name] for name in SCALARS]


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
