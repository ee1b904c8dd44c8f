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
from cvs.history.columns import CODES, NONE, Gathered, Integers, packed_parts
from cvs.model.values import from_json, row_from_json

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
    yield from _events(table)


def _events(table: Arrow) -> Iterator[ev.AnyEvent]:
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
    *("event", "process", "time", "operation", "table", "key", "version", "row", "view", "view_key"),
    *("expected", "new", "returned", "outcome", "absorbed", "run", "views", "tables", "settings"),
    *("format", "clock_error"),
)
"""What `gather` reads: a reader of Parquet may skip all others."""


def gather(gathered: Gathered, batches: Iterable[Arrow]) -> None:
    """Add a history from record batches to columns, without making events of it."""
    gathered.begin()
    for batch in batches:
        _take(gathered, batch)


def _take(gathered: Gathered, batch: Arrow) -> None:

    numbers = np.arange(batch.num_rows, dtype=np.int64) + gathered.events + 1
    gathered.put(ev.Event, time=_integers(batch["time"]))
    _named(gathered.processes, batch["process"])
    tags, codes = _codes(batch["event"])
    for code, tag in enumerate(tags):
        kind = _KINDS.get(tag)
        if kind is None:
            raise HistoryError(f"no kind of event: {tag!r}")
        own = codes == code
        places = np.flatnonzero(own)
        gathered.count(tag, len(places))
        if kind is ev.RunStarted:
            headers = _events(batch.filter(_mask(own)))
            gathered.headers += [event for event in headers if isinstance(event, ev.RunStarted)]
        way = _COLUMNAR.get(kind)
        if way is None:
            continue
        part = batch.filter(_mask(own))
        gathered.put(
            kind, **way(gathered, part), number=numbers[places], operation=_integers(part["operation"]),
            time=_integers(part["time"]), process=_named(gathered.processes, part["process"]),
        )  # fmt: skip
    gathered.events += batch.num_rows


def _updates(gathered: Gathered, part: Arrow) -> dict[str, Integers]:
    names, codes = _codes(part["table"])
    rows = _rows(part["row"])
    for code, table in enumerate(names):
        own = rows if len(names) == 1 else [rows[i] for i in np.flatnonzero(codes == code).tolist()]
        for reader in gathered.readers.tables.get(table, ()):
            reader.take(own, None)
    return {
        "owner": _numbered(gathered.bases, part["table"], part["key"]),
        "table": gathered.tables.of(names)[codes],
        "version": _integers(part["version"]),
    }


def _writes(gathered: Gathered, part: Arrow) -> dict[str, Integers]:
    names, codes = _codes(part["view"])
    rows, (texts, which) = _rows(part["row"]), _codes(part["view_key"])
    keys = _keys_of(texts)
    for code, view in enumerate(names):
        reader = gathered.readers.views.get(view)
        if reader is not None:
            mine = np.flatnonzero(codes == code).tolist()
            reader.take([rows[i] for i in mine], [keys[which[i]] for i in mine])
    absorbed = part["absorbed"]
    counts = _integers(absorbed.value_lengths(), 0)
    lines = absorbed.flatten()
    gathered.put(
        ev.Absorbed,
        write=np.repeat(np.arange(gathered.writes, gathered.writes + part.num_rows), counts),
        base=_numbered(gathered.bases, lines.field("table"), lines.field("key")),
        low=_integers(lines.field("from_version")),
        high=_integers(lines.field("to_version")),
    )
    gathered.writes += part.num_rows
    return {
        "owner": _numbered(gathered.readers.records, part["view"], part["view_key"]),
        "view": gathered.views.of(names)[codes],
        "expected": _packed(part["expected"]),
        "new": _packed(part["new"]),
    }


def _answers(_: Gathered, part: Arrow) -> dict[str, Integers]:
    said, which = _codes(part["outcome"])
    if not set(said) <= set(CODES):
        raise HistoryError(f"{sorted(set(said) - set(CODES))} is no outcome")
    outcome = np.array([CODES[text] for text in said], dtype=np.int64)[which]
    return {"outcome": outcome}


def _write_answers(gathered: Gathered, part: Arrow) -> dict[str, Integers]:
    return {**_answers(gathered, part), "seen": _packed(part["returned"])}


_KINDS = {str(kind.__struct_config__.tag): kind for kind in ev.AnyEvent.__args__}
_COLUMNAR: dict[type, Callable[[Gathered, Arrow], dict[str, Integers]]] = {
    ev.BaseUpdateCalled: _updates,
    ev.BaseUpdateReturned: _answers,
    ev.TestAndSetCalled: _writes,
    ev.TestAndSetReturned: _write_answers,
}
_DECODE_KEYS = msgspec.json.Decoder(tuple[Any, ...]).decode_lines
_DECODE_ROWS = msgspec.json.Decoder(dict[str, Any] | None).decode_lines


def _integers(column: Arrow, missing: int | None = None) -> Integers:
    """Return whole numbers by their bytes, because Arrow's own ways import all of pandas; a null is `missing`."""
    import pyarrow as pa

    if not len(column):
        return np.zeros(0, dtype=np.int64)
    whole = np.frombuffer(column.buffers()[1], dtype=np.dtype(str(column.type)))
    values = whole[column.offset : column.offset + len(column)].astype(np.int64)
    if not column.null_count:
        return values
    if missing is None:
        raise HistoryError("a whole number is missing", next_step="`cvs convert` writes Parquet from lines")
    return np.where(_integers(column.is_null().cast(pa.int8())) > 0, missing, values)


def _mask(chosen: Any) -> Arrow:
    import pyarrow as pa

    bits = pa.py_buffer(np.packbits(chosen, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(chosen), [None, bits])


def _codes(column: Arrow) -> tuple[list[Any], Integers]:
    """Return the different values of a column, and which of them each row has."""
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), _integers(encoded.indices)


def _named(numbers: Any, column: Arrow) -> Integers:
    values, codes = _codes(column)
    found: Integers = numbers.of(values)[codes]
    return found


def _keys_of(texts: list[str]) -> list[ev.Key]:
    whole = "\n".join(texts)
    keys: list[ev.Key] = _DECODE_KEYS(whole)
    return [tuple(map(from_json, key)) for key in keys] if '"$' in whole or "[[" in whole else keys


def _numbered(numbers: Any, names: Arrow, texts: Arrow) -> Integers:
    """Number pairs of a name and a key; each different one is decoded once."""
    owners, owner_codes = _codes(names)
    keys, key_codes = _codes(texts)
    decoded = _keys_of(keys)
    if len(owners) == 1:
        found = np.array([numbers[owners[0], key] for key in decoded], dtype=np.int64)[key_codes]
        return np.asarray(found, dtype=np.int64)
    pairs, inverse = np.unique(owner_codes * max(len(keys), 1) + key_codes, return_inverse=True)
    made = [numbers[owners[pair // len(keys)], decoded[pair % len(keys)]] for pair in pairs.tolist()]
    return np.array(made, dtype=np.int64)[inverse]


def _rows(column: Arrow) -> list[Any]:
    """Decode a column of JSON texts at once; a null is no row."""
    whole = _lines(column.fill_null("null") if column.null_count else column)
    rows: list[Any] = _DECODE_ROWS(whole)
    tagged = b'{"$' in whole or b":[" in whole
    return [None if row is None else row_from_json(row) for row in rows] if tagged else rows


def _lines(texts: Arrow) -> bytes:
    """Return texts as lines."""
    many = len(texts)
    if not many:
        return b""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + many + 1]
    content = np.frombuffer(data or b"", dtype=np.uint8)[ends[0] : ends[-1]]
    whole = np.empty(len(content) + many, dtype=np.uint8)
    breaks = ends[1:] - ends[0] + np.arange(many)
    inside = np.ones(len(whole), dtype=np.bool_)
    inside[breaks] = False
    whole[inside], whole[breaks] = content, ord("\n")
    return whole.tobytes()


def _packed(column: Arrow) -> Integers:
    import pyarrow as pa

    absent = _integers(column.is_null().cast(pa.int8())).astype(np.bool_)
    parts = [_integers(column.field(n).cast(pa.int64()), 0) for n in _SCALARS]
    return np.where(absent, NONE, packed_parts([np.where(absent, 0, part) for part in parts]))
