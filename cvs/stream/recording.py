"""The epoch log: what a pipeline did, written so that a crash loses nothing that mattered.

Three records an epoch: *running* before its first request, *ran* after its last put (with every base row and
view record that moved, which views were shown as a whole and which stood still; *built* where views are not shown
yet), *committed* after its commit. An epoch that was run twice stands there twice, with
equal content, and the first *running* is when its effects may have begun to show. `certificates.py` turns
these, with the base writers' own log, into the history that is judged.

Frames of MessagePack: length (4 bytes), then the record; a torn last frame is what a kill leaves.
"""

import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path

import msgspec

from cvs.errors import HistoryError
from cvs.programs.epoch import LIVE, PUBLISHING, Control
from cvs.programs.epoch_run import EpochResult
from cvs.programs.stage_codec import Values, pack, unpack

_SIZE = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_bases = msgspec.msgpack.Decoder(list[tuple[str, int, bytes | None, bytes | None]]).decode
_shown = msgspec.msgpack.Decoder(list[tuple[str, bytes, bytes | None]]).decode
FILE_BYTES = 16 << 20
"""How large a file gets before the next begins: the unit in which old records go."""
FILES_LEAST = 4

LAST = 1000
"""Base changes of a recording that are judged unless more are asked for: seconds, not hours."""

RUNNING, RAN, BUILT, UNJUDGED, COMMITTED = "running", "ran", "built", "unjudged", "committed"


class EpochLog:
    """A watcher that appends to files of its own, unbuffered; of a folder's files the oldest go when it is full."""

    def __init__(
        self,
        folder: Path,
        *,
        keep_bytes: int = 0,
        file_bytes: int = FILE_BYTES,
        clock: Callable[[], int] = time.time_ns,
        state: str = "",
    ) -> None:
        """Open the first file of this process; `keep_bytes` bounds all files of the folder, 0 keeps everything.

        `state`: the one that the epochs are of, in the name of each file; "": that of whoever reads them.
        Where little is kept files are small: of two as large as all that is kept, the end of one would be all there is.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._state = f"-{state}" if state else ""
        file_bytes = min(file_bytes, keep_bytes // FILES_LEAST) if keep_bytes else file_bytes
        self._folder, self._keep_bytes, self._file_bytes, self._clock = folder, keep_bytes, file_bytes, clock
        self._file = self._open()
        self._written = 0

    def running(self, control: Control) -> None:
        """Write that an epoch starts."""
        self._write(RUNNING, control.pin.incarnation, control.pin.epoch)

    def ran(self, control: Control, result: EpochResult) -> None:
        """Write what moved."""
        bases = [
            (table, move.written, _packed(move.before), _packed(move.now))
            for table, moves in result.bases.items()
            for move in moves
        ]
        whole = tuple(sorted(result.rows))
        shown = [
            (table, pack(it.key), _packed(it.now)) for table, each in result.shown.items() for it in each
        ]
        hidden = sorted(view for view, it in control.pin.views.items() if it not in (LIVE, PUBLISHING))
        kind = BUILT if control.pin.building else RAN
        if any(count > len(result.shown.get(view, ())) for view, count in result.rows.items()):
            kind = UNJUDGED  # because a history that begins with so many rows is not kept
        moved = (_encode(bases), _encode(shown))  # not nested further: that took half of what recording costs
        self._write(kind, control.pin.incarnation, control.pin.epoch, *moved, whole, tuple(hidden))

    def committed(self, control: Control) -> None:
        """Write that the epoch is committed; between two epochs is where one file ends and the next begins."""
        self._write(COMMITTED, control.signature.incarnation, control.committed)
        if self._written >= self._file_bytes:
            self._file.close()
            self._file, self._written = self._open(), 0
            self._forget()

    def close(self) -> None:
        """Close the file; nothing was buffered."""
        self._file.close()

    def _open(self) -> FileIO:
        path = self._folder / f"epochs-{self._clock():020d}-{os.getpid()}{self._state}.log"
        return path.open("ab", buffering=0)

    def _forget(self) -> None:
        *old, _current = recording_files(self._folder)
        sizes = [path.stat().st_size for path in old]
        for path, size in zip(old, sizes.copy(), strict=True):
            if not self._keep_bytes or sum(sizes) <= self._keep_bytes - self._file_bytes:
                return
            path.unlink()
            sizes.remove(size)

    def _write(self, *parts: object) -> None:
        body = pack((self._clock(), *parts))
        self._written += self._file.write(_SIZE.pack(len(body)) + body)


def _packed(row: Values | None) -> bytes | None:
    return None if row is None else pack(row)


def _unpacked(row: bytes | None) -> Values | None:
    return None if row is None else unpack(row)


def recording_files(folder: Path, *, state: str = "") -> list[Path]:
    """Return the files of a recording, oldest first; none: the folder is none.

    `state`: only what is of it. Another one, before `cvs uninstall` say, has the same numbers for other epochs.
    """
    return sorted(folder.glob(f"epochs-*-{state}.log" if state else "epochs-*.log"))


def is_recording(paths: Iterable[Path]) -> bool:
    """Say whether paths are folders into which pipelines recorded; mixed with other histories they are refused."""
    found = {path: path.is_dir() and bool(recording_files(path)) for path in paths}
    if any(found.values()) and not all(found.values()):
        other = next(path for path, it in found.items() if not it)
        raise HistoryError(
            "recordings of a sidecar are judged by themselves",
            where=str(other),
            next_step="name only the folders of [recording]",
        )
    return any(found.values())


def read_log(path: Path) -> Iterator[Values]:
    """Yield the records of one process: (time, kind, incarnation, epoch, ...)."""
    data, at = path.read_bytes(), 0
    while at + _SIZE.size <= len(data):
        (size,) = _SIZE.unpack_from(data, at)
        if at + _SIZE.size + size > len(data):
            return
        yield _read(unpack(data[at + _SIZE.size : at + _SIZE.size + size]))
        at += _SIZE.size + size


def _read(record: Values) -> Values:
    """Return a record with what moved as values; an older cvs wrote it so."""
    head, moved, rest = record[:4], record[4:6], record[6:]
    if not moved or not isinstance(moved[0], bytes):
        return record
    bases = tuple((table, at, _unpacked(one), _unpacked(two)) for table, at, one, two in _bases(moved[0]))
    shown = tuple((table, unpack(key), _unpacked(row)) for table, key, row in _shown(moved[1]))
    return (*head, bases, shown, *rest)
