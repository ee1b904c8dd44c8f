"""Walking relations: children, scans, output columns."""

from collections.abc import Iterator, Mapping

from cvs.errors import SpecificationError
from cvs.model.views import Aggregate, BaseTable, Join, Project, Relation, Scan, SetOperation


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
