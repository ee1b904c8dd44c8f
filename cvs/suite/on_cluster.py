"""Runs of the user's views on real Cassandra: the same programs and schedules, tables made and thrown away."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from cvs.embedded.cluster import EmbeddedCluster
from cvs.model.cql_type import parse_type
from cvs.model.layout import quoted
from cvs.model.stages import Plan
from cvs.model.types import normal
from cvs.model.views import BaseTable
from cvs.programs.stage_codec import Values
from cvs.programs.stage_publish import PutRows
from cvs.simulate.feeds import Door, Naming
from cvs.store.schema import base_tables
from cvs.store.session import CassandraSession, ClusterAddress
from cvs.stream.door import CassandraDoor
from cvs.stream.tables import Names, create
from cvs.suite.user_views import UPDATES, UserViews
from cvs.suite.view_reports import ViewsExamined, examine_views


class ThrowAwayDoor:
    """A door to a keyspace of its own; published tables have other names there than the plan gives them."""

    def __init__(self, session: CassandraSession, keyspace: str, plan: Plan) -> None:
        self._session = session
        self._published = {
            p.table: replace(p, table=f"{keyspace}.published_{i}") for i, p in enumerate(plan.publications)
        }
        self.plan = replace(plan, publications=tuple(self._published.values()))
        self._door = CassandraDoor(
            session, keyspace=keyspace, publications={p.table: p for p in self.plan.publications}
        )

    def __call__(self, requests: list[Any]) -> list[Any]:
        """Carry out a round."""
        return self._door([self._there(request) for request in requests])

    def _there(self, request: Any) -> Any:
        if not isinstance(request, PutRows):
            return request
        return replace(request, publication=self._published[request.publication].table)

    def showing(self, table: str) -> Mapping[Values, Values]:
        """Return what plain CQL shows of a published table."""
        publication = self._published[table]
        names = [name for name, _ in publication.columns]
        types = [parse_type(kind) for _, kind in publication.columns]
        places = [names.index(name) for name in publication.key]
        columns = ", ".join(map(quoted, names))
        text = f"SELECT {columns} FROM {publication.table}"  # noqa: S608 -- because names are quoted or ours
        found = self._session.execute(text)
        rows = [tuple(normal(kind, value) for kind, value in zip(types, row, strict=True)) for row in found]
        return {tuple(row[place] for place in places): row for row in rows}


@contextmanager
def throw_away(session: CassandraSession, plan: Plan) -> Iterator[tuple[Door, Naming]]:
    """Make a keyspace with the tables of a plan, and drop it whatever happens."""
    keyspace = f"cvs_suite_{uuid4().hex[:12]}"
    door, names = ThrowAwayDoor(session, keyspace, plan), Names(keyspace=keyspace)
    try:
        create(session, door.plan, names)
        yield door, names
    finally:
        session.define(f"DROP KEYSPACE IF EXISTS {keyspace}")


def _address(hosts: str, port: int) -> ClusterAddress:
    return ClusterAddress(contact_points=tuple(host.strip() for host in hosts.split(",")), port=port)


def live_tables(hosts: str, port: int) -> dict[str, BaseTable]:
    """Return the base tables of a cluster."""
    session = CassandraSession(_address(hosts, port))
    try:
        return base_tables(session)
    finally:
        session.close()


def views_on_cluster(
    user: UserViews,
    *,
    hosts: str | None,
    port: int,
    examples: int,
    seed: int,
    updates: int = UPDATES,
    without: tuple[str, ...] = (),
) -> ViewsExamined:
    """Examine views on a cluster, or on one node that is booted for it and stopped again."""
    with ExitStack() as stack:
        if hosts:
            address = _address(hosts, port)
        else:
            node = stack.enter_context(EmbeddedCluster(size=1)).nodes[0]
            address = ClusterAddress(contact_points=(node.address,), port=node.native_port)
        session = CassandraSession(address)
        stack.callback(session.close)
        places = partial(throw_away, session, user.plan)
        return examine_views(
            user, examples=examples, seed=seed, updates=updates, without=without, places=places
        )
