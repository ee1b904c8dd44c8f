"""Applying a `views.sql`: first a proposal that names everything it would do, then, if agreed, the doing.

Everything cvs creates lives in the keyspaces the settings and the views name; of the user's own tables only
`cdc = true` is changed, and that only after it was shown.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from cvs.capture.opening import filled_by_others
from cvs.errors import SpecificationError, StoreError
from cvs.model.layout import quoted
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.sql import DeclaredView, names_of
from cvs.sidecar.catalog import CatalogLife, CatalogView, Change, changes, statement_of
from cvs.sidecar.settings import Settings
from cvs.sidecar.soundness import settled, soundness
from cvs.sidecar.views import Views
from cvs.store.doctor import nodes_without
from cvs.store.schema import static_compact
from cvs.stream.build import PREFIX
from cvs.stream.quarantine import forget
from cvs.stream.retiring import drop_tables
from cvs.stream.tables import Names, create, definitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What applying a text would do, in order."""

    views: tuple[DeclaredView, ...]
    changes: tuple[Change, ...]
    definitions: tuple[str, ...]
    captured: tuple[str, ...]  # base tables that would be given `cdc = true`
    switches: tuple[str, ...]  # the statements for that
    removals: tuple[str, ...]  # sent once the new incarnation serves
    incarnation: int
    tables: tuple[str, ...]  # every table the incarnation uses
    filled: tuple[str, ...] = ()  # base tables with rows that are there already: they are read once
    keyspaces: tuple[str, ...] = ()  # that would be made
    since: int = 0  # the incarnation that it was compared with
    rebuilt: bool = False  # asked for, whether or not the views change
    deaf: tuple[str, ...] = ()  # nodes that keep no changes: they take `cdc = true` and forget it
    aside: Mapping[str, str] = field(default_factory=dict)  # views that cannot be made any more, and why

    @property
    def empty(self) -> bool:
        """Say whether there is nothing to do."""
        if self.rebuilt:
            return False
        return not self.captured and all(it.kind in ("unchanged", "kept", "aside") for it in self.changes)

    @property
    def statements(self) -> tuple[str, ...]:
        """Return every statement that would be sent now."""
        return () if self.empty else (*self.definitions, *self.switches)

    def refuse_deaf(self) -> None:
        """Refuse what could not be kept: to such a node `cdc = true` means nothing."""
        if self.deaf and not self.empty:
            raise StoreError(
                "nodes keep no changes: cdc_enabled is false",
                where=", ".join(self.deaf),
                next_step="set cdc_enabled: true in cassandra.yaml, restart them, then again",
            )


def propose(
    views: Views, text: str, *, prune: bool = False, rebuild: bool = False, gone: str = ""
) -> Proposal:
    """Compare a text with the cluster; nothing is changed. `gone`: a view that is dropped.

    Any change is a new incarnation of all views: it is built beside the one that serves and then takes its place.
    """
    kept = views.kept()
    own = names_of(text, views.settings.views.published_keyspace)
    wanted, broken = beside(views, own, text, {n: it for n, it in kept.items() if not prune and n != gone})
    found = settled(
        changes(kept, [view for view in wanted if view.name in own], prune=prune),
        aside=kept.keys() - views.made().keys(),
        wanted=[view.name for view in wanted],
        gone=gone,
    )
    plan = maintenance_plan(wanted, views.bases())
    refuse_compact([base.name for base in plan.bases], static_compact(views.session))
    for view in wanted:
        check_timeline(view, views.settings)
    since = incarnation = views.catalog.incarnation() if kept else 0
    built = rebuild or any(change.kind in ("create", "replace", "drop") for change in found)
    incarnation += built
    names = Names(keyspace=views.settings.views.state_keyspace, incarnation=max(1, incarnation))
    keyspaces = {names.keyspace, *(view.name.split(".", 1)[0] for view in wanted)}
    layouts = list(names.layouts(plan))
    metadata = views.session.driver.cluster.metadata.keyspaces
    missing = sorted(keyspaces - {*metadata})
    made = [
        *(keyspace_statement(name, views.settings) for name in missing),
        *views.catalog.statements(),
        *definitions(views.session, layouts),
    ]
    used = (*(layout.name for layout in layouts), *broken)
    captured = [base.name for base in plan.bases if not _captured(views, base.name)]
    deaf: tuple[str, ...] = ()
    if filled_by_others(views.settings.feed.name):
        captured = []
    elif plan.bases:
        deaf = tuple(nodes_without(views.session, "cdc_enabled"))
    return Proposal(
        views=wanted,
        changes=found,
        definitions=tuple(made),
        captured=tuple(captured),
        switches=tuple(one for name in captured for one in switched(views, name, capture=True)),
        removals=tuple(dropped(name) for name in _outlived(views, names.incarnation, used)) if kept else (),
        incarnation=names.incarnation,
        tables=used,
        keyspaces=tuple(missing),
        filled=tuple(base.name for base in plan.bases if built and _has_rows(views, base.name)),
        since=since,
        rebuilt=rebuild,
        deaf=deaf,
        aside=broken,
    )


def beside(
    views: Views, own: set[str], text: str, kept: Mapping[str, CatalogView]
) -> tuple[tuple[DeclaredView, ...], Mapping[str, str]]:
    """Return the views of a text with those kept beside them, and which of these cannot be made any more, and why."""
    try:
        return together(views.parsed, own, text, kept), {}
    except SpecificationError:
        found = soundness(views.parsed, {name: view.statement for name, view in kept.items()})
        aside = {name: why for name, why in found.broken.items() if name not in own}
        if not aside:
            raise
    wanted = together(views.parsed, own, text, {n: view for n, view in kept.items() if n not in aside})
    if not wanted:
        raise found.refusal()
    return wanted, aside


def together(
    parse: Callable[[str], tuple[DeclaredView, ...]],
    own: set[str],
    text: str,
    kept: Mapping[str, CatalogView],
) -> tuple[DeclaredView, ...]:
    """Return the views of a text, whose names are `own`, with those kept beside them; either may read the other."""
    staying = {name: view.statement for name, view in kept.items() if name not in own}
    if not staying:
        return parse(text)
    try:
        found = parse("\n".join([*staying.values(), text]))
    except SpecificationError:
        parse(text)  # so that a mistake in it is told at its place
        try:
            found = parse("\n".join([text, *staying.values()]))
        except SpecificationError as refusal:
            raise SpecificationError(
                f"views that are kept cannot be made beside these: {refusal.what}",
                next_step="apply one text with all that read each other, or with --prune all there shall be",
            ) from None
    if gone := staying.keys() - {view.name for view in found}:
        raise SpecificationError(
            f"DROP of {', '.join(sorted(gone))}, which is kept", next_step="cvs drop VIEW"
        )
    return found


def refuse_compact(bases: Iterable[str], compact: Collection[str]) -> None:
    """Refuse tables with columns that no statement may name: no build could read them."""
    if found := [name for name in bases if name in compact]:
        raise SpecificationError(
            "views cannot be kept of a table WITH COMPACT STORAGE and no clustering column",
            where=", ".join(found),
            next_step="copy it into an ordinary table: after DROP COMPACT STORAGE its columns are static, "
            "and statics without a row beside them are in no view",
        )


def check_timeline(view: DeclaredView, settings: Settings) -> None:
    """Refuse to claim the order of write times where it cannot be kept, or not as fresh as is asked for (H12)."""
    if view.options.timeline != "write-time":
        return
    if filled_by_others(settings.feed.name):
        raise SpecificationError(
            f"{view.name} declares the base time-line write-time, and the feed's clocks are no nodes' clocks",
            where=settings.feed.name,
            next_step="declare 'cvs.timeline' = 'absorbed', or capture with `cvs capture`",
        )
    skew_ms, wanted = settings.pipeline.skew_ms, view.options.freshness_s
    if wanted is not None and wanted * 1000 <= skew_ms:
        raise SpecificationError(
            f"{view.name} is to be {wanted:g} s fresh, and the write-time line is shown {skew_ms:,} ms later",
            where="cvs.freshness",
            next_step="declare more, or a smaller `[pipeline] skew_ms` if clocks differ by less",
        )


def _outlived(views: Views, incarnation: int, used: tuple[str, ...]) -> list[str]:
    """Name the tables of older incarnations that a new one does not use."""
    lives = [life for number, life in views.catalog.lives().items() if number < incarnation]
    return sorted({table for life in lives for table in life.tables} - {*used})


def carry_out(views: Views, proposal: Proposal, *, whole_feed: bool = False) -> None:
    """Do what was proposed; each step may be repeated, so an interrupted apply is finished by another.

    `whole_feed`: the feed holds every write since the base tables were made, so none of them need be read.
    """
    if whole_feed and proposal.incarnation > 1:
        raise SpecificationError(
            "only the first incarnation of a pipeline can follow a feed from its beginning",
            next_step="leave --whole-feed out: the base tables are read",
        )
    proposal.refuse_deaf()
    own = views.settings.views.state_keyspace
    views.catalog.create(keyspace_statement(own, views.settings) if own in proposal.keyspaces else "")
    with views.catalog.alone():
        if (views.catalog.incarnation() if views.kept() else 0) != proposal.since:
            raise StoreError(
                "the views were changed meanwhile by another command",
                where=own,
                next_step="the same command again: it shows what it would do now",
            )
        _carry_out(views, proposal, whole_feed=whole_feed)


def _carry_out(views: Views, proposal: Proposal, *, whole_feed: bool) -> None:
    session, own = views.session, views.settings.views.state_keyspace
    for name in {*proposal.keyspaces} - {own}:  # before it is made, or an interrupted apply would leave it
        views.catalog.note_keyspace(name)
    for name in proposal.captured:
        views.catalog.note_captured(name)
    session.define_all((*proposal.definitions, *proposal.switches))
    plan = maintenance_plan(proposal.views, views.bases())
    names = Names(keyspace=own, incarnation=proposal.incarnation)
    if proposal.incarnation == views.catalog.incarnation():
        return  # because only captures were missing
    create(
        session,
        plan,
        names,
        replication=views.settings.views.replication_factor,
        build="" if whole_feed else f"{PREFIX}{uuid4().hex}",
    )
    text = "\n".join(statement_of(view) for view in proposal.views)
    views.catalog.put_life(CatalogLife(incarnation=proposal.incarnation, views=text, tables=proposal.tables))
    for change in proposal.changes:
        if change.kind == "drop":
            views.catalog.remove(change.name)
    views.catalog.put(proposal.views)
    views.catalog.set_incarnation(proposal.incarnation)  # the running pipeline looks at this


def retire(views: Views, incarnation: int, *, go_on: Callable[[], bool] = lambda: True) -> Iterator[str]:
    """Remove what older incarnations have of their own, once `incarnation` serves; tell each table.

    Each step may be repeated: what is left when it is not to go on the next start removes.
    """
    lives = views.catalog.lives()
    for table in _outlived(views, incarnation, lives[incarnation].tables):
        if not go_on():
            return
        drop_tables(views.session, [table])
        yield table
    for number in lives:
        if number < incarnation:
            forget(views.session, views.settings.views.state_keyspace, number)
            views.catalog.remove_life(number)


def keyspace_statement(name: str, settings: Settings) -> str:
    """Return the definition of a keyspace with the replication that the settings ask for."""
    replicas, datacenter = settings.views.replication_factor, settings.cluster.local_datacenter
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {quoted(name)} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', '{datacenter.replace(chr(39), chr(39) * 2)}': {replicas}}}"
    )


def switched(views: Views, table: str, *, capture: bool) -> tuple[str, ...]:
    """Return the statements that change a table of the user's: its `cdc`, and in the end nothing else.

    A prepared statement keeps the table as it was when it was prepared, its `cdc` too: applications would go on
    writing past the capture, or into a log that nobody reads. Cassandra forgets prepared statements where
    `gc_grace_seconds` changes (`TableMetadata.changeAffectsPreparedStatements`), so that moves by a second and back;
    drivers prepare again by themselves. A table that is gone needs nothing.
    """
    keyspace, name = table.split(".", 1)
    found = views.session.driver.cluster.metadata.keyspaces.get(keyspace)
    if found is None or name not in found.tables:
        return ()
    alter, grace = f"ALTER TABLE {_full(table)} WITH", int(found.tables[name].options["gc_grace_seconds"])
    return (
        f"{alter} cdc = {str(capture).lower()} AND gc_grace_seconds = {grace + 1}",
        f"{alter} gc_grace_seconds = {grace}",
    )


def _captured(views: Views, table: str) -> bool:
    keyspace, name = table.split(".", 1)
    options = views.session.driver.cluster.metadata.keyspaces[keyspace].tables[name].options
    return bool(options.get("cdc"))


def _has_rows(views: Views, table: str) -> bool:
    return bool(views.session.insist(f"SELECT * FROM {_full(table)} LIMIT 1"))


def dropped(table: str) -> str:
    """Return the statement that removes a table, if it is there."""
    return f"DROP TABLE IF EXISTS {_full(table)}"


def _full(table: str) -> str:
    return ".".join(quoted(part) for part in table.split(".", 1))
