"""`cvs uninstall`: remove everything that cvs added, and nothing else."""

import sys

import click

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.errors import ExitCode, SpecificationError
from cvs.sidecar.apply import uninstall_statements, wait_stopped
from cvs.sidecar.views import opened_views
from cvs.store.session import CassandraSession


@click.command(name="uninstall")
@settings_option
@click.option("--dry-run", is_flag=True, help="Print the statements and send none.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(settings_file: str | None, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Drop every view and all state of cvs, and switch off the `cdc` that cvs switched on.

    End `cvs run` first: while a sidecar keeps the views this is refused.

    \b
    cvs uninstall --dry-run
    """
    settings = read_settings(settings_file)
    with opened_views(settings) as views:
        statements = (
            uninstall_statements(views) if settings.views.state_keyspace in _keyspaces(views.session) else ()
        )
        if statements and not dry_run:
            if not yes:
                _refuse_unasked(as_json)
            wait_stopped(views)  # before it tells what it would remove, and asks
        if not as_json:
            console().print("\n".join(f"{s};" for s in statements) or "nothing of cvs is here")
        agreed = bool(statements) and not dry_run and (yes or click.confirm("Remove all of this?"))
        if agreed:
            wait_stopped(views)  # one may have been started while it was asked
        for statement in statements if agreed else ():
            views.session.define(statement)
    if agreed and not as_json:
        console().print("removed")
    if as_json:
        print_json("uninstall", {"removed": agreed, "statements": statements})
    return ExitCode.MET


def _keyspaces(session: CassandraSession) -> set[str]:
    return set(session.driver.cluster.metadata.keyspaces)


def _refuse_unasked(as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise SpecificationError("nobody to ask", next_step="look with --dry-run, agree with --yes")
