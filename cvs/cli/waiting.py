"""Waiting for the running sidecar to build views, with a bar where somebody watches."""

import time
from collections.abc import Callable

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cvs.cli.answers import ask_sidecar
from cvs.cli.output import talk
from cvs.client.control import read_control
from cvs.errors import ExitCode, MissingEnvironmentError
from cvs.programs.epoch import BROKEN
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import Views

LOOK_SECONDS = 0.5
NOBODY = "no sidecar answers: `cvs run` builds the views"


def wait_served(views: Views, incarnation: int, *, pause: Callable[[float], None] = time.sleep) -> ExitCode:
    """Wait until readers see all of an incarnation; a bar on a terminal, else one line where something changes."""
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    out = talk()
    with Progress(*columns, console=out, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        said = ""
        while True:
            served = _served(views, incarnation)
            part, text = (1.0, "") if served is not None else _progress(views.settings)
            bar.update(task, completed=part, description=text)
            if served is not None:
                return served
            if text.startswith("given up"):
                out.print(text)
                return ExitCode.VIOLATED
            if not out.is_terminal and text.split(",")[0] != said:
                said = text.split(",")[0]
                out.print(text)
            pause(LOOK_SECONDS)


def _served(views: Views, incarnation: int) -> ExitCode | None:
    """Say how it ended; None: it goes on."""
    control = read_control(views.session, views.settings.views.state_keyspace)
    pin = control.pin
    if control.signature.incarnation < incarnation or pin.building or pin.publishing:
        return None
    return ExitCode.VIOLATED if BROKEN in pin.views.values() else ExitCode.MET


def _progress(settings: Settings) -> tuple[float, str]:
    try:
        status = ask_sidecar(settings)
    except MissingEnvironmentError:
        return 0.0, NOBODY
    return status["build_part"], status["building"] or "; ".join(status["problems"]) or "the sidecar begins"
