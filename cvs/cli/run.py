"""`cvs run`: the sidecar: keeps the applied views, serves the status page."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
from cassandra import InvalidRequest, Unauthorized

from cvs.cli.options import read_settings, settings_option
from cvs.errors import CvsError, ExitCode, MissingEnvironmentError
from cvs.programs.stage_bucket import ALL_RULES
from cvs.sidecar.lifecycle import serve
from cvs.sidecar.logs import logger
from cvs.sidecar.settings import Settings
from cvs.sidecar.views import unanswered
from cvs.store.outcomes import UNANSWERED
from cvs.store.session import not_granted
from cvs.stream.runner import RunSettings


@click.command(name="run")
@settings_option
# For tests and the demonstration: fall after so many rounds of test-and-sets, or go without a rule.
@click.option("--kill-at", default=0, hidden=True)
@click.option("--stop-at", default=0, hidden=True)
@click.option("--without-signatures", is_flag=True, hidden=True)
def command(settings_file: str | None, kill_at: int, stop_at: int, without_signatures: bool) -> int:
    """Keep the applied views: epochs from the feed, through Spark, into their tables. Until SIGTERM.

    Serves the status page, metrics and health. A second one on the same settings stands by and takes over.
    Logs are JSON lines on stderr, words on a terminal.

    \b
    cvs run --settings /etc/cvs/cvs.toml
    """

    def falling(settings: RunSettings) -> RunSettings:
        return replace(
            settings,
            rules=replace(ALL_RULES, signatures=not without_signatures),
            fall_at=kill_at or stop_at,
            fall_by="kill" if kill_at else "stop",
        )

    log = logger()
    try:
        _serve(read_settings(settings_file), log, falling)
    except CvsError as refusal:
        more = {"where": refusal.where, "next": refusal.next_step}
        log.error(refusal.what, **{name: it for name, it in more.items() if it})  # noqa: TRY400 -- because it says all
        return refusal.exit_code
    except Exception as fault:
        what = f"a mistake of ours: {type(fault).__name__}: {fault}"
        log.error(what, exc_info=True)
        return ExitCode.OUR_FAULT
    return ExitCode.MET


def _serve(settings: Settings, log: Any, alter: Callable[[RunSettings], RunSettings]) -> None:
    try:
        serve(settings, log=log, alter=alter)
    except OSError as refusal:  # the disk of a recording, of a feed: nothing is lost that was not captured
        folders = f"{settings.feed.name} or {settings.recording.folder}"
        raise MissingEnvironmentError.of_system(
            refusal, where=folders, next_step="mend it and start again: everything goes on where it stands"
        ) from refusal
    except InvalidRequest:
        raise
    except Unauthorized as refusal:
        raise not_granted(refusal, settings.cluster.username) from refusal
    except UNANSWERED as silence:
        raise unanswered(silence) from silence
