"""`cvs status`: the views as an operator needs to see them, worst first."""

import time
from typing import Any, Literal

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cvs.cli.answers import SidecarStatus, ask_sidecar
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.errors import ExitCode, MissingEnvironmentError
from cvs.model.values import many
from cvs.programs.epoch import place
from cvs.sidecar.settings import Settings

WORST_FIRST = ("broken", "degraded", "building", "paused", "live")
SHOWN_MAX = 100  # drawing a thousand rows takes two seconds, and nobody reads them
LEAST_FIRST = (
    "declared",
    "audited",
    "quarantined",
    "rows",
    "lag ms",
)  # what gives way where the screen is narrow
NUMBERS = ("lag ms", "rows", "quarantined")
PROBLEM_WIDTH = 40  # it is folded at words
GAP = 2  # between columns
STAND_STILL = ("paused", "broken")  # the lag of the others, which go on, is not theirs
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
    out.print(_picture(status, out.width))
    return code


def _watch(settings: Settings) -> None:
    try:
        out = console()
        with Live(_picture(ask_sidecar(settings), out.width, out.height), console=out, screen=True) as live:
            while True:
                time.sleep(1.0)
                live.update(_now(settings, out.width, out.height))
    except KeyboardInterrupt:
        return


def _now(settings: Settings, width: int, height: int) -> Group:
    """Draw what the sidecar says now; one that is restarted is waited for."""
    try:
        return _picture(ask_sidecar(settings), width, height)
    except MissingEnvironmentError as silence:
        return Group(_line(f"{silence.what} at {silence.where} since it ended or was cut off", style="red"))


def _line(text: str, *, style: str = "") -> Text:
    """Make a line that goes on in the next where the screen ends: a live one cuts off what goes beyond it."""
    return Text(text, style=style, no_wrap=False, overflow="fold")


def _picture(status: SidecarStatus, width: int, height: int = 0) -> Group:
    """Draw one status; names are text, never markup. `height`: of the screen; 0: it goes on below."""
    views = sorted(status["views"], key=lambda view: (WORST_FIRST.index(view["state"]), -view["lag_ms"]))
    role = "leads" if status["leader"] else "stands by"
    head = _line(
        f"{status['pipeline']}: {role} · epoch {place(status['committed_epoch'])} · "
        f"{many(status['queued_change_count'], 'change waits', 'changes wait')}"
    )
    if status["timeline"]:
        head.append(f" · base time-line {status['timeline']}")
    if status["building"]:
        head.append(f"\na build goes on: {status['building']}")
    above = [*(_line(f"problem: {problem}", style="red") for problem in status["problems"]), head, Text("")]
    most = SHOWN_MAX
    if height:
        room = (
            height - sum(len(line.wrap(console(), width)) for line in above) - 1
        )  # for the names of the columns
        most = min(
            most, room if len(views) <= room else max(1, room - 1)
        )  # for how many there is no room for
    rest = len(views) - most
    more = [_line(f"and {rest:,} more, no worse: cvs status --json")] if rest > 0 else []
    shown = _cells(views[:most], clock=bool(status["watermark"]))
    return Group(*above, _table(shown, width), *more)


def _cells(views: list[dict[str, Any]], *, clock: bool) -> dict[str, list[Text]]:
    """Return the columns, in their order, with what stands in them."""
    columns = {
        "view": [Text(view["name"]) for view in views],
        "state": [Text(view["state"], style=COLOURS[view["state"]]) for view in views],
        "declared": [Text(view["declared_level"]) for view in views],
        "audited": [Text(view["audited_level"] or "not yet") for view in views],
        "lag ms": [
            Text(f"{view['lag_ms']:,.0f}" if clock and view["state"] not in STAND_STILL else "-")
            for view in views
        ],
        "rows": [Text(f"{view['row_count']:,}") for view in views],
        "quarantined": [Text(f"{view['quarantined_count']:,}") for view in views],
    }
    if any(view["problem"] for view in views):
        columns["problem"] = [Text(view["problem"]) for view in views]
    return columns


def _table(columns: dict[str, list[Text]], width: int) -> Table:
    """Draw the columns that have room: a name that is folded letter by letter is read by nobody."""
    needed = {name: max([len(name), *(len(cell) for cell in cells)]) for name, cells in columns.items()}
    if "problem" in needed:
        needed["problem"] = min(needed["problem"], PROBLEM_WIDTH)
    for name in LEAST_FIRST:
        if sum(needed.values()) + GAP * (len(needed) - 1) > width:
            del needed[name]
    table = Table(box=None, pad_edge=False)
    for name in needed:
        justify: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name not in ("view", "problem"))
    for cells in zip(*(columns[name] for name in needed), strict=True):
        table.add_row(*cells)
    return table
