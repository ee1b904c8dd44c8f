"""Pieces of history files that tasks read apart: row groups, or the lines that begin in a range of bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cvs.errors import HistoryError, SpecificationError
from cvs.history import events as ev
from cvs.history import parquet
from cvs.history.arrow import DICTIONARIES
from cvs.history.carried import Arrow, gather
from cvs.history.codec import event_of
from cvs.history.columns import Gathered, Readers

_BATCHES = 4
"""Of so many events as a part has: what one task reads, one batch at a time."""
_LINE = 150  # bytes, about


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of a file: some row groups, or the lines that begin in a range of bytes."""

    number: int
    file: Path
    start: int
    end: int
    batch: int  # events, about, that are in hand at once
    before: tuple["Split", ...] = ()  # the pieces before it in its file

    def batches(self) -> Iterator[Arrow]:
        """Read it."""
        if self.file.suffix == ".parquet":
            with legible(self.file):
                opened = pq.ParquetFile(self.file, read_dictionary=DICTIONARIES)
                parquet.require_schema(pq.read_schema(self.file))
                yield from opened.iter_batches(self.batch, row_groups=range(self.start, self.end))
            return
        with self.file.open("rb") as file:
            file.seek(max(self.start - 1, 0))
            if self.start:
                file.readline()  # because the line before may begin in the piece before
            while file.tell() < self.end:
                whole = file.read(min(self.batch * _LINE, self.end - file.tell()))
                yield _lines(
                    whole if whole.endswith(b"\n") else whole + file.readline().rstrip(b"\n") + b"\n"
                )

    def latest(self, before: tuple[int, ...]) -> Any:
        """Return of each event the latest time in its file until then."""
        times = [np.full(1, before[self.number])]
        for batch in self.batches():
            whole = Gathered(Readers())
            gather(whole, pa.Table.from_batches([batch]))
            times.append(whole.times())
        return np.maximum.accumulate(np.concatenate(times))[1:]


@contextmanager
def legible(file: Path) -> Iterator[None]:
    """Say which file cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as damage:
        raise HistoryError(f"damaged Parquet: {damage}", where=str(file)) from None


def _lines(whole: bytes) -> Arrow:
    ends = np.flatnonzero(np.frombuffer(whole, np.uint8) == ord("\n")) + 1
    buffers = [None, pa.py_buffer(np.append(0, ends)), pa.py_buffer(whole)]
    return pa.RecordBatch.from_arrays(
        [pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)], ["line"]
    )


def splits_of(files: list[Path], batch: int, tasks: int) -> tuple[list[Split], int]:
    """Cut the files into pieces of some batches, but into as many as there are tasks; say about how many events."""
    sizes = [_sizes(file) for file in files]
    events = sum(map(sum, sizes))
    piece = max(1, min(_BATCHES * batch, events // tasks))
    found: list[Split] = []
    for file, own in zip(files, sizes, strict=True):
        if file.suffix == ".parquet":
            ends, whole = len(own), list(accumulate(own))
            starts = [n for n in range(ends) if not n or whole[n] // piece > whole[n - 1] // piece]
        else:
            ends = file.stat().st_size
            starts = list(range(0, ends, piece * _LINE))
        before: list[Split] = []
        for start, end in zip(starts, [*starts[1:], ends], strict=True):
            before.append(Split(len(found) + len(before), file, start, end, batch, tuple(before)))
        found += before
    return found, events


def _sizes(file: Path) -> list[int]:
    """Return how many events the row groups of a file have, or about how many its lines are."""
    if file.suffix != ".parquet":
        return [file.stat().st_size // _LINE]
    with legible(file):
        opened = pq.ParquetFile(file)
        groups, _ = opened.metadata, opened.schema_arrow.names  # which are text only if they can be read
    return [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]


def files_of(path: Path) -> list[Path]:
    """Return the files of a history that a path names."""
    if path.is_dir():
        return sorted(
            p for p in path.rglob("*") if p.is_file() and (".ndjson" in p.name or p.suffix == ".parquet")
        )
    if not path.exists():
        raise HistoryError.unreadable("no such file", where=str(path))
    return [path]


def headers_of(files: list[Path]) -> tuple[ev.RunStarted, ...]:
    """Read the first lines of each file: every process begins with its header."""
    found: list[ev.RunStarted] = []
    for file in files:
        with legible(file):
            own = list(takewhile(lambda event: isinstance(event, ev.RunStarted), _first(file)))
        if not own:
            raise HistoryError("a history begins with run_started", where=str(file))
        found += own
    return tuple(found)


def _first(file: Path) -> Iterator[Any]:
    if file.suffix == ".parquet":
        for batch in pq.ParquetFile(file).iter_batches(batch_size=64):
            yield from parquet.events_of(batch)
        return
    if file.suffix in (".gz", ".zst"):
        raise SpecificationError(
            "compressed lines cannot be split", where=str(file), next_step="cvs convert RUN --to run.parquet"
        )
    with file.open("rb") as opened:
        yield from map(event_of, opened)
