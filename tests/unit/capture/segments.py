"""Segments made for tests: recorded payloads of a real node in frames written as Cassandra writes them."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec

from cvs.capture.changes import Change, TableDefinition
from cvs.capture.log import LogDecoder
from cvs.capture.schema import SchemaBook
from cvs.capture.segment import MARKER_BYTES, read_header, section_end

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "writes.json").read_text())
PAYLOADS = [bytes.fromhex(text) for text in RECORDED["payloads"]]
DEFINITIONS = msgspec.convert(RECORDED["definitions"], list[TableDefinition])
SEGMENT = 1795010706179


def header(*, version: int = 7, segment: int = SEGMENT, settings: bytes = b"{}") -> bytes:
    check = zlib.crc32(struct.pack(">iII", version, segment & 0xFFFFFFFF, segment >> 32))
    check = zlib.crc32(settings, zlib.crc32(struct.pack(">I", len(settings)), check))
    return struct.pack(">iqH", version, segment, len(settings)) + settings + struct.pack(">I", check)


def entry(payload: bytes) -> bytes:
    size = struct.pack(">I", len(payload))
    check = zlib.crc32(size)
    return size + struct.pack(">I", check) + payload + struct.pack(">I", zlib.crc32(payload, check))


def segment(
    sections: list[list[bytes]], *, version: int = 7, number: int = SEGMENT, padding: int = 64
) -> bytes:
    """Frame sections of payloads; zeros behind, as in a segment that is still being filled."""
    data = header(version=version, segment=number)
    for payloads in sections:
        body = b"".join(map(entry, payloads))
        end = len(data) + MARKER_BYTES + len(body)
        check = zlib.crc32(struct.pack(">III", number & 0xFFFFFFFF, number >> 32, len(data)))
        data += struct.pack(">II", end, check) + body
    return data + bytes(padding)


def decoder(**options: Any) -> LogDecoder:
    """Make a decoder that knows the recorded tables; references are their names."""
    book = SchemaBook()
    book.definitions = {definition.id: definition for definition in DEFINITIONS}
    return LogDecoder(book, define=lambda definition: definition.id, **options)


def decode(data: bytes, *, number: int = SEGMENT) -> list[Change]:
    """Decode a whole segment; whatever is wrong with it raises."""
    found = read_header(data, number)
    changes: list[Change] = []
    log = decoder()
    at = found.size if found else len(data)
    while at + MARKER_BYTES <= len(data) and (end := section_end(data, at, segment=number, offset=at)):
        changes += log.decode(data, at + MARKER_BYTES, min(end, len(data)), segment=number, base=0)
        if end > len(data):
            break
        at = end
    return changes
