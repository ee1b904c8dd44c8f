"""`cvs dump`: the views the cluster keeps, as a `views.sql`."""

import click

from cvs.cli.options import read_settings, settings_option
from cvs.cli.output import json_option, print_json, talk
from cvs.sidecar.views import opened_views


@click.command(name="dump")
@settings_option
@json_option
def command(settings_file: str | None, as_json: bool) -> None:
    """Write the views that the cluster keeps as statements that `cvs apply` takes.

    \b
    cvs dump > views.sql
    """
    with opened_views(read_settings(settings_file)) as views:
        kept = views.kept()
    if as_json:
        print_json("dump", {name: view.statement for name, view in kept.items()})
        return
    if not kept:
        talk().print("no view is applied yet")
        return
    click.echo("\n\n".join(view.statement for view in kept.values()))
