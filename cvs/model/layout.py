"""Layout of every table cvs owns: DELTA, state, published, control; as data and as CQL.

Columns of the state tables are PROTOCOL section 2 word by word; DELTA's are section 3; published tables are
section 5. gc_grace is never zero (H27: a put delayed past it would resurrect).
"""

import re
import zlib
from dataclasses import dataclass, replace

from cvs.errors import SpecificationError
from cvs.model.cql_type import CqlType, parse_type
from cvs.model.stages import Plan, Publication, Typed

GC_GRACE_SECONDS = 864_000
MAX_NAME = 48  # because Cassandra refuses longer table names
CUT = MAX_NAME - 9  # where a checksum follows
_PLAIN = re.compile(r"[a-z][a-z0-9_]*\Z")
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        "add allow alter and apply asc authorize batch begin by columnfamily create default delete desc "
        "describe drop entries execute from full grant if in index infinity insert into is keyspace "
        "limit materialized mbean mbeans modify nan norecursive not null of on or order primary rename "
        "replace revoke schema select set table to token truncate unlogged unset update use using view "
        "where with",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """One table: full name, columns, primary key, static columns, comment and options."""

    name: str
    columns: Typed
    partition_key: tuple[str, ...]
    clustering: tuple[tuple[str, bool], ...] = ()
    static: tuple[str, ...] = ()
    comment: str = ""


STATE_COLUMNS: Typed = (
    ("bucket", "int"),
    ("incarnation", "bigint"),
    ("epoch", "bigint"),
    ("chunk", "int"),
    ("last", "boolean"),
    ("row", "blob"),
    ("stored", "blob"),
)
"""A row's (now, epoch, alive, before, before_epoch, alive_before) are one cell: writing, promising, logging and reading
it costs half of what six cells cost."""


def state_table(keyspace: str, zone: str) -> TableLayout:
    """Return the layout of a zone's state: fixed buckets, each under one permanent static signature."""
    return TableLayout(
        name=f"{keyspace}.{_short('state_' + zone)}",
        columns=STATE_COLUMNS,
        partition_key=("bucket",),
        clustering=(("row", False),),
        static=("incarnation", "epoch", "chunk", "last"),
        comment="cvs state: written by test-and-set only",
    )


def delta_table(keyspace: str, base: str) -> TableLayout:
    """Return the layout of DELTA of one base table: one blob a base row, put with epoch timestamps."""
    return TableLayout(
        name=f"{keyspace}.{_short('delta_' + base.replace('.', '_'))}",
        columns=(("bucket", "int"), ("base_key", "blob"), ("image", "blob")),
        partition_key=("bucket",),
        clustering=(("base_key", False),),
        comment="cvs DELTA: Cassandra's own reconciliation of one base table",
    )


def is_delta_of(table: str, base: str) -> bool:
    """Say whether a table is DELTA of a base table, in some incarnation; names cut alike are taken for it."""
    stem = _plain(f"delta_{base.replace('.', '_')}")
    if len(stem) >= CUT:
        return table.startswith(stem[:CUT])
    return re.fullmatch(rf"{stem}_\d+(_[0-9a-f]{{8}})?", table) is not None


def published_table(publication: Publication) -> TableLayout:
    """Return the layout of a published table: exactly the declared columns and key, nothing else.

    Collections are frozen: a list put twice would have its elements twice, since Cassandra names each anew.
    """
    return TableLayout(
        name=publication.table,
        columns=tuple((name, published_type(kind)) for name, kind in publication.columns),
        partition_key=publication.partition_key,
        clustering=publication.clustering,
        comment=f"cvs view {publication.view}: written by cvs alone",
    )


def published_type(kind: str) -> str:
    """Return the type a published column has: a user type, known in its own keyspace only, as a tuple of its fields."""
    found = parse_type(kind)
    split = found.name in ("list", "set", "map", "udt")
    return str(replace(_anywhere(found), frozen=found.frozen or split))


def _anywhere(kind: CqlType) -> CqlType:
    parts = tuple(_anywhere(part) for part in kind.parts)
    if kind.name == "udt":
        return replace(kind, name="tuple", parts=parts, fields=())
    return replace(kind, parts=parts)


def tables(plan: Plan, keyspace: str) -> tuple[TableLayout, ...]:
    """Return every table a plan needs beside the control row: DELTA, state, published."""
    deltas = tuple(delta_table(keyspace, base.name) for base in plan.bases)
    states = tuple(state_table(keyspace, zone.name) for zone in plan.zones)
    return deltas + states + tuple(published_table(p) for p in plan.publications)


def quoted(identifier: str) -> str:
    """Return an identifier as CQL wants it, in quotes only where they are needed."""
    if _PLAIN.match(identifier) and identifier not in _RESERVED:
        return identifier
    if not identifier or "\0" in identifier:
        raise SpecificationError(
            "an empty name cannot be written in CQL", next_step="name the column with AS"
        )
    return '"' + identifier.replace('"', '""') + '"'


def create_statement(table: TableLayout) -> str:
    """Return `CREATE TABLE IF NOT EXISTS` for a layout."""
    lines = [f"  {quoted(n)} {t}{' static' if n in table.static else ''}," for n, t in table.columns]
    partition = ", ".join(quoted(name) for name in table.partition_key)
    clustering = "".join(f", {quoted(name)}" for name, _ in table.clustering)
    keyspace, name = table.name.split(".", 1)
    options = [f"gc_grace_seconds = {GC_GRACE_SECONDS}", "read_repair = 'BLOCKING'"]
    options.append(f"comment = '{table.comment.replace(chr(39), chr(39) * 2)}'")
    if table.clustering:
        order = ", ".join(f"{quoted(n)} {'DESC' if down else 'ASC'}" for n, down in table.clustering)
        options.insert(0, f"CLUSTERING ORDER BY ({order})")
    head = f"CREATE TABLE IF NOT EXISTS {quoted(keyspace)}.{quoted(name)} (\n"
    key = f"  PRIMARY KEY (({partition}){clustering})\n"
    return head + "\n".join(lines) + "\n" + key + ") WITH " + "\n  AND ".join(options)


def _short(name: str) -> str:
    """Cut a table name to what Cassandra takes, keeping it different by a checksum of the whole."""
    plain = _plain(name)
    if len(plain) <= MAX_NAME and plain == name:
        return plain
    return f"{plain[:CUT]}_{zlib.crc32(name.encode()):08x}"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", name.lower())
