"""Which versions of which base records can matter to each view record, where all versions are too many.

Versions that joins and keys cannot tell apart are one: then it is linear in the versions where joins are on keys.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cvs.checker.provenance import Potentials, Tables, Unknown, Versioned, before_grouping, require_known
from cvs.checker.replay import BaseRecord, Key, Row
from cvs.errors import AssumptionError
from cvs.model.expressions import columns_of
from cvs.model.identity import key_identity, row_identity
from cvs.model.views import Aggregate, Distinct, Join, Project, Relation, Scan, Select, SetOperation

MOST = 3_000_000
"""Pairs of rows that are looked at, at most: cut down to what joins and keys read, most versions are one."""


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
        require_known(inner, columns)
        every = Potentials(kinds, tables, MOST).of(inner)
    except Unknown:
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
        case Aggregate():
            told = [column.expression for column in relation.group]
            told += [column.argument for column in relation.aggregates if column.argument is not None]
            more = {name for expression in told for name in columns_of(expression)}
            return replace(relation, source=_pruned(relation.source, more, read))
        case _:
            return relation
