"""Recorded payloads decode as Cassandra's own reader did; damaged segments never give a wrong change."""

import random

import pytest

from cvs.capture.changes import Change
from cvs.capture.log import LogDecoder
from cvs.capture.segment import DamagedSegmentError, read_header, segment_id
from cvs.errors import CvsError, HistoryError
from tests.java.stock import words
from tests.unit.capture.segments import PAYLOADS, RECORDED, SEGMENT, decode, decoder, header, segment

HALF = len(PAYLOADS) // 2
WHOLE = segment([PAYLOADS[:HALF], [], PAYLOADS[HALF:]])
RIGHT = decode(WHOLE)


@pytest.mark.parametrize("version", [7, 8])
def test_recorded_writes_decode_as_the_stock_reader_had_them(version: int) -> None:
    """Statics, collections, user types, TTL, tombstones, ranges, batches: the expectations are the other reader's."""
    changes = decode(segment([PAYLOADS], version=version))
    assert [words(change, change.definition) for change in changes] == RECORDED["expected"]
    assert len({change.kind for change in changes}) == 4


def refusal_of(data: bytes) -> HistoryError | None:
    """Decode; return how it was refused, or None after checking that what came is right."""
    try:
        changes = decode(data)
    except HistoryError as refusal:
        return refusal
    assert is_right(changes)
    return None


def is_right(changes: list[Change]) -> bool:
    """Say whether these are the first of the right changes, whatever offsets a shorter frame gives them."""
    return [c.cells for c in changes] == [c.cells for c in RIGHT[: len(changes)]]


@pytest.mark.parametrize("seed", range(4))
def test_no_flipped_bit_gives_a_wrong_change(seed: int) -> None:
    """Every bit position is as likely: the decoding stops with an offset, or gives a beginning of what is right."""
    chooser = random.Random(seed)
    stopped = 0
    for _ in range(400):
        damaged = bytearray(WHOLE)
        damaged[chooser.randrange(len(WHOLE) - 64)] ^= 1 << chooser.randrange(8)
        refusal = refusal_of(bytes(damaged))
        if refusal:
            assert isinstance(refusal, DamagedSegmentError)
            assert refusal.segment == SEGMENT
            assert 0 <= refusal.offset < len(WHOLE)
            assert "offset" in str(refusal)
            stopped += 1
    assert stopped > 350


def test_no_truncation_gives_a_wrong_change() -> None:
    for length in range(0, len(WHOLE), 3):
        refusal = refusal_of(WHOLE[:length])
        assert refusal is None or getattr(refusal, "offset", 0) <= length


def test_an_entry_that_promises_more_than_its_definition_explains_stops_the_decoding() -> None:
    """The checksum is right, the definitions are not: consumed to the last byte, or stopped at the entry."""
    longer = segment([[PAYLOADS[0] + b"\x00"]])
    with pytest.raises(DamagedSegmentError, match="does not end where"):
        decode(longer)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (header(version=6), "version 6"),
        (header(settings=b'{"compressionClass": "LZ4Compressor"}'), "compressed"),
        (header(segment=SEGMENT + 1), "not the header"),
    ],
)
def test_what_capture_does_not_read_is_refused(head: bytes, said: str) -> None:
    with pytest.raises(CvsError, match=said):
        read_header(head, SEGMENT)


def test_a_header_not_written_yet_is_no_damage() -> None:
    assert read_header(bytes(4096), SEGMENT) is None
    assert segment_id("CommitLog-7-17.log") == 17
    assert segment_id("CommitLog-7-17_cdc.idx") is None


def test_updates_of_unknown_tables_are_counted() -> None:
    log = decoder()
    log.book.definitions.clear()
    data = segment([PAYLOADS])
    found = read_header(data, SEGMENT)
    assert found
    changes = log.decode(data, found.size + 8, len(data) - 64, segment=SEGMENT, base=0)
    assert changes == []
    assert log.skipped == {"updates of tables that no longer exist": len(PAYLOADS)}


@pytest.mark.parametrize("places", ["gk", "kg", "gg", "gkg", "ggk", "kgk", "gkgk"])
def test_what_is_said_of_other_tables_beside_one_that_is_gone_is_read(places: str) -> None:
    """An entry of a batch over several tables, one of which was dropped before capture came to it (g; k: known)."""
    for payload in PAYLOADS:
        gone = [bytes([number]) * 16 + payload[17:] for number in range(1, 5)]
        parts = [payload[1:] if place == "k" else gone.pop() for place in places]
        asked: list[int] = []
        log = decoder(reload=lambda asked=asked: asked.append(1) or [])
        changes = read(log, [bytes([len(parts)]) + b"".join(parts)] * 3)
        alone = read(decoder(), [payload] * places.count("k") * 3)
        assert [(c.kind, c.key, c.cells) for c in changes] == [(c.kind, c.key, c.cells) for c in alone]
        assert len(asked) <= places.count("g"), "the node is asked once for each"


def test_an_entry_of_fewer_tables_than_it_says_is_damaged() -> None:
    with pytest.raises(DamagedSegmentError):
        read(decoder(), [b"\x02" + PAYLOADS[0][1:]])
    with pytest.raises(DamagedSegmentError):
        read(decoder(), [b"\x02" + PAYLOADS[0][1:] * 3])


def read(log: LogDecoder, payloads: list[bytes]) -> list[Change]:
    data = segment([payloads])
    found = read_header(data, SEGMENT)
    assert found
    return log.decode(data, found.size + 8, len(data) - 64, segment=SEGMENT, base=0)
