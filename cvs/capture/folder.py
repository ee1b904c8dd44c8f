"""A feed in a folder: the embedded default, and a shared file system's.

    <root>/definitions/<reference>.json        immutable, content-addressed
    <root>/streams/<stream>/<position>.feed    frames; the name is the first position, 20 digits
    <root>/streams/<stream>/head               the durable end, one checked record, rewritten in place
    <root>/holds/<consumer>.json               positions a consumer still needs

A frame is a header (`FRAME`) and a MessagePack array of changes. An append is: frame, fsync, head.
A crash between leaves bytes that no reader sees and the next producer either keeps (whole frames) or cuts off
(a torn one): the changes in them come again from the log, at least once.
"""

import fcntl
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedRandom
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, unquote
from uuid import uuid4

import msgspec

from cvs.capture.changes import Change, TableDefinition, decode_changes, encode_changes
from cvs.capture.feed import Head, Source, TakenError
from cvs.errors import HistoryError

FRAME = struct.Struct(">IIIqQQ")  # crc32 of the rest and the body, body size, changes in it, clock, source
HEAD = struct.Struct(">IQqQQ")  # crc32 of the rest, position, clock, source
SEGMENT_BYTES = 64 * 1024 * 1024
HEAD_TRIES = 1000


def reference_of(definition: TableDefinition) -> str:
    """Name a definition by its table id and content."""
    body = msgspec.json.encode(definition)
    return f"{definition.id}-{hashlib.blake2b(body, digest_size=6).hexdigest()}"


class FolderFeed:
    """The folder backend of `Feed`; many readers and, a stream, one producer process (guarded by a lock)."""

    silence = 0.0

    def __init__(self, root: Path | str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open a feed; the folder is made by the first producer."""
        self.root = Path(root)
        self._segment_bytes = segment_bytes
        self._definitions: dict[str, TableDefinition] = {}
        self._writers: dict[str, _Writer] = {}
        self._cursors: dict[str, tuple[int, int, int]] = {}  # stream -> next position, segment, byte offset

    def streams(self) -> list[str]:
        """Name the streams, sorted; one whose producer is still making ready has no head, and is none yet."""
        folder = self.root / "streams"
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted(unquote(it.name) for it in found if _has_head(it))

    def head(self, stream: str) -> Head:
        """Return the durable end."""
        return _read_head(self._folder(stream))

    def first(self, stream: str) -> int:
        """Return the oldest position still kept."""
        return next(iter(_segments(self._folder(stream))), 0)

    def read(self, stream: str, start: int, limit: int) -> list[Change]:
        """Return up to `limit` durable changes from `start` on."""
        folder = self._folder(stream)
        end = min(_read_head(folder).position, start + limit)
        found: list[Change] = []
        while start < end:
            position, segment, offset = self._seek(stream, folder, start)
            for frame in _frames(folder / _segment_name(segment), position, offset):
                if frame.end > start:
                    changes = decode_changes(frame.body)
                    found.extend(changes[start - frame.first : end - frame.first])
                    start = min(end, frame.end)
                if start == frame.end:
                    self._cursors[stream] = (start, segment, frame.bytes_end)
                if start >= end:
                    break
            else:
                if start not in _segments(folder):
                    raise HistoryError(f"stream {stream!r} lacks position {start}", where=str(folder))
        return found

    def definition(self, reference: str) -> TableDefinition:
        """Return the definition a change names."""
        if reference not in self._definitions:
            path = self.root / "definitions" / f"{reference}.json"
            try:
                self._definitions[reference] = msgspec.json.decode(path.read_bytes(), type=TableDefinition)
            except (OSError, msgspec.MsgspecError) as fault:
                raise HistoryError(
                    f"the feed has no definition {reference}: {fault}", where=str(path)
                ) from fault
        return self._definitions[reference]

    def hold(self, consumer: str, positions: Mapping[str, int]) -> None:
        """Declare what a consumer still needs."""
        folder = self.root / "holds"
        folder.mkdir(parents=True, exist_ok=True)
        held = _read_hold(folder / f"{quote(consumer, safe='')}.json")
        merged = held | {stream: max(at, held.get(stream, 0)) for stream, at in positions.items()}
        _replace(folder / f"{quote(consumer, safe='')}.json", msgspec.json.encode(merged))

    def knows(self, consumer: str) -> bool:
        """Say whether a consumer held something here."""
        return (self.root / "holds" / f"{quote(consumer, safe='')}.json").exists()

    def release(self, consumer: str) -> None:
        """Take back what a consumer held."""
        (self.root / "holds" / f"{quote(consumer, safe='')}.json").unlink(missing_ok=True)

    def define(self, definition: TableDefinition) -> str:
        """Store a definition; the same content has the same name, so repeating it changes nothing."""
        reference = reference_of(definition)
        path = self.root / "definitions" / f"{reference}.json"
        if reference not in self._definitions:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                _replace(path, msgspec.json.encode(definition))
            self._definitions[reference] = definition
        return reference

    def append(self, stream: str, changes: Sequence[Change], *, source: Source, clock: int) -> Head:
        """Append durably and make the new end visible."""
        if stream not in self._writers:
            folder = self.root / "streams" / quote(stream, safe="")
            self._writers[stream] = _Writer(folder, self._segment_bytes)
        return self._writers[stream].append(list(changes), source, clock)

    def collect(self) -> int:
        """Delete whole segments that every holder has passed."""
        holds = [_read_hold(path) for path in sorted((self.root / "holds").glob("*.json"))]
        freed = 0
        for stream in self.streams() if holds else []:
            needed = min(hold.get(stream, 0) for hold in holds)
            segments = _segments(self._folder(stream))
            for segment, following in pairwise(segments):
                if following <= needed:
                    path = self._folder(stream) / _segment_name(segment)
                    freed += path.stat().st_size
                    path.unlink()
        return freed

    def close(self) -> None:
        """Give up the streams this process produces."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _folder(self, stream: str) -> Path:
        folder = self.root / "streams" / quote(stream, safe="")
        if not folder.is_dir():
            raise HistoryError(f"the feed has no stream {stream!r}", where=str(self.root))
        return folder

    def _seek(self, stream: str, folder: Path, start: int) -> tuple[int, int, int]:
        """Find (position, segment, offset) at or before `start` from which frames can be walked."""
        cursor = self._cursors.get(stream)
        segments = _segments(folder)
        if not segments or start < segments[0]:
            raise HistoryError(
                f"position {start} of stream {stream!r} is no longer kept (oldest: {segments[:1]})",
                where=str(folder),
                next_step="the views of this consumer must be rebuilt",
            )
        segment = max(s for s in segments if s <= start)
        if cursor and cursor[1] == segment and cursor[0] <= start:
            return cursor
        return segment, segment, 0


class _Writer:
    """The one producer of a stream."""

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._head_file = os.open(folder / "head", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._head_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(self._head_file)
            raise TakenError(
                "another process already writes this stream",
                where=str(folder),
                next_step="end the other capture",
            ) from fault
        self._segment, self._file, self.head = self._recover()
        self._publish()

    def append(self, changes: list[Change], source: Source, clock: int) -> Head:
        if changes:
            if self._file.tell() >= self._segment_bytes:
                self._file.close()
                self._segment, self._file = self.head.position, _open(self._folder, self.head.position)
            body = encode_changes(changes)
            rest = FRAME.pack(0, len(body), len(changes), clock, source.segment, source.offset)[4:]
            self._file.write(zlib.crc32(body, zlib.crc32(rest)).to_bytes(4, "big") + rest + body)
            self._file.flush()
            os.fdatasync(self._file.fileno())
        moved = source.segment != self.head.source.segment
        self.head = Head(self.head.position + len(changes), max(clock, self.head.clock), source)
        self._publish()
        if moved:  # because the producer may delete the segment it leaves behind
            os.fsync(self._head_file)
        return self.head

    def _publish(self) -> None:
        head = self.head
        rest = HEAD.pack(0, head.position, head.clock, head.source.segment, head.source.offset)[4:]
        os.pwrite(self._head_file, zlib.crc32(rest).to_bytes(4, "big") + rest, 0)

    def _recover(self) -> tuple[int, BufferedRandom, Head]:
        """Keep every whole frame of the last segment, cut a torn one, and make what is kept durable."""
        segment = max(_segments(self._folder), default=0)
        file = _open(self._folder, segment)
        known = _peek_head(self._folder)
        position, end, source, clock = segment, 0, Source(), 0
        for frame in _frames(self._folder / _segment_name(segment), segment, 0, torn_end_ok=True):
            position, end, source, clock = frame.end, frame.bytes_end, frame.source, frame.clock
        if known and position < known.position:
            file.close()
            raise HistoryError(
                f"the stream ends at {position}, but {known.position} was durable: the disk lost frames",
                where=str(self._folder),
                next_step="rebuild the views, then start a new stream",
            )
        file.truncate(end)
        file.seek(end)
        os.fsync(file.fileno())
        if known and known.position == position:  # a heartbeat after the last frame knows more than the frame
            return segment, file, known
        return segment, file, Head(position, max(clock, known.clock if known else 0), source)

    def close(self) -> None:
        self._file.close()
        os.close(self._head_file)


class _Frame(msgspec.Struct, frozen=True, gc=False):
    first: int  # position of the first change
    end: int  # position after the last
    bytes_end: int
    clock: int
    source: Source
    body: bytes


def _frames(path: Path, position: int, offset: int, *, torn_end_ok: bool = False) -> Iterator[_Frame]:
    """Walk the frames of a segment; a bad one is an error, or the end where a torn end is expected."""
    with path.open("rb") as file:
        file.seek(offset)
        while header := file.read(FRAME.size):
            whole = len(header) == FRAME.size
            check, size, count, clock, segment, at = FRAME.unpack(header) if whole else (0, 0, 0, 0, 0, 0)
            body = file.read(size) if whole else b""
            if not whole or len(body) < size or zlib.crc32(body, zlib.crc32(header[4:])) != check:
                if torn_end_ok:
                    return
                raise HistoryError(f"damaged frame at byte {offset}, position {position}", where=str(path))
            offset += FRAME.size + size
            yield _Frame(position, position + count, offset, clock, Source(segment, at), body)
            position += count


def _segment_name(first: int) -> str:
    return f"{first:020d}.feed"


def _segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.feed"))


def _open(folder: Path, first: int) -> BufferedRandom:
    path = folder / _segment_name(first)
    path.touch()
    _sync_folder(folder)
    file = path.open("r+b")
    file.seek(0, os.SEEK_END)
    return file


def _read_head(folder: Path) -> Head:
    """Read the head record; a reader that meets a rewrite in progress looks again."""
    for _ in range(HEAD_TRIES):
        head = _peek_head(folder)
        if head:
            return head
    raise HistoryError(
        "the stream has no readable head", where=str(folder), next_step="start its capture again"
    )


def _has_head(folder: Path) -> bool:
    try:
        return (folder / "head").stat().st_size > 0
    except FileNotFoundError:
        return False


def _peek_head(folder: Path) -> Head | None:
    try:
        record = (folder / "head").read_bytes()
    except FileNotFoundError:
        return None
    if len(record) != HEAD.size or zlib.crc32(record[4:]) != int.from_bytes(record[:4], "big"):
        return None
    _, position, clock, segment, offset = HEAD.unpack(record)
    return Head(position, clock, Source(segment, offset))


def _read_hold(path: Path) -> dict[str, int]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, int]) if path.exists() else {}


def _replace(path: Path, data: bytes) -> None:
    """Write a file durably and whole: temporary name, fsync, rename, fsync of the folder."""
    temporary = path.with_name(
        f".{path.name}.{uuid4().hex}"
    )  # several threads, or machines, may write the same
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
