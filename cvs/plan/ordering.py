"""The order of joins: chains of inner joins, and the semi and anti joins on them, by what the cost model expects.

The paper (000 section 2.5) chains reverse-joins in an order by cost and names dynamic programming over connected
sub-plans; this is that. A join costs by the changes that arrive at it and follow from it, so the best order is not
the one of the smallest result but the one in which tables that change much pass few joins.

Equal columns are a class (a = b and b = c make a = c a join too, TPC-H Q5 and Q9): two sub-plans are joined by one
pair a class, since within each its columns are equal already. A semi or anti join may stand wherever the columns it
reads are. An order is changed only where that is expected to pay; the meaning of the view, by which it is judged, is
the definition as written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cvs.model.expressions import Call, Column, Expression
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
    TopK,
)
from cvs.plan.joins import conjunction, conjuncts, pair_of, selected
from cvs.plan.keys import facts
from cvs.plan.relations import columns, scans
from cvs.plan.scope import columns_of
from cvs.plan.sizes import Size, Sizes
from cvs.plan.statistics import selectivity

ITEMS_MAX = 10  # because dynamic programming looks at 3^n splits; longer chains stay as written
PAYS = 0.98

Price = tuple[int, float]
"""Joins of many with many whose fan-out is a guess, then milliseconds: a guess must not buy such a join."""

Pairs = tuple[tuple[Expression, Expression], ...]


@dataclass(slots=True, kw_only=True)
class _Region:
    """Inner joins that may change places: what is joined, on what, and what only filters."""

    leaves: list[Relation] = field(default_factory=list)
    filters: list[Join] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)

    def gather(self, relation: Relation) -> "_Tree":
        """Take a relation apart; return the order it is written in."""
        if isinstance(relation, Select):
            self.conditions += conjuncts(relation.predicate)
            return self.gather(relation.source)
        if isinstance(relation, Join) and relation.on and relation.kind == "inner":
            tree = _Tree(parts=(self.gather(relation.left), self.gather(relation.right)))
            self.conditions += [Call("=", pair) for pair in relation.on]
            self.conditions += [] if relation.residual is None else conjuncts(relation.residual)
            return tree
        if isinstance(relation, Join) and relation.on and relation.kind in ("semi", "anti"):
            tree = self.gather(relation.left)
            self.filters.append(relation)
            return _Tree(parts=(tree, _Tree(filter=len(self.filters) - 1)))
        self.leaves.append(relation)
        return _Tree(leaf=len(self.leaves) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """An order: a leaf, a filter, or two orders joined."""

    leaf: int = -1
    filter: int = -1
    parts: "tuple[_Tree, _Tree] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Best:
    """The cheapest way found to join some items, and how many joins of it multiply rows by a guess."""

    price: Price
    size: Size
    relation: Relation


class Orders:
    """Finds the order of joins of relations over known tables."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._known: dict[Relation, Relation] = {}

    def ordered(self, relation: Relation) -> Relation:
        """Return a relation of the same rows, its joins in the order that costs least."""
        match relation:
            case Scan():
                return relation
            case Project() | Aggregate():
                return replace(relation, source=self.ordered(relation.source))
            case Distinct() | TopK():
                return replace(relation, source=self._inside(relation.source))
            case SetOperation():
                return replace(relation, left=self._inside(relation.left), right=self._inside(relation.right))
            case Select() | Join():
                return self._region(relation)

    def _inside(self, relation: Relation) -> Relation:
        """Order below a relation whose columns are taken by position: itself it stays as it is."""
        if isinstance(relation, Select):
            return replace(relation, source=self._inside(relation.source))
        if isinstance(relation, Join):
            return replace(relation, left=self._inside(relation.left), right=self._inside(relation.right))
        return self.ordered(relation)

    def _region(self, relation: Relation) -> Relation:
        region = _Region()
        written = region.gather(relation)
        items = len(region.leaves) + len(region.filters)
        if items < 3 or items > ITEMS_MAX:
            return self._below(relation)
        if relation not in self._known:
            self._known[relation] = _Search(self, self._sizes, region).best(written) or self._below(relation)
        return self._known[relation]

    def _below(self, relation: Relation) -> Relation:
        """Order what stands below the joins, not the joins."""
        if isinstance(relation, Select):
            return replace(relation, source=self._below(relation.source))
        if isinstance(relation, Join):
            return replace(relation, left=self._below(relation.left), right=self._below(relation.right))
        return self.ordered(relation)


class _Search:
    """Dynamic programming over the items of one region; an item is a bit, leaves first, then filters."""

    def __init__(self, orders: Orders, sizes: Sizes, region: _Region) -> None:
        self._sizes, self._region = sizes, region
        self._leaves = [orders.ordered(leaf) for leaf in region.leaves]
        self._filters = [replace(it, right=orders.ordered(it.right)) for it in region.filters]
        self._columns = [frozenset(columns(leaf, sizes.tables)) for leaf in self._leaves]
        everything = [*self._leaves, *(it.right for it in self._filters)]
        self._mix = sizes.statistics.mix({scan.table for it in everything for scan in scans(it)})
        self._beside = [sizes.of(it.right, self._mix) for it in self._filters]
        self._classes, self._plain, self._own, self._constant = self._sorted()
        self._named = {c.name: equal[0].name for equal in self._classes for c in equal}
        self._keys = [
            [frozenset(map(self._class, key)) for key in facts(leaf, sizes.tables).keys]
            for leaf in self._leaves
        ]
        self._found: dict[int, _Best | None] = {}
        self._heads = (1 << len(self._leaves)) - 1
        for index in range(len(self._leaves)):
            self._found[1 << index] = self._leaf(index)

    def best(self, written: _Tree) -> Relation | None:
        """Return the region in its cheapest order; None if that is the order it is written in."""
        everything = (1 << (len(self._leaves) + len(self._filters))) - 1
        before = self._as_written(written)
        found = self._of(everything)
        if found is None or (before is not None and not _pays(found.price, before[1].price)):
            return None
        return selected(found.relation, self._constant)

    def _sorted(
        self,
    ) -> tuple[list[list[Column]], list[Expression], list[list[Expression]], list[Expression]]:
        """Sort the conditions: classes of equal columns, others between items, those of one item, of none."""
        types = self._types()
        classes: list[set[str]] = []
        plain: list[Expression] = []
        own: list[list[Expression]] = [[] for _ in self._leaves]
        constant: list[Expression] = []
        for condition in self._region.conditions:
            read = columns_of(condition)
            at = [i for i, names in enumerate(self._columns) if read & names]
            if not at:
                constant.append(condition)
            elif len(at) == 1:
                own[at[0]].append(condition)
            elif (pair := _columns_of_equality(condition)) and types.get(pair[0]) == types.get(pair[1], ""):
                _unite(classes, pair)
            else:
                plain.append(condition)
        for equal in classes:
            for i, names in enumerate(self._columns):
                here = sorted(equal & names)
                own[i] += [Call("=", (Column(here[0]), Column(other))) for other in here[1:]]
        return [[Column(name) for name in sorted(it)] for it in classes], plain, own, constant

    def _types(self) -> dict[str, str]:
        """Return the types of plain columns: only where they are equal, equality is transitive without doubt."""
        found: dict[str, str] = {}
        for leaf in self._leaves:
            if isinstance(leaf, Scan):
                table: BaseTable = self._sizes.tables[leaf.table]
                found |= {f"{leaf.alias}.{name}": kind for name, kind in table.columns}
        return found

    def _leaf(self, index: int) -> _Best:
        leaf, own = self._leaves[index], self._own[index]
        size = self._sizes.selected(self._sizes.of(leaf, self._mix), own)
        return _Best(price=(0, 0.0), size=size, relation=selected(leaf, own))

    def _of(self, mask: int) -> _Best | None:
        """Return the cheapest order of some items; None if they do not meet."""
        if mask in self._found:
            return self._found[mask]
        best: _Best | None = None
        for candidate in self._candidates(mask):
            if best is None or candidate.price < best.price:
                best = candidate
        self._found[mask] = best
        return best

    def _candidates(self, mask: int) -> Iterable[_Best]:
        for index in range(len(self._filters)):
            bit = 1 << (len(self._leaves) + index)
            if mask & bit and (filtered := self._filtered(mask & ~bit, index)) is not None:
                yield filtered
        lowest = mask & self._heads & -(mask & self._heads)
        one = (mask - 1) & mask
        while one:  # every way to split the items in two; the one with the first table is the left side
            other = mask & ~one
            if one & lowest and other & self._heads:
                joined = self._joined(one, other)
                if joined is not None:
                    yield joined
            one = (one - 1) & mask

    def _joined(self, one: int, other: int) -> _Best | None:
        pairs, rest = self._between(one, other)
        if not pairs:
            return None
        left, right = self._of(one), self._of(other)
        if left is None or right is None:
            return None
        keep = selectivity(conjunction(rest))
        size, ms = self._sizes.joined("inner", left.size, right.size, pairs, keep)
        relation = Join(
            kind="inner", left=left.relation, right=right.relation, on=pairs, residual=conjunction(rest)
        )
        price = _sum(left.price, right.price, (self._guessed(one, other, pairs, left.size, right.size), ms))
        return _Best(price=price, size=size, relation=relation)

    def _filtered(self, mask: int, index: int) -> _Best | None:
        it = self._filters[index]
        if not mask & self._heads or not self._reads(it) <= self._names(mask):
            return None
        left = self._of(mask)
        if left is None:
            return None
        right = self._beside[index]
        size, ms = self._sizes.joined(it.kind, left.size, right, it.on, selectivity(it.residual))
        return _Best(price=_sum(left.price, (0, ms)), size=size, relation=replace(it, left=left.relation))

    def _guessed(self, one: int, other: int, pairs: Pairs, left: Size, right: Size) -> int:
        """Say (1) that both sides may have many rows of a value, and how many is not known."""
        if self._unique(one, [a for a, _ in pairs]) or self._unique(other, [b for _, b in pairs]):
            return 0
        sides = ((left, [a for a, _ in pairs]), (right, [b for _, b in pairs]))
        return 0 if all(self._sizes.known(size, keys) for size, keys in sides) else 1

    def _unique(self, mask: int, expressions: Iterable[Expression]) -> bool:
        """Say whether values of these expressions determine one row of some joined tables."""
        known = {self._class(e.name) for e in expressions if isinstance(e, Column)}
        left = [i for i in range(len(self._leaves)) if mask >> i & 1]
        while left:
            found = next((i for i in left if any(key <= known for key in self._keys[i])), None)
            if found is None:
                return False
            left.remove(found)
            known |= {self._class(name) for name in self._columns[found]}
        return True

    def _class(self, name: str) -> str:
        return self._named.get(name, name)

    def _reads(self, it: Join) -> frozenset[str]:
        """Return the columns of the joined tables that a semi or anti join reads."""
        outer = frozenset().union(*self._columns)
        read = {name for a, _ in it.on for name in columns_of(a)}
        return frozenset(read | (columns_of(it.residual) & outer if it.residual is not None else set()))

    def _between(self, one: int, other: int) -> tuple[Pairs, list[Expression]]:
        """Return on what two sets of items are joined: a pair a class, and whatever else reads both."""
        left, right = self._names(one), self._names(other)
        pairs: list[tuple[Expression, Expression]] = []
        for equal in self._classes:
            a = next((c for c in equal if c.name in left), None)
            b = next((c for c in equal if c.name in right), None)
            if a is not None and b is not None:
                pairs.append((a, b))
        rest: list[Expression] = []
        for condition in self._plain:
            read = columns_of(condition)
            if read <= left | right and not read <= left and not read <= right:
                pair = pair_of(condition, left, right)
                if pair is None:
                    rest.append(condition)
                else:
                    pairs.append(pair)
        return tuple(pairs), rest

    def _names(self, mask: int) -> frozenset[str]:
        return frozenset().union(*(names for i, names in enumerate(self._columns) if mask >> i & 1))

    def _as_written(self, tree: _Tree) -> tuple[int, _Best] | None:
        """Cost the order as it is written."""
        if tree.parts is None:
            return (1 << tree.leaf, self._leaf(tree.leaf))
        first, second = tree.parts
        left = self._as_written(first)
        if left is None:
            return None
        if second.filter >= 0:
            it = self._filters[second.filter]
            beside = self._beside[second.filter]
            size, ms = self._sizes.joined(it.kind, left[1].size, beside, it.on, selectivity(it.residual))
            best = _Best(price=_sum(left[1].price, (0, ms)), size=size, relation=left[1].relation)
            return (left[0] | 1 << (len(self._leaves) + second.filter), best)
        right = self._as_written(second)
        if right is None:
            return None
        pairs, rest = self._between(left[0], right[0])
        if not pairs:
            return None
        size, ms = self._sizes.joined(
            "inner", left[1].size, right[1].size, pairs, selectivity(conjunction(rest))
        )
        many = self._guessed(left[0], right[0], pairs, left[1].size, right[1].size)
        price = _sum(left[1].price, right[1].price, (many, ms))
        best = _Best(price=price, size=size, relation=left[1].relation)
        return (left[0] | right[0], best)


def _sum(*prices: Price) -> Price:
    return (sum(many for many, _ in prices), sum(ms for _, ms in prices))


def _pays(new: Price, old: Price) -> bool:
    return new[0] < old[0] or (new[0] == old[0] and new[1] < old[1] * PAYS)


def _columns_of_equality(condition: Expression) -> tuple[str, str] | None:
    if isinstance(condition, Call) and condition.function == "=":
        one, two = condition.arguments
        if isinstance(one, Column) and isinstance(two, Column):
            return one.name, two.name
    return None


def _unite(classes: list[set[str]], pair: Iterable[str]) -> None:
    """Put two columns into one class, and the classes they are in."""
    equal = set(pair)
    for known in [it for it in classes if it & equal]:
        classes.remove(known)
        equal |= known
    classes.append(equal)
