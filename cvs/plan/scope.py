"""Names: which table or column a word of the SQL text means.

Every use of a table gets a prefix no other use in the same view has, so that a column's full name
(`prefix.column`) is unique through all nested queries and an outer reference is one that is not ours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from cvs.model.expressions import Call, Column, Expression, Literal
from cvs.model.views import BaseTable, Relation
from cvs.plan.refusal import nearest_of, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column as people write it, its full name, and its type."""

    name: str
    column: str
    type: str


@dataclass(slots=True, kw_only=True, eq=False)
class Source:
    """One entry of FROM: the name it has in the text, and its columns."""

    alias: str
    fields: tuple[Field, ...]
    named: dict[str, list[Field]] = field(init=False, default_factory=dict)  # by name in small letters

    def __post_init__(self) -> None:
        """Sort the columns by name: they are looked up often."""
        for it in self.fields:
            self.named.setdefault(it.name.lower(), []).append(it)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A translated query: its relation and the columns it gives, in order."""

    relation: Relation
    fields: tuple[Field, ...]


@dataclass(slots=True, kw_only=True)
class Scope:
    """What may be named at one place; `parent` is the query around this one."""

    sources: list[Source]
    parent: "Scope | None" = None

    @property
    def columns(self) -> set[str]:
        """Return the full names of this scope's own columns."""
        return {field.column for source in self.sources for field in source.fields}

    def find(self, node: exp.Column) -> Field:
        """Return the field a column reference means, looking outwards."""
        for scope in self._outwards():
            found = scope._own(node)
            if len(found) > 1:
                choices = " or ".join(f"{s.alias}.{f.name}" for s, f in found)
                if len({source.alias for source, _ in found}) < len(found):
                    choices = "one of them into a column of another name: SQL does not see case"
                raise refused(node, f"`{node.name}` is ambiguous", f"write {choices}")
            if found:
                return found[0][1]
        names = sorted({f.name for s in self.sources for f in s.fields})
        if node.table and node.table in names:
            reason = f"`{node.table}` is one value here: views do not look into it"
            raise refused(
                node, reason, f"select `{node.table}` as a whole, or store `{node.name}` in a column"
            )
        aliases = [source.alias for scope in self._outwards() for source in scope.sources]
        if node.table and node.table.lower() not in [alias.lower() for alias in aliases]:
            hint = "a subquery with GROUP BY, DISTINCT or LIMIT sees nothing around it: write x IN (SELECT x ...)"
            raise refused(node, f"there is no `{node.table}` here", f"here: {', '.join(aliases)}; {hint}")
        hint = f"{nearest_of(node.name, names)}columns here: {', '.join(names[:12])}"
        raise refused(node, f"there is no column `{node.sql(dialect='spark')}` here", hint)

    def _outwards(self) -> Iterator["Scope"]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def has(self, node: exp.Column) -> bool:
        """Say whether a column reference means a column of this scope itself."""
        return bool(self._own(node))

    def _own(self, node: exp.Column) -> list[tuple[Source, Field]]:
        table, name = node.table.lower(), node.name.lower()
        return [
            (source, found)
            for source in self.sources
            if not table or source.alias.lower() == table
            for found in source.named.get(name, ())
        ]


@dataclass(slots=True, kw_only=True)
class Names:
    """Tables and views a text may use, the keyspaces a bare name is looked for in first, and the prefixes given out."""

    tables: Mapping[str, BaseTable]
    homes: tuple[str, ...] = ()
    taken: set[str] = field(default_factory=set)

    def prefix(self, alias: str) -> str:
        """Give out a prefix nobody has yet."""
        name, number = alias, 2
        while name in self.taken:
            name, number = f"{alias}_{number}", number + 1
        self.taken.add(name)
        return name

    def table(self, node: exp.Table) -> BaseTable:
        """Return the base table or view a name means; a bare name gets its keyspace, and the text says it for good."""
        wanted = f"{node.db}.{node.name}" if node.db else node.name
        at_home = [] if node.db else [f"{home}.{wanted}" for home in self.homes]
        near = [self.tables[name] for name in at_home if name in self.tables][:1]
        exact = [t for name, t in self.tables.items() if name == wanted]
        loose = [t for name, t in self.tables.items() if name.lower() == wanted.lower()]
        by_end = [t for name, t in self.tables.items() if name.split(".")[-1].lower() == wanted.lower()]
        for found in (near, exact, loose, by_end):
            if len(found) == 1:
                _refuse_counters(found[0], node)
                if not node.db and "." in found[0].name:
                    node.set("db", exp.to_identifier(found[0].name.split(".")[0]))
                return found[0]
            if len(found) > 1:
                raise refused(node, f"`{wanted}` is ambiguous", "write " + " or ".join(t.name for t in found))
        known = ", ".join(sorted(self.tables)[:12]) or "none; make the base table first"
        hint = f"{nearest_of(wanted, self.tables)}known: {known}"
        raise refused(node, f"there is no table or view `{wanted}`", hint)


def _refuse_counters(table: BaseTable, node: exp.Table) -> None:
    counters = [name for name, kind in table.columns if kind == "counter"]
    if counters:
        raise refused(
            node,
            f"`{table.name}` counts in `{counters[0]}`: a counter has no row images to keep a view by",
            "write each amount as a row of its own and SUM them in the view",
        )


def columns_of(expression: Expression) -> set[str]:
    """Return the names of the columns an expression reads."""
    if isinstance(expression, Column):
        return {expression.name}
    if isinstance(expression, Call):
        return set().union(*(columns_of(argument) for argument in expression.arguments))
    return set()


def replaced(expression: Expression, by: Mapping[Expression, Expression]) -> Expression:
    """Return an expression with whole sub-expressions replaced, outermost first."""
    if not isinstance(expression, Literal) and expression in by:
        return by[expression]
    if isinstance(expression, Call):
        return Call(expression.function, tuple(replaced(a, by) for a in expression.arguments))
    return expression
