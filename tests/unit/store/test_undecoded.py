"""A value that Python has none for hides no other value of its page."""

import io
import struct
from typing import Any

from cassandra.protocol import ProtocolHandler, ResultMessage

from cvs.model.views import BaseTable
from cvs.sidecar import scanning
from cvs.store.undecoded import TolerantHandler, Undecoded

ROWS_KIND, GLOBAL_TABLE, INT, TIMESTAMP = 2, 1, 0x09, 0x0B
BEYOND = struct.pack(">q", 6_250_000_000_000_000)  # in the year 200025
NOW = struct.pack(">q", 1_700_000_000_000)


def answer(*rows: tuple[int, bytes]) -> bytes:
    """Return the body of an answer with columns `id int, at timestamp`."""

    def text(it: str) -> bytes:
        return struct.pack(">H", len(it)) + it.encode()

    body = struct.pack(">iii", ROWS_KIND, GLOBAL_TABLE, 2) + text("shop") + text("t")
    body += text("id") + struct.pack(">H", INT) + text("at") + struct.pack(">H", TIMESTAMP)
    body += struct.pack(">i", len(rows))
    for number, at in rows:
        body += struct.pack(">iii", 4, number, 8) + at
    return body


def read(handler: Any, body: bytes) -> Any:
    kind = handler.message_types_by_opcode[ResultMessage.opcode]
    return kind.recv_body(io.BytesIO(body), 5, {}, None, None).parsed_rows


def test_what_the_driver_knows_it_decodes_as_ever() -> None:
    body = answer((1, NOW), (2, NOW))
    assert read(TolerantHandler, body) == read(ProtocolHandler, body)


def test_a_timestamp_beyond_the_calendar_stays_the_bytes_that_came() -> None:
    """The driver gave up the page: `cvs verify` ended with "the cluster did not answer"."""
    (_, first), (_, second) = read(TolerantHandler, answer((1, BEYOND), (2, NOW)))
    assert (first, type(first), second.year) == (BEYOND, Undecoded, 2023)


def test_rows_of_such_values_count_for_nothing(monkeypatch: Any) -> None:
    """The pipeline has them in quarantine."""
    table = BaseTable(
        name="shop.t", columns=(("id", "int"), ("at", "timestamp")), partition_key=("id",), clustering_key=()
    )
    page = read(TolerantHandler, answer((1, BEYOND), (2, NOW)))
    monkeypatch.setattr(scanning, "pages", lambda *_: [page])
    unread: set[str] = set()
    session: Any = None
    scan = scanning.TableScan.of(session, table, None, unread=unread, excluded=frozenset())
    assert ([row["id"] for row in scan], unread) == ([2], {"shop.t 1"})
