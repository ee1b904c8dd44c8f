"""Which view records base rows have a part in, found from what moves: an epoch costs what moved, not what is there.

A view's relation is turned into one whose rows say on what they hang: every scanned row brings its base record along,
a group is the rows it is made of, conditions on groups are left out, and a row that a join keeps or drops for want of a
partner comes with the partners it has. Evaluated over moved rows, and of the other tables those rows that their
joins can meet, it names the view records that the rows touch, and the base records they then hang on.

What every row of a view is compared with (a subquery of one row, as an average) hangs on whole tables: base records
move there without touching anything, and whoever writes a view record takes in what moved there until then.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cvs.model.expressions import Column, Expression, Literal
from cvs.model.identity import identity
from cvs.model.recompute import bag
from cvs.model.views import (
    Aggregate,
    BaseTable,
    Distinct,
    Join,
    JoinKind,
    Named,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    TopK,
    ViewDefinition,
    output_columns,
)
from cvs.programs.stage_codec import Value, Values

Row = dict[str, Value]
BaseRecord = tuple[str, Values]
MARK = "\0"  # begins the names that no user's column can have
JOINED: dict[str, JoinKind] = {"semi": "inner", "anti": "left", "null-aware-anti": "left"}
"""Joins that show no partner, as joins that do."""


class BaseRows:
    """The base rows there are, with an index for each column by which a join looks."""

    def __init__(self, tables: Iterable[str]) -> None:
        self.tables: dict[str, dict[Values, Row]] = {name: {} for name in tables}
        self._indexes: dict[str, dict[str, dict[Value, dict[Values, Row]]]] = {
            name: {} for name in self.tables
        }

    def put(self, record: BaseRecord, row: Row | None) -> None:
        """Let a record have another row, or none."""
        table, key = record
        before = self.tables[table].pop(key, None)
        if row is not None:
            self.tables[table][key] = row
        for column, index in self._indexes[table].items():
            if before is not None:
                index[identity(before.get(column))].pop(key, None)
            if row is not None:
                index.setdefault(identity(row.get(column)), {})[key] = row

    def where(self, table: str, column: str, values: Iterable[Value]) -> dict[Values, Row]:
        """Return the rows whose column has one of some values."""
        index = self._indexes[table].get(column)
        if index is None:
            index = self._indexes[table][column] = {}
            for key, row in self.tables[table].items():
                index.setdefault(identity(row.get(column)), {})[key] = row
        return {key: row for value in values for key, row in index.get(value, {}).items()}


@dataclass(frozen=True, slots=True)
class _Scanned:
    """One place where a view scans a table: under a name of its own, with a column for the record."""

    name: str
    table: str
    mark: str


class Reach:
    """What the rows of one view hang on."""

    def __init__(self, view: ViewDefinition, tables: Mapping[str, BaseTable], base: BaseRows) -> None:
        self._key, self._base, self._given = view.key, base, tables
        self._scanned: dict[str, _Scanned] = {}
        self._tables: dict[str, BaseTable] = {}
        self._apart: set[tuple[str, str]] = set()
        self._equal: dict[str, list[tuple[str, str, str]]] = {}
        self._beside: set[str] = set()  # places that only what all rows are compared with scans
        self._relation, _ = self._marked(view.relation)
        self.tables = tuple(sorted({it.table for it in self._scanned.values()}))
        self.beside = frozenset(self._scanned[name].table for name in self._beside)

    def touched(self, moved: Mapping[BaseRecord, Row | None]) -> dict[Values, set[BaseRecord]]:
        """Return the view records that some base rows are part of, and what each hangs on beside them."""
        found: dict[Values, set[BaseRecord]] = {}
        for scanned in self._scanned.values():
            if scanned.name in self._beside:
                continue
            own = {
                key: row for (table, key), row in moved.items() if row is not None and table == scanned.table
            }
            if own:
                for key, records in self._hanging(self._met(scanned, own), scanned.mark).items():
                    found.setdefault(key, set()).update(records)
        return found

    def _hanging(self, rows: Mapping[str, Mapping[Values, Row]], by: str) -> dict[Values, set[BaseRecord]]:
        base = {name: self._with_records(name, some) for name, some in rows.items()}
        found: dict[Values, set[BaseRecord]] = {}
        for each in bag(self._relation, base, self._tables):
            if each[by] is not None:
                key = tuple(each[column] for column in self._key)
                records = (each[it.mark] for it in self._scanned.values())
                found.setdefault(key, set()).update(it for it in records if it is not None)
        return found

    def _with_records(self, name: str, rows: Mapping[Values, Row]) -> list[Row]:
        table = self._scanned[name].table
        return [{**row, MARK: (table, key) if key else None} for key, row in rows.items()]

    def _one_row_beside(self) -> dict[str, Mapping[Values, Row]]:
        """Return one row without a record for each such place: whatever there is, rows are compared with one."""
        return {name: {(): {}} for name in self._beside}

    def _met(self, scanned: _Scanned, rows: Mapping[Values, Row]) -> dict[str, Mapping[Values, Row]]:
        """Return the rows that can stand in one row of the view with some of one place: by the joins' equalities."""
        found: dict[str, Mapping[Values, Row]] = {scanned.name: rows, **self._one_row_beside()}
        waiting = [scanned.name]
        while waiting:
            here = waiting.pop(0)
            for mine, other, theirs in self._equal.get(here, ()):
                if other not in found and (scanned.name, other) not in self._apart:
                    values = {identity(row.get(mine)) for row in found[here].values()} - {None}
                    found[other] = self._base.where(self._scanned[other].table, theirs, values)
                    waiting.append(other)
        for other, it in self._scanned.items():
            if other not in found and (scanned.name, other) not in self._apart:
                found[other] = self._base.tables[it.table]
        return found

    def _marked(self, relation: Relation) -> tuple[Relation, tuple[str, ...]]:
        """Return a relation with the records its rows hang on, and the names of the columns that hold them."""
        match relation:
            case Scan():
                return self._marked_scan(relation)
            case Join():
                return self._marked_join(relation)
            case SetOperation():
                return self._marked_union(relation)
        source, marks = self._marked(relation.source)
        match relation:
            case Distinct() | TopK():
                return source, marks
            case Select():
                return source if aggregates(relation.source) else replace(relation, source=source), marks
            case Project():
                columns = relation.columns
            case Aggregate():
                unknown = (Named(name=it.name, expression=Literal(None)) for it in relation.aggregates)
                columns = (*relation.group, *unknown)
        return Project(source=source, columns=(*columns, *_same(marks))), marks

    def _marked_scan(self, scan: Scan) -> tuple[Relation, tuple[str, ...]]:
        number, table = len(self._scanned), self._given[scan.table]
        it = _Scanned(f"{scan.table}{MARK}{number}", scan.table, f"{MARK}{number}")
        self._scanned[it.name] = it
        self._tables[it.name] = replace(table, name=it.name, columns=(*table.columns, (MARK, "blob")))
        columns = [Named(name=it.mark, expression=Column(f"{scan.alias}.{MARK}"))]
        columns += _same(f"{scan.alias}.{name}" for name, _ in table.columns)
        return Project(source=Scan(table=it.name, alias=scan.alias), columns=tuple(columns)), (it.mark,)

    def _marked_join(self, join: Join) -> tuple[Relation, tuple[str, ...]]:
        left, left_marks = self._marked(join.left)
        known = set(self._scanned)
        right, right_marks = self._marked(join.right)
        if not join.on and _one_row(join.right):
            self._beside |= self._scanned.keys() - known
        unknown = _unknown(join.left) | _unknown(join.right)
        on = tuple(pair for pair in join.on if not any(_names(side) & unknown for side in pair))
        for mine, theirs in on:
            for one, column in _origins(left, mine):
                for other, its in _origins(right, theirs):
                    self._equal.setdefault(one, []).append((column, other, its))
                    self._equal.setdefault(other, []).append((its, one, column))
        residual = None if join.residual is None or _names(join.residual) & unknown else join.residual
        kind = JOINED.get(join.kind, join.kind)
        marked = replace(join, kind=kind, left=left, right=right, on=on, residual=residual)
        return marked, (*left_marks, *right_marks)

    def _marked_union(self, operation: SetOperation) -> tuple[Relation, tuple[str, ...]]:
        """Rows of INTERSECT and EXCEPT hang on both sides: any row of either may decide."""
        known = set(self._scanned)
        left, left_marks = self._marked(operation.left)
        on_left = set(self._scanned) - known
        right, right_marks = self._marked(operation.right)
        on_right = set(self._scanned) - known - on_left
        self._apart |= {pair for a in on_left for b in on_right for pair in ((a, b), (b, a))}
        names, theirs = (output_columns(it, self._given) or () for it in (operation.left, operation.right))
        renamed = [Named(name=n, expression=Column(m)) for n, m in zip(names, theirs, strict=True)]
        sides = (
            Project(source=left, columns=(*_same(names), *_same(left_marks), *_nothing(right_marks))),
            Project(source=right, columns=(*renamed, *_nothing(left_marks), *_same(right_marks))),
        )
        both = SetOperation(kind="union", all=True, left=sides[0], right=sides[1])
        return both, (*left_marks, *right_marks)


def _one_row(relation: Relation) -> bool:
    """Say whether a relation is one row that all its tables make together."""
    if isinstance(relation, Aggregate):
        return not relation.group
    return isinstance(relation, Project | Select) and _one_row(relation.source)


def _same(names: Iterable[str]) -> list[Named]:
    return [Named(name=name, expression=Column(name)) for name in names]


def _nothing(names: Iterable[str]) -> list[Named]:
    return [Named(name=name, expression=Literal(None)) for name in names]


def _names(expression: Expression) -> set[str]:
    """Name the columns of an expression."""
    if isinstance(expression, Column):
        return {expression.name}
    return set() if isinstance(expression, Literal) else set().union(*map(_names, expression.arguments))


def _unknown(relation: Relation) -> set[str]:
    """Name the columns that only a whole group knows."""
    match relation:
        case Scan():
            return set()
        case Aggregate():
            return {it.name for it in relation.aggregates}
        case Project():
            below = _unknown(relation.source)
            return {it.name for it in relation.columns if _names(it.expression) & below}
        case Join() | SetOperation():
            return _unknown(relation.left) | _unknown(relation.right)
        case _:
            return _unknown(relation.source)


def _origins(relation: Relation, expression: Expression) -> Iterator[tuple[str, str]]:
    """Yield the places, and columns there, whose values an expression just repeats."""
    if not isinstance(expression, Column):
        return
    match relation:
        case Scan():
            alias, _, column = expression.name.partition(".")
            if alias == relation.alias:
                yield relation.table, column
        case Project():
            for it in relation.columns:
                if it.name == expression.name:
                    yield from _origins(relation.source, it.expression)
        case Join() | SetOperation():
            yield from _origins(relation.left, expression)
            yield from _origins(relation.right, expression)
        case _:
            yield from _origins(relation.source, expression)


def aggregates(relation: Relation) -> bool:
    """Say whether a relation's rows are made of groups of rows."""
    if isinstance(relation, Scan):
        return False
    if isinstance(relation, Join | SetOperation):
        return aggregates(relation.left) or aggregates(relation.right)
    return isinstance(relation, Aggregate) or aggregates(relation.source)
