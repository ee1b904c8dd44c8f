"""Exact accumulators: what COUNT, SUM, AVG, VARIANCE and STDDEV need to take a value in, and out again.

The results are `model.aggregates.Moments`' own, so a maintained sum equals a recomputed one bit for bit.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from cvs.model.aggregates import Moments
from cvs.model.views import AggregateFunction
from cvs.programs.stage_codec import Value, Values

EXACT = Context(prec=1_000)
"""Decimals of one column may have any scale: what is kept of them, squares too, is exact over so many digits."""

_KINDS: dict[str, type] = {"": object, "int": int, "float": float, "Decimal": Decimal}
Number = Any  # because int, Decimal and Fraction are each exact for their kind


@dataclass(slots=True)
class Sums:
    """Counts and sums of the values in a group that are not null; NaN and infinities counted apart (H25)."""

    count: int = 0
    total: Number = 0
    squares: Number = 0
    special: tuple[int, int, int] = (0, 0, 0)  # NaN, +infinity, -infinity
    kind: str = ""

    @classmethod
    def of(cls, stored: Values) -> "Sums":
        """Read what `stored` wrote."""
        count, total, squares, special, kind = stored
        if kind == "float":
            total, squares = Fraction(*total), Fraction(*squares)
        return cls(count, total, squares, special, kind)

    def stored(self) -> Values:
        """Return it as values that have bytes."""
        total, squares = self.total, self.squares
        if self.kind == "float":
            total, squares = Fraction(total).as_integer_ratio(), Fraction(squares).as_integer_ratio()
        return (self.count, total, squares, self.special, self.kind)

    def take(self, value: Value, times: int, *, squares: bool = False) -> None:
        """Add a value some times (take it out, if negative)."""
        self.count += times
        kind = type(value).__name__
        if kind not in _KINDS:
            return  # COUNT of something that is no number
        self.kind = self.kind or kind
        if kind == "float" and not math.isfinite(value):
            nan, up, down = self.special
            self.special = (
                nan + times * (value != value),
                up + times * (value == math.inf),
                down + times * (value == -math.inf),
            )
            return
        self.total = self._plus(self.total, value, times)
        if squares:
            self.squares = self._plus(self.squares, self._square(value), times)

    def finish(self, function: AggregateFunction) -> Value:
        """Return the aggregate's value; of no values, null, for COUNT 0."""
        if function is AggregateFunction.COUNT:
            return self.count
        if not self.count:
            return None
        moments = Moments(
            kind=_KINDS[self.kind],
            count=self.count,
            total=Fraction(self.total),
            squares=Fraction(self.squares),
            special=self._special(),
        )
        if function is AggregateFunction.SUM:
            return moments.sum()
        if function is AggregateFunction.AVG:
            return moments.average()
        variance = moments.variance()
        if function is AggregateFunction.VARIANCE or variance is None:
            return variance
        return math.sqrt(variance)

    def _square(self, value: Value) -> Number:
        if isinstance(value, Decimal):
            return EXACT.multiply(value, value)
        return Fraction(value) ** 2 if isinstance(value, float) else value * value

    def _plus(self, total: Number, value: Number, times: int) -> Number:
        if self.kind == "Decimal":
            return EXACT.add(total, EXACT.multiply(value, Decimal(times)))
        if self.kind == "float":
            return Fraction(total) + Fraction(value) * times
        return total + value * times

    def _special(self) -> float:
        nan, up, down = self.special
        if nan or (up and down):
            return math.nan
        return math.inf if up else -math.inf if down else 0.0
