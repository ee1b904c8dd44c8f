"""One query block up to WHERE: its FROM joined, its conditions placed, its subqueries turned into joins.

Conditions that read columns of the query around are kept apart (`correlated`): the one who asked for the
block turns them into the ON of a semi-join, an anti-join or a left join (decorrelation).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from cvs.model.expressions import Call, Column, Expression
from cvs.model.views import JoinKind, Named, Project, Scan
from cvs.plan.joins import Item, combined, conjuncts, outer_joined, selected
from cvs.plan.refusal import refuse_clauses, refused, shown
from cvs.plan.scalars import Scalars
from cvs.plan.scope import Field, Names, Query, Scope, Source, columns_of

SELECT_CLAUSES = {
    "expressions", "from_", "joins", "where", "group", "having",
    "distinct", "order", "limit", "offset", "with_", "kind",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cte:
    """One named query of a WITH, and the named queries it may read: those before it, so that none can call itself."""

    node: exp.CTE
    before: "Ctes"


Ctes = Mapping[str, Cte]


def named_queries(node: exp.Expr, ctes: Ctes) -> Ctes:
    """Return the named queries that a query may read: those around it, and those of its own WITH."""
    clause = node.args.get("with_")
    if clause is None:
        return ctes
    if clause.args.get("recursive"):
        raise refused(
            node, "WITH RECURSIVE is not incremental", "views have a fixed depth: write the steps out"
        )
    known, own = dict(ctes), set[str]()
    for cte in clause.expressions:
        name = cte.alias.lower()
        if name in own:
            raise refused(cte, f"WITH names `{cte.alias}` twice", "give one of them another name")
        own.add(name)
        known[name] = Cte(node=cte, before=dict(known))
    return known


class Translator(Protocol):
    """What a block needs of the translator of whole queries."""

    names: Names

    def query(self, node: exp.Expr, ctes: Ctes, prefix: str | None, parent: Scope | None = None) -> Query:
        """Translate a whole query."""
        ...


@dataclass(slots=True, kw_only=True)
class Block:
    """A block in the making: the relation so far, what may be named, conditions that look outside."""

    item: Item
    scope: Scope
    correlated: list[Expression] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class From:
    """Collects FROM: items joined so far, and conditions not placed yet."""

    translator: Translator
    ctes: Ctes
    scope: Scope
    pool: list[Item] = field(default_factory=list)
    steps: list[tuple[JoinKind, Item, list[Expression], exp.Join]] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)

    def add(self, node: exp.Expr) -> tuple[Item, Source]:
        """Translate one entry of FROM."""
        source, item = self._entry(node)
        if any(s.alias.lower() == source.alias.lower() for s in self.scope.sources):
            raise refused(node, f"`{source.alias}` stands twice in FROM", "give one of them an alias")
        self.scope.sources.append(source)
        return item, source

    def _entry(self, node: exp.Expr) -> tuple[Source, Item]:
        names = self.translator.names
        if isinstance(node, exp.Table) and (node.db or node.name.lower() not in self.ctes):
            refuse_clauses(node, {"this", "db", "alias"})
            alias_node = node.args.get("alias")
            if alias_node is not None and alias_node.args.get("columns"):
                raise refused(
                    node, "other names for a table's columns", "FROM (SELECT id AS a, ... FROM table) AS name"
                )
            table = names.table(node)
            alias = node.alias_or_name
            prefix = names.prefix(alias)
            fields = tuple(Field(name=n, column=f"{prefix}.{n}", type=t) for n, t in table.columns)
            relation: object = Scan(table=table.name, alias=prefix)
            return Source(alias=alias, fields=fields), _item(Scan(table=table.name, alias=prefix), fields)
        if isinstance(node, exp.Table):
            refuse_clauses(node, {"this", "alias"})
            cte, alias = self.ctes[node.name.lower()], node.alias_or_name
            body, visible = cte.node.this, cte.before
            columns = _new_names(node) or _new_names(cte.node)
        elif isinstance(node, exp.Subquery):
            refuse_clauses(node, {"this", "alias"})
            body, visible, alias = node.this, self.ctes, node.alias_or_name
            columns = _new_names(node)
            if not alias:
                raise refused(node, "a subquery in FROM has no name", "write (SELECT ...) AS name")
        else:
            raise refused(node, f"`{shown(node)}` cannot stand in FROM", "a table, a view or a subquery")
        prefix = names.prefix(alias)
        query = self.translator.query(body, visible, prefix)
        fields = query.fields
        relation = query.relation
        if columns:
            if len(columns) != len(fields):
                raise refused(
                    node, f"{alias} names {len(columns)} columns of {len(fields)}", "name all of them"
                )
            renamed = tuple(
                Named(name=f"{prefix}.{new}", expression=Column(f.column))
                for new, f in zip(columns, fields, strict=True)
            )
            fields = tuple(
                Field(name=new, column=f"{prefix}.{new}", type=f.type)
                for new, f in zip(columns, fields, strict=True)
            )
            return Source(alias=alias, fields=fields), _item(
                Project(source=relation, columns=renamed), fields
            )
        return Source(alias=alias, fields=fields), _item(relation, fields)

    def read_join(self, node: exp.Join) -> None:
        """Take one JOIN (or comma) into the scope; it is assembled when WHERE has been read."""
        refuse_clauses(node, {"this", "on", "using", "side", "kind"})
        kind = _join_kind(node)
        left_sources = list(self.scope.sources)
        item, source = self.add(node.this)
        on = self._on(node, left_sources, source)
        if kind in ("semi", "anti"):
            self.scope.sources.remove(source)
        self.steps.append((kind, item, on, node))

    def assemble(self, where: list[Expression]) -> None:
        """Join everything; WHERE may sink below outer joins unless one of them fills its left side."""
        sinking = where if all(kind not in ("right", "full") for kind, *_ in self.steps) else []
        for kind, item, on, node in self.steps:
            if kind == "inner":
                self.pool.append(item)
                self.conditions += on
            else:
                left = self._left_of(kind, on, sinking, node)
                self.pool.append(outer_joined(kind, left, item, on, node))

    def _left_of(
        self, kind: JoinKind, on: list[Expression], sinking: list[Expression], node: exp.Join
    ) -> Item:
        """Take from the pool what an outer join stands on: the one item its ON reads, or all of them."""
        read = set().union(*(columns_of(c) for c in on))
        needed = [item for item in self.pool if item.columns & read]
        if kind in ("right", "full") or len(needed) != 1:
            needed = list(self.pool)
        for item in needed:
            self.pool.remove(item)
        own = frozenset().union(*(item.columns for item in needed))
        usable: list[Expression] = []
        for conditions in (self.conditions, sinking):
            found = [c for c in conditions if columns_of(c) <= own]
            usable += found
            for condition in found:
                conditions.remove(condition)
        left = combined(needed, usable, node)
        return Item(relation=selected(left.relation, usable), columns=left.columns)

    def _on(self, node: exp.Join, left: list[Source], right: Source) -> list[Expression]:
        if node.args.get("using"):
            return self._using(node, left, right)
        condition = node.args.get("on")
        return conjuncts(Scalars(scope=self.scope).predicate(condition).expression) if condition else []

    def _using(self, node: exp.Join, left: list[Source], right: Source) -> list[Expression]:
        """Equal columns by name; the right one disappears behind the left one."""
        if node.side in ("RIGHT", "FULL"):
            raise refused(
                node, "USING with a right or full join", "write ON a.x = b.x and COALESCE(a.x, b.x)"
            )
        found: list[Expression] = []
        for identifier in node.args["using"]:
            column = exp.column(identifier.name)
            a = Scope(sources=left).find(column)
            b = Scope(sources=[right]).find(column)
            found.append(Call("=", (Column(a.column), Column(b.column))))
        hidden = {identifier.name.lower() for identifier in node.args["using"]}
        kept = tuple(f for f in right.fields if f.name.lower() not in hidden)
        self.scope.sources[self.scope.sources.index(right)] = Source(alias=right.alias, fields=kept)
        return found


def block(
    translator: Translator, node: exp.Select, ctes: Ctes, parent: Scope | None
) -> tuple[Block, list[exp.Expr]]:
    """Translate FROM and the plain part of WHERE; return also the conditions with subqueries."""
    _only_known(node)
    scope = Scope(sources=[], parent=parent)
    tables = From(translator=translator, ctes=ctes, scope=scope)
    start = node.args.get("from_")
    if start is None:
        raise refused(node, "a view without FROM never changes", "SELECT ... FROM a table")
    item, _ = tables.add(start.this)
    tables.pool.append(item)
    for join in node.args.get("joins") or []:
        tables.read_join(join)
    plain, deep = _split_where(node.args.get("where"))
    scalars = Scalars(scope=scope)
    where = [c for part in plain for c in conjuncts(scalars.predicate(part).expression)]
    tables.assemble(where)
    tables.conditions += where
    own = frozenset().union(*(item.columns for item in tables.pool))
    outside = [c for c in tables.conditions if not columns_of(c) <= own]
    inside = [c for c in tables.conditions if columns_of(c) <= own]
    joined = combined(tables.pool, inside, node)
    item = Item(relation=selected(joined.relation, inside), columns=joined.columns)
    return Block(item=item, scope=scope, correlated=outside), deep


def _split_where(where: exp.Where | None) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return the conditions without and with subqueries."""
    parts = list(where.this.flatten()) if where is not None and isinstance(where.this, exp.And) else []
    if where is not None and not parts:
        parts = [where.this]
    deep = [part for part in parts if part.find(exp.Select) is not None]
    return [part for part in parts if part not in deep], deep


def _item(relation: Scan | Project | object, fields: tuple[Field, ...]) -> Item:
    return Item(relation=relation, columns=frozenset(f.column for f in fields))  # type: ignore[arg-type]


def _join_kind(node: exp.Join) -> JoinKind:
    side, kind = node.side.upper(), node.kind.upper()
    if kind in ("SEMI", "ANTI"):
        return "semi" if kind == "SEMI" else "anti"
    if side in ("LEFT", "RIGHT", "FULL"):
        return {"LEFT": "left", "RIGHT": "right", "FULL": "full"}[side]  # type: ignore[return-value]
    return "inner"


def _new_names(node: exp.Expr) -> list[str]:
    """Return the names that an alias gives to the columns, if it does."""
    alias = node.args.get("alias")
    return [column.name for column in alias.args.get("columns") or []] if alias else []


def _only_known(node: exp.Select) -> None:
    refuse_clauses(node, SELECT_CLAUSES)
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise refused(node, "DISTINCT ON keeps rows nobody chose", "use GROUP BY with MIN or MAX")
