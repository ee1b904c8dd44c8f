"""`cvs status`: the views as an operator needs to see them, worst first."""

import time

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cvs.cli.answers import SidecarStatus, ask_sidecar
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.errors import ExitCode, MissingEnvironmentError
from cvs.sidecar.settings import Settings

WORST_FIRST = ("broken", "degraded", "building", "paused", "live")
SHOWN_MAX = 100  # drawing a thousand rows takes two seconds, and nobody reads them
COLOURS = {"broken": "red", "degraded": "yellow", "building": "blue", "paused": "dim", "live": "green"}


@click.command(name="status")
@settings_option
@click.option("--watch", is_flag=True, help="Keep showing it (needs a terminal; Ctrl-C ends).")
@json_option
def command(settings_file: str | None, watch: bool, as_json: bool) -> int:
    """Show each view's state, levels, lag and rows, and what the pipeline is doing.

    Asks the sidecar named in [http]. Exit code 1 if a view is broken or degraded.

    \b
    cvs status --watch
    """
    settings = read_settings(settings_file)
    status = ask_sidecar(settings)
    unwell = any(view["state"] in ("broken", "degraded") for view in status["views"])
    code = ExitCode.VIOLATED if unwell else ExitCode.MET
    if as_json:
        print_json("status", status, exit_code=code)
        return code
    out = console()
    if watch and out.is_terminal:
        _watch(settings)
        return ExitCode.MET
    out.print(_picture(status))
    return code


def _watch(settings: Settings) -> None:
    try:
        with Live(_picture(ask_sidecar(settings)), console=console(), screen=True) as live:
            while True:
                time.sleep(1.0)
                live.update(_now(settings))
    except KeyboardInterrupt:
        return


def _now(settings: Settings) -> Group:
    """Draw what the sidecar says now; one that is restarted is waited for."""
    try:
        return _picture(ask_sidecar(settings))
    except MissingEnvironmentError as silence:
        return Group(Text(f"{silence.what} at {silence.where} since it ended or was cut off", style="red"))


def _picture(status: SidecarStatus) -> Group:
    """Draw one status; names are text, never markup."""
    views = sorted(status["views"], key=lambda view: (WORST_FIRST.index(view["state"]), -view["lag_ms"]))
    table = Table(box=None, pad_edge=False)
    table.add_column("view", overflow="fold")
    for column in ("state", "declared", "audited"):
        table.add_column(column, no_wrap=True)
    for column in ("lag ms", "rows", "quarantined"):
        table.add_column(column, justify="right", no_wrap=True)
    unwell = any(view["problem"] for view in views)
    if unwell:
        table.add_column("problem")
    for view in views[:SHOWN_MAX]:
        cells = [
            Text(view["name"]),
            Text(view["state"], style=COLOURS[view["state"]]),
            view["declared_level"],
            view["audited_level"] or "not yet",
            f"{view['lag_ms']:,.0f}" if status["watermark"] else "-",
            f"{view['row_count']:,}",
            f"{view['quarantined_count']:,}",
        ]
        table.add_row(*cells, *([Text(view["problem"])] if unwell else []))
    role = "leads" if status["leader"] else "stands by"
    head = Text(
        f"{status['pipeline']}: {role} · epoch {status['committed_epoch']:,} · "
        f"{status['queued_change_count']:,} changes wait"
    )
    if status["timeline"]:
        head.append(f" · base time-line {status['timeline']}")
    if status["building"]:
        head.append(f"\na build goes on: {status['building']}")
    problems = [Text(f"problem: {problem}", style="red") for problem in status["problems"]]
    rest = len(views) - SHOWN_MAX
    more = [Text(f"and {rest:,} more, no worse: cvs status --json")] if rest > 0 else []
    return Group(*problems, head, Text(""), table, *more)
