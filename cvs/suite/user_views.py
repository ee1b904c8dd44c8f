"""The user's own views: SQL and schema in, worlds of generated data, schedules and faults out, judged.

Data are drawn from the schema: a few keys a table, a few values a type, nulls, and the constants of the views
with their neighbours, so that every predicate has both sides. Small worlds on purpose: collisions, groups that
become empty and keys that move are where maintenance fails, and all base states can be searched.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice, product
from random import Random
from typing import Any
from uuid import UUID

from cvs.errors import SpecificationError
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.expressions import Literal
from cvs.model.layout import quoted
from cvs.model.levels import Granularity, Level
from cvs.model.recompute import recompute_all
from cvs.model.stages import Plan, Publication
from cvs.model.types import normal
from cvs.model.views import BaseTable
from cvs.plan.cql import tables_of_schema
from cvs.plan.maintenance import Choices, maintenance_plan
from cvs.plan.relations import scans
from cvs.plan.sql import DeclaredView, parse_views
from cvs.programs.machine import Key, Row
from cvs.simulate.epochs import EpochScenario, EpochWorld
from cvs.simulate.world import Timeline, Write
from cvs.suite.judged import Judgement, View, form, judged_by

BUCKETS = 2
KEYS_A_TABLE = 3
UPDATES = 8
NULL_SHARE = 0.15
DELETE_SHARE = 0.25
INITIAL_SHARE = 0.4

_STATEMENT = re.compile(r"(?:'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|[^;'\"])+;?|['\"]", re.S)
_SCHEMA = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:create\s+(?:table|keyspace|type|index)|use)\b", re.S | re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserViews:
    """A text of views over known tables, with its plan."""

    text: str
    tables: Mapping[str, BaseTable]
    views: tuple[DeclaredView, ...]
    plan: Plan

    def publication(self, view: DeclaredView) -> Publication:
        """Return the published table of a view."""
        return next(p for p in self.plan.publications if p.view == view.name)

    def bases_of(self, view: DeclaredView) -> tuple[str, ...]:
        """Return the base tables a view reads, through other views too."""
        declared = {v.name: v for v in self.views}
        found: dict[str, None] = {}
        for scan in scans(view.definition.relation):
            name = scan.table
            more = self.bases_of(declared[name]) if name in declared else (name,)
            found |= dict.fromkeys(more)
        return tuple(found)


def user_views(
    text: str, *, tables: Mapping[str, BaseTable] | None = None, keyspace: str | None = None
) -> UserViews:
    """Read views; their tables come from CREATE TABLE statements of the same text unless given."""
    known = tables if tables is not None else tables_of_schema(_schema_part(text))
    views = parse_views(_views_part(text), known, keyspace=keyspace)
    if not views:
        raise SpecificationError(
            "no view is declared", next_step="CREATE MATERIALIZED VIEW ... AS SELECT ..."
        )
    if tables is not None:
        text = _schema_of(known.values()) + text
    return UserViews(
        text=text, tables=known, views=views, plan=maintenance_plan(views, known, Choices(buckets=BUCKETS))
    )


def _schema_of(tables: Iterable[BaseTable]) -> str:
    """Write tables as CREATE TABLE statements, so that a story says all it is about."""
    lines = []
    for table in tables:
        name = ".".join(map(quoted, table.name.split(".")))
        columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in table.columns)
        partition = ", ".join(map(quoted, table.partition_key))
        key = ", ".join([f"({partition})", *map(quoted, table.clustering_key)])
        lines.append(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}));\n")
    return "".join(lines)


def _schema_part(text: str) -> str:
    return "".join(part for part in _STATEMENT.findall(text) if _SCHEMA.match(part))


def _views_part(text: str) -> str:
    """Blank the statements of the schema out; lines keep their numbers."""
    parts = _STATEMENT.findall(text)
    return "".join("\n" * part.count("\n") if _SCHEMA.match(part) else part for part in parts)


def constants(part: Any) -> Iterator[Any]:
    """Yield every constant of a definition."""
    if isinstance(part, Literal):
        yield part.value
    elif isinstance(part, tuple):
        for item in part:
            yield from constants(item)
    elif is_dataclass(part):
        for one in fields(part):
            yield from constants(getattr(part, one.name))


_FEW: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "timestamp": (datetime(2026, 1, 31, 10, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)),
    "date": (date(2026, 1, 31), date(2026, 2, 1)),
    "uuid": (UUID(int=1), UUID(int=2)),
    "timeuuid": (
        UUID("00000001-0000-1000-8000-000000000001"),
        UUID("00000002-0000-1000-8000-000000000001"),
    ),
    "blob": (b"a", b"b"),
    "inet": ("10.0.0.1", "10.0.0.2"),
    "duration": ("0mo1d0ns", "0mo2d0ns"),
    "float": (0.0, -0.0, 0.5, 2.0),
    "double": (0.0, -0.0, 0.5, 2.0),
    "decimal": (Decimal("1.00"), Decimal("1.0"), Decimal("2.5"), Decimal(0)),
} | dict.fromkeys(("text", "varchar", "ascii"), ("a", "b", "c"))

_INTEGERS = ("tinyint", "smallint", "int", "bigint", "varint", "time", "counter")


def values_of(kind: CqlType, known: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a few values of a type: of its own, and the constants of the views that fit, with neighbours.

    Some are equal and written otherwise (1.0 and 1.00, 0.0 and -0.0): they are one group, and one value of a join.
    """
    if kind.parts:
        inner = [values_of(part, ())[:2] for part in kind.parts]
        if kind.name == "vector":
            return tuple(normal(kind, [value] * kind.size) for value in values_of(kind.parts[0], ()))
        if kind.name in ("list", "set"):
            return tuple(normal(kind, some) for some in ([], *([value] for value in inner[0])))
        if kind.name == "map":
            return tuple(normal(kind, some) for some in ({}, *({inner[0][0]: value} for value in inner[1])))
        return tuple(tuple(each[at % len(each)] if each else None for each in inner) for at in (0, 1))
    found = [normal(kind, v) for v in _FEW.get(kind.name, (1, 2, 3, 0))]
    for constant in known:
        near = [constant]
        if isinstance(constant, int | Decimal) and not isinstance(constant, bool):
            near += [constant - 1, constant + 1]
        for value in near:
            try:
                fitting = normal(kind, value)
            except SpecificationError:
                continue
            if type(fitting) is type(found[0]):
                found.append(fitting)
    return tuple({repr(value): value for value in found}.values())


class Workload:
    """Draws base rows and updates for the tables of some views."""

    def __init__(self, user: UserViews) -> None:
        known = tuple(c for v in user.views for c in constants(v.definition) if c is not None)
        self.tables = {base.name: base for base in user.plan.bases}
        self.domains = {
            name: {c: values_of(parse_type(kind), known) for c, kind in table.columns}
            for name, table in self.tables.items()
        }

    def keys(self, table: str, random: Random) -> list[Key]:
        """Choose the few keys a run is about."""
        key = self.tables[table].key
        columns = []
        for name in key:
            values = list(dict.fromkeys(self.domains[table][name]))
            random.shuffle(values)
            columns.append(values[:KEYS_A_TABLE])
        every = list(islice(product(*columns), 64))
        random.shuffle(every)
        return every[: KEYS_A_TABLE if len(self.tables) == 1 else KEYS_A_TABLE - 1]

    def row(self, table: str, key: Key, random: Random) -> dict[str, Any]:
        """Draw a whole row."""
        row = dict(zip(self.tables[table].key, key, strict=True))
        for name, _ in self.tables[table].columns:
            if name not in row:
                row[name] = self._value(table, name, random)
        return row

    def _value(self, table: str, name: str, random: Random) -> Any:
        values = self.domains[table][name]
        return None if not values or random.random() < NULL_SHARE else random.choice(values)

    def update(
        self, table: str, now: Mapping[Key, Row | None], keys: list[Key], random: Random
    ) -> tuple[Key, Row | None]:
        """Insert, delete or change one row."""
        key = random.choice(keys)
        row = now.get(key)
        if row is None:
            return key, self.row(table, key, random)
        rest = [name for name in row if name not in self.tables[table].key]
        if not rest or random.random() < DELETE_SHARE:
            return key, None
        name = random.choice(rest)
        return key, {**row, name: self._value(table, name, random)}


def epoch_scenario(user: UserViews, workload: Workload, random: Random, *, updates: int) -> EpochScenario:
    """Make a world of the user's views."""
    keys = {name: workload.keys(name, random) for name in sorted(workload.tables)}
    rows: dict[str, dict[Key, Row | None]] = {name: {} for name in keys}
    initial: list[Write] = []
    for name, few in keys.items():
        for key in few:
            if random.random() < INITIAL_SHARE:
                rows[name][key] = row = workload.row(name, key, random)
                initial.append((name, key, row))
    writes: list[Write] = []
    for _ in range(updates):
        name = random.choice(sorted(keys))
        key, after = workload.update(name, rows[name], keys[name], random)
        rows[name][key] = after
        writes.append((name, key, after))
    return EpochScenario(
        plan=user.plan,
        initial=tuple(initial),
        writes=tuple(writes),
        drivers=random.choice((1, 2, 2, 3)),
        limit=random.choice((1, 3, 6)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenView:
    """One view of a run, as a judge wants it."""

    timelines: Mapping[tuple[str, Key], Timeline]
    initial: Mapping[Key, Row]
    shown: list[Any]


def judged_view(world: EpochWorld, user: UserViews, view: DeclaredView) -> Judgement:
    """Judge one view of a settled run: records as plain CQL shows them, the whole by snapshot reads.

    A view that keeps no state cannot be read by snapshot; its whole is what plain reads show.
    """
    tables = user.bases_of(view)
    publication = user.publication(view)

    def view_of(base: Mapping[str, list[Row]]) -> View:
        every = recompute_all(needed, _whole(base, user), user.tables)
        return _published(every[view.name].values(), publication)

    before = user.views[: user.views.index(view) + 1]
    reads_views = len({scan.table for scan in scans(view.definition.relation)} - set(tables)) > 0
    needed = [v.definition for v in (before if reads_views else (view,))]
    names = [name for name, _ in publication.columns]
    seen = SeenView(
        timelines=world.timelines,
        initial=_in_order(world.initial[view.name], names),
        shown=[(at, row) for at, row in world.shown[view.name]],
    )
    snapshots = [{key: form(row) for key, row in snapshot.items()} for snapshot in world.snapshots[view.name]]
    judgement = judged_by(seen, view_of, tables, snapshots=snapshots or None)
    if world.broken:
        return Judgement(record=Level.NOT_CONVERGED, view=Level.NOT_CONVERGED, worst=judgement.worst)
    return judgement


def _whole(base: Mapping[str, list[Row]], user: UserViews) -> dict[str, list[Row]]:
    return {table.name: base.get(table.name, []) for table in user.plan.bases}


def _in_order(rows: Mapping[Key, Row], names: list[str]) -> dict[Key, Row]:
    return {key: {name: row[name] for name in names} for key, row in rows.items()}


def _published(rows: Any, publication: Publication) -> View:
    """Return rows by published key; Cassandra has no row with a null in its key."""
    names = [name for name, _ in publication.columns]
    found: View = {}
    for row in rows:
        key = tuple(row[name] for name in publication.key)
        if None not in key:
            found[key] = form({name: row[name] for name in names})
    return found


def held(view: DeclaredView, judgement: Judgement) -> bool:
    """Say whether a run had the declared level at the declared granularity."""
    wanted = Level(view.options.level)
    if view.options.granularity == Granularity.VIEW.value and not judgement.view.reaches(wanted):
        return False
    return judgement.record.reaches(wanted)
