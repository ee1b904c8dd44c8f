"""What is known of a relation without looking at rows: unique keys, never-null columns, what determines what.

A view's published key must be unique: that is proved here, never assumed. The law for a set of columns K: no
two rows of the bag agree on K (the empty set: at most one row). `keys` are found through functional
dependencies, so that GROUP BY order key, date, priority is keyed by the order alone (TPC-H Q3, Q18).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import (
    Aggregate,
    AggregateFunction,
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
from cvs.plan.scope import columns_of

Columns = frozenset[str]
Dependency = tuple[Columns, Columns]
EMPTY: Columns = frozenset()
KEYS_MAX = 8  # because chains of joins multiply keys and a handful is enough to choose from


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Output columns in order, unique keys, never-null columns, and functional dependencies."""

    columns: tuple[str, ...]
    keys: frozenset[Columns]
    never_null: Columns
    dependencies: tuple[Dependency, ...] = ()
    absent: tuple[
        Dependency, ...
    ] = ()  # where one of the first is null, all of the second are: no row was joined

    def closure(self, start: Columns) -> Columns:
        """Return everything a set of columns determines."""
        known, grown = set(start), True
        while grown:
            grown = False
            for left, right in self.dependencies:
                if left <= known and not right <= known:
                    known |= right
                    grown = True
        return frozenset(known)

    def unique(self, columns: Columns) -> bool:
        """Say whether a set of columns is unique."""
        reach = self.closure(columns)
        return any(key <= reach for key in self.keys)

    def smallest(self, columns: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return a minimal unique part of some columns, dropping from the end, or None."""
        if not self.unique(frozenset(columns)):
            return None
        kept = list(columns)
        for column in reversed(columns):
            without = [c for c in kept if c != column]
            if self.unique(frozenset(without)):
                kept = without
        return tuple(kept)


def facts(relation: Relation, tables: Mapping[str, BaseTable] | None = None) -> Facts:
    """Return what is known of a relation."""
    return _Prover(tables or {}).of(relation)


@dataclass(frozen=True, slots=True)
class _Prover:
    tables: Mapping[str, BaseTable]

    def of(self, relation: Relation) -> Facts:
        match relation:
            case Scan():
                return self.scan(relation)
            case Select():
                return self.select(relation)
            case Project():
                return self.project(relation)
            case Distinct():
                inner = self.of(relation.source)
                return _with_keys(inner, [*inner.keys, frozenset(inner.columns)])
            case Aggregate():
                return self.aggregate(relation)
            case Join():
                return self.join(relation)
            case SetOperation():
                return self.set_operation(relation)
            case TopK():
                inner = self.of(relation.source)
                return _with_keys(inner, [EMPTY]) if relation.limit <= 1 else inner

    def scan(self, relation: Scan) -> Facts:
        table = self.tables.get(relation.table)
        if table is None:
            return Facts(columns=(), keys=frozenset(), never_null=EMPTY)
        names = tuple(f"{relation.alias}.{name}" for name, _ in table.columns)
        key = frozenset(f"{relation.alias}.{name}" for name in table.key)
        return Facts(
            columns=names, keys=frozenset([key]), never_null=key, dependencies=((key, frozenset(names)),)
        )

    def select(self, relation: Select) -> Facts:
        inner = self.of(relation.source)
        equal, solid = _learned(relation.predicate)
        empty = _nulls(relation.predicate)
        equal += [(EMPTY, side) for marks, side in inner.absent if marks & empty]
        found = _with_dependencies(inner, [*inner.dependencies, *equal], inner.never_null | solid)
        return _with_keys(found, [*found.keys, EMPTY]) if found.unique(EMPTY) else found

    def project(self, relation: Project) -> Facts:
        inner = self.of(relation.source)
        names = tuple(column.name for column in relation.columns)
        copies: dict[str, str] = {}
        dependencies: list[Dependency] = []
        for column in relation.columns:
            if isinstance(column.expression, Column):
                first = copies.setdefault(column.expression.name, column.name)
                if first != column.name:
                    dependencies += _both_ways(first, column.name)
            elif (pair := _merged(column.expression)) in inner.never_null:
                copies.setdefault(pair, column.name)
            elif isinstance(column.expression, Literal):
                dependencies.append((EMPTY, frozenset([column.name])))
        solid = frozenset(c.name for c in relation.columns if _never_null(c.expression, inner.never_null))
        usable = tuple(copies)
        for left, _ in (*inner.dependencies, *((key, EMPTY) for key in inner.keys)):
            if left <= copies.keys():
                reach = inner.closure(left) & copies.keys()
                dependencies.append((_renamed(left, copies), _renamed(reach, copies)))
        constants = inner.closure(EMPTY) & copies.keys()
        dependencies.append((EMPTY, _renamed(constants, copies)))
        for column in relation.columns:
            read = frozenset(columns_of(column.expression))
            if read and read <= copies.keys():
                dependencies.append((_renamed(read, copies), frozenset([column.name])))
        keys = [_renamed(key, copies) for key in inner.keys if key <= copies.keys()]
        shorter = inner.smallest(usable) if usable or inner.unique(EMPTY) else None
        if shorter is not None:
            keys.append(_renamed(frozenset(shorter), copies))
        return _bounded(names, keys, solid, dependencies)

    def aggregate(self, relation: Aggregate) -> Facts:
        projected = self.project(Project(source=relation.source, columns=relation.group))
        group = tuple(column.name for column in relation.group)
        names = group + tuple(a.name for a in relation.aggregates)
        counts = frozenset(a.name for a in relation.aggregates if a.function is AggregateFunction.COUNT)
        whole = frozenset(group)
        found = _bounded(
            names,
            [whole],
            projected.never_null | counts,
            [*projected.dependencies, (whole, frozenset(names))],
        )
        shorter = found.smallest(group)
        return found if shorter is None else _with_keys(found, [frozenset(shorter), whole])

    def join(self, relation: Join) -> Facts:
        left, right = self.of(relation.left), self.of(relation.right)
        if relation.kind in ("semi", "anti", "null-aware-anti"):
            return left
        names = left.columns + right.columns
        on = [(a.name, b.name) for a, b in relation.on if isinstance(a, Column) and isinstance(b, Column)]
        inner = relation.kind == "inner"
        solid = (left.never_null if relation.kind in ("inner", "left") else EMPTY) | (
            right.never_null if relation.kind in ("inner", "right") else EMPTY
        )
        dependencies = [*left.dependencies, *right.dependencies]
        if inner:
            dependencies += [d for a, b in on for d in _both_ways(a, b)]
            equal, learned = _learned(relation.residual)
            dependencies += equal
            solid |= learned | frozenset(name for pair in on for name in pair)
        right_one = right.unique(frozenset(b for _, b in on))
        left_one = left.unique(frozenset(a for a, _ in on))
        keys: list[Columns] = []
        if right_one and relation.kind in ("inner", "left"):
            keys += left.keys
            dependencies += [(key, frozenset(names)) for key in left.keys]
        if left_one and relation.kind in ("inner", "right"):
            keys += right.keys
            dependencies += [(key, frozenset(names)) for key in right.keys]
        keys += [a | b for a in left.keys for b in right.keys]
        absent: list[Dependency] = []
        mine, others = (frozenset(pair[side] for pair in on) for side in (0, 1))
        if relation.kind in ("left", "full"):
            dependencies = _surviving(dependencies, right)
            absent.append((others | right.never_null, frozenset(right.columns)))
        if relation.kind in ("right", "full"):
            dependencies = _surviving(dependencies, left)
            absent.append((mine | left.never_null, frozenset(left.columns)))
        alike = len(on) == len(relation.on) and relation.residual is None
        if relation.kind == "full" and alike and left_one and right_one:
            merged = frozenset(_either(a, b) for a, b in on)
            if mine <= left.never_null and others <= right.never_null:
                keys.append(merged)
                dependencies.append((merged, frozenset(names)))
                solid |= merged
        return _bounded(names, keys, solid, dependencies, (*left.absent, *right.absent, *absent))

    def set_operation(self, relation: SetOperation) -> Facts:
        left, right = self.of(relation.left), self.of(relation.right)
        positions = dict(zip(right.columns, left.columns, strict=True))
        keys: list[Columns] = [] if relation.all else [frozenset(left.columns)]
        if relation.kind != "union":
            return _with_keys(left, [*left.keys, *keys])
        solid = left.never_null & _renamed(right.never_null, positions)
        return _bounded(left.columns, keys, solid, [])


def _either(one: str, two: str) -> str:
    """Name what the joined columns of a full join are together; it is no column until it is selected."""
    return f"COALESCE({min(one, two)}, {max(one, two)})"


def _merged(expression: Expression) -> str:
    """Return that name for a COALESCE of two columns, or nothing."""
    if (
        not isinstance(expression, Call)
        or expression.function != "coalesce"
        or len(expression.arguments) != 2
    ):
        return ""
    one, two = expression.arguments
    return _either(one.name, two.name) if isinstance(one, Column) and isinstance(two, Column) else ""


def _surviving(dependencies: list[Dependency], filled: Facts) -> list[Dependency]:
    """Keep what still holds when a side is filled with nulls: a null row must not look like a real one."""
    own = frozenset(filled.columns)
    return [d for d in dependencies if not d[1] & own or not d[0] <= own or d[0] & filled.never_null]


def _both_ways(one: str, two: str) -> list[Dependency]:
    return [(frozenset([one]), frozenset([two])), (frozenset([two]), frozenset([one]))]


def _renamed(columns: Columns, names: Mapping[str, str]) -> Columns:
    return frozenset(names[c] for c in columns)


def _bounded(
    names: tuple[str, ...],
    keys: list[Columns],
    solid: Columns,
    dependencies: list[Dependency],
    absent: tuple[Dependency, ...] = (),
) -> Facts:
    minimal = [k for k in dict.fromkeys(keys) if not any(other < k for other in keys)]
    chosen = sorted(minimal, key=lambda k: (len(k), sorted(k)))[:KEYS_MAX]
    useful = tuple(dict.fromkeys(d for d in dependencies if not d[1] <= d[0]))
    return Facts(columns=names, keys=frozenset(chosen), never_null=solid, dependencies=useful, absent=absent)


def _with_keys(known: Facts, keys: list[Columns]) -> Facts:
    return _bounded(known.columns, keys, known.never_null, list(known.dependencies), known.absent)


def _with_dependencies(known: Facts, dependencies: list[Dependency], solid: Columns) -> Facts:
    return _bounded(known.columns, list(known.keys), solid, dependencies, known.absent)


def _learned(predicate: Expression | None) -> tuple[list[Dependency], Columns]:
    """Return the equalities of a true predicate, and the columns that cannot be null where it is true."""
    if not isinstance(predicate, Call):
        return [], EMPTY
    if predicate.function == "and":
        parts = [_learned(argument) for argument in predicate.arguments]
        return [d for equal, _ in parts for d in equal], EMPTY.union(*(solid for _, solid in parts))
    if predicate.function == "not" and isinstance(inner := predicate.arguments[0], Call):
        return _learned(Call("is_not_null", inner.arguments)) if inner.function == "is_null" else ([], EMPTY)
    if predicate.function == "or":
        sides = [_learned(argument)[1] for argument in predicate.arguments]
        return [], sides[0].intersection(*sides[1:])
    if predicate.function not in ("=", "<>", "<", "<=", ">", ">=", "like", "in", "is_not_null"):
        return [], EMPTY
    read = predicate.arguments[:1] if predicate.function == "in" else predicate.arguments
    solid = frozenset(a.name for a in read if isinstance(a, Column))
    if predicate.function != "=":
        return [], solid
    one, two = predicate.arguments
    if isinstance(one, Column) and isinstance(two, Column):
        return _both_ways(one.name, two.name), solid
    fixed = [
        (EMPTY, frozenset([a.name]))
        for a, b in ((one, two), (two, one))
        if isinstance(a, Column) and isinstance(b, Literal)
    ]
    return fixed, solid


def _nulls(predicate: Expression | None) -> Columns:
    """Return the columns that are null where a predicate is true."""
    if not isinstance(predicate, Call):
        return EMPTY
    if predicate.function == "and":
        return EMPTY.union(*(_nulls(argument) for argument in predicate.arguments))
    return frozenset(
        a.name for a in predicate.arguments if isinstance(a, Column) and predicate.function == "is_null"
    )


def _never_null(expression: Expression, solid: Columns) -> bool:
    if isinstance(expression, Column):
        return expression.name in solid
    if isinstance(expression, Literal):
        return expression.value is not None
    if expression.function == "coalesce":
        return _merged(expression) in solid or any(_never_null(a, solid) for a in expression.arguments)
    if expression.function == "case":
        values = [*expression.arguments[1:-1:2], expression.arguments[-1]]
        return all(_never_null(v, solid) for v in values)
    if expression.function in (
        "is_null",
        "year",
        "month",
        "day",
        "+",
        "-",
        "*",
        "upper",
        "lower",
        "concat",
        "substring",
    ):
        return expression.function == "is_null" or all(_never_null(a, solid) for a in expression.arguments)
    return False
