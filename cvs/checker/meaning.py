"""What the checker needs to know of a view: its meaning on any base state, and what of an image matters to
it.

A meaning is *linear* when the view is a fold, group by group, over what each base record contributes alone:
selections, projections and aggregates over one table. Then a record matters only to the view records it can
touch, and two versions with the same contribution cannot be told apart.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from cvs.checker.replay import BaseRecord, Key, Row

Base = Mapping[BaseRecord, Row | None]


def freeze(value: Any) -> Hashable:
    """Make a value comparable and hashable: NaN equals NaN, -0.0 equals 0.0, 1.50 equals 1.5, true is not
    1.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else _number(value)
    if isinstance(value, Decimal):
        return "NaN" if value.is_nan() else _number(value)
    if isinstance(value, Mapping):
        return tuple(sorted((str(k), freeze(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return tuple(freeze(v) for v in value)
    if isinstance(value, set | frozenset):
        return frozenset(freeze(v) for v in value)
    return value  # type: ignore[no-any-return]


def _number(value: float | Decimal) -> Hashable:
    if (isinstance(value, float) and math.isinf(value)) or (
        isinstance(value, Decimal) and value.is_infinite()
    ):
        return str(float(value))
    return int(value) if value == value.__trunc__() else value


def frozen_row(row: Row | None) -> Hashable:
    """Freeze a row; no row stays None."""
    return None if row is None else freeze(row)


class Meaning(Protocol):
    """What a view means."""

    linear: bool

    def view(self, base: Base) -> Mapping[Key, Hashable]:
        """Return the frozen rows of the view of a base state, by view key."""

    def contribution(self, record: BaseRecord, row: Row | None) -> Mapping[Key, Hashable]:
        """Return, for a linear view, what an image contributes to each view record."""

    def image(self, record: BaseRecord, row: Row | None) -> Hashable:
        """Return what of an image can matter to the view at all."""


@dataclass(slots=True)
class TableMeaning:
    """A meaning from two plain functions: for stories, ladders and views written in Python."""

    rows: Callable[[Iterable[tuple[BaseRecord, Row]]], Mapping[Key, Row]]
    keys: Callable[[BaseRecord, Row], Iterable[Key]] | None = None
    linear: bool = field(init=False)

    def __post_init__(self) -> None:
        self.linear = self.keys is not None

    def view(self, base: Base) -> Mapping[Key, Hashable]:
        """Apply the function to the records that exist."""
        present = [(record, row) for record, row in base.items() if row is not None]
        return {key: frozen_row(row) for key, row in self.rows(present).items()}

    def contribution(self, record: BaseRecord, row: Row | None) -> Mapping[Key, Hashable]:
        """Give the whole image to every view record it touches."""
        if row is None or self.keys is None:
            return {}
        image = frozen_row(row)
        return dict.fromkeys(self.keys(record, row), image)

    def image(self, record: BaseRecord, row: Row | None) -> Hashable:
        """Let the whole image matter."""
        return frozen_row(row)
