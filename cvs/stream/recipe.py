"""What a pipeline is made of, as plain data: it travels to Spark's tasks and is made ready there once a process."""

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from cvs.capture.changes import TableDefinition
from cvs.errors import SpecificationError
from cvs.model.stages import Plan, Typed, columns_read
from cvs.model.views import BaseTable
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import DeclaredView, base_names, parse_views
from cvs.programs.epoch_run import BaseReader, Program
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.bases import base_reader, base_table
from cvs.stream.catalog import definitions
from cvs.stream.door import CassandraDoor
from cvs.stream.tables import Names
from cvs.version import VERSION

DELTA_BUCKETS = 64
STATE_FORMAT = 3
"""What rows of state and DELTA look like. Another number is other state: all views are built anew."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Plan, names and address of one pipeline."""

    plan: Plan
    definitions: Mapping[str, TableDefinition]
    names: Names
    address: ClusterAddress
    delta_buckets: int = DELTA_BUCKETS

    @cached_property
    def hash(self) -> str:
        """Name plan and code: an epoch pinned under one name is not run under another (H4).

        A column that no view names is no part of it: it may be added in the middle of an epoch.
        """
        return _digest((self.state, [*self.identities.values()], VERSION))

    @cached_property
    def identities(self) -> dict[str, str]:
        """Return the id of each base table: one that is dropped and made anew has another."""
        return {base.name: self.definitions[base.name].id for base in self.plan.bases}

    @cached_property
    def state(self) -> str:
        """Name what rows of state mean, whatever version wrote them: equal names may go on with each other's."""
        read = columns_read(self.plan)
        kept = [(base.name, base.key, _kept(base, read[base.name])) for base in self.plan.bases]
        return _digest(
            (STATE_FORMAT, kept, self.plan.zones, self.plan.publications, self.delta_buckets, self.names)
        )

    @cached_property
    def exact(self) -> str:
        """Name everything that a process makes ready."""
        return _digest((self.hash, self.plan, sorted(self.definitions.items())))

    def program(self) -> Program:
        """Make the plan ready to run: of base rows it sees the columns that it reads."""
        readers = self.readers(columns_read(self.plan))
        return Program.of(
            self.plan, readers, {zone.name: self.names.state(zone.name) for zone in self.plan.zones}
        )

    def readers(self, read: Mapping[str, Collection[str]] | None = None) -> list[BaseReader]:
        """Return what decodes the rows of each base table; `read`: which columns of them, None: all."""
        return [
            base_reader(
                self.definitions[base.name],
                base,
                delta=self.names.delta(base.name),
                buckets=self.delta_buckets,
                read=None if read is None else read[base.name],
            )
            for base in self.plan.bases
        ]

    def door(self, session: CassandraSession) -> CassandraDoor:
        """Return the door to this pipeline's tables."""
        publications = {publication.table: publication for publication in self.plan.publications}
        return CassandraDoor(session, keyspace=self.names.keyspace, publications=publications)


def _kept(base: BaseTable, read: Collection[str]) -> Typed:
    return tuple((name, kind) for name, kind in base.columns if name in read or name in base.key)


def _digest(parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


_made: dict[tuple[int, str], tuple[Program, CassandraDoor]] = {}


def made(recipe: Recipe) -> tuple[Program, CassandraDoor]:
    """Return program and door of this process, made at the first call; never those of the process forked from."""
    place = (os.getpid(), recipe.exact)
    if place not in _made:
        _made[place] = (recipe.program(), recipe.door(CassandraSession(recipe.address)))
    return _made[place]


def recipe_of(
    session: CassandraSession,
    views_sql: str,
    *,
    names: Names,
    keyspaces: tuple[str, ...],
    captured: bool = True,
) -> tuple[Recipe, tuple[DeclaredView, ...]]:
    """Read the schema, parse the views, plan them; `captured`: their changes come from commit logs."""
    known = definitions(session, keyspaces, captured=captured)
    tables: dict[str, BaseTable] = {name: base_table(it) for name, it in known.items()}
    try:
        views = parse_views(views_sql, tables)
    except SpecificationError:
        _refuse_uncaptured(session, views_sql, keyspaces, tables)
        raise
    if not views:
        raise SpecificationError(
            "no view is declared", next_step="CREATE MATERIALIZED VIEW ... AS SELECT ..."
        )
    plan = maintenance_plan(views, tables)
    used = {base.name for base in plan.bases}
    recipe = Recipe(
        plan=plan,
        definitions={name: it for name, it in known.items() if name in used},
        names=names,
        address=session.address,
    )
    return recipe, views


def _refuse_uncaptured(
    session: CassandraSession, views_sql: str, keyspaces: tuple[str, ...], known: Mapping[str, BaseTable]
) -> None:
    """Say it if the tables are there and only their changes are not captured: a node without CDC keeps no `cdc`."""
    present = {n: base_table(it) for n, it in definitions(session, keyspaces, captured=False).items()}
    views = parse_views(views_sql, {**present, **known})
    read = {name for view in views for name in base_names(view.definition)}
    if missing := sorted(read & present.keys() - known.keys()):
        raise SpecificationError(
            f"changes of {', '.join(missing)} are not captured: cdc is off",
            next_step="set cdc_enabled: true in each node's cassandra.yaml and restart it, then cvs apply views.sql",
        )
