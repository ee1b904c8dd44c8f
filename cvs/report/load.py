"""Files in: histories of ours (lines of JSON, compressed or not, or Parquet) and of others; digests for the
verdict.

A damaged file is one message with every place that is wrong, never a traceback.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from cvs.checker.bulk import Bulk
from cvs.checker.foreign import Foreign, parse, recognized
from cvs.errors import CvsError, HistoryError, SpecificationError
from cvs.history import parquet
from cvs.history.codec import (
    digest,
    digest_of_file,
    event_of,
    events_of_block,
    history_bytes,
    is_packed,
    plain_bytes,
)
from cvs.history.columns import Columns, Gathered, blocks_of
from cvs.history.declared import declared
from cvs.history.events import RunStarted
from cvs.history.merge import merged, typed
from cvs.history.packing import NotColumnarError
from cvs.history.validate import Checked, checked, require_valid
from cvs.model.views import BaseTable

QUICK = 32 << 20
"""Bytes above which the order of calls and returns is left to the judge instead of the line-by-line
examiner."""

WHOLE = 20_000
"""Events up to which a run that is judged in pieces is examined line by line before."""

_PARQUET = b"PAR1"


@dataclass(slots=True, kw_only=True)
class Source:
    """One file, decompressed; Parquet and large files of lines stay where they are."""

    file: str
    data: bytes  # its content, or the first part of what stays
    described: dict[str, Any]
    stays: bool = False

    @property
    def arrow(self) -> bool:
        """Say whether it is Parquet."""
        return self.data[:4] == _PARQUET

    @property
    def foreign(self) -> bool:
        """Say whether another system wrote it."""
        return not self.arrow and recognized(self.data[:4000].decode(errors="replace"))

    @property
    def size(self) -> int:
        """Return the number of events, or of the lines in the first part of a large file."""
        return _opened(self).metadata.num_rows if self.arrow else self.data.count(b"\n", 0, QUICK)

    def events(self, at_once: int = parquet.BATCH) -> Iterator[Any]:
        """Yield the events as they stand there."""
        if self.arrow:
            for batch in _batches(self, at_once=at_once):
                yield from parquet.events_of(batch)
        else:
            for block in self.blocks():
                yield from events_of_block(block)

    def blocks(self) -> Iterator[bytes]:
        """Yield its lines, some whole ones at a time; what was written after its digest was taken is not there."""
        try:
            with Path(self.file).open("rb") if self.stays else io.BytesIO(self.data) as opened:
                yield from blocks_of(opened, self.described["bytes"] if self.stays else len(self.data))
        except OSError as refusal:
            raise HistoryError.unreadable(refusal.strerror, where=self.file) from None

    def content(self) -> bytes:
        """Return all of its lines."""
        return b"".join(self.blocks())

    def chosen(self, numbers: Sequence[int]) -> Iterator[Any]:
        """Yield the events of these numbers, which are in order: only these are decoded."""
        if self.arrow:
            whole = np.array(numbers, np.int64) - 1
            before = 0
            for batch in _batches(self):
                mine = whole[np.searchsorted(whole, before) : np.searchsorted(whole, before + batch.num_rows)]
                yield from parquet.events_of_rows(batch.take(mine - before))
                before += batch.num_rows
            if len(whole) and whole[-1] >= before:
                raise HistoryError("damaged Parquet: it has fewer rows than its end says", where=self.file)
            return
        wanted, before = iter([*numbers, 0]), 0
        number = next(wanted)
        for block in self.blocks():
            many = block.count(b"\n") + (not block.endswith(b"\n"))
            if before < number <= before + many:
                lines = block.split(b"\n")
                while before < number <= before + many:
                    yield event_of(lines[number - before - 1])
                    number = next(wanted)
            before += many

    def headers(self) -> list[RunStarted]:
        """Return the headers at its beginning."""
        found: list[RunStarted] = []
        for event in self.events(at_once=64):
            if not isinstance(event, RunStarted):
                break
            found.append(event)
        return found


@dataclass(slots=True, kw_only=True)
class Loaded:
    """One run read: events of ours, or operations of somebody else's system; never both."""

    name: str
    events: list[Any] = field(default_factory=list)
    foreign: Foreign | None = None
    files: list[dict[str, Any]] = field(default_factory=list)


def sources_of(paths: Iterable[Path]) -> list[Source]:
    """Read the files of one run: a file, or the files of its processes (a folder means all histories in it)."""
    found, paths = [], list(paths)
    for file in (file for path in paths for file in _files(path)):
        raw, name, size = _read(file)
        described = {"file": str(file), "digest": name, "bytes": size}
        data = plain_bytes(raw, where=str(file))
        found.append(Source(file=str(file), data=data, described=described, stays=len(raw) < size))
    if not found:
        raise HistoryError(
            "no history file there",
            where=" ".join(map(str, paths)),
            next_step="name files that end in .ndjson, .parquet, .edn, .log or .json",
        )
    return found


def load(paths: Iterable[Path]) -> Loaded:
    """Read one run."""
    return loaded(sources_of(paths))


def ready_for_pieces(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Examine files that are judged in pieces: small runs whole, of large ones the headers; describe them."""
    paths = list(paths)
    for file in (file for path in paths for file in _files(path)):
        if file.suffix in (".gz", ".zst"):
            raise SpecificationError(
                "compressed lines cannot be split",
                where=str(file),
                next_step="cvs convert RUN --to run.parquet",
            )
    sources = sources_of(paths)
    for source in sources:
        if source.foreign:
            raise SpecificationError(
                "a history of another system is not judged in pieces",
                where=source.file,
                next_step="--engine local",
            )
    if sum(source.size for source in sources) <= WHOLE:
        loaded(sources)
        return [source.described for source in sources]
    heads = [_head(source) for source in sources]
    require_valid([*heads, Checked(file=sources[0].file, complaints=merged(heads)[1])])
    return [source.described for source in sources]


def _head(source: Source) -> Checked:
    """Examine the headers of a file."""
    head = Checked(file=source.file)
    try:
        head.events = list(source.headers())
        head.lines = list(range(1, len(head.events) + 1))
    except HistoryError as refusal:
        head.complain(1, refusal.what)
    if not head.events and not head.complaints:
        head.complain(1, "a history begins with run_started")
    return head


def named(sources: Sequence[Source]) -> str:
    """Name the files of a run in a few words."""
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return sources[0].file + more


def loaded(sources: list[Source]) -> Loaded:
    """Make events of what was read, examined as far as its size allows."""
    run = Loaded(name=Path(sources[0].file).stem, files=[source.described for source in sources])
    found: list[Checked] = []
    for source in sources:
        if source.foreign:
            if len(sources) > 1:
                raise HistoryError(
                    "a history of another system is judged alone",
                    where=source.file,
                    next_step="name one file",
                )
            run.foreign = parse(_text(source), where=source.file)
            return run
        found.append(_checked(source))
    require_valid(found)
    events, complaints = merged(found) if len(found) > 1 else (found[0].events, [])
    require_valid([*found, Checked(file=sources[0].file, complaints=complaints)])
    tables = any(isinstance(event, RunStarted) and event.tables for event in events)
    run.events = list(typed(events)) if tables else events
    if not run.events:
        raise HistoryError("an empty history", where=sources[0].file, next_step="did the recorder run?")
    return run


def columns_of(sources: list[Source], bulk: Bulk, tables: Mapping[str, BaseTable]) -> Columns:
    """Read a large run into columns, base rows in the types that the tables declare."""
    from cvs.history import arrow, lines  # because the compiler they need takes half a second to load

    readers, bases = declared(bulk.readers, tables)
    gathered = Gathered(readers, bases=bases, several=len(sources) > 1)
    for source in sources:
        if source.arrow:
            arrow.gather(gathered, _batches(source, arrow.COLUMNS, few=arrow.DICTIONARIES))
        else:
            lines.gather(gathered, source.blocks())
    if readers is not bulk.readers and any(
        header.tables != gathered.headers[0].tables for header in gathered.headers
    ):
        raise NotColumnarError("tables that only some processes declare")
    return gathered.columns()


def _checked(source: Source) -> Checked:
    """Examine a file; a large one line by line only, and fully if a line is wrong."""
    if source.arrow:
        return checked(history_bytes(source.events()), source.file)
    if source.stays or len(source.data) > QUICK:
        try:
            return Checked(file=source.file, events=list(source.events()))
        except CvsError:
            pass
    return checked(source.content(), source.file)


def _opened(source: Source, few: Sequence[str] = ()) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.ParquetFile(source.file, read_dictionary=few)
        _ = found.schema_arrow.names  # because names that are no text show themselves only when they are read
        return found
    except (pa.ArrowException, OSError, UnicodeDecodeError) as damage:
        raise HistoryError(f"damaged Parquet: {damage}", where=source.file) from None


def _batches(
    source: Source,
    columns: Sequence[str] | None = None,
    *,
    few: Sequence[str] = (),
    at_once: int = 4 * parquet.BATCH,
) -> Iterator[Any]:
    """Read Parquet as `cvs convert` writes it; some columns of `few` different texts as numbers of those."""
    import pyarrow as pa

    parquet.require_schema(_opened(source).schema_arrow, source.file)
    opened = _opened(source, few)
    try:
        for there, groups in groupby(range(opened.num_row_groups), partial(_there, opened, columns)):
            yield from opened.iter_batches(batch_size=at_once, row_groups=list(groups), columns=there)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as damage:
        raise HistoryError(f"damaged Parquet: {damage}", where=source.file) from None


def _there(opened: Any, columns: Sequence[str] | None, group: int) -> list[str] | None:
    """Return the columns that are not null everywhere in a row group, as far as its statistics say."""
    if columns is None:
        return None
    found, row_group = dict[str, None](), opened.metadata.row_group(group)
    for column in map(row_group.column, range(row_group.num_columns)):
        told = column.statistics
        if told is None or not told.has_null_count or told.null_count < column.num_values:
            found[column.path_in_schema.partition(".")[0]] = None
    return [name for name in columns if name in found]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(
            p for p in path.rglob("*") if p.is_file() and (".ndjson" in p.name or p.suffix == ".parquet")
        )
    return [path]


def _read(file: Path) -> tuple[bytes, str, int]:
    """Return content, digest and size of a file; only the first part of Parquet and of large files of lines."""
    try:
        with file.open("rb") as opened:
            first = opened.read(len(_PARQUET))
            if first != _PARQUET:
                first += opened.read(QUICK - len(first))
            if first == _PARQUET or (len(first) == QUICK and not is_packed(first)):
                opened.seek(0)
                return first, digest_of_file(opened), opened.tell()
            raw = first + opened.read()
            return raw, digest(raw), len(raw)
    except OSError as refusal:
        raise HistoryError.unreadable(refusal.strerror, where=str(file)) from None


def _text(source: Source) -> str:
    try:
        return source.content().decode()
    except UnicodeDecodeError as damage:
        raise HistoryError(f"not text: {damage.reason}", where=f"{source.file} byte {damage.start}") from None
