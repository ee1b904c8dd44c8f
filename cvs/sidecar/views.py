"""The views of a cluster as commands use them: parsed from the catalog or a text, read, compared, removed."""

import difflib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from cassandra import InvalidRequest, Unauthorized, UnresolvableContactPoints

from cvs.client.control import control_if_any, read_control
from cvs.errors import SpecificationError, StoreError
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.identity import key_identity
from cvs.model.layout import quoted
from cvs.model.recompute import recompute
from cvs.model.stages import Typed
from cvs.model.types import normal_row
from cvs.model.views import BaseTable
from cvs.plan.cost import plan_cost
from cvs.plan.explain import Explanation
from cvs.plan.maintenance import maintenance_plan
from cvs.plan.relations import read_columns
from cvs.plan.sql import DeclaredView, base_names, parse_views
from cvs.plan.statistics import Statistics, Weights
from cvs.programs.epoch import BROKEN, BUILDING, LIVE, PUBLISHING, Control
from cvs.programs.epoch_run import told_key
from cvs.sidecar.catalog import Catalog, CatalogView
from cvs.sidecar.requests import Requests
from cvs.sidecar.scanning import TableScan, canonical_form, pages
from cvs.sidecar.settings import Settings
from cvs.sidecar.soundness import Soundness, soundness, statements_in
from cvs.sidecar.verification import Records, Report, Shown, caught_up, verify
from cvs.store.outcomes import UNANSWERED, words
from cvs.store.schema import base_tables
from cvs.store.session import CassandraSession, ClusterAddress, not_granted
from cvs.store.undecoded import TolerantHandler
from cvs.stream.quarantine import quarantined
from cvs.stream.tables import Names

Row = dict[str, Any]  # because columns have any CQL type
GOLDEN = 0.618
ASIDE = "it is left aside until the next cvs rebuild --all"
NAMED_MAX = 5  # of the views of a cluster, where one was named that is not there


def _types(columns: Typed) -> dict[str, CqlType]:
    return {name: parse_type(kind) for name, kind in columns}


def cluster_address(settings: Settings) -> ClusterAddress:
    """Return what a session needs of the settings."""
    cluster = settings.cluster
    return ClusterAddress(
        contact_points=cluster.contact_points,
        port=cluster.port,
        local_datacenter=cluster.local_datacenter,
        username=cluster.username,
        password=cluster.password.reveal if cluster.password else "",
        ca_file=cluster.ca_file,
        certificate_file=cluster.certificate_file,
        key_file=cluster.key_file.reveal if cluster.key_file else "",
        verify_hostname=cluster.verify_hostname,
        serial_consistency=cluster.serial_consistency,
        request_timeout_s=cluster.request_timeout_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a recipe of the serving incarnation is made from."""

    views_sql: str
    keyspaces: tuple[str, ...]
    names: Names
    broken: Mapping[str, str] = field(default_factory=dict)  # views that are left out, and why


@dataclass(slots=True, kw_only=True)
class Views:
    """An open cluster with its catalog."""

    session: CassandraSession
    settings: Settings

    @property
    def catalog(self) -> Catalog:
        """Return the bookkeeping of this pipeline."""
        return Catalog(self.session, keyspace=self.settings.views.state_keyspace)

    def kept(self) -> dict[str, CatalogView]:
        """Return the views the cluster keeps; none where nothing was ever applied."""
        keyspaces = self.session.driver.cluster.metadata.keyspaces
        found = keyspaces.get(self.settings.views.state_keyspace)
        if found is None or "catalog_views" not in found.tables:
            return {}
        self.catalog.check()
        return self.catalog.views()

    def bases(self) -> dict[str, BaseTable]:
        """Return the user's tables: everything that cvs did not make, also for views that are being taken away."""
        ours = {*self.kept()}
        if ours:
            ours |= {table for life in self.catalog.lives().values() for table in life.tables}
        state = self.settings.views.state_keyspace + "."
        return {
            n: t for n, t in base_tables(self.session).items() if n not in ours and not n.startswith(state)
        }

    def parsed(self, text: str) -> tuple[DeclaredView, ...]:
        """Parse a text against the live schema; views without a keyspace go into the published one."""
        return parse_views(text, self.bases(), keyspace=self.settings.views.published_keyspace)

    def made(self) -> dict[str, CatalogView]:
        """Return the kept views that belong to the newest incarnation: all but those it left aside."""
        kept = self.kept()
        life = self.catalog.lives().get(self.catalog.incarnation()) if kept else None
        return kept if life is None else {n: kept[n] for n in kept if n in statements_in(life.views)}

    def sound(self) -> Soundness:
        """Return the kept views that can be made of the base tables as they are, and why others cannot."""
        kept, made = self.kept(), self.made()
        found = soundness(self.parsed, {name: view.statement for name, view in made.items()})
        if kept.keys() <= made.keys():
            return found
        now = soundness(self.parsed, {name: view.statement for name, view in kept.items()})
        aside = {name: now.broken.get(name, ASIDE) for name in kept if name not in made}
        return replace(found, broken={**found.broken, **aside})

    def declared(self) -> tuple[DeclaredView, ...]:
        """Return the views of the newest incarnation; a base table that was changed since may make that impossible."""
        found = soundness(self.parsed, {name: view.statement for name, view in self.made().items()})
        if found.broken:
            raise found.refusal()
        return found.views

    def plans(self, declared: tuple[DeclaredView, ...]) -> dict[str, str]:
        """Return what is done for each view, in words."""
        plan = maintenance_plan(declared, self.bases())
        cost = plan_cost(plan, Statistics(), Weights())
        skew_ms = self.settings.pipeline.skew_ms
        explained = Explanation(views=declared, plan=plan, cost=cost, apart=cost, skew_ms=skew_ms)
        return {view.name: "\n".join([view.sql, "", *explained.view_lines(view, set())]) for view in declared}

    def serving(self) -> Serving:
        """Return the incarnation that readers see, for whoever reads its state."""
        keyspace = self.settings.views.state_keyspace
        incarnation = read_control(self.session, keyspace).signature.incarnation
        text = self.catalog.lives()[incarnation].views
        found = soundness(self.parsed, statements_in(text))
        if not found.views:
            raise found.refusal()
        bases = {base for it in found.views for base in base_names(it.definition)}
        return Serving(
            views_sql="\n".join(view.statement for view in found.views),
            keyspaces=tuple(
                sorted({base.split(".", 1)[0] for base in bases - {it.name for it in found.views}})
            ),
            names=Names(keyspace=keyspace, incarnation=incarnation),
            broken=found.broken,
        )

    def named(self, name: str) -> DeclaredView:
        """Return one kept view by its full or bare name; one that cannot be made is refused."""
        found = self.sound()
        full = full_name(name, [*(view.name for view in found.views), *found.broken])
        if full in found.broken:
            raise replace(found, broken={full: found.broken[full]}).refusal()
        return next(view for view in found.views if view.name == full)

    def asked_for(self, name: str | None) -> Soundness:
        """Return one kept view, or all of them; that there is none is said."""
        found = Soundness(views=(self.named(name),)) if name else self.sound()
        if not found.views and found.broken:
            raise found.refusal()
        if not found.views:
            raise not_applied()
        return found

    def building(self, view: DeclaredView) -> bool:
        """Say whether a view is not whole yet, so that nothing can be said of its rows."""
        control = self._control()
        if control is None:
            return False  # because nobody builds it
        pin = control.pin
        return pin.views.get(view.name, BUILDING if pin.views else LIVE) in (BUILDING, PUBLISHING)

    def broken(self, view: DeclaredView) -> bool:
        """Say whether the pipeline gave a view up: its base table was truncated, or changes of it were lost."""
        control = self._control()
        return control is not None and control.pin.views.get(view.name) == BROKEN

    def verify(self, view: DeclaredView, seconds: float) -> Report:
        """Compare a view with its base tables while writes go on; it gets at least some seconds to catch up.

        On the write-time line it lags by the skew bound.
        """
        bound = self.settings.pipeline.skew_ms / 1000 if view.options.timeline == "write-time" else 0.0

        rounds = count()

        def wait() -> bool:
            moment = time.time_ns() // 1000
            uneven = next(rounds) * GOLDEN % 1  # so that no writer's own period is met again and again
            time.sleep(bound + seconds * (1 + uneven))
            return caught_up(self._watermark, moment, clock=time.monotonic, pause=time.sleep)

        unread: set[str] = set()
        report = verify(
            view.name,
            expected=lambda: self._expected(view, unread),
            found=lambda: self._found(view),
            wait=wait,
        )
        broken = bool(report.differences) and self.broken(view)
        stopped = self.stopped(view) if report.differences and not broken else ""
        return replace(report, unread_count=len(unread), stopped=stopped, broken=broken)

    def stopped(self, view: DeclaredView) -> str:
        """Return the command that lets a view go on which stands still because it was told to; empty: none did."""
        if self.kept()[view.name].paused:
            return f"cvs resume {view.name}"
        requests = Requests(self.session, keyspace=self.settings.views.state_keyspace)
        return "cvs resume --all" if requests.halted() else ""

    def rows(self, view: DeclaredView, key: Mapping[str, Any] | None = None) -> list[Row]:
        """Read a published table, or the rows with given key columns, at QUORUM."""
        condition = "".join(f" {'AND' if n else 'WHERE'} {quoted(c)} = ?" for n, c in enumerate(key or {}))
        return self._select(view.name, condition, tuple((key or {}).values()))

    def count(self, view: DeclaredView) -> int:
        """Count the rows of a published table, page by page."""
        key = quoted(view.key.partition[0])
        return sum(len(page) for page in pages(self.session, view.name, key, view.key.partition))

    def _found(self, view: DeclaredView) -> Shown:
        names = [name for name, _ in view.columns]
        others = [quoted(name) for name in names if name not in view.key.columns]
        asked = ", ".join([*map(quoted, names), *(f"maxwritetime({name})" for name in others)])
        formed, width = canonical_form(view.columns), len(names)
        records, written = {}, {}
        for page in pages(self.session, view.name, asked, view.key.partition):
            for row in page:
                record = dict(zip(names, row[:width], strict=True))
                with suppress(SpecificationError):  # what no type of ours knows was put by others: it differs
                    formed(record)
                key = key_identity(record[c] for c in view.definition.key)
                records[key] = record
                written[key] = max((at for at in row[width:] if at is not None), default=0)
        return Shown(records=records, write_times=written, ours=self._ours(view))

    def _ours(self, view: DeclaredView) -> int:
        """Return the greatest write time that the pipeline may have used by now."""
        control = self._control()
        return control.pin.write_time(view.name) if control else 0  # what has not begun has put nothing

    def _watermark(self) -> int:
        """Return the moment up to which the views show what was written; 0: nothing is known."""
        control = self._control()
        return control.committed_watermark if control else 0

    def _control(self) -> Control | None:
        return control_if_any(self.session, self.settings.views.state_keyspace)

    def _expected(self, view: DeclaredView, unread: set[str]) -> Records:
        """Recompute a view from what the base tables hold now; rows are taken as they are read."""
        tables, needed, excluded = self.bases(), self._needed(view), self._quarantined()
        read: dict[str, set[str] | None] = {}
        for one in needed:
            for name, wanted in read_columns(one.definition.relation).items():
                before = read.get(name, set())
                read[name] = None if before is None or wanted is None else before | wanted
        base: dict[str, Iterable[Row]] = {}
        names: dict[str, BaseTable] = {}
        for name, wanted in read.items():
            if name in tables:
                base[name] = scan = TableScan.of(
                    self.session, tables[name], wanted, unread=unread, excluded=excluded
                )
                names[name] = scan.table
        records: dict[Any, Row] = {}
        for declared in needed:
            records = recompute(declared.definition, base, names)
            if excluded:
                records = {
                    key: row
                    for key, row in records.items()
                    if (declared.name, told_key(row[name] for name in declared.key.columns)) not in excluded
                }
            base[declared.name] = list(records.values())
            names[declared.name] = declared.table
        return {key: normal_row(_types(view.columns), row) for key, row in records.items()}

    def _quarantined(self) -> frozenset[tuple[str, str]]:
        """Return source and key of each row that contributes nothing."""
        control = self._control()
        if control is None:
            return frozenset()
        keyspace = self.settings.views.state_keyspace
        found = quarantined(self.session, keyspace, control.signature.incarnation)
        return frozenset((it.source, it.key) for it in found)

    def _needed(self, view: DeclaredView) -> list[DeclaredView]:
        """Return the views a view reads, directly or not, before itself."""
        needed = {view.name}
        ordered = self.sound().views
        for one in reversed(ordered):
            if one.name in needed:
                needed |= base_names(one.definition)
        return [one for one in ordered if one.name in needed]

    def _select(self, name: str, condition: str = "", values: tuple[Any, ...] = ()) -> list[Row]:
        keyspace, table = name.split(".", 1)
        statement = self.session.prepared(f"SELECT * FROM {quoted(keyspace)}.{quoted(table)}{condition}")
        result = self.session.driver.execute(statement.bind(values))
        names = result.column_names
        return [dict(zip(names, row, strict=True)) for row in result]


def full_name(name: str, known: Sequence[str]) -> str:
    """Return the full name of a view, given that or the bare one."""
    found = [it for it in known if it == name] or [it for it in known if it.split(".", 1)[1] == name]
    if not found:
        raise no_such_view(name, known)
    if len(found) > 1:
        raise SpecificationError(
            f'"{name}" is the name of {len(found)} views', next_step=f"say which: {' or '.join(found)}"
        )
    return found[0]


def no_such_view(name: str, known: Sequence[str]) -> SpecificationError:
    """Return the refusal of a name that is nobody's, with the nearest ones that are somebody's."""
    bare = [full.split(".", 1)[1] for full in known]
    close = difflib.get_close_matches(name.split(".")[-1], bare, n=NAMED_MAX)
    near = [full for it in dict.fromkeys(close) for full in known if full.split(".", 1)[1] == it][:NAMED_MAX]
    if near and len(known) > NAMED_MAX:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        more = f" and {len(known) - NAMED_MAX:,} more: cvs dump" if len(known) > NAMED_MAX else ""
        hint = f"views kept: {', '.join(known[:NAMED_MAX]) or 'none yet: `cvs apply views.sql`'}{more}"
    return SpecificationError(f'there is no view "{name}"', next_step=hint)


def not_applied() -> SpecificationError:
    """Return the refusal of what needs a view where there is none."""
    return SpecificationError("no view is applied yet", next_step="cvs apply views.sql")


def unanswered(silence: BaseException) -> StoreError:
    """Return what to say where a request got no answer and was not worth another."""
    if isinstance(silence, UnresolvableContactPoints):
        return StoreError("no contact point has an address", next_step="check contact_points of [cluster]")
    return StoreError(
        f"the cluster did not answer: {words(silence)}",
        next_step="see that a quorum of its nodes is up, then start it again",
    )


@contextmanager
def opened_views(settings: Settings) -> Iterator[Views]:
    """Open the cluster of the settings as a command needs it, and close it whatever happens."""
    session = CassandraSession(cluster_address(settings))
    views = Views(session=session, settings=settings)
    try:
        session.driver.client_protocol_handler = TolerantHandler  # base rows hold what Cassandra takes
        yield views
    except InvalidRequest:
        if settings.views.state_keyspace in session.driver.cluster.metadata.keyspaces:
            raise
        raise not_applied() from None
    except Unauthorized as refusal:
        raise not_granted(refusal, settings.cluster.username) from refusal
    except UNANSWERED as silence:
        raise unanswered(silence) from silence
    finally:
        session.close()
