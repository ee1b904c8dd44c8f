"""Which base records can matter to a view record, for views that are no fold over single base rows.

Every row that any base state of the run could have given is computed once, over all versions at the same time,
and carries the base records on which it hangs: a row of an inner join hangs on both its sides (Green, Karvounarakis
and Tannen's provenance); a row that a join pads with nulls, keeps or drops hangs on all partners it could have
met. What no row with a key hangs on cannot change what the view shows there, so the view record can be computed
from the others alone.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cvs.checker.replay import BaseRecord, Key, Row
from cvs.errors import AssumptionError
from cvs.model.expressions import Column, Compiled, columns_of, compile_expression, compile_predicate
from cvs.model.identity import key_identity, row_identity
from cvs.model.views import (
    Aggregate,
    BaseTable,
    Distinct,
    Join,
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

MOST_PRUNED = 3_000_000
"""... where rows are cut down to what joins and keys read, so that most versions of a record are one."""


Versions = Mapping[str, list[tuple[Versioned, Row]]]


class _Unknown(Exception):  # noqa: N818 -- because it is an outcome, not an error
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
        every = _Rows(by_table, tables, MOST).of(inner)
    except _Unknown:
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


@dataclass(slots=True)
class Reach:
    """Which versions of which base records can matter to each view record, rows cut down to what tells them apart."""

    near: dict[Key, dict[BaseRecord, int]] = field(
        default_factory=dict
    )  # per record a bit for each kind of version
    kinds: dict[BaseRecord, list[int]] = field(
        default_factory=dict
    )  # the bit of each version; 0: nothing is there

    # what makes rows, if that is exact
    rows: dict[tuple[Key, BaseRecord], list[frozenset[Versioned]]] | None = None

    def touches(self, key: Key, record: BaseRecord, place: int) -> bool:
        """Say whether the version at a place of a time-line can matter to a view record."""
        return bool(self.near[key].get(record, 0) & self.kinds[record][place])

    def moves(self, key: Key, record: BaseRecord, place: int, to: int) -> bool:
        """Say whether one of two versions can matter to a view record."""
        kinds = self.kinds[record]
        return bool(self.near[key].get(record, 0) & (kinds[place] | kinds[to]))

    def meets(self, key: Key, record: BaseRecord, places: Callable[[BaseRecord], tuple[int, int]]) -> bool:
        """Say whether a base record makes a row with others, if each of them stands at one of its two `places`."""
        if self.rows is None:
            return True
        stands: dict[BaseRecord, int] = {}
        for row in self.rows.get((key, record), ()):
            for other, kind in row:
                if other not in stands:
                    one, two = places(other)
                    stands[other] = self.kinds[other][one] | self.kinds[other][two]
                if not stands[other] >> kind & 1:
                    break
            else:
                return True
        return False

    def partners(self, key: Key, record: BaseRecord) -> set[BaseRecord]:
        """Return the base records with which one makes rows of a view record, if that is known exactly."""
        if self.rows is None:
            raise AssumptionError("what makes the rows of this view is not known exactly")
        return {other for row in self.rows.get((key, record), ()) for other, _ in row}


def reach_of(
    relation: Relation,
    key: tuple[str, ...],
    timelines: Mapping[BaseRecord, Sequence[Row | None]],
    tables: Tables,
) -> Reach | None:
    """Return what can matter to each view record of a relation with a key; None: not known.

    Linear in the versions where joins are on keys: versions that joins and keys cannot tell apart are one.
    """
    found = before_grouping(relation, key)
    if found is None:
        return None
    inner, columns = found
    read: dict[str, set[str]] = {}
    inner = _pruned(inner, set(columns), read)
    reach, kinds = Reach(), dict[str, list[tuple[Versioned, Row]]]()
    for record, rows in timelines.items():
        names = sorted(read.get(record[0], ()))
        known: dict[Hashable, int] = {}
        bits = reach.kinds[record] = []
        for row in rows:
            if row is None or record[0] not in read:
                bits.append(0)
                continue
            short = {name: row.get(name) for name in names} if ALL not in read[record[0]] else row
            many = len(known)
            number = known.setdefault(row_identity(short), many)
            if number == many:
                kinds.setdefault(record[0], []).append(((record, number), short))
            bits.append(1 << number)
    try:
        every = _Rows(kinds, tables, MOST_PRUNED).of(inner)
    except _Unknown:
        return None
    exact: dict[tuple[Key, BaseRecord], list[frozenset[Versioned]]] = {}
    for each in every:
        name = key_identity(each.row.get(column) for column in columns)
        own = reach.near.setdefault(name, {})
        for record, number in each.hangs_on:
            own[record] = own.get(record, 0) | 1 << number
            exact.setdefault((name, record), []).append(each.hangs_on)
    reach.rows = exact if all(each.exact for each in every) else None
    return reach


ALL = "*"
"""Stands for all columns of a table."""


def _pruned(relation: Relation, wanted: set[str] | None, read: dict[str, set[str]]) -> Relation:
    """Return a relation without the columns that nobody wants (None: all are), and note what it reads of tables."""
    match relation:
        case Scan():
            prefix = f"{relation.alias}."
            names = (
                {ALL} if wanted is None else {n.removeprefix(prefix) for n in wanted if n.startswith(prefix)}
            )
            read.setdefault(relation.table, set()).update(names)
            return relation
        case Select():
            more = None if wanted is None else wanted | set(columns_of(relation.predicate))
            return replace(relation, source=_pruned(relation.source, more, read))
        case Project():
            kept = tuple(c for c in relation.columns if wanted is None or c.name in wanted)
            more = {name for c in kept for name in columns_of(c.expression)}
            return replace(relation, columns=kept, source=_pruned(relation.source, more, read))
        case Join():
            told = [side for pair in relation.on for side in pair]
            told += [relation.residual] if relation.residual is not None else []
            more = None if wanted is None else wanted.union(*(columns_of(e) for e in told))
            left, right = (_pruned(side, more, read) for side in (relation.left, relation.right))
            return replace(relation, left=left, right=right)
        case SetOperation():  # by position, and equal rows hang together
            left, right = (_pruned(side, None, read) for side in (relation.left, relation.right))
            return replace(relation, left=left, right=right)
        case Distinct():
            return replace(relation, source=_pruned(relation.source, None, read))
        case _:
            return relation


@dataclass(frozen=True, slots=True)
class _Rows:
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
                keep = compile_predicate(relation.predicate)
                return [each for each in self.of(relation.source) if keep(each.row)]
            case Project():
                computed = [(c.name, compile_expression(c.expression)) for c in relation.columns]
                return [
                    replace(each, row={name: compute(each.row) for name, compute in computed})
                    for each in self.of(relation.source)
                ]
            case Distinct():
                return [replace(each, exact=False) for each in self.of(relation.source)]
            case Join():
                left, right = self.of(relation.left), self.of(relation.right)
                return _joined(relation, left, right, self.tables, self.most)
            case SetOperation():
                return _together(self.of(relation.left), self.of(relation.right))
            case _:
                raise _Unknown


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
        raise _Unknown  # each row hangs on every row of the other side
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
    residual = (lambda _: True) if join.residual is None else compile_predicate(join.residual)
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
            raise _Unknown
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
