"""Files in: histories of ours (lines of JSON, compressed or not) and of others; digests for the verdict.

A damaged file is one message with every place that is wrong, never a traceback.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cvs.checker.foreign import Foreign, parse, recognized
from cvs.errors import HistoryError
from cvs.history import parquet
from cvs.history.codec import digest, history_bytes, plain_bytes
from cvs.history.events import AnyEvent, RunStarted
from cvs.history.merge import merged, typed
from cvs.history.validate import Checked, checked, require_valid

QUICK = 32 << 20
"""Bytes above which the order of calls and returns is left to the judge instead of the line-by-line
examiner."""

_LINES = msgspec.json.Decoder(AnyEvent)


@dataclass(slots=True, kw_only=True)
class Loaded:
    """One run read: events of ours, or operations of somebody else's system; never both."""

    name: str
    events: list[Any] = field(default_factory=list)
    foreign: Foreign | None = None
    files: list[dict[str, Any]] = field(default_factory=list)


def load(paths: Iterable[Path]) -> Loaded:
    """Read one run: a file, or the files of its processes (a folder means all histories in it)."""
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise HistoryError(
            "no history file there", next_step="name files that end in .ndjson, .edn, .log or .json"
        )
    loaded = Loaded(name=files[0].stem)
    found: list[Checked] = []
    for file in files:
        raw = _read(file)
        loaded.files.append({"file": str(file), "digest": digest(raw), "bytes": len(raw)})
        if raw[:4] == b"PAR1":
            found.append(checked(history_bytes(_of_parquet(raw, str(file))), str(file)))
            continue
        data = plain_bytes(raw, where=str(file))
        if recognized(data[:4000].decode(errors="replace")):
            if len(files) > 1:
                raise HistoryError(
                    "a history of another system is judged alone", where=str(file), next_step="name one file"
                )
            loaded.foreign = parse(_text(file, data), where=str(file))
            return loaded
        found.append(_quick(data, str(file)) if len(data) > QUICK else checked(data, str(file)))
    require_valid(found)
    events, complaints = merged(found) if len(found) > 1 else (found[0].events, [])
    require_valid([*found, Checked(file=str(files[0]), complaints=complaints)])
    tables = any(isinstance(event, RunStarted) and event.tables for event in events)
    loaded.events = list(typed(events)) if tables else events
    if not loaded.events:
        raise HistoryError("an empty history", where=str(files[0]), next_step="did the recorder run?")
    return loaded


def _of_parquet(data: bytes, file: str) -> Iterable[Any]:
    """Read the events of a Parquet file, as `cvs convert` writes them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches():
            yield from parquet.events_of(batch)
    except (pa.ArrowException, OSError) as damage:
        raise HistoryError(f"damaged Parquet: {damage}", where=file) from None


def _quick(data: bytes, file: str) -> Checked:
    """Read a large file line by line only; a line that is wrong brings the full examination."""
    if b'"$' in data:  # values that JSON has no form for: each line goes through the codec
        return checked(data, file)
    try:
        return Checked(file=file, events=_LINES.decode_lines(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return checked(data, file)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(
            p for p in path.rglob("*") if p.is_file() and (".ndjson" in p.name or p.suffix == ".parquet")
        )
    return [path]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as refusal:
        raise HistoryError(f"cannot be read: {refusal.strerror}", where=str(file)) from None


def _text(file: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as damage:
        raise HistoryError(f"not text: {damage.reason}", where=f"{file} byte {damage.start}") from None
