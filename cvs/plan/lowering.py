"""Relations into drafts of stages: what needs state becomes a draft, the rest rides on edges.

Selection and projection are substituted into the expressions of the next draft; UNION ALL is several branches
of one flow. Nothing is computed twice for two views: a draft is looked up by its identity first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cvs.errors import SpecificationError
from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    BaseTable,
    Distinct,
    Join,
    OrderBy,
    Project,
    Relation,
    Scan,
    Select,
    SetOperation,
    TopK,
    ViewDefinition,
)
from cvs.plan.cells import Cells, Ranges, decomposable, parts_of, summed
from cvs.plan.drafts import Branch, Draft, Flow, Port, Resolve, conjoined, resolved, source_types
from cvs.plan.exclusion import not_in
from cvs.plan.inference import type_of
from cvs.plan.joins import conjuncts
from cvs.plan.keys import EMPTY, facts
from cvs.plan.late import (
    Merge,
    Sighting,
    draft_shape,
    join_shape,
    later,
    own_wheres,
    pulled_sides,
    with_where,
)
from cvs.plan.relations import columns, with_small_right
from cvs.plan.types import common


@dataclass(slots=True, kw_only=True)
class Lowering:
    """Turns relations into flows; keeps every draft by its identity."""

    tables: Mapping[str, BaseTable]
    views: Mapping[str, ViewDefinition]
    share: bool = True
    drafts: list[Draft] = field(default_factory=list)
    known: dict[Any, Draft] = field(default_factory=dict)
    merges: Mapping[str, Merge] = field(default_factory=dict)
    sightings: dict[str, Sighting] = field(default_factory=dict)
    cells: Mapping[Any, Cells] = field(default_factory=dict)
    ranges: dict[Any, Ranges] = field(default_factory=dict)
    parts: dict[Any, tuple[Draft, list[str], list[str]]] = field(default_factory=dict)
    replicate: Callable[[Relation], bool] = lambda _: False

    def flow(self, relation: Relation) -> Flow:
        """Return a relation as a flow of changes."""
        match relation:
            case Scan():
                return self._scan(relation)
            case Select():
                return self._select(relation)
            case Project():
                return self._project(relation)
            case Distinct():
                return self._distinct(relation.source)
            case Aggregate():
                return self._aggregate(relation)
            case Join():
                return self._join(relation)
            case SetOperation():
                return self._set_operation(relation)
            case TopK():
                return self._top_k(relation)

    def _draft(self, identity: tuple[Any, ...], make: Callable[[str], Draft]) -> Draft:
        found = self.known.get(identity) if self.share else None
        if found is None:
            found = make(f"s{len(self.drafts) + 1}")
            found.shape = found.shape or draft_shape(found)
            self.drafts.append(found)
            self.known[identity] = found
        return found

    def _scan(self, relation: Scan) -> Flow:
        prefix = f"{relation.alias}."

        def plain(name: str) -> Expression:
            return Column(name.removeprefix(prefix))

        if relation.table in self.views:
            inner = self.flow(self.views[relation.table].relation)
            return tuple(_renamed(branch, plain) for branch in inner)
        table = self.tables.get(relation.table)
        if table is None:
            raise SpecificationError(
                f"there is no table or view {relation.table}", next_step=f"known: {', '.join(self.tables)}"
            )
        return (Branch(source=table, where=(), resolve=plain),)

    def _select(self, relation: Select) -> Flow:
        parts = conjuncts(relation.predicate)
        return tuple(
            Branch(
                source=branch.source,
                where=conjoined(branch.where, [resolved(p, branch.resolve) for p in parts]),
                resolve=branch.resolve,
            )
            for branch in self.flow(relation.source)
        )

    def _project(self, relation: Project) -> Flow:
        expressions = {column.name: column.expression for column in relation.columns}
        return tuple(_renamed(branch, expressions.__getitem__) for branch in self.flow(relation.source))

    def _distinct(self, source: Relation) -> Flow:
        if facts(source, self.known_tables()).keys:
            return self.flow(source)  # because rows with a unique key are different already
        names = columns(source, self.known_tables())
        port = Port(flow=self.flow(source), prefix="c")
        entering = _entering(port, names)
        draft = self._draft(
            ("distinct", port.identity(), tuple(port.columns)), _maker(kind="distinct", ports=(port,))
        )
        return _output(draft, dict(zip(names, entering, strict=True)))

    def _aggregate(self, relation: Aggregate) -> Flow:
        port = Port(flow=self.flow(relation.source), prefix="g")
        ranges = self._ranges(relation, port)
        if ranges is not None and ranges in self.cells and self.cells[ranges].fits(port.flow[0].where):
            return self._by_cells(relation, port, ranges)
        key = tuple(port.expression(column.expression) for column in relation.group)
        return self._grouped(relation, port, key)

    def _grouped(self, relation: Aggregate, port: Port, key: tuple[str, ...]) -> Flow:
        draft = self._group_draft(port, key)
        by_name = {column.name: column for column in relation.aggregates}
        group = {c.name: name for c, name in zip(relation.group, key, strict=True)}

        def resolve(name: str) -> Expression:
            return Column(group[name] if name in group else draft.aggregate(by_name[name], port))

        return (Branch(source=draft, where=(), resolve=resolve),)

    def _group_draft(self, port: Port, key: tuple[str, ...]) -> Draft:
        identity = ("aggregate", port.identity(), tuple(port.columns))
        return self._draft(identity, _maker(kind="aggregate", ports=(port,), key=tuple(dict.fromkeys(key))))

    def _ranges(self, relation: Aggregate, port: Port) -> Any:
        """Note what an aggregate of a base table selects; return what it must share to share cells."""
        source = port.flow[0].source
        if not isinstance(source, BaseTable) or not decomposable(relation, port, source_types(source)):
            return None
        key = (source.name, tuple(port.over_sources(column.expression) for column in relation.group))
        self.ranges.setdefault(key, Ranges()).wheres.add(port.flow[0].where)
        return key

    def _parts(self, relation: Aggregate, port: Port, ranges: Any) -> tuple[Draft, list[str], list[str]]:
        """Group by cell too, once for all views: the stage, its group columns, its cell columns."""
        if ranges not in self.parts:
            below = with_where(Port(flow=port.flow, prefix="g"), self.cells[ranges].shared)
            group = [below.expression(column.expression) for column in relation.group]
            marks = [below.demand((axis.cell(),)) for axis in self.cells[ranges].axes]
            self.parts[ranges] = (self._group_draft(below, (*group, *marks)), group, marks)
        return self.parts[ranges]

    def _by_cells(self, relation: Aggregate, port: Port, ranges: Any) -> Flow:
        """Sum up the cells of this view."""
        parts, group, marks = self._parts(relation, port, ranges)
        wheres: list[Expression] = []
        for axis, mark in zip(self.cells[ranges].axes, marks, strict=True):
            cut = axis.cells(port.flow[0].where)
            if cut is not None:
                bounds = zip((">=", "<="), cut, strict=True)
                wheres += [Call(operator, (Column(mark), Literal(at))) for operator, at in bounds]
        above = Port(flow=(Branch(source=parts, where=conjoined((), wheres), resolve=Column),), prefix="g")
        key = tuple(above.expression(Column(name)) for name in group)
        draft = self._group_draft(above, key)
        by_name = {column.name: column for column in relation.aggregates}
        named = {c.name: name for c, name in zip(relation.group, key, strict=True)}

        def resolve(name: str) -> Expression:
            if name in named:
                return Column(named[name])
            kept = [parts.aggregate(part, port) for part in parts_of(by_name[name])]

            def keep(function: AggregateFunction, number: int) -> str:
                column = AggregateColumn(name="", function=function, argument=Column(kept[number]))
                return draft.aggregate(column, above)

            return summed(by_name[name], keep)

        return (Branch(source=draft, where=(), resolve=resolve),)

    def _join(self, relation: Join) -> Flow:
        if relation.kind == "null-aware-anti":
            return self.flow(not_in(relation, self.known_tables()))
        relation = with_small_right(relation, self.replicate)
        left_names = frozenset(columns(relation.left, self.known_tables()))
        left = Port(flow=self.flow(relation.left), prefix="l")
        right = Port(flow=self.flow(relation.right), prefix="r")
        replicated = self._replicated(relation)
        left_key, right_key = self._keys(relation, left, right)
        residual = relation.residual
        within = None if residual is None else _sided(residual, left_names, left, right)
        shape = join_shape(relation.kind, (left, right), (left_key, right_key, within, replicated))
        merge = self.merges.get(shape)
        ports = (left, right) if merge is None else _merged_ports(relation.kind, (left, right), merge)
        identity = (
            "join", relation.kind, *(port.identity() for port in ports), tuple(left.columns), tuple(right.columns),
            left_key, right_key, within, replicated,
        )  # fmt: skip
        draft = self._draft(
            identity,
            _maker(
                kind="join",
                ports=ports,
                key=left_key,
                right_key=right_key,
                join=relation.kind,
                replicated=replicated,
                shape=shape,
            ),
        )
        sighting = self.sightings.setdefault(shape, Sighting())
        sighting.stages[draft.name] = own_wheres(relation.kind, (left, right))
        first, second = draft.ports

        def resolve(name: str) -> Expression:
            kept, asking = (first, left) if name in left_names else (second, right)
            return Column(kept.demand(asking.over_sources(Column(name))))

        if residual is not None and draft.residual is None:
            draft.residual = resolved(residual, resolve)
        sides = pulled_sides(relation.kind, (left, right)) if merge is not None else ()
        return (Branch(source=draft, where=later(draft, (left, right), sides), resolve=resolve),)

    def _keys(self, relation: Join, left: Port, right: Port) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Bring each pair of the ON to one type, so that equal values have equal bytes."""
        pairs: list[tuple[str, str]] = []
        for one, two in relation.on:
            kinds = [self._type(one, left.flow), self._type(two, right.flow)]
            wanted = common(kinds) or kinds[0]
            numbers = ("decimal", "double", "float")
            cast = kinds[0] != kinds[1] and any(k in numbers for k in kinds)
            a, b = (_cast(e, k, wanted) if cast else e for e, k in ((one, kinds[0]), (two, kinds[1])))
            pairs.append((left.expression(a), right.expression(b)))
        return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)

    def _type(self, expression: Expression, flow: Flow) -> str:
        branch = flow[0]
        return type_of(resolved(expression, branch.resolve), source_types(branch.source))

    def _replicated(self, relation: Join) -> bool:
        if relation.on:
            return relation.kind in ("inner", "left", "semi", "anti") and self.replicate(relation.right)
        if relation.kind not in ("inner", "left") or not self._one_row(relation.right):
            raise SpecificationError(
                f"a {relation.kind} product is maintained only where the right side has one row",
                next_step="join ON a = b",
            )
        return True

    def _one_row(self, relation: Relation) -> bool:
        return EMPTY in facts(relation, self.known_tables()).keys or self.replicate(relation)

    def _set_operation(self, relation: SetOperation) -> Flow:
        names, others = (columns(side, self.known_tables()) for side in (relation.left, relation.right))
        if relation.kind == "union":
            return self._union(relation, names, others)
        left = Port(flow=self.flow(relation.left), prefix="c")
        right = Port(flow=self.flow(relation.right), prefix="c")
        _positional(left, names)
        _positional(right, others)
        identity = (
            relation.kind,
            relation.all,
            left.identity(),
            tuple(left.columns),
            right.identity(),
            tuple(right.columns),
        )
        draft = self._draft(
            identity, _maker(kind="set", ports=(left, right), set_kind=relation.kind, all=relation.all)
        )
        return _output(draft, {name: f"c{i}" for i, name in enumerate(names)})

    def _union(self, relation: SetOperation, names: tuple[str, ...], others: tuple[str, ...]) -> Flow:
        back = dict(zip(names, others, strict=True))
        right = tuple(_renamed(b, lambda name: Column(back[name])) for b in self.flow(relation.right))
        flow = self.flow(relation.left) + right
        if relation.all:
            return flow
        port = Port(flow=flow, prefix="c")
        _positional(port, names)
        identity = ("distinct", port.identity(), tuple(port.columns))
        draft = self._draft(identity, _maker(kind="distinct", ports=(port,)))
        return _output(draft, {name: f"c{i}" for i, name in enumerate(names)})

    def _top_k(self, relation: TopK) -> Flow:
        names = columns(relation.source, self.known_tables())
        port = Port(flow=self.flow(relation.source), prefix="c")
        entering = dict(zip(names, _entering(port, names), strict=True))
        order = tuple(
            OrderBy(
                expression=Column(port.expression(term.expression)),
                descending=term.descending,
                nulls_first=term.nulls_first,
            )
            for term in relation.order
        )
        identity = ("top-k", port.identity(), tuple(port.columns), order, relation.limit, relation.offset)
        draft = self._draft(
            identity,
            _maker(kind="top-k", ports=(port,), order=order, limit=relation.limit, offset=relation.offset),
        )
        return _output(draft, entering)

    def known_tables(self) -> Mapping[str, BaseTable]:
        """Return base tables, and views as tables."""
        return self.tables


def _merged_ports(kind: str, ports: tuple[Port, Port], merge: Merge) -> tuple[Port, ...]:
    """Select what the merged join selects: the combined selection on base tables, nothing on stages."""
    sides = pulled_sides(kind, ports)
    return tuple(
        with_where(port, merge.wheres[side] or ()) if side in sides else port
        for side, port in enumerate(ports)
    )


def _renamed(branch: Branch, inner: Callable[[str], Expression]) -> Branch:
    outer: Resolve = branch.resolve
    return Branch(source=branch.source, where=branch.where, resolve=lambda name: resolved(inner(name), outer))


def _entering(port: Port, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(port.column(name) for name in names)


def _positional(port: Port, names: tuple[str, ...]) -> None:
    """Let columns enter by position: equal expressions must not fall together here."""
    for index, name in enumerate(names):
        expressions = tuple(branch.resolve(name) for branch in port.flow)
        while expressions in port.columns:
            expressions = tuple(Call("coalesce", (e,)) for e in expressions)
        port.columns[expressions] = f"{port.prefix}{index}"


def _output(draft: Draft, names: Mapping[str, str]) -> Flow:
    return (Branch(source=draft, where=(), resolve=lambda name: Column(names[name])),)


def _maker(**parts: Any) -> Callable[[str], Draft]:
    return lambda name: Draft(name=name, **parts)


def _sided(expression: Expression, left_names: frozenset[str], left: Port, right: Port) -> tuple[Any, ...]:
    """Return a residual as something two joins can be compared by: each column as its side and source."""

    def side(name: str) -> Expression:
        port, mark = (left, "left") if name in left_names else (right, "right")
        sources = tuple(repr(branch.resolve(name)) for branch in port.flow)
        return Call(mark, tuple(Literal(source) for source in sources))

    return (repr(resolved(expression, side)),)


def _cast(expression: Expression, kind: str, wanted: str) -> Expression:
    return expression if kind == wanted else Call(f"cast_{wanted}", (expression,))
