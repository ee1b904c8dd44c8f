"""Casts between types: null where a value has no counterpart (Spark SQL with ANSI mode off)."""

import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from cvs.model.values import fitting

Value = Any  # because a column may hold any CQL value
Cast = Callable[[Value], Value]

INTEGER_BITS: dict[str, int | None] = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "varint": None}

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_TRUE = {"true", "t", "yes", "y", "1"}
_FALSE = {"false", "f", "no", "n", "0"}
_DIGITS_MAX = 400  # because int("9" * 10**6) would stall a task


def single(value: float) -> float:
    """Return the value as CQL's 32-bit `float` keeps it."""
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _whole(value: Value) -> int | None:
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _DIGITS_MAX or not _NUMBER.fullmatch(text) or "e" in text.lower():
            return None
        return int(Decimal(text))
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bool | int | float | Decimal):
        return int(value)
    return None


def _integer(bits: int | None) -> Cast:
    def cast(value: Value) -> int | None:
        whole = _whole(value)
        if whole is None or bits is None:
            return whole
        return whole if -(1 << (bits - 1)) <= whole < 1 << (bits - 1) else None

    return cast


_SPECIAL = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}


def _double(value: Value) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _SPECIAL:
            return _SPECIAL[text.lower()]
        return float(text) if _NUMBER.fullmatch(text) else None
    if not isinstance(value, bool | int | float | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _float(value: Value) -> float | None:
    wide = _double(value)
    return None if wide is None else single(wide)


def _decimal(value: Value) -> Decimal | None:
    if isinstance(value, str):
        text = value.strip()
        try:
            return fitting(Decimal(text)) if _NUMBER.fullmatch(text) else None
        except (InvalidOperation, ValueError):
            return None
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    return Decimal(value) if isinstance(value, int | Decimal) else None


def _text(value: Value) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
        return text + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return None
    return str(value)


def _boolean(value: Value) -> bool | None:
    if isinstance(value, str):
        text = value.strip().lower()
        return True if text in _TRUE else False if text in _FALSE else None
    return bool(value) if isinstance(value, int | float | Decimal) else None


def _date(value: Value) -> date | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None


def _timestamp(value: Value) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else None
        if moment is None:
            return None
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _uuid(value: Value) -> UUID | None:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None


CASTS: dict[str, Cast] = {
    **{name: _integer(bits) for name, bits in INTEGER_BITS.items()},
    "float": _float,
    "double": _double,
    "decimal": _decimal,
    "text": _text,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "uuid": _uuid,
}
