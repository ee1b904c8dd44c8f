"""The door for applications: a pipeline's views, found by the keyspace that holds its state."""

from functools import partial

from cassandra import InvalidRequest

from cvs.client.snapshot import ViewReader
from cvs.errors import StoreError
from cvs.model.layout import quoted
from cvs.model.stages import Plan
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import parse_views
from cvs.store.schema import base_tables
from cvs.store.session import CassandraSession, ClusterAddress


def open_views(address: ClusterAddress, *, keyspace: str = "cvs") -> ViewReader:
    """Open the views that were applied to a cluster; close what is returned, or use it in a `with`."""
    session = CassandraSession(address)
    return ViewReader(session, keyspace=keyspace, plan_of=partial(plan_of, session, keyspace))


def plan_of(session: CassandraSession, keyspace: str, incarnation: int) -> Plan:
    """Return the plan of an incarnation, made again from the views it was given: as its pipeline made it."""
    life = f"SELECT views, tables FROM {quoted(keyspace)}.catalog_lives WHERE incarnation = ?"
    try:
        found = session.execute(life, (incarnation,))
    except InvalidRequest:
        found = []
    if not found:
        raise StoreError(
            f"no view was applied to keyspace {keyspace}",
            where=f"incarnation {incarnation}",
            next_step="apply views with `cvs apply`, or name the keyspace of the pipeline's state",
        )
    views, ours = found[0]
    bases = {
        name: table
        for name, table in base_tables(session).items()
        if name not in (ours or ()) and not name.startswith(f"{keyspace}.")
    }
    return maintenance_plan(parse_views(views, bases), bases)
