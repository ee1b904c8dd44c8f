"""Which base records can matter to a view record, for views that are no fold over single base rows.

Every row that any base state of the run could have given is computed once, over all versions at the same time,
and carries the base records on which it hangs: a row of an inner join hangs on both its sides (Green, Karvounarakis
and Tannen's provenance); a row that a join pads with nulls, keeps or drops hangs on all partners it could have
met; a group hangs on all rows that were ever in it, and what it folds of them is not known. What no row with a key
hangs on cannot change what the view shows there, so the view record can be computed from the others alone.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cvs.checker.replay import BaseRecord, Key, Row
from cvs.model.expressions import Column, Compiled, columns_of, compile_expression, compile_predicate
from cvs.model.identity import key_identity, row_identity
from cvs.model.views import (
    Aggregate,
    BaseTable,
    Distinct,
    Join,
    Named,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    output_columns,
)

Tables = Mapping[str, BaseTable]

Versioned = tuple[BaseRecord, int]
"""One version of a base record, by its place on the time-line."""


@dataclass(frozen=True, slots=True)
class Potential:
    """A row that some base state could give, and the versions on which it hangs.

    `exact`: it is there in exactly the base states that have all of these versions.
    """

    row: dict[str, Any]
    hangs_on: frozenset[Versioned]
    exact: bool = True


@dataclass(slots=True)
class Near:
    """What can matter to one view record; `rows`: what gives each row it can show, if that is all there is to it."""

    records: list[BaseRecord] = field(default_factory=list)
    rows: dict[Hashable, list[frozenset[Versioned]]] | None = None


MOST = 200_000
"""Pairs of rows that are looked at, at most, where all versions are."""

Versions = Mapping[str, list[tuple[Versioned, Row]]]


class Unknown(Exception):  # noqa: N818 -- because it is an outcome, not an error
    """The view is of no kind for this, or too wide."""


def near_of(
    relation: Relation, key: tuple[str, ...], versions: Iterable[tuple[Versioned, Row]], tables: Tables
) -> dict[Key, Near] | None:
    """Return what can matter to each view record of a relation with a key; None: not known."""
    found = before_grouping(relation, key)
    if found is None:
        return None
    inner, columns = found
    by_table: dict[str, list[tuple[Versioned, Row]]] = {}
    for version, row in versions:
        by_table.setdefault(version[0][0], []).append((version, row))
    near: dict[Key, Near] = {}
    sources: dict[Key, dict[BaseRecord, None]] = {}
    try:
        require_known(inner, columns)
        every = Potentials(by_table, tables, MOST).of(inner)
    except Unknown:
        return None
    plain = inner is relation and all(each.exact for each in every)
    for each in every:
        name = key_identity(each.row.get(column) for column in columns)
        own = near.setdefault(name, Near(rows={} if plain else None))
        sources.setdefault(name, {}).update(dict.fromkeys(record for record, _ in each.hangs_on))
        if own.rows is not None:
            own.rows.setdefault(row_identity(each.row), []).append(each.hangs_on)
    for name, own in near.items():
        own.records = sorted(sources[name], key=repr)
    return near


@dataclass(frozen=True, slots=True)
class Potentials:
    """Computes all rows that any base state could give, of at most so many pairs."""

    versions: Versions
    tables: Tables
    most: int

    def of(self, relation: Relation) -> list[Potential]:
        """Return those of a relation."""
        match relation:
            case Scan():
                return _scanned(relation, self.versions.get(relation.table, []), self.tables)
            case Select():
                rows = self.of(relation.source)
                if _folds(relation.source).intersection(columns_of(relation.predicate)):
                    return [replace(each, exact=False) for each in rows]
                keep = compile_predicate(relation.predicate)
                return [each for each in rows if keep(each.row)]
            case Project():
                computed = _known(relation.columns, relation.source)
                nothing = dict.fromkeys(column.name for column in relation.columns)
                return [
                    replace(each, row=nothing | {name: compute(each.row) for name, compute in computed})
                    for each in self.of(relation.source)
                ]
            case Distinct():
                require_known(relation.source)
                return [replace(each, exact=False) for each in self.of(relation.source)]
            case Join():
                for pair in relation.on:
                    for side, own in zip((relation.left, relation.right), pair, strict=True):
                        require_known(side, columns_of(own))
                left, right = self.of(relation.left), self.of(relation.right)
                return _joined(relation, left, right, self.tables, self.most)
            case SetOperation():
                require_known(relation)
                return _together(self.of(relation.left), self.of(relation.right))
            case Aggregate() if relation.group:
                return self._grouped(relation)
            case _:
                raise Unknown

    def _grouped(self, relation: Aggregate) -> list[Potential]:
        """Return a row for each group that there ever was; what it folds is left open."""
        for column in relation.group:
            require_known(relation.source, columns_of(column.expression))
        computed = _known(relation.group, relation.source)
        nothing = dict.fromkeys(column.name for column in relation.aggregates)
        groups: dict[Key, tuple[dict[str, Any], set[Versioned]]] = {}
        for each in self.of(relation.source):
            row = {name: compute(each.row) for name, compute in computed}
            groups.setdefault(key_identity(row.values()), (row, set()))[1].update(each.hangs_on)
        return [Potential({**row, **nothing}, frozenset(on), exact=False) for row, on in groups.values()]


def _known(columns: Iterable[Named], source: Relation) -> list[tuple[str, Compiled]]:
    """Return what computes the columns that hang on nothing folded."""
    folds = _folds(source)
    plain = (column for column in columns if not folds.intersection(columns_of(column.expression)))
    return [(column.name, compile_expression(column.expression)) for column in plain]


def _folds(relation: Relation) -> frozenset[str]:
    """Name the columns whose values hang on what a group folds: they are not known."""
    match relation:
        case Aggregate():
            return frozenset(column.name for column in relation.aggregates)
        case Project():
            known = {name for name, _ in _known(relation.columns, relation.source)}
            return frozenset(column.name for column in relation.columns if column.name not in known)
        case Join() | SetOperation():
            return _folds(relation.left) | _folds(relation.right)
        case Scan():
            return frozenset()
        case _:
            return _folds(relation.source)


def require_known(relation: Relation, names: Iterable[str] | None = None) -> None:
    """Give up where columns that tell rows apart are not known; None: all of them do."""
    folds = _folds(relation)
    if folds and (names is None or folds.intersection(names)):
        raise Unknown


def _scanned(scan: Scan, versions: list[tuple[Versioned, Row]], tables: Tables) -> list[Potential]:
    table = tables.get(scan.table)
    names = (
        [name for name, _ in table.columns]
        if table is not None
        else list(dict.fromkeys(name for _, row in versions for name in row))
    )
    return [
        Potential({f"{scan.alias}.{name}": row.get(name) for name in names}, frozenset((version,)))
        for version, row in versions
    ]


def _joined(
    join: Join, left: list[Potential], right: list[Potential], tables: Tables, most: int
) -> list[Potential]:
    if join.kind == "null-aware-anti":
        raise Unknown  # each row hangs on every row of the other side
    partners = _partners(join, left, right, most)
    found: list[Potential] = []
    met: list[set[Versioned]] = [set() for _ in right]
    for each, pairs in zip(left, partners, strict=True):
        hangs_on = each.hangs_on.union(*(right[number].hangs_on for number, _ in pairs))
        if join.kind in ("semi", "anti"):
            found.append(Potential(each.row, hangs_on, exact=False))
            continue
        for number, both in pairs:
            other = right[number]
            found.append(Potential(both, each.hangs_on | other.hangs_on, exact=each.exact and other.exact))
            met[number] |= each.hangs_on
        if join.kind in ("left", "full"):
            padded = {**each.row, **_nulls(join.right, right, tables)}
            found.append(Potential(padded, hangs_on, exact=False))
    if join.kind in ("right", "full"):
        nulls = _nulls(join.left, left, tables)
        found += [
            Potential({**nulls, **each.row}, each.hangs_on | met[number], exact=False)
            for number, each in enumerate(right)
        ]
    return found


def _partners(
    join: Join, left: list[Potential], right: list[Potential], most: int
) -> list[list[tuple[int, dict[str, Any]]]]:
    """Return for each row of the left the rows of the right that it meets, and both together."""
    folds = _folds(join.left) | _folds(join.right)
    open_ = join.residual is None or folds.intersection(columns_of(join.residual))
    residual = (lambda _: True) if join.residual is None or open_ else compile_predicate(join.residual)
    left_on, right_on = ([compile_expression(pair[side]) for pair in join.on] for side in (0, 1))
    candidates: dict[Key, list[int]] = {}
    for number, each in enumerate(right):
        key = _key(each.row, right_on)
        if key is not None:
            candidates.setdefault(key, []).append(number)
    found: list[list[tuple[int, dict[str, Any]]]] = []
    many = 0
    for each in left:
        key = _key(each.row, left_on)
        rivals = candidates.get(key, []) if key is not None else []
        many += len(rivals)
        if many > most:
            raise Unknown
        pairs = ((number, {**each.row, **right[number].row}) for number in rivals)
        found.append([(number, both) for number, both in pairs if residual(both)])
    return found


def _nulls(relation: Relation, rows: list[Potential], tables: Tables) -> dict[str, Any]:
    names = output_columns(relation, tables)
    return dict.fromkeys(names if names is not None else rows[0].row if rows else ())


def _key(row: Any, computed: Iterable[Compiled]) -> Key | None:
    values = key_identity(compute(row) for compute in computed)
    return None if any(value is None for value in values) else values


def _together(left: list[Potential], right: list[Potential]) -> list[Potential]:
    """Let the rows of both sides stand, by position, under the names of the left; equal ones hang together."""
    if not left and not right:
        return []
    names = list((left or right)[0].row)
    every = [*left, *(replace(each, row=dict(zip(names, each.row.values(), strict=True))) for each in right)]
    shared: dict[Key, set[Versioned]] = {}
    for each in every:
        shared.setdefault(key_identity(each.row.values()), set()).update(each.hangs_on)
    return [
        Potential(each.row, frozenset(shared[key_identity(each.row.values())]), exact=False) for each in every
    ]


def before_grouping(relation: Relation, key: tuple[str, ...]) -> tuple[Relation, tuple[str, ...]] | None:
    """Return the rows that go into the view records, and which of their columns make the view key."""
    names = list(key)
    inner: Relation = relation
    while isinstance(inner, Select | Project):
        if isinstance(inner, Project):
            by_name = {column.name: column.expression for column in inner.columns}
            plain = [by_name.get(name) for name in names]
            if not all(isinstance(expression, Column) for expression in plain):
                return relation, key
            names = [expression.name for expression in plain if isinstance(expression, Column)]
        inner = inner.source
    if not isinstance(inner, Aggregate):
        return relation, key
    if not set(names) <= {column.name for column in inner.group} or len(names) != len(inner.group):
        return None
    return Project(source=inner.source, columns=inner.group), tuple(names)
