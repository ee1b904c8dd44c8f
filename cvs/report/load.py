"""Files in: histories of ours (lines of JSON, compressed or not) and of others; digests for the verdict.

A damaged file is one message with every place that is wrong, never a traceback.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from cvs.checker.foreign import Foreign, parse, recognized
from cvs.errors import HistoryError
from cvs.history.events import FORMAT, AnyEvent, RunStarted

SHOWN_MISTAKES = 20
_LINE = msgspec.json.Decoder(AnyEvent)


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
    mistakes: list[str] = []
    for file in files:
        raw = _read(file)
        digest = hashlib.sha256(raw).hexdigest()
        loaded.files.append({"file": str(file), "sha256": digest, "bytes": len(raw)})
        text = _text(file, raw)
        if recognized(text):
            if len(files) > 1:
                raise HistoryError(
                    "a history of another system is judged alone", where=str(file), next_step="name one file"
                )
            loaded.foreign = parse(text, where=str(file))
            return loaded
        loaded.events.extend(_events(text, str(file), mistakes))
    if mistakes:
        more = f" and {len(mistakes) - SHOWN_MISTAKES} more" if len(mistakes) > SHOWN_MISTAKES else ""
        raise HistoryError(
            f"not a valid history: {'; '.join(mistakes[:SHOWN_MISTAKES])}{more}",
            where=str(files[0]),
            next_step="cvs/history/README.md documents every field",
        )
    _check_format(loaded, files)
    if len(files) > 1:
        loaded.events.sort(key=lambda event: event.time)
    return loaded


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.is_file() and ".ndjson" in p.name)
    return [path]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as refusal:
        raise HistoryError(f"cannot be read: {refusal.strerror}", where=str(file)) from None


def _text(file: Path, raw: bytes) -> str:
    try:
        if raw[:4] == b"\x28\xb5\x2f\xfd":
            raw = zstandard.ZstdDecompressor().stream_reader(raw).read()
        elif raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return raw.decode()
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as damage:
        raise HistoryError(f"damaged compression: {damage}", where=str(file)) from None
    except UnicodeDecodeError as damage:
        raise HistoryError(f"not text: {damage.reason}", where=f"{file} byte {damage.start}") from None


def _events(text: str, where: str, mistakes: list[str]) -> Iterable[Any]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield _LINE.decode(line)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as mistake:
            mistakes.append(f"{where} line {number}: {mistake}")


def _check_format(loaded: Loaded, files: list[Path]) -> None:
    where = str(files[0])
    if not loaded.events:
        raise HistoryError("an empty history", where=where, next_step="did the recorder run?")
    if not isinstance(loaded.events[0], RunStarted):
        raise HistoryError(
            "does not begin with run_started",
            where=where,
            next_step="the first line of a history says what it is about",
        )
    if loaded.events[0].format != FORMAT:
        raise HistoryError(
            f"format {loaded.events[0].format}, this tool reads {FORMAT}",
            where=where,
            next_step="use the tool of that time",
        )
