"""The published key of a view: unique by proof, of types a primary key may have, never null.

A bag with duplicates cannot be an ordinary table, so a view without a provable key is refused. A key column
cannot be null, and a text or blob that is the whole partition key cannot be empty: such rows are left out of the view
*by definition* (as in Cassandra's own materialized views), so `recompute` and the published table agree, and the
view warns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.layout import quoted
from cvs.model.stages import Typed
from cvs.model.views import Aggregate, BaseTable, Named, Project, Relation, Scan, Select, SetOperation
from cvs.plan.joins import selected
from cvs.plan.keys import Facts, facts
from cvs.plan.options import ViewOptions
from cvs.plan.refusal import refused
from cvs.plan.relations import children
from cvs.plan.relations import columns as columns_of
from cvs.plan.types import family, keyable

ONLY = "only"
_EMPTY: dict[str, str | bytes] = {"text": "", "blob": b""}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedKey:
    """The primary key of a published table: partition columns, then clustering columns (name, descending)."""

    partition: tuple[str, ...]
    clustering: tuple[tuple[str, bool], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all key columns."""
        return self.partition + tuple(name for name, _ in self.clustering)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The relation as published (null keys left out), its columns, key, and what to know."""

    relation: Relation
    columns: Typed
    key: PublishedKey
    warnings: tuple[str, ...] = ()


def published_key(
    relation: Relation,
    columns: Typed,
    options: ViewOptions,
    tables: Mapping[str, BaseTable],
    node: exp.Expr,
) -> Published:
    """Choose or check the key of a view."""
    known = facts(relation, tables)
    warnings: list[str] = []
    types = dict(columns)
    untyped = [name for name, kind in columns if kind == "null"]
    if untyped:
        raise refused(node, f"column `{untyped[0]}` is always null: it has no type", "CAST(NULL AS text)")
    if options.key:
        key = _declared(options, known, types, node)
    else:
        key = _chosen(known, columns, relation, tables, node)
    if not key.columns:
        relation, columns, key = _single_row(relation, columns, node)
        warnings.append(f"one row only: its table is keyed by the added column `{ONLY}` = true")
    nullable = [c for c in key.columns if c not in known.never_null and c != ONLY]
    conditions: list[Expression] = [Call("is_not_null", (Column(c),)) for c in nullable]
    if nullable:
        names = ", ".join(nullable)
        warnings.append(
            f"rows whose {names} is null are left out (a key column cannot be null): COALESCE it to keep them"
        )
    warnings += [
        f"{name} is published as a tuple of its type's fields in their order: a type is known in one keyspace only"
        for name, kind in columns
        if "udt<" in kind
    ]
    alone = key.partition[0] if len(key.partition) == 1 else ONLY
    empty = _EMPTY.get(family(types.get(alone, "")))
    if empty is not None and not _partitions_a_base(relation, alone, tables):
        conditions.append(Call("<>", (Column(alone), Literal(empty))))
        kept = f": COALESCE(NULLIF({alone}, ''), 'none') keeps them" if empty == "" else ""
        warnings.append(
            f"rows whose {alone} is empty are left out (the whole partition key cannot be empty){kept}"
        )
    warnings += [
        f"CQL writes column {quoted(name)} in double quotes: small letters that are no word of CQL do without"
        for name, _ in columns
        if quoted(name) != name
    ]
    relation = selected(relation, conditions)
    return Published(relation=relation, columns=columns, key=key, warnings=tuple(warnings))


def _partitions_a_base(relation: Relation, name: str, tables: Mapping[str, BaseTable]) -> bool:
    """Say whether a column is, unchanged, the whole partition key of a table: there it is never empty."""
    match relation:
        case Scan():
            return tables[relation.table].partition_key == (name.removeprefix(f"{relation.alias}."),)
        case Project() | Aggregate():
            named = relation.columns if isinstance(relation, Project) else relation.group
            inner = next((column.expression for column in named if column.name == name), None)
            return isinstance(inner, Column) and _partitions_a_base(relation.source, inner.name, tables)
        case SetOperation():
            return False
        case _:
            side = next(child for child in children(relation) if name in columns_of(child, tables))
            return _partitions_a_base(side, name, tables)


def _declared(options: ViewOptions, known: Facts, types: Mapping[str, str], node: exp.Expr) -> PublishedKey:
    spelt = {name.lower(): name for name in types}
    options = replace(
        options,
        partition_key=tuple(spelt.get(name.lower(), name) for name in options.partition_key),
        clustering=tuple((spelt.get(name.lower(), name), down) for name, down in options.clustering),
    )
    for name in options.key:
        if name not in types:
            raise refused(
                node, f"cvs.key names `{name}`, which the view has not", f"one of {', '.join(types)}"
            )
        if not keyable(types[name]):
            raise refused(
                node, f"`{name}` is {types[name]}: it cannot be part of a key", "leave it out of cvs.key"
            )
    if len(set(options.key)) != len(options.key):
        raise refused(node, "cvs.key names a column twice", "name it once")
    if not known.unique(frozenset(options.key)):
        missing = _missing(known, tuple(types), frozenset(options.key))
        raise refused(node, f"cvs.key ({', '.join(options.key)}) is not unique", missing)
    return PublishedKey(partition=options.partition_key, clustering=options.clustering)


def _chosen(
    known: Facts, columns: Typed, relation: Relation, tables: Mapping[str, BaseTable], node: exp.Expr
) -> PublishedKey:
    """Take the smallest provable key; its first column partitions."""
    types = dict(columns)
    usable = tuple(name for name, kind in columns if keyable(kind))
    found = [known.smallest(usable)]
    found += [
        known.smallest(tuple(c for c in usable if c in key)) for key in known.keys if key <= set(usable)
    ]
    keys = sorted((k for k in found if k is not None), key=lambda k: (len(k), [usable.index(c) for c in k]))
    if not keys:
        heavy = sorted({c for key in known.keys if key <= types.keys() for c in key if not keyable(types[c])})
        if heavy:
            raise refused(
                node,
                f"`{heavy[0]}` is {types[heavy[0]]}: it cannot be part of a key, and nothing is unique without it",
                "group by something of it (a length, a cast), or select the base tables' keys",
            )
        raise refused(
            node,
            "no columns of this view are surely unique, and a table needs a key",
            _missing_below(relation, tables) or _missing(known, usable, frozenset()),
        )
    solid = [k for k in keys if len(k) == len(keys[0]) and set(k) <= known.never_null]
    chosen = (solid or keys)[0]
    return PublishedKey(partition=chosen[:1], clustering=tuple((name, False) for name in chosen[1:]))


def _missing_below(relation: Relation, tables: Mapping[str, BaseTable]) -> str:
    """Name the key columns that the SELECT leaves out, if that is all that is missing."""
    if not isinstance(relation, Project):
        return ""
    below = facts(relation.source, tables)
    shown = {c.expression.name for c in relation.columns if isinstance(c.expression, Column)}
    known = below.closure(frozenset(shown))
    lacking = sorted((sorted(key - known) for key in below.keys if key - known), key=len)
    filled = frozenset[str]().union(*(side for _, side in below.absent))
    if lacking and filled & {*lacking[0]}:
        names = [name for name in lacking[0] if name in filled]
        return f"GROUP BY what tells rows apart, or write SELECT DISTINCT: {', '.join(names)} may be null"
    grouped = isinstance(_below(relation), Aggregate)
    names = [name.split(".", 1)[1] if grouped else name for name in lacking[0]] if lacking else []
    return f"add {', '.join(names)} to the SELECT, or write SELECT DISTINCT" if names else ""


def _below(relation: Relation) -> Relation:
    """Return what stands below projections and selections."""
    while isinstance(relation, Project | Select):
        relation = relation.source
    return relation


def _missing(known: Facts, columns: tuple[str, ...], have: frozenset[str]) -> str:
    for key in sorted(known.keys, key=len):
        if key <= set(columns):
            return f"add {', '.join(sorted(key - have))}"
    return "write SELECT DISTINCT, select the base tables' keys too, or GROUP BY and COUNT(*)"


def _single_row(relation: Relation, columns: Typed, node: exp.Expr) -> tuple[Relation, Typed, PublishedKey]:
    if ONLY in dict(columns):
        raise refused(
            node, f"a view of one row is keyed by a column `{ONLY}` of its own", "give yours another name"
        )
    kept = tuple(Named(name=name, expression=Column(name)) for name, _ in columns)
    only = Named(name=ONLY, expression=Literal(True))
    project = Project(source=relation, columns=(*kept, only))
    return project, (*columns, (ONLY, "boolean")), PublishedKey(partition=(ONLY,))
