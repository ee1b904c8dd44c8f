"""What each aggregate function means, exactly.

Sums of floats are taken exactly and rounded once (PROTOCOL H25), so they depend on no order and a maintained
sum can equal a recomputed one bit for bit. NaN and infinities are counted apart.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from cvs.errors import AssumptionError
from cvs.model.functions import QUOTIENTS, greatest, least
from cvs.model.identity import identity
from cvs.model.views import AggregateFunction

Value = Any  # because a column may hold any CQL value


def exact(value: Value) -> Fraction:
    """Return a finite number as an exact fraction."""
    try:
        return Fraction(value)
    except (TypeError, ValueError):
        raise AssumptionError(
            f"{value!r} is no number to add up", next_step="sum columns of numbers only"
        ) from None


def rounded_double(value: Fraction) -> float:
    """Return the nearest double, infinite beyond the largest."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Count, sum and sum of squares of the values of a group that are not null, all exact."""

    kind: type
    count: int
    total: Fraction
    squares: Fraction
    special: float  # the sum of NaN and infinities, 0.0 if there were none

    @classmethod
    def of(cls, values: Iterable[Value], *, squares: bool = False) -> "Moments":
        """Add up the values; squares only where asked for, because they are slow."""
        kind: type = int
        count, special = 0, 0.0
        total: Any = 0  # because it is an int until a fraction is met
        total_squares = Fraction(0)
        for value in values:
            count += 1
            if isinstance(value, float):
                kind = float
                if not math.isfinite(value):
                    special += value
                    continue
            elif isinstance(value, Decimal) and kind is int:
                kind = Decimal
            number = value if isinstance(value, int) else exact(value)
            total += number
            if squares:
                total_squares += number * number
        return cls(kind=kind, count=count, total=Fraction(total), squares=total_squares, special=special)

    def sum(self) -> Value:
        """Return the sum in the kind of its values."""
        if self.special != 0.0:
            return self.special
        if self.kind is float:
            return rounded_double(self.total)
        return int(self.total) if self.kind is int else _decimal(self.total)

    def average(self) -> Value:
        """Return the mean: a decimal of decimals (38 digits), a double of everything else."""
        if self.special != 0.0:
            return self.special
        if self.kind is Decimal:
            mean = self.total / self.count
            return QUOTIENTS.divide(Decimal(mean.numerator), Decimal(mean.denominator))
        return rounded_double(self.total / self.count)

    def variance(self) -> float | None:
        """Return the sample variance; null of fewer than two values."""
        if self.count < 2:
            return None
        if self.special != 0.0:
            return math.nan
        spread = self.squares - self.total * self.total / self.count
        return rounded_double(spread / (self.count - 1))


def _decimal(value: Fraction) -> Decimal:
    """Return a fraction of decimals as the decimal it is: its denominator divides a power of ten."""
    twos = fives = 0
    rest = value.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    scale = max(twos, fives)
    digits = abs(value.numerator * 10**scale // value.denominator)
    return Decimal((int(value < 0), tuple(map(int, str(digits))), -scale))


def aggregate(function: AggregateFunction, values: Iterable[Value], *, distinct: bool = False) -> Value:
    """Return an aggregate of the values of a group; nulls do not count."""
    known: list[Value] = [value for value in values if value is not None]
    if distinct:
        known = list({identity(value): value for value in known}.values())
    if function is AggregateFunction.COUNT:
        return len(known)
    if not known:
        return None
    if function is AggregateFunction.MIN:
        return least(known)
    if function is AggregateFunction.MAX:
        return greatest(known)
    return _of_numbers(function, known)


def _of_numbers(function: AggregateFunction, known: list[Value]) -> Value:
    spread = function in (AggregateFunction.VARIANCE, AggregateFunction.STDDEV)
    moments = Moments.of(known, squares=spread)
    if function is AggregateFunction.SUM:
        return moments.sum()
    if function is AggregateFunction.AVG:
        return moments.average()
    variance = moments.variance()
    if function is AggregateFunction.VARIANCE or variance is None:
        return variance
    return math.sqrt(variance)
