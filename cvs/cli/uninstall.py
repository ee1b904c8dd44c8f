"""`cvs uninstall`: remove everything that cvs added, and nothing else."""

import sys

import click

from cvs.capture.opening import filled_by_others
from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import console, json_option, print_json
from cvs.errors import ExitCode, SpecificationError
from cvs.sidecar.settings import Settings
from cvs.sidecar.uninstalling import Removal, carry_out_removal, removal, wait_stopped
from cvs.sidecar.views import opened_views
from cvs.store.session import CassandraSession


@click.command(name="uninstall")
@settings_option
@click.option("--dry-run", is_flag=True, help="Print the statements and send none.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(settings_file: str | None, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Drop every view and all state of cvs, and switch off the `cdc` that cvs switched on.

    End `cvs run` first: while a sidecar keeps the views this is refused. Where another pipeline of the cluster keeps
    views of a base table too, its `cdc` stays on; the last of them switches it off.

    \b
    cvs uninstall --dry-run
    """
    settings, forgotten = read_settings(settings_file), {}
    with opened_views(settings) as views:
        found = removal(views) if settings.views.state_keyspace in _keyspaces(views.session) else Removal()
        if found.statements and not dry_run:
            if not yes:
                _refuse_unasked(as_json)
            wait_stopped(views)  # before it tells what it would remove, and asks
        if not as_json:
            console().print("\n".join(f"{s};" for s in found.statements) or "nothing of cvs is here")
            for table, others in found.shared.items():
                console().print(f"-- cdc of {table} stays on: {', '.join(others)} keeps views of it too")
        agreed = bool(found.statements) and not dry_run and (yes or click.confirm("Remove all of this?"))
        if agreed:
            wait_stopped(views)  # one may have been started while it was asked
            forgotten = carry_out_removal(views, found)
    if agreed and not as_json:
        console().print("removed" + _left(settings))
        for table, others in forgotten.items():
            console().print(
                f"cdc of {table} is left to you: this role may not note it for {', '.join(others)}; switch it off "
                "by hand (docker/OPERATE.md) after `cvs uninstall` there"
            )
    if as_json:
        told = {"removed": agreed, "statements": found.statements}
        print_json("uninstall", {**told, "cdc_stays_on": found.shared, "cdc_left_to_you": sorted(forgotten)})
    return ExitCode.MET


def _left(settings: Settings) -> str:
    """Name what is outside of the cluster: whoever has really done with cvs ends and deletes it."""
    left = [] if filled_by_others(settings.feed.name) else [f"captures and their feed ({settings.feed.name})"]
    left += [f"the recording ({settings.recording.folder})"] if settings.recording.enabled else []
    return f"; left to you, outside of the cluster: {', '.join(left)}" if left else ""


def _keyspaces(session: CassandraSession) -> set[str]:
    return set(session.driver.cluster.metadata.keyspaces)


def _refuse_unasked(as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise SpecificationError("nobody to ask", next_step="look with --dry-run, agree with --yes")
