"""What the cost model knows of the data: rows, different values, update rates, and the measured weights.

Defaults are stated, not hidden: a million rows a table, a tenth as many different values in a column that is
no key. `explain` says when it had to guess.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from cvs.errors import SpecificationError
from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import BaseTable

ROWS = 1_000_000
DISTINCT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """CPU milliseconds of client and server together a row, on two cores with Cassandra 5.0 on one node.

    Rows and test-and-sets are measured, reads and computing are estimates; `cvs explain --weights` takes others.
    """

    delta_row: float = 0.20
    state_row: float = 0.09
    read_row: float = 0.02
    test_and_set: float = 0.60
    published_row: float = 0.21
    compute_row: float = 0.01
    edge_row: float = 0.002
    machine: str = "2 cores, 24 GiB, one node, Cassandra 5.0.8"

    @classmethod
    def of(cls, values: Mapping[str, object]) -> "Weights":
        """Read weights from a mapping; unknown names and values below zero are refused."""
        known = set(cls.__dataclass_fields__)
        for name, value in values.items():
            if name not in known:
                raise SpecificationError(
                    f"no weight is called {name}", next_step=f"known: {', '.join(sorted(known))}"
                )
            if name != "machine" and (not isinstance(value, int | float) or value < 0):
                raise SpecificationError(f"weight {name} is {value!r}", next_step="a number of milliseconds")
        return cls(**values)  # type: ignore[arg-type]  # because each was checked above


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Rows a table, different values and (lowest, highest) a column (`table.column`), base updates a second a table."""

    rows: Mapping[str, int] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    epoch_updates: int = 1000

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Statistics":
        """Read statistics from a mapping as JSON has it; unknown names are refused."""
        known = list(cls.__dataclass_fields__)
        for name in values:
            if name not in known:
                raise SpecificationError(
                    f"no statistic is called {name}", next_step=f"known: {', '.join(known)}"
                )
        return cls(**values)

    def rows_of(self, table: str) -> float:
        """Return the rows of a table, known or guessed."""
        return float(self.rows.get(table, ROWS))

    def distinct_of(self, table: str, column: str) -> float:
        """Return how many different values a column has, known or guessed."""
        known = self.distinct.get(f"{table}.{column}")
        return float(known) if known is not None else max(1.0, self.rows_of(table) * DISTINCT_SHARE)

    def counted(self, table: BaseTable, column: str) -> float | None:
        """Return how many different values a column has if that is known: a constant selects a tenth otherwise.

        A column that people compare with constants is a status or a kind far more often than a number of many values.
        """
        if table.key == (column,):
            return self.rows_of(table.name)
        known = self.distinct.get(f"{table.name}.{column}")
        return None if known is None else float(known)

    def mix(self, tables: Iterable[str]) -> dict[str, float]:
        """Return each table's share of the updates; if no rate is known, a table changes as it has rows."""
        found = {t: self.rates.get(t, 0.0) if self.rates else self.rows_of(t) for t in tables}
        total = sum(found.values())
        return {table: rate / total if total else 1.0 / len(found) for table, rate in found.items()}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the columns a predicate reads: different values, lowest and highest, by column name."""

    distinct: Callable[[str], float | None] = lambda _: None
    bounds: Callable[[str], tuple[Any, Any] | None] = lambda _: None


GUESSES = Known()


def selectivity(predicate: Expression | None, known: Known = GUESSES) -> float:
    """Estimate which share of rows a predicate keeps (System R; its guesses where nothing is known)."""
    if predicate is None:
        return 1.0
    if isinstance(predicate, Literal):
        return 1.0 if predicate.value is True else 0.0
    if not isinstance(predicate, Call):
        return 0.5
    match predicate.function:
        case "and":
            return math.prod(selectivity(a, known) for a in predicate.arguments)
        case "or":
            return 1.0 - math.prod(1.0 - selectivity(a, known) for a in predicate.arguments)
        case "not":
            return 1.0 - selectivity(predicate.arguments[0], known)
        case "in":
            return min(1.0, _equal(predicate.arguments[0], known) * (len(predicate.arguments) - 1))
        case "=":
            return _equal(predicate.arguments[0], known)
        case "<>":
            return 1.0 - _equal(predicate.arguments[0], known)
        case "<" | "<=" | ">" | ">=":
            return _range(predicate, known)
    return {"is_null": 0.05, "is_not_null": 0.95, "like": 0.1}.get(predicate.function, 1 / 3)


def _equal(side: Expression, known: Known) -> float:
    values = known.distinct(side.name) if isinstance(side, Column) else None
    return 0.1 if values is None else 1.0 / max(1.0, values)


def _range(predicate: Call, known: Known) -> float:
    """Return where a bound lies between the lowest and the highest value."""
    column, bound = predicate.arguments
    found = known.bounds(column.name) if isinstance(column, Column) and isinstance(bound, Literal) else None
    if found is None or not isinstance(bound, Literal):
        return 1 / 3
    low, high, at = (_number(value) for value in (*found, bound.value))
    if low is None or high is None or at is None or high <= low:
        return 1 / 3
    below = min(1.0, max(0.0, (at - low) / (high - low)))
    return below if predicate.function.startswith("<") else 1.0 - below


def _number(value: Any) -> float | None:
    """Return a number for what has an order like one; a date may come as JSON wrote it."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date):
        return float(value.toordinal())
    return float(value) if isinstance(value, int | float | Decimal) else None
