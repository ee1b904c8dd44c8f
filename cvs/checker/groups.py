"""What a fold shows of one group, kept step by step: recomputing it at every write would cost the size of the group.

The rows below a fold are linear in the rows of each table where every table is scanned once, by selections, projections
and inner joins alone. So what a changed base row brings are the rows that it makes with those of the other tables:
computed by the plain `bag` over its partners, they go into the group, and those of its former version out of it. Views
of other kinds are recomputed.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any

from cvs.checker.provenance import before_grouping
from cvs.checker.replay import BaseRecord, Key, Row
from cvs.model.aggregates import Moments, aggregate, exact
from cvs.model.expressions import compile_expression, compile_predicate
from cvs.model.functions import greatest, least
from cvs.model.identity import canonical, identity, key_identity, row_identity
from cvs.model.recompute import bag
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Select,
    ViewDefinition,
)

Change = tuple[BaseRecord, Row | None, Row | None]
"""Of a base record: its row before and now."""

Partners = Callable[[Key, BaseRecord], Iterable[BaseRecord]]
"""The base records with which one can make a row of a view record, at any time."""

SUMMED = (AggregateFunction.SUM, AggregateFunction.AVG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """How a view folds."""

    relation: Relation  # what goes in: group columns, then an argument for each aggregate
    groups: tuple[str, ...]
    key: tuple[str, ...]  # the group columns that make the view key, in its order
    aggregates: tuple[AggregateColumn, ...]
    scanned: frozenset[str]
    above: tuple[Callable[[Row], Row | None], ...]  # from the group up to the view; None: it is left out
    tables: Mapping[str, BaseTable]


def folding_of(view: ViewDefinition, tables: Mapping[str, BaseTable]) -> Folding | None:
    """Recognize a fold whose rows are linear in each of its tables."""
    found, relation = before_grouping(view.relation, view.key), view.relation
    above: list[Select | Project] = []
    while isinstance(relation, Select | Project):
        above.insert(0, relation)
        relation = relation.source
    scanned = _scanned(relation.source) if isinstance(relation, Aggregate) else None
    if found is None or not isinstance(relation, Aggregate) or scanned is None:
        return None
    if len(set(scanned)) < len(scanned):
        return None
    arguments = (
        Named(name=_argument(place), expression=column.argument)
        for place, column in enumerate(relation.aggregates)
        if column.argument is not None
    )
    return Folding(
        relation=Project(source=relation.source, columns=(*relation.group, *arguments)),
        groups=tuple(named.name for named in relation.group),
        key=found[1],
        aggregates=relation.aggregates,
        scanned=frozenset(scanned),
        above=tuple(map(_step, above)),
        tables=tables,
    )


def _step(relation: Select | Project) -> Callable[[Row], Row | None]:
    """Return what a selection or projection makes of a row."""
    if isinstance(relation, Select):
        keeps = compile_predicate(relation.predicate)
        return lambda row: row if keeps(row) else None
    computed = [(column.name, compile_expression(column.expression)) for column in relation.columns]
    return lambda row: {name: compute(row) for name, compute in computed}


def _argument(place: int) -> str:
    return f"argument {place}"


def _scanned(relation: Relation) -> list[str] | None:
    """Return the tables below, None where their rows go through anything but selections, projections, inner joins."""
    match relation:
        case Scan():
            return [relation.table]
        case Select() | Project():
            return _scanned(relation.source)
        case Join(kind="inner"):
            left, right = _scanned(relation.left), _scanned(relation.right)
            return None if left is None or right is None else left + right
        case _:
            return None


@dataclass(slots=True)
class Group:
    """The group of one view record."""

    folding: Folding
    key: Key
    partners: Partners
    rows: dict[BaseRecord, Row] = field(default_factory=dict)
    many: int = 0
    values: tuple[Any, ...] = ()  # of its columns
    folded: list["_Folded"] = field(init=False)

    def __post_init__(self) -> None:
        """Begin empty."""
        self.folded = [_Folded(column) for column in self.folding.aggregates]

    def move(self, changes: Sequence[Change]) -> None:
        """Let base rows change, table by table."""
        for table in self.folding.scanned:
            mine = [change for change in changes if change[0][0] == table]
            self._put(table, {record: before for record, before, _ in mine if before is not None}, -1)
            for record, _, now in mine:
                self.rows.pop(record, None)
                if now is not None:
                    self.rows[record] = now
            self._put(table, {record: now for record, _, now in mine if now is not None}, 1)

    def _put(self, table: str, changed: Mapping[BaseRecord, Row], sign: int) -> None:
        """Put the rows that these make with those of the other tables into the group, or take them out of it."""
        base: dict[str, list[Row]] = {name: [] for name in self.folding.scanned}
        base[table] += changed.values()
        for other in dict.fromkeys(
            chain.from_iterable(self.partners(self.key, record) for record in changed)
        ):
            if other[0] != table and other in self.rows:
                base[other[0]].append(self.rows[other])
        for row in bag(self.folding.relation, base, self.folding.tables) if changed else ():
            if key_identity(row[name] for name in self.folding.key) == self.key:
                self.many += sign
                self.values = tuple(canonical(row[name]) for name in self.folding.groups)
                for place, folded in enumerate(self.folded):
                    folded.put(row.get(_argument(place), True), sign)

    def shown(self) -> Hashable:
        """Return what the view shows of the group, frozen; None: nothing."""
        if not self.many and self.folding.groups:
            return None
        groups = zip(self.folding.groups, self.values, strict=True)
        row: Row = {**dict(groups), **{it.column.name: it.shown() for it in self.folded}}
        for step in self.folding.above:
            made = step(row)
            if made is None:
                return None
            row = made
        return row_identity(row)


@dataclass(slots=True)
class _Folded:
    """What one aggregate takes: each value and how often, and their exact sum as long as none is a float."""

    column: AggregateColumn
    known: dict[Hashable, tuple[Any, int]] = field(default_factory=dict)
    many: int = 0
    total: Any = 0
    decimals: int = 0
    floats: int = 0
    best: Any = None  # of MIN and MAX, if it is known

    def put(self, value: Any, sign: int) -> None:
        """Add a value, or take it away; a null is none."""
        if value is None:
            return
        name = identity(value)
        many = self.known.get(name, (value, 0))[1] + sign
        if many:
            self.known[name] = (value, many)
        else:
            del self.known[name]
        self.many += sign
        if isinstance(value, float):
            self.floats += sign
        elif self.column.function in SUMMED:
            self.decimals += sign * isinstance(value, Decimal)
            self.total += sign * (value if isinstance(value, int) else exact(value))
        if self.best is not None:
            self.best = self._better([self.best, value]) if sign > 0 else self._unless(value)

    def shown(self) -> Any:
        """Return the aggregate."""
        function, distinct = self.column.function, self.column.distinct
        if function in (AggregateFunction.MIN, AggregateFunction.MAX) and self.known:
            if self.best is None:
                self.best = self._better([value for value, _ in self.known.values()])
            return self.best
        if function is AggregateFunction.COUNT:
            return len(self.known) if distinct else self.many
        if function in SUMMED and self.many and not self.floats and not distinct:
            kind = Decimal if self.decimals else int
            moments = Moments(
                kind=kind, count=self.many, total=Fraction(self.total), squares=Fraction(0), special=0.0
            )
            return moments.sum() if function is AggregateFunction.SUM else moments.average()
        every = (value for value, many in self.known.values() for _ in range(many))
        return aggregate(function, every, distinct=distinct)

    def _better(self, values: list[Any]) -> Any:
        return least(values) if self.column.function is AggregateFunction.MIN else greatest(values)

    def _unless(self, value: Any) -> Any:
        return None if identity(value) == identity(self.best) else self.best
