"""Whole queries: SELECT, set operations, WITH, into relations of `model/views.py`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf

from sqlglot import exp

from cvs.model.expressions import Column, Expression
from cvs.model.views import Distinct, Named, OrderBy, Project, Relation, SetOperation, TopK
from cvs.plan.blocks import Block, Ctes, block, named_queries
from cvs.plan.constants import Typed, as_type
from cvs.plan.grouping import Grouping, grouped
from cvs.plan.refusal import refuse_clauses, refuse_extras, refused, shown
from cvs.plan.scalars import Scalars
from cvs.plan.scope import Field, Names, Query, Scope, Source
from cvs.plan.subqueries import Subqueries
from cvs.plan.types import common, ordered


@dataclass(slots=True, kw_only=True)
class Queries:
    """Translates queries; `names` knows the tables and gives out prefixes."""

    names: Names

    def query(self, node: exp.Expr, ctes: Ctes, prefix: str | None, parent: Scope | None = None) -> Query:
        """Translate a query; its columns are called `prefix.name`, or as people see them without one."""
        ctes = named_queries(node, ctes)
        if isinstance(node, exp.Subquery):
            refuse_clauses(node, {"this", "order", "limit", "offset", "with_"})
            return _limited(node, self.query(node.this, ctes, prefix, parent))
        if isinstance(node, exp.Select):
            return Selection(queries=self, node=node, ctes=ctes, prefix=prefix, parent=parent).translated()
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, ctes, prefix)
        raise refused(node, f"`{shown(node)}` is not a query a view can keep", "SELECT ... FROM ...")

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes, prefix: str | None) -> Query:
        kinds: dict[type[exp.Expr], OneOf["union", "intersect", "except"]] = {
            exp.Union: "union",
            exp.Intersect: "intersect",
            exp.Except: "except",
        }
        refuse_extras(node, {"distinct", "order", "limit", "offset", "with_"})
        left = self.query(node.left, ctes, prefix)
        right = self.query(node.right, ctes, self.names.prefix("right"))
        if len(left.fields) != len(right.fields):
            counts = f"{len(left.fields)} and {len(right.fields)}"
            raise refused(
                node, f"the two sides have {counts} columns", "select the same columns on both sides"
            )
        fields = tuple(
            Field(name=a.name, column=a.column, type=_merged(node, a, b))
            for a, b in zip(left.fields, right.fields, strict=True)
        )
        relation: Relation = SetOperation(
            kind=kinds[type(node)],
            all=not node.args.get("distinct"),
            left=_cast_to(fields, left),
            right=_cast_to(fields, right),
        )
        return _limited(node, Query(relation=relation, fields=fields))


@dataclass(slots=True, kw_only=True)
class Selection:
    """Translates one SELECT."""

    queries: Queries
    node: exp.Select
    ctes: Ctes
    prefix: str | None
    parent: Scope | None
    hidden: list[Named] = field(default_factory=list)
    outputs: tuple[Field, ...] = ()

    def translated(self) -> Query:
        """Return the relation of the whole SELECT."""
        found, deep = block(self.queries, self.node, self.ctes, self.parent)
        if found.correlated:
            raise refused(
                self.node, "this subquery reads the query around it in a place it cannot", "join the tables"
            )
        subqueries = Subqueries(translator=self.queries, block=found, ctes=self.ctes)
        for condition in deep:
            subqueries.condition(condition)
        self._written_out(found.scope)
        groups = grouped(self.queries, self.node, found)
        return self._finished(found, groups)

    def _written_out(self, scope: Scope) -> None:
        """Put columns where stars are."""
        parts = [
            column
            for node in self.node.expressions
            for column in (_star(scope, node) if node.is_star else [node])
        ]
        self.node.set("expressions", parts)

    def _finished(self, found: Block, groups: Grouping | None) -> Query:
        subqueries = Subqueries(translator=self.queries, block=found, ctes=self.ctes, grouping=groups)
        scalars = Scalars(scope=found.scope, hook=subqueries.hook)
        if groups is not None:
            groups.having(self.node, scalars, subqueries)
        columns, fields = self._projection(found, scalars, groups)
        self.outputs = fields
        order = self._order(scalars, groups, columns)
        relation: Relation = Project(source=found.item.relation, columns=(*columns, *self.hidden))
        if self.node.args.get("distinct"):
            if self.hidden:
                raise refused(
                    self.node.args["order"], "ORDER BY something that DISTINCT drops", "select it too"
                )
            relation = Distinct(source=relation)
        return self._top(relation, order, tuple(columns), fields)

    def _projection(
        self, found: Block, scalars: Scalars, groups: Grouping | None
    ) -> tuple[list[Named], tuple[Field, ...]]:
        columns: list[Named] = []
        fields: list[Field] = []
        for name, typed, node in self._outputs(found, scalars):
            expression = (
                groups.over_groups(node, typed.expression) if groups is not None else typed.expression
            )
            if any(f.name.lower() == name.lower() for f in fields):
                step = f"rename one with AS; `* EXCEPT ({name})` leaves it out of a star"
                raise refused(node, f"two columns are called `{name}`", step)
            full = f"{self.prefix}.{name}" if self.prefix else name
            columns.append(Named(name=full, expression=expression))
            fields.append(Field(name=name, column=full, type=typed.type))
        return columns, tuple(fields)

    def _outputs(self, found: Block, scalars: Scalars) -> Iterator[tuple[str, Typed, exp.Expr]]:
        for number, node in enumerate(self.node.expressions, start=1):
            name = node.alias if isinstance(node, exp.Alias) else ""
            if isinstance(node, exp.Column):  # as the table has it, however it is written here
                name = found.scope.find(node).name
            if not name and self.prefix is None:
                text = isinstance(node, exp.Literal) and node.is_string
                hint = f"; a column is written `{node.name}`, quotes make a text" if text else ""
                raise refused(node, f"`{shown(node)}` has no name", f"write it AS name{hint}")
            yield name or f"column_{number}", scalars.translate(node.unalias()), node

    def _order(self, scalars: Scalars, groups: Grouping | None, columns: list[Named]) -> tuple[OrderBy, ...]:
        order = self.node.args.get("order")
        if order is None or self.node.args.get("limit") is None:
            return ()
        return tuple(self._term(term, scalars, groups, columns) for term in order.expressions)

    def _term(
        self, term: exp.Ordered, scalars: Scalars, groups: Grouping | None, columns: list[Named]
    ) -> OrderBy:
        inner, named = term.this, list[Field]()
        position = _position(inner, len(columns))
        if position is not None:
            named = [self.outputs[position]]
        elif isinstance(inner, exp.Column) and not inner.table:
            named = [it for it in self.outputs if it.name.lower() == inner.name.lower()]
        if named and not ordered(named[0].type):
            raise refused(inner, f"{named[0].type} has no order", "order by something else")
        target = named[0].column if named else self._hidden(inner, scalars, groups, columns)
        return OrderBy(
            expression=Column(target),
            descending=bool(term.args.get("desc")),
            nulls_first=bool(term.args.get("nulls_first")),
        )

    def _hidden(self, node: exp.Expr, scalars: Scalars, groups: Grouping | None, columns: list[Named]) -> str:
        sortable = _sortable(node, scalars)
        expression = groups.over_groups(node, sortable) if groups is not None else sortable
        for column in (*columns, *self.hidden):
            if column.expression == expression:
                return column.name
        name = f"{self.prefix or ''}.order_{len(self.hidden) + 1}"
        self.hidden.append(Named(name=name, expression=expression))
        return name

    def _top(
        self,
        relation: Relation,
        order: tuple[OrderBy, ...],
        columns: tuple[Named, ...],
        fields: tuple[Field, ...],
    ) -> Query:
        limit, offset = _count(self.node, "limit"), _count(self.node, "offset") or 0
        if limit is None:
            if offset:
                raise refused(self.node, "OFFSET without LIMIT", "give both")
            return Query(relation=relation, fields=fields)
        if not order:
            raise refused(self.node, "LIMIT without ORDER BY keeps rows nobody chose", "add ORDER BY")
        relation = TopK(source=relation, order=order, limit=limit, offset=offset)
        if self.hidden:
            kept = tuple(Named(name=c.name, expression=Column(c.name)) for c in columns)
            relation = Project(source=relation, columns=kept)
        return Query(relation=relation, fields=fields)


def _star(scope: Scope, node: exp.Expr) -> list[exp.Expr]:
    """Return what a star stands for, column by column, so that the text says it for good."""
    star = node.this if isinstance(node, exp.Column) else node
    refuse_extras(star, {"except_"})
    table = node.table.lower() if isinstance(node, exp.Column) else ""
    found = [
        (s.alias, f.name) for s in scope.sources if not table or s.alias.lower() == table for f in s.fields
    ]
    if not found:
        raise refused(
            node, f"there is no `{table}` in FROM", f"known: {', '.join(s.alias for s in scope.sources)}"
        )
    names = {name.lower() for _, name in found}
    left_out = {part.name.lower(): part for part in star.args.get("except_") or ()}
    for name, part in left_out.items():
        if name not in names:
            raise refused(
                part, f"there is no column `{part.name}` here", f"columns here: {', '.join(sorted(names))}"
            )
    return [
        exp.column(exp.to_identifier(name), table=exp.to_identifier(alias) if alias else None)
        for alias, name in found
        if name.lower() not in left_out
    ]


def _limited(node: exp.Expr, query: Query) -> Query:
    """ORDER BY and LIMIT above a set operation, or behind a query in parentheses."""
    limit, offset, order = _count(node, "limit"), _count(node, "offset") or 0, node.args.get("order")
    if limit is None:
        if offset:
            raise refused(node, "OFFSET without LIMIT", "give both")
        return query
    if order is None:
        raise refused(node, "LIMIT without ORDER BY keeps rows nobody chose", "add ORDER BY")
    scalars = Scalars(scope=Scope(sources=[Source(alias="", fields=query.fields)]))
    terms: list[OrderBy] = []
    for term in order.expressions:
        place = _position(term.this, len(query.fields))
        meant = term.this if place is None else exp.column(exp.to_identifier(query.fields[place].name))
        expression = _sortable(meant, scalars)
        down, first = bool(term.args.get("desc")), bool(term.args.get("nulls_first"))
        terms.append(OrderBy(expression=expression, descending=down, nulls_first=first))
    relation = TopK(source=query.relation, order=tuple(terms), limit=limit, offset=offset)
    return Query(relation=relation, fields=query.fields)


def _position(term: exp.Expr, count: int) -> int | None:
    """Return which output column `ORDER BY 2` means, from 0; None where a term is no number."""
    if not isinstance(term, exp.Literal) or term.is_string:
        return None
    position = int(term.this) if str(term.this).isdigit() else 0
    if not 1 <= position <= count:
        raise refused(term, f"ORDER BY {term.this}: there are {count} columns", "name the column")
    return position - 1


def _sortable(node: exp.Expr, scalars: Scalars) -> Expression:
    typed = scalars.translate(node)
    if not ordered(typed.type):
        raise refused(node, f"{typed.type} has no order", "order by something else")
    return typed.expression


def _count(node: exp.Expr, clause: str) -> int | None:
    part = node.args.get(clause)
    if part is None:
        return None
    number = part.expression
    if not isinstance(number, exp.Literal) or not str(number.this).isdigit():
        raise refused(node, f"{clause.upper()} is not a whole constant", f"write {clause.upper()} 10")
    return int(number.this)


def _cast_to(fields: tuple[Field, ...], side: Query) -> Relation:
    """Bring a side to the common types, so that equal values have equal bytes in the state."""
    casts = [
        as_type(Typed(Column(own.column), own.type), wanted.type).expression
        for own, wanted in zip(side.fields, fields, strict=True)
    ]
    if all(isinstance(cast, Column) for cast in casts):
        return side.relation
    columns = tuple(
        Named(name=own.column, expression=cast) for own, cast in zip(side.fields, casts, strict=True)
    )
    return Project(source=side.relation, columns=columns)


def _merged(node: exp.Expr, left: Field, right: Field) -> str:
    result = common([left.type, right.type])
    if result is None:
        raise refused(
            node, f"`{left.name}` is {left.type} on one side, {right.type} on the other", "cast one side"
        )
    return result
