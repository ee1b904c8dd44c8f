"""`cvs node`: a real Apache Cassandra in the background, from one command."""

import time
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from cvs.cli.output import console, json_option, print_json, talk
from cvs.embedded import service
from cvs.embedded.cql import Client, describe_failure
from cvs.errors import ExitCode, SpecificationError

folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path, resolve_path=True),
    help="Where the nodes keep everything.",
)


@click.group()
def command() -> None:
    """Start and use a real Cassandra on this machine, for trying things out.

    \b
    cvs node start
    cvs node cql "SELECT release_version FROM system.local"
    cvs node stop
    """


@command.command()
@click.option("--nodes", type=click.IntRange(1, service.NODES_MAX), help="How many nodes (default 1).")
@click.option(
    "--heap", help=f"Java heap of each node (default {service.HEAP}, or as before in a folder that is there)."
)
@click.option("--port", default=9042, show_default=True, help="Port for clients.")
@click.option("--own-addresses", is_flag=True, help="Use free addresses 127.x.y.n instead of 127.0.0.n.")
@folder_option
@json_option
def start(
    nodes: int | None, heap: str | None, port: int, own_addresses: bool, folder: Path | None, as_json: bool
) -> None:
    """Start nodes in the background; returns when clients can connect.

    \b
    cvs node start --nodes 3
    """
    where = folder or service.default_folder()
    began = time.monotonic()
    talker = talk()
    bar = Progress(
        TextColumn("fetching jars"), BarColumn(), MofNCompleteColumn(), console=talker, transient=True
    )
    task = bar.add_task("jars", start=False)

    def fetched(done: int, wanted: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=wanted)
        if done == wanted:
            bar.stop()

    try:
        layout = service.start(
            where,
            nodes=nodes,
            heap=heap,
            native_port=port,
            own_addresses=own_addresses,
            progress=fetched,
            say=talker.print,
        )
    finally:
        bar.stop()
    seconds = round(time.monotonic() - began, 1)
    answer = {
        "contact_points": layout.addresses,
        "port": layout.native_port,
        "seconds": seconds,
        "dir": str(where),
    }
    if as_json:
        print_json("node start", answer)
        return
    points = ", ".join(layout.addresses)
    console().print(
        f"Cassandra is ready after {seconds} s: {points}, port {layout.native_port}. It keeps running;"
    )
    stop = "cvs node stop" + ("" if folder is None else f" --dir {where}")
    console().print(f"`{stop}` ends it. Data and logs: {where}")


@command.command()
@folder_option
@json_option
def status(folder: Path | None, as_json: bool) -> int:
    """Show the nodes of a folder; exit code 1 unless all are ready.

    \b
    cvs node status
    """
    where = folder or service.default_folder()
    states = service.status(where)
    healthy = bool(states) and all(state.state == "ready" for state in states)
    code = ExitCode.MET if healthy else ExitCode.VIOLATED
    if as_json:
        print_json("node status", {"dir": str(where), "nodes": states}, exit_code=code)
        return code
    if not states:
        console().print(f"No nodes in {where}; `cvs node start` makes one.")
        return code
    table = Table("node", "address", "state", "pid", "resident", "log", box=None)
    for state in states:
        resident = f"{state.resident_mb} MB" if state.resident_mb else "-"
        address = f"{state.address}:{state.native_port}"
        table.add_row(str(state.number), address, state.state, str(state.pid or "-"), resident, state.log)
    console().print(table)
    return code


@command.command()
@folder_option
@json_option
def stop(folder: Path | None, as_json: bool) -> None:
    """Drain and stop the nodes of a folder; their data stays.

    \b
    cvs node stop
    """
    where = folder or service.default_folder()
    ended = service.stop(where, say=talk().print)
    if as_json:
        print_json("node stop", {"dir": str(where), "stopped": ended})
    elif not ended:
        console().print(f"No node of {where} was running.")


@command.command()
@click.option("--node", "number", default=1, show_default=True, help="Which node.")
@click.option("-n", "--lines", default=40, show_default=True, help="How many of the last lines.")
@folder_option
def logs(number: int, lines: int, folder: Path | None) -> None:
    """Print the end of a node's log.

    \b
    cvs node logs -n 100
    """
    where = folder or service.default_folder()
    file = where / f"node{number}" / "system.log"
    if not file.exists():
        raise SpecificationError(f"node {number} has no log", where=str(file), next_step="`cvs node start`")
    for line in file.read_text(errors="replace").splitlines()[-lines:]:
        click.echo(line)


@command.command()
@click.argument("statement")
@click.option("--consistency", default="QUORUM", show_default=True, help="Consistency level.")
@folder_option
@json_option
def cql(statement: str, consistency: str, folder: Path | None, as_json: bool) -> None:
    """Run one CQL statement on the nodes of a folder.

    \b
    cvs node cql "SELECT key, release_version FROM system.local"
    """
    where = folder or service.default_folder()
    layout = service.read_layout(where)
    if layout is None:
        raise SpecificationError("there are no nodes yet", where=str(where), next_step="`cvs node start`")
    place = f"{layout.addresses[0]}:{layout.native_port}"
    with describe_failure(place), Client(layout.addresses, layout.native_port) as client:
        names, rows = client.table(statement, consistency=consistency)
    if as_json:
        print_json("node cql", [dict(zip(names, row, strict=True)) for row in rows])
        return
    _print_rows(names, rows)


def _print_rows(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    if not names:
        return
    table = Table(*names, box=None)
    for row in rows:
        table.add_row(*("null" if value is None else str(value) for value in row))
    console().print(table)
