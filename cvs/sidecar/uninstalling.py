"""Uninstalling: what removes a pipeline whole, and what must stay since another pipeline needs it."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cassandra import InvalidRequest, Unauthorized

from cvs.errors import StoreError
from cvs.model.layout import is_delta_of, quoted
from cvs.sidecar.apply import dropped, switched
from cvs.sidecar.catalog import CAPTURED_TABLE, Catalog
from cvs.sidecar.leadership import LEASE_SECONDS, leader
from cvs.sidecar.views import Views


def wait_stopped(views: Views, *, seconds: float = LEASE_SECONDS + 1) -> None:
    """Refuse to remove what a sidecar still writes; one that was killed leads for the rest of its lease.

    A write to a table that is just being dropped stays in the commit log as one of a table that Cassandra knows no
    more: the drop fails on that node ("Unknown CF"), and so does each later one until the node is restarted.
    """
    end = time.monotonic() + seconds
    while who := leader(views.session, views.settings.views.state_keyspace):
        if time.monotonic() > end:
            raise StoreError(
                "a sidecar still keeps the views", where=who, next_step="end all `cvs run`, then again"
            )
        time.sleep(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What uninstalling a pipeline sends, and of which base tables `cdc` stays on, for whom."""

    statements: tuple[str, ...] = ()
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # base table -> other pipelines


def removal(views: Views) -> Removal:
    """Return what removes everything that was added, and nothing else."""
    kept = list(views.kept())
    own = views.settings.views.state_keyspace + "."
    used = {name for life in views.catalog.lives().values() for name in life.tables}
    older = sorted(name for name in used - {*kept} if not name.startswith(own))
    published = [dropped(name) for name in (*older, *reversed(kept))]
    emptied = [f"DROP KEYSPACE IF EXISTS {quoted(name)}" for name in _ours_alone(views, {*older, *kept})]
    captured = views.catalog.captured()
    shared = {name: others for name in captured if (others := _others(views, name))}
    switches = [
        one for name in captured if name not in shared for one in switched(views, name, capture=False)
    ]
    last = f"DROP KEYSPACE IF EXISTS {quoted(views.settings.views.state_keyspace)}"
    return Removal(statements=(*published, *emptied, *switches, last), shared=shared)


def carry_out_removal(views: Views, agreed: Removal) -> dict[str, tuple[str, ...]]:
    """Remove it; return the base tables whose `cdc` nobody will switch off any more, since we may note it nowhere."""
    forgotten = {
        name: others for name, others in agreed.shared.items() if not _handed_over(views, name, others)
    }
    for statement in agreed.statements:
        views.session.define(statement)
    return forgotten


def _others(views: Views, base: str) -> tuple[str, ...]:
    """Return the other pipelines of the cluster that keep views of a base table, by their state keyspaces.

    The schema says it, which every role may read: each base table has a DELTA in the pipeline's own keyspace.
    """
    own = views.settings.views.state_keyspace
    found = views.session.driver.cluster.metadata.keyspaces.items()
    return tuple(
        sorted(
            name
            for name, it in found
            if name != own and CAPTURED_TABLE in it.tables and any(is_delta_of(t, base) for t in it.tables)
        )
    )


def _handed_over(views: Views, base: str, others: Iterable[str]) -> bool:
    """Note in another catalog, whose removal hands it on, that `cdc` is to be switched off; False: we may in none."""
    return any(_noted(views, base, other) for other in others)


def _noted(views: Views, base: str, other: str) -> bool:
    try:
        Catalog(views.session, keyspace=other).note_captured(base)
    except (Unauthorized, InvalidRequest):  # another role's, or gone meanwhile
        return False
    return True


def _ours_alone(views: Views, published: set[str]) -> list[str]:
    """Return the keyspaces that we made and that nobody else put anything into."""
    found = views.session.driver.cluster.metadata.keyspaces
    made = [found[name] for name in views.catalog.keyspaces_made() if name in found]
    return [
        it.name
        for it in made
        if {f"{it.name}.{table}" for table in it.tables} <= published
        and not (it.user_types or it.functions or it.aggregates or it.views)
    ]
