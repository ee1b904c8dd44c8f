"""Shared strategies: values of every CQL type, base tables and rows, relations, keyed views, update streams.

Domains are small on purpose: keys must collide, groups must empty, joins must meet.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from cvs.model.cql_type import CqlType, parse_type
from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.types import normal
from cvs.model.values import Duration
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Distinct,
    Join,
    Named,
    OrderBy,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    TopK,
    ViewDefinition,
)

Columns = tuple[tuple[str, str], ...]

# ---- values -----------------------------------------------------------------------------------------

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "counter": 64, "varint": 200}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMPS = st.integers(-62_135_596_800_000, 253_402_300_799_999).map(
    lambda ms: _EPOCH + timedelta(milliseconds=ms)
)
_DECIMALS = st.builds(
    lambda digits, scale: Decimal(digits).scaleb(-scale, None),
    st.integers(-(10**20), 10**20),
    st.integers(-6, 20),
)
_DURATIONS = st.builds(
    lambda sign, parts: Duration(*(sign * part for part in parts)),
    st.sampled_from([1, -1]),
    st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
)

_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for name, bits in INTEGER_BITS.items()},
    **dict.fromkeys(("text", "varchar"), st.text(st.characters(codec="utf-8"), max_size=8)),
    "ascii": st.text(st.characters(max_codepoint=127), max_size=8),
    "boolean": st.booleans(),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal": _DECIMALS,
    "date": st.dates(),
    "time": st.integers(0, 86_399_999_999_999),
    "timestamp": _TIMESTAMPS,
    "uuid": st.uuids(),
    "timeuuid": st.integers(0, 2**128 - 1).map(lambda n: UUID(int=n, version=1)),
    "blob": st.binary(max_size=12),
    "inet": st.one_of(
        st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(0, 2**128 - 1).map(IPv6Address)
    ),
    "duration": _DURATIONS,
}
SCALAR_TYPES = tuple(sorted(_SCALARS))


def values_of(kind: CqlType | str) -> st.SearchStrategy[Any]:
    """Canonical values of a type, never null at the top."""
    cql = parse_type(kind) if isinstance(kind, str) else kind
    if cql.name in _SCALARS:
        return _SCALARS[cql.name]
    if cql.name in ("list", "set"):
        raw: st.SearchStrategy[Any] = st.lists(values_of(cql.parts[0]), min_size=1, max_size=3)
    elif cql.name == "map":
        pairs = st.tuples(values_of(cql.parts[0]), values_of(cql.parts[1]))
        raw = st.lists(pairs, min_size=1, max_size=3, unique_by=lambda pair: repr(pair[0]))
    elif cql.name == "vector":
        raw = st.lists(values_of(cql.parts[0]), min_size=cql.size, max_size=cql.size)
    else:
        raw = st.tuples(*(st.none() | values_of(part) for part in cql.parts))
    return raw.map(lambda value: normal(cql, value))


@st.composite
def cql_types(draw: st.DrawFn, depth: int = 2) -> CqlType:
    """Any type but counters, nested up to a depth."""
    scalar = st.sampled_from([t for t in SCALAR_TYPES if t != "counter"]).map(lambda n: CqlType(name=n))
    if depth == 0:
        return draw(scalar)
    inner = cql_types(depth - 1)
    element = scalar.filter(lambda t: t.name not in ("duration", "float", "double", "decimal"))
    return draw(
        st.one_of(
            scalar,
            st.builds(lambda t: CqlType(name="list", parts=(t,), frozen=True), inner),
            st.builds(lambda t: CqlType(name="set", parts=(t,), frozen=True), element),
            st.builds(lambda k, v: CqlType(name="map", parts=(k, v), frozen=True), element, inner),
            st.builds(
                lambda ts: CqlType(name="tuple", parts=tuple(ts)), st.lists(inner, min_size=1, max_size=3)
            ),
            st.builds(
                lambda ts: CqlType(
                    name="udt", parts=tuple(ts), fields=tuple(f"f{i}" for i in range(len(ts))), frozen=True
                ),
                st.lists(inner, min_size=1, max_size=3),
            ),
            st.builds(
                lambda n: CqlType(name="vector", parts=(CqlType(name="float"),), size=n), st.integers(1, 3)
            ),
        )
    )


# ---- small worlds: two tables whose rows meet ---------------------------------------------------------

SMALL: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-2, 3),
    "text": st.sampled_from(["", "a", "b", "ab", "a%b", "ä", "B"]),
    "double": st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1.0, 2.0, 3.5, math.nan]),
    "decimal": st.sampled_from([Decimal(n) / 4 for n in range(-3, 5)]),
    "boolean": st.booleans(),
    "date": st.sampled_from([date(2024, 1, 31), date(2024, 2, 29), date(2025, 12, 1)]),
    "timestamp": st.sampled_from(
        [datetime(2024, 1, 31, 23, 59, 59, 500_000, tzinfo=UTC), datetime(2025, 6, 1, tzinfo=UTC)]
    ),
}

R = BaseTable(
    name="r",
    columns=(("k", "int"), ("x", "text"), ("y", "int"), ("d", "double"), ("m", "decimal"), ("t", "date")),
    partition_key=("k",),
)
S = BaseTable(
    name="s",
    columns=(("k", "int"), ("y", "int"), ("z", "text"), ("b", "boolean"), ("w", "timestamp")),
    partition_key=("k",),
)
TABLES = {R.name: R, S.name: S}


@st.composite
def rows_of(draw: st.DrawFn, table: BaseTable, *, size: int = 6) -> list[dict[str, Any]]:
    """Rows of a table, one a key; columns outside the key are often null."""
    key = st.tuples(*(SMALL[dict(table.columns)[name]] for name in table.key))
    keys = draw(st.lists(key, max_size=size, unique=True))
    rest = {n: st.none() | SMALL[t] for n, t in table.columns if n not in table.key}
    return [dict(zip(table.key, k, strict=True)) | draw(st.fixed_dictionaries(rest)) for k in keys]


@st.composite
def bases(draw: st.DrawFn, *, size: int = 6) -> dict[str, list[dict[str, Any]]]:
    """A base state of both tables."""
    return {table.name: draw(rows_of(table, size=size)) for table in TABLES.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One base update: the whole row after it, None for a delete."""

    table: str
    key: tuple[Any, ...]
    row: dict[str, Any] | None


@st.composite
def update_streams(
    draw: st.DrawFn, *, size: int = 12, tables: tuple[BaseTable, ...] = (R, S)
) -> list[Update]:
    """Inserts, changes and deletes; the same keys come again."""

    @st.composite
    def update(draw: st.DrawFn) -> Update:
        table = draw(st.sampled_from(tables))
        types = dict(table.columns)
        key = tuple(draw(SMALL[types[name]]) for name in table.key)
        rest = {n: st.none() | SMALL[t] for n, t in table.columns if n not in table.key}
        row = draw(st.none() | st.fixed_dictionaries(rest))
        whole = None if row is None else dict(zip(table.key, key, strict=True)) | row
        return Update(table=table.name, key=key, row=whole)

    return draw(st.lists(update(), max_size=size))


# ---- expressions ----------------------------------------------------------------------------------------

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def _column(draw: st.DrawFn, columns: Columns, *types: str) -> str | None:
    fitting = [name for name, kind in columns if not types or kind in types]
    return draw(st.sampled_from(fitting)) if fitting else None


@st.composite
def scalars(draw: st.DrawFn, columns: Columns, kind: str) -> Expression:
    """An expression of a type: a column, a constant, or one call over them."""
    column = _column(draw, columns, kind)
    leaf: Expression = Literal(draw(SMALL[kind])) if column is None else Column(column)
    calls = _CALLS.get(kind)
    if calls is None or draw(st.integers(0, 2)) < 2:
        return leaf
    return draw(st.sampled_from(calls))(draw, columns, leaf)


def _of_number(name: str) -> Callable[[st.DrawFn, Columns, Expression], Expression]:
    return lambda draw, _, leaf: Call(name, (leaf, Literal(draw(st.integers(-2, 2)))))


def _of_one(name: str) -> Callable[[st.DrawFn, Columns, Expression], Expression]:
    return lambda _draw, _, leaf: Call(name, (leaf,))


def _case(draw: st.DrawFn, columns: Columns, leaf: Expression) -> Expression:
    return Call("case", (draw(predicates(columns, depth=0)), leaf, Literal(None)))


_NUMERIC = [*(_of_number(n) for n in ("+", "-", "*")), _of_one("negate"), _of_one("abs"), _case]
_CALLS: dict[str, list[Callable[[st.DrawFn, Columns, Expression], Expression]]] = {
    "int": [
        *_NUMERIC,
        _of_number("%"),
        lambda draw, columns, leaf: Call("coalesce", (leaf, Literal(draw(SMALL["int"])))),
        lambda draw, columns, leaf: Call("greatest", (leaf, Literal(draw(SMALL["int"])))),
        lambda draw, columns, leaf: Call("nullif", (leaf, Literal(draw(SMALL["int"])))),
        lambda draw, columns, leaf: Call("length", (draw(scalars(columns, "text")),)),
        lambda draw, columns, leaf: Call(
            draw(st.sampled_from(["year", "month", "day", "quarter", "day_of_year"])),
            (draw(scalars(columns, "date")),),
        ),
    ],
    "double": [
        *(
            lambda draw, _, leaf, n=n: Call(n, (leaf, Literal(draw(SMALL["double"]))))
            for n in ("+", "-", "*", "/")
        ),
        _case,
    ],
    "decimal": _NUMERIC,
    "text": [
        *(_of_one(name) for name in ("upper", "lower", "trim")),
        lambda draw, _, leaf: Call("concat", (leaf, Literal(draw(SMALL["text"])))),
        lambda draw, _, leaf: Call(
            "substring", (leaf, Literal(draw(st.integers(1, 3))), Literal(draw(st.integers(0, 2))))
        ),
        lambda draw, _, leaf: Call("replace", (leaf, Literal("a"), Literal(draw(SMALL["text"])))),
        lambda draw, columns, leaf: Call("cast_text", (draw(scalars(columns, "int")),)),
    ],
    "date": [_of_number("add_days"), _of_number("add_months")],
}


@st.composite
def predicates(draw: st.DrawFn, columns: Columns, *, depth: int = 2) -> Expression:
    """A condition over some columns."""
    shape = draw(st.integers(0, 7 if depth else 4))
    if shape >= 5:
        parts = tuple(draw(predicates(columns, depth=depth - 1)) for _ in range(1 if shape == 7 else 2))
        return Call({5: "and", 6: "or", 7: "not"}[shape], parts)
    kind = draw(st.sampled_from(sorted({kind for _, kind in columns})))
    left = draw(scalars(columns, kind))
    if shape == 0:
        return Call(draw(st.sampled_from(["is_null", "is_not_null"])), (left,))
    if shape == 1:
        choices = draw(st.lists(st.none() | SMALL[kind], min_size=1, max_size=3))
        return Call("in", (left, *map(Literal, choices)))
    if shape == 2 and kind == "text":
        pattern = draw(st.sampled_from(["a%", "%b", "_", "a\\%b", "", "%", "[a]"]))
        return Call("like", (left, Literal(pattern)))
    if shape == 3:
        return Call("between", (left, draw(scalars(columns, kind)), Literal(draw(SMALL[kind]))))
    return Call(draw(st.sampled_from(COMPARISONS)), (left, draw(scalars(columns, kind))))


# ---- relations ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A relation and the types of its columns."""

    relation: Relation
    columns: Columns


_AGGREGATES: dict[AggregateFunction, tuple[str, ...]] = {
    AggregateFunction.COUNT: ("int", "text", "double", "decimal", "date", "boolean", "timestamp"),
    AggregateFunction.SUM: ("int", "double", "decimal"),
    AggregateFunction.AVG: ("int", "double", "decimal"),
    AggregateFunction.MIN: ("int", "text", "double", "decimal", "date", "timestamp"),
    AggregateFunction.MAX: ("int", "text", "double", "decimal", "date", "timestamp"),
    AggregateFunction.VARIANCE: ("int", "decimal"),
    AggregateFunction.STDDEV: ("int", "decimal"),
}
_FLOATING = (AggregateFunction.AVG, AggregateFunction.VARIANCE, AggregateFunction.STDDEV)


class _Aliases:
    def __init__(self) -> None:
        self.count = 0

    def next(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"


@st.composite
def relations(draw: st.DrawFn, *, depth: int = 3) -> Typed:
    """Any relation over the two tables, its columns named apart."""
    return _relation(draw, depth, _Aliases())


def _relation(draw: st.DrawFn, depth: int, aliases: _Aliases) -> Typed:
    shape = draw(st.integers(0, 7)) if depth else 0
    if shape <= 1:
        table = draw(st.sampled_from([R, S]))
        alias = aliases.next("t")
        columns = tuple((f"{alias}.{name}", kind) for name, kind in table.columns)
        return Typed(relation=Scan(table=table.name, alias=alias), columns=columns)
    if shape == 6:
        return _join(draw, depth, aliases)
    if shape == 7:
        return _set_operation(draw, depth, aliases)
    source = _relation(draw, depth - 1, aliases)
    if shape == 2:
        predicate = draw(predicates(source.columns))
        return Typed(relation=Select(source=source.relation, predicate=predicate), columns=source.columns)
    if shape == 3:
        return _projected(draw, source, aliases)
    if shape == 4:
        return _aggregated(draw, source, aliases)
    if draw(st.booleans()):
        narrow = _projected(draw, source, aliases)
        return Typed(relation=Distinct(source=narrow.relation), columns=narrow.columns)
    return _top(draw, source)


def _projected(draw: st.DrawFn, source: Typed, aliases: _Aliases) -> Typed:
    kinds = draw(st.lists(st.sampled_from([k for _, k in source.columns]), min_size=1, max_size=3))
    named = [(aliases.next("p"), kind, draw(scalars(source.columns, kind))) for kind in kinds]
    columns = tuple(Named(name=name, expression=expression) for name, _, expression in named)
    return Typed(
        relation=Project(source=source.relation, columns=columns),
        columns=tuple((name, kind) for name, kind, _ in named),
    )


def _aggregated(draw: st.DrawFn, source: Typed, aliases: _Aliases) -> Typed:
    group = draw(st.lists(st.sampled_from(source.columns), max_size=2, unique=True))
    named = tuple(Named(name=aliases.next("g"), expression=Column(name)) for name, _ in group)
    columns = [(n.name, kind) for n, (_, kind) in zip(named, group, strict=True)]
    count = AggregateColumn(name=aliases.next("a"), function=AggregateFunction.COUNT)
    aggregates = [count]
    columns.append((count.name, "int"))
    for function in draw(st.lists(st.sampled_from(list(_AGGREGATES)), max_size=3)):
        argument = _column(draw, source.columns, *_AGGREGATES[function])
        if argument is None:
            continue
        name = aliases.next("a")
        distinct = draw(st.booleans())
        aggregates.append(
            AggregateColumn(name=name, function=function, argument=Column(argument), distinct=distinct)
        )
        columns.append((name, _aggregate_type(function, dict(source.columns)[argument])))
    relation = Aggregate(source=source.relation, group=named, aggregates=tuple(aggregates))
    return Typed(relation=relation, columns=tuple(columns))


def _aggregate_type(function: AggregateFunction, kind: str) -> str:
    if function is AggregateFunction.COUNT:
        return "int"
    return "double" if function in _FLOATING else kind


def _join(draw: st.DrawFn, depth: int, aliases: _Aliases) -> Typed:
    left, right = _relation(draw, depth - 1, aliases), _relation(draw, depth - 1, aliases)
    pairs = [(mine, other) for mine, kind in left.columns for other, same in right.columns if kind == same]
    if not pairs:
        return left
    kinds = ("inner", "left", "right", "full", "semi", "anti", "null-aware-anti")
    kind: Any = draw(st.sampled_from(kinds))
    on = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=1 if kind == "null-aware-anti" else 2))
    residual = None
    if kind not in ("full", "right") and draw(st.booleans()):
        residual = draw(predicates(left.columns + right.columns, depth=1))
    join = Join(
        kind=kind,
        left=left.relation,
        right=right.relation,
        on=tuple((Column(mine), Column(other)) for mine, other in on),
        residual=residual,
    )
    wide = kind in ("inner", "left", "right", "full")
    return Typed(relation=join, columns=left.columns + right.columns if wide else left.columns)


def _set_operation(draw: st.DrawFn, depth: int, aliases: _Aliases) -> Typed:
    left, right = _relation(draw, depth - 1, aliases), _relation(draw, depth - 1, aliases)
    kind = draw(st.sampled_from(["int", "text"]))
    sides = []
    for side in (left, right):
        name = aliases.next("u")
        column = Named(name=name, expression=draw(scalars(side.columns, kind)))
        sides.append(
            Typed(relation=Project(source=side.relation, columns=(column,)), columns=((name, kind),))
        )
    operation: Any = draw(st.sampled_from(["union", "intersect", "except"]))
    relation = SetOperation(
        kind=operation, all=draw(st.booleans()), left=sides[0].relation, right=sides[1].relation
    )
    return Typed(relation=relation, columns=sides[0].columns)


def _top(draw: st.DrawFn, source: Typed) -> Typed:
    terms = draw(st.lists(st.sampled_from([n for n, _ in source.columns]), min_size=1, max_size=2))
    order = tuple(
        OrderBy(expression=Column(n), descending=draw(st.booleans()), nulls_first=draw(st.booleans()))
        for n in terms
    )
    relation = TopK(
        source=source.relation, order=order, limit=draw(st.integers(0, 4)), offset=draw(st.integers(0, 2))
    )
    return Typed(relation=relation, columns=source.columns)


# ---- keyed views: one of each class of paper 001, and compositions -----------------------------------------


def _named(*pairs: tuple[str, str]) -> tuple[Named, ...]:
    return tuple(Named(name=name, expression=Column(column)) for name, column in pairs)


def _group(function: AggregateFunction, argument: str | None, *, distinct: bool = False) -> ViewDefinition:
    column = AggregateColumn(
        name="a",
        function=function,
        argument=None if argument is None else Column(argument),
        distinct=distinct,
    )
    rows = AggregateColumn(name="rows", function=AggregateFunction.COUNT)
    relation = Aggregate(
        source=Scan(table="r", alias="r"), group=_named(("x", "r.x")), aggregates=(column, rows)
    )
    return ViewDefinition(name=f"{function.value}_by_x", relation=relation, key=("x",))


_SCAN_R, _SCAN_S = Scan(table="r", alias="r"), Scan(table="s", alias="s")
_ALL_R = _named(("k", "r.k"), ("x", "r.x"), ("y", "r.y"))
_FOREIGN = Join(kind="inner", left=_SCAN_R, right=_SCAN_S, on=((Column("r.y"), Column("s.k")),))


def _set_view(kind: Any) -> ViewDefinition:
    sides = [
        Project(source=scan, columns=_named(("y", c))) for scan, c in ((_SCAN_R, "r.y"), (_SCAN_S, "s.y"))
    ]
    relation = SetOperation(kind=kind, all=False, left=sides[0], right=sides[1])
    return ViewDefinition(name=kind, relation=relation, key=("y",))


def _join_view(kind: Any) -> ViewDefinition:
    relation = Join(kind=kind, left=_SCAN_R, right=_SCAN_S, on=((Column("r.y"), Column("s.k")),))
    narrow = kind in ("semi", "anti", "null-aware-anti")
    names = _named(("k", "r.k"), ("y", "r.y"))
    columns = names if narrow else names + _named(("j", "s.k"), ("z", "s.z"))
    key = ("k",) if narrow or kind in ("inner", "left") else ("k", "j")
    return ViewDefinition(name=kind, relation=Project(source=relation, columns=columns), key=key)


VIEWS: dict[str, ViewDefinition] = {
    "selection": ViewDefinition(
        name="selection",
        relation=Project(
            source=Select(source=_SCAN_R, predicate=Call("<", (Column("r.y"), Literal(2)))), columns=_ALL_R
        ),
        key=("k",),
    ),
    "projection": ViewDefinition(
        name="projection",
        relation=Project(source=_SCAN_R, columns=_named(("k", "r.k"), ("x", "r.x"))),
        key=("k",),
    ),
    "projection_other_key": ViewDefinition(
        name="projection_other_key",
        relation=Project(source=_SCAN_R, columns=_named(("x", "r.x"), ("k", "r.k"))),
        key=("x", "k"),
    ),
    "projection_without_key": ViewDefinition(
        name="projection_without_key",
        relation=Distinct(source=Project(source=_SCAN_R, columns=_named(("x", "r.x")))),
        key=("x",),
    ),
    **{f.value: _group(f, "r.y") for f in AggregateFunction if f is not AggregateFunction.COUNT},
    "count": _group(AggregateFunction.COUNT, None),
    "count_distinct": _group(AggregateFunction.COUNT, "r.y", distinct=True),
    **{
        kind: _join_view(kind)
        for kind in ("inner", "left", "right", "full", "semi", "anti", "null-aware-anti")
    },
    "join_then_count": ViewDefinition(
        name="join_then_count",
        relation=Aggregate(
            source=_FOREIGN,
            group=_named(("z", "s.z")),
            aggregates=(AggregateColumn(name="n", function=AggregateFunction.COUNT),),
        ),
        key=("z",),
    ),
    **{kind: _set_view(kind) for kind in ("union", "intersect", "except")},
    "top": ViewDefinition(
        name="top",
        relation=Project(
            source=TopK(source=_SCAN_R, order=(OrderBy(expression=Column("r.y"), descending=True),), limit=2),
            columns=_ALL_R,
        ),
        key=("k",),
    ),
}


def views() -> st.SearchStrategy[ViewDefinition]:
    """One keyed view over the two tables, of any class."""
    return st.sampled_from(list(VIEWS.values()))
