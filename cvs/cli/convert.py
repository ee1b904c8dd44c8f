"""`cvs convert`: a history checked, merged, hidden, shortened, in another form."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from cvs.checker.export import jepsen_edn
from cvs.cli.options import read_settings, settings_option, text_of
from cvs.cli.output import console, json_option, print_json
from cvs.errors import HistoryError, SpecificationError
from cvs.history import codec, merge, parquet, validate
from cvs.history.checkpoint import rolled
from cvs.history.events import BaseUpdateCalled, RunStarted
from cvs.history.redact import redacted
from cvs.model.cql_type import parse_type
from cvs.model.definitions import definition_to_json
from cvs.model.values import many
from cvs.stream.recording import is_recording

PARQUET_MAGIC = b"PAR1"
COMPLAINTS_MAX = 10_000


@click.command(
    help="""Check histories, list everything wrong with them, and write them as one file.

    RUN are the files of one run's processes (NDJSON, plain or gzip or zstd, or Parquet), or a folder of them.
    The form of the output follows its name: .ndjson, .ndjson.gz, .ndjson.zst, .parquet, or .edn (the test-and-sets
    as Jepsen's registers, for Knossos and Elle); without --to the histories are only checked. The folder into which
    `cvs run` records becomes a history that can be judged anywhere, with the cluster of the settings. A history that
    only names its views gets their meaning from SQL: --define takes CREATE TABLE and CREATE MATERIALIZED VIEW.

    \b
    Examples:
      cvs convert run/history --to run.parquet
      cvs convert mine.ndjson --define views.sql --to run.ndjson
      cvs convert /var/lib/cvs/runs --to run.ndjson.zst --settings /etc/cvs/cvs.toml
    """
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--to", "target", type=click.Path(path_type=Path), help="The file to write.")
@click.option(
    "--define", "views_file", type=click.Path(path_type=Path), help="Tables and views of the run, in SQL."
)
@click.option("--forgive-torn", is_flag=True, help="Drop a torn last line, as a crash leaves it.")
@click.option("--roll", is_flag=True, help="Replace what came before the last rest by a checkpoint.")
@click.option(
    "--redact", "key_file", type=click.Path(path_type=Path), help="Hide values with this secret key."
)
@settings_option
@json_option
def command(
    runs: tuple[Path, ...],
    target: Path | None,
    views_file: Path | None,
    forgive_torn: bool,
    roll: bool,
    key_file: Path | None,
    settings_file: str | None,
    as_json: bool,
) -> None:
    """Read, check, change, write."""
    if is_recording(runs):
        from cvs.sidecar.recordings import history_of_recording  # as in `audit`

        files = [runs[0]]
        contents = [codec.history_bytes(history_of_recording(read_settings(settings_file), runs).events)]
    else:
        files = [file for run in runs for file in _files(run)]
        contents = [_read(file) for file in files]
    checked = [_checked(file, data) for file, data in zip(files, contents, strict=True)]
    if views_file is not None:
        checked = [_defined(one, views_file) for one in checked]
    events, between = merge.merged(checked)
    complaints = validate.Checked(file="between files", complaints=between)
    validate.require_valid([*checked, complaints], forgive_torn=forgive_torn, shown=COMPLAINTS_MAX)
    events = list(merge.typed(events))
    events = rolled(events) if roll else events
    events = redacted(events, _read(key_file)) if key_file is not None else events
    if target is not None:
        _write(target, events)
    digests = {str(file): codec.digest(data) for file, data in zip(files, contents, strict=True)}
    if as_json:
        print_json("convert", {"files": digests, "events": len(events), "to": str(target or "")})
        return
    written = f", written to {target}" if target is not None else ""
    console().print(f"{many(len(files), 'file')}, {many(len(events), 'event')}, all valid{written}")
    told = " --reference absorbed" if target is not None and is_recording(runs) else ""
    console().print(f"next: cvs audit {target or runs[0]}{told}")


def _defined(history: validate.Checked, views_file: Path) -> validate.Checked:
    """Give a history what its views and tables are; it is checked again by that."""
    from cvs.suite.user_views import user_views  # because few histories need it, and it loads the planner

    plainly = not any(
        "." in name for name in _names(history.events)
    )  # no keyspaces, as other systems have none
    said = user_views(("USE history; " if plainly else "") + text_of(views_file))
    views = {view.name: definition_to_json(view.definition) for view in said.views}
    tables = tuple(map(definition_to_json, said.tables.values()))
    columns = {view.name: {c: parse_type(kind) for c, kind in view.columns} for view in said.views}
    keys = {view.name: view.definition.key for view in said.views}
    if plainly:
        views = {_plain(name): {**_plainly(view), "name": _plain(name)} for name, view in views.items()}
        tables = tuple({**table, "name": _plain(table["name"])} for table in tables)
        columns = {_plain(name): types for name, types in columns.items()}
        keys = {_plain(name): key for name, key in keys.items()}

    def header(event: Any) -> Any:
        if not isinstance(event, RunStarted):
            return event
        named = [str(view.get("name")) for view in event.views]
        if strangers := set(named) - set(views):
            raise SpecificationError(
                f"{views_file} does not say what {', '.join(sorted(strangers))} is",
                where=history.file,
                next_step=f"it declares {', '.join(views)}; the history must use these names",
            )
        return msgspec.structs.replace(
            event, views=tuple(views[name] for name in named or views), tables=tables
        )

    events = merge.typed_views(map(header, history.events), columns, keys)
    found = validate.checked(codec.history_bytes(events), history.file)
    found.complaints = list(dict.fromkeys([*history.complaints, *found.complaints]))
    return found


def _names(events: Iterable[Any]) -> Iterable[str]:
    for event in events:
        if isinstance(event, RunStarted):
            yield from (str(view.get("name")) for view in event.views)
        elif isinstance(event, BaseUpdateCalled):
            yield event.table


def _plain(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _plainly(value: Any) -> Any:
    """Name tables without their keyspace, wherever a definition does."""
    if isinstance(value, dict):
        return {
            k: _plain(v) if k == "table" and isinstance(v, str) else _plainly(v) for k, v in value.items()
        }
    return [_plainly(each) for each in value] if isinstance(value, list | tuple) else value


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        p for p in path.rglob("*") if p.is_file() and (".ndjson" in p.name or p.suffix == ".parquet")
    )
    if not found:
        raise HistoryError(
            "no history in this folder", where=str(path), next_step="name .ndjson or .parquet files"
        )
    return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as refusal:
        raise HistoryError.unreadable(refusal.strerror, where=str(file)) from refusal


def _checked(file: Path, data: bytes) -> validate.Checked:
    if data[:4] == PARQUET_MAGIC:
        data = codec.history_bytes(_events_of_parquet(data, file))
    return validate.checked(codec.plain_bytes(data, where=str(file)), str(file))


def _events_of_parquet(data: bytes, file: Path) -> Iterable[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(io.BytesIO(data))
        parquet.require_schema(opened.schema_arrow, str(file))
        for batch in opened.iter_batches(batch_size=parquet.BATCH):
            yield from parquet.events_of(batch)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as damage:
        raise HistoryError(f"damaged Parquet: {damage}", where=str(file)) from damage


def _write(target: Path, events: Iterable[Any]) -> None:
    try:
        if target.suffix == ".parquet":
            _write_parquet(target, events)
        elif target.suffix == ".edn":
            target.write_text("".join(f"{line}\n" for line in jepsen_edn(list(events))), encoding="utf-8")
        else:
            target.write_bytes(codec.packed_bytes(codec.history_bytes(events), target.name))
    except OSError as refusal:
        raise SpecificationError(f"cannot be written: {refusal.strerror}", where=str(target)) from refusal


def _write_parquet(target: Path, events: Iterable[Any]) -> None:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(target, parquet.schema(), compression="zstd") as writer:
            for batch in parquet.batches_of(events):
                writer.write_batch(batch)
    except HistoryError:
        target.unlink()  # because what was written of it looks like a shorter history
        raise
