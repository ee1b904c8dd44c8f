"""How many rows a relation has, and how many changes flow out of it: what an order of joins is chosen by.

The same formulas cost a stage of a finished plan (`cost.py`); here they are asked of relations that are no plan yet.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cvs.model.expressions import Column, Expression
from cvs.model.views import (
    Aggregate,
    BaseTable,
    Distinct,
    Join,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    TopK,
)
from cvs.plan.statistics import Known, Statistics, Weights, selectivity

CHANGES_AN_UPDATE = 2.0
COMPUTED_VALUES = 25.0  # because computed keys are years, codes and the like


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """A join seen as numbers: rows shown, and for a change of each side, rows it meets and rows that follow from it."""

    keys: float
    shown: float
    meets: tuple[float, float]
    follows: tuple[float, float]


def met(kind: str, rows: tuple[float, float], keys: tuple[float, float], keep: float) -> Met:
    """Estimate a join by the rows and different keys of its sides; the smaller set of keys lies in the larger."""
    left, right = rows
    most = max(keys)
    meets = (right / most, left / most)
    shown, follows = left * right / most * keep, meets
    if kind in ("semi", "anti"):
        matching = min(keys) / most
        share = matching if kind == "semi" else 1.0 - matching * 0.9
        shown, follows = left * share, (share, meets[1] * 0.25)
    if kind in ("left", "full"):
        shown, follows = max(shown, left), (max(1.0, meets[0]), meets[1])
    return Met(keys=most, shown=shown, meets=meets, follows=follows)


def touched(balls: float, bins: float) -> float:
    """Return how many of some bins are hit by balls that fall at random."""
    return bins * (1.0 - math.exp(-balls / bins)) if bins > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Rows of a relation, changes an update of the mix sends through it, and where its columns come from."""

    rows: float
    changes: float
    origins: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Estimates relations over known tables."""

    tables: Mapping[str, BaseTable]
    statistics: Statistics
    weights: Weights
    buckets: int

    def of(self, relation: Relation, mix: Mapping[str, float]) -> Size:
        """Estimate a relation; `mix` is each scanned table's share of the updates."""
        match relation:
            case Scan():
                return self._scan(relation, mix)
            case Select():
                return self.selected(self.of(relation.source, mix), [relation.predicate])
            case Project():
                return self._projected(self.of(relation.source, mix), relation)
            case Aggregate():
                inner = self.of(relation.source, mix)
                groups = math.prod(self.values(inner, it.expression) for it in relation.group)
                shown = _projected(inner, {it.name: it.expression for it in relation.group})
                return replace(shown, rows=min(max(1.0, inner.rows), groups))
            case Join():
                left, right = self.of(relation.left, mix), self.of(relation.right, mix)
                keep = selectivity(relation.residual)
                return self.joined(relation.kind, left, right, relation.on, keep)[0]
            case Distinct():
                return self.of(relation.source, mix)
            case SetOperation():
                left, right = self.of(relation.left, mix), self.of(relation.right, mix)
                return replace(left, rows=left.rows + right.rows, changes=left.changes + right.changes)
            case TopK():
                inner = self.of(relation.source, mix)
                shown_rows = min(inner.rows, float(relation.limit))
                return replace(
                    inner, rows=shown_rows, changes=inner.changes * shown_rows / max(1.0, inner.rows)
                )

    def selected(self, size: Size, predicates: Iterable[Expression]) -> Size:
        """Estimate a selection."""
        known = Known(lambda name: self._counted(size, name), lambda name: self._bounds(size, name))
        share = math.prod(selectivity(predicate, known) for predicate in predicates)
        return replace(size, rows=size.rows * share, changes=size.changes * share)

    def joined(
        self, kind: str, left: Size, right: Size, on: Iterable[tuple[Expression, Expression]], keep: float
    ) -> tuple[Size, float]:
        """Estimate a join, and the milliseconds it takes an update."""
        pairs = tuple(on)
        keys = (self._keys(left, [a for a, _ in pairs]), self._keys(right, [b for _, b in pairs]))
        found = met(kind, (left.rows, right.rows), keys, keep)
        arriving = left.changes + right.changes
        output = (left.changes * found.follows[0] + right.changes * found.follows[1]) * keep
        updates = self.statistics.epoch_updates
        once = touched(arriving * updates, found.keys) / (arriving * updates) if arriving else 1.0
        looked = arriving + once * (left.changes * found.meets[0] + right.changes * found.meets[1])
        places = touched(touched(arriving * updates, found.keys), touched(found.keys, self.buckets))
        weights = self.weights
        ms = (
            arriving * 0.9 * weights.state_row
            + looked * weights.read_row
            + (arriving + output) * weights.compute_row
            + arriving * weights.edge_row
            + places / updates * weights.test_and_set
        )
        origins = left.origins if kind in ("semi", "anti") else {**left.origins, **right.origins}
        return Size(rows=max(1.0, found.shown), changes=output, origins=origins), ms

    def values(self, size: Size, expression: Expression) -> float:
        """Return how many different values an expression has."""
        if not isinstance(expression, Column):
            return COMPUTED_VALUES
        known = self._distinct(size, expression.name)
        return known if known is not None else max(1.0, size.rows * 0.1)

    def known(self, size: Size, expressions: Iterable[Expression]) -> bool:
        """Say whether it is known, not guessed, how many different values each expression has."""
        at = [size.origins.get(e.name) if isinstance(e, Column) else None for e in expressions]
        return all(it is not None and f"{it[0]}.{it[1]}" in self.statistics.distinct for it in at)

    def _keys(self, size: Size, expressions: list[Expression]) -> float:
        if not expressions:
            return 1.0
        return max(1.0, min(size.rows, math.prod(self.values(size, e) for e in expressions)))

    def _scan(self, scan: Scan, mix: Mapping[str, float]) -> Size:
        table = self.tables[scan.table]
        return Size(
            rows=self.statistics.rows_of(scan.table),
            changes=CHANGES_AN_UPDATE * mix.get(scan.table, 0.0),
            origins={f"{scan.alias}.{name}": (scan.table, name) for name, _ in table.columns},
        )

    def _projected(self, inner: Size, relation: Project) -> Size:
        return _projected(inner, {it.name: it.expression for it in relation.columns})

    def _distinct(self, size: Size, name: str) -> float | None:
        at = size.origins.get(name)
        return None if at is None else self._counted(size, name) or self.statistics.distinct_of(*at)

    def _counted(self, size: Size, name: str) -> float | None:
        at = size.origins.get(name)
        return None if at is None else self.statistics.counted(self.tables[at[0]], at[1])

    def _bounds(self, size: Size, name: str) -> tuple[object, object] | None:
        at = size.origins.get(name)
        return None if at is None else self.statistics.bounds.get(f"{at[0]}.{at[1]}")


def _projected(inner: Size, columns: Mapping[str, Expression]) -> Size:
    plain = {name: e.name for name, e in columns.items() if isinstance(e, Column)}
    return replace(
        inner, origins={name: inner.origins[below] for name, below in plain.items() if below in inner.origins}
    )
