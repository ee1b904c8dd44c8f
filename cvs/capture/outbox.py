"""The application outbox: base writes that the application itself sends to a Kafka topic, as JSON.

    {"table": "shop.orders", "time": 1700000000000000, "op": "insert",
     "key": {"id": 1, "line": 2}, "set": {"amount": "9.90", "note": null}, "ttl": 3600}

`time` is the write time in microseconds, the one the statement itself used (USING TIMESTAMP). `op` is insert,
update or delete; a delete names the whole key, a clustering prefix or only the partition. `set` overwrites whole
columns, null deletes. Values are written as `model/types.py` says. A heartbeat is `{"clock": 1700000000000000}`:
every write acknowledged to this partition's writers before that moment stands before it.
"""

from typing import Any, Literal

import msgspec

from cvs.capture.changes import Change
from cvs.capture.messages import NOTHING, ChangeMaker
from cvs.errors import HistoryError


class OutboxMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message; a heartbeat has nothing but a clock."""

    table: str = ""
    time: int = 0
    op: Literal["insert", "update", "delete", ""] = ""
    key: dict[str, Any] = {}
    set: dict[str, Any] = {}
    ttl: int = 0
    clock: int = 0


_decoder = msgspec.json.Decoder(OutboxMessage)


class Outbox:
    """Reads outbox messages."""

    def __init__(self, makers: dict[str, ChangeMaker]) -> None:
        """Know the tables by full name."""
        self._makers = makers

    def change(self, data: bytes | None, offset: int) -> Change:
        """Return what a message changes."""
        message = _message(data)
        if not message.table:
            return NOTHING
        maker = self._makers.get(message.table)
        if maker is None:
            raise HistoryError(
                f"there is no table {message.table}", next_step="WITH cdc = true or not: it must exist"
            )
        if not message.time or not message.op:
            raise HistoryError("a write needs its time and op")
        origin = (0, offset, 0)
        if message.op == "delete":
            return maker.deletion(message.key, time=message.time, origin=origin)
        expiry = (message.ttl, message.time // 1_000_000 + message.ttl)
        return maker.write(
            message.key,
            message.set,
            time=message.time,
            inserts=message.op == "insert",
            expiries=dict.fromkeys(message.set, expiry) if message.ttl else {},
            origin=origin,
        )

    def clock(self, data: bytes | None) -> int:
        """Return the moment a message says its partition has reached."""
        message = _message(data)
        return message.clock or message.time


def _message(data: bytes | None) -> OutboxMessage:
    try:
        return _decoder.decode(data or b"{}")
    except msgspec.DecodeError as fault:
        raise HistoryError(f"not an outbox message: {fault}") from fault
