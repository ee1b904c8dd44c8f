"""Runs `StockReader.java`, Cassandra's own reader, on segments; writes our changes in the same words."""

import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cvs.capture.changes import Bound, Cell, Change, Column, Deletion, Kind, TableDefinition
from cvs.embedded.artifacts import jars
from cvs.embedded.configuration import EXPORTS, OPENS

SOURCE = Path(__file__).parent / "StockReader.java"


def compiled(folder: Path) -> Path:
    """Compile the reader; a JDK is needed, and its absence is said, not skipped."""
    assert shutil.which("javac"), "the differential test needs javac (a JDK, not only a runtime)"
    command = ["javac", "-Xlint:none", "-cp", _class_path(), "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def read(
    classes: Path, definitions: Iterable[TableDefinition], segments: list[Path], out: Path | None
) -> dict[str, Any]:
    """Let Cassandra's own reader read segments into `out` (none: only count); returns its counts and seconds."""
    schema = classes / "schema.tsv"
    schema.write_text(_schema(definitions))
    flags = [f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS]
    flags += [f"--add-opens={name}=ALL-UNNAMED" for name in OPENS]
    done = subprocess.run(
        [
            *("java", "-Xmx512M", *flags, "-cp", os.pathsep.join([_class_path(), str(classes)])),
            *("StockReader", str(schema), str(out) if out else "-", *map(str, segments)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def words(change: Change, table_id: str) -> str:
    """Write a change as `StockReader` does."""
    kind = Kind(change.kind)
    text = f"{kind.name} {table_id} {_hex(change.key)} "
    if kind in (Kind.RANGE_DELETION, Kind.PARTITION_DELETION):
        assert change.deletion
        text += _deletion(change.deletion)
        if change.range:
            text += _bound(change.range.start) + _bound(change.range.end)
        return text
    text += _values(change.clustering) if kind is Kind.ROW else ""
    if change.liveness:
        text += f" live {change.liveness.write_time}"
        if change.liveness.ttl:
            text += f" ttl {change.liveness.ttl} {change.liveness.expires_at}"
    text += f" {_deletion(change.deletion)}" if change.deletion else ""
    text += "".join(_cell(cell) for cell in change.cells if cell.path is None)
    elements = defaultdict(str)
    for name, deletion in change.complex_deletions:
        elements[name] += f" | emptied {name} {_deletion(deletion)}"
    for cell in change.cells:
        if cell.path is not None:
            elements[cell.column] += _cell(cell)
    return text + "".join(elements[name] for name in sorted(elements, key=str.encode))


def _cell(cell: Cell) -> str:
    path = f"[{_hex(cell.path)}]" if cell.path is not None else ""
    value = "gone" if cell.value is None else _hex(cell.value)
    expiry = f" ttl {cell.ttl} {cell.expires_at}" if cell.expires_at is not None else ""
    return f" | {cell.column}{path}={value}@{cell.write_time}{expiry}"


def _bound(bound: Bound) -> str:
    return f" {'incl' if bound.inclusive else 'excl'}{_values(bound.values)}"


def _values(values: tuple[bytes | None, ...]) -> str:
    return "(" + ",".join("null" if value is None else _hex(value) for value in values) + ")"


def _deletion(deletion: Deletion) -> str:
    return f"deleted {deletion.write_time} {deletion.deleted_at}"


def _hex(data: bytes) -> str:
    return f"0x{data.hex()}"


def _class_path() -> str:
    return os.pathsep.join(map(str, jars("cassandra")))


def _schema(definitions: Iterable[TableDefinition]) -> str:
    lines = {}
    for definition in definitions:
        for user_type in definition.user_types:
            names = ",".join(name for name, _ in user_type.fields)
            types = ";".join(text for _, text in user_type.fields)
            lines[f"T\t{definition.keyspace}\t{user_type.name}\t{names}\t{types}"] = None
        lines[f"C\t{definition.keyspace}\t{definition.id}\t{_create(definition)}"] = None
    return "\n".join(lines) + "\n"


def _create(definition: TableDefinition) -> str:
    def column(found: Column) -> str:
        return f'"{found.name}" {found.type}' + (" static" if found.kind.name == "STATIC" else "")

    columns = ", ".join(map(column, definition.columns))
    partition = ", ".join(f'"{c.name}"' for c in definition.partition_key)
    clustering = "".join(f', "{c.name}"' for c in definition.clustering)
    order = ", ".join(f'"{c.name}" {"DESC" if c.descending else "ASC"}' for c in definition.clustering)
    options = f" WITH CLUSTERING ORDER BY ({order})" if order else ""
    return f'CREATE TABLE "{definition.name}" ({columns}, PRIMARY KEY (({partition}){clustering})){options}'
