"""The frame of a commit-log segment, versions 7 and 8: header, sync markers, checked entries.

    header   version i32, id i64, JSON length u16, JSON, crc32
    section  next section's offset i32, crc32 of (id, own offset)     a zero marker is the end
    entry    size i32, crc32 of the size, payload, crc32 of size and payload

Nothing is skipped: what is neither a whole entry nor the end raises `DamagedSegmentError` with its offset.
"""

import json
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from cvs.errors import HistoryError

VERSIONS = (
    7,
    8,
)  # 4.0 and 5.0 serialisation; a node of 5.0 writes 7 unless storage_compatibility_mode is NONE
MARKER_BYTES = 8
ENTRY_OVERHEAD_BYTES = 12
HEADER_JSON_MAX = 1 << 14  # names of a compressor and a cipher: a few hundred bytes
NAME = re.compile(r"CommitLog-(\d+)-(\d+)\.log$")

_pair = struct.Struct(">II")
_int = struct.Struct(">I")
_crc = zlib.crc32


class DamagedSegmentError(HistoryError):
    """Bytes of a segment that are not what Cassandra writes; carries the offset of the first one."""

    def __init__(self, what: str, *, segment: int, offset: int) -> None:
        super().__init__(
            what,
            where=f"segment {segment}, offset {offset}",
            next_step="compare with the node's own log; nothing from this offset on was captured",
        )
        self.segment = segment
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way between processes."""
        return (_rebuild, (self.what, self.segment, self.offset))


def _rebuild(what: str, segment: int, offset: int) -> DamagedSegmentError:
    return DamagedSegmentError(what, segment=segment, offset=offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a segment says of itself."""

    version: int
    segment: int
    size: int  # bytes; the first marker stands right behind


def segment_id(file_name: str) -> int | None:
    """Return the id in a segment's file name; None for any other file."""
    found = NAME.match(file_name)
    return int(found[2]) if found else None


def read_header(data: bytes, segment: int) -> Header | None:
    """Read the header; None while it is not written yet (all zero)."""
    if len(data) < 14 or not any(data[:14]):
        return None
    version, found, size = struct.unpack_from(">iqH", data)
    if size > HEADER_JSON_MAX:
        raise DamagedSegmentError("this is not the header of this segment", segment=segment, offset=0)
    if len(data) < 18 + size:
        return None
    parameters = data[14 : 14 + size]
    check = _crc(_int.pack(version & 0xFFFFFFFF))
    check = _crc(_pair.pack(found & 0xFFFFFFFF, found >> 32 & 0xFFFFFFFF), check)
    check = _crc(parameters, _crc(_int.pack(size), check))
    if check != _int.unpack_from(data, 14 + size)[0] or found != segment:
        raise DamagedSegmentError("this is not the header of this segment", segment=segment, offset=0)
    settings = json.loads(parameters or b"{}")
    if version not in VERSIONS or settings:
        kind = f"compressed or encrypted ({settings})" if settings else f"of version {version}"
        raise HistoryError(
            f"segment {segment} is {kind}, which capture does not read",
            where=f"segment {segment}",
            next_step="capture reads plain segments of versions 7 and 8: unset commitlog_compression and "
            "transparent_data_encryption_options, restart the node",
        )
    return Header(version=version, segment=segment, size=18 + size)


def section_end(data: bytes, at: int, *, segment: int, offset: int) -> int | None:
    """Read the sync marker at `data[at]` (in the file: `offset`): the next one's offset, None at the end."""
    following, check = _pair.unpack_from(data, at)
    if following == 0 and check == 0:
        return None
    expected = _crc(struct.pack(">III", segment & 0xFFFFFFFF, segment >> 32, offset))
    if check != expected or following < offset + MARKER_BYTES:
        raise DamagedSegmentError("bad sync marker", segment=segment, offset=offset)
    return int(following)


def entries(data: bytes, start: int, end: int, *, segment: int, base: int) -> Iterator[tuple[int, int]]:
    """Yield (payload start, payload end) of each entry from `start` to `end`; `base` + index = offset.

    A zero size is the unused tail of a closed section.
    """
    unpack, crc = _pair.unpack_from, _crc
    while end - start >= ENTRY_OVERHEAD_BYTES:
        size, size_check = unpack(data, start)
        if size == 0:
            break
        payload = start + 8
        stop = payload + size
        check = crc(data[start : start + 4])
        if check != size_check or stop + 4 > end:
            raise DamagedSegmentError("bad size of an entry", segment=segment, offset=base + start)
        if crc(data[payload:stop], check) != int.from_bytes(data[stop : stop + 4], "big"):
            raise DamagedSegmentError("bad checksum of an entry", segment=segment, offset=base + start)
        yield payload, stop
        start = stop + 4
    if any(data[start:end]):
        raise DamagedSegmentError("bytes that are no entry", segment=segment, offset=base + start)
