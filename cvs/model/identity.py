"""When two values, rows or keys are the same: the one equality of grouping, joining and comparing states.

SQL's grouping equality: null is null, NaN is NaN, -0.0 is 0.0, 1.00 is 1. What Python cannot hash (maps,
lists) is given a form it can.
"""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

Value = Any  # because a column may hold any CQL value
Key = tuple[Value, ...]


class _NotANumber:
    """Stands for NaN, which Python finds different from itself; it sorts after every number."""

    def __repr__(self) -> str:
        """Name it as people do."""
        return "NaN"

    def __reduce__(self) -> str:
        """Stay the one object on the way between processes."""
        return "NAN"


NAN = _NotANumber()
_PLAIN = frozenset({int, str, bytes, bool, type(None)})
_COLLECTIONS = frozenset({tuple, list, frozenset, set})


def identity(value: Value) -> Value:
    """Return a hashable stand-in: two values have equal stand-ins exactly if they are the same value."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return NAN if value != value else value + 0.0
    if kind is dict:
        return frozenset((identity(k), identity(v)) for k, v in value.items())
    if kind is tuple or kind is list:
        return tuple(map(identity, value))
    if kind is set or kind is frozenset:
        return frozenset(map(identity, value))
    return value


def canonical(value: Value) -> Value:
    """Return the value a group key shows: one form of each number, inside collections too (PROTOCOL H25)."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value + 0.0 if value == value else math.nan
    if kind is Decimal:
        return plain_decimal(value)
    if kind in _COLLECTIONS:
        return kind(map(canonical, value))
    if isinstance(value, dict):
        return kind((canonical(k), canonical(v)) for k, v in value.items())
    return value


def plain_decimal(value: Decimal) -> Decimal:
    """Return the decimal without trailing zeros and without an exponent above zero."""
    if not value:
        return Decimal(0)
    text = str(value)  # because digits as a tuple cost three times as much
    if "E" in text:
        text = format(value, "f")
    elif "." not in text or text[-1] != "0":
        return value
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


def key_identity(values: Iterable[Value]) -> Key:
    """Return the stand-in of a key."""
    return tuple(map(identity, values))


def row_identity(row: Mapping[str, Value]) -> frozenset[tuple[str, Value]]:
    """Return the stand-in of a row; a null column is the same as none."""
    return frozenset((name, identity(value)) for name, value in row.items() if value is not None)


def same_row(left: Mapping[str, Value] | None, right: Mapping[str, Value] | None) -> bool:
    """Say whether two rows (or two absences) are the same."""
    if left is None or right is None:
        return left is right
    return left == right or row_identity(left) == row_identity(right)
