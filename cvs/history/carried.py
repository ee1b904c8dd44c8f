"""Events on their way to whoever judges them, as Arrow tables that never become objects.

A table holds events of one kind, each with its place in the history (`at`): its fields as `parquet.py` names them,
or its line.
"""

import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from cvs.history import events as ev
from cvs.history import parquet
from cvs.history.codec import event_of, line_of
from cvs.history.columns import Gathered, blocks_of
from cvs.history.merge import typed
from cvs.history.packing import Integers

Arrow = Any  # because pyarrow has no types
Headers = tuple[ev.RunStarted, ...]


def gather(gathered: Gathered, table: Arrow) -> None:
    """Add a table to columns."""
    from cvs.history import arrow, lines  # because the compiler they need takes half a second to load

    if "line" in table.schema.names:
        data = b"".join(map(_bytes, table["line"].chunks))
        lines.gather(gathered, blocks_of(io.BytesIO(data), len(data)))
    else:
        arrow.gather(gathered, table.combine_chunks().to_batches(max_chunksize=4 * parquet.BATCH))


def _bytes(lines: Arrow) -> bytes:
    ends = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return bytes(lines.buffers()[2][int(ends[0]) : int(ends[-1])]) if len(lines) else b""


def events_of(table: Arrow, headers: Headers = ()) -> Iterator[Any]:
    """Make events after all."""
    if "line" in table.schema.names:
        found: Iterable[Any] = map(event_of, table["line"].to_pylist())
    else:
        found = parquet.events_of_rows(table)
    yield from list(typed([*headers, *found]))[len(headers) :] if headers else found


def table_of(events: list[Any], *, lines: bool) -> Arrow:
    """Make a table of a few events of one kind."""
    import pyarrow as pa

    if lines:
        return pa.table({"line": pa.array([line_of(event) for event in events], pa.large_binary())})
    return pa.Table.from_batches(parquet.batches_of(events), parquet.schema()).select(
        fields_of(type(events[0]))
    )


def fields_of(kind: Any) -> list[str]:
    """Name the columns that a kind of event has."""
    return ["event", *(f.name for f in msgspec.structs.fields(kind))]


def tag_of(kind: Any) -> str:
    """Return what a kind of event is called in a history."""
    return str(kind.__struct_config__.tag)


def packed(batch: Arrow) -> bytes:
    """Return a batch, or a table, as bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write(batch)
    return bytes(sink.getvalue())


def tables_of(carried: Iterable[tuple[str, bytes]]) -> dict[str, Arrow]:
    """Put together what was carried to one place: a table of each kind, in the order of the history."""
    import pyarrow as pa

    found: dict[str, list[Arrow]] = {}
    for kind, data in carried:
        found.setdefault(kind, []).append(pa.ipc.open_stream(data).read_all())
    whole = {kind: pa.concat_tables(tables) for kind, tables in sorted(found.items())}
    for kind, table in whole.items():
        at = whole_of(table, "at") if "at" in table.schema.names else np.zeros(0)
        if (at[1:] < at[:-1]).any():
            whole[kind] = table.take(arrowed(np.argsort(at, kind="stable")))
    return whole


def whole_of(table: Arrow, name: str) -> Integers:
    """Return a column of whole numbers that are all there."""
    parts = [
        np.frombuffer(c.buffers()[1], np.int64)[c.offset : c.offset + len(c)]
        for c in table[name].chunks
        if len(c)
    ]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def arrowed(whole: Integers) -> Arrow:
    """Return whole numbers as Arrow's; `pa.array` loads pandas to ask it, a second in every worker."""
    import pyarrow as pa

    return pa.Array.from_buffers(
        pa.int64(), len(whole), [None, pa.py_buffer(np.ascontiguousarray(whole, np.int64))]
    )


def spread(table: Arrow, rows: Integers, to: Integers) -> Iterator[tuple[int, Arrow]]:
    """Divide some rows of a table, or of a batch, by where each goes."""
    if not len(rows):
        return
    order = np.argsort(to, kind="stable")
    taken, to = table.take(arrowed(rows[order])), to[order]
    starts = np.flatnonzero(np.append(True, to[1:] != to[:-1]))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(to)], strict=True):
        yield int(to[start]), taken.slice(start, end - start)
