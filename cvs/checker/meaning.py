"""What the checker needs to know of a view: its meaning on any base state, and what of an image matters to
it.

A meaning is *linear* when the view is a fold, group by group, over what each base record contributes alone:
selections, projections and aggregates over one table. Then a record matters only to the view records it can
touch, and two versions with the same contribution cannot be told apart. Of most other views it can be said too
which base records can matter to a view record (`provenance.py`).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cvs.checker.forms import Fold, Folded
from cvs.checker.groups import Folding, folding_of
from cvs.checker.provenance import Near, Versioned, near_of
from cvs.checker.reach import Reach, reach_of
from cvs.checker.replay import BaseRecord, Key, Row
from cvs.errors import AssumptionError
from cvs.model.expressions import Column, columns_of
from cvs.model.identity import key_identity, row_identity
from cvs.model.recompute import bag, recompute
from cvs.model.scope import tables_read
from cvs.model.views import (
    Aggregate,
    BaseTable,
    Distinct,
    Named,
    Project,
    Relation,
    Scan,
    Select,
    ViewDefinition,
)

Base = Mapping[BaseRecord, Row | None]


def frozen_row(row: Row | None) -> Hashable:
    """Freeze a row by the one equality of the house; no row stays None."""
    return None if row is None else row_identity(row)


class Meaning(Protocol):
    """What a view means."""

    linear: bool

    def reads(self, table: str) -> bool:
        """Say whether rows of a table can matter at all."""

    def view(self, base: Base) -> Mapping[Key, Hashable]:
        """Return the frozen rows of the view of a base state, by view key."""

    def contribution(self, record: BaseRecord, row: Row | None) -> Mapping[Key, Hashable]:
        """Return, for a linear view, what an image contributes to each view record."""

    def image(self, record: BaseRecord, row: Row | None) -> Hashable:
        """Return what of an image can matter to the view at all."""

    def near(self, versions: Iterable[tuple[Versioned, Row]]) -> dict[Key, Near] | None:
        """Return, for a view that is not linear, what can matter to a view record; None: not known."""

    def reach(self, timelines: Mapping[BaseRecord, Sequence[Row | None]]) -> Reach | None:
        """Return which versions can matter to each view record, whatever the view's kind; None: not known."""

    @property
    def folding(self) -> Folding | None:
        """Return how a group is kept step by step, if the view's kind allows it."""

    @property
    def fold(self) -> Fold | None:
        """Return, for a linear view, how its groups show what is in them, if it has groups."""


@dataclass(slots=True)
class TableMeaning:
    """A meaning from two plain functions: for stories, ladders and views written in Python."""

    rows: Callable[[Iterable[tuple[BaseRecord, Row]]], Mapping[Key, Row]]
    keys: Callable[[BaseRecord, Row], Iterable[Key]] | None = None
    linear: bool = field(init=False)

    def __post_init__(self) -> None:
        self.linear = self.keys is not None

    def reads(self, table: str) -> bool:
        """Know nothing of a plain function."""
        return True

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

    def near(self, versions: Iterable[tuple[Versioned, Row]]) -> dict[Key, Near] | None:
        """Know nothing of a plain function."""
        return None

    def reach(self, timelines: Mapping[BaseRecord, Sequence[Row | None]]) -> Reach | None:
        """Know nothing of a plain function."""
        return None

    @property
    def folding(self) -> Folding | None:
        """Know nothing of a plain function."""
        return None

    @property
    def fold(self) -> Fold | None:
        """Know nothing of a plain function."""
        return None


IMPOSSIBLE: Hashable = ("no view of this base state",)
"""Shown by a base state over which the view has no meaning: two rows with one key, a division by zero."""


@dataclass(slots=True)
class DefinitionMeaning:
    """The meaning of a view definition: `recompute`, and what follows from the definition's shape."""

    definition: ViewDefinition
    tables: Mapping[str, BaseTable] = field(default_factory=dict)
    linear: bool = field(init=False)
    _read: frozenset[str] = field(init=False)
    _solo: Relation | None = field(init=False)
    _groups: tuple[str, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        relation = self.definition.relation
        self._read = tables_read(relation)
        if _row_wise(relation):
            self._solo = relation
        else:
            self._solo, self._groups = _before_grouping(relation, self.definition.key)
        self.linear = self._solo is not None

    def reads(self, table: str) -> bool:
        """Say whether it is scanned."""
        return table in self._read

    def view(self, base: Base) -> Mapping[Key, Hashable]:
        """Recompute the view; a base state that has none shows what no run can."""
        rows: dict[str, list[Row]] = {}
        for (table, _), row in base.items():
            if row is not None:
                rows.setdefault(table, []).append(row)
        try:
            found = recompute(self.definition, rows, self.tables)
        except (AssumptionError, ArithmeticError):
            return {("impossible",): IMPOSSIBLE}
        return {key: row_identity(row) for key, row in found.items()}

    def contribution(self, record: BaseRecord, row: Row | None) -> Mapping[Key, Hashable]:
        """Return the rows an image gives to each view record, before they are folded."""
        if row is None or self._solo is None:
            return {}
        told: dict[Key, list[Hashable]] = {}
        columns = self._groups if self._groups is not None else self.definition.key
        for solo in bag(self._solo, {record[0]: [row]}, self.tables):
            key = key_identity(solo.get(column) for column in columns)
            told.setdefault(key, []).append(row_identity(solo))
        return {key: tuple(sorted(rows, key=repr)) for key, rows in told.items()}

    def image(self, record: BaseRecord, row: Row | None) -> Hashable:
        """Let the whole image matter."""
        return frozen_row(row)

    def near(self, versions: Iterable[tuple[Versioned, Row]]) -> dict[Key, Near] | None:
        """Follow every row that some base state could give to where it came from."""
        return near_of(self.definition.relation, self.definition.key, versions, self.tables)

    def reach(self, timelines: Mapping[BaseRecord, Sequence[Row | None]]) -> Reach | None:
        """Follow the rows, cut down to what joins and keys read."""
        return reach_of(self.definition.relation, self.definition.key, timelines, self.tables)

    @property
    def folding(self) -> Folding | None:
        """Look at what is below the fold."""
        return folding_of(self.definition, self.tables)

    @property
    def fold(self) -> Fold | None:
        """Return the folds that stand in a row under a name of their own."""
        relation, outer, kept = self.definition.relation, None, bool(self.definition.key)
        asked: set[str | None] = set()  # columns that selections read; None: computed ones
        while isinstance(relation, Select | Project):
            if isinstance(relation, Select):
                kept = False  # a group that is not shown may have rows
                asked.update(columns_of(relation.predicate))
            else:
                plain = {
                    c.name: c.expression.name for c in relation.columns if isinstance(c.expression, Column)
                }
                asked = {plain.get(name) if name is not None else None for name in asked}
                outer = plain if outer is None else {n: plain[c] for n, c in outer.items() if c in plain}
            relation = relation.source
        if not self.linear or not isinstance(relation, Aggregate):
            return None
        names = {a.name: a.name for a in relation.aggregates} if outer is None else outer
        by_name = {a.name: a for a in relation.aggregates if not a.distinct}
        columns = ((name, by_name[inner]) for name, inner in names.items() if inner in by_name)
        folded = (
            Folded(name=name, function=a.function, argument=None if a.argument is None else _argument(a.name))
            for name, a in columns
        )
        groups = {column.name for column in relation.group}
        return Fold(columns=tuple(folded), kept=kept, filtered=not asked <= groups)


def _argument(aggregate: str) -> str:
    return f"argument of {aggregate}"


def _row_wise(relation: Relation) -> bool:
    """Say whether each base row passes through on its own."""
    if isinstance(relation, Select | Project):
        return _row_wise(relation.source)
    return isinstance(relation, Scan)


def _before_grouping(relation: Relation, key: tuple[str, ...]) -> tuple[Relation | None, tuple[str, ...]]:
    """Return the rows that go into the groups, and which of their columns make the view key, in its order."""
    names = list(key)
    while isinstance(relation, Select | Project):
        if isinstance(relation, Project):
            by_name = {column.name: column.expression for column in relation.columns}
            plain = [by_name.get(name) for name in names]
            if not all(isinstance(expression, Column) for expression in plain):
                return None, ()
            names = [expression.name for expression in plain if isinstance(expression, Column)]
        relation = relation.source
    if isinstance(relation, Distinct) and _row_wise(relation.source):
        return relation.source, tuple(names)  # a group for each row, of which nothing is counted
    if not isinstance(relation, Aggregate) or not _row_wise(relation.source):
        return None, ()
    groups = {column.name for column in relation.group}
    if not set(names) <= groups or len(names) != len(groups):
        return None, ()
    arguments = tuple(
        Named(name=_argument(a.name), expression=a.argument)
        for a in relation.aggregates
        if a.argument is not None
    )
    return Project(source=relation.source, columns=relation.group + arguments), tuple(names)
