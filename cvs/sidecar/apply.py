"""Applying a `views.sql`: first a proposal that names everything it would do, then, if agreed, the doing.

Everything cvs creates lives in the keyspaces the settings and the views name; of the user's own tables only
`cdc = true` is changed, and that only after it was shown.
"""

from dataclasses import dataclass

from cvs.errors import SpecificationError
from cvs.model.layout import create_statement, quoted
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import DeclaredView
from cvs.sidecar.catalog import Change, changes
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import Views
from cvs.stream.tables import Names, create


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What applying a text would do, in order."""

    views: tuple[DeclaredView, ...]
    changes: tuple[Change, ...]
    definitions: tuple[str, ...]
    captured: tuple[str, ...]  # base tables that would be given `cdc = true`
    removals: tuple[str, ...]
    incarnation: int
    filled: tuple[str, ...] = ()  # base tables with rows that were there before capture

    @property
    def empty(self) -> bool:
        """Say whether there is nothing to do."""
        return not self.captured and all(change.kind in ("unchanged", "kept") for change in self.changes)

    @property
    def statements(self) -> tuple[str, ...]:
        """Return every statement that would be sent."""
        return (*self.definitions, *(capture_statement(name) for name in self.captured), *self.removals)


def propose(views: Views, text: str, *, prune: bool = False) -> Proposal:
    """Compare a text with the cluster; nothing is changed."""
    kept = views.kept()
    declared = views.parsed(text)
    found = tuple(changes(kept, declared, prune=prune))
    staying = [change.name for change in found if change.kind == "kept"]
    wanted = (
        views.parsed("\n".join([*(kept[name].statement for name in staying), text])) if staying else declared
    )
    plan = maintenance_plan(wanted, views.bases())
    incarnation = views.catalog.incarnation() if kept else 0
    if any(change.kind in ("create", "replace", "drop") for change in found):
        incarnation += 1
    names = Names(keyspace=views.settings.views.state_keyspace, incarnation=max(1, incarnation))
    keyspaces = {names.keyspace, *(view.name.split(".", 1)[0] for view in wanted)}
    metadata = views.session.driver.cluster.metadata.keyspaces
    definitions = [
        *(keyspace_statement(name, views.settings) for name in sorted(keyspaces) if name not in metadata),
        *views.catalog.statements(),
        *(create_statement(layout) for layout in names.layouts(plan)),
    ]
    captured = [base.name for base in plan.bases if not _captured(views, base.name)]
    return Proposal(
        views=wanted,
        changes=found,
        definitions=tuple(definitions),
        captured=tuple(captured),
        removals=tuple(_dropped(change.name) for change in found if change.kind in ("drop", "replace")),
        incarnation=names.incarnation,
        filled=tuple(name for name in captured if _has_rows(views, name)),
    )


def carry_out(views: Views, proposal: Proposal) -> None:
    """Do what was proposed; each step may be repeated, so an interrupted apply is finished by another."""
    if proposal.incarnation > 1:
        raise SpecificationError(
            "the set of views of a pipeline cannot be changed yet",
            where=f"state keyspace {views.settings.views.state_keyspace}",
            next_step="keep these views by another pipeline: another [views] state_keyspace and feed",
        )
    session = views.session
    for statement in proposal.definitions:
        session.define(statement)
    views.catalog.create()
    plan = maintenance_plan(proposal.views, views.bases())
    names = Names(keyspace=views.settings.views.state_keyspace, incarnation=proposal.incarnation)
    create(session, plan, names, replication=views.settings.views.replication_factor)
    for name in proposal.captured:
        views.catalog.note_captured(name)
        session.define(capture_statement(name))
    views.catalog.put(proposal.views)
    views.catalog.set_incarnation(proposal.incarnation)


def uninstall_statements(views: Views) -> tuple[str, ...]:
    """Return what removes everything that was added, and nothing else."""
    published = [_dropped(name) for name in reversed(list(views.kept()))]
    switched = [f"ALTER TABLE {_full(name)} WITH cdc = false" for name in views.catalog.captured()]
    return (*published, *switched, f"DROP KEYSPACE IF EXISTS {quoted(views.settings.views.state_keyspace)}")


def keyspace_statement(name: str, settings: Settings) -> str:
    """Return the definition of a keyspace with the replication that the settings ask for."""
    replicas, datacenter = settings.views.replication_factor, settings.cluster.local_datacenter
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {quoted(name)} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', '{datacenter.replace(chr(39), chr(39) * 2)}': {replicas}}}"
    )


def capture_statement(table: str) -> str:
    """Return the one statement that changes a table of the user's."""
    return f"ALTER TABLE {_full(table)} WITH cdc = true"


def _captured(views: Views, table: str) -> bool:
    keyspace, name = table.split(".", 1)
    options = views.session.driver.cluster.metadata.keyspaces[keyspace].tables[name].options
    return bool(options.get("cdc"))


def _has_rows(views: Views, table: str) -> bool:
    return bool(views.session.execute(f"SELECT * FROM {_full(table)} LIMIT 1"))


def _dropped(table: str) -> str:
    return f"DROP TABLE IF EXISTS {_full(table)}"


def _full(table: str) -> str:
    return ".".join(quoted(part) for part in table.split(".", 1))
