"""Walking relations: children, scans, output columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from cvs.errors import SpecificationError
from cvs.model.expressions import Expression, columns_of
from cvs.model.views import Aggregate, BaseTable, Join, Project, Relation, Scan, Select, SetOperation


def children(relation: Relation) -> tuple[Relation, ...]:
    """Return the inputs of a relation."""
    if isinstance(relation, Scan):
        return ()
    if isinstance(relation, Join | SetOperation):
        return (relation.left, relation.right)
    return (relation.source,)


def scans(relation: Relation) -> Iterator[Scan]:
    """Return every scan below a relation, left to right."""
    if isinstance(relation, Scan):
        yield relation
    for child in children(relation):
        yield from scans(child)


def columns(relation: Relation, tables: Mapping[str, BaseTable]) -> tuple[str, ...]:
    """Return the names of a relation's columns, in order."""
    if isinstance(relation, Project):
        return tuple(column.name for column in relation.columns)
    if isinstance(relation, Aggregate):
        return tuple(c.name for c in relation.group) + tuple(a.name for a in relation.aggregates)
    if isinstance(relation, Scan):
        if relation.table not in tables:
            raise SpecificationError(f"there is no table or view {relation.table}")
        return tuple(f"{relation.alias}.{name}" for name, _ in tables[relation.table].columns)
    left = columns(children(relation)[0], tables)
    if isinstance(relation, Join) and relation.kind not in ("semi", "anti", "null-aware-anti"):
        return left + columns(relation.right, tables)
    return left


def with_small_right(join: Join, small: Callable[[Relation], bool]) -> Join:
    """Turn an inner join whose left side alone is small: the right one is what can be in every bucket."""
    if join.kind != "inner" or not join.on or not small(join.left) or small(join.right):
        return join
    return replace(join, left=join.right, right=join.left, on=tuple((b, a) for a, b in join.on))


def read_columns(relation: Relation) -> dict[str, set[str] | None]:
    """Return which columns of each scanned table a relation depends on; None: all of them."""
    found: dict[str, set[str] | None] = {}
    _read(relation, None, found)
    return found


def _read(relation: Relation, wanted: set[str] | None, found: dict[str, set[str] | None]) -> None:
    """Note what is read below, if `wanted` of what this relation gives is needed above."""
    match relation:
        case Scan():
            known = found.setdefault(relation.table, set())
            prefix = f"{relation.alias}."
            of_ours = {name.removeprefix(prefix) for name in wanted or () if name.startswith(prefix)}
            found[relation.table] = None if wanted is None or known is None else known | of_ours
        case Select():
            _read(relation.source, _and(wanted, [relation.predicate]), found)
        case Project():
            _read(relation.source, _and(set(), [it.expression for it in relation.columns]), found)
        case Aggregate():
            taken = [it.argument for it in relation.aggregates if it.argument is not None]
            _read(relation.source, _and(set(), [*(it.expression for it in relation.group), *taken]), found)
        case Join():
            asked = [one for pair in relation.on for one in pair]
            asked += [] if relation.residual is None else [relation.residual]
            for side in (relation.left, relation.right):
                _read(side, _and(wanted, asked), found)
        case _:
            for source in children(relation):
                _read(source, None, found)


def _and(wanted: set[str] | None, expressions: Iterable[Expression]) -> set[str] | None:
    if wanted is None:
        return None
    return wanted.union(*map(columns_of, expressions))
