"""The plain, slow meaning of a view: what it holds over given base rows.

Everything else in cvs is judged by this, so it follows the definitions and nothing more; `tests/agree` holds
it against DuckDB.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from cvs.errors import AssumptionError
from cvs.model.aggregates import aggregate
from cvs.model.expressions import Row, Value, compile_expression, compile_predicate
from cvs.model.functions import ordered
from cvs.model.identity import canonical, key_identity
from cvs.model.joins import joined
from cvs.model.views import (
    Aggregate,
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
    output_columns,
)

Key = tuple[Value, ...]
Base = Mapping[str, Iterable[Row]]
Rows = list[dict[str, Value]]
Tables = Mapping[str, BaseTable]


def recompute(view: ViewDefinition, base: Base, tables: Tables | None = None) -> dict[Key, dict[str, Value]]:
    """Return the view records over a base state, by view key.

    `tables` gives columns to rows that lack them (null) and to tables without rows; only a view that shows
    columns of a scan without naming them needs it. Rows are taken one by one where nothing needs all of them at
    once, so `base` may give rows that are still being read; it is asked for them once a scan.
    """
    records: dict[Key, dict[str, Value]] = {}
    for row in _rows(view.relation, base, tables):
        key = key_identity(row.get(column) for column in view.key)
        if key in records:
            raise AssumptionError(
                f'view "{view.name}" has two rows with the key {key}',
                where=f"{records[key]} and {row}",
                next_step=f"its key ({', '.join(view.key)}) must tell its rows apart",
            )
        records[key] = row
    return records


def recompute_all(
    views: Iterable[ViewDefinition], base: Base, tables: Tables | None = None
) -> dict[str, dict[Key, dict[str, Value]]]:
    """Return several views; one may scan those before it by name."""
    known: dict[str, Iterable[Row]] = dict(base)
    found: dict[str, dict[Key, dict[str, Value]]] = {}
    for view in views:
        found[view.name] = recompute(view, known, tables)
        known[view.name] = list(found[view.name].values())
    return found


def bag(relation: Relation, base: Base, tables: Tables | None = None) -> Rows:
    """Return all rows of a relation, equal rows as often as they occur."""
    return list(_rows(relation, base, tables))


def _rows(relation: Relation, base: Base, tables: Tables | None) -> Iterable[dict[str, Value]]:
    match relation:
        case Scan():
            return _scan(relation, base, tables or {})
        case Select():
            return filter(compile_predicate(relation.predicate), _rows(relation.source, base, tables))
        case Project():
            return _project(relation.columns, _rows(relation.source, base, tables))
        case Distinct():
            return _once(_rows(relation.source, base, tables))
        case Aggregate():
            return _aggregate(relation, _rows(relation.source, base, tables))
        case Join():
            return _join(relation, base, tables)
        case SetOperation():
            return _set_operation(relation, base, tables)
        case TopK():
            return _top(relation, _rows(relation.source, base, tables))


def _scan(scan: Scan, base: Base, tables: Tables) -> Iterator[dict[str, Value]]:
    rows = base.get(scan.table, ())
    table = tables.get(scan.table)
    if table is None:
        rows = list(rows)
    names = [name for name, _ in table.columns] if table is not None else _names(rows)
    renamed = [(f"{scan.alias}.{name}", name) for name in names]
    for row in rows:
        yield {full: row.get(name) for full, name in renamed}


def _names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _project(columns: Iterable[Named], rows: Iterable[Row]) -> Iterator[dict[str, Value]]:
    computed = [(column.name, compile_expression(column.expression)) for column in columns]
    for row in rows:
        yield {name: compute(row) for name, compute in computed}


def _positions(row: Row) -> Key:
    return key_identity(row.values())


def _once(rows: Iterable[Row]) -> Rows:
    first: dict[Key, dict[str, Value]] = {}
    for row in rows:
        first.setdefault(_positions(row), {name: canonical(value) for name, value in row.items()})
    return list(first.values())


def _aggregate(relation: Aggregate, rows: Iterable[Row]) -> Rows:
    """Keep of each group how many rows it has and what its aggregates take, not the rows."""
    names = [named.name for named in relation.group]
    computed = [compile_expression(named.expression) for named in relation.group]
    taken = [None if a.argument is None else compile_expression(a.argument) for a in relation.aggregates]
    groups: dict[Key, tuple[Key, list[list[Value]]]] = {}
    if not relation.group:
        groups[()] = ((), [[] for _ in taken])
    for row in rows:
        values = tuple(compute(row) for compute in computed)
        place = key_identity(values)
        group = groups.get(place)
        if group is None:
            group = groups[place] = (tuple(map(canonical, values)), [[] for _ in taken])
        for argument, seen in zip(taken, group[1], strict=True):
            seen.append(True if argument is None else argument(row))
    found = []
    for values, arguments in groups.values():
        record = dict(zip(names, values, strict=True))
        for column, seen in zip(relation.aggregates, arguments, strict=True):
            record[column.name] = aggregate(column.function, seen, distinct=column.distinct)
        found.append(record)
    return found


def _nulls(relation: Relation, rows: Rows, tables: Tables | None) -> dict[str, Value]:
    names = output_columns(relation, tables)
    return dict.fromkeys(names if names is not None else rows[0] if rows else ())


def _join(relation: Join, base: Base, tables: Tables | None) -> Rows:
    left, right = bag(relation.left, base, tables), bag(relation.right, base, tables)
    absent = (_nulls(relation.left, left, tables), _nulls(relation.right, right, tables))
    return joined(relation, left, right, absent)


def _set_operation(relation: SetOperation, base: Base, tables: Tables | None) -> Rows:
    left, right = bag(relation.left, base, tables), bag(relation.right, base, tables)
    names = list(_nulls(relation.left, left or right, tables))
    right = [dict(zip(names, row.values(), strict=True)) for row in right]
    if relation.kind == "union":
        return left + right if relation.all else _once(left + right)
    available: dict[Key, int] = {}
    for row in right:
        available[_positions(row)] = available.get(_positions(row), 0) + 1
    wanted = relation.kind == "intersect"
    if not relation.all:
        return [row for row in _once(left) if (_positions(row) in available) is wanted]
    found = []
    for row in left:
        key = _positions(row)
        matched = available.get(key, 0) > 0
        if matched:
            available[key] -= 1
        if matched is wanted:
            found.append(row)
    return found


def _top(relation: TopK, rows: Iterable[dict[str, Value]]) -> Rows:
    """Sort by the least important term first; Python's sort keeps the order of equals."""
    result = sorted(rows, key=lambda row: tuple(ordered(value) for value in row.values()))
    for term in reversed(relation.order):
        result.sort(key=_rank(term), reverse=term.descending)
    return result[relation.offset : relation.offset + relation.limit]


def _rank(term: OrderBy) -> Callable[[Row], tuple[int, Value]]:
    compute = compile_expression(term.expression)
    of_null = (0, 0) if term.nulls_first is not term.descending else (3, 0)
    return lambda row: of_null if (value := compute(row)) is None else ordered(value)
