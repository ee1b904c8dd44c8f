"""DuckDB as an outsider: relations and expressions written as its SQL, and its answers as our rows."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, assert_never

import duckdb

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
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

TYPES = {
    "int": "BIGINT",
    "text": "VARCHAR",
    "double": "DOUBLE",
    "decimal": "DECIMAL(18, 2)",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}

INFIX = {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "%"}
PLAIN = {
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "abs",
    "upper",
    "lower",
    "trim",
    "length",
    "replace",
    "substring",
    "year",
    "month",
    "day",
    "quarter",
    "floor",
    "ceil",
    "round",
    "starts_with",
    "ends_with",
    "contains",
}


def literal(value: Any) -> str:
    """Write a constant."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(18, 2))"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return f"CAST({value} AS BIGINT)"


def name(column: str) -> str:
    """Write a column."""
    return f'"{column}"'


def expression(tree: Expression) -> str:
    """Write an expression."""
    if isinstance(tree, Column):
        return name(tree.name)
    if isinstance(tree, Literal):
        return literal(tree.value)
    parts = [expression(a) for a in tree.arguments]
    return f"({_call(tree, parts)})"


SHAPES: dict[str, str] = {
    **{sign: f"{{0}} {sign} {{1}}" for sign in INFIX},
    "not": "NOT {0}",
    "/": "CAST({0} AS DOUBLE) / {1}",
    "<=>": "{0} IS NOT DISTINCT FROM {1}",
    "is_null": "{0} IS NULL",
    "is_not_null": "{0} IS NOT NULL",
    "between": "{0} BETWEEN {1} AND {2}",
    "like": "{0} LIKE {1} ESCAPE '\\'",
    "case": "CASE WHEN {0} THEN {1} ELSE {2} END",
    "negate": "- {0}",
    "cast_text": "CAST({0} AS VARCHAR)",
    "cast_bigint": "TRY_CAST({0} AS BIGINT)",
    "cast_double": "TRY_CAST({0} AS DOUBLE)",
    "cast_date": "TRY_CAST({0} AS DATE)",
    "cast_timestamp": "TRY_CAST({0} AS TIMESTAMP)",
    "day_of_year": "dayofyear({0})",
    "add_days": "CAST({0} + to_days(CAST({1} AS INTEGER)) AS DATE)",
    "add_months": "CAST({0} + to_months(CAST({1} AS INTEGER)) AS DATE)",
}
JOINED = {"and": " AND ", "or": " OR ", "concat": " || "}


def _call(tree: Call, parts: list[str]) -> str:
    if tree.function in JOINED:
        return JOINED[tree.function].join(parts)
    if tree.function == "in":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    if tree.function in PLAIN:
        return f"{tree.function}({', '.join(parts)})"
    return SHAPES[tree.function].format(*parts)


def aggregate(column: AggregateColumn) -> str:
    """Write an aggregate."""
    if column.argument is None:
        return "count(*)"
    function = {AggregateFunction.STDDEV: "stddev_samp", AggregateFunction.VARIANCE: "var_samp"}.get(
        column.function, column.function.value
    )
    return f"{function}({'DISTINCT ' if column.distinct else ''}{expression(column.argument)})"


def relation(tree: Relation, tables: dict[str, BaseTable]) -> str:
    """Write a relation as a query."""

    def source(inner: Relation) -> str:
        return f"({relation(inner, tables)})"

    match tree:
        case Scan():
            columns = [f'"{n}" AS "{tree.alias}.{n}"' for n, _ in tables[tree.table].columns]
            return f'SELECT {", ".join(columns)} FROM "{tree.table}"'
        case Select():
            return f"SELECT * FROM {source(tree.source)} WHERE {expression(tree.predicate)}"
        case Project():
            columns = [f"{expression(c.expression)} AS {name(c.name)}" for c in tree.columns]
            return f"SELECT {', '.join(columns)} FROM {source(tree.source)}"
        case Distinct():
            return f"SELECT DISTINCT * FROM {source(tree.source)}"
        case Aggregate():
            groups = [f"{expression(g.expression)} AS {name(g.name)}" for g in tree.group]
            columns = groups + [f"{aggregate(a)} AS {name(a.name)}" for a in tree.aggregates]
            by = f" GROUP BY {', '.join(expression(g.expression) for g in tree.group)}" if tree.group else ""
            return f"SELECT {', '.join(columns)} FROM {source(tree.source)}{by}"
        case Join():
            return _join(tree, source)
        case SetOperation():
            word = tree.kind.upper() + (" ALL" if tree.all else "")
            return f"SELECT * FROM {source(tree.left)} {word} SELECT * FROM {source(tree.right)}"
        case TopK():
            return _top(tree, source)
        case _:
            assert_never(tree)


def _join(tree: Join, source: Any) -> str:
    left, right = source(tree.left), source(tree.right)
    equal = " AND ".join(f"{expression(a)} = {expression(b)}" for a, b in tree.on)
    residual = "TRUE" if tree.residual is None else expression(tree.residual)
    if tree.kind == "semi":
        return f"SELECT * FROM {left} l WHERE EXISTS (SELECT 1 FROM {right} r WHERE {equal} AND {residual})"
    if tree.kind == "anti":
        return (
            f"SELECT * FROM {left} l WHERE NOT EXISTS (SELECT 1 FROM {right} r WHERE {equal} AND {residual})"
        )
    if tree.kind == "null-aware-anti":
        ((mine, other),) = tree.on
        query = f"SELECT {expression(other)} FROM {right} r WHERE {residual}"
        return f"SELECT * FROM {left} l WHERE {expression(mine)} NOT IN ({query})"
    return f"SELECT * FROM {left} l {tree.kind.upper()} JOIN {right} r ON {equal} AND {residual}"


def _top(tree: TopK, source: Any) -> str:
    terms = [
        f"{expression(o.expression)} {'DESC' if o.descending else 'ASC'} "
        f"NULLS {'FIRST' if o.nulls_first else 'LAST'}"
        for o in tree.order
    ]
    rest = "COLUMNS(*) ASC NULLS FIRST"
    return (
        f"SELECT * FROM {source(tree.source)} ORDER BY {', '.join(terms)}, {rest} "
        f"LIMIT {tree.limit} OFFSET {tree.offset}"
    )


def connect(tables: dict[str, BaseTable]) -> duckdb.DuckDBPyConnection:
    """Open a database in memory with empty tables."""
    database = duckdb.connect(":memory:", config={"threads": 1})
    database.execute("SET ieee_floating_point_ops = false")
    database.execute("SET error_on_division_by_zero = false")
    for table in tables.values():
        columns = ", ".join(f'"{n}" {TYPES[kind]}' for n, kind in table.columns)
        database.execute(f'CREATE TABLE "{table.name}" ({columns})')
    return database


def fill(database: duckdb.DuckDBPyConnection, tables: dict[str, BaseTable], base: dict[str, Any]) -> None:
    """Replace the rows of all tables."""
    for table in tables.values():
        database.execute(f'DELETE FROM "{table.name}"')
        rows = [f"({', '.join(literal(row.get(n)) for n, _ in table.columns)})" for row in base[table.name]]
        if rows:
            database.execute(f'INSERT INTO "{table.name}" VALUES {", ".join(rows)}')


def comparable(value: Any) -> Any:
    """Bring a value of either side to one form: numbers to nine digits, timestamps to UTC."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float | Decimal):
        number = float(value)
        if math.isnan(number):
            return "NaN"
        return float(f"{number:.9g}") + 0.0
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return value
