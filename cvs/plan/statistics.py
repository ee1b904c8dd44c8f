"""What the cost model knows of the data: rows, different values, update rates, and the measured weights.

Defaults are stated, not hidden: a million rows a table, a tenth as many different values in a column that is
no key. `explain` says when it had to guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cvs.errors import SpecificationError
from cvs.model.expressions import Call, Expression, Literal

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
    """Rows a table, different values a column (`table.column`), base updates a second a table."""

    rows: Mapping[str, int] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    epoch_updates: int = 1000

    def rows_of(self, table: str) -> float:
        """Return the rows of a table, known or guessed."""
        return float(self.rows.get(table, ROWS))

    def distinct_of(self, table: str, column: str) -> float:
        """Return how many different values a column has, known or guessed."""
        known = self.distinct.get(f"{table}.{column}")
        return float(known) if known is not None else max(1.0, self.rows_of(table) * DISTINCT_SHARE)


def selectivity(predicate: Expression | None) -> float:
    """Guess which share of rows a predicate keeps (the textbook guesses of System R)."""
    if predicate is None:
        return 1.0
    if isinstance(predicate, Literal):
        return 1.0 if predicate.value is True else 0.0
    if not isinstance(predicate, Call):
        return 0.5
    shares = [selectivity(a) for a in predicate.arguments] if predicate.function in ("and", "or") else []
    match predicate.function:
        case "and":
            return _product(shares)
        case "or":
            return 1.0 - _product([1.0 - share for share in shares])
        case "not":
            return 1.0 - selectivity(predicate.arguments[0])
        case "in":
            return min(0.5, 0.1 * (len(predicate.arguments) - 1))
        case "is_not_null":
            return 0.95
    return {"=": 0.1, "<>": 0.9, "is_null": 0.05, "like": 0.1}.get(predicate.function, 1 / 3)


def _product(shares: list[float]) -> float:
    result = 1.0
    for share in shares:
        result *= share
    return result
