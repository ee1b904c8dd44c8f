"""Subqueries into joins: EXISTS and IN are semi-joins, their negations anti-joins, a scalar subquery is an
aggregate that is joined to.

When the inner side changes, the join re-decides the outer rows: nothing else is needed for nested queries
(paper 000 section 5.1.4 calls them blocking and leaves them open).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import (
    Aggregate,
    AggregateColumn,
    AggregateFunction,
    Distinct,
    Join,
    JoinKind,
    Named,
    Project,
    Select,
)
from cvs.plan.blocks import Block, Ctes, Translator, block, named_queries
from cvs.plan.constants import Typed
from cvs.plan.joins import Item, conjunction, pair_of
from cvs.plan.keys import EMPTY, facts
from cvs.plan.refusal import refuse_clauses, refused, shown
from cvs.plan.scalars import Scalars
from cvs.plan.scope import Query, columns_of, replaced
from cvs.plan.types import comparable

if TYPE_CHECKING:
    from cvs.plan.grouping import Grouping

Pairs = tuple[tuple[Expression, Expression], ...]


def has_subquery(node: exp.Expr) -> bool:
    """Say whether a condition contains a query."""
    return node.find(exp.Select) is not None


@dataclass(slots=True, kw_only=True)
class Subqueries:
    """Adds subqueries of one block to its relation; `grouping` is set where they stand above GROUP BY."""

    translator: Translator
    block: Block
    ctes: Ctes
    grouping: "Grouping | None" = None
    marks: list[str] = field(default_factory=list)

    def condition(self, node: exp.Expr) -> None:
        """Take one condition of WHERE or HAVING that contains subqueries."""
        inner, negated = _without_not(node)
        if isinstance(inner, exp.Exists):
            self._exists(inner, negated)
        elif (
            isinstance(inner, exp.In) and inner.args.get("query") is not None and not has_subquery(inner.this)
        ):
            self._in(inner, negated)
        else:
            predicate = Scalars(scope=self.block.scope, hook=self.hook).predicate(node).expression
            self._put(Select(source=self.block.item.relation, predicate=self._outer(node, predicate)))

    def hook(self, node: exp.Expr) -> Typed | None:
        """Translate aggregates of the grouping, and scalar subqueries and EXISTS inside expressions."""
        if self.grouping is not None:
            kept = self.grouping.aggregate(node)
            if kept is not None:
                return kept
        if isinstance(node, exp.Subquery):
            return self._scalar(node)
        if isinstance(node, exp.Exists):
            return self._mark(node)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            raise refused(
                node,
                "IN (SELECT ...) inside OR, NOT or an expression is three-valued",
                "write it as a condition of its own joined by AND, or as EXISTS",
            )
        return None

    def _put(self, relation: Select | Join, columns: frozenset[str] = EMPTY) -> None:
        self.block.item = Item(relation=relation, columns=self.block.item.columns | columns)
        if self.grouping is not None:
            self.grouping.joined |= columns

    def _outer(self, node: exp.Expr, expression: Expression) -> Expression:
        return self.grouping.over_groups(node, expression) if self.grouping is not None else expression

    def _inner(self, node: exp.Expr) -> tuple[exp.Select, Ctes]:
        select = node.this if isinstance(node, exp.Subquery) else node
        if isinstance(node, exp.Subquery):
            refuse_clauses(node, {"this"})
        if not isinstance(select, exp.Select):
            raise refused(node, "a subquery here must be one SELECT", "put the set operation into FROM")
        return select, named_queries(select, self.ctes)

    def _correlation(self, node: exp.Expr, inner: Block) -> tuple[Pairs, list[Expression]]:
        """Split what reads outside into equalities (outer, inner) and the rest."""
        outer_columns = frozenset(self.block.scope.columns)
        pairs: list[tuple[Expression, Expression]] = []
        rest: list[Expression] = []
        for condition in inner.correlated:
            if not columns_of(condition) <= outer_columns | inner.item.columns:
                raise refused(
                    node, "a subquery reads two queries further out", "move the condition one level out"
                )
            pair = pair_of(condition, outer_columns, inner.item.columns)
            if pair is None:
                rest.append(self._outer(node, condition))
            else:
                pairs.append((self._outer(node, pair[0]), pair[1]))
        return tuple(pairs), rest

    def _exists(self, node: exp.Exists, negated: bool) -> None:
        select, ctes = self._inner(node.this)
        if _cut(select):
            raise refused(node, "LIMIT and OFFSET inside EXISTS", "leave them out: it asks for any row")
        if _groups(select):
            if select.args.get("group") is None and select.args.get("having") is None and _groups(select):
                raise refused(node, "EXISTS of an aggregate without GROUP BY is always true", "leave it out")
            query = self.translator.query(select, ctes, self.translator.names.prefix("exists"))
            self._nonempty(query, negated)
            return
        inner = self._block(select, ctes)
        pairs, rest = self._correlation(node, inner)
        if not pairs and rest:
            raise refused(
                node, "this subquery meets the outer query without an equality", "correlate with a = b"
            )
        if not pairs:
            fields = self.translator.names.prefix("exists")
            one = Project(
                source=inner.item.relation, columns=(Named(name=f"{fields}.one", expression=Literal(1)),)
            )
            self._nonempty(Query(relation=one, fields=()), negated)
            return
        self._join("anti" if negated else "semi", inner, pairs, rest)

    def _in(self, node: exp.In, negated: bool) -> None:
        value = Scalars(scope=self.block.scope, hook=self.hook).translate(node.this)
        left = self._outer(node, value.expression)
        select, ctes = self._inner(node.args["query"])
        kind: JoinKind = "null-aware-anti" if negated else "semi"
        if _groups(select) or _cut(select) or select.args.get("distinct"):
            query = self.translator.query(select, ctes, self.translator.names.prefix("in"))
            self._same_type(node, value, query.fields[0].type, len(query.fields))
            right = Item(relation=query.relation, columns=frozenset(f.column for f in query.fields))
            self._join(
                kind, Block(item=right, scope=self.block.scope), ((left, Column(query.fields[0].column)),), []
            )
            return
        inner = self._block(select, ctes)
        pairs, rest = self._correlation(node, inner)
        if len(select.expressions) != 1 or isinstance(select.expressions[0], exp.Star):
            raise refused(node, "IN needs a subquery of one column", "select that column")
        output = Scalars(scope=inner.scope, hook=self._nested(inner).hook).translate(
            select.expressions[0].unalias()
        )
        self._same_type(node, value, output.type, 1)
        if negated and (pairs or rest):
            raise refused(
                node, "NOT IN over a correlated subquery", "write NOT EXISTS (SELECT ... WHERE ...)"
            )
        self._join(kind, inner, ((left, output.expression), *pairs), rest)

    def _same_type(self, node: exp.In, value: Typed, kind: str, count: int) -> None:
        if count != 1:
            raise refused(node, f"IN needs a subquery of one column, not {count}", "select that column")
        if not comparable(value.type, kind):
            raise refused(node, f"{value.type} cannot be compared with {kind}", "cast one side")

    def _nested(self, inner: Block) -> "Subqueries":
        return Subqueries(translator=self.translator, block=inner, ctes=self.ctes)

    def _block(self, select: exp.Select, ctes: Ctes) -> Block:
        """Translate an inner block with its own subqueries already joined."""
        inner, deep = block(self.translator, select, ctes, self.block.scope)
        nested = Subqueries(translator=self.translator, block=inner, ctes=ctes)
        for condition in deep:
            nested.condition(condition)
        return inner

    def _join(self, kind: JoinKind, inner: Block, pairs: Pairs, rest: list[Expression]) -> None:
        relation = Join(
            kind=kind,
            left=self.block.item.relation,
            right=inner.item.relation,
            on=pairs,
            residual=conjunction(rest),
        )
        self._put(relation)

    def _nonempty(self, query: Query, negated: bool) -> None:
        """An uncorrelated EXISTS: count the inner rows once; outer rows meet whether there are any, not the count."""
        prefix = self.translator.names.prefix("count")
        count = AggregateColumn(name=f"{prefix}.rows", function=AggregateFunction.COUNT)
        counted = Aggregate(source=query.relation, group=(), aggregates=(count,))
        test = Call("=" if negated else ">", (Column(count.name), Literal(0)))
        answer = Named(name=f"{prefix}.answer", expression=test)
        right = Project(source=counted, columns=(answer,))
        product = Join(kind="inner", left=self.block.item.relation, right=right, on=())
        self._put(product, frozenset([answer.name]))
        self._put(Select(source=self.block.item.relation, predicate=Column(answer.name)))

    def _mark(self, node: exp.Exists) -> Typed:
        """EXISTS inside an expression: a left join with the different correlation values, and a test."""
        select, ctes = self._inner(node.this)
        inner = self._block(select, ctes)
        pairs, rest = self._correlation(node, inner)
        if rest or not pairs or _groups(select):
            raise refused(
                node, "this EXISTS inside an expression is not by equalities alone", "join it by AND"
            )
        prefix = self.translator.names.prefix("mark")
        keys = tuple(Named(name=f"{prefix}.k{i}", expression=b) for i, (_, b) in enumerate(pairs))
        right = Distinct(source=Project(source=inner.item.relation, columns=keys))
        on = tuple((a, Column(key.name)) for (a, _), key in zip(pairs, keys, strict=True))
        names = frozenset(key.name for key in keys)
        self._put(Join(kind="left", left=self.block.item.relation, right=right, on=on), names)
        found = Call("is_not_null", (Column(keys[0].name),))
        return Typed(found, "boolean")

    def _scalar(self, node: exp.Subquery) -> Typed:
        select, ctes = self._inner(node)
        if len(select.expressions) != 1:
            raise refused(node, "a scalar subquery has one column", "select one value")
        if not _groups(select) or select.args.get("group") is not None:
            return self._single(node, select, ctes)
        if select.args.get("having") is not None:
            raise refused(node, "HAVING in a scalar subquery", "put the condition into CASE")
        if _cut(select):
            raise refused(node, "LIMIT and OFFSET of one row", "leave them out")
        from cvs.plan.grouping import Grouping

        inner = self._block(select, ctes)
        pairs, rest = self._correlation(node, inner)
        if rest:
            raise refused(
                node, "this subquery meets the outer query without an equality", "correlate with a = b"
            )
        groups = Grouping(prefix=self.translator.names.prefix("inner"), scalars=Scalars(scope=inner.scope))
        nested = Subqueries(translator=self.translator, block=inner, ctes=ctes, grouping=groups)
        value = Scalars(scope=inner.scope, hook=nested.hook).translate(select.expressions[0].unalias())
        keys = tuple(Named(name=f"{groups.prefix}.k{i}", expression=b) for i, (_, b) in enumerate(pairs))
        right = Aggregate(source=inner.item.relation, group=keys, aggregates=tuple(groups.aggregates))
        on = tuple((a, Column(key.name)) for (a, _), key in zip(pairs, keys, strict=True))
        kind: JoinKind = "left" if pairs else "inner"
        kept = frozenset(a.name for a in groups.aggregates)
        stray = columns_of(value.expression) - kept
        if stray:
            raise refused(
                node, f"`{shown(select.expressions[0])}` mixes aggregates and plain columns", "aggregate all"
            )
        left = self.block.item.relation
        self._put(Join(kind=kind, left=left, right=right, on=on), kept | {key.name for key in keys})
        return Typed(replaced(value.expression, _zero_counts(groups.aggregates) if pairs else {}), value.type)

    def _single(self, node: exp.Subquery, select: exp.Select, ctes: Ctes) -> Typed:
        """A scalar subquery without aggregate: allowed only where at most one row is proved."""
        if self._block(select, ctes).correlated:
            raise refused(
                node,
                f"`{shown(node)}` may give several rows",
                "use MAX(...) or MIN(...), or join the table instead",
            )
        prefix = self.translator.names.prefix("scalar")
        query = self.translator.query(select, ctes, prefix)
        if EMPTY not in facts(query.relation, self.translator.names.tables).keys:
            raise refused(
                node,
                f"`{shown(node)}` may give several rows",
                "use MAX(...) or MIN(...), or compare the whole key with constants",
            )
        names = frozenset(f.column for f in query.fields)
        self._put(Join(kind="left", left=self.block.item.relation, right=query.relation, on=()), names)
        return Typed(Column(query.fields[0].column), query.fields[0].type)


def _zero_counts(aggregates: list[AggregateColumn]) -> dict[Expression, Expression]:
    """A group that is not there counts nothing: its COUNT is 0, not null."""
    counts = [a.name for a in aggregates if a.function is AggregateFunction.COUNT]
    return {Column(name): Call("coalesce", (Column(name), Literal(0))) for name in counts}


def _groups(select: exp.Select) -> bool:
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(
        isinstance(part, exp.AggFunc)
        for expression in select.expressions
        for part in expression.walk(prune=lambda n: isinstance(n, exp.Select | exp.Window))
    )


def _cut(select: exp.Select) -> bool:
    return bool(select.args.get("limit") or select.args.get("offset"))


def _without_not(node: exp.Expr) -> tuple[exp.Expr, bool]:
    negated = False
    while isinstance(node, exp.Not | exp.Paren):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    return node, negated
