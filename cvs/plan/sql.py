"""`views.sql`: statements, options, published keys. The door of the planner's language.

CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name
    TBLPROPERTIES ('cvs.level' = 'strong', 'cvs.key' = '(region), id DESC') AS SELECT ...
DROP MATERIALIZED VIEW [IF EXISTS] name
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from cvs.model.layout import MAX_NAME
from cvs.model.stages import Typed
from cvs.model.views import BaseTable, Relation, ViewDefinition
from cvs.plan.nearest import BASE_TABLE
from cvs.plan.options import ViewOptions, view_options
from cvs.plan.publish import PublishedKey, published_key
from cvs.plan.queries import Queries
from cvs.plan.reading import statements
from cvs.plan.refusal import place, refuse_clauses, refused, shown
from cvs.plan.relations import scans
from cvs.plan.scope import Names

_NAME = re.compile(rf"\w{{1,{MAX_NAME}}}", re.ASCII)
CREATE_CLAUSES = {"this", "kind", "replace", "expression", "exists", "properties"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredView:
    """One view of a text: its definition, its published columns, what it declares, what to know about it."""

    definition: ViewDefinition
    columns: Typed
    options: ViewOptions
    key: PublishedKey
    sql: str
    replace: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the view."""
        return self.definition.name

    @property
    def statement(self) -> str:
        """Return the statement that declares it: always the same for the same view."""
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in self.options.properties.items())
        return f"CREATE MATERIALIZED VIEW {self.name}\nTBLPROPERTIES ({listed})\nAS {self.sql};"

    @property
    def table(self) -> BaseTable:
        """Return the view as a table other views may read."""
        return BaseTable(
            name=self.name,
            columns=self.columns,
            partition_key=self.key.partition,
            clustering_key=tuple(name for name, _ in self.key.clustering),
        )


def parse_views(
    text: str, tables: Mapping[str, BaseTable] | Iterable[BaseTable], *, keyspace: str | None = None
) -> tuple[DeclaredView, ...]:
    """Parse and check a whole text; views may read the views before them. DROP takes a view out again."""
    known = dict(tables) if isinstance(tables, Mapping) else {t.name: t for t in tables}
    declared: dict[str, DeclaredView] = {}
    for node in statements(text):
        if isinstance(node, exp.Drop):
            _drop(node, declared, known)
            continue
        view = _declared(node, known, declared, keyspace)
        if view is not None:
            declared[view.name] = view
            known[view.name] = view.table
    return tuple(declared.values())


def names_of(text: str, keyspace: str | None = None) -> set[str]:
    """Return the full names of the views that a text makes."""
    heads = [_head(node) for node in statements(text) if not isinstance(node, exp.Drop)]
    return {_view_name(target, options, keyspace, {}) for target, options in heads}


def _declared(
    node: exp.Expr,
    known: Mapping[str, BaseTable],
    declared: Mapping[str, DeclaredView],
    keyspace: str | None,
) -> DeclaredView | None:
    target, options = _head(node)
    assert isinstance(node, exp.Create)
    name = _view_name(target, options, keyspace, known)
    if name in declared and node.args.get("exists"):
        return None
    if name in known and not (name in declared and node.args.get("replace")):
        raise refused(target, f"`{name}` exists already", "CREATE OR REPLACE, IF NOT EXISTS, or another name")
    body = node.expression
    if body is None:
        raise refused(target, f"`{name}` has no query", "write AS SELECT ...")
    visible = {n: t for n, t in known.items() if n != name}
    note: tuple[str, ...] = ()
    if body.args.get("order") is not None and body.args.get("limit") is None:
        note = ("ORDER BY without LIMIT orders nothing in a table: 'cvs.key' gives clustering order",)
    homes = (*([keyspace] if keyspace else []), name.split(".")[0])
    names = Names(tables=visible, homes=homes)
    query = Queries(names=names).query(body, {}, None)
    options = replace(options, rows=_sized(options, names, query.relation, target))
    columns = tuple((f.name, f.type) for f in query.fields)
    published = published_key(query.relation, columns, options, visible, target)
    definition = ViewDefinition(name=name, relation=published.relation, key=published.key.columns)
    return DeclaredView(
        definition=definition,
        columns=published.columns,
        options=options,
        key=published.key,
        sql=body.sql(dialect="spark", pretty=True, copy=False),
        replace=bool(node.args.get("replace")),
        warnings=(*note, *published.warnings),
    )


def _sized(
    options: ViewOptions, names: Names, relation: Relation, target: exp.Table
) -> tuple[tuple[str, int], ...]:
    """Return the declared numbers of rows by the full names of tables; they must be tables the view reads."""
    read = {scan.table for scan in scans(relation)}
    found: list[tuple[str, int]] = []
    for name, count in options.rows:
        table = names.table(exp.to_table(name)).name
        if table not in read:
            raise refused(
                target,
                f"cvs.rows names `{name}`, which the view does not read",
                f"one of {', '.join(sorted(read))}",
            )
        found.append((table, count))
    return tuple(sorted(found))


def _head(node: exp.Expr) -> tuple[exp.Table, ViewOptions]:
    """Check the head of a CREATE statement; return its name and options."""
    properties = node.args.get("properties")
    listed = properties.expressions if properties is not None else []
    if isinstance(node, exp.Create) and node.kind == "TABLE":
        raise refused(node, "`CREATE TABLE` among views", BASE_TABLE)
    if not isinstance(node, exp.Create) or node.kind != "VIEW":
        raise refused(
            node, f"`{shown(node)}` is no view", "CREATE MATERIALIZED VIEW name AS SELECT ..., or DROP"
        )
    if not any(isinstance(p, exp.MaterializedProperty) for p in listed):
        raise refused(node, "only materialized views are kept", "CREATE MATERIALIZED VIEW ...")
    target = node.this
    if not isinstance(target, exp.Table):
        raise refused(
            node, "a list of column names after the view's name", "name the columns with AS in the SELECT"
        )
    for clause, value in node.args.items():
        if value and clause not in CREATE_CLAUSES:
            raise refused(node, f"`{clause.upper()}` in CREATE", "leave it out")
    found: dict[str, str] = {}
    for entry in listed:
        if isinstance(entry, exp.MaterializedProperty):
            continue
        if type(entry) is not exp.Property or not entry.name:  # a name in quotes has one, a.b has not
            raise refused(target, f"`{shown(entry)}` in CREATE", "TBLPROPERTIES ('cvs.level' = 'strong')")
        if entry.name in found:
            raise refused(target, f"TBLPROPERTIES names {entry.name} twice", "name it once")
        found[entry.name] = str(entry.args["value"].name)
    return target, view_options(found, place(target))


def _view_name(
    target: exp.Table, options: ViewOptions, keyspace: str | None, known: Mapping[str, BaseTable]
) -> str:
    """Return the full name: as written, or in the declared keyspace, or in the only one there is."""
    if not _NAME.fullmatch(target.name):
        reason = f"`{target.name}` is no name of a table"
        raise refused(target, reason, f"letters, digits and _, at most {MAX_NAME} of them")
    if target.db:
        if options.keyspace not in (None, target.db):
            raise refused(
                target, f"cvs.keyspace is {options.keyspace}, the name says {target.db}", "say it once"
            )
        return f"{target.db}.{target.name}"
    default = options.keyspace or keyspace
    keyspaces = sorted({name.split(".")[0] for name in known if "." in name})
    if default is None and len(keyspaces) == 1:
        default = keyspaces[0]
    if default is None:
        raise refused(
            target, f"`{target.name}` has no keyspace", "write keyspace.name, or 'cvs.keyspace' = '...'"
        )
    return f"{default}.{target.name}"


def _drop(node: exp.Drop, declared: dict[str, DeclaredView], known: dict[str, BaseTable]) -> None:
    refuse_clauses(node, {"this", "tables", "kind", "exists", "materialized"})
    listed = node.args.get("tables") or [node.this]
    if node.args.get("kind") != "VIEW" or not node.args.get("materialized"):
        raise refused(node, f"`{shown(node)}` drops no materialized view", "DROP MATERIALIZED VIEW name")
    for target in listed:
        wanted = f"{target.db}.{target.name}" if target.db else target.name
        names = [n for n in declared if n in (wanted,) or n.split(".")[-1] == wanted]
        if not names and node.args.get("exists"):
            continue
        if not names:
            raise refused(
                target, f"there is no view `{wanted}` above", "`cvs drop` takes a view away that is kept"
            )
        users = [v.name for v in declared.values() if names[0] in base_names(v.definition)]
        if users:
            raise refused(target, f"`{names[0]}` is read by {', '.join(users)}", "drop those first")
        del declared[names[0]]
        del known[names[0]]


def base_names(definition: ViewDefinition) -> set[str]:
    """Return the tables and views a definition reads."""
    return {scan.table for scan in scans(definition.relation)}
