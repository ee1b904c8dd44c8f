"""`cvs quarantine`: the rows that contribute nothing to views, and why."""

import click
import msgspec

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.client.control import read_control
from cvs.errors import ExitCode
from cvs.model.values import many
from cvs.programs.epoch import place
from cvs.sidecar.views import not_applied, opened_views
from cvs.stream.quarantine import quarantined


@click.command(name="quarantine")
@settings_option
@json_option
def command(settings_file: str | None, as_json: bool) -> int:
    """List base rows that cannot be read and view rows that Cassandra cannot hold, each with the reason.

    They contribute nothing; their views are *degraded*. A row leaves when its base row is written well or deleted.
    Exit code 1 if there are any.

    \b
    cvs quarantine --json
    """
    settings = read_settings(settings_file)
    keyspace = settings.views.state_keyspace
    with opened_views(settings) as views:
        if not views.kept():
            raise not_applied()
        incarnation = read_control(views.session, keyspace).signature.incarnation
        found = quarantined(views.session, keyspace, incarnation)
    code = ExitCode.VIOLATED if found else ExitCode.MET
    if as_json:
        print_json("quarantine", msgspec.to_builtins(found), exit_code=code)
        return code
    out = console()
    for entry in found:
        out.print(f"{entry.source}  {entry.key}: {entry.reason} (since epoch {place(entry.epoch)})")
    out.print(f"{many(len(found), 'row')} in quarantine")
    return code
