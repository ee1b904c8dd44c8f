"""The catalog: which views a cluster keeps, in bookkeeping tables of a known version.

Definitions live in the cluster; `views.sql` is what is applied, `cvs dump` writes it back. Tables of an older
version are migrated step by step when a command first opens them, those of a newer one are refused.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal as OneOf
from uuid import uuid4

from cvs.errors import StoreError
from cvs.model.layout import quoted
from cvs.plan.sql import DeclaredView
from cvs.sidecar.leadership import leader_statement
from cvs.store.session import CassandraSession

BOOKKEEPING_VERSION = 4

CAPTURED_TABLE = "catalog_captured"

VIEW_COLUMNS = "name text PRIMARY KEY, position int, statement text, level text, paused boolean"

LIFE_COLUMNS = "incarnation bigint PRIMARY KEY, views text, tables list<text>"

AUDIT_COLUMNS = "name text PRIMARY KEY, incarnation bigint, epoch bigint, level text"

ALONE_SECONDS = 30
"""After which a process that changes what is kept, and was killed, hinders nobody."""

ChangeKind = OneOf["create", "replace", "drop", "unchanged", "kept", "aside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogView:
    """One view as the cluster remembers it."""

    name: str
    statement: str
    level: str
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLife:
    """One incarnation of the pipeline: its views as a text, and every table that it uses."""

    incarnation: int
    views: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What applying a text would do to one view."""

    kind: ChangeKind
    name: str
    before: str = ""
    after: str = ""


def statement_of(view: DeclaredView) -> str:
    """Return the statement that declares a view, as the catalog keeps it: always the same for the same view."""
    return view.statement


def changes(
    current: Mapping[str, CatalogView], declared: Iterable[DeclaredView], *, prune: bool = False
) -> list[Change]:
    """Compare what is kept with what a text declares, in the order in which it must be carried out."""
    wanted = {view.name: statement_of(view) for view in declared}
    found = [
        Change(
            kind="create"
            if name not in current
            else "replace"
            if current[name].statement != text
            else "unchanged",
            name=name,
            before=current[name].statement if name in current else "",
            after=text,
        )
        for name, text in wanted.items()
    ]
    gone = [
        Change(kind="drop" if prune else "kept", name=name, before=view.statement)
        for name, view in current.items()
        if name not in wanted
    ]
    return [*reversed(gone), *found]  # because what reads a view was declared after it, and goes before it


class Catalog:
    """The bookkeeping tables of one state keyspace."""

    def __init__(self, session: CassandraSession, *, keyspace: str) -> None:
        self._session = session
        self._name = f"{quoted(keyspace)}.catalog_views"
        self._version = f"{quoted(keyspace)}.catalog_version"
        self._captured = f"{quoted(keyspace)}.{CAPTURED_TABLE}"
        self._requests = f"{quoted(keyspace)}.catalog_requests"
        self._keyspace = keyspace
        self._lives = f"{quoted(keyspace)}.catalog_lives"
        self._audits = f"{quoted(keyspace)}.catalog_audits"
        self._keyspaces = f"{quoted(keyspace)}.catalog_keyspaces"

    def statements(self) -> list[str]:
        """Return the definitions of the bookkeeping tables."""
        return [
            f"CREATE TABLE IF NOT EXISTS {self._version} (id int PRIMARY KEY, version int, incarnation bigint)",
            f"CREATE TABLE IF NOT EXISTS {self._name} ({VIEW_COLUMNS})",
            f"CREATE TABLE IF NOT EXISTS {self._captured} (name text PRIMARY KEY)",
            leader_statement(self._keyspace),
            f"CREATE TABLE IF NOT EXISTS {self._requests} (name text PRIMARY KEY, kind text, write_time bigint)",
            f"CREATE TABLE IF NOT EXISTS {self._lives} ({LIFE_COLUMNS})",
            f"CREATE TABLE IF NOT EXISTS {self._audits} ({AUDIT_COLUMNS})",
            f"CREATE TABLE IF NOT EXISTS {self._keyspaces} (name text PRIMARY KEY)",
        ]

    def check(self) -> int:
        """Return the version of the tables that are there; refuse those of a newer cvs."""
        found = self._session.insist(f"SELECT version FROM {self._version} WHERE id = 0")
        version: int = (found[0][0] if found else None) or BOOKKEEPING_VERSION
        if version > BOOKKEEPING_VERSION:
            raise StoreError(
                f"the bookkeeping tables are of version {version}, this cvs knows {BOOKKEEPING_VERSION}",
                where=self._version,
                next_step="use the newer cvs that wrote them",
            )
        return version

    def create(self, keyspace: str = "") -> None:
        """Create the bookkeeping tables, or bring older ones to this version; refuse newer ones.

        `keyspace`: the statement that makes theirs, where it is not there yet.
        """
        known = not keyspace and self._has("catalog_version")
        version = self.check() if known else BOOKKEEPING_VERSION
        self._session.define_all([*filter(None, [keyspace]), *self.statements()])
        for step in range(version, BOOKKEEPING_VERSION):
            MIGRATIONS[step](self)
        self._session.insist(
            f"INSERT INTO {self._version} (id, version) VALUES (0, ?)", (BOOKKEEPING_VERSION,)
        )

    @contextmanager
    def alone(self, *, wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
        """Let one process at a time change what is kept: two would make different plans of one incarnation."""
        table, name = f"{quoted(self._keyspace)}.catalog_leader", uuid4().hex
        take = f"INSERT INTO {table} (id, process) VALUES (1, ?) IF NOT EXISTS USING TTL {ALONE_SECONDS}"
        while not self._session.execute(take, (name,))[0][0]:
            wait(0.2)
        try:
            yield
        finally:
            self._session.execute(f"DELETE FROM {table} WHERE id = 1 IF process = ?", (name,))

    def incarnation(self) -> int:
        """Return the number of the state's present life; 0 before the first apply."""
        found = self._session.insist(f"SELECT incarnation FROM {self._version} WHERE id = 0")
        return found[0][0] or 0 if found else 0

    def set_incarnation(self, number: int) -> None:
        """Remember which life of the state the definitions belong to."""
        self._session.insist(f"INSERT INTO {self._version} (id, incarnation) VALUES (0, ?)", (number,))

    def views(self) -> dict[str, CatalogView]:
        """Return the views that are kept, in the order in which they were declared."""
        rows = self._session.insist(f"SELECT position, name, statement, level, paused FROM {self._name}")
        return {
            name: CatalogView(name=name, statement=statement, level=level, paused=bool(paused))
            for _position, name, statement, level, paused in sorted(rows)
        }

    def put(self, views: Iterable[DeclaredView], *, paused: Iterable[str] = ()) -> None:
        """Remember views, each at its place in the text."""
        stopped = set(paused)
        for position, view in enumerate(views):
            self._session.insist(
                f"INSERT INTO {self._name} (name, position, statement, level, paused) VALUES (?, ?, ?, ?, ?)",
                (view.name, position, statement_of(view), view.options.level, view.name in stopped),
            )

    def remove(self, name: str) -> None:
        """Forget a view."""
        for table in (self._name, self._audits):
            self._session.insist(f"DELETE FROM {table} WHERE name = ?", (name,))

    def audits(self, incarnation: int) -> dict[str, str]:
        """Return the level that each view of an incarnation was last proved to have; no table: none was."""
        if not self._has("catalog_audits"):
            return {}
        rows = self._session.insist(f"SELECT name, incarnation, level FROM {self._audits}")
        return {name: level for name, of, level in rows if of == incarnation}

    def note_audit(self, name: str, level: str, *, incarnation: int, epoch: int) -> None:
        """Remember which level a view was proved to have, up to an epoch."""
        self._session.insist(
            f"INSERT INTO {self._audits} (name, incarnation, epoch, level) VALUES (?, ?, ?, ?)",
            (name, incarnation, epoch, level),
        )

    def lives(self) -> dict[int, CatalogLife]:
        """Return the incarnations that have tables, oldest first; none where an older cvs wrote the catalog."""
        if not self._has("catalog_lives"):
            return {}
        rows = self._session.insist(f"SELECT incarnation, views, tables FROM {self._lives}")
        return {
            number: CatalogLife(incarnation=number, views=views, tables=tuple(tables or ()))
            for number, views, tables in sorted(rows)
        }

    def state_tables(self) -> tuple[str, ...]:
        """Return the tables of state and DELTA that are there."""
        found = self._session.driver.cluster.metadata.keyspaces[self._keyspace].tables
        return tuple(
            f"{self._keyspace}.{name}" for name in sorted(found) if name.startswith(("delta_", "state_"))
        )

    def put_life(self, life: CatalogLife) -> None:
        """Remember an incarnation."""
        self._session.insist(
            f"INSERT INTO {self._lives} (incarnation, views, tables) VALUES (?, ?, ?)",
            (life.incarnation, life.views, list(life.tables)),
        )

    def remove_life(self, incarnation: int) -> None:
        """Forget an incarnation whose tables are gone."""
        self._session.insist(f"DELETE FROM {self._lives} WHERE incarnation = ?", (incarnation,))

    def pause(self, name: str, *, paused: bool) -> None:
        """Remember that a view is paused, or that it goes on."""
        self._session.insist(f"UPDATE {self._name} SET paused = ? WHERE name = ?", (paused, name))

    def captured(self) -> list[str]:
        """Return the base tables whose `cdc` we switched on, so that uninstalling can switch it off again."""
        return sorted(row[0] for row in self._session.insist(f"SELECT name FROM {self._captured}"))

    def note_captured(self, table: str) -> None:
        """Remember that we switched `cdc` on for a base table."""
        self._session.insist(f"INSERT INTO {self._captured} (name) VALUES (?)", (table,))

    def keyspaces_made(self) -> list[str]:
        """Return the keyspaces that we made for published tables; none where an older cvs made them."""
        if not self._has("catalog_keyspaces"):
            return []
        return sorted(row[0] for row in self._session.insist(f"SELECT name FROM {self._keyspaces}"))

    def note_keyspace(self, name: str) -> None:
        """Remember that we made a keyspace."""
        self._session.insist(f"INSERT INTO {self._keyspaces} (name) VALUES (?)", (name,))

    def _has(self, table: str) -> bool:
        return table in self._session.driver.cluster.metadata.keyspaces[self._keyspace].tables


def _note_life(catalog: Catalog) -> None:
    """Version 1 knew one incarnation and did not list what it has: its tables are those that are there."""
    number, views = catalog.incarnation(), catalog.views()
    if number and number not in catalog.lives():
        text = "\n".join(view.statement for view in views.values())
        catalog.put_life(
            CatalogLife(incarnation=number, views=text, tables=(*catalog.state_tables(), *views))
        )


def _nothing(_catalog: Catalog) -> None:
    """Version 3 has the table of audits, version 4 that of keyspaces, and nothing is known to put into them."""


MIGRATIONS: dict[int, Callable[[Catalog], None]] = {1: _note_life, 2: _nothing, 3: _nothing}
"""From version n to n + 1, beyond making the tables that are new."""
