"""Values that Cassandra keeps and Python has none for, as a timestamp of the year 200000.

The driver gives up the whole page for one of them, with the error of a request that nobody answered.
"""

from typing import Any

from cassandra.protocol import ProtocolHandler, ResultMessage, read_int

_FAST: Any = ProtocolHandler.message_types_by_opcode[ResultMessage.opcode]


class Undecoded(bytes):
    """A value as Cassandra sent it, because the driver cannot say what it is."""

    __slots__ = ()


class _Rows(_FAST):  # type: ignore[misc]  # because the driver has no types
    """Rows as the driver decodes them; of a page that it cannot decode value by value, as far as it can."""

    def recv_results_rows(self, f: Any, version: int, *others: Any) -> None:
        start = f.tell()
        try:
            super().recv_results_rows(f, version, *others)
        except Exception:  # noqa: BLE001 -- because decoders raise what they like, and some of it means nothing
            f.seek(start)
            user_types, known = others[:2]
            self.recv_results_metadata(f, user_types)
            columns = self.column_metadata or known
            self.column_names = [column[2] for column in columns]
            self.column_types = [column[3] for column in columns]
            rows = [self.recv_row(f, len(columns)) for _ in range(read_int(f))]
            self.parsed_rows = [
                tuple(_value(column[3], data, version) for column, data in zip(columns, row, strict=True))
                for row in rows
            ]


class TolerantHandler(ProtocolHandler):  # type: ignore[misc]
    """What a session is given whose reads shall not end at such a value: `driver.client_protocol_handler`."""

    message_types_by_opcode = {  # noqa: RUF012 -- because the driver's class says what this is
        **ProtocolHandler.message_types_by_opcode,
        ResultMessage.opcode: _Rows,
    }


def _value(kind: Any, data: bytes | None, version: int) -> Any:
    try:
        return kind.from_binary(data, version)
    except Exception:  # noqa: BLE001 -- as above
        return Undecoded(data or b"")
