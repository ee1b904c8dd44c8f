"""Events as lines of JSON, both ways; opens no files.

Values inside keys and rows are written by `model/values.py`, so a decimal comes back as a decimal. What JSON
has already needs no touching: most lines take the short way.
"""

import gzip
import hashlib
import io
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import zstandard

from cvs.errors import CvsError, HistoryError
from cvs.history.events import (
    Absorbed,
    AnyEvent,
    BaseUpdateCalled,
    Checkpoint,
    EpochCommitted,
    Event,
    TestAndSetCalled,
    UpdateReceived,
    ViewReadCalled,
    ViewReadReturned,
)
from cvs.model.values import from_json, row_from_json, row_to_json, to_json

INFLATED_MAX = 1 << 36
"""Bytes a compressed history may become (64 GiB): beyond it is a bomb, not a history."""

_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(AnyEvent).decode
_DECODE_LINES = msgspec.json.Decoder(AnyEvent).decode_lines
_INT_MOST = 1 << 63
_PIECE = 1 << 20
_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
Part = Any  # because a field holds a key, a row, or a list of them
Way = Callable[[Part], Part]


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-_INT_MOST <= value < _INT_MOST)
    if kind is float:
        return math.isfinite(value)
    return kind is str or kind is bool or value is None


def _key_out(key: Part) -> Part:
    return key if key is None or all(map(_is_plain, key)) else tuple(map(to_json, key))


def _row_out(row: Part) -> Part:
    return row if row is None or all(map(_is_plain, row.values())) else row_to_json(row)


def _key_in(key: Part) -> Part:
    if key is None or not any(type(value) in (dict, list) for value in key):
        return key
    return tuple(map(from_json, key))


def _row_in(row: Part) -> Part:
    if row is None or not any(type(value) in (dict, list) for value in row.values()):
        return row
    return row_from_json(row)


def _absorbed(key_way: Way) -> Way:
    def way(lines: tuple[Absorbed, ...]) -> tuple[Absorbed, ...]:
        keys = [key_way(line.key) for line in lines]
        if all(key is line.key for key, line in zip(keys, lines, strict=True)):
            return lines
        return tuple(msgspec.structs.replace(line, key=key) for key, line in zip(keys, lines, strict=True))

    return way


def _ways(key: Way, row: Way) -> dict[type, tuple[tuple[str, Way], ...]]:
    """Name the fields that hold keys and rows, and how each goes through."""
    return {
        BaseUpdateCalled: (("key", key), ("row", row)),
        UpdateReceived: (("key", key),),
        TestAndSetCalled: (("view_key", key), ("row", row), ("absorbed", _absorbed(key))),
        EpochCommitted: (("absorbed", _absorbed(key)),),
        ViewReadCalled: (("view_key", key),),
        ViewReadReturned: (("rows", lambda rows: tuple((key(k), row(r)) for k, r in rows)),),
        Checkpoint: (
            ("base", lambda lines: tuple((t, key(k), v, row(r)) for t, k, v, r in lines)),
            ("views", lambda lines: tuple((w, key(k), s, row(r)) for w, k, s, r in lines)),
        ),
    }


_OUT = _ways(_key_out, _row_out)
_IN = _ways(_key_in, _row_in)


def _through(event: Any, ways: dict[type, tuple[tuple[str, Way], ...]]) -> Any:
    changed = {}
    for name, way in ways.get(type(event), ()):
        before = getattr(event, name)
        after = way(before)
        if after is not before:
            changed[name] = after
    return msgspec.structs.replace(event, **changed) if changed else event


def line_of(event: Event) -> bytes:
    """Return an event as one line, its end included."""
    return _ENCODE(_through(event, _OUT)) + b"\n"


def jsonable(event: Event) -> dict[str, Any]:
    """Return an event as the object that its line holds."""
    found: dict[str, Any] = msgspec.to_builtins(_through(event, _OUT))
    return found


def event_of(line: bytes | str) -> AnyEvent:
    """Return the event of a line; anything else is refused with the reason."""
    try:
        event: AnyEvent = _through(_DECODE(line), _IN)
    except CvsError:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise HistoryError(str(error) or type(error).__name__) from error
    return event


_PLACE = re.compile(r" - at `\$\[\d+\]`|(?<=`)\$\[\d+\]\.?")
"""Where in a block a line stands, which means nothing to whoever has the file."""


def events_of_block(block: bytes) -> list[Any]:
    """Return the events of some whole lines, fast; the first that is wrong is refused without its number."""
    try:
        events: list[Any] = _DECODE_LINES(block)
        if len(events) != block.count(b"\n") + (block[-1:] not in (b"", b"\n")):
            raise HistoryError.one_of_many(
                "not a valid history: an empty line, or an event that goes over several"
            )
        return [_through(event, _IN) for event in events] if b'"$' in block or b"[[" in block else events
    except CvsError:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise HistoryError.one_of_many(f"not a valid history: {_PLACE.sub('', str(error))}") from error


def lines_of(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield the lines of a history."""
    return map(line_of, events)


def history_bytes(events: Iterable[Event]) -> bytes:
    """Return a whole history as it would stand in a file."""
    return b"".join(lines_of(events))


def is_packed(data: bytes) -> bool:
    """Say whether a file is compressed, by its first bytes."""
    return data.startswith((_ZSTD, _GZIP))


def plain_bytes(data: bytes, *, where: str = "", limit: int = INFLATED_MAX) -> bytes:
    """Return the content of a file, decompressed if it is gzip or zstd; told by its first bytes."""
    reader: Any  # because the two libraries share no class
    if not is_packed(data):
        return data
    if data.startswith(_ZSTD):
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    else:
        reader = gzip.GzipFile(fileobj=io.BytesIO(data))
    found = bytearray()
    try:
        while piece := reader.read(_PIECE):
            found += piece
            if len(found) > limit:
                raise HistoryError(f"more than {limit:,} bytes when decompressed", where=where)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as damage:
        raise HistoryError(f"damaged compression: {damage}", where=where) from damage
    return bytes(found)


def packed_bytes(data: bytes, name: str) -> bytes:
    """Return what a file of that name holds: compressed if it ends in .gz or .zst."""
    if name.endswith(".gz"):
        return gzip.compress(data, mtime=0)  # because the same history must give the same file
    return zstandard.ZstdCompressor().compress(data) if name.endswith(".zst") else data


def digest(data: bytes) -> str:
    """Return what a verdict names a file by."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest_of_file(opened: io.BufferedReader) -> str:
    """Return it of an opened file, without holding it in memory."""
    return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
